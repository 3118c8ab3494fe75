//! Which bundles of a catalog are meant: `PACKAGE`, or `PACKAGE@RANGE`.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use anyhow::Context as _;

use super::Streams;
use super::open::Packages;
use crate::fbc::package::PackageContents;
use crate::version::range::Range;

/// A package, and which of its versions.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    package: String,
    /// The range and its text; all versions when there is none.
    range: Option<(Range, String)>,
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (package, range) = match text.split_once('@') {
            Some((package, range)) => (package, Some(range)),
            None => (text, None),
        };
        if package.is_empty() || package.contains(['/', '\\']) || package.starts_with('.') {
            return Err("expected PACKAGE or PACKAGE@RANGE".to_owned());
        }
        let range = range.map(|range| match Range::parse(range) {
            Ok(parsed) => Ok((parsed, range.to_owned())),
            Err(error) => Err(error.to_string()),
        });
        Ok(Self {
            package: package.to_owned(),
            range: range.transpose()?,
        })
    }
}

/// The bundles that are selected, by package: of all packages when nothing is.
///
/// `None`, with a complaint, when a package is not there, cannot be read, or has no such version.
///
/// # Errors
/// When the complaint cannot be written.
pub(super) fn bundles<'a>(
    packages: &'a Packages,
    selections: &[Selection],
    streams: &mut Streams<'_>,
) -> anyhow::Result<Option<BTreeMap<&'a str, BTreeSet<&'a str>>>> {
    let mut chosen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    if selections.is_empty() {
        for name in packages.keys() {
            let Some(package) = super::package(packages, name, streams)? else {
                return Ok(None);
            };
            chosen.insert(name, names(package, None));
        }
        return Ok(Some(chosen));
    }
    for selection in selections {
        let Some(package) = super::package(packages, &selection.package, streams)? else {
            return Ok(None);
        };
        let found = names(package, selection.range.as_ref().map(|(range, _)| range));
        if found.is_empty() {
            let range = selection.range.as_ref().map(|(_, text)| text.as_str());
            let message = match range {
                Some(range) => format!(
                    "package {:?} has no bundle in range {range:?}",
                    package.name
                ),
                None => format!("package {:?} has no bundles", package.name),
            };
            writeln!(streams.complaints, "{message}").context("cannot write the answer")?;
            return Ok(None);
        }
        chosen.entry(&package.name).or_default().extend(found);
    }
    Ok(Some(chosen))
}

fn names<'a>(package: &'a PackageContents, range: Option<&Range>) -> BTreeSet<&'a str> {
    let bundles = package.bundles.iter();
    bundles
        .filter(|bundle| {
            range.is_none_or(|range| {
                let version = bundle.version();
                version.is_some_and(|version| range.contains(&version.version))
            })
        })
        .map(|bundle| bundle.name.as_str())
        .collect()
}

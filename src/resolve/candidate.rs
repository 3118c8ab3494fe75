//! One catalog: its bundles as candidates, and the first thing that excludes each.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

use serde_json::Value;

use super::error::BundleFault;
use super::{Catalog, Installed, MajorUpgrades, Query, UpgradePolicy, deprecation, successor};
use crate::error::quoted;
use crate::fbc::package::{Bundle, PackageContents};
use crate::version::range::Range;
use crate::version::release::BundleVersion;

/// Why a bundle is no candidate; the first that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exclusion {
    /// It is in none of the channels asked for.
    NotInChannel,
    /// Its version is outside the range, or cannot be read.
    OutsideRange,
    /// No edge leads to it from what is installed.
    NotASuccessor,
    /// It is of a higher major version, and such upgrades need `SelfCertified` here.
    HigherMajor,
    /// It is lower than what is installed, and that satisfies the spec.
    LowerThanInstalled,
}

/// A bundle of a catalog.
#[derive(Debug)]
pub(super) struct Candidate<'a> {
    pub(super) bundle: &'a Bundle,
    pub(super) version: Result<BundleVersion, BundleFault>,
    pub(super) is_deprecated: bool,
    /// What the filters before [`Exclusion::LowerThanInstalled`] say.
    pub(super) excluded: Option<Exclusion>,
}

/// A readable catalog with its candidates, in the order of the blobs.
#[derive(Debug)]
pub(super) struct Survey<'a> {
    pub(super) catalog: &'a Catalog<'a>,
    pub(super) contents: &'a PackageContents,
    pub(super) candidates: Vec<Candidate<'a>>,
}

/// What the filters need.
pub(super) struct Filters<'a> {
    pub(super) query: &'a Query,
    pub(super) range: Option<&'a Range>,
    /// What is installed, when its version can be read.
    pub(super) installed: Option<(&'a Installed, &'a BundleVersion)>,
}

impl<'a> Survey<'a> {
    /// Puts every bundle of the package through the filters.
    pub(super) fn new(
        filters: &Filters<'_>,
        catalog: &'a Catalog<'a>,
        contents: &'a PackageContents,
    ) -> Self {
        let query = filters.query;
        let in_channels: Option<BTreeSet<&str>> = (!query.channels.is_empty()).then(|| {
            successor::entries(contents, &query.channels)
                .map(|entry| entry.name.as_str())
                .collect()
        });
        let binding = match query.policy {
            UpgradePolicy::CatalogProvided => filters.installed,
            UpgradePolicy::SelfCertified => None,
        };
        let successors = binding.map(|(installed, version)| {
            successor::successors(contents, &query.channels, &installed.name, &version.version)
        });
        let deprecated: BTreeSet<&str> = contents
            .deprecations
            .iter()
            .filter(|entry| entry.schema == deprecation::BUNDLE)
            .map(|entry| entry.name.as_str())
            .collect();
        let candidates = contents
            .bundles
            .iter()
            .map(|bundle| {
                let name = bundle.name.as_str();
                let version = version_of(bundle);
                let readable = version.as_ref().ok();
                let is_missing = |names: &Option<BTreeSet<&str>>| {
                    names.as_ref().is_some_and(|n| !n.contains(name))
                };
                let excluded = if is_missing(&in_channels) {
                    Some(Exclusion::NotInChannel)
                } else if is_outside(filters.range, readable) {
                    Some(Exclusion::OutsideRange)
                } else if is_missing(&successors)
                    && readable != binding.map(|(_, installed)| installed)
                {
                    Some(Exclusion::NotASuccessor)
                } else if query.major_upgrades == MajorUpgrades::Forced
                    && binding
                        .zip(readable)
                        .is_some_and(|((_, installed), version)| {
                            version.version.major > installed.version.major
                        })
                {
                    Some(Exclusion::HigherMajor)
                } else {
                    None
                };
                Candidate {
                    bundle,
                    version,
                    is_deprecated: deprecated.contains(name),
                    excluded,
                }
            })
            .collect();
        Self {
            catalog,
            contents,
            candidates,
        }
    }

    /// The candidate that wins in this catalog: not deprecated first, then by version and release; of equal ones the
    /// installed one, then by name.
    ///
    /// `floor` is what no candidate may be lower than.
    pub(super) fn best(
        &self,
        installed: Option<&Installed>,
        floor: Option<&BundleVersion>,
    ) -> Option<&Candidate<'a>> {
        let is_installed =
            |candidate: &Candidate<'_>| installed.is_some_and(|i| i.name == candidate.bundle.name);
        self.candidates
            .iter()
            .filter(|candidate| candidate.excluded.is_none() && !candidate.is_lower_than(floor))
            .max_by(|left, right| {
                right
                    .is_deprecated
                    .cmp(&left.is_deprecated)
                    .then_with(|| left.cmp_version(right))
                    .then_with(|| is_installed(left).cmp(&is_installed(right)))
                    .then_with(|| Reverse(&left.bundle.name).cmp(&Reverse(&right.bundle.name)))
            })
    }
}

impl Candidate<'_> {
    /// Whether its version can be read and is lower.
    pub(super) fn is_lower_than(&self, floor: Option<&BundleVersion>) -> bool {
        matches!((&self.version, floor), (Ok(version), Some(floor)) if version < floor)
    }

    /// The first thing that excludes it, `floor` considered.
    pub(super) fn exclusion(&self, floor: Option<&BundleVersion>) -> Option<Exclusion> {
        self.excluded.or_else(|| {
            self.is_lower_than(floor)
                .then_some(Exclusion::LowerThanInstalled)
        })
    }

    /// By version and release; what cannot be read is lowest.
    pub(super) fn cmp_version(&self, other: &Self) -> Ordering {
        self.version.as_ref().ok().cmp(&other.version.as_ref().ok())
    }
}

fn is_outside(range: Option<&Range>, version: Option<&BundleVersion>) -> bool {
    match (range, version) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(range), Some(version)) => !range.contains(&version.version),
    }
}

/// Version and release from the first `olm.package` property.
pub(super) fn version_of(bundle: &Bundle) -> Result<BundleVersion, BundleFault> {
    let Some(property) = &bundle.package_property else {
        return Err(BundleFault::NoPackageProperty(bundle.name.clone()));
    };
    let Value::Object(members) = property else {
        if property.is_null() {
            return BundleVersion::legacy("").map_err(BundleFault::Version);
        }
        return Err(BundleFault::PackageProperty(format!(
            "json: cannot unmarshal {} into Go value of type property.Package",
            json_kind(property)
        )));
    };
    // Go finds members whatever their case.
    let member = |name: &str| {
        members.get(name).or_else(|| {
            members
                .iter()
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value)
        })
    };
    let text = |name: &str| match member(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(other) => Err(BundleFault::PackageProperty(format!(
            "json: cannot unmarshal {} into Go struct field Package.{name} of type string",
            json_kind(other)
        ))),
    };
    text("packageName")?;
    let version = text("version")?.unwrap_or_default();
    let release = text("release")?;
    BundleVersion::parse(version, release).map_err(BundleFault::Version)
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Why a catalog cannot be read, if it cannot.
pub(super) fn unreadable(catalog: &Catalog<'_>, package: &str) -> Option<String> {
    if !catalog.serving {
        return Some(format!(
            "catalog {} is not being served",
            quoted(&catalog.name)
        ));
    }
    if let super::Content::Unreadable(why) = &catalog.content {
        return Some(why.clone());
    }
    // The reference reads a package as a folder of that name.
    let is_folder_name = package == "."
        || package
            .split('/')
            .all(|part| !part.is_empty() && part != "." && part != "..");
    (!is_folder_name).then(|| {
        format!(
            "error getting package {}: sub {package}: invalid argument",
            quoted(package)
        )
    })
}

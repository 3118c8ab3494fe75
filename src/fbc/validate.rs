//! What is wrong with a catalog, all at once: what the server refuses, and what its authors should fix.
//!
//! The server takes every catalog that it can read ([`super::read`]). Authors are held to more: to all that `opm
//! validate` demands (a catalog has a finding of severity *error* exactly if that fails), and warned of what it lets pass
//! but nobody means. Where a file cannot be read, what it would have held is not missed elsewhere.
//!
//! Differs from the reference: it stops at the first error, or names one per package, and never says where.

mod bundle;
pub(super) mod graph;
mod shape;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::meta::Meta;
use super::package::{self, Channel, Deprecation};
use super::typed::Mistyped;
use bundle::BundleFacts;

/// The longest name of a package, in bytes: a DNS label.
const MAX_PACKAGE_NAME_BYTES: usize = 63;

/// Whether a finding must be fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It must.
    Error,
    /// Better so.
    Warning,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether it must be fixed.
    pub severity: Severity,
    /// Whether the server refuses the catalog for it.
    pub is_refused: bool,
    /// The file's path in the catalog.
    pub file: String,
    /// The line on which the blob begins, from 1; of a file that cannot be read, the line of the mistake.
    pub line: Option<usize>,
    /// The blob's schema.
    pub schema: String,
    /// The package that it is about.
    pub package: String,
    /// The blob's name.
    pub name: String,
    /// What is wrong. Never shows content beyond names and versions.
    pub message: String,
}

/// A blob's place and names.
#[derive(Debug, Clone, Default)]
struct Place {
    file: Arc<str>,
    line: usize,
    schema: String,
    package: String,
    name: String,
}

/// Gathers findings, blob by blob.
#[derive(Debug, Default)]
pub struct Validator {
    findings: Vec<Finding>,
    packages: BTreeMap<String, Vec<(Place, Option<String>)>>,
    channels: Vec<(Place, Channel)>,
    bundles: Vec<BundleFacts>,
    deprecations: Vec<(Place, Vec<Deprecation>)>,
    /// Blobs of other schemas: by schema, package and name.
    others: BTreeSet<(String, String, String)>,
    other_packages: Vec<Place>,
    /// Something could not be read, so what is missing may have been there.
    is_partial: bool,
    has_documents: bool,
}

impl Validator {
    /// A file could not be read from `line` on.
    pub fn refuse(&mut self, file: &str, line: Option<usize>, message: String) {
        self.is_partial = true;
        self.findings.push(Finding {
            severity: Severity::Error,
            is_refused: true,
            file: file.to_owned(),
            line,
            schema: String::new(),
            package: String::new(),
            name: String::new(),
            message,
        });
    }

    /// Looks at a document of `file`; `None` is one without content.
    pub fn add(&mut self, file: &Arc<str>, line: usize, meta: Option<&Meta>) {
        self.has_documents = true;
        let mut place = Place {
            file: file.clone(),
            line,
            ..Place::default()
        };
        let Some(meta) = meta else {
            return self.error(&place, "the document has no content");
        };
        place.schema.clone_from(&meta.schema);
        meta.package_name().clone_into(&mut place.package);
        place.name.clone_from(&meta.name);
        let checked = match meta.schema.as_str() {
            "" => {
                self.error(&place, "the blob has no `schema`");
                Ok(())
            }
            Meta::PACKAGE => self.add_package(&place, meta),
            Meta::CHANNEL => package::channel(meta).map(|channel| {
                self.channels.push((place.clone(), channel));
            }),
            Meta::BUNDLE => self.add_bundle(&place, meta),
            Meta::DEPRECATIONS => package::deprecations(meta).map(|entries| {
                self.deprecations.push((place.clone(), entries));
            }),
            _ => {
                self.add_other(&place);
                Ok(())
            }
        };
        if let Err(problem) = checked {
            self.is_partial = true;
            self.error(&place, problem.to_string());
        }
    }

    fn add_package(&mut self, place: &Place, meta: &Meta) -> Result<(), Mistyped> {
        let default_channel = package::default_channel(meta)?;
        if meta.name.is_empty() {
            self.error(place, "the package has no name");
        } else if !is_label(&meta.name) {
            self.error(
                place,
                format!(
                    "a package's name must have at most {MAX_PACKAGE_NAME_BYTES} lower-case letters, digits and -, and begin \
                     and end with a letter or digit"
                ),
            );
        }
        let all = self.packages.entry(meta.name.clone()).or_default();
        all.push((place.clone(), default_channel));
        if all.len() > 1 {
            self.error(place, "there is a package of this name already");
        }
        Ok(())
    }

    fn add_bundle(&mut self, place: &Place, meta: &Meta) -> Result<(), Mistyped> {
        let (facts, notes) = bundle::read(place, meta)?;
        for (severity, message) in notes {
            self.note(place, severity, message);
        }
        self.bundles.push(facts);
        Ok(())
    }

    fn add_other(&mut self, place: &Place) {
        if place.schema.starts_with("olm.") && place.schema != "olm.csv.metadata" {
            self.warning(
                place,
                "schemas that begin with olm. are reserved, and this one is not known",
            );
        }
        let key = (
            place.schema.clone(),
            place.package.clone(),
            place.name.clone(),
        );
        if !self.others.insert(key) {
            self.warning(
                place,
                "there is a blob of this schema, package and name already",
            );
        }
        if !place.package.is_empty() {
            self.other_packages.push(place.clone());
        }
    }

    /// All findings: by file, line and severity.
    pub fn finish(mut self) -> Vec<Finding> {
        if !self.has_documents && !self.is_partial {
            self.findings.push(empty());
        }
        self.check_packages();
        self.check_channels();
        self.check_bundles();
        self.check_deprecations();
        for place in std::mem::take(&mut self.other_packages) {
            if !self.packages.contains_key(&place.package) && !self.is_partial {
                self.warning(&place, "there is no package of this name");
            }
        }
        self.findings.sort_by(|a, b| {
            let key = |one: &Finding| (one.file.clone(), one.line, one.severity);
            key(a).cmp(&key(b)).then_with(|| a.message.cmp(&b.message))
        });
        self.findings
    }

    fn check_packages(&mut self) {
        let mut channels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (place, channel) in &self.channels {
            channels
                .entry(place.package.as_str())
                .or_default()
                .insert(&channel.name);
        }
        let mut found = Vec::new();
        for (name, blobs) in &self.packages {
            let of_package = channels.get(name.as_str());
            if of_package.is_none()
                && !self.is_partial
                && let Some((place, _)) = blobs.first()
            {
                found.push((place.clone(), "the package has no channel".to_owned()));
            }
            for (place, default) in blobs {
                match default {
                    None => found.push((
                        place.clone(),
                        "the package has no `defaultChannel`".to_owned(),
                    )),
                    Some(default)
                        if !of_package.is_some_and(|all| all.contains(default.as_str()))
                            && !self.is_partial =>
                    {
                        found.push((
                            place.clone(),
                            format!("the default channel {default:?} is not there"),
                        ));
                    }
                    Some(_) => {}
                }
            }
        }
        self.errors(found);
    }

    fn check_channels(&mut self) {
        let bundles: BTreeSet<(&str, &str)> = self.bundles.iter().map(BundleFacts::key).collect();
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        for (place, channel) in &self.channels {
            let mut add = |message: String| found.push((place.clone(), message));
            if !self.packages.contains_key(&place.package) && !self.is_partial {
                add(format!("there is no package {:?}", place.package));
            }
            if channel.name.is_empty() {
                add("the channel has no name".to_owned());
            } else if !seen.insert((&place.package, &channel.name)) {
                add("the package has a channel of this name already".to_owned());
            }
            let mut names = BTreeSet::new();
            for entry in &channel.entries {
                if !names.insert(&entry.name) {
                    add(format!("there are two entries {:?}", entry.name));
                }
                if !bundles.contains(&(place.package.as_str(), entry.name.as_str()))
                    && !self.is_partial
                {
                    add(format!("there is no bundle for entry {:?}", entry.name));
                }
                if entry.skips.iter().any(String::is_empty) {
                    add(format!("entry {:?} has an empty `skips`", entry.name));
                }
                if let Some(problem) = bundle::range_problem(&entry.skip_range) {
                    add(format!("`skipRange` of entry {:?}: {problem}", entry.name));
                }
            }
            if let Some(problem) = graph::problem(&channel.entries) {
                add(problem);
            }
        }
        self.errors(found);
    }

    fn check_bundles(&mut self) {
        let entries: BTreeSet<(&str, &str)> = self
            .channels
            .iter()
            .flat_map(|(place, channel)| {
                let names = channel.entries.iter().map(|entry| entry.name.as_str());
                names.map(|name| (place.package.as_str(), name))
            })
            .collect();
        let mut seen = BTreeSet::new();
        let mut versions: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for bundle in &self.bundles {
            if let Some(version) = &bundle.version {
                let key = (bundle.place.package.as_str(), version.as_str());
                let names = versions.entry(key).or_default();
                if !names.contains(&bundle.place.name.as_str()) {
                    names.push(&bundle.place.name);
                }
            }
        }
        let mut found = Vec::new();
        for bundle in &self.bundles {
            let place = &bundle.place;
            let mut add = |message: String| found.push((place.clone(), message));
            if place.package.is_empty() {
                add("the bundle has no `package`".to_owned());
            } else if !self.packages.contains_key(&place.package) && !self.is_partial {
                add(format!("there is no package {:?}", place.package));
            }
            if !seen.insert(bundle.key()) {
                add("the package has a bundle of this name already".to_owned());
            }
            if !entries.contains(&bundle.key()) && !self.is_partial {
                add("no channel has an entry for the bundle".to_owned());
            }
            let version = bundle.version.as_deref().unwrap_or_default();
            if let Some(names) = versions.get(&(place.package.as_str(), version))
                && names.len() > 1
            {
                let others: Vec<&str> = names
                    .iter()
                    .filter(|name| **name != place.name)
                    .copied()
                    .collect();
                add(format!(
                    "version {version} is also that of {}",
                    others.join(", ")
                ));
            }
        }
        self.errors(found);
    }

    fn check_deprecations(&mut self) {
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        for (place, entries) in &self.deprecations {
            let mut add = |message: String| found.push((place.clone(), message));
            if place.package.is_empty() {
                add("the deprecations have no `package`".to_owned());
            } else if !self.packages.contains_key(&place.package) && !self.is_partial {
                add(format!("there is no package {:?}", place.package));
            }
            if !seen.insert(&place.package) {
                add("the package has deprecations already".to_owned());
            }
            let mut references = BTreeSet::new();
            for (index, entry) in entries.iter().enumerate() {
                if !references.insert((&entry.schema, &entry.name)) {
                    add(format!("entry {index} is about the same as an earlier one"));
                }
                if entry.message.is_empty() {
                    add(format!("entry {index} has no `message`"));
                }
                if let Some(problem) = self.reference_problem(&place.package, entry) {
                    add(format!("entry {index}: {problem}"));
                }
            }
        }
        self.errors(found);
    }

    fn reference_problem(&self, package: &str, entry: &Deprecation) -> Option<String> {
        let missing = |what: &str| format!("there is no {what} {:?}", entry.name);
        match entry.schema.as_str() {
            "" => Some("its reference has no `schema`".to_owned()),
            Meta::PACKAGE => (!entry.name.is_empty())
                .then(|| "a reference to the package must have no `name`".to_owned()),
            Meta::CHANNEL => {
                let is_there = self
                    .channels
                    .iter()
                    .any(|(place, channel)| place.package == package && channel.name == entry.name);
                (!is_there && !self.is_partial).then(|| missing("channel"))
            }
            Meta::BUNDLE => {
                let is_there = self
                    .bundles
                    .iter()
                    .any(|bundle| bundle.key() == (package, entry.name.as_str()));
                (!is_there && !self.is_partial).then(|| missing("bundle"))
            }
            _ => Some(
                "its reference must have schema olm.package, olm.channel or olm.bundle".to_owned(),
            ),
        }
    }

    fn errors(&mut self, found: Vec<(Place, String)>) {
        for (place, message) in found {
            self.error(&place, message);
        }
    }

    fn error(&mut self, place: &Place, message: impl Into<String>) {
        self.note(place, Severity::Error, message.into());
    }

    fn warning(&mut self, place: &Place, message: impl Into<String>) {
        self.note(place, Severity::Warning, message.into());
    }

    fn note(&mut self, place: &Place, severity: Severity, message: String) {
        self.findings.push(Finding {
            severity,
            is_refused: false,
            file: place.file.to_string(),
            line: Some(place.line),
            schema: place.schema.clone(),
            package: place.package.clone(),
            name: place.name.clone(),
            message,
        });
    }
}

/// A catalog without content is sound, to the server and to `opm validate`; whoever checks one has most likely named the wrong
/// place.
fn empty() -> Finding {
    Finding {
        severity: Severity::Warning,
        is_refused: false,
        file: String::new(),
        line: None,
        schema: String::new(),
        package: String::new(),
        name: String::new(),
        message:
            "the catalog is empty: there is no file with content that `.indexignore` does not name"
                .to_owned(),
    }
}

/// Whether `name` is a label of RFC 1123.
fn is_label(name: &str) -> bool {
    let is_inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    name.len() <= MAX_PACKAGE_NAME_BYTES
        && name.bytes().all(is_inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests;

//! What an upgrade of a `CustomResourceDefinition` would break: the old one, the new one → findings.
//!
//! Errors are the reference's: CRD-wide checks, every version of the old CRD against the one of the same name in the
//! new CRD, and within one CRD every served version against the higher ones, less what the old CRD had already. Texts
//! are the reference's, its false positives included, but in a fixed order. Warnings are ours: they name what the
//! reference does not look at, and block nothing.
//!
//! What is deliberately not here: reading CRDs from a cluster, and stored resources.
//!
//! Rules: `sigs.k8s.io/crdify` with the configuration of operator-controller's `crdupgradesafety` (conversion `Ignore`,
//! descriptions unchecked, enum values may be added).

mod advice;
pub(super) mod canonical;
mod compare;
mod condense;
#[cfg(test)]
mod conformance;
pub mod conversion;
mod definition;
mod edits;
mod flatten;
mod neglected;
mod property;
mod report;
mod report_text;
mod shape;
pub mod stored;
mod string_form;
mod text;

use std::collections::BTreeSet;
use std::fmt;

pub use definition::{Definition, DefinitionError};

use definition::{ConversionStrategy, Version};
use flatten::{Nodes, flatten};
use property::{Complaint, compare};
use shape::is_same_record;

use crate::error::quoted;

/// Whether a finding stops an upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The upgrade is refused.
    Error,
    /// The upgrade goes on.
    Warning,
}

impl Severity {
    /// The word for it in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// Declares the checks with the names that findings begin with.
macro_rules! checks {
    ($($(#[$doc:meta])* $check:ident $name:literal;)*) => {
        /// What found something.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Check { $($(#[$doc])* $check),* }

        impl Check {
            /// The name as findings print it.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$check => $name),* }
            }
        }
    };
}

checks! {
    /// Namespaced or cluster-wide.
    Scope "scope";
    /// A field that is gone.
    ExistingFieldRemoval "existingFieldRemoval";
    /// A version that is gone while resources may be stored in it.
    StoredVersionRemoval "storedVersionRemoval";
    /// Allowed values.
    Enum "enum";
    /// The default value.
    Default "default";
    /// Upper bound of a number.
    Maximum "maximum";
    /// Longest list.
    MaxItems "maxItems";
    /// Longest text.
    MaxLength "maxLength";
    /// Largest map.
    MaxProperties "maxProperties";
    /// Lower bound of a number.
    Minimum "minimum";
    /// Shortest list.
    MinItems "minItems";
    /// Shortest text.
    MinLength "minLength";
    /// Smallest map.
    MinProperties "minProperties";
    /// Fields that must be there.
    Required "required";
    /// The type.
    Type "type";
    /// The regular expression of a text.
    Pattern "pattern";
    /// Whether null is allowed.
    Nullable "nullable";
    /// Schemas of which exactly one must match.
    OneOf "oneOf";
    /// Any other difference of two nodes.
    Unhandled "unhandled";
    /// Ours: a version that is served no more.
    ServedVersion "servedVersion";
    /// Ours: the version in which resources are stored.
    StorageVersion "storageVersion";
    /// Ours: how versions are converted.
    Conversion "conversion";
    /// Ours: a subresource that is gone.
    Subresource "subresource";
    /// Ours: a column of `kubectl get` that is gone.
    PrinterColumn "printerColumn";
    /// Ours: kind, plural, group or short names.
    Names "names";
    /// Ours: a version without a schema.
    MissingSchema "missingSchema";
    /// Ours: a CRD that is no longer there.
    Removal "crdRemoval";
    /// Ours: resources that would suffer, or why they were not looked at.
    StoredResources "storedResources";
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a finding is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The whole CRD.
    Crd,
    /// A version as a whole.
    WholeVersion {
        /// The version's name.
        version: String,
    },
    /// A field of the whole CRD that is gone from a version.
    Removed {
        /// The version's name.
        version: String,
        /// The path of the node, beginning with `^`.
        path: String,
    },
    /// A node of a version, compared with the same version of the old CRD.
    Version {
        /// The version's name.
        version: String,
        /// The path of the node, beginning with `^`.
        path: String,
    },
    /// A node of a served version, compared with a higher served version of the same CRD.
    Served {
        /// The lower version's name.
        lower: String,
        /// The higher version's name.
        higher: String,
        /// The path of the node, beginning with `^`.
        path: String,
    },
}

/// One thing that an upgrade would change for the worse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether it stops the upgrade.
    pub severity: Severity,
    /// What found it.
    pub check: Check,
    /// Where it is.
    pub place: Place,
    /// The line: `check: text`, or `version: path: check: text`.
    pub message: String,
}

impl Finding {
    fn new(severity: Severity, check: Check, place: Place, text: &str) -> Self {
        let message = match &place {
            Place::Crd | Place::WholeVersion { .. } | Place::Removed { .. } => {
                format!("{check}: {text}")
            }
            Place::Version { version, path } => format!("{version}: {path}: {check}: {text}"),
            Place::Served {
                lower,
                higher,
                path,
            } => format!("{lower} -> {higher}: {path}: {check}: {text}"),
        };
        Self {
            severity,
            check,
            place,
            message,
        }
    }

    fn crd_wide(check: Check, text: &str) -> Self {
        Self::new(Severity::Error, check, Place::Crd, text)
    }
}

/// Compares the live CRD with the one that is to take its place; nothing can break where there is none yet.
///
/// Errors come first: those of the whole CRD, then those of each version, then those between served versions; each
/// group by its text. Warnings follow, by their text. Equal input gives equal findings.
pub fn check(old: Option<&Definition>, new: &Definition) -> Vec<Finding> {
    let Some(old) = old else {
        return Vec::new();
    };
    let (before, after) = (nodes_of(old), nodes_of(new));
    let groups = [
        crd_wide(old, new, &before, &after),
        same_versions(&before, &after),
        served_versions(new, &before, &after),
        neglected::look(old, new),
    ];
    let mut findings = Vec::new();
    for mut group in groups {
        group.sort_by(|a, b| a.message.cmp(&b.message));
        findings.append(&mut group);
    }
    findings
}

/// The finding about a CRD that the new side lacks.
pub fn removal() -> Finding {
    Finding::new(
        Severity::Warning,
        Check::Removal,
        Place::Crd,
        "the CRD is gone: it goes with the upgrade if no resources are left, else it is kept",
    )
}

/// Whether any finding stops the upgrade.
pub fn is_refused(findings: &[Finding]) -> bool {
    findings
        .iter()
        .any(|finding| finding.severity == Severity::Error)
}

/// The reference's text about a refused CRD: its name, and a line per error.
pub fn refusal(crd: &str, findings: &[Finding]) -> String {
    let lines: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .map(|finding| finding.message.as_str())
        .collect();
    format!(
        "validating upgrade for CRD {}: {}",
        quoted(crd),
        lines.join("\n")
    )
}

/// The versions of a CRD with the nodes of their schemas.
fn nodes_of(crd: &Definition) -> Vec<VersionNodes<'_>> {
    crd.versions
        .iter()
        .map(|version| VersionNodes {
            version,
            nodes: flatten(version.schema.as_ref()),
        })
        .collect()
}

/// A version and the nodes of its schema, by path.
struct VersionNodes<'a> {
    version: &'a Version,
    nodes: Nodes<'a>,
}

fn crd_wide(
    old: &Definition,
    new: &Definition,
    before: &[VersionNodes<'_>],
    after: &[VersionNodes<'_>],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    if old.scope != new.scope {
        findings.push(Finding::crd_wide(
            Check::Scope,
            &format!(
                "scope changed : {} -> {}",
                quoted(&old.scope),
                quoted(&new.scope)
            ),
        ));
    }
    let gone: BTreeSet<&str> = old
        .stored_versions
        .iter()
        .map(String::as_str)
        .filter(|name| new.version(name).is_none())
        .collect();
    if !gone.is_empty() {
        let gone: Vec<&str> = gone.into_iter().collect();
        findings.push(Finding::crd_wide(
            Check::StoredVersionRemoval,
            &format!("stored versions removed : [{}]", gone.join(" ")),
        ));
    }
    for (old, new) in common_versions(before, after) {
        for (path, _, found) in old.nodes.beside(&new.nodes) {
            if found.is_none() {
                let version = new.version.name.clone();
                let text = format!("removed field : {version}.{path}");
                let path = path.to_owned();
                let place = Place::Removed { version, path };
                findings.push(Finding::new(
                    Severity::Error,
                    Check::ExistingFieldRemoval,
                    place,
                    &text,
                ));
            }
        }
    }
    findings
}

/// The versions of the old CRD that the new one has, too.
fn common_versions<'a>(
    old: &'a [VersionNodes<'a>],
    new: &'a [VersionNodes<'a>],
) -> impl Iterator<Item = (&'a VersionNodes<'a>, &'a VersionNodes<'a>)> {
    old.iter().filter_map(|old| {
        let is_same = |new: &&VersionNodes<'_>| new.version.name == old.version.name;
        Some((old, new.iter().find(is_same)?))
    })
}

fn same_versions(old: &[VersionNodes<'_>], new: &[VersionNodes<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (old, new) in common_versions(old, new) {
        for (path, complaint) in compare_versions(old, new) {
            let version = old.version.name.clone();
            let place = Place::Version { version, path };
            findings.push(Finding::new(
                Severity::Error,
                complaint.check,
                place,
                &complaint.text,
            ));
        }
    }
    findings
}

/// The complaints about every node of the older schema.
fn compare_versions(old: &VersionNodes<'_>, new: &VersionNodes<'_>) -> Vec<(String, Complaint)> {
    let mut complaints = Vec::new();
    if let (Some(before), Some(after)) = (&old.version.schema, &new.version.schema)
        && is_same_record(before, after)
    {
        return complaints;
    }
    for (path, node, other) in old.nodes.beside(&new.nodes) {
        let found = compare(node, other).into_iter();
        complaints.extend(found.map(|complaint| (path.to_owned(), complaint)));
    }
    complaints
}

fn served_versions(
    crd: &Definition,
    old: &[VersionNodes<'_>],
    new: &[VersionNodes<'_>],
) -> Vec<Finding> {
    if crd.conversion == ConversionStrategy::Webhook {
        return Vec::new();
    }
    let known: BTreeSet<_> = served_pairs(old)
        .into_iter()
        .map(|(lower, higher, path, complaint)| {
            (lower, higher, path, complaint.check, complaint.raw)
        })
        .collect();
    let mut findings = Vec::new();
    for (lower, higher, path, complaint) in served_pairs(new) {
        let Complaint { check, raw, text } = complaint;
        let key = (lower, higher, path, check, raw);
        if known.contains(&key) {
            continue;
        }
        let (lower, higher, path, check, _) = key;
        let place = Place::Served {
            lower,
            higher,
            path,
        };
        findings.push(Finding::new(Severity::Error, check, place, &text));
    }
    findings
}

/// The complaints about every served version against every higher one.
fn served_pairs(versions: &[VersionNodes<'_>]) -> Vec<(String, String, String, Complaint)> {
    let mut served: Vec<_> = versions
        .iter()
        .filter(|one| one.version.is_served)
        .collect();
    served.sort_by(|a, b| definition::by_priority(&a.version.name, &b.version.name));
    let mut complaints = Vec::new();
    for (index, lower) in served.iter().enumerate() {
        for higher in served.iter().skip(index + 1) {
            for (path, complaint) in compare_versions(lower, higher) {
                let (lower, higher) = (lower.version.name.clone(), higher.version.name.clone());
                complaints.push((lower, higher, path, complaint));
            }
        }
    }
    complaints
}

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
mod json_form;
mod neglected;
mod property;
mod read;
mod record;
mod report;
mod report_style;
mod report_text;
mod report_value;
mod shape;
mod skeleton;
pub mod stored;
mod string_form;
mod text;

use std::collections::BTreeSet;
use std::fmt;

pub use definition::{Definition, DefinitionError};
pub use record::Pool;

use definition::{ConversionStrategy, Version};
use flatten::Pair;
use property::{Complaint, compare};
use record::Record;
use shape::At;

use crate::error::quoted;

/// What stands in a finding before the commands that let the account look at resources, which end with the line.
pub const GRANT: &str = "; grant it that: ";

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
    /// Whether resources that are stored can change it.
    fate: Fate,
    /// Whether it is a warning only because no stored resource would suffer.
    was_error: bool,
}

/// Whether stored resources can change a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It stands, whatever is stored.
    Stands,
    /// It is only about what is allowed, or about data that may not be there.
    Open,
}

impl Finding {
    fn new(severity: Severity, check: Check, place: Place, text: &str) -> Self {
        // What is said about a node that is gone is said by its removal.
        let is_about_a_removal = matches!(place, Place::Removed { .. });
        let fate = match check {
            Check::Scope | Check::StoredVersionRemoval | Check::Type | Check::Default
                if !is_about_a_removal =>
            {
                Fate::Stands
            }
            _ => Fate::Open,
        };
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
            fate,
            was_error: false,
        }
    }

    /// The finding about a node and the one that takes its place.
    fn of_node(complaint: &Complaint, place: Place, old: &Record, new: Option<&Record>) -> Self {
        let Complaint { check, text, .. } = complaint;
        let mut finding = Self::new(Severity::Error, *check, place, text);
        match new {
            None => finding.fate = Fate::Open,
            // Numbers become texts, or the other way round.
            Some(new) if *check == Check::Unhandled => {
                if old.is(At::XIntOrString) != new.is(At::XIntOrString) {
                    finding.fate = Fate::Stands;
                }
            }
            Some(_) => {}
        }
        finding
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
    let mut removed = crd_wide(old, new);
    let mut changed = Vec::new();
    for (before, after) in common_versions(old, new) {
        let pair = Pair::new(before.schema.as_ref(), after.schema.as_ref());
        removed_fields(&before.name, &pair, &mut removed);
        changes(&before.name, &pair, &mut changed);
    }
    let groups = [
        removed,
        changed,
        served_versions(old, new),
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

fn crd_wide(old: &Definition, new: &Definition) -> Vec<Finding> {
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
    findings
}

/// The versions of the old CRD that the new one has, too.
fn common_versions<'a>(
    old: &'a Definition,
    new: &'a Definition,
) -> impl Iterator<Item = (&'a Version, &'a Version)> {
    let pair = |old: &'a Version| Some((old, new.version(&old.name)?));
    old.versions.iter().filter_map(pair)
}

/// The fields of a version that are gone.
fn removed_fields(version: &str, pair: &Pair<'_>, findings: &mut Vec<Finding>) {
    let removed = pair.iter().filter(|(_, _, found)| found.is_none());
    findings.extend(removed.map(|(path, ..)| {
        let text = format!("removed field : {version}.{path}");
        let (version, path) = (version.to_owned(), path.to_owned());
        let place = Place::Removed { version, path };
        Finding::new(Severity::Error, Check::ExistingFieldRemoval, place, &text)
    }));
}

/// What is to be said about every node of a version.
fn changes(version: &str, pair: &Pair<'_>, findings: &mut Vec<Finding>) {
    for (path, old, new) in pair.iter() {
        findings.extend(compare(old, new).iter().map(|complaint| {
            let (version, path) = (version.to_owned(), path.to_owned());
            let place = Place::Version { version, path };
            Finding::of_node(complaint, place, old, new)
        }));
    }
}

/// What is to be said about served versions beside higher ones, less what was so already.
fn served_versions(old: &Definition, new: &Definition) -> Vec<Finding> {
    if new.conversion == ConversionStrategy::Webhook {
        return Vec::new();
    }
    let before = served_pairs(old);
    let mut findings = Vec::new();
    for (lower, higher) in served_pairs(new) {
        let same = |(a, b): &&(&Version, &Version)| a.name == lower.name && b.name == higher.name;
        let known = before.iter().find(same);
        let known = known.map(|(lower, higher)| compared(lower, higher));
        let known = known.unwrap_or_default();
        for (path, one, other) in compared(lower, higher).iter() {
            let known = known.at(path);
            findings.extend(new_complaints((one, other), known).iter().map(|complaint| {
                let place = Place::Served {
                    lower: lower.name.clone(),
                    higher: higher.name.clone(),
                    path: path.to_owned(),
                };
                Finding::of_node(complaint, place, one, other)
            }));
        }
    }
    findings
}

fn compared<'a>(lower: &'a Version, higher: &'a Version) -> Pair<'a> {
    Pair::new(lower.schema.as_ref(), higher.schema.as_ref())
}

/// A node and the one that is compared with it, if there is one.
type Beside<'a> = (&'a Record, Option<&'a Record>);

/// The complaints about two nodes that were not there about the `known` two.
fn new_complaints(nodes: Beside<'_>, known: Option<Beside<'_>>) -> Vec<Complaint> {
    let are_one = |(a, b): (Option<&Record>, Option<&Record>)| match (a, b) {
        (Some(a), Some(b)) => a.is_one_with(b),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    let Some(known) = known else {
        return compare(nodes.0, nodes.1);
    };
    // Most that is so was so before, and to say it takes long.
    if are_one((Some(nodes.0), Some(known.0))) && are_one((nodes.1, known.1)) {
        return Vec::new();
    }
    let mut complaints = compare(nodes.0, nodes.1);
    if !complaints.is_empty() {
        let known = compare(known.0, known.1);
        let is_known = |complaint: &Complaint| {
            let same =
                |known: &Complaint| known.check == complaint.check && known.raw == complaint.raw;
            known.iter().any(same)
        };
        complaints.retain(|complaint| !is_known(complaint));
    }
    complaints
}

/// Every served version with every higher one.
fn served_pairs(crd: &Definition) -> Vec<(&Version, &Version)> {
    let mut served: Vec<_> = crd
        .versions
        .iter()
        .filter(|version| version.is_served)
        .collect();
    served.sort_by(|a, b| definition::by_priority(&a.name, &b.name));
    let mut pairs = Vec::new();
    for (index, lower) in served.iter().enumerate() {
        pairs.extend(
            served
                .iter()
                .skip(index + 1)
                .map(|higher| (*lower, *higher)),
        );
    }
    pairs
}

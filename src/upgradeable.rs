//! `olm.maxOpenShiftVersion` of the installed bundles and the cluster's version to a verdict.
//!
//! Only major and minor count: `4.18.0` and `4.18.0-rc1` both have the next minor `4.19`. `4.23` and `5.0` are
//! released together, so `4.23` counts as `5.0` and the next minor of either is `5.1`.
//!
//! The verdict fails closed: a bundle whose property cannot be read blocks, because nobody knows that it would
//! survive. A bundle without the property blocks nothing.
//!
//! Differs from the reference: values that can only mean one thing (`"4.18.0"`, `"v4.18"`, doubled quotes) are
//! accepted, and of several different values the lowest counts, where the reference gives up on the extension.

pub mod notice;
pub mod way;

use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The property that names the last `OpenShift` minor version that a bundle works on.
pub const MAX_OPENSHIFT_VERSION: &str = "olm.maxOpenShiftVersion";

/// The reason of `Upgradeable` False when installed bundles would not survive the next minor version.
pub const INCOMPATIBLE: &str = "InstalledOLMOperators_IncompatibleOperatorsInstalled";
/// The reason of `Upgradeable` False when a bundle's properties cannot be read.
pub const UNREADABLE: &str = "InstalledOLMOperators_FailureGettingExtensionMetadata";
/// The reason of `Upgradeable` True.
pub const AS_EXPECTED: &str = "AsExpected";

/// A minor version of `OpenShift`. The order counts `4.23` as `5.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Minor {
    major: u32,
    minor: u32,
}

impl Minor {
    /// Reads the minor version of a full cluster version such as `4.18.3` or `5.0.0-rc.1`.
    pub fn of_cluster_version(text: &str) -> Option<Self> {
        let core = text
            .trim()
            .trim_start_matches('v')
            .split(['-', '+'])
            .next()?;
        let mut parts = core.split('.');
        let minor = Self {
            major: number(parts.next()?)?,
            minor: number(parts.next()?)?,
        };
        // What stands behind the minor must be numbers, too: `4.x` is no version.
        parts.all(|part| number(part).is_some()).then_some(minor)
    }

    /// The minor version that a cluster of this one updates to.
    #[must_use]
    pub fn next(self) -> Self {
        let Self { major, minor } = self.normalised();
        Self {
            major,
            minor: minor.saturating_add(1),
        }
    }

    fn normalised(self) -> Self {
        if (self.major, self.minor) == (4, 23) {
            Self { major: 5, minor: 0 }
        } else {
            self
        }
    }
}

impl PartialOrd for Minor {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Minor {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let (a, b) = (self.normalised(), other.normalised());
        (a.major, a.minor).cmp(&(b.major, b.minor))
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A revision that is installed or rolling out, as far as this verdict asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveBundle {
    /// The `ClusterExtension`'s name.
    pub extension: String,
    /// The bundle's name.
    pub bundle: String,
    /// The text of annotation `olm.properties`; `None` when the bundle declares none.
    pub properties: Option<String>,
    /// Annotation `oxolm.dev/max-openshift-version` on the extension: an administrator who knows better.
    pub override_text: Option<String>,
}

/// Whether the cluster may be updated to its next minor version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// False blocks the update to the next minor version.
    pub upgradeable: bool,
    /// The condition's reason.
    pub reason: &'static str,
    /// The condition's message.
    pub message: String,
    /// The extensions that block, sorted by name, each once per bundle.
    pub blockers: Vec<Blocker>,
}

/// One extension that blocks the cluster's update.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blocker {
    /// The `ClusterExtension`'s name.
    pub extension: String,
    /// The bundle's name.
    pub bundle: String,
    /// Why: the maximum, or what cannot be read.
    pub why: Why,
    /// The annotation that says so, for messages; empty where the bundle does.
    by: String,
}

/// Why an extension blocks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The bundle's maximum is not above the cluster's minor version.
    Maximum(Minor),
    /// The property cannot be read.
    Unreadable(InvalidProperty),
}

/// A property list or value that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum InvalidProperty {
    /// The annotation is not a JSON array of `{type, value}`.
    #[error("could not convert olm.properties: failed to unmarshal properties annotation: {0}")]
    Annotation(String),
    /// The value is not `<major>.<minor>`.
    #[error(
        "error converting to semver for version {0}: expected <major>.<minor>, for example \"4.18\""
    )]
    Value(String),
}

#[derive(Deserialize)]
struct Property<'a> {
    #[serde(rename = "type", default)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
}

/// The lowest maximum that the property list names; `None` when it names none.
///
/// # Errors
/// When the list is not a JSON array of properties, or a value is not a version.
pub fn maximum(properties: &str) -> Result<Option<Minor>, InvalidProperty> {
    let list: Option<Vec<Property<'_>>> = serde_json::from_str(properties)
        .map_err(|error| InvalidProperty::Annotation(error.to_string()))?;
    let mut lowest: Option<Minor> = None;
    for property in list
        .unwrap_or_default()
        .iter()
        .filter(|property| property.kind == MAX_OPENSHIFT_VERSION)
    {
        let value = maximum_value(property.value.map_or("null", RawValue::get))?;
        lowest = Some(lowest.map_or(value, |low| low.min(value)));
    }
    Ok(lowest)
}

/// Reads one value: a JSON string or number, `<major>.<minor>`. The raw digits count, so `4.20` is not `4.2`.
fn maximum_value(raw: &str) -> Result<Minor, InvalidProperty> {
    let invalid = || InvalidProperty::Value(raw.to_owned());
    let text = if raw.starts_with('"') {
        serde_json::from_str::<String>(raw).map_err(|_not_text| invalid())?
    } else {
        raw.to_owned()
    };
    minor_text(&text).ok_or_else(invalid)
}

/// `<major>.<minor>`, also with a leading `v`, a patch of zero, or quotes around it.
fn minor_text(text: &str) -> Option<Minor> {
    let text = text.trim().trim_matches('"').trim_start_matches('v');
    let text = text
        .strip_suffix(".0")
        .filter(|rest| rest.contains('.'))
        .unwrap_or(text);
    let (major, minor) = text.split_once('.')?;
    let minor = Minor {
        major: number(major)?,
        minor: number(minor)?,
    };
    (minor.major > 0).then_some(minor)
}

/// Decimal digits only: no sign, no exponent, no blanks.
fn number(text: &str) -> Option<u32> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())?
}

/// The verdict over all bundles that are installed or rolling out, for a cluster at `current`.
///
/// The order of `bundles` does not matter. The message is deterministic.
pub fn verdict(current: Minor, bundles: &[ActiveBundle]) -> Verdict {
    let mut blockers: Vec<Blocker> = bundles
        .iter()
        .filter_map(|bundle| blocker(current, bundle))
        .collect();
    blockers.sort();
    blockers.dedup();
    let incompatible: Vec<String> = blockers
        .iter()
        .filter(|blocker| matches!(blocker.why, Why::Maximum(_)))
        .map(|blocker| {
            format!(
                "bundle {:?} for ClusterExtension {:?}{}",
                blocker.bundle, blocker.extension, blocker.by
            )
        })
        .collect();
    let unreadable: Vec<String> = blockers.iter().filter_map(unreadable_line).collect();
    let prefix = "InstalledOLMOperatorsUpgradeable: ";
    let (reason, mut message) = match (incompatible.is_empty(), unreadable.is_empty()) {
        (true, true) => (AS_EXPECTED, "All is well".to_owned()),
        (true, false) => (UNREADABLE, format!("{prefix}{}", unreadable.join("\n"))),
        (false, read) => {
            let mut message = format!(
                "{prefix}Found ClusterExtensions that require upgrades prior to upgrading cluster to version {}: {}.",
                current.next(),
                incompatible.join(",")
            );
            if !read {
                message.push_str("\n Additionally the following errors were encountered while getting extension metadata: ");
                message.push_str(&unreadable.join("\n"));
            }
            (INCOMPATIBLE, message)
        }
    };
    if let Some(sentence) = notice::let_pass(current, bundles) {
        let stop = if message.ends_with('.') { "" } else { "." };
        message = format!("{message}{stop} {sentence}");
    }
    Verdict {
        upgradeable: blockers.is_empty(),
        reason,
        message,
        blockers,
    }
}

/// The maximum that counts for a bundle: the administrator's word, else its own; `None` when there is none.
///
/// # Errors
/// When either cannot be read.
pub fn maximum_of(bundle: &ActiveBundle) -> Result<Option<Minor>, InvalidProperty> {
    match (&bundle.override_text, &bundle.properties) {
        (Some(text), _) => minor_text(text)
            .map(Some)
            .ok_or_else(|| InvalidProperty::Value(format!("{text:?}"))),
        (None, Some(properties)) => maximum(properties),
        (None, None) => Ok(None),
    }
}

fn blocker(current: Minor, bundle: &ActiveBundle) -> Option<Blocker> {
    let why = match maximum_of(bundle) {
        Ok(None) => return None,
        Ok(Some(maximum)) if maximum > current => return None,
        Ok(Some(maximum)) => Why::Maximum(maximum),
        Err(error) => Why::Unreadable(error),
    };
    Some(Blocker {
        extension: bundle.extension.clone(),
        bundle: bundle.bundle.clone(),
        why,
        by: notice::by_annotation(bundle),
    })
}

fn unreadable_line(blocker: &Blocker) -> Option<String> {
    match &blocker.why {
        Why::Maximum(_) => None,
        Why::Unreadable(error) => Some(format!(
            "error with cluster extension {}: error in bundle {}: {error}",
            blocker.extension, blocker.bundle
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minor(text: &str) -> Minor {
        Minor::of_cluster_version(text).unwrap()
    }

    fn bundle(extension: &str, value: &str) -> ActiveBundle {
        ActiveBundle {
            extension: extension.to_owned(),
            bundle: format!("{extension}.v1.0.0"),
            properties: Some(format!(
                r#"[{{"type":"{MAX_OPENSHIFT_VERSION}","value":{value}}}]"#
            )),
            override_text: None,
        }
    }

    #[test]
    fn the_maximum_must_be_above_the_clusters_minor() {
        for (current, maximum, upgradeable) in [
            ("4.17.0", "\"4.18\"", true),
            ("4.18.0", "\"4.18\"", false),
            ("4.18.0-rc1", "\"4.18\"", false),
            ("4.19.2", "\"4.18\"", false),
            ("4.22.0", "4.23", true),
            ("4.23.0", "5.0", false),
            ("4.23.0", "5.1", true),
            ("5.0.0", "5.0", false),
            ("5.0.0", "4.23", false),
            ("5.0.0", "5.1", true),
            ("5.1.0", "5.1", false),
            ("4.19.0", "4.20", true),
        ] {
            let verdict = verdict(minor(current), &[bundle("a", maximum)]);
            assert_eq!(verdict.upgradeable, upgradeable, "{current} {maximum}");
        }
    }

    #[test]
    fn values_are_read_by_their_raw_digits() {
        for (raw, expected) in [
            ("\"4.18\"", Some("4.18")),
            ("4.18", Some("4.18")),
            ("4.20", Some("4.20")),
            ("\"4.18.0\"", Some("4.18")),
            ("\"v4.18\"", Some("4.18")),
            ("\"\\\"4.18\\\"\"", Some("4.18")),
            ("\"4.08\"", Some("4.8")),
            ("\"5.0\"", Some("5.0")),
            ("4.19e1", None),
            ("5", None),
            ("\"4\"", None),
            ("\"\"", None),
            ("\"4.18-rc1\"", None),
            ("\"4.18.1\"", None),
            ("null", None),
            ("true", None),
            ("{}", None),
            ("[\"4.18\"]", None),
            ("-4.18", None),
        ] {
            assert_eq!(
                maximum_value(raw).ok().map(|v| v.to_string()),
                expected.map(str::to_owned),
                "{raw}"
            );
        }
    }

    #[test]
    fn the_lowest_of_several_counts_and_other_properties_do_not() {
        let list = r#"[{"type":"olm.maxOpenShiftVersion","value":"4.20"},{"type":"x","value":1},
                       {"type":"olm.maxOpenShiftVersion","value":"4.18"}]"#;
        assert_eq!(maximum(list).unwrap().unwrap().to_string(), "4.18");
        assert_eq!(maximum("[]").unwrap(), None);
        assert_eq!(maximum("null").unwrap(), None);
        assert!(maximum("").is_err());
        assert!(maximum("{}").is_err());
    }

    #[test]
    fn the_message_names_every_blocker_in_order() {
        let mut bundles = vec![
            bundle("b", "\"4.18\""),
            bundle("a", "\"4.17\""),
            bundle("c", "\"4.19\""),
        ];
        let verdict_of = |bundles: &[ActiveBundle]| verdict(minor("4.18.5"), bundles);
        let first = verdict_of(&bundles);
        assert_eq!(first.reason, INCOMPATIBLE);
        assert_eq!(
            first.message,
            "InstalledOLMOperatorsUpgradeable: Found ClusterExtensions that require upgrades prior to upgrading \
             cluster to version 4.19: bundle \"a.v1.0.0\" for ClusterExtension \"a\",bundle \"b.v1.0.0\" for \
             ClusterExtension \"b\"."
        );
        bundles.reverse();
        assert_eq!(verdict_of(&bundles), first);
    }

    #[test]
    fn an_unreadable_property_blocks() {
        let verdict = verdict(minor("4.18.5"), &[bundle("a", "\"soon\"")]);
        assert!(!verdict.upgradeable);
        assert_eq!(verdict.reason, UNREADABLE);
        assert_eq!(
            verdict.message,
            "InstalledOLMOperatorsUpgradeable: error with cluster extension a: error in bundle a.v1.0.0: error \
             converting to semver for version \"soon\": expected <major>.<minor>, for example \"4.18\""
        );
    }

    #[test]
    fn an_administrators_annotation_wins() {
        let mut one = bundle("a", "\"4.18\"");
        one.override_text = Some("4.19".to_owned());
        assert!(verdict(minor("4.18.0"), &[one.clone()]).upgradeable);
        one.override_text = Some("x".to_owned());
        assert!(!verdict(minor("4.18.0"), &[one]).upgradeable);
    }

    #[test]
    fn nothing_installed_is_upgradeable() {
        let verdict = verdict(minor("4.18.0"), &[]);
        assert!(verdict.upgradeable);
        assert_eq!(
            (verdict.reason, verdict.message.as_str()),
            (AS_EXPECTED, "All is well")
        );
    }
}

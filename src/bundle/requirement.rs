//! What a bundle asks for: other packages and APIs, constraints over them, a Kubernetes version.
//!
//! Only reading happens here. Whether a dependency is met is decided elsewhere; until then a bundle that has one is
//! refused. Rules: the property types of file-based catalogs, and `olm.constraint` of
//! `github.com/operator-framework/api/pkg/constraints`, with two differences: the documentation's limit of 64 KiB holds
//! (the library has twice that), and its spelling `name` of a package is taken beside the library's `packageName`.

use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::version::skip_range::{SkipRange, SkipRangeError};
use crate::version::{Version, VersionError};

use super::typed::kind_of;

/// The largest `olm.constraint`, in bytes of its JSON text: compounds nest, and reading them costs.
pub const CONSTRAINT_LIMIT_BYTES: usize = 64 << 10;

const PACKAGE_REQUIRED: &str = "olm.package.required";
const GVK_REQUIRED: &str = "olm.gvk.required";
const CONSTRAINT: &str = "olm.constraint";
const GVK: &str = "olm.gvk";

/// A property of a bundle: a type, and a value as JSON text.
#[derive(Debug, Clone, Deserialize)]
pub struct Property {
    /// The type; empty when it has none.
    #[serde(default)]
    pub r#type: String,
    /// The value; null when it has none.
    #[serde(default = "null")]
    pub value: Box<RawValue>,
}

fn null() -> Box<RawValue> {
    RawValue::NULL.to_owned()
}

/// A group, version and kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Gvk {
    /// The API group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} {}", self.group, self.version, self.kind)
    }
}

/// A package in a range of versions.
#[derive(Debug, Clone, PartialEq)]
pub struct PackageRange {
    /// The package.
    pub package: String,
    /// The range, in the language of `skipRange`.
    pub range: SkipRange,
    /// The range as written.
    pub written: String,
}

/// Something that a bundle needs.
#[derive(Debug, Clone, PartialEq)]
pub enum Requirement {
    /// `olm.package.required`
    Package(PackageRange),
    /// `olm.gvk.required`
    Gvk(Gvk),
    /// `olm.constraint`
    Constraint(Constraint),
}

/// A constraint, possibly of others.
#[derive(Debug, Clone, PartialEq)]
pub struct Constraint {
    /// What to tell when it cannot be met, as written; empty when nothing.
    pub failure_message: String,
    /// What must hold.
    pub condition: Condition,
}

/// What must hold.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// An API is provided.
    Gvk(Gvk),
    /// A package in a range is there.
    Package(PackageRange),
    /// An expression in CEL over `properties` is true. It is not compiled here.
    Cel {
        /// The expression.
        rule: String,
    },
    /// All of these hold.
    All(Vec<Constraint>),
    /// At least one of these holds.
    Any(Vec<Constraint>),
    /// None of these holds.
    Not(Vec<Constraint>),
}

/// Why a property says nothing that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequirementError {
    /// The text is no list of properties.
    #[error("cannot read the list of properties: {0}")]
    List(String),
    /// The value is missing or null.
    #[error("property {0:?} has no value")]
    NoValue(String),
    /// The value is larger than [`CONSTRAINT_LIMIT_BYTES`].
    #[error("olm.constraint has {0} bytes, more than {CONSTRAINT_LIMIT_BYTES}")]
    TooLarge(usize),
    /// The value is not of the form that the type has.
    #[error("{place}: got {found}, want {wanted}")]
    Form {
        /// Where, from the type on.
        place: String,
        /// The kind of JSON found.
        found: &'static str,
        /// What belongs there.
        wanted: &'static str,
    },
    /// A member is missing or empty.
    #[error("{place}: {member} is missing")]
    Missing {
        /// Where, from the type on.
        place: String,
        /// The member.
        member: &'static str,
    },
    /// A member that the type does not have.
    #[error("{place}: unknown member {member:?}")]
    Unknown {
        /// Where, from the type on.
        place: String,
        /// The member.
        member: String,
    },
    /// A constraint that says several things at once, or nothing.
    #[error("{place}: want exactly one of gvk, package, cel, all, any, not; got {found}")]
    NotOne {
        /// Where, from the type on.
        place: String,
        /// How many of them are there.
        found: usize,
    },
    /// A range that cannot be read.
    #[error("{place}: invalid version range {range:?}: {cause}")]
    Range {
        /// Where, from the type on.
        place: String,
        /// The range as written.
        range: String,
        /// What is wrong with it.
        cause: SkipRangeError,
    },
}

/// Reads the list of properties that the annotation of a CSV holds.
///
/// # Errors
/// When the text is no JSON list of objects.
pub fn properties(text: &str) -> Result<Vec<Property>, RequirementError> {
    serde_json::from_str::<Option<Vec<Property>>>(text)
        .map(Option::unwrap_or_default)
        .map_err(|error| RequirementError::List(error.to_string()))
}

impl Property {
    /// What the property asks for; `None` when its type asks for nothing.
    ///
    /// # Errors
    /// When it asks, and its value cannot be read.
    pub fn requirement(&self) -> Result<Option<Requirement>, RequirementError> {
        let read: fn(&str, Value) -> Result<Requirement, RequirementError> =
            match self.r#type.as_str() {
                PACKAGE_REQUIRED => |place, value| Ok(Requirement::Package(package(place, value)?)),
                GVK_REQUIRED => |place, value| Ok(Requirement::Gvk(gvk(place, value)?)),
                CONSTRAINT => |place, value| Ok(Requirement::Constraint(constraint(place, value)?)),
                _ => return Ok(None),
            };
        if self.r#type == CONSTRAINT && self.value.get().len() > CONSTRAINT_LIMIT_BYTES {
            return Err(RequirementError::TooLarge(self.value.get().len()));
        }
        read(&self.r#type, self.json()?).map(Some)
    }

    /// The API that the property says is provided; `None` for other types.
    ///
    /// # Errors
    /// When it says so, and its value cannot be read.
    pub fn provided_api(&self) -> Result<Option<Gvk>, RequirementError> {
        if self.r#type != GVK {
            return Ok(None);
        }
        gvk(&self.r#type, self.json()?).map(Some)
    }

    fn json(&self) -> Result<Value, RequirementError> {
        match serde_json::from_str(self.value.get()) {
            Ok(Value::Null) => Err(RequirementError::NoValue(self.r#type.clone())),
            Ok(value) => Ok(value),
            Err(error) => Err(RequirementError::List(error.to_string())),
        }
    }
}

fn object(place: &str, value: Value) -> Result<Map<String, Value>, RequirementError> {
    match value {
        Value::Object(members) => Ok(members),
        other => Err(RequirementError::Form {
            place: place.to_owned(),
            found: kind_of(&other),
            wanted: "an object",
        }),
    }
}

/// Takes the text at `member`; an empty one counts as missing.
fn text(
    place: &str,
    members: &mut Map<String, Value>,
    member: &'static str,
) -> Result<String, RequirementError> {
    match members.remove(member) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        None | Some(Value::Null | Value::String(_)) => Err(RequirementError::Missing {
            place: place.to_owned(),
            member,
        }),
        Some(other) => Err(RequirementError::Form {
            place: format!("{place}.{member}"),
            found: kind_of(&other),
            wanted: "a string",
        }),
    }
}

fn nothing_else(place: &str, members: &Map<String, Value>) -> Result<(), RequirementError> {
    match members.keys().next() {
        None => Ok(()),
        Some(member) => Err(RequirementError::Unknown {
            place: place.to_owned(),
            member: member.clone(),
        }),
    }
}

fn gvk(place: &str, value: Value) -> Result<Gvk, RequirementError> {
    let mut members = object(place, value)?;
    let gvk = Gvk {
        group: text(place, &mut members, "group")?,
        version: text(place, &mut members, "version")?,
        kind: text(place, &mut members, "kind")?,
    };
    nothing_else(place, &members)?;
    Ok(gvk)
}

fn package(place: &str, value: Value) -> Result<PackageRange, RequirementError> {
    let mut members = object(place, value)?;
    let key = if members.contains_key("name") {
        "name"
    } else {
        "packageName"
    };
    let package = text(place, &mut members, key)?;
    let written = text(place, &mut members, "versionRange")?;
    nothing_else(place, &members)?;
    match SkipRange::parse(&written) {
        Ok(range) => Ok(PackageRange {
            package,
            range,
            written,
        }),
        Err(cause) => Err(RequirementError::Range {
            place: place.to_owned(),
            range: written,
            cause,
        }),
    }
}

fn constraint(place: &str, value: Value) -> Result<Constraint, RequirementError> {
    let mut members = object(place, value)?;
    let failure_message = match members.remove("failureMessage") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text,
        Some(other) => {
            return Err(RequirementError::Form {
                place: format!("{place}.failureMessage"),
                found: kind_of(&other),
                wanted: "a string",
            });
        }
    };
    members.retain(|_, member| !member.is_null());
    let found = members.len();
    let one = (found == 1).then(|| members.into_iter().next()).flatten();
    let Some((key, value)) = one else {
        return Err(RequirementError::NotOne {
            place: place.to_owned(),
            found,
        });
    };
    let place = format!("{place}.{key}");
    let condition = match key.as_str() {
        "gvk" => Condition::Gvk(gvk(&place, value)?),
        "package" => Condition::Package(package(&place, value)?),
        "cel" => {
            let mut members = object(&place, value)?;
            let rule = text(&place, &mut members, "rule")?;
            nothing_else(&place, &members)?;
            Condition::Cel { rule }
        }
        "all" => Condition::All(constraints(&place, value)?),
        "any" => Condition::Any(constraints(&place, value)?),
        "not" => Condition::Not(constraints(&place, value)?),
        _ => {
            return Err(RequirementError::Unknown {
                place: CONSTRAINT.to_owned(),
                member: key,
            });
        }
    };
    Ok(Constraint {
        failure_message,
        condition,
    })
}

/// The members of a compound.
fn constraints(place: &str, value: Value) -> Result<Vec<Constraint>, RequirementError> {
    let mut members = object(place, value)?;
    let list = members.remove("constraints").unwrap_or(Value::Null);
    nothing_else(place, &members)?;
    match list {
        Value::Array(items) if !items.is_empty() => items
            .into_iter()
            .enumerate()
            .map(|(index, item)| constraint(&format!("{place}[{index}]"), item))
            .collect(),
        Value::Array(_) | Value::Null => Err(RequirementError::Missing {
            place: place.to_owned(),
            member: "constraints",
        }),
        other => Err(RequirementError::Form {
            place: format!("{place}.constraints"),
            found: kind_of(&other),
            wanted: "a list",
        }),
    }
}

impl fmt::Display for PackageRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "package {} {}", self.package, self.written)
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Package(package) => package.fmt(f),
            Self::Gvk(gvk) => write!(f, "API {gvk}"),
            Self::Constraint(constraint) => constraint.fmt(f),
        }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |word: &str, constraints: &[Self]| {
            let texts: Vec<String> = constraints.iter().map(ToString::to_string).collect();
            format!("{word}({})", texts.join(", "))
        };
        match &self.condition {
            Condition::Gvk(gvk) => write!(f, "API {gvk}"),
            Condition::Package(package) => package.fmt(f),
            Condition::Cel { rule } => write!(f, "properties that satisfy {rule}"),
            Condition::All(constraints) => f.write_str(&joined("all of ", constraints)),
            Condition::Any(constraints) => f.write_str(&joined("any of ", constraints)),
            Condition::Not(constraints) => f.write_str(&joined("none of ", constraints)),
        }
    }
}

/// A Kubernetes version that a bundle does not run on, or does not name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KubernetesError {
    /// `minKubeVersion` is no version.
    #[error("minKubeVersion {text:?} is no version: {cause}")]
    Invalid {
        /// The text.
        text: String,
        /// What is wrong with it.
        cause: VersionError,
    },
    /// The cluster is older.
    #[error("bundle needs Kubernetes {minimum} or newer, and the cluster runs {cluster}")]
    TooOld {
        /// The lowest version that the bundle runs on.
        minimum: String,
        /// The cluster's version.
        cluster: String,
    },
}

/// The lowest Kubernetes version of a CSV; an empty text names none.
///
/// # Errors
/// When the text is no version.
pub fn minimum_kubernetes(text: &str) -> Result<Option<Version>, KubernetesError> {
    if text.is_empty() {
        return Ok(None);
    }
    match Version::parse_tolerant(text) {
        Ok(version) => Ok(Some(version)),
        Err(cause) => Err(KubernetesError::Invalid {
            text: text.to_owned(),
            cause,
        }),
    }
}

/// Checks the lowest Kubernetes version of a CSV against the cluster's. Only the three numbers of the cluster's version
/// count: a distribution's suffix (`v1.33.2+abc`, `v1.33.2-gke.1`) makes it no pre-release.
///
/// # Errors
/// When the text is no version, or the cluster's is lower.
pub fn check_kubernetes(text: &str, cluster: &Version) -> Result<(), KubernetesError> {
    let Some(minimum) = minimum_kubernetes(text)? else {
        return Ok(());
    };
    let (major, minor, patch) = cluster.core();
    let cluster = Version::new(major, minor, patch);
    if cluster < minimum {
        return Err(KubernetesError::TooOld {
            minimum: minimum.to_string(),
            cluster: cluster.to_string(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod seeds;
#[cfg(test)]
mod tests;

//! `spec.config.inline` of a registry+v1 bundle: its schema, which follows from the supported install modes, and the
//! reference's words for what does not fit.
//!
//! The schema is a JSON Schema in the reference; here it is code, because two properties are all it has.
//! Of what stands below `deploymentConfig`, the types of Kubernetes decide ([`typed::fits_schema`]); like the library
//! that the reference uses, nothing is said about where in such a type the defect is.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::csv::InstallMode;
use super::typed::{self, FieldShape, TypeMismatch, kind_of};

/// A label of DNS has 1 to 63 characters.
const NAMESPACE_MAX_LENGTH: usize = 63;

/// The pattern of a namespace's name, as messages quote it.
const NAMESPACE_PATTERN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// What a configuration says, checked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Configuration {
    /// The namespace to watch; `None` means the default of the bundle.
    pub watch_namespace: Option<String>,
    /// What to change in every Deployment, as Go prints it.
    pub deployment: Option<DeploymentConfig>,
}

/// `deploymentConfig`, as Go prints it: empty members are left out.
pub type DeploymentConfig = Map<String, Value>;

/// Why a configuration is refused. The texts are those of the reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// It does not fit the schema.
    #[error("invalid ClusterExtension configuration: invalid configuration: {}", listed(.0))]
    Schema(Vec<String>),
    /// `deploymentConfig` fits the schema, but not the types.
    #[error("invalid deploymentConfig: failed to unmarshal deploymentConfig: {0}")]
    DeploymentConfig(#[source] TypeMismatch),
}

fn listed(findings: &[String]) -> String {
    match findings {
        [one] => one.clone(),
        many => format!("multiple errors found:\n  - {}", many.join("\n  - ")),
    }
}

/// How a value fails its schema, as the schema library builds it.
#[derive(Debug)]
enum Failure {
    One(String),
    /// Several failures of one value.
    Group(Vec<Self>),
    /// A value that fits no branch of a choice.
    AnyOf {
        text: String,
        branches: Vec<Self>,
    },
}

impl Failure {
    /// The failure of one value, `None` when there is none.
    fn of(mut failures: Vec<Self>) -> Option<Self> {
        match failures.len() {
            0 => None,
            1 => failures.pop(),
            _ => Some(Self::Group(failures)),
        }
    }

    fn into_lines(self, lines: &mut Vec<String>) {
        match self {
            Self::One(text) => lines.push(text),
            Self::Group(failures) => {
                lines.push(NO_DETAIL.to_owned());
                for failure in failures {
                    failure.into_lines(lines);
                }
            }
            Self::AnyOf { text, branches } => {
                lines.push(text);
                for branch in branches {
                    branch.into_lines(lines);
                }
            }
        }
    }
}

/// The library's text for a failure behind a reference, and for several at once.
const NO_DETAIL: &str = "validation failed";

/// Whether `watchNamespace` may, must or cannot be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Unknown,
    Optional,
    Required,
}

/// Which namespaces may be watched, besides being names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watched {
    Any,
    OnlyOwn,
    OnlyOther,
}

/// Checks a configuration against the install modes that the bundle supports.
///
/// No configuration and `null` mean the empty one.
///
/// # Errors
/// Everything that does not fit the schema, members in order of their names; then what does not fit the types.
pub fn check(
    config: Option<&Value>,
    modes: &BTreeSet<InstallMode>,
    install_namespace: &str,
) -> Result<Configuration, ConfigurationError> {
    let empty = Map::new();
    let members = match config {
        None | Some(Value::Null) => &empty,
        Some(Value::Object(members)) => members,
        Some(other) => {
            return Err(ConfigurationError::Schema(vec![format!(
                "invalid type: got {}, want object",
                schema_kind(other)
            )]));
        }
    };
    let lines = failures(members, modes, install_namespace);
    if !lines.is_empty() {
        return Err(ConfigurationError::Schema(lines));
    }
    let deployment = match members.get("deploymentConfig") {
        None => None,
        Some(value) => Some(
            typed::reencode("bundle.DeploymentConfig", value.clone())
                .map_err(ConfigurationError::DeploymentConfig)?,
        ),
    };
    Ok(Configuration {
        watch_namespace: members
            .get("watchNamespace")
            .and_then(Value::as_str)
            .map(str::to_owned),
        deployment: deployment.and_then(|value| match value {
            Value::Object(members) => Some(members),
            _ => None,
        }),
    })
}

fn failures(
    members: &Map<String, Value>,
    modes: &BTreeSet<InstallMode>,
    install_namespace: &str,
) -> Vec<String> {
    let presence = presence(modes);
    let mut failures = Vec::new();
    if presence == Presence::Required && !members.contains_key("watchNamespace") {
        failures.push(missing("watchNamespace"));
    }
    let mut unknown = None;
    for (key, value) in members {
        let failure = match key.as_str() {
            "watchNamespace" if presence != Presence::Unknown => {
                watch_namespace(value, presence, watched(modes), install_namespace)
            }
            "deploymentConfig" => deployment_config(value),
            _ => {
                unknown.get_or_insert(key);
                None
            }
        };
        failures.extend(failure);
    }
    failures.extend(unknown.map(|key| unknown_field(key)));
    let mut lines = Vec::new();
    match Failure::of(failures) {
        // The group of the whole configuration has no line of its own.
        Some(Failure::Group(failures)) => {
            for failure in failures {
                failure.into_lines(&mut lines);
            }
        }
        Some(failure) => failure.into_lines(&mut lines),
        None => {}
    }
    lines
}

fn presence(modes: &BTreeSet<InstallMode>) -> Presence {
    let has_one =
        modes.contains(&InstallMode::OwnNamespace) || modes.contains(&InstallMode::SingleNamespace);
    match (modes.contains(&InstallMode::AllNamespaces), has_one) {
        (_, false) => Presence::Unknown,
        (true, true) => Presence::Optional,
        (false, true) => Presence::Required,
    }
}

fn watched(modes: &BTreeSet<InstallMode>) -> Watched {
    match (
        modes.contains(&InstallMode::OwnNamespace),
        modes.contains(&InstallMode::SingleNamespace),
    ) {
        (true, false) => Watched::OnlyOwn,
        (false, true) => Watched::OnlyOther,
        _ => Watched::Any,
    }
}

fn watch_namespace(
    value: &Value,
    presence: Presence,
    watched: Watched,
    install_namespace: &str,
) -> Option<Failure> {
    const FIELD: &str = "watchNamespace";
    let as_name = namespace_name(value, watched, install_namespace);
    if presence == Presence::Required {
        return as_name;
    }
    if value.is_null() {
        return None;
    }
    Some(Failure::AnyOf {
        text: format!("invalid value for field \"{FIELD}\""),
        branches: vec![wrong_type(FIELD, value, "null"), as_name?],
    })
}

/// A namespace's name: type and format end the check of a value, length and pattern are reported together.
fn namespace_name(value: &Value, watched: Watched, install_namespace: &str) -> Option<Failure> {
    const FIELD: &str = "watchNamespace";
    let Some(name) = value.as_str() else {
        return Some(wrong_type(FIELD, value, "string"));
    };
    if !install_namespace.is_empty() {
        let is_own = name == install_namespace;
        let problem = match watched {
            Watched::OnlyOwn if !is_own => Some((
                "ownNamespaceInstallMode",
                format!(
                    "invalid value \"{name}\": must be \"{install_namespace}\" (the namespace where the operator is installed) because this operator only supports OwnNamespace install mode"
                ),
            )),
            Watched::OnlyOther if is_own => Some((
                "singleNamespaceInstallMode",
                format!(
                    "invalid value \"{name}\": must be different from \"{install_namespace}\" (the install namespace) because this operator uses SingleNamespace install mode to watch a different namespace"
                ),
            )),
            Watched::Any | Watched::OnlyOwn | Watched::OnlyOther => None,
        };
        if let Some((format, cause)) = problem {
            return Some(Failure::One(format!(
                "invalid format for field \"{FIELD}\": '{name}' is not valid {format}: {cause}"
            )));
        }
    }
    let mut failures = Vec::new();
    let length = name.chars().count();
    if length == 0 {
        failures.push(Failure::One(format!(
            "field \"{FIELD}\" must have minimum length of 1 (len=0)"
        )));
    }
    if length > NAMESPACE_MAX_LENGTH {
        failures.push(Failure::One(format!(
            "field \"{FIELD}\" must have maximum length of {NAMESPACE_MAX_LENGTH} (len={length})"
        )));
    }
    if !is_dns_label(name) {
        failures.push(Failure::One(format!(
            "field \"{FIELD}\" must match pattern \"{NAMESPACE_PATTERN}\""
        )));
    }
    Failure::of(failures)
}

/// Whether `name` matches the pattern of a namespace's name.
fn is_dns_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.first().copied().is_some_and(inner)
        && bytes.last().copied().is_some_and(inner)
        && bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
}

fn deployment_config(value: &Value) -> Option<Failure> {
    const FIELD: &str = "deploymentConfig";
    let Some(members) = value.as_object() else {
        return Some(wrong_type(FIELD, value, "object"));
    };
    let mut failures = Vec::new();
    let mut unknown = None;
    for (key, member) in members {
        match typed::field_shape("bundle.DeploymentConfig", key) {
            Some(shape) => failures.extend(member_of(&format!("{FIELD}.{key}"), shape, member)),
            None => {
                unknown.get_or_insert(key);
            }
        }
    }
    failures.extend(unknown.map(|key| unknown_field(key)));
    Failure::of(failures)
}

/// A member of `deploymentConfig`: its own type is spelled out, the types behind it are references.
fn member_of(path: &str, shape: &FieldShape, value: &Value) -> Option<Failure> {
    match shape {
        FieldShape::List(item) => {
            let Some(items) = value.as_array() else {
                return Some(wrong_type(path, value, "array"));
            };
            let failures = items.iter().filter(|i| !typed::fits_schema(item, i));
            Failure::of(failures.map(|_| no_detail()).collect())
        }
        FieldShape::Map(_) => {
            let Some(members) = value.as_object() else {
                return Some(wrong_type(path, value, "object"));
            };
            let failures = members.iter().filter(|(_, member)| !member.is_string());
            Failure::of(
                failures
                    .map(|(key, member)| wrong_type(&format!("{path}.{key}"), member, "string"))
                    .collect(),
            )
        }
        other => (!typed::fits_schema(other, value)).then(no_detail),
    }
}

fn no_detail() -> Failure {
    Failure::One(NO_DETAIL.to_owned())
}

fn missing(path: &str) -> Failure {
    Failure::One(format!("required field \"{path}\" is missing"))
}

fn unknown_field(key: &str) -> Failure {
    Failure::One(format!("unknown field \"{key}\""))
}

/// A value of a wrong type; a null counts as missing, unless null itself is one of the choices.
fn wrong_type(path: &str, value: &Value, wanted: &str) -> Failure {
    if value.is_null() {
        return missing(path);
    }
    Failure::One(format!(
        "invalid type for field \"{path}\": got {}, want {wanted}",
        schema_kind(value)
    ))
}

/// The schema library's name of a kind of value.
fn schema_kind(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "boolean",
        other => kind_of(other),
    }
}

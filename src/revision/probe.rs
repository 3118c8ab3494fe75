//! Is an object available? Assertions on one object as it was read.
//!
//! Semantics and messages are the reference's (boxcutter, `probing/`): every probe first asks whether the status is
//! current, then whether its selector matches, then all its assertions. Unknown outweighs False outweighs True, and
//! only the messages of the outcome are kept. Differs from the reference: the same message is given once, however
//! many probes have it, and a counter that a workload of group `apps` leaves out of its status is zero, so that a
//! Deployment scaled to zero is available.

mod defaults;
pub mod endpoints;
pub mod pods;
#[cfg(test)]
mod tests;

pub use defaults::{default_probes, default_probes_of};

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt as _};
use serde_json::Value;

use crate::api::cluster_object_set as wire;
use crate::api::object::Gvk;
use crate::error::{Classify, Disposition, Reason};

/// Assertions for the objects that a selector matches.
#[derive(Debug, Clone)]
pub struct Probe {
    selector: ObjectSelector,
    assertions: Vec<Assertion>,
}

#[derive(Debug, Clone)]
enum ObjectSelector {
    Kind { group: String, kind: String },
    Labels(Selector),
}

#[derive(Debug, Clone)]
enum Assertion {
    ConditionEqual { type_: String, status: &'static str },
    FieldsEqual { a: String, b: String },
    FieldValue { path: String, value: String },
}

/// A probe that the API server should not have let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProbe {
    /// A union whose member is missing.
    #[error("progression probe {index}: {member} is missing")]
    Incomplete {
        /// Its place in the list.
        index: usize,
        /// The member that its type asks for.
        member: &'static str,
    },
    /// A label selector with an operator that does not exist.
    #[error("progression probe {index}: the label selector cannot be used: {text}")]
    Selector {
        /// Its place in the list.
        index: usize,
        /// What is wrong with it.
        text: String,
    },
}

impl Classify for InvalidProbe {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Incomplete { .. } | Self::Selector { .. } => {
                Disposition::Terminal(Reason::Blocked)
            }
        }
    }
}

/// The outcome of probing one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeResult {
    /// It is available.
    True,
    /// It is not, for these reasons.
    False(Vec<String>),
    /// It cannot be said, for these reasons.
    Unknown(Vec<String>),
}

impl ProbeResult {
    /// Whether the object is available.
    pub fn is_true(&self) -> bool {
        *self == Self::True
    }

    /// The reasons, joined as the reference does: `a and b`. Empty when available.
    pub fn message(&self) -> String {
        match self {
            Self::True => String::new(),
            Self::False(messages) | Self::Unknown(messages) => messages.join(" and "),
        }
    }

    /// The outcome of both.
    fn and(self, other: Self) -> Self {
        let merge = |mut one: Vec<String>, other: Vec<String>| {
            for message in other {
                if !one.contains(&message) {
                    one.push(message);
                }
            }
            one
        };
        match (self, other) {
            (Self::Unknown(one), Self::Unknown(other)) => Self::Unknown(merge(one, other)),
            (Self::Unknown(messages), _) | (_, Self::Unknown(messages)) => Self::Unknown(messages),
            (Self::False(one), Self::False(other)) => Self::False(merge(one, other)),
            (Self::False(messages), Self::True) | (Self::True, Self::False(messages)) => {
                Self::False(messages)
            }
            (Self::True, Self::True) => Self::True,
        }
    }
}

/// Reads the probes of a `ClusterObjectSet`.
///
/// # Errors
/// When a union has not the member that its type asks for, or a selector is none.
pub fn parse(probes: &[wire::ProgressionProbe]) -> Result<Vec<Probe>, InvalidProbe> {
    probes
        .iter()
        .enumerate()
        .map(|(index, probe)| parse_one(index, probe))
        .collect()
}

fn parse_one(index: usize, probe: &wire::ProgressionProbe) -> Result<Probe, InvalidProbe> {
    let missing = |member| InvalidProbe::Incomplete { index, member };
    let selector = match probe.selector.selector_type {
        wire::SelectorType::GroupKind => {
            let kind = probe.selector.group_kind.as_ref();
            let kind = kind.ok_or_else(|| missing("groupKind"))?;
            ObjectSelector::Kind {
                group: kind.group.clone(),
                kind: kind.kind.clone(),
            }
        }
        wire::SelectorType::Label => {
            let label = probe.selector.label.as_ref();
            let label: LabelSelector = label.ok_or_else(|| missing("label"))?.clone();
            ObjectSelector::Labels(Selector::try_from(label).map_err(|error| {
                InvalidProbe::Selector {
                    index,
                    text: error.0,
                }
            })?)
        }
    };
    let assertions = probe
        .assertions
        .iter()
        .map(|assertion| match assertion.assertion_type {
            wire::AssertionType::ConditionEqual => {
                let wanted = assertion.condition_equal.as_ref();
                let wanted = wanted.ok_or_else(|| missing("conditionEqual"))?;
                Ok(Assertion::ConditionEqual {
                    type_: wanted.condition_type.clone(),
                    status: match wanted.status {
                        wire::ExpectedStatus::True => "True",
                        wire::ExpectedStatus::False => "False",
                    },
                })
            }
            wire::AssertionType::FieldsEqual => {
                let fields = assertion.fields_equal.as_ref();
                let fields = fields.ok_or_else(|| missing("fieldsEqual"))?;
                Ok(Assertion::FieldsEqual {
                    a: fields.field_a.clone(),
                    b: fields.field_b.clone(),
                })
            }
            wire::AssertionType::FieldValue => {
                let wanted = assertion.field_value.as_ref();
                let wanted = wanted.ok_or_else(|| missing("fieldValue"))?;
                Ok(Assertion::FieldValue {
                    path: wanted.field_path.clone(),
                    value: wanted.value.clone(),
                })
            }
        })
        .collect::<Result<_, _>>()?;
    Ok(Probe {
        selector,
        assertions,
    })
}

/// Probes `object`. No probes: it is available.
pub fn evaluate(probes: &[Probe], object: &Value) -> ProbeResult {
    probes
        .iter()
        .map(|probe| probe.evaluate(object))
        .fold(ProbeResult::True, ProbeResult::and)
}

/// Whether the status of objects of this kind decides anything: some probe may select one.
pub fn concerns(probes: &[Probe], gvk: &Gvk) -> bool {
    probes.iter().any(|probe| match &probe.selector {
        ObjectSelector::Kind { group, kind } => gvk.is(group, kind),
        ObjectSelector::Labels(_) => true,
    })
}

impl Probe {
    fn evaluate(&self, object: &Value) -> ProbeResult {
        if is_outdated(object.pointer("/status/observedGeneration"), object) {
            return ProbeResult::Unknown(vec![".status outdated".to_owned()]);
        }
        if !self.selector.matches(object) {
            return ProbeResult::True;
        }
        self.assertions
            .iter()
            .map(|assertion| assertion.evaluate(object))
            .fold(ProbeResult::True, ProbeResult::and)
    }
}

impl ObjectSelector {
    fn matches(&self, object: &Value) -> bool {
        match self {
            Self::Kind { group, kind } => gvk_of(object).is(group, kind),
            Self::Labels(selector) => {
                let labels: BTreeMap<String, String> = object
                    .pointer("/metadata/labels")
                    .and_then(Value::as_object)
                    .into_iter()
                    .flatten()
                    .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                    .collect();
                selector.matches(&labels)
            }
        }
    }
}

impl Assertion {
    fn evaluate(&self, object: &Value) -> ProbeResult {
        let failed = match self {
            Self::ConditionEqual { type_, status } => {
                return condition_equal(object, type_, status);
            }
            Self::FieldsEqual { a, b } => fields_equal(object, a, b),
            Self::FieldValue { path, value } => field_value(object, path, value),
        };
        failed.map_or(ProbeResult::True, |message| {
            ProbeResult::False(vec![message])
        })
    }
}

fn condition_equal(object: &Value, type_: &str, status: &str) -> ProbeResult {
    let unknown = |message: String| ProbeResult::Unknown(vec![message]);
    // A CRD that was just made has `null` there.
    let conditions = object.pointer("/status/conditions");
    let Some(conditions) = conditions.filter(|conditions| !conditions.is_null()) else {
        return unknown("missing .status.conditions".to_owned());
    };
    let Some(conditions) = conditions.as_array() else {
        return unknown("malformed .status.conditions".to_owned());
    };
    let is_wanted =
        |condition: &&Value| condition.get("type").and_then(Value::as_str) == Some(type_);
    let Some(condition) = conditions.iter().find(is_wanted) else {
        return unknown(format!("missing .status.condition[{type_:?}]"));
    };
    if is_outdated(condition.get("observedGeneration"), object) {
        return unknown(format!(".status.condition[{type_:?}] outdated"));
    }
    let found = condition
        .get("status")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if found == status {
        ProbeResult::True
    } else {
        let why = reason(conditions, condition).map_or_else(String::new, |why| format!(": {why}"));
        ProbeResult::False(vec![format!(
            ".status.condition[{type_:?}] is {found}{why}"
        )])
    }
}

/// What other conditions say of why one is not as it should be: the names of a CRD are taken, Pods of a workload are refused.
fn reason(conditions: &[Value], probed: &Value) -> Option<String> {
    let of = |condition: &Value, field| {
        condition
            .get(field)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let (type_, status) = match of(probed, "type")?.as_str() {
        "Established" => ("NamesAccepted", "False"),
        "Available" => ("ReplicaFailure", "True"),
        _ => return None,
    };
    let is_meant = |condition: &&Value| {
        of(condition, "type").as_deref() == Some(type_)
            && of(condition, "status").as_deref() == Some(status)
    };
    let message = of(conditions.iter().find(is_meant)?, "message")?;
    // Every refused Pod has another name.
    let general = message.split_once("\" is forbidden: ").map(|(_, why)| why);
    Some(match general {
        Some(why) if message.starts_with("pods \"") => format!("Pods are refused: {why}"),
        _ => message,
    })
}

fn fields_equal(object: &Value, a: &str, b: &str) -> Option<String> {
    let Some(left) = field(object, a) else {
        return Some(format!("{a:?} missing"));
    };
    let Some(right) = field(object, b) else {
        return Some(format!("{b:?} missing"));
    };
    (left != right).then(|| format!("{a:?} != {b:?} expected: {left} got: {right}"))
}

fn field_value(object: &Value, path: &str, wanted: &str) -> Option<String> {
    let Some(found) = field(object, path) else {
        return Some(format!("missing key: {path:?}"));
    };
    if found.as_str() == Some(wanted) {
        return None;
    }
    let expected = Value::from(wanted);
    Some(format!(
        "value at key {path:?} != {wanted:?}; expected: {expected} got: {found}"
    ))
}

/// The value at a dotted path. Objects only: a path cannot address an item of a list.
fn field(object: &Value, path: &str) -> Option<Value> {
    let found = path
        .trim_start_matches('.')
        .split('.')
        .try_fold(object, |value, name| value.as_object()?.get(name));
    found
        .cloned()
        .or_else(|| is_omitted_counter(object, path).then(|| Value::from(0)))
}

/// Workloads leave counters out of their status while they are zero.
fn is_omitted_counter(object: &Value, path: &str) -> bool {
    let is_counter = path
        .trim_start_matches('.')
        .strip_prefix("status.")
        .is_some_and(|name| {
            let is_daemons = ["updatedNumberScheduled", "numberAvailable"].contains(&name);
            is_daemons || !name.contains('.') && (name == "replicas" || name.ends_with("Replicas"))
        });
    is_counter && gvk_of(object).group == "apps" && object.get("status").is_some()
}

fn is_outdated(observed: Option<&Value>, object: &Value) -> bool {
    let generation = object
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    observed
        .and_then(Value::as_i64)
        .is_some_and(|observed| observed != generation)
}

fn gvk_of(object: &Value) -> Gvk {
    let text = |field| {
        object
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    Gvk::new(text("apiVersion"), text("kind"))
}

//! Is an object available? Assertions on one object as it was read.
//!
//! Semantics and messages are the reference's (boxcutter, `probing/`): every probe first asks whether the status is
//! current, then whether its selector matches, then all its assertions. Unknown outweighs False outweighs True, and
//! only the messages of the outcome are kept. Differs from the reference: the same message is given once, however
//! many probes have it, and a counter that a workload of group `apps` leaves out of its status is zero, so that a
//! Deployment scaled to zero is available.

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
    let Some(conditions) = object.pointer("/status/conditions") else {
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
        ProbeResult::False(vec![format!(".status.condition[{type_:?}] is {found}")])
    }
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
            !name.contains('.') && (name == "replicas" || name.ends_with("Replicas"))
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

/// The probes of every revision that oxolm makes, in the order of the reference.
pub fn default_probes() -> Vec<wire::ProgressionProbe> {
    vec![
        kind_probe(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            vec![condition_is_true("Established")],
        ),
        kind_probe(
            "cert-manager.io",
            "Certificate",
            vec![condition_is_true("Ready")],
        ),
        kind_probe(
            "cert-manager.io",
            "Issuer",
            vec![condition_is_true("Ready")],
        ),
        kind_probe("", "Namespace", vec![value_is("status.phase", "Active")]),
        kind_probe(
            "",
            "PersistentVolumeClaim",
            vec![value_is("status.phase", "Bound")],
        ),
        kind_probe("apps", "Deployment", replicas_are_updated()),
        kind_probe("apps", "StatefulSet", replicas_are_updated()),
    ]
}

fn replicas_are_updated() -> Vec<wire::Assertion> {
    vec![
        wire::Assertion {
            assertion_type: wire::AssertionType::FieldsEqual,
            condition_equal: None,
            fields_equal: Some(wire::FieldsEqual {
                field_a: "status.updatedReplicas".to_owned(),
                field_b: "status.replicas".to_owned(),
            }),
            field_value: None,
        },
        condition_is_true("Available"),
    ]
}

fn kind_probe(group: &str, kind: &str, assertions: Vec<wire::Assertion>) -> wire::ProgressionProbe {
    wire::ProgressionProbe {
        selector: wire::ObjectSelector {
            selector_type: wire::SelectorType::GroupKind,
            group_kind: Some(wire::GroupKind {
                group: group.to_owned(),
                kind: kind.to_owned(),
            }),
            label: None,
        },
        assertions,
    }
}

fn condition_is_true(condition_type: &str) -> wire::Assertion {
    wire::Assertion {
        assertion_type: wire::AssertionType::ConditionEqual,
        condition_equal: Some(wire::ConditionEqual {
            condition_type: condition_type.to_owned(),
            status: wire::ExpectedStatus::True,
        }),
        fields_equal: None,
        field_value: None,
    }
}

fn value_is(path: &str, value: &str) -> wire::Assertion {
    wire::Assertion {
        assertion_type: wire::AssertionType::FieldValue,
        condition_equal: None,
        fields_equal: None,
        field_value: Some(wire::FieldValue {
            field_path: path.to_owned(),
            value: value.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn probes(value: &Value) -> Vec<Probe> {
        let wire: Vec<wire::ProgressionProbe> = serde_json::from_value(value.clone()).unwrap();
        parse(&wire).unwrap()
    }

    fn one(assertion: &Value) -> Vec<Probe> {
        probes(&json!([{
            "selector": {"type": "GroupKind", "groupKind": {"group": "g", "kind": "K"}},
            "assertions": [assertion],
        }]))
    }

    #[track_caller]
    fn check(probes: &[Probe], object: &Value, expected: &str) {
        let text = match evaluate(probes, object) {
            ProbeResult::True => "True".to_owned(),
            result @ ProbeResult::False(_) => format!("False: {}", result.message()),
            result @ ProbeResult::Unknown(_) => format!("Unknown: {}", result.message()),
        };
        assert_eq!(text, expected, "{object}");
    }

    fn object(rest: &Value) -> Value {
        let mut object =
            json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a", "generation": 2}});
        for (key, value) in rest.as_object().unwrap() {
            object[key] = value.clone();
        }
        object
    }

    #[test]
    fn a_condition_must_be_there_current_and_equal() {
        let probes = one(
            &json!({"type": "ConditionEqual", "conditionEqual": {"type": "Ready", "status": "True"}}),
        );
        for (status, expected) in [
            (json!({}), "Unknown: missing .status.conditions"),
            (
                json!({"conditions": "x"}),
                "Unknown: malformed .status.conditions",
            ),
            (
                json!({"conditions": []}),
                "Unknown: missing .status.condition[\"Ready\"]",
            ),
            (
                json!({"conditions": [{"type": "Ready", "status": "False"}]}),
                "False: .status.condition[\"Ready\"] is False",
            ),
            (
                json!({"conditions": [{"type": "Ready", "status": "True"}]}),
                "True",
            ),
            (
                json!({"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]}),
                "Unknown: .status.condition[\"Ready\"] outdated",
            ),
            (
                json!({"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}]}),
                "True",
            ),
            (
                json!({"observedGeneration": 1}),
                "Unknown: .status outdated",
            ),
        ] {
            check(&probes, &object(&json!({"status": status})), expected);
        }
    }

    #[test]
    fn fields_are_compared_deeply_and_values_as_text() {
        let equal = one(
            &json!({"type": "FieldsEqual", "fieldsEqual": {"fieldA": "spec.a", "fieldB": "spec.b"}}),
        );
        for (spec, expected) in [
            (json!({"a": {"x": [1]}, "b": {"x": [1]}}), "True"),
            (
                json!({"a": 1, "b": 2}),
                "False: \"spec.a\" != \"spec.b\" expected: 1 got: 2",
            ),
            (json!({"b": 2}), "False: \"spec.a\" missing"),
            (json!({"a": 2}), "False: \"spec.b\" missing"),
        ] {
            check(&equal, &object(&json!({"spec": spec})), expected);
        }
        let value = one(
            &json!({"type": "FieldValue", "fieldValue": {"fieldPath": "spec.a", "value": "3"}}),
        );
        for (spec, expected) in [
            (json!({"a": "3"}), "True"),
            (
                json!({"a": "4"}),
                "False: value at key \"spec.a\" != \"3\"; expected: \"3\" got: \"4\"",
            ),
            (
                json!({"a": 3}),
                "False: value at key \"spec.a\" != \"3\"; expected: \"3\" got: 3",
            ),
            (json!({}), "False: missing key: \"spec.a\""),
        ] {
            check(&value, &object(&json!({"spec": spec})), expected);
        }
    }

    #[test]
    fn an_outdated_status_is_seen_before_the_selector() {
        let probes = one(
            &json!({"type": "FieldValue", "fieldValue": {"fieldPath": "spec.a", "value": "3"}}),
        );
        let other = json!({"apiVersion": "v1", "kind": "Other", "metadata": {"generation": 3}, "status": {"observedGeneration": 2}});
        check(&probes, &other, "Unknown: .status outdated");
        check(&[], &other, "True");
    }

    #[test]
    fn labels_select_by_value_and_by_expression() {
        let selecting = |label: &Value| {
            probes(&json!([{
                "selector": {"type": "Label", "label": label},
                "assertions": [{"type": "FieldValue", "fieldValue": {"fieldPath": "a", "value": "b"}}],
            }]))
        };
        let object =
            json!({"apiVersion": "v1", "kind": "X", "metadata": {"labels": {"app": "one"}}});
        for (label, is_selected) in [
            (json!({"matchLabels": {"app": "one"}}), true),
            (json!({"matchLabels": {"app": "two"}}), false),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["one", "two"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["one"]}]}),
                false,
            ),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}),
                false,
            ),
        ] {
            let expected = if is_selected {
                "False: missing key: \"a\""
            } else {
                "True"
            };
            check(&selecting(&label), &object, expected);
        }
    }

    #[test]
    fn unknown_outweighs_false_and_both_messages_of_false_are_kept() {
        let two = |first: &Value, second: &Value| {
            probes(&json!([{
                "selector": {"type": "GroupKind", "groupKind": {"group": "g", "kind": "K"}},
                "assertions": [first, second],
            }]))
        };
        let x = json!({"type": "FieldValue", "fieldValue": {"fieldPath": "x", "value": "1"}});
        let y = json!({"type": "FieldValue", "fieldValue": {"fieldPath": "y", "value": "1"}});
        let ready = json!({"type": "ConditionEqual", "conditionEqual": {"type": "Ready", "status": "True"}});
        check(
            &two(&x, &y),
            &object(&json!({})),
            "False: missing key: \"x\" and missing key: \"y\"",
        );
        check(
            &two(&x, &ready),
            &object(&json!({})),
            "Unknown: missing .status.conditions",
        );
    }

    #[test]
    fn the_default_probes_know_the_usual_kinds() {
        let probes = parse(&default_probes()).unwrap();
        let available = json!([{"type": "Available", "status": "True"}]);
        for (api_version, kind, status, expected) in [
            ("v1", "ConfigMap", json!(null), "True"),
            ("v1", "Namespace", json!({"phase": "Active"}), "True"),
            (
                "v1",
                "PersistentVolumeClaim",
                json!({"phase": "Pending"}),
                "False: value at key \"status.phase\" != \"Bound\"; expected: \"Bound\" got: \"Pending\"",
            ),
            (
                "apps/v1",
                "Deployment",
                json!({"replicas": 2, "updatedReplicas": 2, "conditions": available}),
                "True",
            ),
            (
                "apps/v1",
                "Deployment",
                json!({"replicas": 2, "updatedReplicas": 1, "conditions": available}),
                "False: \"status.updatedReplicas\" != \"status.replicas\" expected: 1 got: 2",
            ),
            (
                "apps/v1",
                "Deployment",
                json!({}),
                "Unknown: missing .status.conditions",
            ),
            // Scaled to zero: both counters are left out.
            (
                "apps/v1",
                "Deployment",
                json!({"conditions": available}),
                "True",
            ),
        ] {
            let object =
                json!({"apiVersion": api_version, "kind": kind, "metadata": {}, "status": status});
            check(&probes, &object, expected);
        }
    }

    #[test]
    fn a_probe_without_its_member_is_refused() {
        let parse = |value: Value| {
            parse(&serde_json::from_value::<Vec<_>>(value).unwrap())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            parse(json!([{"selector": {"type": "Label"}, "assertions": []}])),
            "progression probe 0: label is missing"
        );
        assert_eq!(
            parse(json!([{
                "selector": {"type": "GroupKind", "groupKind": {"group": "", "kind": "K"}},
                "assertions": [{"type": "FieldValue"}],
            }])),
            "progression probe 0: fieldValue is missing"
        );
        assert!(
            parse(json!([{
                "selector": {"type": "Label", "label": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
                "assertions": [],
            }]))
            .starts_with("progression probe 0: the label selector cannot be used: ")
        );
    }
}

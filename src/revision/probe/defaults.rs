//! When the usual kinds count as available.
//!
//! Differs from the reference, which knows neither `DaemonSet` nor `Job` nor `APIService`: a revision is complete
//! when these work, too.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::api::cluster_object_set as wire;
use crate::api::object::ObjectKey;

/// The default probes that say anything about `objects`: a revision need not carry the others. At least one is kept,
/// since with any probe the status of every object has to be of its generation.
pub fn default_probes_of(objects: &[Value]) -> Vec<wire::ProgressionProbe> {
    let kinds: BTreeSet<(String, String)> = objects
        .iter()
        .filter_map(|object| ObjectKey::of(object).ok())
        .map(|key| (key.gvk.group, key.gvk.kind))
        .collect();
    let mut probes = default_probes();
    let concerns = |probe: &wire::ProgressionProbe| {
        let kind = probe.selector.group_kind.as_ref();
        kind.is_none_or(|kind| kinds.contains(&(kind.group.clone(), kind.kind.clone())))
    };
    if probes.iter().any(concerns) {
        probes.retain(concerns);
    } else {
        probes.truncate(1);
    }
    probes
}

/// All default probes, in the order of the reference; those after it are ours.
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
        kind_probe("apps", "DaemonSet", daemons_are_updated()),
        kind_probe("batch", "Job", vec![condition_is_true("Complete")]),
        kind_probe(
            "apiregistration.k8s.io",
            "APIService",
            vec![condition_is_true("Available")],
        ),
    ]
}

fn replicas_are_updated() -> Vec<wire::Assertion> {
    vec![
        fields_are_equal("status.updatedReplicas", "status.replicas"),
        condition_is_true("Available"),
    ]
}

/// A `DaemonSet` has no condition, and before anybody looked at it all its counters are zero.
fn daemons_are_updated() -> Vec<wire::Assertion> {
    let wanted = "status.desiredNumberScheduled";
    vec![
        fields_are_equal("status.observedGeneration", "metadata.generation"),
        fields_are_equal("status.updatedNumberScheduled", wanted),
        fields_are_equal("status.numberAvailable", wanted),
    ]
}

fn fields_are_equal(a: &str, b: &str) -> wire::Assertion {
    wire::Assertion {
        assertion_type: wire::AssertionType::FieldsEqual,
        condition_equal: None,
        fields_equal: Some(wire::FieldsEqual {
            field_a: a.to_owned(),
            field_b: b.to_owned(),
        }),
        field_value: None,
    }
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

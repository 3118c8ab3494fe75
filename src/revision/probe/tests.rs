//! Every kind of assertion and selector, and the probes that every revision has.

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
            json!({"conditions": null}),
            "Unknown: missing .status.conditions",
        ),
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
    let value =
        one(&json!({"type": "FieldValue", "fieldValue": {"fieldPath": "spec.a", "value": "3"}}));
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
    let probes =
        one(&json!({"type": "FieldValue", "fieldValue": {"fieldPath": "spec.a", "value": "3"}}));
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
    let object = json!({"apiVersion": "v1", "kind": "X", "metadata": {"labels": {"app": "one"}}});
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
    let ready =
        json!({"type": "ConditionEqual", "conditionEqual": {"type": "Ready", "status": "True"}});
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

#[test]
fn daemons_jobs_and_api_services_are_waited_for() {
    let probes = parse(&default_probes()).unwrap();
    let complete = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    let broken = json!({"conditions": [{"type": "Available", "status": "False"}]});
    let daemons = |status: &Value| json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"generation": 1}, "status": status});
    for (object, expected) in [
        (
            daemons(&json!({"desiredNumberScheduled": 0})),
            "False: \"status.observedGeneration\" missing",
        ),
        (
            daemons(&json!({"observedGeneration": 1, "desiredNumberScheduled": 0})),
            "True",
        ),
        (
            daemons(
                &json!({"observedGeneration": 1, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2}),
            ),
            "False: \"status.numberAvailable\" != \"status.desiredNumberScheduled\" expected: 0 got: 2",
        ),
        (
            daemons(
                &json!({"observedGeneration": 1, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2}),
            ),
            "True",
        ),
        (
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "status": {"conditions": []}}),
            "Unknown: missing .status.condition[\"Complete\"]",
        ),
        (
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "status": complete}),
            "True",
        ),
        (
            json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {}, "status": broken}),
            "False: .status.condition[\"Available\"] is False",
        ),
    ] {
        check(&probes, &object, expected);
    }
}

#[test]
fn the_reason_stands_in_another_condition() {
    let told = |kind: (&str, &str), conditions: Value| {
        let object = json!({"apiVersion": kind.0, "kind": kind.1, "metadata": {}, "status": {"conditions": conditions}});
        let probes = parse(&default_probes()).unwrap();
        evaluate(&probes, &object).message()
    };
    let forbidden = "pods \"a-5f-x7\" is forbidden: violates PodSecurity \"restricted:latest\"";
    let refused = json!([
        {"type": "Available", "status": "False", "message": "Deployment does not have minimum availability."},
        {"type": "ReplicaFailure", "status": "True", "message": forbidden},
    ]);
    assert_eq!(
        told(("apps/v1", "Deployment"), refused),
        ".status.condition[\"Available\"] is False: Pods are refused: violates PodSecurity \"restricted:latest\""
    );
    let taken = json!([
        {"type": "NamesAccepted", "status": "False", "message": "\"ThingList\" is already in use"},
        {"type": "Established", "status": "False", "message": "not all names are accepted"},
    ]);
    assert_eq!(
        told(
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            taken
        ),
        ".status.condition[\"Established\"] is False: \"ThingList\" is already in use"
    );
}

#[test]
fn a_revision_carries_the_default_probes_of_its_kinds() {
    let object =
        |api: &str, kind: &str| json!({"apiVersion": api, "kind": kind, "metadata": {"name": "a"}});
    let kinds = |objects: &[Value]| -> Vec<String> {
        let probes = default_probes_of(objects).into_iter();
        let kinds = probes.filter_map(|probe| Some(probe.selector.group_kind?.kind));
        kinds.collect()
    };
    let (deployment, map) = (object("apps/v1", "Deployment"), object("v1", "ConfigMap"));
    let namespace = object("v1", "Namespace");
    assert_eq!(
        kinds(&[deployment, map.clone(), namespace]),
        ["Namespace", "Deployment"]
    );
    assert_eq!(
        kinds(&[map]).len(),
        1,
        "statuses must be current all the same"
    );
}

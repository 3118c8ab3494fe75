//! `ClusterObjectSet`.

use std::sync::Arc;

use oxolm::api::ClusterObjectSet;
use serde_json::{Value, json};

use super::{dry_run, object, removed, stored, wire};
use crate::harness::rules::{Row, admitted, check, refused};
use crate::harness::{Cluster, Outcome};

const PHASE_NAME: &str = "the value must consist of only lowercase alphanumeric characters and hyphens, and must start and end with an alphanumeric character.";
const ONE_OF: &str = "exactly one of the fields in [object ref] must be set";
const FIELD_PATH: &str = "must contain a valid field path. valid fields contain upper or lower-case alphanumeric characters separated by the \".\" character.";

fn valid(name: &str) -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterObjectSet",
        "metadata": {"name": name},
        "spec": {
            "lifecycleState": "Active",
            "revision": 1,
            "collisionProtection": "Prevent",
            "phases": [phase("deploy", json!([config_map("one")]))],
        },
    })
}

fn phase(name: &str, objects: Value) -> Value {
    json!({"name": name, "objects": objects})
}

fn config_map(value: &str) -> Value {
    json!({"object": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "labels": {"a": value}},
        "data": {"key": value},
    }})
}

fn spec(key: &str, value: impl Into<Value>) -> Value {
    json!({"spec": {key: value.into()}})
}

fn objects(objects: Value) -> Value {
    spec("phases", json!([phase("deploy", objects)]))
}

fn creation_rows() -> Vec<Row> {
    let phases = |count: usize| -> Value {
        (0..count)
            .map(|number| phase(&format!("phase-{number}"), json!([])))
            .collect()
    };
    let mut rows = vec![
        admitted("the object as it is", json!({})),
        admitted("no phases", spec("phases", Value::Null)),
        refused("no spec", json!({"spec": null}), "spec", "Required value"),
        refused(
            "no state",
            spec("lifecycleState", Value::Null),
            "spec.lifecycleState",
            "Required value",
        ),
        refused(
            "the state of before v1.8",
            spec("lifecycleState", "Paused"),
            "spec.lifecycleState",
            "Unsupported value: \"Paused\": supported values: \"Active\", \"Archived\"",
        ),
        refused(
            "revision 0",
            spec("revision", 0),
            "spec.revision",
            "spec.revision in body should be greater than or equal to 1",
        ),
        refused(
            "no protection",
            spec("collisionProtection", Value::Null),
            "spec.collisionProtection",
            "Required value",
        ),
        refused(
            "an unknown protection",
            spec("collisionProtection", "Some"),
            "spec.collisionProtection",
            "Unsupported value: \"Some\": supported values: \"Prevent\", \"IfNoController\", \"None\"",
        ),
        admitted("20 phases", spec("phases", phases(20))),
        refused(
            "21 phases",
            spec("phases", phases(21)),
            "spec.phases",
            "Too many: 21: must have at most 20 items",
        ),
        refused(
            "one phase twice",
            spec(
                "phases",
                json!([phase("a", json!([])), phase("a", json!([]))]),
            ),
            "spec.phases[1]",
            "Duplicate value: {\"name\":\"a\"}",
        ),
        refused(
            "no objects",
            spec("phases", json!([{"name": "a"}])),
            "spec.phases[0].objects",
            "Required value",
        ),
        refused(
            "a deadline too short",
            spec("progressDeadlineMinutes", 9),
            "spec.progressDeadlineMinutes",
            "spec.progressDeadlineMinutes in body should be greater than or equal to 10",
        ),
        refused(
            "a deadline too long",
            spec("progressDeadlineMinutes", 721),
            "spec.progressDeadlineMinutes",
            "spec.progressDeadlineMinutes in body should be less than or equal to 720",
        ),
    ];
    for wrong in ["Upper", "a.b", "-a", "a-", "a_b"] {
        rows.push(refused(
            "a phase's name",
            spec("phases", json!([phase(wrong, json!([]))])),
            "spec.phases[0].name",
            PHASE_NAME,
        ));
    }
    rows.push(refused(
        "64 characters of phase",
        spec("phases", json!([phase(&"a".repeat(64), json!([]))])),
        "spec.phases[0].name",
        "Too long: may not be more than 63 bytes",
    ));
    rows.extend(object_rows());
    rows.extend(probe_rows());
    rows
}

fn object_rows() -> Vec<Row> {
    let reference =
        json!({"name": "a-1-0123456789abcdef", "namespace": "olmv1-system", "key": "k"});
    let both = json!({"object": config_map("a")["object"], "ref": reference});
    let entry = "spec.phases[0].objects[0]";
    vec![
        admitted("a reference", objects(json!([{"ref": reference}]))),
        admitted(
            "protections of phase and object",
            spec(
                "phases",
                json!([{"name": "a", "collisionProtection": "None", "objects": [{"ref": reference, "collisionProtection": "IfNoController"}]}]),
            ),
        ),
        refused(
            "neither object nor reference",
            objects(json!([{}])),
            entry,
            ONE_OF,
        ),
        refused(
            "object and reference",
            objects(json!([both])),
            entry,
            ONE_OF,
        ),
        admitted("50 objects", objects(json!(vec![config_map("a"); 50]))),
        refused(
            "51 objects",
            objects(json!(vec![config_map("a"); 51])),
            "spec.phases[0].objects",
            "Too many: 51: must have at most 50 items",
        ),
        refused(
            "an object without kind",
            objects(json!([{"object": {"apiVersion": "v1", "metadata": {"name": "a"}}}])),
            "spec.phases[0].objects[0].object.kind",
            "Required value",
        ),
        refused(
            "a reference without key",
            objects(json!([{"ref": {"name": "a"}}])),
            "spec.phases[0].objects[0].ref.key",
            "Required value",
        ),
        refused(
            "a reference with an empty name",
            objects(json!([{"ref": {"name": "", "key": "a"}}])),
            "spec.phases[0].objects[0].ref.name",
            "spec.phases[0].objects[0].ref.name in body should be at least 1 chars long",
        ),
    ]
}

fn probe(selector: Value, assertions: Value) -> Value {
    spec(
        "progressionProbes",
        json!([{"selector": selector, "assertions": assertions}]),
    )
}

fn probe_rows() -> Vec<Row> {
    let kind = json!({"type": "GroupKind", "groupKind": {"group": "apps", "kind": "Deployment"}});
    let ready =
        json!({"type": "ConditionEqual", "conditionEqual": {"type": "Ready", "status": "True"}});
    let selector = "spec.progressionProbes[0].selector";
    let assertion = "spec.progressionProbes[0].assertions[0]";
    let labels = |label: Value| probe(json!({"type": "Label", "label": label}), json!([ready]));
    let asserts = |value: Value| probe(kind.clone(), json!([value]));
    let mut rows = vec![
        admitted("a kind is ready", probe(kind.clone(), json!([ready]))),
        admitted("labels", labels(json!({"matchLabels": {"a": "b"}}))),
        refused(
            "no probe in the list",
            spec("progressionProbes", json!([])),
            "spec.progressionProbes",
            "spec.progressionProbes in body should have at least 1 items",
        ),
        refused(
            "no assertion in the list",
            probe(kind.clone(), json!([])),
            "spec.progressionProbes[0].assertions",
            "spec.progressionProbes[0].assertions in body should have at least 1 items",
        ),
        refused(
            "21 assertions",
            probe(kind.clone(), json!(vec![ready.clone(); 21])),
            "spec.progressionProbes[0].assertions",
            "Too many: 21: must have at most 20 items",
        ),
        refused(
            "21 probes",
            spec(
                "progressionProbes",
                json!(vec![json!({"selector": kind, "assertions": [ready]}); 21]),
            ),
            "spec.progressionProbes",
            "Too many: 21: must have at most 20 items",
        ),
        refused(
            "type GroupKind without groupKind",
            probe(json!({"type": "GroupKind"}), json!([ready])),
            selector,
            "groupKind is required when type is GroupKind, and forbidden otherwise",
        ),
        refused(
            "type GroupKind with label",
            probe(
                json!({"type": "GroupKind", "groupKind": {"group": "", "kind": "Pod"}, "label": {"matchLabels": {"a": "b"}}}),
                json!([ready]),
            ),
            selector,
            "label is required when type is Label, and forbidden otherwise",
        ),
        refused(
            "a label selector of both kinds",
            labels(
                json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}),
            ),
            "spec.progressionProbes[0].selector.label",
            "exactly one of matchLabels or matchExpressions must be set",
        ),
        refused(
            "an empty label selector",
            labels(json!({})),
            "spec.progressionProbes[0].selector.label",
            "exactly one of matchLabels or matchExpressions must be set",
        ),
        refused(
            "Unknown cannot be asked for",
            asserts(
                json!({"type": "ConditionEqual", "conditionEqual": {"type": "Ready", "status": "Unknown"}}),
            ),
            "spec.progressionProbes[0].assertions[0].conditionEqual.status",
            "Unsupported value: \"Unknown\": supported values: \"True\", \"False\"",
        ),
        refused(
            "201 characters of condition",
            asserts(
                json!({"type": "ConditionEqual", "conditionEqual": {"type": "a".repeat(201), "status": "True"}}),
            ),
            "spec.progressionProbes[0].assertions[0].conditionEqual.type",
            "Too long: may not be more than 200 bytes",
        ),
    ];
    for (kind, message) in [
        (
            "ConditionEqual",
            "conditionEqual is required when type is ConditionEqual, and forbidden otherwise",
        ),
        (
            "FieldsEqual",
            "fieldsEqual is required when type is FieldsEqual, and forbidden otherwise",
        ),
        (
            "FieldValue",
            "fieldValue is required when type is FieldValue, and forbidden otherwise",
        ),
    ] {
        rows.push(refused(
            "a type alone",
            asserts(json!({"type": kind})),
            assertion,
            message,
        ));
    }
    for (path, is_valid) in [
        ("status.phase", true),
        ("spec", true),
        ("status.conditions[0]", false),
        (".status", false),
        ("a..b", false),
        ("a-b", false),
    ] {
        let change =
            asserts(json!({"type": "FieldValue", "fieldValue": {"fieldPath": path, "value": "x"}}));
        rows.push(if is_valid {
            admitted("a path", change)
        } else {
            refused(
                "a path",
                change,
                "spec.progressionProbes[0].assertions[0].fieldValue.fieldPath",
                FIELD_PATH,
            )
        });
    }
    rows.push(refused(
        "a path in fieldsEqual",
        asserts(json!({"type": "FieldsEqual", "fieldsEqual": {"fieldA": "a", "fieldB": "b/c"}})),
        "spec.progressionProbes[0].assertions[0].fieldsEqual.fieldB",
        FIELD_PATH,
    ));
    rows
}

/// What a new revision may say.
pub(crate) async fn creation(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let api = wire::<ClusterObjectSet>(&cluster.client);
    check(&valid("rules-creation"), creation_rows(), |value| {
        let api = api.clone();
        async move { api.create(&dry_run(), &object(value)).await }
    })
    .await?;
    Ok(Outcome::Passed)
}

fn update_rows() -> Vec<Row> {
    let frozen = |why, change| refused(why, change, "spec.phases", "phases is immutable");
    vec![
        admitted("nothing", json!({})),
        admitted("archive", spec("lifecycleState", "Archived")),
        admitted("another deadline", spec("progressDeadlineMinutes", 30)),
        refused(
            "another revision",
            spec("revision", 2),
            "spec.revision",
            "revision is immutable",
        ),
        refused(
            "another protection",
            spec("collisionProtection", "None"),
            "spec.collisionProtection",
            "collisionProtection is immutable",
        ),
        frozen("no phases any more", spec("phases", Value::Null)),
        frozen("an empty list of phases", spec("phases", json!([]))),
        frozen("another object", objects(json!([config_map("two")]))),
        frozen(
            "one phase more",
            spec(
                "phases",
                json!([
                    phase("deploy", json!([config_map("one")])),
                    phase("more", json!([]))
                ]),
            ),
        ),
    ]
}

/// What may be changed later.
pub(crate) async fn update(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let api = wire::<ClusterObjectSet>(&cluster.client);
    let mut archived = valid("rules-update-archived");
    json_patch::merge(&mut archived, &spec("lifecycleState", "Archived"));
    let mut empty = valid("rules-update-empty");
    json_patch::merge(&mut empty, &spec("phases", json!([])));
    for (before, rows) in [
        (valid("rules-update"), update_rows()),
        (
            archived,
            vec![refused(
                "active again",
                spec("lifecycleState", "Active"),
                "spec.lifecycleState",
                "cannot un-archive",
            )],
        ),
        (
            empty,
            vec![admitted(
                "phases where none were",
                objects(json!([config_map("one")])),
            )],
        ),
    ] {
        let found = stored(&api, &before).await?;
        let name = found.metadata.name.clone().unwrap_or_default();
        let result = check(&serde_json::to_value(&found)?, rows, |value| {
            let (api, name) = (api.clone(), name.clone());
            async move { api.replace(&name, &dry_run(), &object(value)).await }
        })
        .await;
        removed(&api, &name).await?;
        result?;
    }
    Ok(Outcome::Passed)
}

fn observed(name: &str, digest: &str) -> Value {
    json!({"status": {"observedPhases": [{"name": name, "digest": digest}]}})
}

/// What the status of a revision may say, and what of it is frozen.
pub(crate) async fn status(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let name = "rules-status";
    let field = "status.observedPhases[0]";
    let api = wire::<ClusterObjectSet>(&cluster.client);
    let found = stored(&api, &valid(name)).await?;
    let replace = |value| {
        let api = api.clone();
        async move { api.replace_status(name, &dry_run(), &object(value)).await }
    };
    let first = vec![
        admitted("a digest", observed("deploy", "sha256:abc123")),
        refused(
            "no digest",
            observed("deploy", "abc123"),
            "status.observedPhases[0].digest",
            "digest must be in the format '<algorithm>:<hex>'",
        ),
        refused(
            "no name",
            json!({"status": {"observedPhases": [{"digest": "sha256:abc123"}]}}),
            "status.observedPhases[0].name",
            "Required value",
        ),
    ];
    let mut result = check(&serde_json::to_value(&found)?, first, replace).await;
    if result.is_ok() {
        let mut seen = serde_json::to_value(&found)?;
        json_patch::merge(&mut seen, &observed("deploy", "sha256:abc123"));
        let seen = api
            .replace_status(name, &kube::api::PostParams::default(), &object(seen))
            .await?;
        let later = vec![
            admitted("the same", json!({})),
            refused(
                "another digest",
                observed("deploy", "sha256:def456"),
                "status.observedPhases",
                "observedPhases is immutable",
            ),
            refused(
                "none any more",
                json!({"status": {"observedPhases": null, "conditions": []}}),
                "status.observedPhases",
                "observedPhases is immutable",
            ),
        ];
        result = check(&serde_json::to_value(&seen)?, later, replace).await;
    }
    removed(&api, name).await?;
    result.map_err(|error| error.context(field))?;
    Ok(Outcome::Passed)
}

//! Revisions that somebody wrote by hand: `ClusterObjectSet` as an API of its own.

mod claims;
mod deadline;
mod excluded;
mod orphaned;
mod probes;
mod secrets;
mod tampering;

pub(crate) use claims::a_pending_claim_halts_the_phases;
pub(crate) use deadline::a_late_rollout_is_archived_or_recovers;
pub(crate) use excluded::drift_that_excludes_ours_is_repaired;
pub(crate) use orphaned::a_revision_by_hand_is_taken_back;
pub(crate) use probes::probes_of_users_halt_and_pass;
pub(crate) use secrets::objects_stand_in_secrets;
pub(crate) use tampering::{a_mutable_secret_blocks, changed_content_blocks_until_it_is_restored};

use kube::api::DeleteParams;
use oxolm::api::keys;
use serde_json::{Value, json};

use crate::harness::stage::Stage;
use crate::harness::wait;

/// Applies a revision that acts as the stage's account; `spec` is merged over what every one has.
pub(crate) async fn apply_set(stage: &Stage, name: &str, spec: &Value) -> anyhow::Result<()> {
    let mut set = json!({
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterObjectSet",
        "metadata": {"name": name, "annotations": {
            keys::SERVICE_ACCOUNT_NAME: "installer",
            keys::SERVICE_ACCOUNT_NAMESPACE: stage.name,
        }},
        "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent"},
    });
    json_patch::merge(&mut set, &json!({ "spec": spec }));
    stage.apply(&set.to_string()).await
}

/// Where a revision is.
pub(crate) fn set_path(name: &str) -> String {
    format!("/apis/olm.operatorframework.io/v1/clusterobjectsets/{name}")
}

/// Deletes a revision and waits until it is gone.
pub(crate) async fn delete_set(stage: &Stage, name: &str) -> anyhow::Result<()> {
    let sets = stage.sets();
    sets.delete(name, &DeleteParams::default()).await?;
    wait::until_gone(&stage.cluster, &sets, name).await
}

/// A `ConfigMap` in the namespace of the stage.
fn config_map(stage: &Stage, name: &str, labels: &Value, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"name": name, "namespace": stage.name, "labels": labels}})
}

fn config_map_path(stage: &Stage, name: &str) -> String {
    format!("/api/v1/namespaces/{}/configmaps/{name}", stage.name)
}

/// A probe of all objects of a kind.
fn kind_probe(group: &str, kind: &str, assertion: &Value) -> Value {
    json!({"selector": {"type": "GroupKind", "groupKind": {"group": group, "kind": kind}}, "assertions": [assertion]})
}

fn value_is(path: &str, value: &str) -> Value {
    json!({"type": "FieldValue", "fieldValue": {"fieldPath": path, "value": value}})
}

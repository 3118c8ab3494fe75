//! A phase whose objects are not available holds the later ones back.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::condition::ConditionType;
use serde_json::json;

use super::{apply_set, config_map, config_map_path, delete_set, kind_probe, value_is};
use crate::harness::stage::Stage;
use crate::harness::wait::message;
use crate::harness::{Cluster, Outcome};

/// A claim that nothing satisfies holds the next phase back; the volume appears, and the rollout goes on by itself.
pub(crate) async fn a_pending_claim_halts_the_phases(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "pending-claim").await?;
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "claim", "namespace": stage.name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "pending-claim",
                 "resources": {"requests": {"storage": "1Mi"}}},
    });
    let later = config_map(&stage, "later", &json!({}), &json!({"a": "b"}));
    let spec = json!({
        "progressionProbes": [kind_probe("", "PersistentVolumeClaim", &value_is("status.phase", "Bound"))],
        "phases": [
            {"name": "storage", "objects": [{"object": claim}]},
            {"name": "later", "objects": [{"object": later}]},
        ],
    });
    apply_set(&stage, "pending-claim", &spec).await?;
    let set = stage
        .until_set(
            "pending-claim",
            ConditionType::Available,
            "False/ProbeFailure",
        )
        .await?;
    let told = message(&set, ConditionType::Available);
    let expected = "Object PersistentVolumeClaim.v1 pending-claim/claim: value at key \"status.phase\" != \"Bound\"; \
                    expected: \"Bound\" got: \"Pending\"";
    ensure!(told == expected, "{told}");
    let later = config_map_path(&stage, "later");
    ensure!(!stage.exists(&later).await?, "the next phase waits");

    let volume = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pending-claim}\n\
        spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Mi}, storageClassName: '', hostPath: {path: /tmp}}\n";
    stage.apply(volume).await?;
    stage
        .until_set(
            "pending-claim",
            ConditionType::Available,
            "True/ProbesSucceeded",
        )
        .await?;
    let set = stage.until_rolled_out("pending-claim").await?;
    ensure!(message(&set, ConditionType::Progressing) == "Revision pending-claim has rolled out.");
    ensure!(stage.exists(&later).await?, "the next phase is there");

    // The claim cannot go while its protection finalizer is there, and nothing here removes it: let it go by hand.
    let path = format!(
        "/api/v1/namespaces/{}/persistentvolumeclaims/claim",
        stage.name
    );
    stage
        .merge(&path, &json!({"metadata": {"finalizers": null}}))
        .await?;
    delete_set(&stage, "pending-claim").await?;
    ensure!(!stage.exists(&path).await?, "the claim is gone");
    let volume = "/api/v1/persistentvolumes/pending-claim";
    stage
        .merge(volume, &json!({"metadata": {"finalizers": null}}))
        .await?;
    stage.remove(volume, &json!({})).await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

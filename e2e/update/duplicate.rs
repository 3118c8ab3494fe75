//! The same content, twice.

use std::sync::Arc;

use anyhow::ensure;
use kube::api::{DeleteParams, Patch, PatchParams};
use oxolm::api::ClusterExtension;
use oxolm::api::condition::ConditionType;
use serde_json::json;

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::{self, message, shape};
use crate::harness::{Cluster, Outcome};

/// A second extension of the same content collides, and touches nothing; the first one stays installed; also a further
/// revision of the second collides.
pub(crate) async fn a_second_extension_collides(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::offering(
        cluster,
        "doubled",
        &[Bundle::new("1.0.0"), Bundle::new("1.0.1")],
    )
    .await?;
    stage.install("1.0.0").await?;
    stage.change_to("1.0.1").await?;
    let before = stage.get(&stage.deployment_path()).await?;

    let dup = stage.extension("doubled-dup");
    stage.apply(&dup.to_string()).await?;
    let collides = |extension: &ClusterExtension| {
        shape(extension, ConditionType::Progressing) == "True/Retrying"
            && message(extension, ConditionType::Progressing).contains("revision object collisions")
    };
    let extensions = stage.extensions();
    wait::until(
        &stage.cluster,
        &extensions,
        "doubled-dup",
        "it collides",
        collides,
    )
    .await?;
    let config = json!({"spec": {"config": {"configType": "Inline", "inline": {
        "deploymentConfig": {"nodeSelector": {"kubernetes.io/os": "linux"}}}}}});
    extensions
        .patch(
            "doubled-dup",
            &PatchParams::default(),
            &Patch::Merge(&config),
        )
        .await?;
    stage
        .until_set("doubled-dup-2", ConditionType::Progressing, "True/Retrying")
        .await?;
    let dup = wait::until(
        &stage.cluster,
        &extensions,
        "doubled-dup",
        "it still collides",
        collides,
    )
    .await?;
    ensure!(shape(&dup, ConditionType::Installed) == "False/Failed");

    let first = stage.extensions().get("doubled").await?;
    ensure!(shape(&first, ConditionType::Installed) == "True/Succeeded");
    let after = stage.get(&stage.deployment_path()).await?;
    ensure!(
        before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
            || before["metadata"]["ownerReferences"] == after["metadata"]["ownerReferences"],
        "{after}"
    );
    extensions
        .delete("doubled-dup", &DeleteParams::default())
        .await?;
    wait::until_gone(&stage.cluster, &extensions, "doubled-dup").await?;
    stage.has_everything().await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

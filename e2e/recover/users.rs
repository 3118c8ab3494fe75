//! What users add to installed objects.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::condition::ConditionType;
use serde_json::{Value, json};

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::{shape, until_true};
use crate::harness::{Cluster, Outcome};

/// Labels, annotations and `kubectl rollout restart` survive a repair of the same object; the bundle's own come back.
pub(crate) async fn what_users_add_stays(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::offering(cluster, "users-add", &[Bundle::new("1.0.0")]).await?;
    stage.install_newest("1.0.0").await?;
    let path = stage.deployment_path();
    let mine =
        json!({"metadata": {"labels": {"mine": "label"}, "annotations": {"mine": "annotation"}}});
    stage.merge(&path, &mine).await?;
    let restart = json!({"spec": {"template": {"metadata": {"annotations": {
        "kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}}}}});
    stage.merge(&path, &restart).await?;
    let two_sets = async || {
        let sets = stage
            .get("/apis/apps/v1/namespaces/users-add/replicasets")
            .await?;
        let deployment = stage.get(&path).await?;
        let is_rolled_out =
            deployment["status"]["updatedReplicas"] == deployment["status"]["replicas"];
        Ok(sets["items"].as_array().map(Vec::len) == Some(2) && is_rolled_out)
    };
    until_true(&stage.cluster, "the restart is rolled out", two_sets).await?;

    // Our own fields are taken away: the object is applied again.
    let owner = "olm.operatorframework.io/owner-name";
    let taken = json!({"metadata": {"labels": {owner: null}},
        "spec": {"replicas": 3}});
    stage.merge(&path, &taken).await?;
    let is_back = async || {
        let deployment = stage.get(&path).await?;
        Ok(deployment["metadata"]["labels"][owner] == "users-add"
            && deployment["spec"]["replicas"] == 1)
    };
    until_true(&stage.cluster, "the bundle's own fields are back", is_back).await?;
    let deployment = stage.get(&path).await?;
    ensure!(deployment["metadata"]["labels"]["mine"] == "label");
    ensure!(deployment["metadata"]["annotations"]["mine"] == "annotation");
    let template: &Value = &deployment["spec"]["template"]["metadata"]["annotations"];
    ensure!(
        template["kubectl.kubernetes.io/restartedAt"] == "2026-01-01T00:00:00Z",
        "{template}"
    );
    stage
        .until_condition(ConditionType::Available, "True/ProbesSucceeded", "")
        .await?;
    let extension = stage.until_installed("1.0.0").await?;
    ensure!(shape(&extension, ConditionType::Installed) == "True/Succeeded");
    stage.clear().await?;
    Ok(Outcome::Passed)
}

//! How the operator is run.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::condition::ConditionType;
use serde_json::json;

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::until_true;
use crate::harness::{Cluster, Outcome};

/// A node selector reaches the operator's Deployment; changed, also while the catalog is gone, it is rolled out.
pub(crate) async fn a_node_selector_reaches_the_operator(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::offering(cluster, "node-selector", &[Bundle::new("1.0.0")]).await?;
    let config = |selector| json!({"config": {"configType": "Inline", "inline": {"deploymentConfig": {"nodeSelector": selector}}}});
    let linux = json!({"kubernetes.io/os": "linux"});
    stage.add_extension_with(&config(&linux)).await?;
    stage.until_installed("1.0.0").await?;
    let deployment = stage.get(&stage.deployment_path()).await?;
    let pod = &deployment["spec"]["template"]["spec"];
    ensure!(pod["nodeSelector"] == linux, "{pod}");

    stage.remove_catalog().await?;
    let local = json!({"kubernetes.io/os": null, "kubernetes.io/hostname": "local"});
    stage
        .patch_extension(&json!({ "spec": config(&local) }))
        .await?;
    let is_there = async || {
        let deployment = stage.get(&stage.deployment_path()).await?;
        let selector = &deployment["spec"]["template"]["spec"]["nodeSelector"];
        Ok(*selector == json!({"kubernetes.io/hostname": "local"}))
    };
    until_true(&stage.cluster, "the other selector is there", is_there).await?;
    stage
        .until_condition(ConditionType::Installed, "True/Succeeded", "")
        .await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

//! Somebody else's object of the same name.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::condition::ConditionType;
use serde_json::json;

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::shape;
use crate::harness::{Cluster, Outcome};

/// It is not touched, and nothing else is written; removed, the extension installs.
pub(crate) async fn an_object_in_the_way_is_removed(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::offering(cluster, "in-the-way", &[Bundle::new("1.0.0")]).await?;
    let foreign = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: in-the-way-manager, namespace: in-the-way}\n\
        spec:\n  selector: {matchLabels: {app: other}}\n  template:\n    metadata: {labels: {app: other}}\n    \
        spec: {containers: [{name: other, image: 'registry.example.com/other:latest'}]}\n";
    stage.apply(foreign).await?;
    stage.add_extension(&json!({})).await?;
    let text = "Object Deployment.apps/v1 in-the-way/in-the-way-manager";
    let extension = stage
        .until_condition(ConditionType::Progressing, "True/Retrying", text)
        .await?;
    ensure!(shape(&extension, ConditionType::Installed).starts_with("False/"));
    let deployment = stage.get(&stage.deployment_path()).await?;
    ensure!(deployment["spec"]["selector"]["matchLabels"]["app"] == "other");
    ensure!(
        !stage.exists(&stage.settings_path()).await?,
        "nothing else is written"
    );
    stage.delete(foreign).await?;
    stage.until_installed("1.0.0").await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

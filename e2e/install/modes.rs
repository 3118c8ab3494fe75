//! Install modes: which namespace the operator watches.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::condition::ConditionType;
use serde_json::{Value, json};

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::message;
use crate::harness::{Cluster, Outcome};

/// Configuration with this namespace to watch.
fn watching(namespace: &str) -> Value {
    json!({"config": {"configType": "Inline", "inline": {"watchNamespace": namespace}}})
}

async fn refused(stage: &Stage, text: &str) -> anyhow::Result<()> {
    let extension = stage
        .until_condition(
            ConditionType::Progressing,
            "False/InvalidConfiguration",
            text,
        )
        .await?;
    let told = message(&extension, ConditionType::Progressing);
    ensure!(
        told.contains("invalid ClusterExtension configuration: invalid configuration: "),
        "{told}"
    );
    Ok(())
}

async fn target(stage: &Stage) -> anyhow::Result<Value> {
    let deployment = stage.get(&stage.deployment_path()).await?;
    Ok(deployment["spec"]["template"]["metadata"]["annotations"]["olm.targetNamespaces"].clone())
}

async fn offering(cluster: Arc<Cluster>, name: &str, mode: &'static str) -> anyhow::Result<Stage> {
    let stage = Stage::set(cluster, name).await?;
    let bundle = Bundle {
        mode,
        ..Bundle::new("1.0.0")
    };
    stage.offer(&[bundle]).await?;
    Ok(stage)
}

/// A bundle for a single namespace must be told which one.
pub(crate) async fn single_namespace(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = offering(cluster, "single-namespace", "SingleNamespace").await?;
    stage.add_extension(&json!({})).await?;
    refused(&stage, "required field \"watchNamespace\" is missing").await?;
    let wrong = json!({ "spec": watching("invalid-namespace-") });
    stage.patch_extension(&wrong).await?;
    refused(&stage, "field \"watchNamespace\" must match pattern").await?;
    let right = json!({ "spec": watching("default") });
    stage.patch_extension(&right).await?;
    stage.until_installed("1.0.0").await?;
    ensure!(target(&stage).await? == "default");
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// A bundle for its own namespace must be told just that one.
pub(crate) async fn own_namespace(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = offering(cluster, "own-namespace", "OwnNamespace").await?;
    stage.add_extension(&json!({})).await?;
    refused(&stage, "required field \"watchNamespace\" is missing").await?;
    let wrong = json!({ "spec": watching("some-ns") });
    stage.patch_extension(&wrong).await?;
    refused(
        &stage,
        "invalid value \"some-ns\": must be \"own-namespace\"",
    )
    .await?;
    let right = json!({ "spec": watching("own-namespace") });
    stage.patch_extension(&right).await?;
    stage.until_installed("1.0.0").await?;
    ensure!(target(&stage).await? == "own-namespace");
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// A bundle for all namespaces cannot be confined to one.
pub(crate) async fn all_namespaces(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = offering(cluster, "all-namespaces", "AllNamespaces").await?;
    stage.add_extension_with(&watching("default")).await?;
    refused(&stage, "unknown field \"watchNamespace\"").await?;
    let none = json!({"spec": {"config": null}});
    stage.patch_extension(&none).await?;
    stage.until_installed("1.0.0").await?;
    ensure!(target(&stage).await? == "");
    stage.clear().await?;
    Ok(Outcome::Passed)
}

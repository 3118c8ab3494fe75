//! An operator that stops being ready.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use oxolm::api::condition::ConditionType;
use serde_json::{Value, json};

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::{message, shape};
use crate::harness::{Cluster, Outcome};

/// Installed stays, available or not; both the revision and the extension say when it is not, and when it is again.
pub(crate) async fn an_unready_operator_is_told(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::offering(cluster, "unready", &[Bundle::new("1.0.0")]).await?;
    stage.install_newest("1.0.0").await?;
    stage
        .until_condition(
            ConditionType::Available,
            "True/ProbesSucceeded",
            "Objects are available",
        )
        .await?;

    let pods: Value = stage.get("/api/v1/namespaces/unready/pods").await?;
    let pod = pods["items"][0]["metadata"]["name"].as_str();
    let pod = format!(
        "/api/v1/namespaces/unready/pods/{}",
        pod.context("it has a Pod")?
    );
    let mark = |value: Value| json!({"metadata": {"annotations": {"oxolm.dev/test-pod": value}}});
    stage.merge(&pod, &mark(json!("unready"))).await?;
    let text = "Object Deployment.apps/v1 unready/unready-manager: ";
    let extension = stage
        .until_condition(ConditionType::Available, "False/ProbeFailure", text)
        .await?;
    ensure!(shape(&extension, ConditionType::Installed) == "True/Succeeded");
    let set = stage
        .until_set("unready-1", ConditionType::Available, "False/ProbeFailure")
        .await?;
    ensure!(
        message(&set, ConditionType::Available) == message(&extension, ConditionType::Available)
    );

    stage.merge(&pod, &mark(Value::Null)).await?;
    stage
        .until_condition(ConditionType::Available, "True/ProbesSucceeded", "")
        .await?;
    stage
        .until_set(
            "unready-1",
            ConditionType::Available,
            "True/ProbesSucceeded",
        )
        .await?;
    stage.until_installed("1.0.0").await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

//! An extension before its namespace.

use std::sync::Arc;

use oxolm::api::condition::ConditionType;
use serde_json::json;

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::{Cluster, Outcome};

/// It is retried, and installs when namespace, account and rights are there, in whatever order they come.
pub(crate) async fn an_extension_waits_for_its_namespace(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::bare(cluster, "namespace-later")?;
    stage.offer(&[Bundle::new("1.0.0")]).await?;
    stage.add_extension(&json!({})).await?;
    let text = "service account \"installer\" not found in namespace \"namespace-later\": kubectl create namespace \
                namespace-later && kubectl create serviceaccount installer --namespace namespace-later";
    stage
        .until_condition(ConditionType::Progressing, "True/Retrying", text)
        .await?;
    stage.add_account().await?;
    let text = "pre-authorization failed";
    stage
        .until_condition(ConditionType::Progressing, "True/Retrying", text)
        .await?;
    stage.grant_everything().await?;
    stage.until_installed("1.0.0").await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

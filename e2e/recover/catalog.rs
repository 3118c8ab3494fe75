//! The catalog goes; what came from it stays.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::condition::ConditionType;
use serde_json::json;

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::shape;
use crate::harness::{Cluster, Outcome};

/// Objects are brought back, and a change of the spec is taken in.
pub(crate) async fn without_its_catalog_content_is_kept_up(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::offering(cluster, "catalog-gone", &[Bundle::new("1.0.0")]).await?;
    stage.install("1.0.0").await?;
    stage.remove_catalog().await?;

    stage.remove(&stage.settings_path(), &json!({})).await?;
    stage.until_exists(&stage.settings_path(), true).await?;
    let extension = stage
        .until_condition(ConditionType::Available, "True/ProbesSucceeded", "")
        .await?;
    ensure!(shape(&extension, ConditionType::Installed) == "True/Succeeded");

    let edit =
        json!({"spec": {"install": {"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}}}});
    stage.patch_extension(&edit).await?;
    let extension = stage.until_installed("1.0.0").await?;
    ensure!(shape(&extension, ConditionType::Progressing) == "True/Succeeded");
    ensure!(shape(&extension, ConditionType::Installed) == "True/Succeeded");
    stage.clear().await?;
    Ok(Outcome::Passed)
}

//! The account goes before the extension.

use std::sync::Arc;

use anyhow::ensure;
use serde_json::json;

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::{Cluster, Outcome, objects};

/// An account that was deleted can still be impersonated, and bindings to its name still count.
pub(crate) async fn without_its_account_everything_goes(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "account-gone").await?;
    stage.offer(&[Bundle::new("1.0.0")]).await?;
    stage.add_extension(&json!({})).await?;
    stage.until_installed("1.0.0").await?;
    objects::delete(
        &stage.cluster.client,
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: installer, namespace: account-gone}\n",
    )
    .await?;
    stage.uninstall().await?;
    for path in stage.object_paths() {
        ensure!(!stage.exists(&path).await?, "{path} is gone");
    }
    stage.clear().await?;
    Ok(Outcome::Passed)
}

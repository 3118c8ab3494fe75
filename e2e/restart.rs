//! oxolm killed and started again ends where it would have.

use std::sync::Arc;

use anyhow::ensure;
use serde_json::json;

use crate::harness::package::{Bundle, entry};
use crate::harness::stage::Stage;
use crate::harness::{Cluster, Outcome};

/// Killed while an upgrade is under way; started again, the upgrade is finished and the catalog is served from disk.
pub(crate) async fn killed_in_an_upgrade(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "restart").await?;
    for version in ["1.0.0", "1.1.0"] {
        stage.package.push_bundle(&Bundle::new(version)).await?;
    }
    let entries = [entry("1.0.0", ""), entry("1.1.0", "1.0.0")];
    stage.serve(&entries).await?;
    stage.install("1.0.0").await?;
    let before = stage.sets().get("restart-1").await?.metadata.uid;
    stage.change_extension(&json!({"version": "1.1.0"})).await?;
    stage.cluster.controller.kill()?;
    stage
        .cluster
        .controller
        .restart(&stage.cluster.client)
        .await?;
    stage.until_installed("1.1.0").await?;
    ensure!(
        stage.sets().get("restart-1").await?.metadata.uid == before,
        "the first revision was not made anew"
    );
    stage.clear().await?;
    Ok(Outcome::Passed)
}

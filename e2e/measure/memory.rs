//! What one replica holds in memory: without catalogs, and with what a large cluster has. The goals are in bytes, so that
//! megabytes are decimal ones here.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use super::figure::figure;
use super::load::Load;
use super::usage::Usage;
use super::{catalogs, idle};
use crate::harness::Cluster;
use crate::harness::stage::Stage;

/// How many extensions there are in the end.
const EXTENSIONS: usize = 50;

/// Looks at oxolm without catalogs, adds three real ones and fifty extensions, and looks again.
pub(super) async fn measure(idling: Duration) -> anyhow::Result<()> {
    let cluster = Arc::new(Cluster::prepare(&[]).await?);
    let stage = Stage::bare(cluster.clone(), "memory")?;
    println!("making three catalogs and {EXTENSIONS} bundles");
    let references = catalogs::push(&stage).await?;
    let load = Load::prepare(cluster.clone(), EXTENSIONS).await?;
    cluster.controller.restart(&cluster.client).await?;
    idle(&cluster, idling).await?;
    let empty = Usage::of(&cluster)?;
    figure(
        "memory: resident without catalogs",
        megabytes(empty.resident_mebibytes),
        "MB",
        Some(20.0),
    );
    for (name, reference) in &references {
        catalogs::add(&cluster, name, reference).await?;
        catalogs::until_served(&stage, name).await?;
    }
    load.add_catalog().await?;
    load.add_extensions().await?;
    load.until_installed().await?;
    idle(&cluster, idling).await?;
    let full = Usage::of(&cluster)?;
    figure(
        "memory: resident with three catalogs and fifty extensions",
        megabytes(full.resident_mebibytes),
        "MB",
        Some(40.0),
    );
    let limit = memory_limit_mebibytes()?;
    figure(
        "memory: highest on the way there, of the chart's limit",
        full.highest_mebibytes / limit,
        "times",
        Some(0.5),
    );
    load.uninstall().await?;
    for (name, _) in &references {
        let path = catalogs::path(name);
        stage.remove(&path, &serde_json::json!({})).await?;
    }
    Ok(())
}

fn megabytes(mebibytes: f64) -> f64 {
    mebibytes * 1.048_576
}

/// The chart's default `resources.limits.memory`.
fn memory_limit_mebibytes() -> anyhow::Result<f64> {
    let values = include_str!("../../charts/oxolm/values.yaml");
    let values: serde_json::Value = serde_saphyr::from_str(values)?;
    let limit = values["resources"]["limits"]["memory"].as_str();
    let limit = limit.and_then(|limit| limit.strip_suffix("Mi"));
    let limit = limit.context("the chart has a memory limit in Mi")?;
    Ok(limit.parse()?)
}

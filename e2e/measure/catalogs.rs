//! What serving catalogs costs: from an object to its content, and while nothing happens.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use http::StatusCode;

use super::figure::figure;
use super::idle;
use super::usage::Usage;
use crate::catalogs::{Door, get, is_serving};
use crate::harness::controller::entrance;
use crate::harness::stage::Stage;
use crate::harness::{Cluster, objects};

/// How many catalogs are served in the end.
const NAMES: [&str; 3] = ["real-1", "real-2", "real-3"];

/// Serves one catalog of real size, then two more, looks at what that takes while idle, and starts oxolm again.
pub(super) async fn measure(idling: Duration) -> anyhow::Result<()> {
    let cluster = Arc::new(Cluster::prepare(&[]).await?);
    let stage = Stage::bare(cluster.clone(), "real")?;
    let references = push(&stage).await?;
    cluster.controller.restart(&cluster.client).await?;
    idle(&cluster, Duration::from_secs(5)).await?;

    let empty = Usage::of(&cluster)?;
    for (number, (name, reference)) in references.iter().enumerate() {
        let before = Usage::of(&cluster)?;
        let started = Instant::now();
        add(&cluster, name, reference).await?;
        until_served(&stage, name).await?;
        let took = started.elapsed();
        // The status is written after what it tells.
        idle(&cluster, Duration::from_secs(1)).await?;
        let after = Usage::of(&cluster)?;
        if number == 0 {
            figure(
                "ClusterCatalog of 15 MB of YAML until Serving",
                took.as_secs_f64(),
                "s",
                Some(1.0),
            );
            figure(
                "ClusterCatalog of 15 MB of YAML, CPU",
                after.cpu_seconds - before.cpu_seconds,
                "s",
                Some(1.0),
            );
        }
    }
    figure(
        "resident memory without catalogs",
        empty.resident_mebibytes,
        "MiB",
        None,
    );
    idle(&cluster, idling).await?;
    let usage = Usage::of(&cluster)?;
    figure(
        "three catalogs: resident memory after serving them",
        usage.resident_mebibytes,
        "MiB",
        Some(30.0),
    );
    figure(
        "three catalogs: resident memory, highest",
        usage.highest_mebibytes,
        "MiB",
        None,
    );
    restarted(&stage, idling).await?;
    for name in NAMES {
        stage.remove(&path(name), &serde_json::json!({})).await?;
    }
    Ok(())
}

/// Pushes the real catalog under three names; their references.
pub(super) async fn push(stage: &Stage) -> anyhow::Result<Vec<(&'static str, String)>> {
    let mut references = Vec::new();
    for name in NAMES {
        // One document more makes another image of it.
        let folder = real_catalog()?;
        let extra = format!("{{\"schema\":\"example.com/copy\",\"name\":\"{name}\"}}\n");
        fs::write(folder.path().join("copy.json"), extra)?;
        let pushed = stage.package.push_catalog_folder(name, folder.path());
        references.push((name, pushed.await?));
    }
    Ok(references)
}

/// From a start until the first byte of a catalog came through the API server's proxy.
async fn restarted(stage: &Stage, idling: Duration) -> anyhow::Result<()> {
    let cluster = &stage.cluster;
    if entrance()?.is_none() {
        println!(
            "skipped: the cluster has no network namespace of its own, so the Service leads nowhere"
        );
        return Ok(());
    }
    let pod = Door::open(cluster, "measure").await?;
    cluster.controller.kill()?;
    let started = Instant::now();
    let first_byte = async {
        let all = format!("/catalogs/{}/api/v1/metas?schema=olm.package", NAMES[0]);
        while get(cluster, &all, "").await?.0 != StatusCode::OK {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        anyhow::Ok(started.elapsed())
    };
    let (restarted, first_byte) =
        tokio::join!(cluster.controller.restart(&cluster.client), first_byte);
    restarted?;
    figure(
        "restart with three catalogs until the first byte",
        first_byte?.as_secs_f64(),
        "s",
        Some(1.0),
    );
    idle(cluster, idling).await?;
    let usage = Usage::of(cluster)?;
    figure(
        "three catalogs: resident memory after a restart",
        usage.resident_mebibytes,
        "MiB",
        Some(30.0),
    );
    pod.close().await
}

pub(super) fn path(name: &str) -> String {
    format!("/apis/olm.operatorframework.io/v1/clustercatalogs/{name}")
}

pub(super) async fn add(cluster: &Cluster, name: &str, reference: &str) -> anyhow::Result<()> {
    let yaml = format!(
        "apiVersion: olm.operatorframework.io/v1\nkind: ClusterCatalog\nmetadata: {{name: {name}}}\n\
         spec: {{source: {{type: Image, image: {{ref: '{reference}'}}}}}}\n"
    );
    objects::apply(&cluster.client, &yaml).await
}

pub(super) async fn until_served(stage: &Stage, name: &str) -> anyhow::Result<()> {
    let served = async {
        while !is_serving(&stage.catalogs().get(name).await?) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        anyhow::Ok(())
    };
    let served = tokio::time::timeout(Duration::from_mins(2), served).await;
    served.with_context(|| format!("{name} is not served"))?
}

/// The real catalog as files.
fn real_catalog() -> anyhow::Result<tempfile::TempDir> {
    let data = std::env::var_os("OXOLM_CONFORMANCE")
        .map(|data| Path::new(&data).join("catalogs"))
        .context("OXOLM_CONFORMANCE is not set: there is no real catalog")?;
    let archives: Vec<PathBuf> = fs::read_dir(&data)?
        .map(|entry| entry.map(|entry| entry.path()))
        .filter(|path| {
            path.as_ref()
                .is_ok_and(|path| path.to_string_lossy().ends_with(".tar.gz"))
        })
        .collect::<Result<_, _>>()?;
    ensure!(
        !archives.is_empty(),
        "there is no archive in {}",
        data.display()
    );
    let folder = tempfile::tempdir()?;
    for archive in archives {
        let file = flate2::read::GzDecoder::new(File::open(archive)?);
        tar::Archive::new(file).unpack(folder.path())?;
    }
    Ok(folder)
}

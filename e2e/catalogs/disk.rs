//! A disk that is full, and one that takes no writes: the old content stays served, the condition says what is wrong, and
//! the catalog recovers by itself.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use http::StatusCode;
use oxolm::api::ClusterCatalog;
use oxolm::api::condition::ConditionType;

use super::{Door, get, is_serving, resolved};
use crate::harness::controller::{Controller, entrance};
use crate::harness::package::{Bundle, entry};
use crate::harness::stage::Stage;
use crate::harness::wait::{message, shape};
use crate::harness::{Cluster, Outcome};

const ALL: &str = "/catalogs/disk/api/v1/all";

/// The cache lies on a small disk of its own for this story.
pub(crate) async fn a_full_disk_is_survived(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let Some(enter) = entrance()? else {
        return Ok(Outcome::Skipped(
            "a disk can only be mounted as root, in a namespace of the cluster's own",
        ));
    };
    let controller = &cluster.controller;
    let cache = controller.cache();
    controller.kill()?;
    mount(&enter, &["-t", "tmpfs", "-o", "size=4m", "tmpfs"], &cache)?;
    let told = tell(&cluster, &enter).await;
    controller.kill()?;
    command(Command::new(&enter).arg("umount").arg(&cache))?;
    controller.restart(&cluster.client).await?;
    told.map(|()| Outcome::Passed)
}

async fn tell(cluster: &Arc<Cluster>, enter: &str) -> anyhow::Result<()> {
    cluster.controller.restart(&cluster.client).await?;
    let stage = Stage::set(cluster.clone(), "disk").await?;
    let cache = cluster.controller.cache();
    stage.package.push_bundle(&Bundle::new("1.0.0")).await?;
    let entries = [entry("1.0.0", "")];
    let small = stage.package.push_catalog("small", &entries).await?;
    stage.add_catalog(&small).await?;
    stage.until_catalog("it is served", is_serving).await?;
    let pod = Door::open(cluster, "disk").await?;
    let (_, old, _) = get(cluster, ALL, "").await?;

    let large = format!("{}{}", stage.package.catalog_text(&entries), filler());
    let large = stage.package.push_catalog_text("large", &large).await?;
    stage.change_catalog(&large).await?;
    refused(&stage, "No space left on device", &old).await?;
    mount(enter, &["-o", "remount,size=64m"], &cache)?;
    let large = taken(&stage, &large, &old).await?;

    mount(enter, &["-o", "remount,ro"], &cache)?;
    stage.change_catalog(&small).await?;
    // What is on disk already can be served; what is not must be written.
    taken(&stage, &small, &large).await?;
    let other = stage.package.catalog_text(&entries) + "---\nschema: other\nname: other\n";
    let other = stage.package.push_catalog_text("other", &other).await?;
    stage.change_catalog(&other).await?;
    refused(&stage, "Read-only file system", &old).await?;
    restarted(&cluster.controller, cluster, &old).await?;
    mount(enter, &["-o", "remount,rw"], &cache)?;
    taken(&stage, &other, &old).await?;

    pod.close().await?;
    stage.clear().await
}

/// The condition says why, and what was served still is.
async fn refused(stage: &Stage, why: &str, served: &str) -> anyhow::Result<()> {
    let says_why = |catalog: &ClusterCatalog| {
        shape(catalog, ConditionType::Progressing) == "True/Retrying"
            && message(catalog, ConditionType::Progressing).contains(why)
    };
    let catalog = stage.until_catalog(why, says_why).await?;
    ensure!(is_serving(&catalog), "Serving stays True: {why}");
    let (status, tag, _) = get(&stage.cluster, ALL, "").await?;
    ensure!(
        status == StatusCode::OK && tag == served,
        "the old content stays served: {status}, {tag} instead of {served}"
    );
    Ok(())
}

/// Waits until the content of `reference` is served, and says its `ETag`.
async fn taken(stage: &Stage, reference: &str, before: &str) -> anyhow::Result<String> {
    let digest = reference.rsplit_once('@').context("it has a digest")?.1;
    let is_taken = |catalog: &ClusterCatalog| {
        is_serving(catalog)
            && resolved(catalog).ends_with(digest)
            && shape(catalog, ConditionType::Progressing) == "True/Succeeded"
    };
    stage
        .until_catalog("it recovers by itself", is_taken)
        .await?;
    let (_, tag, _) = get(&stage.cluster, ALL, "").await?;
    ensure!(tag != before, "the new content is served");
    Ok(tag)
}

/// Started again, it serves what is on the disk, which takes no writes.
async fn restarted(controller: &Controller, cluster: &Cluster, served: &str) -> anyhow::Result<()> {
    controller.kill()?;
    controller.restart(&cluster.client).await?;
    let (status, tag, _) = get(cluster, ALL, "").await?;
    ensure!(
        status == StatusCode::OK && tag == served,
        "it is served from a disk that takes no writes: {status}, {tag} instead of {served}"
    );
    Ok(())
}

/// A document of eight megabytes that no compression makes small.
fn filler() -> String {
    let mut text = "---\nschema: filler\nname: filler\ntext: ".to_owned();
    let mut state = 1_u64;
    for _ in 0..512 << 10 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // Writing to a text cannot fail.
        _ = write!(text, "x{:015x}", state >> 4);
    }
    text.push('\n');
    text
}

fn mount(enter: &str, options: &[&str], on: &Path) -> anyhow::Result<()> {
    command(Command::new(enter).arg("mount").args(options).arg(on))
}

fn command(command: &mut Command) -> anyhow::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {said}");
    Ok(())
}

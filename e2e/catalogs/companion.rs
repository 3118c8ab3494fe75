//! `oxolm catalog` says the same of a directory, a file, an image, and a catalog of the cluster, through the API server's proxy
//! and by a port.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, ensure};

use super::{Door, is_serving};
use crate::harness::controller::{CATALOGS_ADDRESS, entrance};
use crate::harness::package::{Bundle, entry};
use crate::harness::stage::Stage;
use crate::harness::{Cluster, Outcome};

/// The first SRC is the one that the others are compared with.
pub(crate) async fn one_catalog_by_every_way(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let Some(enter) = entrance()? else {
        return Ok(Outcome::Skipped(
            "the cluster has no network namespace of its own",
        ));
    };
    let stage = Stage::set(cluster, "companion").await?;
    for version in ["1.0.0", "1.1.0"] {
        stage.package.push_bundle(&Bundle::new(version)).await?;
    }
    let entries = [entry("1.0.0", ""), entry("1.1.0", "1.0.0")];
    let image = stage.package.push_catalog("latest", &entries).await?;
    stage.add_catalog(&image).await?;
    stage.until_catalog("it is served", is_serving).await?;
    let pod = Door::open(&stage.cluster, &stage.name).await?;
    let folder = tempfile::tempdir()?;
    let text = stage.package.catalog_text(&entries);
    let told = tokio::task::spawn_blocking(move || tell(&enter, folder.path(), &text, &image));
    told.await??;
    pod.close().await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

fn tell(enter: &str, folder: &Path, text: &str, image: &str) -> anyhow::Result<()> {
    let directory = folder.join("catalog");
    fs::create_dir(&directory)?;
    let file = directory.join("catalog.yaml");
    fs::write(&file, text)?;
    let (_, port) = CATALOGS_ADDRESS.rsplit_once(':').context("it has a port")?;
    let url = format!("https://127.0.0.1:{port}");
    let ways: [Vec<&str>; 5] = [
        vec![directory.to_str().context("the path is text")?],
        vec![file.to_str().context("the path is text")?],
        vec![image],
        vec!["cluster:companion"],
        vec!["cluster:companion", "--catalogs-url", &url],
    ];
    for arguments in [
        "read SRC",
        "validate SRC",
        "validate SRC -o json",
        "list SRC",
        "list SRC companion -o json",
        "show SRC companion",
        "show SRC companion companion.v1.1.0",
        "graph SRC companion",
        "graph SRC companion -o json",
    ] {
        let answers = ways.iter().map(|way| ask(enter, arguments, way));
        let answers = answers.collect::<anyhow::Result<Vec<_>>>()?;
        let [first, others @ ..] = answers.as_slice() else {
            continue;
        };
        ensure!(!first.is_empty(), "{arguments} answers nothing");
        for (way, answer) in ways.iter().skip(1).zip(others) {
            ensure!(first == answer, "{arguments} of {way:?} differs:\n{answer}");
        }
    }
    for (at, way) in ways.iter().enumerate() {
        let images = ask(enter, "mirror-list SRC companion@1.1.0", way)?;
        let count = images
            .lines()
            .filter(|line| line.contains("@sha256:"))
            .count();
        // The catalog itself is one of them where it is an image.
        let expected = if way.contains(&image) { 2 } else { 1 };
        ensure!(count == expected, "mirror-list of {way:?}:\n{images}");
        let pruned = folder.join(format!("pruned-{at}"));
        let target = pruned.to_str().context("the path is text")?;
        ask(
            enter,
            &format!("prune SRC companion@1.1.0 -d {target}"),
            way,
        )?;
        ask(enter, "validate SRC", &[target])?;
        let list = ask(enter, "list SRC companion", &[target])?;
        ensure!(
            list.contains("companion.v1.1.0") && !list.contains("companion.v1.0.0 "),
            "{list}"
        );
        let other = ways
            .first()
            .and_then(|way| way.first())
            .context("there is one")?;
        let same = ask(enter, &format!("diff SRC {other}"), way)?;
        ensure!(same.is_empty() || same.contains("no difference"), "{same}");
        let smaller = run(enter, &format!("diff SRC {target}"), way)?;
        ensure!(smaller.status.code() == Some(1), "{smaller:?}");
        let unknown = run(enter, "list SRC nothing", way)?;
        ensure!(unknown.status.code() == Some(1), "{unknown:?}");
    }
    let nobody = run(enter, "read SRC", &["cluster:nobody"])?;
    let complaint = String::from_utf8_lossy(&nobody.stderr);
    ensure!(
        nobody.status.code() == Some(2) && complaint.contains("\"nobody\" not found"),
        "{complaint}"
    );
    Ok(())
}

/// Standard output of `oxolm catalog`, which must find nothing to complain about.
fn ask(enter: &str, arguments: &str, way: &[&str]) -> anyhow::Result<String> {
    let output = run(enter, arguments, way)?;
    ensure!(
        output.status.success(),
        "oxolm catalog {arguments} of {way:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs `oxolm catalog` with `way` in the place of SRC, in the cluster's network namespace.
fn run(enter: &str, arguments: &str, way: &[&str]) -> anyhow::Result<Output> {
    let mut all = Vec::new();
    for argument in arguments.split(' ') {
        match argument {
            "SRC" => all.extend(way),
            other => all.push(other),
        }
    }
    let mut command = Command::new(enter);
    command
        .args([env!("CARGO_BIN_EXE_oxolm"), "catalog"])
        .args(all)
        .stdin(Stdio::null());
    command.output().context("cannot run oxolm")
}

//! The example `ClusterExtensions` of the documentation that users know, applied as they stand, placeholders filled.
//!
//! They are read from the conformance folder (`OXOLM_CONFORMANCE`); without it the story is skipped.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, ensure};

use crate::harness::package::{Bundle, entry};
use crate::harness::stage::Stage;
use crate::harness::{Cluster, Outcome};

/// The versions of the package; every example finds one.
const VERSIONS: [&str; 4] = ["1.11.1", "1.11.5", "1.12.3", "1.13.0"];

/// Each example installs the version that its text promises.
pub(crate) async fn examples_of_the_documentation(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let Some(text) = document()? else {
        return Ok(Outcome::Skipped(
            "no conformance data: OXOLM_CONFORMANCE is not set",
        ));
    };
    let examples = examples(&text);
    ensure!(
        examples.len() >= 5,
        "the document has examples: {}",
        examples.len()
    );
    let mut stage = Stage::set(cluster, "seeds").await?;
    stage.package.channel = "latest";
    for version in VERSIONS {
        stage.package.push_bundle(&Bundle::new(version)).await?;
    }
    let entries = VERSIONS.map(|version| entry(version, ""));
    stage.serve(&entries).await?;
    for example in &examples {
        stage
            .apply(&filled(example))
            .await
            .with_context(|| example.clone())?;
        stage
            .until_installed(expected(example))
            .await
            .with_context(|| example.clone())?;
        stage.uninstall().await?;
    }
    stage.clear().await?;
    Ok(Outcome::Passed)
}

fn document() -> anyhow::Result<Option<String>> {
    let Some(folder) = std::env::var_os("OXOLM_CONFORMANCE") else {
        return Ok(None);
    };
    let seeds = PathBuf::from(folder).join("seeds");
    let Ok(entries) = fs::read_dir(seeds) else {
        return Ok(None);
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("002_") {
            return Ok(Some(fs::read_to_string(entry.path())?));
        }
    }
    Ok(None)
}

/// The blocks that begin with the API version of our kinds and end at a blank line. In the document all lines but the
/// first stand two columns too far right, and callouts such as `(1)` follow some lines.
fn examples(document: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        if line.trim() != "apiVersion: olm.operatorframework.io/v1" {
            continue;
        }
        let column = line.len() - line.trim_start().len();
        let mut block = vec![line.trim().to_owned()];
        for line in lines.by_ref().take_while(|line| !line.trim().is_empty()) {
            let without_callout = match line.trim_end().rsplit_once(" (") {
                Some((head, tail)) if tail.trim_end_matches(')').parse::<u32>().is_ok() => head,
                _ => line.trim_end(),
            };
            let indent = without_callout.len() - without_callout.trim_start().len();
            if indent >= column + 2 && !without_callout.trim().is_empty() {
                block.push(" ".repeat(indent - column - 2) + without_callout.trim_start());
            } else {
                // The list of callouts begins.
                break;
            }
        }
        let block = block.join("\n");
        if block.contains("kind: ClusterExtension") {
            found.push(block);
        }
    }
    found
}

fn filled(example: &str) -> String {
    [
        ("<clusterextension_name>", "seeds"),
        ("<installed_namespace>", "seeds"),
        ("<service_account_installer_name>", "installer"),
        ("<package_name>", "seeds"),
        ("<channel_name>", "latest"),
        ("<version_or_version_range>", "1.11.x"),
    ]
    .into_iter()
    .fold(example.to_owned(), |text, (placeholder, value)| {
        text.replace(placeholder, value)
    })
}

/// What the document says of each example.
fn expected(example: &str) -> &'static str {
    let version = example
        .lines()
        .find_map(|line| line.trim().strip_prefix("version: "));
    match version.map(|version| version.trim_matches('"')) {
        Some("1.11.1") => "1.11.1",
        Some(">=1.11, <1.13") => "1.12.3",
        Some("<version_or_version_range>") => "1.11.5",
        // The newest of the channel, or above 1.11.1.
        _ => "1.13.0",
    }
}

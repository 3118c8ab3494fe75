//! An old revision and a new one.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::ClusterExtension;
use oxolm::api::condition::{self, ConditionType};
use serde_json::json;

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::shape;
use crate::harness::{Cluster, Outcome};

fn active(extension: &ClusterExtension) -> Vec<String> {
    let status = extension.status.as_ref();
    let revisions = status.map(|status| status.active_revisions.iter());
    revisions
        .into_iter()
        .flatten()
        .map(|one| one.name.clone())
        .collect()
}

/// After an upgrade the new revision is the active one; what only the old one had is gone, and nothing is owned by it.
pub(crate) async fn what_is_dropped_goes(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "dropped").await?;
    let old = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: PACKAGE-old}\ndata: {a: b}\n";
    let first = Bundle {
        manifests: vec![("old.yaml", old.to_owned())],
        ..Bundle::new("1.0.0")
    };
    stage.offer(&[first, Bundle::new("1.2.0")]).await?;
    stage.install("1.0.0").await?;
    let old = "/api/v1/namespaces/dropped/configmaps/dropped-old";
    ensure!(stage.exists(old).await?);

    stage.change_to("1.2.0").await?;
    stage
        .until("only the second revision is active", |extension| {
            active(extension) == ["dropped-2"]
        })
        .await?;
    stage.until_rolled_out("dropped-2").await?;
    stage
        .until_set(
            "dropped-2",
            ConditionType::Available,
            "True/ProbesSucceeded",
        )
        .await?;
    stage.until_archived("dropped-1").await?;
    stage.until_exists(old, false).await?;
    for path in stage.object_paths() {
        let object = stage.get(&path).await?;
        let owners = object["metadata"]["ownerReferences"].to_string();
        ensure!(!owners.contains("dropped-1"), "{path}: {owners}");
    }
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// While a bad version rolls out, both revisions are told, and the old one stays installed; its objects are repaired.
pub(crate) async fn both_revisions_are_told(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "both-told").await?;
    let bad = Bundle {
        tag: "bad-image",
        ..Bundle::new("1.0.2")
    };
    stage.offer(&[Bundle::new("1.0.0"), bad]).await?;
    stage.install("1.0.0").await?;
    stage.change_extension(&json!({"version": "1.0.2"})).await?;
    stage
        .until_set(
            "both-told-2",
            ConditionType::Available,
            "False/ProbeFailure",
        )
        .await?;
    let extension = stage
        .until(
            "both revisions are told, the new one with why",
            |extension| {
                active(extension) == ["both-told-1", "both-told-2"]
                    && shape(extension, ConditionType::Progressing) == "True/RollingOut"
                    && is_told(extension, ConditionType::Progressing, "RollingOut")
                    && is_told(extension, ConditionType::Available, "ProbeFailure")
            },
        )
        .await?;
    ensure!(shape(&extension, ConditionType::Installed) == "True/Succeeded");
    let status = extension.status.unwrap_or_default();
    ensure!(
        status
            .install
            .is_some_and(|install| install.bundle.version == "1.0.0")
    );
    stage.remove(&stage.settings_path(), &json!({})).await?;
    stage.until_exists(&stage.settings_path(), true).await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// Whether the newest active revision's condition has this reason in the status of its extension.
fn is_told(extension: &ClusterExtension, kind: ConditionType, reason: &str) -> bool {
    let status = extension.status.as_ref();
    let newest = status.and_then(|status| status.active_revisions.last());
    newest
        .and_then(|newest| condition::find(&newest.conditions, kind))
        .is_some_and(|found| found.reason == reason)
}

//! Catalogs and bundles that are not what they should be.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::ClusterCatalog;
use oxolm::api::condition::{self, ConditionType};
use serde_json::json;

use crate::harness::package::{Bundle, entry};
use crate::harness::stage::Stage;
use crate::harness::wait::message;
use crate::harness::{Cluster, Outcome};

fn shape(catalog: &ClusterCatalog, kind: ConditionType) -> (String, String) {
    let found = catalog
        .status
        .as_ref()
        .and_then(|status| condition::find(&status.conditions, kind));
    found.map_or_else(
        || ("absent".to_owned(), String::new()),
        |one| {
            (
                format!("{}/{}", one.status, one.reason),
                one.message.clone(),
            )
        },
    )
}

/// A catalog that does not exist is retried; one that cannot be read says where, and is Blocked by digest; the
/// content that was served before is served on.
pub(crate) async fn bad_catalog(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "bad-catalog").await?;
    stage.add_catalog(&stage.package.catalog("nowhere")).await?;
    let missing = stage
        .until_catalog("a missing image is retried", |catalog| {
            shape(catalog, ConditionType::Progressing).0 == "True/Retrying"
        })
        .await?;
    let (_, text) = shape(&missing, ConditionType::Progressing);
    ensure!(
        text.starts_with("source catalog content: ")
            && text.contains("bad-catalog/catalog:nowhere"),
        "{text}"
    );
    ensure!(shape(&missing, ConditionType::Serving).0 == "absent");

    let good = stage
        .package
        .push_catalog("good", &[entry("1.0.0", "")])
        .await?;
    stage.change_catalog(&good).await?;
    stage
        .until_catalog("good content is served", |catalog| {
            shape(catalog, ConditionType::Serving).0 == "True/Available"
        })
        .await?;

    let secret = "schema: olm.package\nname: [this is not, a name\n";
    let broken = stage.package.push_catalog_text("broken", secret).await?;
    stage.change_catalog(&broken).await?;
    let blocked = stage
        .until_catalog("broken content by digest is Blocked", |catalog| {
            shape(catalog, ConditionType::Progressing).0 == "False/Blocked"
        })
        .await?;
    let (_, text) = shape(&blocked, ConditionType::Progressing);
    ensure!(text.contains("catalog.yaml"), "the file is named: {text}");
    ensure!(!text.contains("this is not"), "content is not told: {text}");
    ensure!(
        shape(&blocked, ConditionType::Serving).0 == "True/Available",
        "what was served is served on"
    );
    let reference = blocked
        .status
        .and_then(|status| status.resolved_source)
        .and_then(|source| source.image);
    ensure!(
        reference
            .is_some_and(|image| good.ends_with(image.reference.split('@').nth(1).unwrap_or("?")))
    );
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// A bundle that cannot be installed is Blocked with the reference's words; a catalog that has a better one heals it.
pub(crate) async fn bad_bundle(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "bad-bundle").await?;
    let stateful_set = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: PACKAGE-db}\n";
    let bad = Bundle {
        manifests: vec![("db.yaml", stateful_set.to_owned())],
        ..Bundle::new("1.0.0")
    };
    stage.package.push_bundle(&bad).await?;
    stage.package.push_bundle(&Bundle::new("1.0.1")).await?;
    stage.serve(&[entry("1.0.0", "")]).await?;
    stage.add_extension(&json!({})).await?;
    let text = "unsupported resource \"bad-bundle-db\" with kind \"StatefulSet\"";
    let blocked = stage
        .until_condition(ConditionType::Progressing, "False/Blocked", text)
        .await?;
    let told = message(&blocked, ConditionType::Progressing);
    ensure!(
        told == format!(
            "error for resolved bundle \"bad-bundle.v1.0.0\" with version \"1.0.0\": {text}"
        ),
        "{told}"
    );
    stage.serve(&[entry("1.0.1", "")]).await?;
    stage.until_installed("1.0.1").await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// A rollout that never becomes ready is superseded by a change of the spec.
pub(crate) async fn a_stuck_rollout_is_superseded(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "stuck").await?;
    stage.package.push_bundle(&Bundle::new("1.0.0")).await?;
    stage
        .package
        .push_bundle(&Bundle {
            tag: "unready",
            ..Bundle::new("1.1.0")
        })
        .await?;
    stage.package.push_bundle(&Bundle::new("1.2.0")).await?;
    let entries = [
        entry("1.0.0", ""),
        entry("1.1.0", "1.0.0"),
        entry("1.2.0", "1.0.0"),
    ];
    stage.serve(&entries).await?;
    stage.install("1.0.0").await?;
    stage.change_extension(&json!({"version": "1.1.0"})).await?;
    stage.until_active(2).await?;
    stage.change_to("1.2.0").await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

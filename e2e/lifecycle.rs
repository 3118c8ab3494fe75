//! Install, upgrade, forced rollback, uninstall.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::cluster_object_set::LifecycleState;
use oxolm::api::condition::ConditionType;
use serde_json::json;

use crate::harness::package::{Bundle, entry};
use crate::harness::stage::Stage;
use crate::harness::wait::{message, shape, until_true};
use crate::harness::{Cluster, Outcome};

/// The newest version of a package installs, all its objects are there, labelled, and Installed names the image.
pub(crate) async fn install_upgrade_rollback_uninstall(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "lifecycle").await?;
    for version in ["1.0.0", "1.1.0", "2.0.0"] {
        stage.package.push_bundle(&Bundle::new(version)).await?;
    }
    stage.serve(&[entry("1.0.0", "")]).await?;
    stage
        .add_extension(&json!({"channels": ["stable"]}))
        .await?;

    let installed = stage.until_installed("1.0.0").await?;
    ensure!(
        message(&installed, ConditionType::Installed).contains("/lifecycle/bundle:v1.0.0"),
        "Installed names the image: {}",
        message(&installed, ConditionType::Installed)
    );
    ensure!(shape(&installed, ConditionType::Resolved) == "True/Resolved");
    ensure!(shape(&installed, ConditionType::Ready) == "True/Ready");
    stage.has_everything().await?;

    // A successor in the catalog is installed by itself, as a second revision; the first is archived.
    let two = [
        entry("1.0.0", ""),
        entry("1.1.0", "1.0.0"),
        entry("2.0.0", ""),
    ];
    stage.serve(&two).await?;
    stage.until_installed("1.1.0").await?;
    stage.until_active(1).await?;
    let first = stage.sets().get("lifecycle-1").await?;
    ensure!(
        first.spec.lifecycle_state == LifecycleState::Archived,
        "the first revision is archived"
    );

    // No edge leads to 2.0.0: refused, with the reference's text, what to do beside it; what is installed stays.
    stage.change_extension(&json!({"version": "2.0.0"})).await?;
    let text = "error upgrading from currently installed version \"1.1.0\": no bundles found for package \"lifecycle\" \
                matching version \"2.0.0\" in channels [stable]";
    let refused = stage
        .until_condition(ConditionType::Progressing, "True/Retrying", text)
        .await?;
    ensure!(
        message(&refused, ConditionType::Progressing) == text,
        "{}",
        message(&refused, ConditionType::Progressing)
    );
    ensure!(shape(&refused, ConditionType::Resolved) == "False/NoUpgradePath");
    ensure!(shape(&refused, ConditionType::Installed) == "True/Succeeded");

    // Forced up, and forced back.
    stage
        .change_extension(&json!({"upgradeConstraintPolicy": "SelfCertified"}))
        .await?;
    stage.until_installed("2.0.0").await?;
    stage.change_to("1.0.0").await?;

    stage.uninstall().await?;
    stage.has_nothing().await?;
    let sets = stage.sets().list(&kube::api::ListParams::default()).await?;
    ensure!(
        sets.items.iter().all(|set| !set
            .metadata
            .name
            .as_deref()
            .unwrap_or_default()
            .starts_with("lifecycle-")),
        "no revision is left"
    );
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// An object that somebody deletes or changes comes back; what users add stays.
pub(crate) async fn drift_is_repaired(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{DeleteParams, Patch, PatchParams};
    let stage = Stage::offering(cluster, "drift", &[Bundle::new("1.0.0")]).await?;
    stage.install_newest("1.0.0").await?;

    let maps: kube::Api<ConfigMap> = kube::Api::namespaced(stage.cluster.client.clone(), "drift");
    let patch = json!({"data": {"version": "changed", "mine": "stays"}});
    maps.patch(
        "drift-settings",
        &PatchParams::default(),
        &Patch::Merge(patch),
    )
    .await?;
    let value =
        |map: &ConfigMap, key: &str| map.data.as_ref().and_then(|data| data.get(key).cloned());
    let is_back = async || {
        let map = maps.get("drift-settings").await?;
        Ok(value(&map, "version").as_deref() == Some("1.0.0")
            && value(&map, "mine").as_deref() == Some("stays"))
    };
    let what = "the changed value is set back, the added one stays";
    until_true(&stage.cluster, what, is_back).await?;

    maps.delete("drift-settings", &DeleteParams::default())
        .await?;
    let is_back = async || Ok(maps.get_opt("drift-settings").await?.is_some());
    until_true(&stage.cluster, "the deleted object is back", is_back).await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

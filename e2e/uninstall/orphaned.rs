//! `kubectl delete --cascade=orphan`.

use std::sync::Arc;

use anyhow::ensure;
use serde_json::{Value, json};

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::{self, until_true};
use crate::harness::{Cluster, Outcome};
use crate::revision::set_path;

/// An extension, then a revision, deleted so: everything stays where it is, and the next one takes it back.
pub(crate) async fn what_is_orphaned_stays_and_is_taken_back(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::offering(
        cluster,
        "orphaned",
        &[Bundle::new("1.0.0"), Bundle::new("1.1.0")],
    )
    .await?;
    stage.install("1.0.0").await?;
    stage.change_to("1.1.0").await?;
    let before = stage.uids().await?;

    let orphan = json!({"propagationPolicy": "Orphan"});
    let path = "/apis/olm.operatorframework.io/v1/clusterextensions/orphaned";
    stage.remove(path, &orphan).await?;
    wait::until_gone(&stage.cluster, &stage.extensions(), "orphaned").await?;
    ensure!(stage.uids().await? == before, "everything stays");
    let told = reasons(&stage).await?;
    ensure!(told.contains(&json!("Orphaned")), "{told:?}");
    ensure!(!told.contains(&json!("Uninstalled")), "{told:?}");
    ensure!(!told.contains(&json!("Uninstalling")), "{told:?}");
    let second = stage.get(&set_path("orphaned-2")).await?;
    ensure!(second["metadata"]["ownerReferences"].is_null(), "{second}");
    ensure!(second["spec"]["lifecycleState"] == "Active");

    // It is kept up meanwhile.
    stage.remove(&stage.settings_path(), &json!({})).await?;
    stage.until_exists(&stage.settings_path(), true).await?;
    let before = stage.uids().await?;
    let extension = stage.install("1.1.0").await?;
    let uid = json!(extension.metadata.uid);
    for name in ["orphaned-1", "orphaned-2"] {
        let set = stage.get(&set_path(name)).await?;
        ensure!(set["metadata"]["ownerReferences"][0]["uid"] == uid, "{set}");
    }
    ensure!(stage.uids().await? == before, "nothing is made anew");

    // Now the revision alone: its extension makes another one for what stands there.
    let old = stage.get(&set_path("orphaned-2")).await?["metadata"]["uid"].clone();
    stage.remove(&set_path("orphaned-2"), &orphan).await?;
    let is_replaced = async || {
        let sets = stage.get("/apis/olm.operatorframework.io/v1/clusterobjectsets?labelSelector=olm.operatorframework.io/owner-name=orphaned").await?;
        let active: Vec<&Value> = sets["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|set| set["spec"]["lifecycleState"] == "Active")
            .collect();
        let is_complete = |set: &Value| {
            let mut conditions = set["status"]["conditions"].as_array().into_iter().flatten();
            conditions.any(|one| one["type"] == "Succeeded" && one["status"] == "True")
        };
        Ok(active.len() == 1 && active[0]["metadata"]["uid"] != old && is_complete(active[0]))
    };
    let what = "another revision has taken everything over";
    until_true(&stage.cluster, what, is_replaced).await?;
    stage.until_installed("1.1.0").await?;
    ensure!(stage.uids().await? == before, "nothing is made anew");
    stage.clear().await?;
    stage.has_nothing().await?;
    Ok(Outcome::Passed)
}

/// The reasons of the Events about the extension.
async fn reasons(stage: &Stage) -> anyhow::Result<Vec<Value>> {
    let events = stage
        .get("/apis/events.k8s.io/v1/namespaces/default/events")
        .await?;
    let events = events["items"].as_array().into_iter().flatten();
    let own = events.filter(|event| event["regarding"]["name"] == "orphaned");
    Ok(own.map(|event| event["reason"].clone()).collect())
}

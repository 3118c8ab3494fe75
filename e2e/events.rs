//! What happened, as `kubectl describe` and `kubectl get events` tell it.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::ensure;
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use oxolm::api::condition::ConditionType;
use serde_json::{Value, json};

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::until_true;
use crate::harness::{Cluster, Outcome};

/// Every transition, from the install to the uninstall: kind and reason.
const TOLD: &[(&str, &str)] = &[
    ("ClusterCatalog", "Serving"),
    ("ClusterExtension", "Installed"),
    ("ClusterExtension", "Upgraded"),
    ("ClusterExtension", "InvalidConfiguration"),
    ("ClusterExtension", "NoMatchingVersion"),
    ("ClusterExtension", "Uninstalled"),
    ("ClusterObjectSet", "Succeeded"),
    ("ClusterObjectSet", "Archived"),
    ("ClusterObjectSet", "DriftRepaired"),
];

/// What does happen twice: after the bad configuration all is as before, and so it is after the repair.
const TWICE: &[&str] = &["Succeeded", "Available", "Unavailable", "RollingOut"];

/// Installed, upgraded, drifted, blocked, refused and uninstalled: an Event tells of each, as often as it happens.
pub(crate) async fn every_transition_is_told_once(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let began = Timestamp::now();
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.0.1")];
    let stage = Stage::offering(cluster, "told", &bundles).await?;
    stage.install("1.0.0").await?;
    stage.change_to("1.0.1").await?;
    stage.until_archived("told-1").await?;

    let settings = stage.settings_path();
    stage.remove(&settings, &json!({})).await?;
    stage.until_exists(&settings, true).await?;

    let config = json!({"configType": "Inline", "inline": {"unheardOf": true}});
    stage
        .patch_extension(&json!({"spec": {"config": config}}))
        .await?;
    stage
        .until_condition(ConditionType::Progressing, "False/InvalidConfiguration", "")
        .await?;
    stage
        .patch_extension(&json!({"spec": {"config": null}}))
        .await?;
    stage.until_installed("1.0.1").await?;

    stage.change_extension(&json!({"version": "9.x"})).await?;
    stage
        .until_condition(ConditionType::Resolved, "False/NoMatchingVersion", "")
        .await?;
    stage.uninstall().await?;

    let is_told = async || Ok(missing(&events(&stage, began).await?).is_empty());
    until_true(&stage.cluster, "every transition is told", is_told).await?;
    for (what, count) in events(&stage, began).await? {
        let most = if TWICE.contains(&what.2.as_str()) {
            2
        } else {
            1
        };
        ensure!(count <= most, "told {count} times: {what:?}");
    }
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// Kind, name, reason and note of an Event.
type Told = (String, String, String, String);

/// The Events of the story since it began, and how often each was told.
async fn events(stage: &Stage, began: Timestamp) -> anyhow::Result<BTreeMap<Told, i64>> {
    let events: Api<Event> = Api::namespaced(stage.cluster.client.clone(), "default");
    let mut told = BTreeMap::new();
    for event in events.list(&ListParams::default()).await? {
        if event.event_time.as_ref().is_none_or(|at| at.0 < began) {
            continue;
        }
        let event = serde_json::to_value(event)?;
        let text = |path: &str| {
            let text = event.pointer(path).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let name = text("/regarding/name");
        if name == stage.name || name.starts_with(&format!("{}-", stage.name)) {
            let what = (
                text("/regarding/kind"),
                name,
                text("/reason"),
                text("/note"),
            );
            let times = event.pointer("/series/count").and_then(Value::as_i64);
            *told.entry(what).or_default() += times.unwrap_or(1);
        }
    }
    Ok(told)
}

/// What nobody was told of yet.
fn missing(told: &BTreeMap<Told, i64>) -> Vec<&'static (&'static str, &'static str)> {
    let is_told = |(kind, reason): &&(&str, &str)| {
        told.keys()
            .any(|(told_kind, _, told_reason, _)| told_kind == kind && told_reason == reason)
    };
    TOLD.iter().filter(|one| !is_told(one)).collect()
}

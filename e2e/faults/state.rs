//! Everything that is an extension's on the cluster, in words that are the same each time.

use std::collections::BTreeMap;

use anyhow::Context as _;
use kube::discovery::{Discovery, verbs};
use oxolm::api::keys;
use serde_json::{Value, json};

use crate::harness::stage::Stage;

const EXTENSIONS: &str = "/apis/olm.operatorframework.io/v1/clusterextensions";

/// The lists of all kinds that the API server serves.
pub(super) struct State {
    lists: Vec<String>,
}

impl State {
    /// Asks for all kinds.
    pub(super) async fn of(stage: &Stage) -> anyhow::Result<Self> {
        let discovery = Discovery::new(stage.cluster.client.clone()).run().await?;
        let mut lists = Vec::new();
        for group in discovery.groups() {
            for (resource, capabilities) in group.recommended_resources() {
                // An event is about an object, and outlives it.
                if capabilities.supports_operation(verbs::LIST) && resource.kind != "Event" {
                    let root = if resource.group.is_empty() {
                        format!("/api/{}", resource.version)
                    } else {
                        format!("/apis/{}", resource.api_version)
                    };
                    lists.push(format!("{root}/{}", resource.plural));
                }
            }
        }
        Ok(Self { lists })
    }

    /// The extension and all that bears its mark, a line each.
    pub(super) async fn read(&self, stage: &Stage) -> anyhow::Result<Vec<String>> {
        let selector = format!("labelSelector={}%3D{}", keys::OWNER_NAME, stage.name);
        let mut found = Vec::new();
        for list in &self.lists {
            let Ok(listed) = stage.get(&format!("{list}?{selector}")).await else {
                // The kind went with another lane's definition.
                continue;
            };
            let items = listed["items"].as_array().context("a list has items")?;
            let kind = listed["kind"].as_str().unwrap_or_default();
            let kind = kind.trim_end_matches("List");
            found.extend(items.iter().map(|item| (kind.to_owned(), item.clone())));
        }
        let path = format!("{EXTENSIONS}/{}", stage.name);
        if let Some(extension) = stage.find(&path).await? {
            found.push(("ClusterExtension".to_owned(), extension));
        }
        let names: BTreeMap<String, String> = found
            .iter()
            .map(|(kind, object)| {
                let metadata = &object["metadata"];
                let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
                (text("uid"), format!("{kind}/{}", text("name")))
            })
            .collect();
        let mut lines: Vec<String> = found
            .into_iter()
            .map(|(kind, object)| line(&kind, object, &names))
            .collect();
        lines.sort();
        Ok(lines)
    }
}

/// An object without what differs each time, on one line.
fn line(kind: &str, mut object: Value, names: &BTreeMap<String, String>) -> String {
    let mut ours: Vec<String> = object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|entry| {
            let manager = entry["manager"].as_str().unwrap_or_default();
            manager.starts_with("olm") || manager.starts_with("oxolm.")
        })
        .map(|entry| {
            // Not which fields: who creates an object owns what the API server adds to it, too.
            let told = ["manager", "operation", "subresource"];
            told.map(|field| entry[field].to_string()).join(" ")
        })
        .collect();
    // The record of our own objects is wiped, unless oxolm is killed before it is.
    let is_revision =
        kind == "ClusterObjectSet" || object["type"] == "olm.operatorframework.io/object-data";
    if is_revision {
        ours.clear();
    } else if ours.is_empty() {
        // Somebody made it from an object of ours and copied the labels, as for an EndpointSlice.
        return format!("{kind} of somebody else");
    }
    ours.sort();
    let differs = json!({
        "apiVersion": null, "kind": null,
        "metadata": {"uid": null, "resourceVersion": null, "generation": null, "creationTimestamp": null,
            "managedFields": ours,
            // The Deployment controller counts Pod templates.
            "annotations": {"deployment.kubernetes.io/revision": null}},
        "spec": {"clusterIP": null, "clusterIPs": null},
    });
    json_patch::merge(&mut object, &differs);
    if matches!(kind, "ClusterExtension" | "ClusterObjectSet") {
        forget_times(&mut object["status"]);
    } else {
        object["status"] = Value::Null;
    }
    let text = format!("{kind} {object}");
    names
        .iter()
        .fold(text, |text, (uid, name)| text.replace(uid, name))
}

/// Takes away when a status was written, and the order in which conditions came.
fn forget_times(status: &mut Value) {
    match status {
        Value::Object(fields) => {
            fields.remove("lastTransitionTime");
            fields.remove("observedGeneration");
            fields.values_mut().for_each(forget_times);
        }
        Value::Array(items) => {
            items.iter_mut().for_each(forget_times);
            items.sort_by_key(|item| item["type"].as_str().map(str::to_owned));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

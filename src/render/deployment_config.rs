//! The merge of `deploymentConfig` into a Deployment. Init containers are never touched.

use serde_json::{Map, Value};

use crate::bundle::config::DeploymentConfig;

use super::member::{list_at, member};

/// Merges `config` into a Deployment: what the user says wins, but for annotations.
pub(super) fn merge(deployment: &mut Map<String, Value>, config: &DeploymentConfig) {
    let list = |key: &str| config.get(key).and_then(Value::as_array);
    let template = member(member(deployment, "spec"), "template");
    let pod = member(template, "spec");
    for container in containers(pod) {
        if let Some(env) = list("env") {
            replace_or_append(container, "env", env);
        }
        if let Some(sources) = list("envFrom") {
            append_new(container, "envFrom", sources);
        }
        if let Some(mounts) = list("volumeMounts") {
            replace_or_append(container, "volumeMounts", mounts);
        }
        if let Some(resources) = config.get("resources") {
            container.insert("resources".to_owned(), resources.clone());
        }
    }
    if let Some(volumes) = list("volumes") {
        replace_or_append(pod, "volumes", volumes);
    }
    if let Some(tolerations) = list("tolerations") {
        append_new(pod, "tolerations", tolerations);
    }
    if let Some(selector) = config.get("nodeSelector") {
        pod.insert("nodeSelector".to_owned(), selector.clone());
        drop_empty(pod, "nodeSelector");
    }
    if let Some(affinity) = config.get("affinity").and_then(Value::as_object) {
        merge_affinity(pod, affinity);
    }
    if let Some(annotations) = config.get("annotations").and_then(Value::as_object) {
        add_annotations(template, annotations);
        add_annotations(deployment, annotations);
    }
}

fn containers(pod: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    pod.get_mut("containers")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

/// Entries of a known name replace the bundle's (the last one, if it has several), the others are appended, each.
fn replace_or_append(members: &mut Map<String, Value>, key: &str, entries: &[Value]) {
    if entries.is_empty() {
        return;
    }
    let list = list_at(members, key);
    let authored = list.len();
    for entry in entries {
        let name = entry.get("name");
        let known = list
            .iter_mut()
            .take(authored)
            .rfind(|known| known.get("name") == name);
        match known {
            Some(known) => *known = entry.clone(),
            None => list.push(entry.clone()),
        }
    }
}

/// Appends the entries that are not there yet.
fn append_new(members: &mut Map<String, Value>, key: &str, entries: &[Value]) {
    if entries.is_empty() {
        return;
    }
    let list = list_at(members, key);
    for entry in entries {
        if !list.contains(entry) {
            list.push(entry.clone());
        }
    }
}

fn drop_empty(members: &mut Map<String, Value>, key: &str) {
    let is_empty = |value: &Value| match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        other => other.is_null(),
    };
    if members.get(key).is_some_and(is_empty) {
        members.remove(key);
    }
}

/// Each kind of affinity that is given replaces the bundle's, an empty one erases it; no kind at all erases all.
fn merge_affinity(pod: &mut Map<String, Value>, affinity: &Map<String, Value>) {
    if affinity.is_empty() {
        pod.remove("affinity");
        return;
    }
    let merged = member(pod, "affinity");
    for (kind, given) in affinity {
        if is_empty_affinity(given) {
            merged.remove(kind);
        } else {
            merged.insert(kind.clone(), given.clone());
        }
    }
    drop_empty(pod, "affinity");
}

/// Whether one kind of affinity says nothing. What is required of nodes says nothing without terms.
fn is_empty_affinity(affinity: &Value) -> bool {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let is_empty_list =
        |value: Option<&Value>| value.and_then(Value::as_array).is_none_or(Vec::is_empty);
    let required = match affinity.get(REQUIRED) {
        Some(Value::Object(required)) => required.get("nodeSelectorTerms"),
        other => other,
    };
    is_empty_list(required) && is_empty_list(affinity.get(PREFERRED))
}

/// Adds annotations where the key is missing.
fn add_annotations(object: &mut Map<String, Value>, annotations: &Map<String, Value>) {
    if annotations.is_empty() {
        return;
    }
    let present = member(member(object, "metadata"), "annotations");
    for (key, value) in annotations {
        present.entry(key.as_str()).or_insert_with(|| value.clone());
    }
}

//! Who owns which field: a simple model of server-side apply.
//!
//! Objects are maps of fields, every list is one field, except that owner references are told apart by UID, and webhooks
//! by name.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Fields of metadata that nobody owns.
const UNOWNED: &[&str] = &[
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "deletionTimestamp",
];

/// The paths of all fields of `object` that can be owned.
pub(super) fn owned(object: &Value) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    let object = keyed(object);
    for (key, value) in object.as_object().unwrap() {
        match key.as_str() {
            "apiVersion" | "kind" | "status" => {}
            "metadata" => {
                for (field, value) in value.as_object().into_iter().flatten() {
                    if !UNOWNED.contains(&field.as_str()) {
                        leaves(value, format!("/metadata/{field}"), &mut paths);
                    }
                }
            }
            _ => leaves(value, format!("/{key}"), &mut paths),
        }
    }
    paths
}

fn leaves(value: &Value, path: String, paths: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                leaves(value, format!("{path}/{key}"), paths);
            }
        }
        _ => {
            paths.insert(path);
        }
    }
}

/// `object` with its owner references as a map by UID, and its webhooks as one by name.
pub(super) fn keyed(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(Value::Array(webhooks)) = object.get_mut("webhooks").map(Value::take) {
        let named = webhooks
            .into_iter()
            .map(|webhook| (webhook["name"].as_str().unwrap().to_owned(), webhook));
        object["webhooks"] = Value::Object(named.collect());
    }
    if let Some(owners) = object.pointer_mut("/metadata/ownerReferences") {
        let map: Map<String, Value> = owners
            .as_array()
            .into_iter()
            .flatten()
            .map(|owner| {
                (
                    owner["uid"].as_str().unwrap_or_default().to_owned(),
                    owner.clone(),
                )
            })
            .collect();
        // One owner is one field.
        *owners = map
            .into_iter()
            .map(|(uid, owner)| (uid, json!([owner])))
            .collect();
    }
    object
}

/// The reverse of [`keyed`].
pub(super) fn listed(mut object: Value) -> Value {
    if let Some(Value::Object(webhooks)) = object.get_mut("webhooks").map(Value::take) {
        object["webhooks"] = webhooks.into_iter().map(|(_, webhook)| webhook).collect();
    }
    let owners = object.pointer("/metadata/ownerReferences").cloned();
    if let (Some(Value::Object(map)), Some(metadata)) = (owners, object["metadata"].as_object_mut())
    {
        let list: Vec<Value> = map.into_iter().map(|(_, owner)| owner[0].clone()).collect();
        if list.is_empty() {
            metadata.remove("ownerReferences");
        } else {
            metadata.insert("ownerReferences".to_owned(), json!(list));
        }
    }
    object
}

pub(super) fn entry(
    manager: &str,
    operation: &str,
    fields: &BTreeSet<String>,
    time: &str,
) -> Value {
    let fields: Map<String, Value> = fields
        .iter()
        .map(|path| (format!("f:{path}"), json!({})))
        .collect();
    json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields})
}

fn fields_of(entry: &Value) -> BTreeSet<String> {
    entry["fieldsV1"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key.trim_start_matches("f:").to_owned())
        .collect()
}

fn entries(object: &Value) -> Vec<Value> {
    object
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default()
}

fn is_entry(entry: &Value, manager: &str, operation: &str) -> bool {
    entry["manager"] == manager && entry["operation"] == operation
}

/// Gives `fields` to `manager`, taking them from all others; `keeps`: who shares keeps its share.
fn give(
    object: &mut Value,
    manager: &str,
    operation: &str,
    fields: &BTreeSet<String>,
    taken: &BTreeSet<String>,
    time: &str,
) {
    let mut kept = Vec::new();
    let mut found = false;
    for mut entry in entries(object) {
        let is_own = is_entry(&entry, manager, operation);
        let before = fields_of(&entry);
        let mut after: BTreeSet<String> = before.difference(taken).cloned().collect();
        if is_own {
            found = true;
            after.clone_from(fields);
            if operation == "Update" {
                after.extend(before.iter().cloned());
            }
        }
        if after.is_empty() {
            continue;
        }
        if after != before {
            let (manager, operation) = (entry["manager"].clone(), entry["operation"].clone());
            let time = if is_own {
                time
            } else {
                entry["time"].as_str().unwrap_or_default()
            };
            entry = self::entry(
                manager.as_str().unwrap(),
                operation.as_str().unwrap(),
                &after,
                time,
            );
        }
        kept.push(entry);
    }
    if !found && !fields.is_empty() {
        kept.push(entry(manager, operation, fields, time));
    }
    object["metadata"]["managedFields"] = json!(kept);
}

/// Records that `manager` changed `before` to `object` by an update. Nothing is recorded of an object whose record was
/// wiped, from then on.
pub(super) fn updated(before: &Value, object: &mut Value, manager: &str, time: &str) {
    let record = object.pointer("/metadata/managedFields");
    if record == Some(&json!([{}])) || record == Some(&json!([])) {
        object["metadata"]["managedFields"] = json!([]);
        return;
    }
    let (old, new) = (keyed(before), keyed(object));
    let changed: BTreeSet<String> = owned(before)
        .union(&owned(object))
        .filter(|path| old.pointer(path) != new.pointer(path))
        .cloned()
        .collect();
    let gained = changed
        .iter()
        .filter(|path| new.pointer(path).is_some())
        .cloned()
        .collect();
    give(object, manager, "Update", &gained, &changed, time);
}

/// Applies `applied` to `live` as `manager`. An error is the path of a field that somebody else owns.
pub(super) fn apply(
    live: &Value,
    applied: &Value,
    manager: &str,
    force: bool,
    time: &str,
) -> Result<Value, String> {
    let wanted = owned(applied);
    let (mut object, source) = (keyed(live), keyed(applied));
    let mut taken = BTreeSet::new();
    let mut others = BTreeSet::new();
    let mut before = BTreeSet::new();
    for entry in entries(live) {
        if is_entry(&entry, manager, "Apply") {
            before = fields_of(&entry);
            continue;
        }
        let fields = fields_of(&entry);
        for path in fields.intersection(&wanted) {
            if object.pointer(path) != source.pointer(path) {
                if !force {
                    return Err(path.clone());
                }
                taken.insert(path.clone());
            }
        }
        others.extend(fields);
    }
    for path in before.difference(&wanted) {
        if !others.contains(path) {
            remove(&mut object, path);
        }
    }
    for path in &wanted {
        set(&mut object, path, source.pointer(path).unwrap().clone());
    }
    let mut object = listed(object);
    give(&mut object, manager, "Apply", &wanted, &taken, time);
    Ok(object)
}

fn remove(object: &mut Value, path: &str) {
    let (parent, key) = path.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/").replace("~0", "~");
    if let Some(Value::Object(map)) = object.pointer_mut(parent) {
        map.remove(&key);
    }
}

fn set(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for key in path.trim_start_matches('/').split('/') {
        let key = key.replace("~1", "/").replace("~0", "~");
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[key];
    }
    *place = value;
}

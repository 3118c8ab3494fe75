//! What `managedFields` have to say, so that a later apply takes fields away and drift detection sees changes: all that is
//! ours stands in one entry, that of server-side apply.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use serde_json::{Value, json};

use crate::api::keys;
use crate::revision::compare::is_own_apply;

/// The JSON patch that makes our entry in `managedFields` one of server-side apply; none when nothing is to be done.
///
/// The only entry of a new object is changed in its place, so that a status that somebody writes meanwhile does not
/// stand in the way.
pub(super) fn claim(metadata: &ObjectMeta) -> Option<Value> {
    let fields = metadata.managed_fields.clone().unwrap_or_default();
    let is_new = matches!(fields.as_slice(), [only] if is_of_creation(only));
    let claimed = claimed(fields)?;
    Some(if is_new {
        let entry = "/metadata/managedFields/0";
        json!([
            {"op": "test", "path": "/metadata/uid", "value": metadata.uid},
            {"op": "test", "path": format!("{entry}/manager"), "value": keys::FIELD_MANAGER_CREATION},
            {"op": "test", "path": format!("{entry}/operation"), "value": "Update"},
            {"op": "replace", "path": format!("{entry}/manager"), "value": keys::FIELD_MANAGER_OBJECTS},
            {"op": "replace", "path": format!("{entry}/operation"), "value": "Apply"},
        ])
    } else {
        with_managed_fields(metadata, &claimed)
    })
}

/// The JSON patch that makes `fields` the `managedFields` of an object that is still as it was read.
fn with_managed_fields(metadata: &ObjectMeta, fields: &[ManagedFieldsEntry]) -> Value {
    json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": metadata.resource_version},
        {"op": "replace", "path": "/metadata/managedFields", "value": fields},
    ])
}

/// `managedFields` with all that is ours in one entry, that of server-side apply; none when it is so already.
fn claimed(fields: Vec<ManagedFieldsEntry>) -> Option<Vec<ManagedFieldsEntry>> {
    if !fields.iter().any(is_unclaimed) {
        return None;
    }
    let (ours, mut claimed): (Vec<_>, Vec<_>) = fields
        .into_iter()
        .partition(|entry| is_own_apply(entry) || is_unclaimed(entry));
    let united = ours.iter().map(as_own_apply).reduce(|mut united, other| {
        if let (Some(into), Some(from)) = (&mut united.fields_v1, &other.fields_v1) {
            json_patch::merge(&mut into.0, &from.0);
        }
        united.time = united.time.max(other.time);
        united
    });
    claimed.extend(united);
    Some(claimed)
}

/// Whether an entry is ours, and no server-side apply: what it holds, a later apply would not give up.
pub(super) fn is_unclaimed(entry: &ManagedFieldsEntry) -> bool {
    let is_own = is_of_creation(entry) || is_own_apply(&as_own_apply(entry));
    is_own && entry.operation.as_deref() == Some("Update")
}

fn is_of_creation(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(keys::FIELD_MANAGER_CREATION)
}

/// An entry of ours, as one of server-side apply.
fn as_own_apply(entry: &ManagedFieldsEntry) -> ManagedFieldsEntry {
    let manager = if is_of_creation(entry) {
        Some(keys::FIELD_MANAGER_OBJECTS.to_owned())
    } else {
        entry.manager.clone()
    };
    ManagedFieldsEntry {
        manager,
        operation: Some("Apply".to_owned()),
        ..entry.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::objects::metadata_of;

    fn entry(manager: &str, operation: &str, field: &str) -> Value {
        json!({"manager": manager, "operation": operation, "time": "2026-01-01T00:00:00Z", "fieldsV1": {field: {}}})
    }

    fn object(entries: &[Value]) -> Value {
        json!({"metadata": {"uid": "1", "resourceVersion": "7", "managedFields": entries}})
    }

    /// The entries of `live` after the claim that `created` asks for.
    fn claimed_entries(created: &Value, live: &Value) -> Result<Value, json_patch::PatchError> {
        let patch = claim(&metadata_of(created)).expect("there is something to claim");
        let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
        let mut claimed = live.clone();
        json_patch::patch(&mut claimed, &patch)?;
        Ok(claimed["metadata"]["managedFields"].clone())
    }

    #[test]
    fn a_status_that_is_written_right_after_creation_does_not_stand_in_the_way() {
        let creation = entry(keys::FIELD_MANAGER_CREATION, "Update", "f:spec");
        let status = entry("kube-controller-manager", "Update", "f:status");
        assert!(keys::FIELD_MANAGER_CREATION < "kube-controller-manager");
        let created = object(std::slice::from_ref(&creation));
        let mut live = object(&[creation, status.clone()]);
        live["metadata"]["resourceVersion"] = json!("8");
        let ours = entry(keys::FIELD_MANAGER_OBJECTS, "Apply", "f:spec");
        assert_eq!(
            claimed_entries(&created, &live).unwrap(),
            json!([ours, status])
        );
        let another =
            json!({"metadata": {"uid": "2", "managedFields": live["metadata"]["managedFields"]}});
        assert!(claimed_entries(&created, &another).is_err());
    }

    #[test]
    fn what_was_left_unclaimed_is_claimed_as_it_was_read() {
        let status = entry("kube-controller-manager", "Update", "f:status");
        let ours = entry(keys::FIELD_MANAGER_OBJECTS, "Apply", "f:spec");
        for manager in [keys::FIELD_MANAGER_CREATION, keys::FIELD_MANAGER_OBJECTS] {
            let live = object(&[status.clone(), entry(manager, "Update", "f:spec")]);
            let expected = json!([status, ours]);
            assert_eq!(claimed_entries(&live, &live).unwrap(), expected);
            // What was written beside an apply belongs to it.
            let mut later = entry(manager, "Update", "f:data");
            later["time"] = json!("2026-01-02T00:00:00Z");
            let mut united = entry(keys::FIELD_MANAGER_OBJECTS, "Apply", "f:spec");
            united["time"] = later["time"].clone();
            united["fieldsV1"]["f:data"] = json!({});
            let both = object(&[ours.clone(), status.clone(), later]);
            let expected = json!([status, united]);
            assert_eq!(claimed_entries(&both, &both).unwrap(), expected);
        }
        let done = metadata_of(&object(&[ours, status]));
        assert_eq!(claim(&done), None);
    }
}

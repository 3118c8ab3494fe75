//! What `managedFields` have to say, so that a later apply takes fields away and drift detection sees changes: all that is
//! ours stands in one entry, that of server-side apply, and in no entry of somebody who only copied the object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, ObjectMeta};
use serde_json::{Map, Value, json};

use crate::api::keys;
use crate::revision::compare::is_own_apply;

/// The JSON patch that makes our entry in `managedFields` one of server-side apply; none when nothing is to be done.
///
/// The only entry of a new object is changed in its place, so that a status that somebody writes meanwhile does not
/// stand in the way.
pub(super) fn claim(metadata: &ObjectMeta, takes: Takes) -> Option<Value> {
    let fields = metadata.managed_fields.clone().unwrap_or_default();
    let is_new = matches!(fields.as_slice(), [only] if is_of_creation(only));
    let claimed = claimed(fields, takes)?;
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

/// Whose fields are taken, where they are ours, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// Those of who copied the object with our marks: a backup tool, or somebody who applied it as it was read.
    Copies,
    /// Those of everybody who wrote the object before we adopted it, but for controllers' statuses and scales. Who still
    /// applies it holds them again the next time.
    Everybody,
}

/// `managedFields` with all that is ours in one entry, that of server-side apply, and there alone; none when it is so already.
fn claimed(fields: Vec<ManagedFieldsEntry>, takes: Takes) -> Option<Vec<ManagedFieldsEntry>> {
    let before = fields.clone();
    let mut claimed = if fields.iter().any(is_unclaimed) {
        united(fields)
    } else {
        fields
    };
    let ours = claimed.iter().find(|entry| is_own_apply(entry));
    if let Some(ours) = ours.and_then(|ours| ours.fields_v1.clone()) {
        for entry in &mut claimed {
            let is_meant = is_copy(entry)
                || takes == Takes::Everybody && !is_of_subresource(entry) && !is_own_apply(entry);
            if is_meant && let Some(fields) = &mut entry.fields_v1 {
                take_away(&mut fields.0, &ours.0);
            }
        }
        claimed.retain(|entry| {
            let is_empty = |fields: &FieldsV1| fields.0.as_object().is_some_and(Map::is_empty);
            !entry.fields_v1.as_ref().is_some_and(is_empty)
        });
    }
    (claimed != before).then_some(claimed)
}

/// All entries of ours as one.
fn united(fields: Vec<ManagedFieldsEntry>) -> Vec<ManagedFieldsEntry> {
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
    claimed
}

/// Takes the fields of `ours` out of those of somebody else, both as `fieldsV1`.
fn take_away(theirs: &mut Value, ours: &Value) {
    let (Some(theirs), Some(ours)) = (theirs.as_object_mut(), ours.as_object()) else {
        return;
    };
    theirs.retain(|field, inner| {
        let Some(own) = ours.get(field).filter(|_| field != ".") else {
            return true;
        };
        take_away(inner, own);
        // What holds nothing any more, though it was theirs as a whole.
        let mut left = inner.as_object().into_iter().flat_map(Map::keys);
        left.any(|field| field != ".")
    });
}

/// Whether somebody else holds our mark: nobody writes it who does not copy a whole object.
pub(super) fn is_copy(entry: &ManagedFieldsEntry) -> bool {
    let mark = format!(
        "/f:metadata/f:annotations/f:{}",
        keys::REVISION.replace('/', "~1")
    );
    let fields = entry.fields_v1.as_ref();
    !is_own_apply(entry)
        && !is_unclaimed(entry)
        && !is_of_subresource(entry)
        && fields.is_some_and(|fields| fields.0.pointer(&mark).is_some())
}

fn is_of_subresource(entry: &ManagedFieldsEntry) -> bool {
    !entry.subresource.as_deref().unwrap_or_default().is_empty()
}

fn is_update(entry: &ManagedFieldsEntry) -> bool {
    entry.operation.as_deref() == Some("Update")
}

/// Whether an entry is ours, and no server-side apply: what it holds, a later apply would not give up.
pub(super) fn is_unclaimed(entry: &ManagedFieldsEntry) -> bool {
    let is_own = is_of_creation(entry) || is_own_apply(&as_own_apply(entry));
    is_own && is_update(entry)
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
        let patch =
            claim(&metadata_of(created), Takes::Copies).expect("there is something to claim");
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
        assert_eq!(claim(&done, Takes::Copies), None);
    }

    /// The fields that are left to each manager after a claim.
    fn left(fields: &Value, takes: Takes) -> Vec<(String, Value)> {
        let metadata: ObjectMeta =
            serde_json::from_value(json!({"managedFields": fields})).unwrap();
        let fields = metadata.managed_fields.unwrap();
        let claimed = claimed(fields.clone(), takes).unwrap_or(fields);
        let told = claimed
            .into_iter()
            .map(|entry| (entry.manager.unwrap(), entry.fields_v1.unwrap().0));
        told.collect()
    }

    #[test]
    fn who_copied_the_object_holds_only_what_is_not_ours() {
        let mark = format!("f:{}", keys::REVISION);
        let ours = json!({
            "f:metadata": {"f:annotations": {&mark: {}}, "f:labels": {"f:a": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"m\"}": {".": {}, "f:image": {}, "f:env": {"k:{\"name\":\"A\"}": {".": {}, "f:value": {}}}}}},
        });
        let theirs = json!({
            "f:metadata": {"f:annotations": {".": {}, &mark: {}, "f:theirs": {}}, "f:labels": {".": {}, "f:a": {}}},
            "f:spec": {"f:replicas": {}, "f:containers": {"k:{\"name\":\"m\"}": {".": {}, "f:image": {}, "f:pull": {},
                "f:env": {".": {}, "k:{\"name\":\"A\"}": {".": {}, "f:value": {}}}}}},
        });
        let own =
            json!({"manager": keys::FIELD_MANAGER_OBJECTS, "operation": "Apply", "fieldsV1": ours});
        let status = json!({"manager": "s", "operation": "Update", "subresource": "status", "fieldsV1": theirs});
        for operation in ["Update", "Apply"] {
            let copy = json!({"manager": "backup", "operation": operation, "fieldsV1": theirs});
            let left = left(&json!([own, copy, status]), Takes::Copies);
            assert_eq!(
                left[1],
                (
                    "backup".to_owned(),
                    json!({
                        "f:metadata": {"f:annotations": {".": {}, "f:theirs": {}}},
                        "f:spec": {"f:replicas": {}, "f:containers": {"k:{\"name\":\"m\"}": {".": {}, "f:pull": {}}}},
                    })
                )
            );
            assert_eq!(left[2].1, theirs);
        }
        // Who holds nothing else is not named any more.
        let copy = json!({"manager": "backup", "operation": "Update", "fieldsV1": ours});
        assert_eq!(left(&json!([own, copy]), Takes::Copies).len(), 1);
        // Without our mark it is what somebody wrote himself, unless the object was his until now.
        let written = json!({"manager": "helm", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}, "f:x": {}}});
        let applied = json!({"manager": "gitops", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}}});
        let fields = json!([own, written, applied]);
        assert_eq!(left(&fields, Takes::Copies)[1].1, written["fieldsV1"]);
        let taken = left(&fields, Takes::Everybody);
        assert_eq!(taken.len(), 2, "{taken:?}");
        assert_eq!(taken[1].1, json!({"f:x": {}}));
        // As long as nothing is ours, nothing is taken.
        assert_eq!(left(&json!([copy]), Takes::Everybody).len(), 1);
    }
}

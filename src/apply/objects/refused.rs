//! What is done with an object that the API server refuses as it is sent.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::claim::Takes;
use super::{
    Departures, Item, Kept, ObjectError, Objects, Step, failed, metadata_of, path, version_of,
};
use crate::api::keys;
use crate::identity::request::{self, RequestError};
use crate::preflight::permissions::Resource;
use crate::revision::compare::is_own_apply;
use crate::revision::rollout::Action;
use crate::revision::unknown::{is_undeclared, take_out};

impl Objects<'_> {
    /// The object without the fields that the API server does not know, and these; none when it was refused for another
    /// reason.
    pub(super) async fn without_unknown(
        &self,
        item: &Item,
        error: &ObjectError,
    ) -> Option<(Value, Vec<String>)> {
        let mut refusal = error.refusal()?.to_owned();
        if is_undeclared(&refusal) {
            refusal = self.decoded(item).await?;
        }
        let mut object = item.object.clone();
        let unknown = take_out(&mut object, &refusal);
        (!unknown.is_empty()).then_some((object, unknown))
    }

    /// Why the object would not be created, whether it is there or not: an object is read before its name is looked at.
    async fn decoded(&self, item: &Item) -> Option<String> {
        let resource = self.served(&item.key).await.ok()?; // The refusal itself is told then.
        let object = self.desired(item, &resource, None);
        let (path, manager) = (path(&resource, &item.key), keys::FIELD_MANAGER_CREATION);
        match request::try_to_create(self.client, &path, manager, &object).await {
            Err(RequestError::Refused(status)) => Some(status.message),
            Ok(_) | Err(_) => None,
        }
    }

    /// Writes what is ours over what is not valid together with it, then applies `patch`, which was refused for these
    /// `fields`: lists as a whole, which server-side apply merges with what others added; and of a structure only ours where
    /// the API server excludes the rest. It is nobody's if it was a default, as the parameters of another strategy are. None
    /// when the object changed meanwhile.
    pub(super) async fn overwrite(
        &self,
        item: &Item,
        resource: &Resource,
        patch: Patch<Value>,
        live: &Value,
        fields: &[String],
    ) -> Result<Option<Kept>, ObjectError> {
        let mut ours = item.object.clone();
        for field in fields {
            exclude(&mut ours, live, field);
        }
        // Whose it is from now on, so that an earlier revision does not take this for drift.
        let desired = self.desired(item, resource, Some(&metadata_of(live)));
        let marks = ["labels", "annotations", "ownerReferences"].into_iter();
        let marks = marks
            .filter_map(|field| Some((field, desired.pointer(&format!("/metadata/{field}"))?)));
        let marks: Value =
            (marks.map(|(field, value)| (field.to_owned(), value.clone()))).collect();
        if let Some(ours) = ours.as_object_mut() {
            ours.insert("metadata".to_owned(), marks);
        }
        let step = Step::Update;
        let Some(written) = self.merge(item, resource, step, ours, live).await? else {
            return Ok(None);
        };
        // What this left in `managedFields` would keep fields that a later apply gives up.
        let Some(_claimed) = self
            .claim_written(item, resource, written, Takes::Copies)
            .await?
        else {
            return Ok(None);
        };
        let parameters = PatchParams::apply(keys::FIELD_MANAGER_OBJECTS).force();
        let (path, name) = (path(resource, &item.key), &item.key.name);
        match request::patch(self.client, &path, name, &parameters, &patch).await {
            Ok(object) => Ok(Some(Kept::Done {
                action: Action::Updated,
                object: Box::new(object),
                departures: Departures::default(),
            })),
            Err(error) if error.is_conflict() => Ok(None),
            Err(source) => Err(failed(&item.key, step, source)),
        }
    }

    /// Takes the object from the other revisions of the extension, whom somebody else's entry in `managedFields` would keep as
    /// owners: after `kubectl apply --server-side` of the whole object, for instance. It is to be looked at again then.
    pub(super) async fn own_alone(
        &self,
        item: &Item,
        resource: &Resource,
        step: Step,
        live: &Value,
    ) -> Result<(), ObjectError> {
        let desired = self.desired(item, resource, Some(&metadata_of(live)));
        let owners = desired.pointer("/metadata/ownerReferences");
        let change = json!({"metadata": {"ownerReferences": owners}});
        if let Some(written) = self.merge(item, resource, step, change, live).await? {
            self.claim_written(item, resource, written, Takes::Copies)
                .await?;
        }
        Ok(())
    }

    /// Writes our fields over those of an object that server-side apply cannot hold: lists as a whole, what we had and want no
    /// more as null. `managedFields` says afterwards what an apply would have said; none when the object changed meanwhile.
    pub(super) async fn write_over(
        &self,
        item: &Item,
        resource: &Resource,
        (step, action): (Step, Action),
        live: &Value,
    ) -> Result<Option<Kept>, ObjectError> {
        let metadata = metadata_of(live);
        let mut ours = self.desired(item, resource, Some(&metadata));
        let mut managed = metadata.managed_fields.iter().flatten();
        let owned = managed.find(|entry| is_own_apply(entry));
        if let Some(fields) = owned.and_then(|entry| entry.fields_v1.as_ref()) {
            give_up(&fields.0, &mut ours);
        }
        let Some(written) = self.merge(item, resource, step, ours, live).await? else {
            return Ok(None);
        };
        let is_changed = version_of(&written) != version_of(live);
        let claimed = self
            .claim_written(item, resource, written, Takes::Copies)
            .await?;
        Ok(claimed.map(|object| Kept::Done {
            action: if is_changed { action } else { Action::Idle },
            object: Box::new(object),
            departures: Departures::default(),
        }))
    }

    /// Merges `change` into the object, if it is still as it was read; none otherwise.
    async fn merge(
        &self,
        item: &Item,
        resource: &Resource,
        step: Step,
        mut change: Value,
        live: &Value,
    ) -> Result<Option<Value>, ObjectError> {
        if let Some(metadata) = change.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), json!(version_of(live)));
        }
        let parameters = PatchParams {
            field_manager: Some(keys::FIELD_MANAGER_OBJECTS.to_owned()),
            ..PatchParams::default()
        };
        let (path, change) = (path(resource, &item.key), Patch::Merge(change));
        let name = &item.key.name;
        match request::patch(self.client, &path, name, &parameters, &change).await {
            Ok(written) => Ok(Some(written)),
            Err(error) if error.is_conflict() => Ok(None),
            Err(source) => Err(failed(&item.key, step, source)),
        }
    }
}

/// Sets to null what the live object has at `field`, a path as in `spec.strategy.rollingUpdate`, and we do not; where we have a
/// structure there, what it has besides ours. Paths end at lists, which are ours as a whole.
fn exclude(ours: &mut Value, live: &Value, field: &str) {
    let (mut ours, mut live) = (ours, live);
    for segment in field.split('.') {
        if segment.contains('[') {
            return;
        }
        let (Some(fields), Some(inner)) = (ours.as_object_mut(), live.get(segment)) else {
            return;
        };
        if !fields.contains_key(segment) {
            fields.insert(segment.to_owned(), Value::Null);
            return;
        }
        let Some(next) = fields.get_mut(segment) else {
            return;
        };
        (ours, live) = (next, inner);
    }
    if let (Some(ours), Some(live)) = (ours.as_object_mut(), live.as_object()) {
        for field in live.keys() {
            ours.entry(field.as_str()).or_insert(Value::Null);
        }
    }
}

/// Sets what we had (`owned`, as in `managedFields`) and want no more to null.
fn give_up(owned: &Value, ours: &mut Value) {
    let (Some(owned), Some(ours)) = (owned.as_object(), ours.as_object_mut()) else {
        return;
    };
    for (field, inner) in owned {
        let Some(name) = field.strip_prefix("f:") else {
            continue;
        };
        match ours.get_mut(name) {
            Some(value) => give_up(inner, value),
            None => _ = ours.insert(name.to_owned(), Value::Null),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_excludes_ours_goes() {
        for (ours, live, field, expected) in [
            (
                json!({"spec": {"strategy": {"type": "Recreate"}}}),
                json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}, "paused": true}}),
                "spec.strategy.rollingUpdate",
                json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}}),
            ),
            (
                json!({"spec": {"minAvailable": 1}}),
                json!({"spec": {"minAvailable": 1, "maxUnavailable": 1}, "status": {}}),
                "spec",
                json!({"spec": {"minAvailable": 1, "maxUnavailable": null}}),
            ),
            (
                json!({"spec": {"ports": [{"port": 80}]}}),
                json!({"spec": {"ports": [{"port": 80}, {"port": 81}], "type": "x"}}),
                "spec.ports[1].name",
                json!({"spec": {"ports": [{"port": 80}]}}),
            ),
            (
                json!({"spec": {"a": 1}}),
                json!({"spec": {"b": 1}}),
                "spec.a.b",
                json!({"spec": {"a": 1}}),
            ),
        ] {
            let mut changed = ours;
            exclude(&mut changed, &live, field);
            assert_eq!(changed, expected, "{field}");
        }
    }

    #[test]
    fn what_we_had_and_want_no_more_becomes_null() {
        let owned = json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}, "f:b": {}}},
            "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"m\"}": {".": {}, "f:image": {}}}}}},
            "f:data": {"f:x": {}},
        });
        let mut ours = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"template": {"spec": {"containers": []}}}});
        give_up(&owned, &mut ours);
        assert_eq!(
            ours,
            json!({"metadata": {"labels": {"a": "1", "b": null}}, "data": null,
                "spec": {"replicas": null, "template": {"spec": {"containers": []}}}})
        );
    }
}

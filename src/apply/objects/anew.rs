//! An object that cannot become what it should be, and is deleted and made anew.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use serde_json::{Map, Value, json};

use super::{ATTEMPTS, Item, Kept, ObjectError, Objects, Step, failed, metadata_of, path};
use crate::api::keys;
use crate::api::object::Gvk;
use crate::identity::request::{self, Deletion};
use crate::preflight::permissions::Resource;
use crate::revision::collision::{Claim, controller_of};
use crate::revision::compare::is_own_apply;
use crate::revision::rollout::Action;

impl Objects<'_> {
    /// Deletes an object that cannot become what it should be, and makes it anew at once, before another revision
    /// misses it; none when that has to wait. What others wrote in its metadata stays.
    pub(super) async fn replace(
        &self,
        item: &Item,
        resource: &Resource,
        live: &Value,
    ) -> Result<Option<Kept>, ObjectError> {
        let metadata = metadata_of(live);
        if metadata.deletion_timestamp.is_some() {
            return Err(ObjectError::Held {
                key: Box::new(item.key.clone()),
                finalizers: metadata.finalizers.unwrap_or_default(),
            });
        }
        self.try_to_create(item, resource).await?;
        let mut current = live.clone();
        for _ in 0..ATTEMPTS {
            let deletion = self.delete(&item.key, &current).await?;
            if deletion == Deletion::Gone
                && let Some(Kept::Done {
                    object, departures, ..
                }) = self.create(item).await?
            {
                let carried = [live, &current].into_iter();
                let carried = carried.filter_map(|one| carried_over(one, &object));
                let carried = carried.reduce(|mut all, more| {
                    json_patch::merge(&mut all, &more);
                    all
                });
                let object = match carried {
                    None => object,
                    Some(metadata) => Box::new(self.carry_over(item, resource, metadata).await?),
                };
                return Ok(Some(Kept::Done {
                    action: Action::Replaced,
                    object,
                    departures,
                }));
            }
            // It changed meanwhile, or an earlier revision put it back before we made it.
            match self.read(&item.key).await? {
                Some(again)
                    if metadata_of(&again).deletion_timestamp.is_none()
                        && self.may_replace(item, &again) =>
                {
                    current = again;
                }
                Some(_) | None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Whether an object that cannot become what it should be may be deleted and made anew: it is of this revision or of
    /// another active one of the extension, and nothing of anybody is lost.
    pub(super) fn may_replace(&self, item: &Item, live: &Value) -> bool {
        is_family(self.claim, &metadata_of(live))
            && is_replaceable(&item.key.gvk, &item.object, live)
    }

    /// Asks whether the object would be created if it were not there: an upgrade that is refused must not cost what is
    /// installed. Admission comes before the look at the name.
    async fn try_to_create(&self, item: &Item, resource: &Resource) -> Result<(), ObjectError> {
        let object = self.desired(item, resource, None);
        let (path, manager) = (path(resource, &item.key), keys::FIELD_MANAGER_CREATION);
        match request::try_to_create(self.client, &path, manager, &object).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_already_exists() || error.is_without_dry_run() => Ok(()),
            Err(source) => Err(failed(&item.key, Step::Renew, source)),
        }
    }

    async fn carry_over(
        &self,
        item: &Item,
        resource: &Resource,
        metadata: Value,
    ) -> Result<Value, ObjectError> {
        let parameters = PatchParams {
            field_manager: Some(keys::FIELD_MANAGER_CARRIED_OVER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let (path, name) = (path(resource, &item.key), &item.key.name);
        let patched = request::patch(self.client, &path, name, &parameters, &patch).await;
        patched.map_err(|source| failed(&item.key, Step::Update, source))
    }
}

/// Whether an object is controlled by this revision or another active one of the extension: nobody else's is replaced.
fn is_family(claim: &Claim, metadata: &ObjectMeta) -> bool {
    controller_of(metadata).is_some_and(|owner| {
        owner.uid == claim.uid || claim.siblings.iter().any(|one| one.uid == owner.uid)
    })
}

/// Whether an object cannot become what it should be, and is nothing but what is written in it: made anew, it is the same
/// and nothing stops.
fn is_replaceable(gvk: &Gvk, wanted: &Value, live: &Value) -> bool {
    let differs = |pointer: &str| wanted.pointer(pointer) != live.pointer(pointer);
    let is_frozen = || {
        live.get("immutable") == Some(&Value::Bool(true))
            && ["/data", "/binaryData", "/immutable"]
                .into_iter()
                .any(differs)
    };
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            differs("/roleRef/kind") || differs("/roleRef/name")
        }
        ("", "ConfigMap") => is_frozen() && !holds_anothers_keys(wanted, live),
        ("", "Secret") => {
            let is_other = wanted.get("type").is_some() && differs("/type");
            (is_frozen() || is_other) && !holds_anothers_keys(wanted, live)
        }
        _ => false,
    }
}

/// Whether there is data that neither we wrote nor want: it would be lost.
fn holds_anothers_keys(wanted: &Value, live: &Value) -> bool {
    ["data", "binaryData"].into_iter().any(|part| {
        let data = wanted.get(part);
        let is_wanted = |key: &str| data.is_some_and(|data| data.get(key).is_some());
        others(live, &[part]).any(|(key, _)| !is_wanted(key))
    })
}

/// The labels and annotations of `live` that others wrote, as far as `made` does not have them; none when there are none.
fn carried_over(live: &Value, made: &Value) -> Option<Value> {
    let mut carried = Map::new();
    for field in ["labels", "annotations"] {
        let has = made.pointer(&format!("/metadata/{field}"));
        let is_there = |key: &str| has.is_some_and(|has| has.get(key).is_some());
        let others: Map<String, Value> = others(live, &["metadata", field])
            .filter(|(key, _)| !is_there(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if !others.is_empty() {
            carried.insert(field.to_owned(), Value::Object(others));
        }
    }
    (!carried.is_empty()).then_some(Value::Object(carried))
}

/// What stands at `path` of an object, and we did not write.
fn others<'a>(
    live: &'a Value,
    path: &[&str],
) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    let metadata = metadata_of(live);
    let entries = metadata.managed_fields.into_iter().flatten();
    let ours: Vec<Value> = entries
        .filter(is_own_apply)
        .filter_map(|entry| Some(entry.fields_v1?.0))
        .collect();
    let pointer = |prefix: &str| -> String {
        let segments = path.iter().map(|segment| format!("/{prefix}{segment}"));
        segments.collect()
    };
    let (owned, at) = (pointer("f:"), pointer(""));
    let fields = live.pointer(&at).and_then(Value::as_object);
    fields.into_iter().flatten().filter(move |(key, _)| {
        let field = format!("f:{key}");
        let mut ours = ours.iter().filter_map(|fields| fields.pointer(&owned));
        !ours.any(|fields| fields.get(&field).is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_holds_more_than_ours_is_not_made_anew() {
        let gvk = Gvk::new("v1", "Secret");
        let wanted = json!({"type": "b", "data": {"new": "eA=="}});
        let live = |data: Value| {
            let fields = json!({"f:type": {}, "f:data": {"f:old": {}}});
            let entry = json!({"manager": keys::FIELD_MANAGER_OBJECTS, "operation": "Apply",
                "fieldsType": "FieldsV1", "fieldsV1": fields});
            json!({"type": "a", "data": data, "metadata": {"managedFields": [entry]}})
        };
        for (data, expected) in [
            (json!({"old": "eA=="}), true),
            (json!({"old": "eA==", "new": "eQ=="}), true),
            (json!({"old": "eA==", "users": "eA=="}), false),
            (Value::Null, true),
        ] {
            assert_eq!(
                is_replaceable(&gvk, &wanted, &live(data.clone())),
                expected,
                "{data}"
            );
        }
    }
}

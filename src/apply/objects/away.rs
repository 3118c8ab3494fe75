//! An object that is taken back, or let go.

use std::collections::BTreeMap;

use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use serde_json::{Value, json};

use super::{ObjectError, Objects, Step, failed, metadata_of, path, revision_stays};
use crate::api::keys;
use crate::api::object::ObjectKey;
use crate::identity::request::{self, Deletion, Page};
use crate::revision::collision::{Sibling, controller_of};
use crate::revision::marks::given_to;

/// Whether a CRD has resources that are not its revision's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Usage {
    /// It has none.
    Unused,
    /// It has some.
    Used,
    /// It has some, and this one of them leaves already: what it still waits for.
    Leaving(String),
    /// It has resources, whosever, and no webhook that converts them.
    Unreadable,
    /// The account may not look.
    Unknown,
}

/// As many resources of a CRD are looked at, metadata only, to see whether any are being deleted.
const LOOKED_AT: usize = 500;

/// Of so many of their namespaces it is asked whether they are being deleted.
const NAMESPACES: usize = 50;

/// The resource that is being deleted and waits for its finalizers, if one is: with its name and theirs.
fn leaving(items: &[Value]) -> Option<String> {
    let mut items = items.iter().map(metadata_of);
    let item = items.find(|it| it.deletion_timestamp.is_some())?;
    let names = [item.namespace, item.name].into_iter().flatten();
    let name = names.collect::<Vec<_>>().join("/");
    let finalizers = item.finalizers.unwrap_or_default().join(", ");
    Some(format!("{name} waits for {finalizers}"))
}

impl Objects<'_> {
    /// Deletes an object as it was read; that it changed meanwhile is left to the next pass.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn delete(&self, key: &ObjectKey, live: &Value) -> Result<Deletion, ObjectError> {
        let resource = self.served(key).await?;
        let metadata = metadata_of(live);
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: metadata.uid,
                resource_version: metadata.resource_version,
            }),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match request::delete(self.client, &path(&resource, key), &key.name, &parameters).await {
            Ok(deletion) => Ok(deletion),
            Err(error) if error.is_conflict() => Ok(Deletion::Waiting),
            Err(source) => Err(failed(key, Step::Delete, source)),
        }
    }

    /// Takes this revision out of the owners of an object.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn disown(&self, key: &ObjectKey, live: &Value) -> Result<(), ObjectError> {
        let metadata = metadata_of(live);
        let owners: Vec<_> = metadata
            .owner_references
            .into_iter()
            .flatten()
            .filter(|owner| owner.uid != self.claim.uid)
            .collect();
        let version = metadata.resource_version;
        let patch = json!({"resourceVersion": version, "ownerReferences": owners});
        self.patch_metadata(key, patch).await.map(|_| ())
    }

    /// Gives an object to another revision of the extension, which wants it. Where that goes itself, or something changed
    /// meanwhile, nothing is done, and the answer is `false`: the next pass sees more.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn give(
        &self,
        key: &ObjectKey,
        live: &Value,
        heir: &Sibling,
    ) -> Result<bool, ObjectError> {
        let stays = revision_stays(self.own, &heir.name, &heir.uid).await;
        if !stays.map_err(|source| failed(key, Step::Confirm, source))? {
            return Ok(false);
        }
        let metadata = metadata_of(live);
        let given = given_to(heir, self.claim, &key.gvk, &metadata);
        self.patch_metadata(key, given).await
    }

    /// Writes metadata as it was computed from what was read; `false`: it changed meanwhile, or is gone.
    async fn patch_metadata(&self, key: &ObjectKey, metadata: Value) -> Result<bool, ObjectError> {
        let parameters = PatchParams {
            field_manager: Some(keys::FIELD_MANAGER_OBJECTS.to_owned()),
            ..PatchParams::default()
        };
        let path = path(&self.served(key).await?, key);
        let patch = Patch::Merge(json!({"metadata": metadata}));
        match request::patch(self.client, &path, &key.name, &parameters, &patch).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_conflict() || error.is_not_found() => Ok(false),
            Err(error) => Err(failed(key, Step::Disown, error)),
        }
    }

    /// Lets a CRD convert its resources by their version alone. A conflict is left to the next pass.
    ///
    /// # Errors
    /// When the API server did not do it.
    pub async fn drop_conversion(&self, crd: &ObjectKey, live: &Value) -> Result<(), ObjectError> {
        let resource = self.served(crd).await?;
        let version = metadata_of(live).resource_version;
        let patch = json!({
            "metadata": {"resourceVersion": version},
            "spec": {"conversion": {"strategy": "None", "webhook": null}},
        });
        let parameters = PatchParams {
            field_manager: Some(keys::FIELD_MANAGER_OBJECTS.to_owned()),
            ..PatchParams::default()
        };
        let path = path(&resource, crd);
        let patch = Patch::Merge(patch);
        match request::patch(self.client, &path, &crd.name, &parameters, &patch).await {
            Err(error) if !error.is_conflict() && !error.is_not_found() => {
                Err(failed(crd, Step::Update, error))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Whether there are objects of the kind that a CRD defines, beside those of this revision, of which it has at most
    /// `own`. Whether some are leaving, with their namespace perhaps, is found out if it is `asked`.
    ///
    /// # Errors
    /// When the API server did not say.
    pub async fn usage(
        &self,
        crd: &ObjectKey,
        live: &Value,
        own: usize,
        asked: bool,
    ) -> Result<Usage, ObjectError> {
        let text = |pointer| live.pointer(pointer).and_then(Value::as_str);
        let versions = live.pointer("/spec/versions").and_then(Value::as_array);
        let mut served = versions.into_iter().flatten().filter(|version| {
            version
                .get("served")
                .and_then(Value::as_bool)
                .unwrap_or(true)
        });
        // The version in which resources are stored needs no conversion, and so no webhook that may be gone.
        let is_storage = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
        let served = served.clone().find(is_storage).or_else(|| served.next());
        let version = served.and_then(|version| version.get("name")?.as_str());
        let (Some(group), Some(plural), Some(version)) =
            (text("/spec/group"), text("/spec/names/plural"), version)
        else {
            return Ok(Usage::Unknown);
        };
        let path = request::path(group, version, None, plural);
        let limit = u32::try_from(own.saturating_add(1).max(LOOKED_AT)).unwrap_or(u32::MAX);
        match request::metadata_page(self.client, &path, limit).await {
            Ok(Page {
                mut items, next, ..
            }) => {
                items.retain(|item| {
                    controller_of(&metadata_of(item)).is_none_or(|it| it.uid != self.claim.uid)
                });
                // Of more than were looked at, some are not known to be ours.
                let is_used = next.is_some() || !items.is_empty();
                let mut leaves = leaving(&items).filter(|_| asked);
                if asked && leaves.is_none() {
                    leaves = self.leaving_with_namespace(crd, &items).await?;
                }
                Ok(match leaves {
                    Some(leaving) => Usage::Leaving(leaving),
                    None if is_used => Usage::Used,
                    None => Usage::Unused,
                })
            }
            Err(error) if error.is_lacking() => Ok(Usage::Unknown),
            // Not served (any more): nothing can be there that anybody could see.
            Err(error) if error.is_not_found() => Ok(Usage::Unused),
            // Only what is stored is converted.
            Err(error) if error.is_failed_conversion() => Ok(Usage::Unreadable),
            Err(source) => Err(failed(crd, Step::Count, source)),
        }
    }

    /// The first resource whose namespace is being deleted, so that it soon will be, too, if there is one.
    async fn leaving_with_namespace(
        &self,
        crd: &ObjectKey,
        items: &[Value],
    ) -> Result<Option<String>, ObjectError> {
        let items = items.iter().map(metadata_of);
        let places: BTreeMap<String, String> = items
            .filter_map(|item| Some((item.namespace?, item.name?)))
            .collect();
        for (namespace, name) in places.into_iter().take(NAMESPACES) {
            let url = request::path("", "v1", None, "namespaces");
            let found = match request::get(self.own, &url, &namespace).await {
                Err(error) if error.is_lacking() => return Ok(None),
                found => found.map_err(|source| failed(crd, Step::Count, source))?,
            };
            if found.is_some_and(|found| metadata_of(&found).deletion_timestamp.is_some()) {
                return Ok(Some(format!("{namespace}/{name} goes with its namespace")));
            }
        }
        Ok(None)
    }
}

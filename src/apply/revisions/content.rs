//! The Secrets that hold the content of our own revisions: made before the revision, owned by it, dropped when nobody
//! needs them.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::Value;
use tokio::sync::oneshot;

use super::{RevisionError, Revisions};
use crate::api::cluster_object_set::LifecycleState;
use crate::api::{GROUP, OBJECT_SETS, VERSION, keys};
use crate::apply::objects::metadata_of;
use crate::apply::secrets;
use crate::apply::secrets::handover::Given;
use crate::identity::request::{self, RequestError, path};
use crate::revision::Revision;
use crate::revision::marks::owned_by;
use crate::revision::name::label_value;
use crate::revision::pack::Packed;
use crate::revision::plan::Desired;

/// How often a Secret is made anew in one pass.
const PLACED: usize = 3;

/// Whether an object of a `ClusterObjectSet` stands in this Secret.
fn refers_to(set: &Value, secret: &str) -> bool {
    let mut objects = list(set, "/spec/phases").flat_map(|phase| list(phase, "/objects"));
    objects.any(|object| object.pointer("/ref/name").and_then(Value::as_str) == Some(secret))
}

fn list<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    let list = value.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten()
}

impl Revisions<'_> {
    /// Creates the Secrets of revision `name`, without owner; returns the names of those that were not there.
    ///
    /// One that is there already is what it should be: its name holds a hash of its data. But if its owner is gone, a
    /// revision of the same name and content has just been taken down: the garbage collector is about to delete it, so
    /// it is made anew.
    pub(super) async fn place(
        &self,
        name: &str,
        wanted: &[Secret],
    ) -> Result<Vec<String>, RevisionError> {
        let mut made = Vec::new();
        for secret in wanted {
            if self.place_one(name, secret).await? {
                made.extend(secret.metadata.name.clone());
            }
        }
        Ok(made)
    }

    /// Makes the Secrets of the newest revision again, whose content is as desired: as after a restore without them. Of those
    /// only that it refers to: another version of oxolm may have packed it.
    pub(super) async fn put_back(
        &self,
        newest: &Revision,
        desired: &Desired,
    ) -> Result<(), RevisionError> {
        let failed = |source| RevisionError::PutBack {
            name: newest.name.clone(),
            source,
        };
        let url = path(GROUP, VERSION, None, OBJECT_SETS);
        let live = request::get(self.client, &url, &newest.name).await;
        // One that is on its way out gets nothing that nobody would take away again.
        let Some(live) = live.map_err(failed)?.filter(|live| {
            let metadata = metadata_of(live);
            metadata.uid.as_deref() == Some(&newest.uid) && metadata.deletion_timestamp.is_none()
        }) else {
            return Ok(());
        };
        let mut secrets = self.packed(&newest.name, desired)?.secrets;
        secrets.retain(|secret| refers_to(&live, &secret.name_any()));
        for secret in &mut secrets {
            let owner = owned_by(&newest.name, &newest.uid);
            secret.metadata.owner_references = Some(vec![owner]);
        }
        match self.place(&newest.name, &secrets).await {
            Err(RevisionError::Create { source, .. }) => Err(failed(source)),
            placed => placed.map(|_made| ()),
        }
    }

    /// Whether it was made; else it was there, and is what its name says unless somebody else made it.
    async fn place_one(&self, name: &str, wanted: &Secret) -> Result<bool, RevisionError> {
        let failed = |source| RevisionError::Create {
            name: name.to_owned(),
            source,
        };
        for _ in 0..PLACED {
            let created = secrets::create(self.client, wanted).await;
            let Some(found) = created.map_err(failed)? else {
                return Ok(true);
            };
            let metadata = metadata_of(&found);
            let owners = metadata.owner_references.unwrap_or_default();
            if metadata.deletion_timestamp.is_none()
                && (owners.is_empty() || self.is_among(name, &owners).await.map_err(failed)?)
            {
                return Ok(false);
            }
            secrets::remove(self.client, &found).await.map_err(failed)?;
        }
        Err(RevisionError::Leaving {
            name: name.to_owned(),
            secret: wanted.metadata.name.clone().unwrap_or_default(),
        })
    }

    /// Whether the revision `name`, as the API server knows it, is one of these.
    async fn is_among(&self, name: &str, owners: &[OwnerReference]) -> Result<bool, RequestError> {
        let url = path(GROUP, VERSION, None, OBJECT_SETS);
        let found = request::get(self.client, &url, name).await?;
        let uid = found.and_then(|found| metadata_of(&found).uid);
        Ok(uid.is_some_and(|uid| owners.iter().any(|owner| owner.uid == uid)))
    }

    /// Gives the Secrets their owner, hands them over, and removes those that an interrupted attempt with other content
    /// left.
    pub(super) async fn finish(
        &self,
        name: &str,
        packed: Packed,
        owner: &OwnerReference,
        giving: Option<oneshot::Sender<Given>>,
    ) -> Result<(), RevisionError> {
        let names: Vec<String> = packed
            .secrets
            .iter()
            .filter_map(|secret| secret.metadata.name.clone())
            .collect();
        secrets::own(self.client, self.system_namespace, &names, owner)
            .await
            .map_err(|source| RevisionError::Create {
                name: name.to_owned(),
                source,
            })?;
        if let Some(giving) = giving {
            let mut secrets = packed.secrets;
            for secret in &mut secrets {
                secret.metadata.owner_references = Some(vec![owner.clone()]);
            }
            let uid = owner.uid.clone();
            // Who would take them may have given up: then they are read.
            _ = giving.send(Given { uid, secrets });
        }
        self.drop_secrets(name, &names).await
    }

    /// Deletes the Secrets that were `made` for a revision whose name turned out to be somebody else's, but for those that
    /// this one refers to: whoever restores a backup may have found them there already.
    pub(super) async fn take_away(
        &self,
        name: &str,
        made: &[String],
        taken_by: &Value,
    ) -> Result<(), RevisionError> {
        let url = path("", "v1", Some(self.system_namespace), "secrets");
        for secret in made.iter().filter(|secret| !refers_to(taken_by, secret)) {
            request::delete(self.client, &url, secret, &DeleteParams::default())
                .await
                .map_err(|source| RevisionError::Create {
                    name: name.to_owned(),
                    source,
                })?;
        }
        Ok(())
    }

    /// Deletes the Secrets of the extension that have no owner to go with: of revisions that are gone, or that were
    /// restored when they were archived already. What is to be taken down needs its Secrets.
    pub(super) async fn drop_leftovers(&self, existing: &[Revision]) -> Result<(), RevisionError> {
        let mut labels = existing.iter().map(|revision| &revision.labels);
        let Some(owner) = labels.find_map(|labels| labels.get(keys::OWNER_NAME)) else {
            return Ok(());
        };
        let needed: Vec<String> = existing
            .iter()
            .filter(|revision| revision.state == LifecycleState::Active)
            .map(|revision| label_value(&revision.name))
            .collect();
        let failed = |source| RevisionError::DropSecrets {
            name: owner.clone(),
            source,
        };
        let url = path("", "v1", Some(self.system_namespace), "secrets");
        let selector = format!("{}={owner}", keys::OWNER_NAME);
        let found = request::select(self.client, &url, &selector).await;
        for secret in &found.map_err(failed)? {
            let metadata = metadata_of(secret);
            let is_needed = metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(keys::REVISION_NAME))
                .is_none_or(|name| needed.contains(name));
            if is_needed || !metadata.owner_references.unwrap_or_default().is_empty() {
                continue;
            }
            let name = metadata.name.unwrap_or_default();
            request::delete(self.client, &url, &name, &DeleteParams::default())
                .await
                .map_err(failed)?;
        }
        Ok(())
    }

    /// Deletes the Secrets of revision `name` but those in `wanted` and those that have an owner.
    pub(super) async fn drop_secrets(
        &self,
        name: &str,
        wanted: &[String],
    ) -> Result<(), RevisionError> {
        let failed = |source| RevisionError::Create {
            name: name.to_owned(),
            source,
        };
        let url = path("", "v1", Some(self.system_namespace), "secrets");
        let selector = format!("{}={}", keys::REVISION_NAME, label_value(name));
        let found = request::select(self.client, &url, &selector)
            .await
            .map_err(failed)?;
        for secret in &found {
            let metadata = metadata_of(secret);
            let is_owned = metadata
                .owner_references
                .is_some_and(|owners| !owners.is_empty());
            let secret_name = metadata.name.unwrap_or_default();
            if !is_owned && !wanted.contains(&secret_name) {
                request::delete(self.client, &url, &secret_name, &DeleteParams::default())
                    .await
                    .map_err(failed)?;
            }
        }
        Ok(())
    }
}

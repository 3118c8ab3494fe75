//! The Secrets that hold the objects of revisions: written for our own, read for all.
//!
//! A reference into the system namespace is followed with the controller's own rights, so it must be one of the
//! revision's own Secrets: right type, and labelled with its name. Anywhere else it is followed as the account. No
//! error quotes what a Secret holds.

#![expect(clippy::disallowed_types, reason = "reads and writes Secrets")]

mod error;
pub mod handover;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::api::cluster_object_set::{ObjectReference, ObservedPhase, PhaseObject};
use crate::api::object::ObjectKey;
use crate::api::{ClusterObjectSet, keys};
use crate::apply::content::{Content, ContentPhase};
use crate::apply::objects::{Item, metadata_of};
use crate::identity::request::{self, RequestError, path};
use crate::render::Provider;
use crate::revision::explicit::explicit;
use crate::revision::name::label_value;
use crate::revision::pack::{phase_digest, unpack};
use crate::revision::phase::ObjectMarks;

pub use error::ContentError;

/// The objects of a revision and the digests of its phases.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The objects.
    pub content: Content,
    /// A digest per phase.
    pub digests: Vec<ObservedPhase>,
    /// The revision's own Secrets that do not name it as their owner yet.
    pub unowned: Vec<String>,
}

/// Who reads what.
pub struct Reader<'a> {
    /// Reads the system namespace.
    pub own: &'a Client,
    /// Reads everything else.
    pub account: &'a Client,
    /// The namespace that oxolm runs in.
    pub system_namespace: &'a str,
    /// Of the system namespace, what need not be read: this process has written it just now.
    pub given: Vec<Secret>,
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

type Secrets = BTreeMap<(String, String), Option<Secret>>;

impl Reader<'_> {
    /// Reads all objects of `set` and compares them with what they were when they were first read.
    ///
    /// # Errors
    /// When a Secret cannot be read or must not be, or its content changed.
    pub async fn resolve(&self, set: &ClusterObjectSet) -> Result<Resolved, ContentError> {
        let secrets = self.secrets(set).await?;
        let mutable: BTreeSet<String> = secrets
            .iter()
            .filter(|(_, secret)| {
                secret
                    .as_ref()
                    .is_some_and(|secret| secret.immutable != Some(true))
            })
            .map(|((namespace, name), _)| format!("{namespace}/{name}"))
            .collect();
        if !mutable.is_empty() {
            return Err(ContentError::Mutable(mutable.into_iter().collect()));
        }
        let marks = ObjectMarks::of_revision(&set.metadata);
        let mut content = Content::default();
        let mut digests = Vec::new();
        for phase in &set.spec.phases {
            let (mut items, mut objects) = (Vec::new(), Vec::new());
            for (index, object) in phase.objects.iter().enumerate() {
                let value = self.object(set, &phase.name, index, object, &secrets)?;
                let key = ObjectKey::of(&value).map_err(|source| ContentError::Unidentified {
                    phase: phase.name.clone(),
                    index,
                    source,
                })?;
                objects.push(value.clone());
                let value = explicit(&key.gvk, value);
                items.push(Item {
                    key,
                    object: match &object.reference {
                        Some(reference) if self.place(reference).0 == self.system_namespace => {
                            marks.added_to(value)
                        }
                        Some(_) | None => value,
                    },
                    protection: object
                        .collision_protection
                        .or(phase.collision_protection)
                        .unwrap_or(set.spec.collision_protection),
                });
            }
            digests.push(ObservedPhase {
                name: phase.name.clone(),
                digest: phase_digest(&phase.name, &objects).to_string(),
            });
            content.phases.push(ContentPhase {
                name: phase.name.clone(),
                items,
            });
        }
        let observed = set.status.as_ref().map(|status| &status.observed_phases);
        if let Some(change) = observed.and_then(|observed| change(observed, &digests)) {
            return Err(ContentError::Changed(change));
        }
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        let is_owned = |secret: &Secret| {
            let owners = secret.metadata.owner_references.iter().flatten();
            owners.into_iter().any(|owner| owner.uid == uid)
        };
        let unowned = secrets
            .into_iter()
            .filter(|((namespace, _), _)| namespace == self.system_namespace)
            .filter_map(|((_, name), secret)| (!is_owned(&secret?)).then_some(name))
            .collect();
        let provider = set.annotations().get(keys::WEBHOOK_CERTIFICATES);
        let provider = provider.and_then(|word| Provider::parse(word));
        Ok(Resolved {
            content: match provider {
                Some(Provider::SelfSigned) => content.with_certificates(),
                Some(Provider::CertManager | Provider::ServiceCa | Provider::None) | None => {
                    content
                }
            },
            digests,
            unowned,
        })
    }

    /// Every Secret that `set` refers to, read once.
    async fn secrets(&self, set: &ClusterObjectSet) -> Result<Secrets, ContentError> {
        let given = self.given.iter().map(|secret| {
            let place = (self.system_namespace.to_owned(), secret.name_any());
            (place, Some(secret.clone()))
        });
        let mut secrets: Secrets = given.collect();
        for phase in &set.spec.phases {
            for reference in phase
                .objects
                .iter()
                .filter_map(|object| object.reference.as_ref())
            {
                let place = self.place(reference);
                if secrets.contains_key(&place) {
                    continue;
                }
                let client = if place.0 == self.system_namespace {
                    self.own
                } else {
                    self.account
                };
                let url = path("", "v1", Some(&place.0), "secrets");
                let read = request::get(client, &url, &place.1).await;
                let found = read.map_err(|source| ContentError::Read {
                    phase: phase.name.clone(),
                    secret: format!("{}/{}", place.0, place.1),
                    source,
                })?;
                // What the API server gives out as a Secret is one.
                secrets.insert(
                    place,
                    found.and_then(|value| serde_json::from_value(value).ok()),
                );
            }
        }
        Ok(secrets)
    }

    fn place(&self, reference: &ObjectReference) -> (String, String) {
        let namespace = reference
            .namespace
            .as_deref()
            .filter(|namespace| !namespace.is_empty());
        (
            namespace.unwrap_or(self.system_namespace).to_owned(),
            reference.name.clone(),
        )
    }

    fn object(
        &self,
        set: &ClusterObjectSet,
        phase: &str,
        index: usize,
        object: &PhaseObject,
        secrets: &Secrets,
    ) -> Result<Value, ContentError> {
        let phase = phase.to_owned();
        match (&object.object, &object.reference) {
            (Some(object), None) => Ok(Value::Object(object.clone())),
            (None, Some(reference)) => {
                let place = self.place(reference);
                let name = format!("{}/{}", place.0, place.1);
                let Some(secret) = secrets.get(&place).and_then(Option::as_ref) else {
                    return Err(ContentError::NotFound {
                        phase,
                        secret: name,
                    });
                };
                if place.0 == self.system_namespace && !is_of(secret, set) {
                    return Err(ContentError::Foreign {
                        phase,
                        secret: name,
                    });
                }
                let Some(data) = secret
                    .data
                    .as_ref()
                    .and_then(|data| data.get(&reference.key))
                else {
                    return Err(ContentError::NoKey {
                        phase,
                        secret: name,
                        key: reference.key.clone(),
                    });
                };
                unpack(&data.0, &name, &reference.key)
                    .map_err(|source| ContentError::Unpack { phase, source })
            }
            (None, None) | (Some(_), Some(_)) => Err(ContentError::Empty { phase, index }),
        }
    }
}

/// Whether a Secret of the system namespace belongs to `set`.
fn is_of(secret: &Secret, set: &ClusterObjectSet) -> bool {
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let labels = secret.metadata.labels.as_ref();
    secret.type_.as_deref() == Some(keys::OBJECT_DATA_SECRET_TYPE)
        && labels.and_then(|labels| labels.get(keys::REVISION_NAME)) == Some(&label_value(name))
}

/// What differs between the digests that were observed first and those of now.
fn change(observed: &[ObservedPhase], now: &[ObservedPhase]) -> Option<String> {
    if observed.is_empty() {
        return None;
    }
    if observed.len() != now.len() {
        return Some(format!(
            "number of phases has changed (expected {} phases, got {})",
            observed.len(),
            now.len()
        ));
    }
    let changed: Vec<String> = now
        .iter()
        .filter_map(|phase| {
            let before = observed.iter().find(|before| before.name == phase.name);
            let expected = before.map_or("none", |before| before.digest.as_str());
            (expected != phase.digest).then(|| {
                format!(
                    "phase {:?} (expected digest {expected}, got {})",
                    phase.name, phase.digest
                )
            })
        })
        .collect();
    (!changed.is_empty()).then(|| {
        format!(
            "resolved content of {} phase(s) has changed: {}; a referenced object source may have been deleted and recreated with different content",
            changed.len(),
            changed.join("; ")
        )
    })
}

/// Creates a Secret without owner; the one that is there instead, if there is one of that name.
///
/// # Errors
/// When the API server refuses, or the one that was there is gone again.
pub async fn create(client: &Client, secret: &Secret) -> Result<Option<Value>, RequestError> {
    let url = path("", "v1", secret.metadata.namespace.as_deref(), "secrets");
    match request::create(client, &url, keys::FIELD_MANAGER_REVISIONS, secret).await {
        Ok(_) => Ok(None),
        Err(error) if error.is_already_exists() => {
            let name = secret.metadata.name.as_deref().unwrap_or_default();
            let found = request::get(client, &url, name).await?;
            found.map(Some).ok_or(error)
        }
        Err(error) => Err(error),
    }
}

/// Deletes this very Secret.
///
/// # Errors
/// When the API server refuses.
pub async fn remove(client: &Client, secret: &Value) -> Result<(), RequestError> {
    let metadata = metadata_of(secret);
    let url = path("", "v1", metadata.namespace.as_deref(), "secrets");
    let parameters = DeleteParams {
        preconditions: Some(Preconditions {
            uid: metadata.uid,
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let name = metadata.name.unwrap_or_default();
    match request::delete(client, &url, &name, &parameters).await {
        // A conflict: another one has that name now.
        Err(error) if !error.is_conflict() && !error.is_not_found() => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Makes `owner` the controller of Secrets, so that they go when it goes.
///
/// # Errors
/// When the API server refuses one.
pub async fn own(
    client: &Client,
    namespace: &str,
    names: &[String],
    owner: &OwnerReference,
) -> Result<(), RequestError> {
    let patch = Patch::Merge(json!({"metadata": {
        "ownerReferences": [owner], "managedFields": request::no_record(),
    }}));
    let parameters = PatchParams {
        field_manager: Some(keys::FIELD_MANAGER_REVISIONS.to_owned()),
        ..PatchParams::default()
    };
    let url = path("", "v1", Some(namespace), "secrets");
    for name in names {
        request::patch(client, &url, name, &parameters, &patch).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

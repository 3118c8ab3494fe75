//! The Secrets that hold the objects of revisions: written for our own, read for all.
//!
//! A reference into the system namespace is followed with the controller's own rights, so it must be one of the
//! revision's own Secrets: right type, and labelled with its name. Anywhere else it is followed as the account. No
//! error quotes what a Secret holds.

#![expect(clippy::disallowed_types, reason = "reads and writes Secrets")]

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::api::cluster_object_set::{ObjectReference, ObservedPhase, PhaseObject};
use crate::api::object::{InvalidObject, ObjectKey};
use crate::api::{ClusterObjectSet, keys};
use crate::apply::objects::{Item, metadata_of};
use crate::apply::phases::{Content, ContentPhase};
use crate::error::{Classify, Disposition, Reason};
use crate::identity::request::{self, RequestError, path};
use crate::render::Provider;
use crate::revision::name::label_value;
use crate::revision::pack::{UnpackError, phase_digest, unpack};
use crate::revision::phase::ObjectMarks;

/// Objects that could not be read. The texts are the reference's.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// A Secret could not be read.
    #[error("resolving ref in phase {phase:?}: getting Secret {secret}")]
    Read {
        /// The phase.
        phase: String,
        /// `namespace/name`
        secret: String,
        /// Why.
        #[source]
        source: RequestError,
    },
    /// A Secret is not there.
    #[error("resolving ref in phase {phase:?}: getting Secret {secret}: not found")]
    NotFound {
        /// The phase.
        phase: String,
        /// `namespace/name`
        secret: String,
    },
    /// A Secret of the system namespace that is not the revision's.
    #[error(
        "resolving ref in phase {phase:?}: Secret {secret} is not of type {type_} with label {label} naming this revision",
        type_ = keys::OBJECT_DATA_SECRET_TYPE, label = keys::REVISION_NAME
    )]
    Foreign {
        /// The phase.
        phase: String,
        /// `namespace/name`
        secret: String,
    },
    /// A Secret has not the key.
    #[error("resolving ref in phase {phase:?}: key {key:?} not found in Secret {secret}")]
    NoKey {
        /// The phase.
        phase: String,
        /// `namespace/name`
        secret: String,
        /// The key.
        key: String,
    },
    /// What the key holds is no object.
    #[error("resolving ref in phase {phase:?}")]
    Unpack {
        /// The phase.
        phase: String,
        /// Why.
        #[source]
        source: UnpackError,
    },
    /// Secrets that could change.
    #[error(
        "the following secrets are not immutable (referenced secrets must have immutable set to true): {}",
        .0.join(", ")
    )]
    Mutable(Vec<String>),
    /// What was read is not what it was.
    #[error("{0}")]
    Changed(String),
    /// An object without apiVersion, kind or name.
    #[error("phase {phase:?}: object {index}")]
    Unidentified {
        /// The phase.
        phase: String,
        /// Its place.
        index: usize,
        /// What is missing.
        #[source]
        source: InvalidObject,
    },
    /// Neither object nor reference.
    #[error("phase {phase:?}: object {index} is neither an object nor a reference")]
    Empty {
        /// The phase.
        phase: String,
        /// Its place.
        index: usize,
    },
}

impl Classify for ContentError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Read { .. }
            | Self::NotFound { .. }
            | Self::NoKey { .. }
            | Self::Unpack { .. } => Disposition::Retry,
            Self::Foreign { .. }
            | Self::Mutable(_)
            | Self::Changed(_)
            | Self::Unidentified { .. }
            | Self::Empty { .. } => Disposition::Terminal(Reason::Blocked),
        }
    }
}

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
        let mut secrets = Secrets::new();
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
mod tests {
    use super::*;
    use crate::error::chain;
    use crate::revision::Account;
    use crate::testing::api_server::ApiServer;

    fn secret(namespace: &str, name: &str, revision: &str, immutable: bool) -> Value {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}});
        let data = |text: &str| json!(k8s_openapi::ByteString(text.as_bytes().to_vec()));
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": keys::OBJECT_DATA_SECRET_TYPE, "immutable": immutable,
            "metadata": {"name": name, "namespace": namespace, "labels": {keys::REVISION_NAME: revision}},
            "data": {"good": data(&object.to_string()), "bad": data("hunter2")},
        })
    }

    fn set(references: &Value) -> ClusterObjectSet {
        serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet", "metadata": {"name": "e-1"},
            "spec": {
                "lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent",
                "phases": [{"name": "p", "objects": references}],
            },
        }))
        .unwrap()
    }

    fn to(namespace: &str, name: &str, key: &str) -> Value {
        json!({"ref": {"namespace": namespace, "name": name, "key": key}})
    }

    async fn resolve(server: &ApiServer, set: &ClusterObjectSet) -> Result<Resolved, ContentError> {
        let identity = crate::identity::Identity::new(
            server.client(),
            std::sync::Arc::default(),
            crate::identity::ExcludedNamespaces::default(),
            crate::identity::DefaultAccount::None,
        );
        let account = Account {
            namespace: "n".into(),
            name: "a".into(),
        };
        let reader = Reader {
            own: &server.client(),
            account: &identity.client_for(&account).unwrap(),
            system_namespace: "system",
        };
        reader.resolve(set).await
    }

    #[tokio::test]
    async fn a_secret_is_read_once_by_the_controller_in_the_system_namespace_and_else_by_the_account()
     {
        let server = ApiServer::new();
        server.add(&secret("system", "s", "e-1", true));
        server.add(&secret("other", "s", "whatever", true));
        let mut references = json!([
            to("system", "s", "good"),
            to("system", "s", "good"),
            to("other", "s", "good")
        ]);
        references[1]["ref"]["namespace"].take();
        references[1]["collisionProtection"] = json!("None");
        let resolved = resolve(&server, &set(&references)).await.unwrap();
        assert_eq!(resolved.content.phases[0].items.len(), 3);
        assert_eq!(resolved.digests.len(), 1);
        assert_eq!(
            server.requests(),
            [
                "controller GET /api/v1/namespaces/system/secrets/s",
                "n:a GET /api/v1/namespaces/other/secrets/s",
            ]
        );
    }

    #[tokio::test]
    async fn what_must_not_or_cannot_be_read_is_told_without_quoting_it() {
        let server = ApiServer::new();
        server.add(&secret("system", "s", "e-1", true));
        server.add(&secret("system", "foreign", "e-2", true));
        server.add(&secret("system", "mutable", "e-1", false));
        server.fail_next("GET /api/v1/namespaces/n/secrets/failing", 500);
        let phase = "resolving ref in phase \"p\": ";
        for (reference, expected, is_retried) in [
            (to("system", "none", "good"), format!("{phase}getting Secret system/none: not found"), true),
            (to("n", "failing", "good"), format!("{phase}getting Secret n/failing: the test wants this to fail"), true),
            (to("system", "s", "none"), format!("{phase}key \"none\" not found in Secret system/s"), true),
            (
                to("system", "s", "bad"),
                format!("{phase}unmarshaling object from key \"bad\" in Secret system/s: not a JSON object"),
                true,
            ),
            (
                to("system", "foreign", "good"),
                format!("{phase}Secret system/foreign is not of type olm.operatorframework.io/object-data with label olm.operatorframework.io/revision-name naming this revision"),
                false,
            ),
            (
                to("system", "mutable", "good"),
                "the following secrets are not immutable (referenced secrets must have immutable set to true): system/mutable".to_owned(),
                false,
            ),
            (json!({}), "phase \"p\": object 0 is neither an object nor a reference".to_owned(), false),
            (json!({"object": {"kind": "A"}}), "phase \"p\": object 0: manifest has no apiVersion".to_owned(), false),
        ] {
            let error = resolve(&server, &set(&json!([reference]))).await.unwrap_err();
            assert_eq!(chain(&error), expected);
            assert_eq!(error.disposition() == Disposition::Retry, is_retried, "{expected}");
        }
    }

    #[tokio::test]
    async fn content_that_changed_since_it_was_first_read_is_refused() {
        let server = ApiServer::new();
        let object = |data: &str| json!([{"object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"d": data}}}]);
        let mut set_now = set(&object("1"));
        let digests = resolve(&server, &set_now).await.unwrap().digests;
        set_now.status = Some(crate::api::ClusterObjectSetStatus {
            observed_phases: digests.clone(),
            ..Default::default()
        });
        assert!(resolve(&server, &set_now).await.is_ok());
        let mut changed = set(&object("2"));
        changed.status.clone_from(&set_now.status);
        let error = resolve(&server, &changed).await.unwrap_err().to_string();
        let expected = format!(
            "resolved content of 1 phase(s) has changed: phase \"p\" (expected digest {}, got sha256:",
            digests[0].digest
        );
        assert!(error.starts_with(&expected), "{error}");
        assert!(error.ends_with("; a referenced object source may have been deleted and recreated with different content"));
        changed.spec.phases.clear();
        assert_eq!(
            resolve(&server, &changed).await.unwrap_err().to_string(),
            "number of phases has changed (expected 1 phases, got 0)"
        );
    }

    #[tokio::test]
    async fn secrets_are_created_once_and_owned_later() {
        let server = ApiServer::new();
        server
            .add(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "system"}}));
        let wanted: Secret = serde_json::from_value(secret("system", "s", "e-1", true)).unwrap();
        let client = server.client();
        assert_eq!(create(&client, &wanted).await.unwrap(), None);
        let found = create(&client, &wanted).await.unwrap();
        assert_eq!(found.unwrap()["metadata"]["name"], "s");
        let owner = OwnerReference {
            uid: "u".into(),
            ..OwnerReference::default()
        };
        own(&client, "system", &["s".to_owned()], &owner)
            .await
            .unwrap();
        let stored = server
            .object("/api/v1/namespaces/system/secrets/s")
            .unwrap();
        assert_eq!(stored["metadata"]["ownerReferences"][0]["uid"], "u");
        assert!(
            own(&client, "system", &["none".to_owned()], &owner)
                .await
                .unwrap_err()
                .is_not_found()
        );
    }
}

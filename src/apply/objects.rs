//! One object: read, created, applied, deleted, always as the account of its revision.
//!
//! An object that does not exist is created by POST, so that one which nobody looked at is never overwritten; a JSON
//! patch then makes the entry of the creation in `managedFields` one of server-side apply, so that a later apply can
//! remove fields. An object that exists is applied only after it was read, and only if [`decide`] allows it; if it is
//! as it should be, nothing is sent.

#![expect(clippy::disallowed_types, reason = "acts through the account's client")]

mod anew;
mod away;
mod claim;
mod error;
mod refused;

use std::borrow::Cow;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::api::cluster_object_set::CollisionProtection;
use crate::api::object::ObjectKey;
use crate::api::{GROUP, OBJECT_SETS, VERSION, keys};
use crate::apply::discovery::Discovery;
use crate::identity::request::{self, RequestError};
use crate::preflight::permissions::Resource;
use crate::revision::Account;
use crate::revision::altered::altered;
use crate::revision::collision::{Claim, Conflict, CrdOwner, Standing, controller_of, decide};
use crate::revision::compare::{is_as_desired, is_own_apply};
use crate::revision::marks::prepare;
use crate::revision::rollout::{Action, Collision};

pub use away::Usage;
use claim::{Takes, claim, is_copy, is_unclaimed};
pub use error::{ObjectError, Step, texts};

/// How often an object that changes under our hands is read again within one pass.
const ATTEMPTS: usize = 4;
/// The pause between these attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// One object of a revision, as it stands in its source.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Which.
    pub key: ObjectKey,
    /// The manifest.
    pub object: Value,
    /// What happens if it exists already.
    pub protection: CollisionProtection,
}

impl Item {
    /// That it is there already, as `live`, and somebody else's.
    pub fn colliding(&self, phase: usize, conflict: Conflict, live: &Value) -> Collision {
        let annotations = metadata_of(live).annotations.unwrap_or_default();
        Collision {
            phase,
            key: self.key.clone(),
            conflict,
            is_marked: annotations.contains_key(keys::REVISION),
            protection: self.protection,
        }
    }

    /// A Secret for a certificate that is still to come, with the marks of the object that needs it.
    pub(super) fn secret(key: &ObjectKey, needed_by: &Self) -> Self {
        let marks = |field: &str, marks: &[&str]| -> Value {
            let all = needed_by
                .object
                .pointer(&format!("/metadata/{field}"))
                .and_then(Value::as_object);
            let all = all.into_iter().flatten();
            all.filter(|(mark, _)| marks.contains(&mark.as_str()))
                .map(|(mark, value)| (mark.clone(), value.clone()))
                .collect()
        };
        let metadata = json!({
            "name": key.name,
            "namespace": key.namespace,
            "labels": marks("labels", &[keys::OWNER_KIND, keys::OWNER_NAME]),
            "annotations": marks("annotations", &[keys::PACKAGE_NAME, keys::BUNDLE_VERSION]),
        });
        Self {
            key: key.clone(),
            object: json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata}),
            protection: needed_by.protection,
        }
    }
}

/// How an object departs from its manifest, though nothing can be done about it. Fields as `spec.a[0].b`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Departures {
    /// What was left out, since the API server does not know it.
    pub unknown: Vec<String>,
    /// What was changed on its way in.
    pub altered: Vec<String>,
}

/// What became of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Kept {
    /// It is there.
    Done {
        /// What was done.
        action: Action,
        /// The object afterwards.
        object: Box<Value>,
        /// How it departs from its manifest.
        departures: Departures,
    },
    /// It is somebody else's.
    Collision {
        /// Whose.
        conflict: Box<Conflict>,
        /// The object.
        object: Box<Value>,
    },
}

/// Whether a revision, as the API server knows it, is not on its way out.
///
/// What lost its owner to `--cascade=orphan` lost it after the deletion began; so whoever asks after seeing that is told.
///
/// # Errors
/// When the API server does not say.
pub async fn revision_stays(own: &Client, name: &str, uid: &str) -> Result<bool, RequestError> {
    let url = request::path(GROUP, VERSION, None, OBJECT_SETS);
    let live = request::get(own, &url, name).await?;
    Ok(live.is_some_and(|live| {
        let metadata = metadata_of(&live);
        metadata.uid.as_deref() == Some(uid) && metadata.deletion_timestamp.is_none()
    }))
}

/// The objects of one revision, through the account's client.
pub struct Objects<'a> {
    /// The controller's own client.
    pub own: &'a Client,
    /// The account of the revision.
    pub account: &'a Account,
    /// Acts as the account.
    pub client: &'a Client,
    /// Knows what kinds are called.
    pub discovery: &'a Discovery,
    /// The revision.
    pub claim: &'a Claim,
    /// Whether the owner that a CRD's mark names still exists.
    pub lives: &'a (dyn Fn(&CrdOwner) -> bool + Sync),
    /// Whether this revision had an object before. What another revision took since is not taken again, or both would
    /// take it from each other for ever.
    pub had: &'a (dyn Fn(&ObjectKey) -> bool + Sync),
}

impl std::fmt::Debug for Objects<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects")
            .field("claim", self.claim)
            .finish_non_exhaustive()
    }
}

impl Objects<'_> {
    /// Reads an object; none when it, or its kind, is not there.
    ///
    /// # Errors
    /// When the API server did not say.
    pub async fn read(&self, key: &ObjectKey) -> Result<Option<Value>, ObjectError> {
        let Some(resource) = self.resource(key).await? else {
            return Ok(None);
        };
        request::get(self.client, &path(&resource, key), &key.name)
            .await
            .map_err(|source| failed(key, Step::Read, source))
    }

    /// What may be done to `item`, given the object as it was read.
    pub fn standing(&self, item: &Item, live: &Value) -> Standing {
        let metadata = metadata_of(live);
        let is_revisions = |owner: &OwnerReference| owner.kind == "ClusterObjectSet";
        let protection = match item.protection {
            CollisionProtection::None
                if controller_of(&metadata).is_none_or(is_revisions) && (self.had)(&item.key) =>
            {
                CollisionProtection::IfNoController
            }
            protection => protection,
        };
        let (claim, gvk) = (self.claim, &item.key.gvk);
        let standing = decide(claim, gvk, &metadata, protection, self.lives);
        let is_nobodys =
            matches!(&standing, Standing::Collision(conflict) if **conflict == Conflict::Nobody);
        // Somebody replaced what is ours as a whole, and our marks with it.
        if is_nobodys && (self.had)(&item.key) && bears_our_fields(&metadata) {
            return Standing::Adopt;
        }
        standing
    }

    /// Brings `item` to what it should be, starting from the object as it was read just now.
    ///
    /// # Errors
    /// When a request fails, or the object does not hold still.
    pub async fn keep(&self, item: &Item, live: Option<Value>) -> Result<Kept, ObjectError> {
        let mut live = live;
        let mut item = Cow::Borrowed(item);
        let mut left_out = Vec::new();
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(PAUSE).await;
                live = self.read(&item.key).await?;
            }
            let kept = match live.take() {
                None => self.create(&item).await,
                Some(object) => self.reconcile(&item, object).await,
            };
            match kept {
                Ok(None) => {}
                Ok(Some(mut kept)) => {
                    if let Kept::Done {
                        action,
                        object,
                        departures,
                    } = &mut kept
                    {
                        departures.unknown = left_out;
                        if *action != Action::Progressed && !is_leaving(object) {
                            departures.altered = altered(&item.object, object);
                        }
                    }
                    return Ok(kept);
                }
                Err(error) => {
                    let Some((known, unknown)) = self.without_unknown(&item, &error).await else {
                        return Err(error);
                    };
                    item.to_mut().object = known;
                    left_out.extend(unknown);
                }
            }
        }
        Err(ObjectError::Restless {
            key: Box::new(item.key.clone()),
        })
    }

    /// The object as it is sent. A manifest may name a namespace although its kind has none; the API server drops it, and
    /// to compare it would be to see a difference for ever.
    fn desired(&self, item: &Item, resource: &Resource, live: Option<&ObjectMeta>) -> Value {
        let mut object = prepare(self.claim, &item.object, live);
        if !resource.is_namespaced
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("namespace");
        }
        object
    }

    /// Creates an object, and leaves its fields unclaimed; that it is there already is an error, too.
    ///
    /// # Errors
    /// When the API server refuses.
    pub(super) async fn post(&self, item: &Item) -> Result<Value, ObjectError> {
        let resource = self.served(&item.key).await?;
        let path = path(&resource, &item.key);
        let object = self.desired(item, &resource, None);
        let manager = keys::FIELD_MANAGER_CREATION;
        request::create_strictly(self.client, &path, manager, &object)
            .await
            .map_err(|source| failed(&item.key, Step::Create, source))
    }

    /// Patches an object.
    ///
    /// # Errors
    /// When the API server refuses.
    pub(super) async fn patch(
        &self,
        key: &ObjectKey,
        step: Step,
        parameters: &PatchParams,
        patch: &Patch<Value>,
    ) -> Result<Value, ObjectError> {
        let resource = self.served(key).await?;
        request::patch(
            self.client,
            &path(&resource, key),
            &key.name,
            parameters,
            patch,
        )
        .await
        .map_err(|source| failed(key, step, source))
    }

    /// Creates an object; none when it is there already.
    async fn create(&self, item: &Item) -> Result<Option<Kept>, ObjectError> {
        let created = match self.post(item).await {
            Ok(created) => created,
            Err(ObjectError::Request { source, .. }) if source.is_already_exists() => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let resource = self.served(&item.key).await?;
        let claimed = self.claim_written(item, &resource, created, Takes::Copies);
        let claimed = claimed.await?;
        Ok(claimed.map(|object| Kept::Done {
            action: Action::Created,
            object: Box::new(object),
            departures: Departures::default(),
        }))
    }

    /// Claims an object that was written just now, whatever others add to it at once; none when it does not hold still,
    /// or is another one meanwhile.
    async fn claim_written(
        &self,
        item: &Item,
        resource: &Resource,
        written: Value,
        takes: Takes,
    ) -> Result<Option<Value>, ObjectError> {
        let uid = written.pointer("/metadata/uid").cloned();
        let mut object = written;
        for _ in 0..ATTEMPTS {
            if let Some(claimed) = self.claim_fields(item, resource, object, takes).await? {
                return Ok(Some(claimed));
            }
            match self.read(&item.key).await? {
                Some(live) if live.pointer("/metadata/uid") == uid.as_ref() => object = live,
                Some(_) | None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Brings an object that exists to what it should be; none when it changed meanwhile.
    async fn reconcile(&self, item: &Item, live: Value) -> Result<Option<Kept>, ObjectError> {
        let done = |action, object| {
            Ok(Some(Kept::Done {
                action,
                object: Box::new(object),
                departures: Departures::default(),
            }))
        };
        let metadata = metadata_of(&live);
        let (step, action) = match self.standing(item, &live) {
            Standing::Collision(conflict) => {
                let object = Box::new(live);
                return Ok(Some(Kept::Collision { conflict, object }));
            }
            Standing::Progressed => return done(Action::Progressed, live),
            // It is on its way out; it is created again when it is gone.
            Standing::Own if metadata.deletion_timestamp.is_some() => {
                return done(Action::Idle, live);
            }
            Standing::Own => (Step::Update, Action::Updated),
            Standing::Adopt => (Step::Adopt, Action::Adopted),
        };
        if step == Step::Adopt && metadata.owner_references.is_none() {
            self.confirm(item).await?;
        }
        let resource = self.served(&item.key).await?;
        let mut desired = self.desired(item, &resource, Some(&metadata));
        let mut live = live;
        if step == Step::Update {
            let entries = || metadata.managed_fields.iter().flatten();
            let is_claimed = entries().any(is_own_apply)
                && !entries().any(|entry| is_unclaimed(entry) || is_copy(entry));
            if is_claimed && is_as_desired(&desired, &live) {
                return done(Action::Idle, live);
            }
            if !is_claimed {
                // The process ended between a write and its claim, or somebody copied the object.
                let claimed = self.claim_fields(item, &resource, live, Takes::Copies);
                let Some(claimed) = claimed.await? else {
                    return Ok(None);
                };
                live = claimed;
            }
        } else if let Some(metadata) = desired.get_mut("metadata").and_then(Value::as_object_mut) {
            let version = live.pointer("/metadata/resourceVersion").cloned();
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
        let parameters = PatchParams::apply(keys::FIELD_MANAGER_OBJECTS).force();
        let path = path(&resource, &item.key);
        let patch = Patch::Apply(desired);
        match request::patch(self.client, &path, &item.key.name, &parameters, &patch).await {
            Ok(object) if version_of(&object) == version_of(&live) => done(Action::Idle, object),
            Ok(object) => {
                let takes = match step {
                    Step::Adopt => Takes::Everybody,
                    _ => Takes::Copies,
                };
                let claimed = self.claim_written(item, &resource, object, takes).await?;
                claimed.map_or(Ok(None), |object| done(action, object))
            }
            Err(error) if error.is_conflict() => Ok(None),
            Err(error) if error.is_doubled() => {
                self.write_over(item, &resource, (step, action), &live)
                    .await
            }
            Err(error) if error.has_two_controllers() => {
                self.own_alone(item, &resource, step, &live).await?;
                Ok(None)
            }
            Err(error) if error.is_invalid() && self.may_replace(item, &live) => {
                self.replace(item, &resource, &live).await
            }
            Err(source) => {
                let fields = source.invalid_fields();
                let error = failed(&item.key, step, source);
                if fields.is_empty() || error.is_frozen() {
                    return Err(error);
                }
                self.overwrite(item, &resource, patch, &live, &fields).await
            }
        }
    }

    /// Makes sure that our revision is not on its way out, as the API server knows it.
    ///
    /// An object without owner may just have lost it to `--cascade=orphan`, before we saw that the revision is
    /// deleted. Were it given its old owner again, the garbage collector would delete it.
    async fn confirm(&self, item: &Item) -> Result<(), ObjectError> {
        let stays = revision_stays(self.own, &self.claim.name, &self.claim.uid).await;
        if stays.map_err(|source| failed(&item.key, Step::Confirm, source))? {
            Ok(())
        } else {
            Err(ObjectError::Leaving {
                key: Box::new(item.key.clone()),
            })
        }
    }

    /// Makes our entries in `managedFields` one of server-side apply; none when the object changed meanwhile.
    async fn claim_fields(
        &self,
        item: &Item,
        resource: &Resource,
        object: Value,
        takes: Takes,
    ) -> Result<Option<Value>, ObjectError> {
        let Some(patch) = claim(&metadata_of(&object), takes) else {
            return Ok(Some(object));
        };
        self.patch_managed_fields(item, resource, patch).await
    }

    /// Changes `managedFields` by a JSON patch; none when the object changed meanwhile.
    async fn patch_managed_fields(
        &self,
        item: &Item,
        resource: &Resource,
        patch: Value,
    ) -> Result<Option<Value>, ObjectError> {
        let patch: json_patch::Patch =
            serde_json::from_value(patch).expect("the patch is written out below");
        let path = path(resource, &item.key);
        let name = &item.key.name;
        let (parameters, patch) = (PatchParams::default(), Patch::Json(patch));
        let sent = request::patch(self.client, &path, name, &parameters, &patch).await;
        match sent {
            Ok(object) => Ok(Some(object)),
            // A failed `test` is 422; a write in between 409; 404: deleted at once.
            Err(error) if matches!(error.code(), Some(404 | 409 | 422)) => Ok(None),
            Err(source) => Err(failed(&item.key, Step::Claim, source)),
        }
    }

    async fn resource(&self, key: &ObjectKey) -> Result<Option<Resource>, ObjectError> {
        self.discovery
            .resource(&key.gvk)
            .await
            .map_err(|source| ObjectError::Discover {
                key: Box::new(key.clone()),
                source,
            })
    }

    async fn served(&self, key: &ObjectKey) -> Result<Resource, ObjectError> {
        self.resource(key)
            .await?
            .ok_or_else(|| ObjectError::UnknownKind {
                key: Box::new(key.clone()),
            })
    }
}

/// The metadata of an object as it was read.
pub fn metadata_of(object: &Value) -> ObjectMeta {
    object
        .get("metadata")
        .and_then(|metadata| serde_json::from_value(metadata.clone()).ok()) // The API server's own answer.
        .unwrap_or_default()
}

/// Whether an object is on its way out.
pub fn is_leaving(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

fn version_of(object: &Value) -> Option<&str> {
    object.pointer("/metadata/resourceVersion")?.as_str()
}

pub(super) fn path(resource: &Resource, key: &ObjectKey) -> String {
    let namespace = resource.is_namespaced.then_some(key.namespace.as_str());
    request::path(
        &resource.group,
        &resource.version,
        namespace,
        &resource.plural,
    )
}

pub(super) fn failed(key: &ObjectKey, step: Step, source: RequestError) -> ObjectError {
    ObjectError::Request {
        key: Box::new(key.clone()),
        step,
        source,
        webhook: None,
    }
}

/// Whether we wrote an object that does not say that it is somebody else's.
pub(super) fn bears_our_fields(metadata: &ObjectMeta) -> bool {
    let label = metadata
        .labels
        .as_ref()
        .and_then(|it| it.get(keys::OWNER_NAME));
    let mut fields = metadata.managed_fields.iter().flatten();
    label.is_none_or(String::is_empty) && fields.any(is_own_apply)
}

//! The revisions of one extension, on the API server: made, patched, counted, deleted. Done as the controller itself.
//!
//! Crash-safe by order: first the Secrets, without owner; then the `ClusterObjectSet`; then the Secrets get it as
//! their owner. Whatever is interrupted is found and finished by the next pass, since names follow from content.

#![expect(clippy::disallowed_types, reason = "writes revisions")]

mod content;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use serde_json::{Value, json};

use crate::api::{EXTENSIONS, GROUP, OBJECT_SETS, VERSION, keys};
use crate::apply::objects::metadata_of;
use crate::apply::secrets::handover::Handover;
use crate::error::{Classify, Disposition};
use crate::identity::request::{self, RequestError, path};
use crate::revision::marks::owned_by;
use crate::revision::pack::{PackError, Packed, pack};
use crate::revision::plan::{
    ALTERED, Desired, RevisionPlan, expired, free_number, object_marks, plan,
};
use crate::revision::{Belonging, Extension, Revision};

/// How many squatted names are passed over in one pass.
const SQUATTED: usize = 16;
/// When so many revisions were made within [`RAPID_WITHIN`], the next one waits: whatever makes them, it must not fill the
/// API server.
const RAPID: usize = 5;
/// How long that is.
const RAPID_WITHIN: SignedDuration = SignedDuration::from_secs(30);

/// Reads and writes revisions.
#[derive(Clone, Copy)]
pub struct Revisions<'a> {
    /// The controller's own client.
    pub client: &'a Client,
    /// Where the Secrets are.
    pub system_namespace: &'a str,
    /// Who applies a new revision gets its Secrets here.
    pub handover: &'a Handover,
    /// The time.
    pub now: Timestamp,
}

impl std::fmt::Debug for Revisions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Revisions").finish_non_exhaustive()
    }
}

/// A revision that could not be written. The texts are the reference's.
#[derive(Debug, thiserror::Error)]
pub enum RevisionError {
    /// The objects do not fit.
    #[error("creating new Revision")]
    Pack(#[source] PackError),
    /// The new revision could not be created.
    #[error("creating new Revision: {name}")]
    Create {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: RequestError,
    },
    /// A Secret of an earlier revision stands in the way.
    #[error(
        "creating new Revision: {name}: Secret {secret} of an earlier revision is still being deleted"
    )]
    Leaving {
        /// The revision's name.
        name: String,
        /// The Secret's name.
        secret: String,
    },
    /// The Secrets of the newest revision are gone, and could not be made again.
    #[error("making the Secrets of {name} again")]
    PutBack {
        /// The revision's name.
        name: String,
        /// Why.
        #[source]
        source: RequestError,
    },
    /// The newest revision could not be patched.
    #[error("patching {name} Revision")]
    Patch {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: RequestError,
    },
    /// Whether the extension stays could not be found out.
    #[error("reading ClusterExtension {name} again")]
    Read {
        /// The extension.
        name: String,
        /// Why.
        #[source]
        source: RequestError,
    },
    /// Secrets that nobody needs could not be deleted.
    #[error("deleting the Secrets that are left of {name}")]
    DropSecrets {
        /// The extension.
        name: String,
        /// Why.
        #[source]
        source: RequestError,
    },
    /// A revision could not be deleted.
    #[error("deleting {name} Revision")]
    Delete {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: RequestError,
    },
    /// The kind of revisions itself is not there.
    #[error(
        "creating new Revision: {name}: there is no CustomResourceDefinition {OBJECT_SETS}.{GROUP}; apply those of oxolm again"
    )]
    NoKind {
        /// The revision's name.
        name: String,
    },
    /// The API server answered with something else than was written.
    #[error(
        "{what} {ALTERED}: something in the cluster, an admission webhook or policy perhaps, changes them"
    )]
    Altered {
        /// The revision.
        what: String,
    },
    /// Somebody, or something, changes what is wanted all the time.
    #[error(
        "{RAPID} revisions were made within {} seconds, so the next one waits; if nobody changes the extension that often, \
         something in the cluster changes its ClusterObjectSets",
        RAPID_WITHIN.as_secs()
    )]
    Rapid,
    /// No free name was found.
    #[error(
        "creating new Revision: the names of {SQUATTED} revisions up to {name} are taken by somebody else"
    )]
    Squatted {
        /// The last one tried.
        name: String,
    },
}

impl Classify for RevisionError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Pack(error) => error.disposition(),
            Self::Create { .. }
            | Self::Leaving { .. }
            | Self::PutBack { .. }
            | Self::Patch { .. }
            | Self::Read { .. }
            | Self::DropSecrets { .. }
            | Self::Delete { .. }
            | Self::NoKind { .. }
            | Self::Altered { .. }
            | Self::Rapid
            | Self::Squatted { .. } => Disposition::Retry,
        }
    }
}

/// What was done to have the desired revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ensured {
    /// Nothing.
    Unchanged {
        /// The newest revision.
        name: String,
    },
    /// The newest revision was patched.
    Patched {
        /// Its name.
        name: String,
    },
    /// A new revision was made.
    Created {
        /// Its name.
        name: String,
        /// Its number.
        number: i64,
    },
}

/// How far an uninstall got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Uninstall {
    /// No revision is left.
    Done,
    /// These are left; each tells in its own status what it waits for.
    Waiting(Vec<String>),
}

/// What became of a `ClusterObjectSet` that was to be made.
enum Written {
    /// It is there.
    Ours(OwnerReference),
    /// It was made, but by what was made of it on the way nobody can tell whose it is; its UID.
    Altered(String),
    /// Somebody else's has that name.
    Taken(Value),
}

impl Revisions<'_> {
    /// Carries out the plan for `desired`, given the extension's revisions by number. No request when there is
    /// nothing to do.
    ///
    /// `is_taken` tells whether a `ClusterObjectSet` of a name exists, whosever it is.
    ///
    /// # Errors
    /// When the API server refuses, or the objects do not fit into Secrets.
    pub async fn ensure(
        &self,
        existing: &[Revision],
        desired: &Desired,
        is_taken: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<Ensured, RevisionError> {
        match plan(existing, desired, is_taken) {
            RevisionPlan::Unchanged { name } => {
                if let Some(newest) = existing.last().filter(|newest| newest.lacks_secrets()) {
                    self.put_back(newest, desired).await?;
                }
                Ok(Ensured::Unchanged { name })
            }
            RevisionPlan::Patch { name, patch } => {
                let patched = self.patch(&name, patch).await?;
                let patched = serde_json::from_value(patched).ok();
                let patched = patched.and_then(|set| Revision::of(&set, &desired.extension));
                match patched.map(|revision| plan(&[revision], desired, is_taken)) {
                    Some(RevisionPlan::Unchanged { .. }) => Ok(Ensured::Patched { name }),
                    _ => Err(RevisionError::Altered {
                        what: format!("ClusterObjectSet {name}"),
                    }),
                }
            }
            RevisionPlan::Create { number, name } => {
                if is_rapid(existing, self.now) {
                    return Err(RevisionError::Rapid);
                }
                for revision in expired(existing) {
                    if self.delete(revision).await? {
                        self.drop_secrets(&revision.name, &[]).await?;
                    }
                }
                self.create(number, name, desired, is_taken).await
            }
        }
    }

    /// Archives a revision.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn archive(&self, name: &str) -> Result<(), RevisionError> {
        let patch = json!({"spec": {"lifecycleState": "Archived"}});
        self.patch(name, patch).await.map(|_| ())
    }

    /// Makes `extension` the controller of those of its revisions that have no owner: they were restored from a backup,
    /// or orphaned.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn take_back(
        &self,
        extension: &Extension,
        existing: &[Revision],
    ) -> Result<(), RevisionError> {
        let restored: Vec<&Revision> = existing
            .iter()
            .filter(|revision| revision.belonging == Belonging::Restored && !revision.is_deleting)
            .collect();
        if restored.is_empty() || !self.stays(extension).await? {
            return Ok(());
        }
        for revision in restored {
            let owner = extension.owner_reference();
            // The UID is checked: another object may have that name by now.
            let patch = json!({"metadata": {"uid": revision.uid, "ownerReferences": [owner]}});
            match self.patch(&revision.name, patch).await {
                Err(RevisionError::Patch { source, .. })
                    if source.is_conflict() || source.is_not_found() => {}
                other => _ = other?,
            }
        }
        Ok(())
    }

    /// Lets revisions go, for `--cascade=orphan`: the extension is no longer among their owners.
    ///
    /// The garbage collector does it, too, but not before it knows our kinds; then it would delete them instead.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn let_go(&self, existing: &[Revision]) -> Result<(), RevisionError> {
        let owned = existing
            .iter()
            .filter(|revision| revision.belonging == Belonging::Owned && !revision.is_deleting);
        for revision in owned {
            let patch = json!({"metadata": {"uid": revision.uid, "ownerReferences": null}});
            match self.patch(&revision.name, patch).await {
                Err(RevisionError::Patch { source, .. })
                    if source.is_conflict() || source.is_not_found() => {}
                other => _ = other?,
            }
        }
        Ok(())
    }

    /// Whether the extension, as the API server knows it, is not on its way out.
    ///
    /// A revision without owner may just have lost it to `--cascade=orphan`, before we saw that the extension is
    /// deleted. Were it given its old owner again, the garbage collector would delete it; so it would a revision that is
    /// made only now.
    ///
    /// # Errors
    /// When the API server did not say.
    pub async fn stays(&self, extension: &Extension) -> Result<bool, RevisionError> {
        let url = path(GROUP, VERSION, None, EXTENSIONS);
        let read = request::get(self.client, &url, &extension.name).await;
        let live = read.map_err(|source| RevisionError::Read {
            name: extension.name.clone(),
            source,
        })?;
        Ok(live.is_some_and(|live| {
            let metadata = metadata_of(&live);
            metadata.uid.as_deref() == Some(extension.uid.as_str())
                && metadata.deletion_timestamp.is_none()
        }))
    }

    /// Deletes all revisions that the extension controls; each takes its objects down before it goes.
    ///
    /// Whoever deletes an extension with `--cascade=orphan` wants them to stay: then do not call this. The garbage
    /// collector may be done with that, and its finalizer gone, before anybody looks. So nothing is deleted but what
    /// still is as it was read, with its owner; another revision waits until it is read again.
    ///
    /// `crd_deletion` is what the extension says by now of its definitions.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn uninstall(
        &self,
        existing: &[Revision],
        crd_deletion: Option<&String>,
    ) -> Result<Uninstall, RevisionError> {
        let owned = existing
            .iter()
            .filter(|revision| revision.belonging == Belonging::Owned);
        let (mut left, mut is_begun) = (Vec::new(), false);
        for revision in owned {
            // It may have been said in the same moment as the deletion.
            if revision.annotations.get(keys::CRD_DELETION) != crd_deletion {
                let said = json!({"metadata": {"annotations": {keys::CRD_DELETION: crd_deletion}}});
                match self.patch(&revision.name, said).await {
                    Err(RevisionError::Patch { source, .. }) if source.is_not_found() => {}
                    written => _ = written?,
                }
                left.push(revision.name.clone());
                continue;
            }
            if !revision.is_deleting {
                is_begun |= self.delete(revision).await?;
            }
            left.push(revision.name.clone());
        }
        if is_begun {
            self.drop_leftovers(existing).await?;
        }
        if left.is_empty() {
            Ok(Uninstall::Done)
        } else {
            Ok(Uninstall::Waiting(left))
        }
    }

    /// Deletes revisions that have no owner, and of which nobody will be the owner again.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn abandon(&self, family: &[Revision]) -> Result<(), RevisionError> {
        let left = family
            .iter()
            .filter(|revision| revision.belonging == Belonging::Restored && !revision.is_deleting);
        for revision in left {
            self.delete(revision).await?;
        }
        Ok(())
    }

    async fn create(
        &self,
        number: i64,
        name: String,
        desired: &Desired,
        is_taken: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<Ensured, RevisionError> {
        let (mut number, mut name) = (number, name);
        for _ in 0..SQUATTED {
            let extension = &desired.extension.name;
            let packed = self.packed(&name, desired)?;
            let made = self.place(&name, &packed.secrets).await?;
            let is_anew = made.len() == packed.secrets.len();
            let giving = is_anew.then(|| self.handover.announce(&name));
            match self.try_create(number, &name, desired, &packed).await? {
                Written::Ours(owner) => {
                    self.finish(&name, packed, &owner, giving).await?;
                    return Ok(Ensured::Created { name, number });
                }
                Written::Altered(uid) => {
                    self.delete_if(&name, &uid, None).await?;
                    self.take_away(&name, &made, &Value::Null).await?;
                    // The next one has another number, and the same is to be said.
                    let what = "a new ClusterObjectSet".to_owned();
                    return Err(RevisionError::Altered { what });
                }
                Written::Taken(by) => self.take_away(&name, &made, &by).await?,
            }
            if let RevisionPlan::Create {
                number: next,
                name: free,
            } = free_number(extension, number + 1, is_taken)
            {
                (number, name) = (next, free);
            }
        }
        Err(RevisionError::Squatted { name })
    }

    /// The Secrets and phases of a revision called `name`.
    fn packed(&self, name: &str, desired: &Desired) -> Result<Packed, RevisionError> {
        let extension = &desired.extension.name;
        let marks = object_marks(extension, &desired.bundle);
        let phases = &desired.phases;
        pack(self.system_namespace, extension, name, phases, &marks).map_err(RevisionError::Pack)
    }

    /// Writes the `ClusterObjectSet`.
    async fn try_create(
        &self,
        number: i64,
        name: &str,
        desired: &Desired,
        packed: &Packed,
    ) -> Result<Written, RevisionError> {
        let failed = |source| RevisionError::Create {
            name: name.to_owned(),
            source,
        };
        let set = desired.object_set(name, number, packed.phases.clone());
        let url = path(GROUP, VERSION, None, OBJECT_SETS);
        let manager = keys::FIELD_MANAGER_REVISIONS;
        let uid = |set: &Value| metadata_of(set).uid.unwrap_or_default();
        match request::create(self.client, &url, manager, &set).await {
            Ok(created) if is_ours(&created, desired) => {
                Ok(Written::Ours(owned_by(name, &uid(&created))))
            }
            // Nobody would find it again, and the next pass would make one more.
            Ok(created) => Ok(Written::Altered(uid(&created))),
            Err(error) if error.is_already_exists() => {
                let found = request::get(self.client, &url, name);
                Ok(match found.await.map_err(failed)? {
                    Some(found) if is_ours(&found, desired) => {
                        Written::Ours(owned_by(name, &uid(&found)))
                    }
                    found => Written::Taken(found.unwrap_or_default()),
                })
            }
            Err(error) if error.is_not_found() => Err(RevisionError::NoKind {
                name: name.to_owned(),
            }),
            Err(source) => Err(failed(source)),
        }
    }

    async fn patch(&self, name: &str, patch: Value) -> Result<Value, RevisionError> {
        let parameters = PatchParams {
            field_manager: Some(keys::FIELD_MANAGER_REVISIONS.to_owned()),
            ..PatchParams::default()
        };
        let url = path(GROUP, VERSION, None, OBJECT_SETS);
        request::patch(self.client, &url, name, &parameters, &Patch::Merge(patch))
            .await
            .map_err(|source| RevisionError::Patch {
                name: name.to_owned(),
                source,
            })
    }

    /// Whether the revision was as it was read, and is deleted now.
    async fn delete(&self, revision: &Revision) -> Result<bool, RevisionError> {
        let version = revision.resource_version.clone();
        self.delete_if(&revision.name, &revision.uid, version).await
    }

    /// Whether the `ClusterObjectSet` of that UID, and of that version if one is given, was there, and is deleted now.
    async fn delete_if(
        &self,
        name: &str,
        uid: &str,
        resource_version: Option<String>,
    ) -> Result<bool, RevisionError> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version,
            }),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let url = path(GROUP, VERSION, None, OBJECT_SETS);
        match request::delete(self.client, &url, name, &parameters).await {
            Ok(_) => Ok(true),
            // It was written meanwhile, or another object has that name now.
            Err(error) if error.is_conflict() => Ok(false),
            Err(source) => Err(RevisionError::Delete {
                name: name.to_owned(),
                source,
            }),
        }
    }
}

/// Whether a `ClusterObjectSet` that is there already is what an interrupted attempt made.
fn is_ours(found: &Value, desired: &Desired) -> bool {
    let metadata = metadata_of(found);
    let mut owners = metadata.owner_references.iter().flatten();
    let annotations = metadata.annotations.unwrap_or_default();
    owners.any(|owner| owner.uid == desired.extension.uid)
        && annotations.get(keys::CONTENT) == Some(&desired.content())
}

/// Whether so many revisions were made just now that the next one has to wait.
fn is_rapid(existing: &[Revision], now: Timestamp) -> bool {
    let is_recent = |revision: &&Revision| {
        let age = revision.created.map(|created| now.duration_since(created));
        // Clocks that differ hold up nobody.
        age.is_some_and(|age| !age.is_negative() && age < RAPID_WITHIN)
    };
    existing.iter().filter(is_recent).count() >= RAPID
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ClusterObjectSet;
    use serde_json::json;

    #[test]
    fn revisions_that_follow_each_other_too_fast_wait() {
        let extension = Extension {
            name: "e".into(),
            uid: "u".into(),
            account: None,
        };
        let made = |created: &str| -> Revision {
            let owner = json!({"apiVersion": "v1", "kind": "ClusterExtension", "name": "e", "uid": "u", "controller": true});
            let set: ClusterObjectSet = serde_json::from_value(json!({
                "metadata": {"name": "e-1", "creationTimestamp": created, "ownerReferences": [owner]},
                "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent"},
            }))
            .unwrap();
            Revision::of(&set, &extension).unwrap()
        };
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        for (created, expected) in [
            ("2026-01-01T00:00:59Z", true),
            ("2026-01-01T00:00:30Z", false),
            ("2026-01-01T00:02:00Z", false),
        ] {
            let revisions = vec![made(created); RAPID];
            assert_eq!(is_rapid(&revisions, now), expected, "{created}");
            assert!(!is_rapid(&revisions[1..], now), "{created}");
        }
    }
}

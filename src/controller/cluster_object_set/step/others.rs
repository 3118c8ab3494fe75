//! What a teardown has to know of others: the extension, its other revisions, and the kinds of this API.

use std::collections::{BTreeMap, BTreeSet};

use kube::{Resource as _, ResourceExt as _};
use serde_json::Value;

use super::end::EndError;
use super::{Work, has_finalizer};
use crate::api::cluster_object_set::CollisionProtection;
use crate::api::object::ObjectKey;
use crate::api::{ClusterExtension, ClusterObjectSet, EXTENSIONS, GROUP, OBJECT_SETS, VERSION};
use crate::apply::content::{Content, ContentPhase};
use crate::apply::kinds;
use crate::apply::objects::{Item, metadata_of};
use crate::apply::secrets::{ContentError, Reader};
use crate::apply::teardown::{Fate, Wish};
use crate::controller::cluster_object_set::account::{
    is_active, is_active_beside, is_of_one_extension, is_orphan,
};
use crate::identity::request::{self, path};
use crate::revision::collision::Sibling;

/// The objects of a revision, phase by phase.
type Phases = Vec<(String, Vec<ObjectKey>)>;

/// What other active revisions have.
pub(super) struct StillWanted {
    /// The latest revision that has each of these.
    heirs: BTreeMap<ObjectKey, Sibling>,
    /// Who wants everything else.
    rest: Wish,
}

impl StillWanted {
    /// Everything, whoever has it.
    pub(super) const fn everything() -> Self {
        Self {
            heirs: BTreeMap::new(),
            rest: Wish::Somebody,
        }
    }

    pub(super) fn wish(&self, key: &ObjectKey) -> Wish {
        let heir = self.heirs.get(key);
        heir.map_or_else(|| self.rest.clone(), |heir| Wish::Heir(heir.clone()))
    }
}

/// An object of which nothing but the key is known.
pub(super) fn known_by_key(key: ObjectKey) -> Item {
    Item {
        key,
        object: Value::Null,
        protection: CollisionProtection::Prevent,
    }
}

impl Work<'_> {
    /// The numbers of the archived revisions of the extension, this one among them. None of them is orphaned: their extension
    /// has replaced them.
    pub(super) fn replaced(&self) -> Vec<i64> {
        if self.claim.is_by_hand() {
            return Vec::new();
        }
        let others = self.all.iter();
        let archived = others.filter(|it| !is_active(it) && is_of_one_extension(self.set, it));
        let numbers = archived.map(|other| other.spec.revision);
        numbers.chain([self.claim.revision]).collect()
    }

    /// Whether the extension that this revision belongs to is being deleted, or is gone: then all its revisions leave,
    /// also those that have not been told yet, and none takes over what this one gives up.
    pub(super) async fn is_extension_leaving(&self) -> Result<bool, EndError> {
        let kind = ClusterExtension::kind(&());
        let mut owners = self.set.owner_references().iter();
        let Some(owner) = owners.find(|owner| owner.kind == kind) else {
            return Ok(false);
        };
        let url = path(GROUP, VERSION, None, EXTENSIONS);
        let extension = request::get(&self.ctx.client, &url, &owner.name).await;
        let extension = extension.map_err(EndError::Extension)?;
        let extension = extension.map(|extension| metadata_of(&extension));
        let Some(extension) = extension.filter(|it| it.uid.as_ref() == Some(&owner.uid)) else {
            return self.is_still_owned_by(&owner.uid).await;
        };
        if extension.deletion_timestamp.is_none() {
            return Ok(false);
        }
        let goes_along = kinds::goes_along(&self.ctx.client, EXTENSIONS, &extension).await;
        Ok(!goes_along?)
    }

    /// Whether the revision, as the API server knows it, names this owner. An extension that was let go leaves its revisions
    /// without it, and its end may be seen before that.
    async fn is_still_owned_by(&self, uid: &str) -> Result<bool, EndError> {
        let url = path(GROUP, VERSION, None, OBJECT_SETS);
        let set = request::get(&self.ctx.client, &url, &self.set.name_any()).await;
        let owners = set.map_err(EndError::Extension)?;
        let owners = owners.and_then(|set| metadata_of(&set).owner_references);
        Ok(owners.into_iter().flatten().any(|owner| owner.uid == uid))
    }

    /// Whether the revision is deleted with its kind: nobody asked to take down what it holds.
    pub(super) async fn is_kind_leaving(&self) -> Result<bool, EndError> {
        Ok(kinds::goes_along(&self.ctx.client, OBJECT_SETS, &self.set.metadata).await?)
    }

    /// What other active revisions of the extension have, too.
    pub(super) async fn wanted(&self) -> Result<StillWanted, EndError> {
        self.wanted_by(|_| true).await
    }

    /// What the active revisions of the extension have that it no longer owns: they stay when it goes.
    pub(super) async fn wanted_by_orphans(&self) -> Result<StillWanted, EndError> {
        self.wanted_by(is_orphan).await
    }

    async fn wanted_by(
        &self,
        stays: impl Fn(&ClusterObjectSet) -> bool,
    ) -> Result<StillWanted, EndError> {
        let (mut heirs, mut rest) = (BTreeMap::new(), Wish::Nobody);
        let mut siblings: Vec<&Sibling> = self.claim.siblings.iter().collect();
        siblings.sort_by_key(|sibling| sibling.revision);
        for sibling in siblings {
            let mut all = self.all.iter().filter(|set| stays(set));
            let Some(set) = all.find(|set| set.uid().as_ref() == Some(&sibling.uid)) else {
                continue;
            };
            match self.phases_of(set).await? {
                Some(phases) => {
                    let keys = phases.into_iter().flat_map(|(_, keys)| keys);
                    heirs.extend(keys.map(|key| (key, sibling.clone())));
                }
                // Nobody knows what it holds: what runs is not to go for that, but with it.
                None => rest = Wish::Heir(sibling.clone()),
            }
        }
        Ok(StillWanted { heirs, rest })
    }

    /// What becomes of another revision of the extension, if it does not stay. What `--cascade=orphan` lets go is of no
    /// concern.
    pub(super) fn fate(&self, uid: Option<&str>, name: &str) -> Option<Fate> {
        let Some(other) = self.all.iter().find(|set| set.name_any() == name) else {
            // Where nothing but a name tells of it, it may have been anybody's that is not an extension's.
            return (uid.is_none() && !self.claim.is_by_hand()).then_some(Fate::Gone);
        };
        let is_it = uid.is_none_or(|uid| other.uid().as_deref() == Some(uid));
        let is_let_go = is_orphan(other) || other.finalizers().iter().any(|one| one == "orphan");
        let stays = is_active(other) && other.metadata.deletion_timestamp.is_none();
        if !is_it || is_let_go || stays || !is_of_one_extension(self.set, other) {
            return None;
        }
        Some(Fate::Leaves)
    }

    /// The numbers of the other revisions of the extension that are there.
    pub(super) fn numbers_beside(&self) -> Vec<i64> {
        let others = self.all.iter();
        let others = others.filter(|other| is_of_one_extension(self.set, other));
        others.map(|other| other.spec.revision).collect()
    }

    /// The objects of another revision of the extension. It is read where no pass of this process has been over it; none
    /// where its Secrets are gone.
    async fn phases_of(&self, set: &ClusterObjectSet) -> Result<Option<Phases>, EndError> {
        let phases = self.ctx.memory.phases(&set.uid().unwrap_or_default());
        if !phases.is_empty() {
            return Ok(Some(phases));
        }
        let reader = Reader {
            given: Vec::new(),
            own: &self.ctx.client,
            account: &self.client,
            system_namespace: &self.ctx.system_namespace,
        };
        match reader.resolve(set).await {
            Ok(resolved) => Ok(Some(resolved.content.keys())),
            Err(ContentError::NotFound { .. }) => Ok(None),
            Err(source) => {
                let name = set.name_any();
                Err(EndError::Sibling { name, source })
            }
        }
    }

    /// What the other revisions of the extension hold that are not taken down yet, and this one does not have.
    pub(super) async fn family(&self, content: &Content) -> Result<Content, EndError> {
        let mut known: BTreeSet<ObjectKey> =
            content.keys().into_iter().flat_map(|it| it.1).collect();
        let mut family = Content::default();
        let others = self.all.iter();
        let others = others.filter(|other| is_active_beside(self.set, other) && !is_orphan(other));
        for other in others.filter(|other| has_finalizer(other)) {
            // Where its Secrets are gone, it tells itself what becomes of its CRDs.
            for (name, mut keys) in self.phases_of(other).await?.unwrap_or_default() {
                keys.retain(|key| known.insert(key.clone()));
                let items = keys.into_iter().map(known_by_key).collect();
                family.phases.push(ContentPhase { name, items });
            }
        }
        Ok(family)
    }
}

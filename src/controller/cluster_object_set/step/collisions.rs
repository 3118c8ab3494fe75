//! What helps where objects are there already.

use std::collections::BTreeSet;

use super::{Note, Work};
use crate::api::ClusterObjectSet;
use crate::api::cluster_object_set::LifecycleState;
use crate::controller::cluster_object_set::account::extension_of;
use crate::revision::collision::Conflict;
use crate::revision::remedy::Remedy;
use crate::revision::rollout::{Collision, collision_message};
use crate::status::news::News;

impl Work<'_> {
    /// What there is to tell of objects that are somebody else's, with the way out.
    pub(super) fn collision(&self, collisions: &[Collision]) -> Note {
        let remedies: BTreeSet<Remedy> = collisions.iter().map(|it| self.remedy(it)).collect();
        let is_waiting = remedies.iter().all(|it| matches!(it, Remedy::Wait(_)));
        let extension = &self.claim.family.extension;
        let remedies: Vec<String> = remedies.iter().map(|it| it.told(extension)).collect();
        let whose = if is_waiting {
            "still another revision's"
        } else {
            "somebody else's"
        };
        let (remedies, message) = (remedies.join("; "), collision_message(collisions));
        Note {
            news: News::Collision,
            // What to do comes first: an Event is short.
            text: format!("objects are there already and {whose}: {remedies}\n{message}"),
            is_warning: true,
            is_state: true,
        }
    }

    fn remedy(&self, collision: &Collision) -> Remedy {
        match &collision.conflict {
            Conflict::Controller(owner) if self.gives_up(&owner.uid) => {
                Remedy::Wait(owner.name.clone())
            }
            Conflict::Controller(_)
            | Conflict::CrdOwner(_)
            | Conflict::FormerCrdOwner(_)
            | Conflict::Nobody => Remedy::of(collision),
        }
    }

    /// Whether the revision with this UID is of the same extension, and archived or being deleted.
    fn gives_up(&self, uid: &str) -> bool {
        let has_uid = |set: &&ClusterObjectSet| set.metadata.uid.as_deref() == Some(uid);
        let mut sets = self.all.iter().map(AsRef::as_ref);
        let extension = &self.claim.family.extension;
        !extension.is_empty()
            && sets.find(has_uid).is_some_and(|set| {
                let is_leaving = set.metadata.deletion_timestamp.is_some()
                    || set.spec.lifecycle_state == LifecycleState::Archived;
                is_leaving && extension_of(set) == *extension
            })
    }
}

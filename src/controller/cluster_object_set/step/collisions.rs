//! What helps where objects are there already.

use std::collections::BTreeSet;

use super::{Note, Work};
use crate::api::ClusterObjectSet;
use crate::api::cluster_object_set::{CollisionProtection, LifecycleState};
use crate::api::keys;
use crate::controller::cluster_object_set::account::extension_of;
use crate::revision::collision::Conflict;
use crate::revision::rollout::{Collision, collision_message};
use crate::status::news::News;

/// What to do about an object that is there already, in the order in which it is said.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Remedy {
    /// It can be taken over, if whoever decides says so with one of these values.
    TakeOver(&'static str),
    /// Nobody controls it, and it has the mark of a revision: with that it is never taken over, and without it perhaps
    /// with this value only.
    Unmark(Option<&'static str>),
    /// It cannot be taken over.
    Delete,
    /// This revision of the same extension is on its way out, and gives it up.
    Wait(String),
}

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
        match (&collision.conflict, collision.protection) {
            (Conflict::Controller(owner), _) if self.gives_up(&owner.uid) => {
                Remedy::Wait(owner.name.clone())
            }
            (Conflict::Nobody, CollisionProtection::Prevent) if collision.is_marked => {
                Remedy::Unmark(Some("unowned"))
            }
            (Conflict::Nobody, _) if collision.is_marked => Remedy::Unmark(None),
            (Conflict::FormerCrdOwner(_), CollisionProtection::Prevent) => {
                Remedy::TakeOver("unowned or all")
            }
            (_, CollisionProtection::Prevent) => {
                Remedy::TakeOver("unowned (objects without owner) or all")
            }
            (_, CollisionProtection::IfNoController) => Remedy::TakeOver("all"),
            (_, CollisionProtection::None) => Remedy::Delete,
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

impl Remedy {
    /// As it is said; `extension` is empty where a revision was written by hand.
    fn told(&self, extension: &str) -> String {
        match self {
            Self::TakeOver(values) => format!("delete them, or {}", take_over(extension, values)),
            Self::Unmark(values) => {
                let unmark = format!(
                    "delete those without owner that have annotation {} of an earlier revision, or remove it from them",
                    keys::REVISION
                );
                match values {
                    Some(values) => format!("{unmark} and {}", take_over(extension, values)),
                    None => unmark,
                }
            }
            Self::Delete => "delete them".to_owned(),
            Self::Wait(revision) => {
                format!(
                    "this waits until revision {revision}, which is on its way out, has given them up"
                )
            }
        }
    }
}

fn take_over(extension: &str, values: &str) -> String {
    if extension.is_empty() {
        return "write another ClusterObjectSet with a spec.collisionProtection that takes them over"
            .to_owned();
    }
    let adopt = keys::ADOPT;
    format!("let ClusterExtension {extension} take them over: annotate it with {adopt} {values}")
}

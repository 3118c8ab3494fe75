//! What helps where objects are there already.

use crate::api::cluster_object_set::CollisionProtection;
use crate::api::keys;
use crate::revision::collision::Conflict;
use crate::revision::rollout::Collision;

/// What to do about an object that is there already, in the order in which it is said.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remedy {
    /// It can be taken over, if whoever decides says so with one of these values.
    TakeOver(&'static str),
    /// The same, of a CRD: were it deleted, all its resources would go with it.
    TakeOverCrd(&'static str),
    /// A CRD that its owner left: nobody minds when it is taken over, and what is stored of it would go if it were deleted.
    Inherit,
    /// Nobody controls it, and it has the mark of a revision: with that it is never taken over, and without it perhaps
    /// with this value only.
    Unmark(Option<&'static str>),
    /// It cannot be taken over.
    Delete,
    /// This revision had it and lost it to another one.
    Part,
    /// This revision of the same extension is on its way out, and gives it up.
    Wait(String),
}

impl Remedy {
    /// What helps, unless the owner is about to give the object up.
    pub fn of(collision: &Collision) -> Self {
        let take = if collision.key.gvk.is_crd() {
            Self::TakeOverCrd
        } else {
            Self::TakeOver
        };
        match (&collision.conflict, collision.protection) {
            (Conflict::Nobody, CollisionProtection::Prevent) if collision.is_marked => {
                Self::Unmark(Some("unowned"))
            }
            (Conflict::Nobody, _) if collision.is_marked => Self::Unmark(None),
            (Conflict::FormerCrdOwner(_), CollisionProtection::Prevent) => Self::Inherit,
            (_, CollisionProtection::Prevent) => take("unowned (objects without owner) or all"),
            (_, CollisionProtection::IfNoController) => take("all"),
            (Conflict::Controller(_) | Conflict::CrdOwner(_), CollisionProtection::None) => {
                Self::Part
            }
            (_, CollisionProtection::None) => Self::Delete,
        }
    }

    /// As it is said; `extension` is empty where a revision was written by hand.
    pub fn told(&self, extension: &str) -> String {
        match self {
            Self::TakeOver(values) => format!("delete them, or {}", take_over(extension, values)),
            Self::TakeOverCrd(values) => {
                let take_over = take_over(extension, values);
                format!("{take_over}; a CustomResourceDefinition that is deleted takes all its resources with it")
            }
            Self::Inherit if extension.is_empty() => take_over(extension, ""),
            Self::Inherit => format!(
                "let ClusterExtension {extension} take over what was left, with all that is stored of it: kubectl annotate \
                 clusterextension {extension} {}=unowned",
                keys::ADOPT
            ),
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
            Self::Part => "this had them until somebody else took them over: leave them out of one of both, or delete one of \
                           both"
                .to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::object::{Gvk, ObjectKey};
    use crate::revision::collision::CrdOwner;

    #[test]
    fn what_holds_resources_is_not_to_be_deleted() {
        let collision = |conflict, protection| Collision {
            phase: 0,
            key: ObjectKey {
                gvk: Gvk::crd(),
                namespace: String::new(),
                name: "things.g".to_owned(),
            },
            conflict,
            is_marked: true,
            protection,
        };
        let left = collision(
            Conflict::FormerCrdOwner(CrdOwner::default()),
            CollisionProtection::Prevent,
        );
        assert_eq!(
            Remedy::of(&left).told("e"),
            "let ClusterExtension e take over what was left, with all that is stored of it: kubectl annotate clusterextension e \
             oxolm.dev/adopt=unowned"
        );
        assert!(
            Remedy::of(&left)
                .told("")
                .contains("another ClusterObjectSet")
        );
        let of_another = collision(
            Conflict::CrdOwner(CrdOwner::default()),
            CollisionProtection::Prevent,
        );
        for collision in [
            of_another,
            collision(Conflict::Nobody, CollisionProtection::IfNoController),
        ] {
            let collision = Collision {
                is_marked: false,
                ..collision
            };
            let told = Remedy::of(&collision).told("e");
            assert!(
                !told.contains("delete")
                    || told.ends_with("that is deleted takes all its resources with it"),
                "{told}"
            );
        }
        let taken = collision(
            Conflict::CrdOwner(CrdOwner::default()),
            CollisionProtection::None,
        );
        assert!(
            Remedy::of(&taken)
                .told("e")
                .contains("leave them out of one of both")
        );
    }
}

//! What became of the objects of one revision, and what that means for the revision as a whole.

use crate::api::cluster_object_set::{CollisionProtection, ObservedPhase};
use crate::api::condition::Reason;
use crate::api::object::ObjectKey;
use crate::error::Failure;
use crate::revision::collision::{Conflict, CrdOwner};
use crate::revision::probe::ProbeResult;

/// What was done to one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It did not exist and was created.
    Created,
    /// It was ours and was brought to what it should be.
    Updated,
    /// It was ours, could not be changed, and was deleted and made anew.
    Replaced,
    /// It was taken over from an earlier revision or from nobody.
    Adopted,
    /// It is as it should be.
    Idle,
    /// A later revision has it.
    Progressed,
}

/// One object after a pass.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectReport {
    /// Which.
    pub key: ObjectKey,
    /// What was done.
    pub action: Action,
    /// Whether it is available.
    pub probe: ProbeResult,
}

/// One phase after a pass.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseReport {
    /// Its name.
    pub name: String,
    /// Its objects; empty when the phase was not reached.
    pub objects: Vec<ObjectReport>,
    /// Whether the phase was reached.
    pub is_reached: bool,
}

/// An object that is somebody else's.
#[derive(Debug, Clone, PartialEq)]
pub struct Collision {
    /// The place of its phase, counted from 0.
    pub phase: usize,
    /// Which.
    pub key: ObjectKey,
    /// Whose it is.
    pub conflict: Conflict,
    /// Whether it has the mark of a revision, whoever controls it now.
    pub is_marked: bool,
    /// What is done with an object that exists already.
    pub protection: CollisionProtection,
}

/// How far a revision got.
#[derive(Debug, Clone, PartialEq)]
pub enum Rollout {
    /// Every object is as it should be and available.
    Complete,
    /// Not yet.
    InProgress {
        /// Of each incomplete phase the first object that fails a probe, with the reasons.
        failing: Vec<String>,
        /// Whether all objects are available, and only some are already a later revision's.
        is_available: bool,
    },
    /// It failed: to be tried again, or not, as the failure says.
    Failed(Failure),
    /// It is being taken down: not all objects are gone yet.
    TearingDown {
        /// The objects that are waited for, in words.
        remaining: Vec<String>,
    },
    /// It is taken down.
    Archived,
}

/// What one pass found out about a revision: what its status is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass {
    /// How far it got.
    pub rollout: Rollout,
    /// The digests of the phases as they were first read; none: the content was not read in this pass.
    pub observed_phases: Option<Vec<ObservedPhase>>,
    /// What people should know.
    pub warnings: Vec<Warning>,
}

/// Something to know about a revision.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning {
    /// What kind of thing.
    pub reason: Reason,
    /// One sentence.
    pub sentence: String,
}

impl From<Rollout> for Pass {
    fn from(rollout: Rollout) -> Self {
        Self {
            rollout,
            observed_phases: None,
            warnings: Vec::new(),
        }
    }
}

impl PhaseReport {
    /// Whether every object is available.
    pub fn is_available(&self) -> bool {
        self.is_reached && self.objects.iter().all(|object| object.probe.is_true())
    }

    /// Whether the next phase may begin: every object is available.
    ///
    /// An object that a later revision has is that revision's concern; for this one it only means that the rollout
    /// is not complete.
    pub fn is_complete(&self) -> bool {
        self.is_available()
    }
}

/// Sums up the phases of an active revision, in their order.
pub fn rollout(phases: &[PhaseReport]) -> Rollout {
    let is_progressed = |phase: &PhaseReport| {
        phase
            .objects
            .iter()
            .any(|object| object.action == Action::Progressed)
    };
    let is_available = phases.iter().all(PhaseReport::is_available);
    if is_available && !phases.iter().any(is_progressed) {
        return Rollout::Complete;
    }
    Rollout::InProgress {
        is_available,
        failing: phases.iter().filter_map(first_failing).collect(),
    }
}

fn first_failing(phase: &PhaseReport) -> Option<String> {
    phase
        .objects
        .iter()
        .find(|object| !object.probe.is_true())
        .map(|object| format!("Object {}: {}", object.key, object.probe.message()))
}

impl Collision {
    /// The object and whose it is, as the reference says it.
    pub fn block(&self) -> String {
        format!(
            "Object {}\nAction: \"Collision\"\nConflicting Owner: {}",
            self.key,
            owner_text(&self.conflict)
        )
    }
}

/// The message about objects that are somebody else's, phase by phase.
pub fn collision_message(collisions: &[Collision]) -> String {
    let mut blocks = Vec::new();
    let mut phase = None;
    for collision in collisions {
        let mut block = collision.block();
        if phase != Some(collision.phase) {
            phase = Some(collision.phase);
            block.insert_str(
                0,
                &format!("revision object collisions in phase {}\n", collision.phase),
            );
        }
        blocks.push(block);
    }
    blocks.join("\n\n")
}

fn owner_text(conflict: &Conflict) -> String {
    match conflict {
        Conflict::Controller(owner) => {
            format!(
                "{}.{} {} (uid {})",
                owner.kind, owner.api_version, owner.name, owner.uid
            )
        }
        Conflict::CrdOwner(owner) => crd_owner_text(owner),
        Conflict::FormerCrdOwner(owner) => {
            format!("{}, which is gone and left it", crd_owner_text(owner))
        }
        Conflict::Nobody => "nil".to_owned(),
    }
}

fn crd_owner_text(owner: &CrdOwner) -> String {
    let CrdOwner { family, revision } = owner;
    if family.extension.is_empty() {
        return format!("ClusterObjectSet {revision}");
    }
    format!(
        "ClusterExtension {} (package {}, namespace {}, service account {})",
        family.extension, family.package, family.namespace, family.account
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::object::Gvk;
    use crate::revision::collision::Family;

    fn key(name: &str) -> ObjectKey {
        ObjectKey {
            gvk: Gvk::new("apps/v1", "Deployment"),
            namespace: "n".into(),
            name: name.into(),
        }
    }

    fn phase(objects: &[(&str, Action, ProbeResult)]) -> PhaseReport {
        PhaseReport {
            name: "deploy".into(),
            is_reached: true,
            objects: objects
                .iter()
                .map(|(name, action, probe)| ObjectReport {
                    key: key(name),
                    action: *action,
                    probe: probe.clone(),
                })
                .collect(),
        }
    }

    #[test]
    fn of_each_incomplete_phase_the_first_failing_object_is_named() {
        let no = |text: &str| ProbeResult::False(vec![text.to_owned(), "more".to_owned()]);
        let reports = [
            phase(&[
                ("a", Action::Idle, ProbeResult::True),
                ("b", Action::Idle, no("x")),
                ("c", Action::Idle, no("y")),
            ]),
            phase(&[("d", Action::Created, ProbeResult::Unknown(vec!["z".into()]))]),
        ];
        assert_eq!(
            rollout(&reports),
            Rollout::InProgress {
                failing: vec![
                    "Object Deployment.apps/v1 n/b: x and more".into(),
                    "Object Deployment.apps/v1 n/d: z".into(),
                ],
                is_available: false,
            }
        );
    }

    #[test]
    fn a_revision_is_complete_when_all_is_available_and_its_own() {
        let all = phase(&[("a", Action::Created, ProbeResult::True)]);
        assert_eq!(rollout(std::slice::from_ref(&all)), Rollout::Complete);
        assert_eq!(rollout(&[]), Rollout::Complete);
        let unreached = PhaseReport {
            name: "later".into(),
            objects: Vec::new(),
            is_reached: false,
        };
        let in_progress = |is_available| Rollout::InProgress {
            failing: Vec::new(),
            is_available,
        };
        assert_eq!(rollout(&[all, unreached]), in_progress(false));
        let progressed = phase(&[("a", Action::Progressed, ProbeResult::True)]);
        assert_eq!(rollout(&[progressed]), in_progress(true));
    }

    #[test]
    fn collisions_name_the_object_and_its_owner() {
        let collision = |phase, name, conflict| Collision {
            phase,
            key: key(name),
            conflict,
            is_marked: false,
            protection: CollisionProtection::Prevent,
        };
        let owner = CrdOwner {
            family: Family {
                extension: "other".into(),
                package: "p".into(),
                namespace: "m".into(),
                account: "m/s".into(),
            },
            revision: "other-1".into(),
        };
        assert_eq!(
            collision_message(&[
                collision(2, "a", Conflict::Nobody),
                collision(2, "b", Conflict::CrdOwner(owner.clone())),
                collision(3, "b", Conflict::FormerCrdOwner(owner)),
                collision(4, "c", Conflict::Nobody),
            ]),
            "revision object collisions in phase 2\n\
             Object Deployment.apps/v1 n/a\nAction: \"Collision\"\nConflicting Owner: nil\n\n\
             Object Deployment.apps/v1 n/b\nAction: \"Collision\"\n\
             Conflicting Owner: ClusterExtension other (package p, namespace m, service account m/s)\n\n\
             revision object collisions in phase 3\n\
             Object Deployment.apps/v1 n/b\nAction: \"Collision\"\n\
             Conflicting Owner: ClusterExtension other (package p, namespace m, service account m/s), which is gone and left it\n\n\
             revision object collisions in phase 4\n\
             Object Deployment.apps/v1 n/c\nAction: \"Collision\"\nConflicting Owner: nil"
        );
    }
}

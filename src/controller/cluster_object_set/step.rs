//! One pass over one revision, as far as it gets. It cannot fail: a failure is an outcome.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "acts through the account's client, and certificates have a time"
)]

mod abandoned;
mod asked;
mod collisions;
mod end;
mod others;
mod tell;

use std::sync::Arc;

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::Instant;

pub(super) use self::tell::Note;
use self::tell::renewals;
use crate::api::cluster_object_set::{CollisionProtection, LifecycleState};

use crate::api::object::ObjectKey;
use crate::api::{ClusterObjectSet, GROUP, OBJECT_SETS, VERSION, keys};
use crate::apply::certificates::TOLD;
use crate::apply::content::Content;
use crate::apply::objects::{Objects, revision_stays};
use crate::apply::phases::{Pass as PhasesPass, PhasesError, Remembered};
use crate::apply::revisions::RevisionError;
use crate::apply::secrets::{self, ContentError, Reader};
use crate::controller::cluster_object_set::Context;
use crate::controller::cluster_object_set::account::{account_of, claim_of, has_revision};
use crate::controller::cluster_object_set::memory::Entry;
use crate::controller::metrics::Check;
use crate::error::{self, Classify, Disposition, Failure};
use crate::identity::request::{self, RequestError, path};
use crate::revision::certificates::Wanted;
use crate::revision::collision::{Claim, CrdOwner};
use crate::revision::marks::owner_reference;
use crate::revision::probe;
use crate::revision::rollout::{Pass, Rollout, rollout};
use crate::revision::{Account, has_rolled_out, has_succeeded};

/// What a pass came to.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) pass: Pass,
    /// Whether the `ClusterObjectSet` is gone, or about to be: there is no status to write.
    pub(super) is_gone: bool,
    /// Active revisions that this one replaces once it is complete.
    pub(super) predecessors: Vec<String>,
    /// What else there is to tell.
    pub(super) notes: Vec<Note>,
}

impl From<Rollout> for Step {
    fn from(rollout: Rollout) -> Self {
        Self {
            pass: Pass::from(rollout),
            is_gone: false,
            predecessors: Vec::new(),
            notes: Vec::new(),
        }
    }
}

impl Step {
    fn failed<E: Classify + 'static>(error: &E) -> Self {
        Self::from(Rollout::Failed(Failure::of(error)))
    }

    /// A conflict means that a newer version is on its way, which will be looked at.
    fn unwritten(error: &StepError) -> Self {
        match error {
            StepError::Finalizer { source, .. } if source.is_conflict() => Self::gone(),
            StepError::Finalizer { .. }
            | StepError::Own { .. }
            | StepError::Leaving { .. }
            | StepError::Abandoned(_)
            | StepError::Invalid(_) => Self::failed(error),
        }
    }

    fn gone() -> Self {
        Self {
            is_gone: true,
            ..Self::from(Rollout::Archived)
        }
    }
}

/// A finalizer or probe that is not as it should be.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error("cannot write the finalizers of revision {name}")]
    Finalizer {
        name: String,
        #[source]
        source: RequestError,
    },
    #[error("{0}")]
    Invalid(String),
    #[error("cannot take over the Secrets of revision {name}")]
    Own {
        name: String,
        #[source]
        source: RequestError,
    },
    #[error("revision {name} is being deleted")]
    Leaving { name: String },
    #[error(transparent)]
    Abandoned(RevisionError),
}

impl Classify for StepError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Finalizer { .. } | Self::Own { .. } | Self::Leaving { .. } => Disposition::Retry,
            Self::Abandoned(error) => error.disposition(),
            Self::Invalid(_) => Disposition::Terminal(error::Reason::Blocked),
        }
    }
}

/// Everything a pass works with.
struct Work<'a> {
    ctx: &'a Context,
    set: &'a ClusterObjectSet,
    account: Account,
    client: Client,
    claim: Claim,
    all: Vec<Arc<ClusterObjectSet>>,
}

pub(super) async fn step(ctx: &Context, set: &ClusterObjectSet) -> Step {
    let is_deleting = set.metadata.deletion_timestamp.is_some();
    if is_deleting && !has_finalizer(set) {
        ctx.memory.forget(set);
        return Step::gone();
    }
    let work = match Work::of(ctx, set) {
        Ok(work) => work,
        // Without an account nobody may touch the objects: the garbage collector will.
        Err(_) if is_deleting => return end::release(ctx, set, Vec::new()).await,
        Err(failure) => return Step::from(Rollout::Failed(failure)),
    };
    match (is_deleting, set.spec.lifecycle_state) {
        (true, _) => work.uninstall().await,
        (false, LifecycleState::Archived) => work.archive().await,
        (false, LifecycleState::Active) => work.keep_up().await,
    }
}

impl<'a> Work<'a> {
    fn of(ctx: &'a Context, set: &'a ClusterObjectSet) -> Result<Self, Failure> {
        let account = account_of(&ctx.identity, set).map_err(|error| Failure::of(&error))?;
        let client = ctx
            .identity
            .client_for(&account)
            .map_err(|error| Failure::of(&error))?;
        let all = ctx.sets.all();
        let claim = claim_of(set, &account, all.iter().map(AsRef::as_ref));
        Ok(Self {
            ctx,
            set,
            account,
            client,
            claim,
            all,
        })
    }

    async fn keep_up(self) -> Step {
        if self.is_superseded() {
            // A backup brought it back, or somebody activated it.
            return match self.ctx.revisions().archive(&self.set.name_any()).await {
                Ok(()) => Step::gone(),
                Err(error) => Step::failed(&StepError::Abandoned(error)),
            };
        }
        let mut entry = self.ctx.memory.of(self.set);
        if !has_finalizer(self.set) {
            match self.add_finalizer().await {
                Ok(written) => entry.note_write(&written),
                Err(error) => return Step::unwritten(&error),
            }
        }
        let step = self.roll_out(&mut entry).await;
        let mut step = self.unless_abandoned(step).await;
        let status = self.set.status.as_ref();
        if status.is_some_and(|status| !status.observed_phases.is_empty()) {
            entry.observed_phases = None;
        }
        // Told until it is written down: a write may fail.
        step.pass.observed_phases.clone_from(&entry.observed_phases);
        if step.pass.rollout == Rollout::Complete {
            entry.content = None;
        }
        step.predecessors = self.predecessors();
        step.pass.warnings.extend(entry.warnings.iter().cloned());
        step.pass.warnings.extend(entry.lack.clone());
        step.pass.warnings.extend(self.contested());
        self.ctx.memory.put(self.set, entry);
        step
    }

    async fn roll_out(&self, entry: &mut Entry) -> Step {
        let probes = match probe::parse(&self.set.spec.progression_probes) {
            Ok(probes) => probes,
            Err(error) => return Step::failed(&error),
        };
        let lives = |owner: &CrdOwner| self.lives(owner);
        if takes_all(self.set) {
            entry.had.extend(entry.remembered.held_by(&self.claim.uid));
        }
        let (known, has_succeeded) = (entry.had.clone(), self.has_succeeded());
        let had = |key: &ObjectKey| has_succeeded || known.contains(key);
        let rereads_unwatched = entry
            .read_at
            .is_none_or(|at| at.elapsed() >= self.ctx.reread);
        let awaited_by = |key: &ObjectKey| self.awaited_by(key);
        let bereaved = |name: &str| self.tell_bereaved(name);
        let pass = PhasesPass {
            objects: self.objects(&lives, &had),
            watches: &self.ctx.watches,
            probes: &probes,
            has_succeeded,
            rereads_unwatched,
            certificates: self.wanted_certificates(),
            ahead: TOLD,
            awaited_by: &awaited_by,
            bereaved: &bereaved,
            now: Timestamp::now(),
        };
        if pass.is_settled(&entry.remembered)
            && !self.ctx.identity.accounts().is_missing(&self.account)
            && !self.is_orphan_without_account().await
        {
            self.review(entry).await;
            let looked = pass.look(&mut entry.remembered).await;
            // A watch may have ended since.
            self.note_warnings(entry);
            return match looked {
                Ok(reports) => Step::from(rollout(&reports)),
                Err(error) => Step::failed(&error),
            };
        }
        if let Err(error) = self.ctx.identity.check_exists(&self.account).await {
            return Step::failed(&error);
        }
        let content = match self.content(entry).await {
            Ok(content) => content,
            Err(step) => return *step,
        };
        let was_checked = entry.remembered.is_checked;
        // A revision that was complete once is kept up; what it may not, the API server will say.
        if !was_checked
            && !self.has_succeeded()
            && let Err(step) = self.check(&content).await
        {
            return *step;
        }
        let before = entry.remembered.left.clone();
        let metrics = self.ctx.reporter.metrics();
        let started = Instant::now();
        let applied = pass.apply(&content, &mut entry.remembered).await;
        metrics.applied(applied.is_ok(), started.elapsed());
        let is_upgrade = !self.predecessors().is_empty();
        let applied = applied.map_err(|error| {
            if is_upgrade {
                error.with_webhooks_of(&content)
            } else {
                error
            }
        });
        let error = applied.as_ref().err();
        entry.obstacles = error.map(PhasesError::obstacles).unwrap_or_default();
        match applied {
            Ok(reports) => {
                entry.read_at = Some(Instant::now());
                self.note_warnings(entry);
                let mut notes = self.repairs(&reports, &before);
                notes.extend(renewals(&entry.remembered.certified));
                Step {
                    notes,
                    ..Step::from(rollout(&reports))
                }
            }
            Err(error) => {
                // Who changes what this pass wrote wakes the next one, whatever the time until then was to be.
                self.ctx.memory.note_repair(self.set, Vec::new());
                // What was left is not known: look at everything again.
                entry.remembered = Remembered::default();
                let mut step = match self.lack(&content, &error).await {
                    Some(lack) => Step::failed(&lack),
                    None => Step::failed(&error),
                };
                if let PhasesError::Collisions(collisions) = &error {
                    metrics.refused(Check::Collisions);
                    step.notes.push(self.collision(collisions));
                }
                step
            }
        }
    }

    /// The content: remembered while the revision rolls out, else read.
    async fn content(&self, entry: &mut Entry) -> Result<Arc<Content>, Box<Step>> {
        if let Some(content) = &entry.content {
            return Ok(content.clone());
        }
        let boxed = |step| Box::new(step);
        let resolved = self
            .read()
            .await
            .map_err(|error| boxed(Step::failed(&error)))?;
        if !resolved.unowned.is_empty() {
            let owned = self.own_secrets(&resolved.unowned).await;
            owned.map_err(|error| boxed(Step::failed(&error)))?;
        }
        let content = Arc::new(resolved.content);
        entry.content = Some(content.clone());
        entry.observed_phases = Some(resolved.digests);
        Ok(content)
    }

    /// Takes over Secrets without owner, as after a restore; not those that just lost it because this revision is deleted with
    /// `--cascade=orphan`: by them it is seen later that everything shall stay.
    async fn own_secrets(&self, names: &[String]) -> Result<(), StepError> {
        let (client, name) = (&self.ctx.client, || self.set.name_any());
        let failed = |source| StepError::Own {
            name: name(),
            source,
        };
        let stays = revision_stays(client, &self.claim.name, &self.claim.uid).await;
        if !stays.map_err(failed)? {
            return Err(StepError::Leaving { name: name() });
        }
        let owner = owner_reference(&self.claim);
        let owned = secrets::own(client, &self.ctx.system_namespace, names, &owner).await;
        owned.map_err(failed)
    }

    async fn read(&self) -> Result<secrets::Resolved, ContentError> {
        let (name, uid) = (self.set.name_any(), &self.claim.uid);
        let reader = Reader {
            given: self.ctx.handover.take(&name, uid).await,
            own: &self.ctx.client,
            account: &self.client,
            system_namespace: &self.ctx.system_namespace,
        };
        reader.resolve(self.set).await
    }

    /// The later revision that waits for somebody to delete `key`: it is not to find it put back.
    fn awaited_by(&self, key: &ObjectKey) -> Option<String> {
        let mut later =
            (self.claim.siblings.iter()).filter(|sibling| sibling.revision > self.claim.revision);
        let awaits = later.find(|sibling| self.ctx.memory.awaits(&sibling.uid, key));
        awaits.map(|sibling| sibling.name.clone())
    }

    /// Lets a revision look at once that lost an object to this one.
    fn tell_bereaved(&self, name: &str) {
        if self.all.iter().any(|set| set.name_any() == name) {
            self.ctx.watches.wake(name.to_owned());
        }
    }

    fn wanted_certificates(&self) -> Wanted<'_> {
        let mut siblings = self.claim.siblings.iter();
        let rotation = self.set.annotations().get(keys::ROTATE_CERTIFICATES);
        Wanted {
            rotation: rotation.map(String::as_str),
            is_superseded: siblings.any(|sibling| sibling.revision > self.claim.revision),
        }
    }

    fn objects<'b>(
        &'b self,
        lives: &'b (dyn Fn(&CrdOwner) -> bool + Sync),
        had: &'b (dyn Fn(&ObjectKey) -> bool + Sync),
    ) -> Objects<'b> {
        Objects {
            own: &self.ctx.client,
            account: &self.account,
            client: &self.client,
            discovery: &self.ctx.discovery,
            claim: &self.claim,
            lives,
            had,
        }
    }

    /// Whether the owner that a CRD's mark names still has a revision.
    fn lives(&self, owner: &CrdOwner) -> bool {
        has_revision(owner, &self.all)
    }

    fn has_succeeded(&self) -> bool {
        has_rolled_out(self.set)
    }

    /// Whether a later revision of the extension is installed: then this one has nothing to keep up any more.
    fn is_superseded(&self) -> bool {
        let later = self.claim.siblings.iter();
        let later = later.filter(|sibling| sibling.revision > self.claim.revision);
        let mut sets = later.filter_map(|sibling| {
            let mut all = self.all.iter();
            all.find(|set| set.uid().as_ref() == Some(&sibling.uid))
        });
        sets.any(|set| has_succeeded(set))
    }

    fn predecessors(&self) -> Vec<String> {
        let lower = self
            .claim
            .siblings
            .iter()
            .filter(|sibling| sibling.revision < self.claim.revision);
        // The lowest first: what two of them have is the higher one's, which takes it down when no other wants it any more.
        let mut lower: Vec<_> = lower.collect();
        lower.sort_by_key(|sibling| sibling.revision);
        (lower.into_iter().map(|sibling| sibling.name.clone())).collect()
    }

    async fn add_finalizer(&self) -> Result<Value, StepError> {
        let mut finalizers = self.set.finalizers().to_vec();
        finalizers.push(keys::FINALIZER_TEARDOWN.to_owned());
        write_finalizers(self.ctx, self.set, &finalizers).await
    }
}

/// Whether a revision takes any object from whoever has it.
fn takes_all(set: &ClusterObjectSet) -> bool {
    let phases = set.spec.phases.iter();
    let of_phases = phases.flat_map(|phase| {
        let objects = phase.objects.iter().map(|one| one.collision_protection);
        objects.chain([phase.collision_protection])
    });
    let mut all = of_phases.chain([Some(set.spec.collision_protection)]);
    all.any(|one| one == Some(CollisionProtection::None))
}

/// Replaces the finalizers of the object as we saw it. The answer is null if it is gone.
async fn write_finalizers(
    ctx: &Context,
    set: &ClusterObjectSet,
    finalizers: &[String],
) -> Result<Value, StepError> {
    let patch =
        json!({"metadata": {"resourceVersion": set.resource_version(), "finalizers": finalizers}});
    let parameters = PatchParams {
        field_manager: Some(keys::FIELD_MANAGER_REVISIONS.to_owned()),
        ..PatchParams::default()
    };
    let url = path(GROUP, VERSION, None, OBJECT_SETS);
    let patch = Patch::Merge(patch);
    match request::patch(&ctx.client, &url, &set.name_any(), &parameters, &patch).await {
        Ok(answer) => {
            ctx.memory.written(set, &answer);
            Ok(answer)
        }
        Err(error) if error.is_not_found() => Ok(Value::Null),
        Err(source) => Err(StepError::Finalizer {
            name: set.name_any(),
            source,
        }),
    }
}

fn has_finalizer(set: &ClusterObjectSet) -> bool {
    let mut finalizers = set.finalizers().iter();
    finalizers.any(|finalizer| finalizer == keys::FINALIZER_TEARDOWN)
}

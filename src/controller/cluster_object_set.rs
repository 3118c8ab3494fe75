//! The reconciler of `ClusterObjectSet`: one revision applied, kept up, archived, taken down.
//!
//! Everything that touches the revision's objects is done as the account that its annotations name. A pass over a
//! revision that is complete and unchanged sends no request: what the drift watches see is compared with how the last
//! pass left things ([`memory::Memory`]).

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a reconciler talks to the API server and reads the clock"
)]

pub mod account;
pub mod memory;
mod step;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::api::{ClusterObjectSet, ClusterObjectSetStatus, GROUP, OBJECT_SETS, VERSION, keys};
use crate::apply::discovery::Discovery;
use crate::apply::permissions::Preflight;
use crate::apply::revisions::{RevisionError, Revisions};
use crate::apply::secrets::handover::Handover;
use crate::apply::teardown::CrdDeletion;
use crate::apply::watch::DriftWatches;
use crate::controller::informer::Informer;
use crate::controller::next::Next;
use crate::controller::report::Reporter;
use crate::controller::written::Written;
use crate::error::{Disposition, chain};
use crate::identity::Identity;
use crate::identity::request::{self, path};
use crate::revision::rollout::Rollout;
use crate::status::cluster_object_set as status;
use crate::status::transition::{self, Transition, Weight};
use memory::Memory;
use step::Step;

#[cfg(test)]
mod tests;

/// How soon a teardown that waits for others looks again. The reference's figure.
const TEARDOWN_AGAIN: Duration = Duration::from_secs(5);
/// How soon a revision whose content was tampered with is looked at again: Secrets are not watched.
const BLOCKED_AGAIN: Duration = Duration::from_mins(1);
/// How soon, at first, an object is looked at again that is not available and not watched.
const LOOK_SOONEST: Duration = Duration::from_secs(2);
/// How soon it is looked at again after a long time.
const LOOK_LATEST: Duration = Duration::from_mins(1);
/// How soon a revision is looked at that was woken before the cache had our own write.
const WRITE_ARRIVES: Duration = Duration::from_millis(100);
/// How often a rollout is looked at that nobody wakes. Where nothing changed, that asks the API server nothing.
const LOOK_ANYWAY: Duration = Duration::from_secs(15);
/// How soon it is looked whether somebody who wrote our objects again and again has stopped. That asks nothing.
const CONTESTED_AGAIN: Duration = Duration::from_mins(1);
/// The longest time between two looks at certificates, for clocks that are set. Where nothing is due, that asks nothing.
const CERTIFICATES_LATEST: Duration = Duration::from_hours(24);
/// The time between two looks for watches that nobody needs.
const TIDY_PERIOD: Duration = Duration::from_mins(5);

/// What the reconciler works with.
pub struct Context {
    /// The controller's own client.
    pub client: Client,
    /// Acts as accounts.
    pub identity: Identity,
    /// All revisions.
    pub sets: Informer<ClusterObjectSet>,
    /// What kinds are called.
    pub discovery: Arc<Discovery>,
    /// What is seen without asking.
    pub watches: Arc<DriftWatches>,
    /// Who passed the permission preflight.
    pub preflight: Arc<Preflight>,
    /// The Secrets of revisions that were made just now.
    pub handover: Arc<Handover>,
    /// How the last pass left things.
    pub memory: Memory,
    /// The statuses that were written.
    pub written: Written,
    /// The namespace that oxolm runs in, which holds the Secrets of revisions.
    pub system_namespace: String,
    /// What happens to CRDs that are no longer wanted, unless the extension says otherwise.
    pub crd_deletion: CrdDeletion,
    /// How often objects are read whose changes nobody sees.
    pub reread: Duration,
    /// Writes Events.
    pub reporter: Reporter,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

impl Context {
    /// Writes revisions as the controller itself.
    pub fn revisions(&self) -> Revisions<'_> {
        Revisions {
            client: &self.client,
            system_namespace: &self.system_namespace,
            handover: &self.handover,
            now: Timestamp::now(),
        }
    }
}

/// Now and then lets go of what belongs to revisions that are gone.
pub async fn tidy(ctx: Arc<Context>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(TIDY_PERIOD) => {}
        }
        let live = ctx.sets.all().iter().filter_map(|set| set.uid()).collect();
        ctx.memory.tidy(&live, &ctx.watches);
    }
}

/// One pass over one revision.
pub async fn reconcile(ctx: Arc<Context>, set: Arc<ClusterObjectSet>) -> Next {
    if ctx.memory.is_outdated(&set) {
        // Our own write is about to arrive. It wakes nobody, but who woke us may have something to tell.
        return Next::After(WRITE_ARRIVES);
    }
    if let Some(calm) = ctx.memory.calms_down(&set) {
        return Next::After(calm);
    }
    let step = step::step(&ctx, &set).await;
    let status = status::cluster_object_set(&set, &step.pass, Timestamp::now());
    match report(&ctx, &set, &step, status).await {
        Ok(()) => next(&ctx, &set, &step),
        Err(error) => {
            warn!(
                object = set.name_any(),
                error = chain(&error),
                "cannot report on a revision"
            );
            Next::Retry
        }
    }
}

/// Why a pass is not over, although it knows what to say.
#[derive(Debug, Error)]
enum ReportError {
    /// The status could not be written.
    #[error("cannot write the status")]
    Status(#[from] request::RequestError),
    /// The mark of success could not be written.
    #[error("cannot mark the revision as succeeded")]
    Mark(#[source] request::RequestError),
    /// A revision that this one replaces could not be archived.
    #[error(transparent)]
    Archive(#[from] RevisionError),
}

/// Writes the status if it differs, tells about transitions, and archives the revisions that this one replaces.
async fn report(
    ctx: &Context,
    set: &ClusterObjectSet,
    step: &Step,
    status: ClusterObjectSetStatus,
) -> Result<(), ReportError> {
    let before = set.status.clone().unwrap_or_default();
    ctx.written.note(set, &status);
    if before != status && !step.is_gone {
        let url = path(GROUP, VERSION, None, OBJECT_SETS);
        let manager = keys::FIELD_MANAGER_REVISIONS;
        let patch = json!({"status": status});
        match request::patch_status(&ctx.client, &url, &set.name_any(), manager, patch).await {
            Ok(written) => ctx.memory.written(set, &written),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if step.pass.rollout != Rollout::Complete {
            // What they had is looked at by this revision now, and they still tell how it is.
            for name in &step.predecessors {
                ctx.watches.wake(name.clone());
            }
        }
    }
    tell(ctx, set, step, &before, &status).await;
    if step.pass.rollout == Rollout::Complete {
        mark_succeeded(ctx, set).await?;
        archive_predecessors(ctx, set, step).await?;
    }
    Ok(())
}

/// Marks a revision of an extension that is complete for the first time, and forgets who set which of its fields.
async fn mark_succeeded(ctx: &Context, set: &ClusterObjectSet) -> Result<(), ReportError> {
    let is_extensions = |owner: &OwnerReference| owner.kind == keys::OWNER_KIND_CLUSTER_EXTENSION;
    let is_marked = set.annotations().contains_key(keys::SUCCEEDED);
    if is_marked || !set.owner_references().iter().any(is_extensions) {
        return Ok(());
    }
    let patch = json!({"metadata": {
        "uid": set.metadata.uid,
        "annotations": {keys::SUCCEEDED: "true"},
        "managedFields": request::no_record(),
    }});
    let parameters = PatchParams {
        field_manager: Some(keys::FIELD_MANAGER_REVISIONS.to_owned()),
        ..PatchParams::default()
    };
    let (url, patch) = (path(GROUP, VERSION, None, OBJECT_SETS), Patch::Merge(patch));
    match request::patch(&ctx.client, &url, &set.name_any(), &parameters, &patch).await {
        Ok(written) => ctx.memory.written(set, &written),
        // It is gone, and perhaps another one has its name.
        Err(error) if error.is_not_found() || error.is_conflict() => {}
        Err(error) => return Err(ReportError::Mark(error)),
    }
    Ok(())
}

/// Archives what this revision replaces.
///
/// # Errors
/// When one cannot be archived, after the others are.
async fn archive_predecessors(
    ctx: &Context,
    set: &ClusterObjectSet,
    step: &Step,
) -> Result<(), ReportError> {
    let mut result = Ok(());
    for name in &step.predecessors {
        match ctx.revisions().archive(name).await {
            Ok(()) => info!(revision = name, by = set.name_any(), "archived a revision"),
            Err(RevisionError::Patch { source, .. }) if source.is_not_found() => {}
            Err(error) => result = Err(error.into()),
        }
    }
    result
}

/// One Event and one log line for each transition.
async fn tell(
    ctx: &Context,
    set: &ClusterObjectSet,
    step: &Step,
    before: &ClusterObjectSetStatus,
    after: &ClusterObjectSetStatus,
) {
    let progress = transition::progress(&before.conditions, &after.conditions);
    for note in &step.notes {
        // What was said before is not said again while it is so.
        if note.is_state && progress.is_none() {
            continue;
        }
        let transition = Transition {
            weight: if note.is_warning {
                Weight::Warning
            } else {
                Weight::Normal
            },
            reason: note.news.as_str().to_owned(),
            note: note.text.clone(),
        };
        ctx.reporter.publish(set, &transition).await;
    }
    if let Some(progress) = progress.filter(|_| !step.is_gone) {
        ctx.reporter.publish(set, &progress).await;
    }
}

/// How soon an object that is not available, and whose changes are not seen, is looked at again: the longer it takes,
/// the less soon.
fn look_again(age: Duration) -> Duration {
    (age / 10).clamp(LOOK_SOONEST, LOOK_LATEST)
}

/// How long ago a revision was made.
fn age(set: &ClusterObjectSet) -> Duration {
    let created = set.metadata.creation_timestamp.as_ref();
    created
        .and_then(|created| Duration::try_from(Timestamp::now().duration_since(created.0)).ok()) // A clock ahead of ours.
        .unwrap_or_default()
}

/// When to look again without a change.
fn next(ctx: &Context, set: &ClusterObjectSet, step: &Step) -> Next {
    let until_late = status::deadline(set).and_then(|deadline| {
        let left = deadline.duration_since(Timestamp::now());
        Duration::try_from(left).ok().filter(|left| !left.is_zero())
    });
    let certificates = ctx.memory.certified_until(set).map(|until| {
        let left = until.duration_since(Timestamp::now());
        // What is over is due at once.
        let left = Duration::try_from(left).unwrap_or_default();
        left.clamp(WRITE_ARRIVES, CERTIFICATES_LATEST)
    });
    let is_contested = !ctx.memory.contested(set).is_empty();
    let over = is_contested.then_some(CONTESTED_AGAIN);
    let is_unwatched = ctx.memory.is_unwatched(set);
    let reread = is_unwatched.then_some(ctx.reread);
    match &step.pass.rollout {
        _ if step.is_gone => Next::OnChange,
        Rollout::Failed(failure) => match failure.disposition {
            Disposition::Retry => Next::Retry,
            Disposition::Terminal(_) => Next::Blocked(Some(BLOCKED_AGAIN)),
        },
        Rollout::TearingDown { .. } => Next::After(TEARDOWN_AGAIN),
        Rollout::Archived => Next::OnChange,
        Rollout::Complete => soonest([reread, certificates, over]),
        Rollout::InProgress { .. } => {
            let is_polled = ctx.memory.is_to_be_polled(set);
            let look = is_polled.then(|| look_again(age(set)));
            soonest([until_late, look, Some(LOOK_ANYWAY), certificates])
        }
    }
}

fn soonest<const N: usize>(times: [Option<Duration>; N]) -> Next {
    let soonest = times.into_iter().flatten().min();
    soonest.map_or(Next::OnChange, Next::After)
}

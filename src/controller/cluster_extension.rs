//! `ClusterExtension`: observe revisions, resolve, render, plan, roll out; on deletion, uninstall.
//!
//! Resolution always runs, also while a revision is rolling out, so a stuck rollout is superseded by a change of spec
//! or catalog. What is installed is maintained whatever becomes of resolution: the revision keeps its objects, and a
//! changed configuration is applied to the installed bundle.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "extensions are patched, in time"
)]

mod annotations;
mod before;
pub(crate) mod choose;
mod content;
mod crds;
mod memory;
mod object;
mod observe;
mod orphaned;
mod reported;
mod rights;
mod roll_out;
mod strangers;
#[cfg(test)]
mod tests;
mod uninstall;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, ResourceExt as _};
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tracing::info;

pub use self::memory::Memory;
use self::object::{report, write_finalizer};
use self::observe::{identity_of, observed, revisions, stuck, with_created};
pub use self::orphaned::Orphaned;
use self::roll_out::Wish;
use self::uninstall::{Taken, uninstall};
use crate::api::condition::Reason;
use crate::api::{ClusterCatalog, ClusterExtension, ClusterObjectSet, keys};
use crate::apply::discovery::Discovery;
use crate::apply::permissions::Preflight;
use crate::apply::revisions::Revisions;
use crate::apply::secrets::handover::Handover;
use crate::controller::cluster_operator::Known;
use crate::controller::informer::Informer;
use crate::controller::next::Next;
use crate::controller::queue::Queue;
use crate::controller::report::{Reporter, unwritten};
use crate::controller::written::Written;
use crate::error::{Disposition, Failure};
use crate::fetch::Fetcher;
use crate::identity::accounts::Accounts;
use crate::identity::{Identity, IdentityError};
use crate::render::Provider;
use crate::resolve::{MajorUpgrades, Query, ResolveError, ResolvedBundle, Target};
use crate::revision::{self, Account, BundleIdentity, Revision};
use crate::serve::Served;
use crate::status::cluster_extension::{Outcome, Warning, cluster_extension};
use crate::upgradeable::{ActiveBundle, Minor, notice};

/// The time between two looks at what is being taken down; its changes are seen at once anyway.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// How soon an extension is looked at again that is newer than the cache.
const BEHIND: Duration = Duration::from_millis(100);
/// How far apart a backup tool may restore an extension and its revisions while we look on.
const RESTORED_TOGETHER: SignedDuration = SignedDuration::from_secs(30);
/// How long after one restored revision another may come.
const ARRIVED_AFTER: SignedDuration = SignedDuration::from_secs(3);
/// How soon restored revisions are looked for again.
const REVISIONS_ARRIVE: Duration = Duration::from_secs(1);

/// What the reconciler needs.
pub struct Context {
    /// Writes as oxolm itself.
    pub client: Client,
    /// Acts as accounts.
    pub identity: Identity,
    /// All catalogs.
    pub catalogs: Informer<ClusterCatalog>,
    /// All revisions.
    pub sets: Informer<ClusterObjectSet>,
    /// The content of the catalogs.
    pub served: Served,
    /// Brings images to disk.
    pub fetcher: Fetcher,
    /// The Secrets of revisions that were made just now.
    pub handover: Arc<Handover>,
    /// Where the content of revisions is kept.
    pub system_namespace: String,
    /// What kinds are called.
    pub discovery: Arc<Discovery>,
    /// When rights changed.
    pub accounts: Arc<Accounts>,
    /// What accounts are known to be allowed.
    pub preflight: Arc<Preflight>,
    /// Events.
    pub reporter: Reporter,
    /// What a higher major version takes.
    pub major_upgrades: MajorUpgrades,
    /// Who makes webhook certificates for extensions that have none yet; none: what the cluster offers.
    pub certificates: Option<Provider>,
    /// Wakes extensions.
    pub queue: Queue,
    /// The statuses that were written.
    pub written: Written,
    /// Which were deleted with `--cascade=orphan`.
    pub orphaned: Orphaned,
    /// What is known of each extension beside its objects.
    pub memory: Memory,
    /// The cluster's version, where it is `OpenShift`.
    pub openshift: Arc<Known>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl Context {
    fn revisions(&self) -> Revisions<'_> {
        Revisions {
            client: &self.client,
            system_namespace: &self.system_namespace,
            handover: &self.handover,
            now: Timestamp::now(),
        }
    }
}

/// One pass over one extension.
pub async fn reconcile(seen: Arc<ClusterExtension>, ctx: Arc<Context>) -> Next {
    let mut extension = ctx.memory.reported.newest(seen);
    if let Err(error) = write_finalizer(&extension, &ctx).await {
        return unwritten(&error, "the extension's finalizers");
    }
    if is_ahead_of_its_revisions(&extension, &ctx) {
        info!(
            extension = extension.name_any(),
            "restored from a backup: waiting for its revisions, which tell what is installed"
        );
        return Next::After(REVISIONS_ARRIVE);
    }
    let outcome = if extension.metadata.deletion_timestamp.is_some() {
        match uninstall(&extension, &ctx).await {
            Taken::NotYet(outcome) => *outcome,
            Taken::Gone => return Next::OnChange,
            Taken::Changed => return Next::After(BEHIND),
        }
    } else {
        let (outcome, told) = step(&extension, &ctx).await;
        extension = told;
        outcome
    };
    let status = cluster_extension(&extension, &outcome, Timestamp::now());
    if let Err(error) = report(&extension, &status, &ctx).await {
        return unwritten(&error, "the extension's status");
    }
    next(&outcome)
}

/// Whether an extension was restored from a backup just now, and its revisions, by which it is known what is installed, are
/// still to come: it has our finalizer, as none has that somebody writes, and nothing else of ours. A process that ended
/// between finalizer and status leaves the same; so the wait is short.
fn is_ahead_of_its_revisions(extension: &ClusterExtension, ctx: &Context) -> bool {
    let is_marked = (extension.finalizers().iter()).any(|it| it == keys::FINALIZER_UNINSTALL);
    let is_known = (extension.status.as_ref()).is_some_and(|status| !status.conditions.is_empty());
    let is_within = |metadata: &ObjectMeta, time| {
        let created = metadata.creation_timestamp.as_ref();
        created.is_some_and(|created| Timestamp::now().duration_since(created.0).abs() < time)
    };
    let are_arriving = || {
        let account = extension.spec.service_account_name();
        let account = (ctx.identity).account_for(&extension.spec.namespace, account);
        let own = revisions(&identity_of(extension, account.ok()), ctx);
        let is_own = |set: &ClusterObjectSet| own.iter().any(|one| one.name == set.name_any());
        let mut sets = ctx.sets.all().into_iter();
        own.is_empty() || sets.any(|set| is_own(&set) && is_within(&set.metadata, ARRIVED_AFTER))
    };
    is_marked
        && !is_known
        && extension.metadata.deletion_timestamp.is_none()
        && is_within(&extension.metadata, RESTORED_TOGETHER)
        && are_arriving()
}

fn next(outcome: &Outcome) -> Next {
    match outcome {
        Outcome::Unobserved { failure, .. }
        | Outcome::Unresolved { failure, .. }
        | Outcome::Stuck { failure, .. } => match failure.disposition {
            Disposition::Retry => Next::Retry,
            Disposition::Terminal(_) => Next::Blocked(None),
        },
        Outcome::Applied { .. } => Next::OnChange,
        Outcome::Uninstalling { .. } => Next::After(LOOK_AGAIN),
    }
}

/// How far a pass gets, and the extension with what was told on the way. It cannot fail: a failure is an outcome.
async fn step(
    extension: &Arc<ClusterExtension>,
    ctx: &Context,
) -> (Outcome, Arc<ClusterExtension>) {
    let mut told = extension.clone();
    let outcome = go(extension, ctx, &mut told).await;
    (outcome, told)
}

async fn go(
    extension: &Arc<ClusterExtension>,
    ctx: &Context,
    told: &mut Arc<ClusterExtension>,
) -> Outcome {
    let account = ctx.identity.account_for(
        &extension.spec.namespace,
        extension.spec.service_account_name(),
    );
    let identity = identity_of(extension, account.as_ref().ok().cloned());
    let revisions = revisions(&identity, ctx);
    let observed = observed(&revisions);
    let account = match existing(account, ctx).await {
        Ok(account) => account,
        Err(error) => {
            return Outcome::Unobserved {
                failure: Failure::of(&error),
                observed,
            };
        }
    };
    // Those that were restored or orphaned are to go when the extension goes, whatever becomes of resolution.
    if let Err(error) = ctx.revisions().take_back(&identity, &revisions).await {
        return Outcome::Unobserved {
            failure: Failure::of(&error),
            observed,
        };
    }
    let mut noted = openshift_blocks(extension, &revisions, ctx.openshift.current());
    noted.extend(annotations::without_effect(extension));
    noted.extend(stuck(&revisions));
    let installed = revision::states(&revisions)
        .installed
        .map(|revision| revision.bundle);
    let query = choose::query(extension, installed.as_ref(), ctx.major_upgrades);
    let started = Instant::now();
    let (catalogs, served, asked) = (ctx.catalogs.all(), ctx.served.clone(), query.clone());
    // Reading a package from disk may take a few milliseconds.
    let resolution = match spawn_blocking(move || choose::resolve(&asked, &catalogs, &served)).await
    {
        Ok(resolution) => resolution,
        Err(_panicked) => {
            let failure = Failure {
                message: "resolving was interrupted".to_owned(),
                disposition: Disposition::Retry,
            };
            return Outcome::Unobserved { failure, observed };
        }
    };
    let metrics = ctx.reporter.metrics();
    metrics.resolved(resolution.outcome.is_ok(), started.elapsed());
    let said = choose::resolution_status(&resolution, &query, installed.as_ref());
    let target = resolution.target(&query);
    let bundle = match (&target, &installed) {
        (Ok(Target::Bundle(bundle)), _) => identity_of_bundle(bundle),
        (Ok(Target::Installed(_)) | Err(_), Some(installed)) => installed.clone(),
        (Ok(Target::Installed(_)), None) => BundleIdentity::default(),
        (Err(error), None) => {
            return Outcome::Unresolved {
                failure: Failure::of(error),
                observed,
                resolution: said,
                warnings: noted,
            };
        }
    };
    let mut warnings = warnings_of(&target, installed.as_ref());
    warnings.extend(crds::noted(&revisions));
    warnings.extend(noted);
    warnings.extend(rights::noted(&revisions));
    warnings.extend(observed.warnings());
    if revisions.last().is_some_and(Revision::lacks_secrets) {
        ctx.memory.unsettle(&identity.name);
    }
    let mut wish = Wish {
        extension: extension.clone(),
        identity,
        account,
        revisions,
        installed,
        bundle,
    };
    let rolled_out = if goes_on(&wish, &target, &query) {
        Ok(None)
    } else {
        wish.roll_out(ctx, &mut warnings).await
    };
    *told = wish.extension;
    // Read again: a revision may have been created, and its object is in the answer of the API server, not in the cache.
    match (target, rolled_out) {
        (Err(error), _) => Outcome::Unresolved {
            failure: Failure::of(&error),
            observed,
            resolution: said,
            warnings,
        },
        (Ok(_), Ok(created)) => {
            let observed = with_created(observed, created);
            Outcome::Applied {
                observed,
                resolution: said,
                warnings,
            }
        }
        (Ok(_), Err(error)) => Outcome::Stuck {
            failure: Failure::of(&error),
            observed,
            resolution: said,
            warnings,
        },
    }
}

/// Whether a rollout to another bundle is left to go on although that bundle is not chosen any more, because none is:
/// catalogs that cannot be read or are gone take nothing back. Whoever asks for the installed version does.
fn goes_on(wish: &Wish, target: &Result<Target, ResolveError>, query: &Query) -> bool {
    let nothing_chosen = !matches!(target, Ok(Target::Bundle(_)));
    let is_on_its_way = |newest: &Revision| {
        let to = |bundle: &BundleIdentity| (bundle.name.clone(), bundle.version.clone());
        newest.is_active()
            && !newest.is_succeeded
            && wish.installed.as_ref().map(to) != Some(to(&newest.bundle))
    };
    let installed = wish.installed.as_ref().map(|bundle| &bundle.version);
    nothing_chosen
        && Some(&query.version) != installed
        && wish.revisions.last().is_some_and(is_on_its_way)
}

/// What of the extension keeps `OpenShift` from its next minor version.
fn openshift_blocks(
    extension: &ClusterExtension,
    revisions: &[Revision],
    current: Option<Minor>,
) -> Vec<Warning> {
    let Some(current) = current else {
        return vec![];
    };
    let override_text = extension.annotations().get(keys::MAX_OPENSHIFT_VERSION);
    let active: Vec<ActiveBundle> = revisions
        .iter()
        .filter(|revision| revision.is_active())
        .map(|revision| ActiveBundle {
            extension: extension.name_any(),
            bundle: revision.bundle.name.clone(),
            properties: revision.annotations.get(keys::OLM_PROPERTIES).cloned(),
            override_text: override_text.cloned(),
        })
        .collect();
    let warning = |sentence| Warning {
        reason: Reason::ClusterUpgradeBlocked,
        sentence,
    };
    notice::sentences(current, &active)
        .into_iter()
        .map(warning)
        .collect()
}

async fn existing(
    account: Result<Account, IdentityError>,
    ctx: &Context,
) -> Result<Account, IdentityError> {
    let account = account?;
    ctx.identity.check_exists(&account).await?;
    Ok(account)
}

fn identity_of_bundle(bundle: &ResolvedBundle) -> BundleIdentity {
    BundleIdentity {
        name: bundle.name.clone(),
        package: bundle.package.clone(),
        version: bundle.version.to_string(),
        release: bundle.release.as_ref().map(ToString::to_string),
        reference: bundle.image.clone(),
        digest: None,
        catalog: Some(bundle.catalog.clone()),
    }
}

fn warnings_of<E>(target: &Result<Target, E>, installed: Option<&BundleIdentity>) -> Vec<Warning> {
    let (Ok(Target::Bundle(bundle)), Some(installed)) = (target, installed) else {
        return vec![];
    };
    let Some(major) = bundle.leaves_major else {
        return vec![];
    };
    vec![Warning {
        reason: Reason::MajorUpgrade,
        sentence: format!(
            "The upgrade from {} to {} crosses a major version; set version: \"{major}.x\" to stay below it.",
            installed.version, bundle.version
        ),
    }]
}

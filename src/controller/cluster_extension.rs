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

pub(crate) mod choose;
mod content;
mod crd_findings;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use crate::api::cluster_extension::CrdUpgradeSafetyEnforcement;
use crate::api::cluster_object_set::CollisionProtection;
use crate::api::condition::{self, ConditionType, Reason};
use crate::api::{
    ClusterCatalog, ClusterExtension, ClusterExtensionStatus, ClusterObjectSet, keys,
};
use crate::apply::crd_upgrade::{CrdUpgradeCheck, CrdUpgradeError, Resources};
use crate::apply::discovery::{Discovery, ServerVersionError};
use crate::apply::permissions::{Preflight, PreflightError, Preflighter};
use crate::apply::revisions::{Ensured, RevisionError, Revisions, Uninstall};
use crate::bundle::requirement::{KubernetesError, check_kubernetes, minimum_kubernetes};
use crate::controller::cluster_extension::content::{Content, ContentError, Rendered, Tags};
use crate::controller::cluster_extension::crd_findings::CrdFindings;
use crate::controller::informer::Informer;
use crate::controller::queue::Next;
use crate::controller::report::{Reporter, status_patch, unwritten};
use crate::error::{Classify, Disposition, Failure, chain};
use crate::fetch::Fetcher;
use crate::identity::accounts::Accounts;
use crate::identity::{Identity, IdentityError};
use crate::oci::digest::Digest;
use crate::oci::reference::CanonicalReference;
use crate::render::Provider;
use crate::resolve::{MajorUpgrades, ResolvedBundle, Target};
use crate::revision::plan::{Desired, RevisionPlan, object_marks, plan};
use crate::revision::{self, Account, BundleIdentity, Extension, Revision, phase, probe};
use crate::serve::Served;
use crate::status::cluster_extension::{
    self as status, Observed, Outcome, Warning, cluster_extension,
};

/// The time between two looks at what is being taken down; its changes are seen at once anyway.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// The finalizer of `kubectl delete --cascade=orphan`.
const ORPHAN: &str = "orphan";

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
    /// Who makes webhook certificates for extensions that have none yet.
    pub certificates: Provider,
    /// What is known of each extension beside its objects.
    pub memory: Memory,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// What is remembered between passes. All of it can be had again.
#[derive(Debug, Default)]
pub struct Memory {
    tags: Tags,
    rendered: Rendered,
    /// The inputs of the last plan that found nothing to do, by extension: the same inputs need no rendering.
    settled: Mutex<BTreeMap<String, String>>,
    crd_findings: CrdFindings,
}

impl Memory {
    fn is_settled(&self, extension: &str, inputs: &str) -> bool {
        let settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        settled.get(extension).is_some_and(|known| known == inputs)
    }

    fn settle(&self, extension: &str, inputs: String) {
        self.settled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(extension.to_owned(), inputs);
    }

    fn forget(&self, extension: &str) {
        self.settled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(extension);
        self.tags.forget(extension);
        self.crd_findings.forget(extension);
    }
}

/// Why the chosen bundle is not rolled out. The prefix is the reference's.
#[derive(Debug, thiserror::Error)]
#[error("error for resolved bundle {name:?} with version {version:?}")]
struct StuckError {
    name: String,
    version: String,
    source: RolloutError,
}

#[derive(Debug, thiserror::Error)]
enum RolloutError {
    #[error(transparent)]
    Content(#[from] ContentError),
    #[error(transparent)]
    Permission(#[from] PreflightError),
    #[error(transparent)]
    CrdUpgrade(#[from] CrdUpgradeError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Revision(#[from] RevisionError),
    #[error(transparent)]
    Phase(#[from] phase::PhaseError),
    #[error(transparent)]
    ServerVersion(#[from] ServerVersionError),
    #[error(transparent)]
    Kubernetes(#[from] KubernetesError),
}

impl Classify for StuckError {
    fn disposition(&self) -> Disposition {
        match &self.source {
            RolloutError::Content(error) => error.disposition(),
            RolloutError::Permission(error) => error.disposition(),
            RolloutError::CrdUpgrade(error) => error.disposition(),
            RolloutError::Identity(error) => error.disposition(),
            RolloutError::Revision(error) => error.disposition(),
            RolloutError::Phase(error) => error.disposition(),
            // Clusters are upgraded.
            RolloutError::ServerVersion(_) | RolloutError::Kubernetes(_) => Disposition::Retry,
        }
    }
}

/// One pass over one extension.
pub async fn reconcile(extension: Arc<ClusterExtension>, ctx: Arc<Context>) -> Next {
    if let Err(error) = write_finalizer(&extension, &ctx).await {
        return unwritten(&error, "the extension's finalizers");
    }
    let outcome = if extension.metadata.deletion_timestamp.is_some() {
        match uninstall(&extension, &ctx).await {
            Some(outcome) => outcome,
            None => return Next::OnChange,
        }
    } else {
        step(&extension, &ctx).await
    };
    let status = cluster_extension(&extension, &outcome, Timestamp::now());
    if let Err(error) = report(&extension, &status, &ctx).await {
        return unwritten(&error, "the extension's status");
    }
    next(&outcome)
}

fn next(outcome: &Outcome) -> Next {
    match outcome {
        Outcome::Unobserved { failure, .. }
        | Outcome::Unresolved { failure, .. }
        | Outcome::Stuck { failure, .. } => match failure.disposition {
            Disposition::Retry => Next::Retry,
            Disposition::Terminal(_) => Next::OnChange,
        },
        Outcome::Applied { .. } => Next::OnChange,
        Outcome::Uninstalling { .. } => Next::After(LOOK_AGAIN),
    }
}

/// How far a pass gets. It cannot fail: a failure is an outcome.
async fn step(extension: &Arc<ClusterExtension>, ctx: &Context) -> Outcome {
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
    if let Err(error) = take_back(&identity, &revisions, ctx).await {
        return Outcome::Unobserved {
            failure: Failure::of(&error),
            observed,
        };
    }
    let installed = revision::states(&revisions)
        .installed
        .map(|revision| revision.bundle);
    let query = choose::query(extension, installed.as_ref(), ctx.major_upgrades);
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
                warnings: vec![],
            };
        }
    };
    let mut warnings = warnings_of(&target, installed.as_ref());
    let wish = Wish {
        extension: extension.clone(),
        identity,
        account,
        revisions,
        installed,
        bundle,
    };
    let rolled_out = wish.roll_out(ctx, &mut warnings).await;
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

/// Becomes the owner of revisions that were restored or orphaned, whatever becomes of resolution: they are to go when
/// the extension goes.
async fn take_back(
    extension: &Extension,
    revisions: &[Revision],
    ctx: &Context,
) -> Result<(), RevisionError> {
    let operations = Revisions {
        client: &ctx.client,
        system_namespace: &ctx.system_namespace,
    };
    operations.take_back(extension, revisions).await
}

async fn existing(
    account: Result<Account, IdentityError>,
    ctx: &Context,
) -> Result<Account, IdentityError> {
    let account = account?;
    ctx.identity.check_exists(&account).await?;
    Ok(account)
}

fn identity_of(extension: &ClusterExtension, account: Option<Account>) -> Extension {
    Extension {
        name: extension.name_any(),
        uid: extension.uid().unwrap_or_default(),
        account,
    }
}

fn revisions(extension: &Extension, ctx: &Context) -> Vec<Revision> {
    let sets = ctx.sets.all();
    revision::revisions_of(sets.iter().map(AsRef::as_ref), extension)
}

fn observed(revisions: &[Revision]) -> Observed {
    let states = revision::states(revisions);
    Observed {
        installed: states.installed.as_ref().map(revision_status),
        rolling_out: states.rolling_out.iter().map(revision_status).collect(),
    }
}

fn with_created(mut observed: Observed, created: Option<status::Revision>) -> Observed {
    if let Some(created) = created
        && !observed
            .rolling_out
            .iter()
            .any(|revision| revision.name == created.name)
    {
        observed.rolling_out.push(created);
    }
    observed
}

fn revision_status(revision: &Revision) -> status::Revision {
    status::Revision {
        name: revision.name.clone(),
        number: revision.number,
        bundle: bundle_metadata(&revision.bundle),
        reference: revision.bundle.reference.clone(),
        catalog: revision.bundle.catalog.clone(),
        conditions: revision.conditions.clone(),
    }
}

fn bundle_metadata(bundle: &BundleIdentity) -> crate::api::cluster_extension::BundleMetadata {
    crate::api::cluster_extension::BundleMetadata {
        name: bundle.name.clone(),
        version: bundle.version.clone(),
        release: bundle.release.clone(),
    }
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

/// What is to be rolled out for whom.
struct Wish {
    extension: Arc<ClusterExtension>,
    identity: Extension,
    account: Account,
    revisions: Vec<Revision>,
    installed: Option<BundleIdentity>,
    bundle: BundleIdentity,
}

impl Wish {
    /// Makes the newest revision be the wished one; the revision that was created, if one was.
    async fn roll_out(
        mut self,
        ctx: &Context,
        warnings: &mut Vec<Warning>,
    ) -> Result<Option<status::Revision>, StuckError> {
        let (name, version) = (self.bundle.name.clone(), self.bundle.version.clone());
        let stays = self.is_installed();
        match self.try_roll_out(ctx, warnings).await {
            Ok(created) => Ok(created),
            // What is installed stays while its image cannot be had, unless the spec was changed since.
            Err(RolloutError::Content(error))
                if stays && error.is_unavailable() && self.is_unchanged() =>
            {
                warn!(
                    extension = self.identity.name,
                    error = chain(&error),
                    "bundle image is not available; maintaining what is installed"
                );
                Ok(None)
            }
            Err(source) => Err(StuckError {
                name,
                version,
                source,
            }),
        }
    }

    fn is_installed(&self) -> bool {
        self.installed.as_ref().is_some_and(|installed| {
            (&installed.name, &installed.version) == (&self.bundle.name, &self.bundle.version)
        })
    }

    fn is_unchanged(&self) -> bool {
        let observed = self
            .extension
            .status
            .as_ref()
            .and_then(|status| status.observed_generation);
        observed.is_some() && observed == self.extension.metadata.generation
    }

    async fn try_roll_out(
        &mut self,
        ctx: &Context,
        warnings: &mut Vec<Warning>,
    ) -> Result<Option<status::Revision>, RolloutError> {
        let image = self.image(ctx, warnings).await?;
        self.bundle.digest = Some(image.digest.to_string());
        if !self.is_installed() {
            let known = ctx
                .memory
                .crd_findings
                .of(&self.identity.name, &self.bundle);
            warnings.extend(known);
        }
        let certificates = self.certificates(ctx);
        let inputs = self.inputs(certificates);
        if ctx.memory.is_settled(&self.identity.name, &inputs) {
            return Ok(None);
        }
        let rendered = &ctx.memory.rendered;
        let content = rendered
            .content(&ctx.fetcher, &self.extension, &image, certificates)
            .await?;
        let desired = self.desired(&content, certificates)?;
        let is_taken = |name: &str| ctx.sets.get(name).is_some();
        if matches!(
            plan(&self.revisions, &desired, &is_taken),
            RevisionPlan::Create { .. }
        ) {
            self.check_kubernetes(ctx, &content.min_kube_version)
                .await?;
            let objects = &content.objects;
            self.check_permissions(ctx, &desired, objects).await?;
            self.check_crds(ctx, objects, warnings).await?;
        }
        let revisions = Revisions {
            client: &ctx.client,
            system_namespace: &ctx.system_namespace,
        };
        match revisions
            .ensure(&self.revisions, &desired, &is_taken)
            .await?
        {
            Ensured::Unchanged { .. } => {
                ctx.memory.settle(&self.identity.name, inputs);
                Ok(None)
            }
            Ensured::Patched { .. } => Ok(None),
            Ensured::Created { name, number } => {
                info!(
                    extension = self.identity.name,
                    revision = name,
                    bundle = self.bundle.name,
                    version = self.bundle.version,
                    "created revision"
                );
                Ok(Some(status::Revision {
                    name,
                    number,
                    bundle: bundle_metadata(&self.bundle),
                    reference: self.bundle.reference.clone(),
                    catalog: self.bundle.catalog.clone(),
                    conditions: Vec::new(),
                }))
            }
        }
    }

    /// A bundle that needs a newer cluster is not rolled out; what is installed already is maintained.
    async fn check_kubernetes(&self, ctx: &Context, minimum: &str) -> Result<(), RolloutError> {
        // What is no version says nothing, as in the reference.
        if self.is_installed() || !matches!(minimum_kubernetes(minimum), Ok(Some(_))) {
            return Ok(());
        }
        let version = ctx.discovery.server_version().await?;
        Ok(check_kubernetes(minimum, &version)?)
    }

    /// Asks for everything that the account lacks before the first write.
    async fn check_permissions(
        &self,
        ctx: &Context,
        desired: &Desired,
        objects: &[Value],
    ) -> Result<(), RolloutError> {
        let client = ctx.identity.client_for(&self.account)?;
        let asking = Preflighter {
            own: &ctx.client,
            client: &client,
            discovery: &ctx.discovery,
            accounts: &ctx.accounts,
        };
        ctx.preflight
            .check(&asking, &self.account, desired.content().as_str(), objects)
            .await?;
        Ok(())
    }

    /// Asks what the upgrade of CRDs would break; what stops nothing becomes warnings.
    async fn check_crds(
        &self,
        ctx: &Context,
        objects: &[Value],
        warnings: &mut Vec<Warning>,
    ) -> Result<(), RolloutError> {
        if self.extension.spec.crd_upgrade_safety() == CrdUpgradeSafetyEnforcement::None {
            return Ok(());
        }
        let account = ctx.identity.client_for(&self.account)?;
        let check = CrdUpgradeCheck {
            own: &ctx.client,
            account: &account,
            user: &self.account.to_string(),
            resources: self.resources(),
        };
        let mut sentences = Vec::new();
        let result = check.check(objects, &mut sentences).await;
        // Those of the last pass are there already, and may be outdated.
        warnings.retain(|warning| warning.reason != Reason::CrdFindings);
        let findings = &ctx.memory.crd_findings;
        warnings.extend(findings.keep(&self.identity.name, &self.bundle, sentences));
        Ok(result?)
    }

    /// Annotation `oxolm.dev/crd-upgrade-safety`: whether stored resources have a say about CRDs.
    fn resources(&self) -> Resources {
        let annotation = self.extension.annotations().get(keys::CRD_UPGRADE_SAFETY);
        if annotation.map(String::as_str) == Some(keys::CRD_UPGRADE_SAFETY_SCHEMA_ONLY) {
            Resources::Ignored
        } else {
            Resources::Looked
        }
    }

    /// The image to install: the one that the catalog names, unless it is other content under the installed version.
    async fn image(
        &self,
        ctx: &Context,
        warnings: &mut Vec<Warning>,
    ) -> Result<CanonicalReference, ContentError> {
        let catalog = self
            .bundle
            .catalog
            .as_deref()
            .and_then(|catalog| ctx.served.get(catalog));
        let key = format!(
            "{} {}",
            self.extension.metadata.generation.unwrap_or_default(),
            catalog
                .map(|served| served.digest().to_string())
                .unwrap_or_default()
        );
        let image = ctx
            .memory
            .tags
            .canonicalize(
                &ctx.fetcher,
                &self.identity.name,
                &self.bundle.reference,
                &key,
            )
            .await?;
        let Some(installed) = self.installed.as_ref().filter(|_| self.is_installed()) else {
            return Ok(image);
        };
        let Some(digest) = installed
            .digest
            .as_deref()
            .filter(|digest| *digest != image.digest.as_str())
        else {
            return Ok(image);
        };
        let accepted = self.extension.annotations().get(keys::ACCEPT_DIGEST);
        if accepted.map(String::as_str) == Some(image.digest.as_str()) {
            return Ok(image);
        }
        warnings.push(Warning {
            reason: Reason::BundleContentChanged,
            sentence: format!(
                "Bundle {} has other content in its catalog than what is installed: {} instead of {digest}; to take it, \
                 set annotation {}={}.",
                installed.name,
                image.digest,
                keys::ACCEPT_DIGEST,
                image.digest
            ),
        });
        // A digest that was recorded was one; if it is none any more, what the catalog names is taken.
        Ok(
            Digest::parse(digest).map_or(image.clone(), |digest| CanonicalReference {
                digest,
                ..image
            }),
        )
    }

    /// The provider of the installed revision, else the configured one: it never changes under an installed bundle.
    fn certificates(&self, ctx: &Context) -> Provider {
        self.revisions
            .iter()
            .rev()
            .find_map(|revision| {
                revision
                    .webhook_certificates
                    .as_deref()
                    .and_then(Provider::parse)
            })
            .unwrap_or(ctx.certificates)
    }

    /// All that the plan depends on, as one text.
    fn inputs(&self, certificates: Provider) -> String {
        let annotations: BTreeMap<_, _> = self
            .extension
            .annotations()
            .iter()
            .filter(|(key, _)| key.starts_with(keys::OXOLM_PREFIX))
            .collect();
        let newest = self
            .revisions
            .last()
            .map(|one| (&one.name, &one.content, one.is_active(), &one.annotations));
        format!(
            "{:?} {:?} {annotations:?} {:?} {:?} {certificates:?} {newest:?} {}",
            self.extension.uid(),
            self.extension.metadata.generation,
            self.account,
            self.bundle,
            self.revisions.len()
        )
    }

    fn desired(&self, content: &Content, certificates: Provider) -> Result<Desired, RolloutError> {
        let marks = object_marks(&self.identity.name, &self.bundle);
        let needs_certificates = content.needs_certificates;
        Ok(Desired {
            extension: self.identity.clone(),
            account: self.account.clone(),
            namespace: self.extension.spec.namespace.clone(),
            bundle: self.bundle.clone(),
            properties: content.properties.clone(),
            webhook_certificates: needs_certificates.then(|| certificates.to_string()),
            crd_deletion: self
                .extension
                .annotations()
                .get(keys::CRD_DELETION)
                .cloned(),
            phases: phase::phases(&content.objects, &marks)?,
            progression_probes: probe::default_probes(),
            progress_deadline_minutes: self.extension.spec.progress_deadline_minutes,
            collision_protection: collision_protection(&self.extension),
        })
    }
}

/// Annotation `oxolm.dev/adopt`: whether objects that exist already are taken over.
fn collision_protection(extension: &ClusterExtension) -> CollisionProtection {
    match extension.annotations().get(keys::ADOPT).map(String::as_str) {
        Some("unowned") => CollisionProtection::IfNoController,
        Some("all") => CollisionProtection::None,
        Some(_) | None => CollisionProtection::Prevent,
    }
}

/// Takes the extension down; `None` when it is gone.
async fn uninstall(extension: &ClusterExtension, ctx: &Context) -> Option<Outcome> {
    let name = extension.name_any();
    if !extension
        .finalizers()
        .iter()
        .any(|one| one == keys::FINALIZER_UNINSTALL)
    {
        ctx.memory.forget(&name);
        return None;
    }
    let account = ctx
        .identity
        .account_for(
            &extension.spec.namespace,
            extension.spec.service_account_name(),
        )
        .ok();
    let revisions = revisions(&identity_of(extension, account), ctx);
    let observed = observed(&revisions);
    let operations = Revisions {
        client: &ctx.client,
        system_namespace: &ctx.system_namespace,
    };
    if extension.finalizers().iter().any(|one| one == ORPHAN) {
        return match operations.let_go(&revisions).await {
            Ok(()) => release(extension, observed, ctx).await,
            Err(error) => Some(Outcome::Unobserved {
                failure: Failure::of(&error),
                observed,
            }),
        };
    }
    match operations.uninstall(&revisions).await {
        Ok(Uninstall::Done) => match remove_finalizer(extension, ctx).await {
            Ok(()) => {
                info!(extension = name, "uninstalled");
                ctx.memory.forget(&name);
                None
            }
            Err(error) => Some(Outcome::Uninstalling {
                message: chain(&error),
                observed,
            }),
        },
        Ok(Uninstall::Waiting(left)) => Some(Outcome::Uninstalling {
            message: uninstall_message(&revisions, &left),
            observed,
        }),
        Err(error) => Some(Outcome::Unobserved {
            failure: Failure::of(&error),
            observed,
        }),
    }
}

/// Lets an extension go whose deletion was asked for with `--cascade=orphan`: its revisions stay, and keep up their
/// objects, until an extension of the same name and account takes them back.
async fn release(
    extension: &ClusterExtension,
    observed: Observed,
    ctx: &Context,
) -> Option<Outcome> {
    let name = extension.name_any();
    match remove_finalizer(extension, ctx).await {
        Ok(()) => {
            info!(extension = name, "let go; what is installed stays");
            ctx.memory.forget(&name);
            None
        }
        Err(error) => Some(Outcome::Uninstalling {
            message: chain(&error),
            observed,
        }),
    }
}

/// What the revisions that are left wait for, in their own words.
fn uninstall_message(revisions: &[Revision], left: &[String]) -> String {
    let lines: Vec<String> = revisions
        .iter()
        .filter(|revision| left.contains(&revision.name))
        .map(
            |revision| match condition::find(&revision.conditions, ConditionType::Progressing) {
                Some(progressing) if revision.is_deleting => {
                    format!("{}: {}", revision.name, progressing.message)
                }
                Some(_) | None => format!("{}: being taken down", revision.name),
            },
        )
        .collect();
    format!("uninstalling: {}", lines.join("; "))
}

/// Adds our finalizer where it is missing, and takes away the reference's, which have nothing to do here.
async fn write_finalizer(extension: &ClusterExtension, ctx: &Context) -> Result<(), kube::Error> {
    let is_deleting = extension.metadata.deletion_timestamp.is_some();
    let mut wanted: Vec<String> = extension
        .finalizers()
        .iter()
        .filter(|one| !keys::FOREIGN_FINALIZERS.contains(&one.as_str()))
        .cloned()
        .collect();
    if !is_deleting && !wanted.iter().any(|one| one == keys::FINALIZER_UNINSTALL) {
        wanted.push(keys::FINALIZER_UNINSTALL.to_owned());
    }
    if wanted == extension.finalizers() {
        return Ok(());
    }
    patch_finalizers(extension, &wanted, ctx).await
}

async fn remove_finalizer(extension: &ClusterExtension, ctx: &Context) -> Result<(), kube::Error> {
    let kept: Vec<String> = extension
        .finalizers()
        .iter()
        .filter(|one| *one != keys::FINALIZER_UNINSTALL)
        .cloned()
        .collect();
    match patch_finalizers(extension, &kept, ctx).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other,
    }
}

async fn patch_finalizers(
    extension: &ClusterExtension,
    finalizers: &[String],
    ctx: &Context,
) -> Result<(), kube::Error> {
    let api: Api<ClusterExtension> = Api::all(ctx.client.clone());
    let patch = json!({ "metadata": { "finalizers": finalizers, "resourceVersion": extension.resource_version() } });
    api.patch(
        &extension.name_any(),
        &PatchParams::default(),
        &Patch::Merge(patch),
    )
    .await
    .map(|_| ())
}

async fn report(
    extension: &ClusterExtension,
    status: &ClusterExtensionStatus,
    ctx: &Context,
) -> Result<(), kube::Error> {
    if extension.status.as_ref() == Some(status) {
        return Ok(());
    }
    let api: Api<ClusterExtension> = Api::all(ctx.client.clone());
    let patch = status_patch(extension.status.as_ref(), status);
    match api
        .patch_status(
            &extension.name_any(),
            &PatchParams::default(),
            &Patch::Merge(patch),
        )
        .await
    {
        // It went away meanwhile.
        Err(kube::Error::Api(error)) if error.is_not_found() => return Ok(()),
        other => other?,
    };
    let before = extension
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    ctx.reporter
        .transitions(extension, before, &status.conditions)
        .await;
    Ok(())
}

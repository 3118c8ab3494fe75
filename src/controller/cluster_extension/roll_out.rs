//! Rolling a bundle out: from its image to the newest revision, with all that is asked before the first write.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt;
use tracing::{info, warn};

use super::Context;
use super::before::Before;
use super::content::{Content, ContentError};
use super::observe::bundle_metadata;
use crate::api::cluster_object_set::CollisionProtection;
use crate::api::condition::Reason;
use crate::api::{ClusterExtension, keys};
use crate::apply::crd_upgrade::CrdUpgradeError;
use crate::apply::discovery::{DiscoveryError, ServerVersionError};
use crate::apply::permissions::{PreflightError, Preflighter};
use crate::apply::revisions::{Ensured, RevisionError};
use crate::bundle::requirement::{KubernetesError, check_kubernetes, minimum_kubernetes};
use crate::controller::metrics::Check;
use crate::error::{Classify, Disposition, chain};
use crate::identity::IdentityError;
use crate::oci::digest::Digest;
use crate::oci::reference::CanonicalReference;
use crate::render::Provider;
use crate::revision::plan::{Desired, RevisionPlan, object_marks, plan};
use crate::revision::{Account, BundleIdentity, Extension, Revision, phase, probe};
use crate::status::cluster_extension::{self as status, Warning};

/// What is to be rolled out for whom.
pub(super) struct Wish {
    pub(super) extension: Arc<ClusterExtension>,
    pub(super) identity: Extension,
    pub(super) account: Account,
    pub(super) revisions: Vec<Revision>,
    pub(super) installed: Option<BundleIdentity>,
    pub(super) bundle: BundleIdentity,
}

impl Wish {
    /// Makes the newest revision be the wished one; the revision that was created, if one was.
    pub(super) async fn roll_out(
        &mut self,
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
            Err(source) => {
                if let Some(check) = source.check() {
                    ctx.reporter.metrics().refused(check);
                }
                Err(StuckError {
                    name,
                    version,
                    source,
                })
            }
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
        // If resources still refuse the upgrade, this pass finds it out.
        ctx.memory.refused.forget(&self.identity.name);
        let image = self.image(ctx, warnings).await?;
        self.bundle.digest = Some(image.digest.to_string());
        let inputs = self.inputs();
        if ctx.memory.is_settled(&self.identity.name, &inputs) {
            return Ok(None);
        }
        let (content, certificates) = self.content(ctx, &image).await?;
        let mut desired = self.desired(&content, certificates)?;
        let is_taken = |name: &str| ctx.sets.get(name).is_some();
        let planned = plan(&self.revisions, &desired, &is_taken);
        if !matches!(planned, RevisionPlan::Unchanged { .. })
            && let Some(what) = ctx.memory.altered_lately(&self.identity.name)
        {
            return Err(RevisionError::Altered { what }.into());
        }
        if matches!(planned, RevisionPlan::Create { .. }) {
            self.check_kubernetes(ctx, &content.min_kube_version)
                .await?;
            let before = Before::read(ctx, &self.account, &self.revisions).await?;
            desired.permissions_gained = self.rights_gained(&before, &content, warnings);
            self.check_permissions(ctx, &desired, &content, &before)
                .await?;
            desired.crd_findings = self.check_crds(ctx, &content.objects, warnings).await?;
            self.tell_gained(ctx, warnings).await?;
            if !ctx.revisions().stays(&desired.extension).await? {
                return Ok(None);
            }
        }
        let revisions = ctx.revisions();
        let ensured = revisions.ensure(&self.revisions, &desired, &is_taken);
        let ensured = ensured.await.inspect_err(|error| {
            if let RevisionError::Altered { what } = error {
                ctx.memory.note_altered(&self.identity.name, what);
            }
        });
        match ensured? {
            Ensured::Unchanged { .. } => {
                ctx.memory.settle(&self.identity.name, &inputs);
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
        content: &Content,
        before: &Before,
    ) -> Result<(), RolloutError> {
        let objects = [&content.objects[..], &content.secrets].concat();
        let leaving = before.leaving(&objects);
        let client = ctx.identity.client_for(&self.account)?;
        let asking = Preflighter {
            own: &ctx.client,
            client: &client,
            discovery: &ctx.discovery,
            accounts: &ctx.accounts,
        };
        let checked = ctx
            .preflight
            .check(
                &asking,
                &self.account,
                &desired.content(),
                &objects,
                &leaving,
            )
            .await;
        let Err(PreflightError::Lacking(mut lack)) = checked else {
            return Ok(checked?);
        };
        // All that is missing is told at once.
        let unlisted = self.unlisted(ctx, &client, &content.objects).await;
        lack.missing.extend(unlisted);
        Err(PreflightError::Lacking(lack).into())
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

    /// What the image holds, rendered for whoever makes its webhook certificates.
    async fn content(
        &self,
        ctx: &Context,
        image: &CanonicalReference,
    ) -> Result<(Arc<Content>, Provider), RolloutError> {
        let rendered = &ctx.memory.rendered;
        let recorded = self.recorded_provider().or(ctx.certificates);
        // A bundle without webhooks is the same for all, and most have none.
        let provider = recorded.unwrap_or(Provider::SelfSigned);
        let content = rendered
            .content(
                &ctx.fetcher,
                &self.extension,
                image,
                provider,
                ctx.reporter.metrics(),
            )
            .await?;
        if recorded.is_some() || !content.needs_certificates {
            return Ok((content, provider));
        }
        let provider = ctx.discovery.certificates().await?;
        let content = rendered
            .content(
                &ctx.fetcher,
                &self.extension,
                image,
                provider,
                ctx.reporter.metrics(),
            )
            .await?;
        Ok((content, provider))
    }

    /// The provider that was chosen at the first install: it never changes under an installed bundle.
    fn recorded_provider(&self) -> Option<Provider> {
        let recorded =
            |revision: &Revision| Provider::parse(revision.webhook_certificates.as_deref()?);
        self.revisions.iter().rev().find_map(recorded)
    }

    /// All that the plan depends on, as one text.
    fn inputs(&self) -> String {
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
            "{:?} {:?} {annotations:?} {:?} {:?} {:?} {newest:?} {}",
            self.extension.uid(),
            self.extension.metadata.generation,
            self.account,
            self.bundle,
            self.recorded_provider(),
            self.revisions.len()
        )
    }

    fn desired(&self, content: &Content, certificates: Provider) -> Result<Desired, RolloutError> {
        let marks = object_marks(&self.identity.name, &self.bundle);
        let needs_certificates = content.needs_certificates;
        let annotation = |key| self.extension.annotations().get(key).cloned();
        Ok(Desired {
            extension: self.identity.clone(),
            account: self.account.clone(),
            namespace: self.extension.spec.namespace.clone(),
            bundle: self.bundle.clone(),
            properties: content.properties.clone(),
            webhook_certificates: needs_certificates.then(|| certificates.to_string()),
            rotate_certificates: annotation(keys::ROTATE_CERTIFICATES)
                .filter(|_| needs_certificates && certificates == Provider::SelfSigned),
            crd_deletion: annotation(keys::CRD_DELETION),
            crd_findings: Vec::new(),
            permissions_gained: Vec::new(),
            phases: phase::phases(&content.objects, &marks)?,
            progression_probes: probe::default_probes_of(&content.objects),
            progress_deadline_minutes: self.extension.spec.progress_deadline_minutes,
            collision_protection: collision_protection(&self.extension),
        })
    }
}

/// Why the chosen bundle is not rolled out. The prefix is the reference's.
#[derive(Debug, thiserror::Error)]
#[error("error for resolved bundle {name:?} with version {version:?}")]
pub(super) struct StuckError {
    name: String,
    version: String,
    source: RolloutError,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum RolloutError {
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
    #[error("cannot tell who makes webhook certificates here")]
    Provider(#[from] DiscoveryError),
    #[error(transparent)]
    ServerVersion(#[from] ServerVersionError),
    #[error("cannot tell which rights are gained")]
    Told(#[source] Box<kube::Error>),
    #[error(transparent)]
    Kubernetes(#[from] KubernetesError),
}

impl RolloutError {
    /// The check that refused, if one did; a check that could not be made did not refuse.
    fn check(&self) -> Option<Check> {
        match self {
            Self::Permission(PreflightError::Lacking(_)) => Some(Check::Permissions),
            Self::CrdUpgrade(CrdUpgradeError::Refused { .. }) => Some(Check::CrdUpgrade),
            Self::Kubernetes(_) => Some(Check::Kubernetes),
            Self::Permission(_)
            | Self::CrdUpgrade(_)
            | Self::Content(_)
            | Self::Identity(_)
            | Self::Revision(_)
            | Self::Phase(_)
            | Self::Provider(_)
            | Self::ServerVersion(_)
            | Self::Told(_) => None,
        }
    }
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
            RolloutError::Provider(_)
            | RolloutError::Told(_)
            | RolloutError::ServerVersion(_)
            | RolloutError::Kubernetes(_) => Disposition::Retry,
        }
    }
}

/// Annotation `oxolm.dev/adopt`: whether objects that exist already are taken over.
pub(super) fn collision_protection(extension: &ClusterExtension) -> CollisionProtection {
    match extension.annotations().get(keys::ADOPT).map(String::as_str) {
        Some("unowned") => CollisionProtection::IfNoController,
        Some("all") => CollisionProtection::None,
        Some(_) | None => CollisionProtection::Prevent,
    }
}

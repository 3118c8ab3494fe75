//! `ClusterCatalog`: canonicalize, fetch, publish, serve; again at each poll.
//!
//! Every replica serves; only the leader asks registries for tags and writes objects. A follower serves exactly what
//! `status.resolvedSource` says.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "catalogs are patched, in time"
)]

mod memory;
mod object;
mod replica;
mod underway;

use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::{Client, ResourceExt};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

pub use self::memory::Memory;
use self::memory::ServedCatalog;
use self::object::{finalizers, has_finalizer, patch_metadata, report, write_metadata};
use self::replica::follow;
pub use self::replica::{not_on_disk, restore};
use crate::api::ClusterCatalog;
use crate::api::cluster_catalog::{AvailabilityMode, ClusterCatalogStatus, ImageSource};
use crate::api::condition::{self, ConditionType};
use crate::controller::informer::Change;
use crate::controller::next::Next;
use crate::controller::report::{Reporter, unwritten};
use crate::controller::wiring::metadata_is_same;
use crate::error::{Classify, Disposition, Failure, Reason, chain};
use crate::fetch::{FetchError, Fetcher, ImageKind};
use crate::oci::digest::Digest;
use crate::oci::reference::{CanonicalReference, Reference, ReferenceError};
use crate::serve::Served;
use crate::status::cluster_catalog::{Content, Outcome, cluster_catalog, under_way};
use crate::store::catalog::{CatalogError, CatalogStore, StoredCatalog};

/// The longest part of a poll interval by which a poll is delayed, so that catalogs do not poll in step.
const POLL_JITTER: f64 = 0.01;

/// How long a pass takes before the catalog's status says what it is busy with.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the reconciler needs.
pub struct Context {
    /// Writes as oxolm itself.
    pub client: Client,
    /// Brings images to disk.
    pub fetcher: Fetcher,
    /// Published content.
    pub store: CatalogStore,
    /// What is being served.
    pub served: Served,
    /// The address that people reach the content server at.
    pub external_address: String,
    /// Whether this process leads.
    pub leading: Arc<AtomicBool>,
    /// Events.
    pub reporter: Reporter,
    /// What is known of each catalog beside its object.
    pub memory: Memory,
    /// Told what a catalog served before and serves now.
    pub on_content: ContentListener,
}

/// Told what a catalog served before and serves now.
pub type ContentListener =
    Box<dyn Fn(Option<&StoredCatalog>, Option<&StoredCatalog>) + Send + Sync>;

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("external_address", &self.external_address)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// Serves `served` as `name` and tells who reads it.
    fn serve(&self, name: &str, served: &Arc<ServedCatalog>) {
        let before = self
            .memory
            .served
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), served.clone());
        self.served.set(name, served.content.clone());
        (self.on_content)(
            before.map(|before| before.content.clone()).as_deref(),
            Some(&served.content),
        );
    }

    /// Stops serving `name`; whether it was served.
    fn withdraw(&self, name: &str) -> bool {
        self.served.remove(name);
        let before = self
            .memory
            .served
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
        if let Some(before) = &before {
            (self.on_content)(Some(&before.content), None);
        }
        before.is_some()
    }
}

/// Why content could not be had.
#[derive(Debug, thiserror::Error)]
enum SourceError {
    #[error("source catalog content")]
    Reference(#[source] ReferenceError),
    #[error("source catalog content: spec.source.image is missing")]
    NoImage,
    #[error("source catalog content")]
    Fetch { source: FetchError, by_digest: bool },
    #[error("error storing fbc")]
    Store {
        source: CatalogError,
        by_digest: bool,
    },
    #[error("error storing fbc: publishing was interrupted")]
    Interrupted,
}

impl Classify for SourceError {
    fn disposition(&self) -> Disposition {
        let blocked = Disposition::Terminal(Reason::Blocked);
        match self {
            Self::Reference(error) => error.disposition(),
            // The content of a digest never changes: only another reference helps.
            Self::NoImage
            | Self::Fetch {
                source: FetchError::MissingConfigsLabel,
                by_digest: true,
            } => blocked,
            Self::Store {
                source,
                by_digest: true,
            } if source.is_content() => blocked,
            Self::Fetch { source, .. } => source.disposition(),
            Self::Store { .. } | Self::Interrupted => Disposition::Retry,
        }
    }
}

/// One pass over one catalog.
pub async fn reconcile(catalog: Arc<ClusterCatalog>, ctx: Arc<Context>) -> Next {
    if !ctx.leading.load(Ordering::Acquire) {
        return follow(&catalog, &ctx).await;
    }
    if catalog.metadata.deletion_timestamp.is_some() {
        return delete(&catalog, &ctx).await;
    }
    if let Err(error) = write_metadata(&catalog, &ctx).await {
        return unwritten(&error, "the catalog's metadata");
    }
    let ended = ctx.memory.under_way.begin(&catalog);
    let outcome = tokio::select! {
        outcome = step(&catalog, &ctx) => outcome,
        // Whatever ended it has asked for another pass.
        () = ended.cancelled() => return Next::OnChange,
        never = tell_when_long(&catalog, &ctx) => match never {},
    };
    let status = cluster_catalog(&catalog, &outcome, Timestamp::now());
    if let Err(error) = report(&catalog, &status, &ctx).await {
        return unwritten(&error, "the catalog's status");
    }
    next(&catalog, &outcome, &ctx)
}

/// Says in the status what a pass is busy with, once it takes long. The status that follows takes its place: it is the
/// first one of this generation, so it cannot be what the object had before.
async fn tell_when_long(catalog: &ClusterCatalog, ctx: &Context) -> Infallible {
    sleep(PATIENCE).await;
    if let Some(status) = under_way(catalog, Timestamp::now())
        && let Err(error) = report(catalog, &status, ctx).await
    {
        debug!(
            error = chain(&error),
            "cannot say what the pass is busy with"
        );
    }
    std::future::pending().await
}

/// How far a pass gets. It cannot fail: a failure is an outcome.
async fn step(catalog: &ClusterCatalog, ctx: &Context) -> Outcome {
    let name = catalog.name_any();
    if catalog.spec.availability_mode == AvailabilityMode::Unavailable {
        if ctx.withdraw(&name) {
            info!(
                catalog = name,
                "stopped serving catalog: its availability mode is Unavailable"
            );
        }
        ctx.memory.forget(&name);
        return Outcome::SetUnavailable;
    }
    match wanted(catalog, ctx).await {
        Ok(served) => Outcome::Served(content_of(&served, &name, ctx)),
        Err(error) => {
            ctx.memory.forget(&name);
            let served = ctx
                .memory
                .served(&name)
                .map(|served| content_of(&served, &name, ctx));
            Outcome::Failed {
                failure: Failure::of(&error),
                served,
            }
        }
    }
}

/// Makes the wanted content be served.
async fn wanted(
    catalog: &ClusterCatalog,
    ctx: &Context,
) -> Result<Arc<ServedCatalog>, SourceError> {
    let name = catalog.name_any();
    let image = catalog
        .spec
        .source
        .image
        .as_ref()
        .ok_or(SourceError::NoImage)?;
    let reference = Reference::parse(&image.reference).map_err(SourceError::Reference)?;
    let by_digest = reference.is_digest();
    let serving = ctx.memory.served(&name);
    if let Some(served) = &serving
        && !is_poll_due(catalog, image, served, ctx)
    {
        return Ok(served.clone());
    }
    let canonical = match reference.canonical() {
        Some(canonical) => canonical,
        None => ctx
            .fetcher
            .canonicalize(&reference)
            .await
            .map_err(|source| SourceError::Fetch { source, by_digest })?,
    };
    let served = match serving {
        Some(served) if served.reference == canonical => served,
        _ => publish(catalog, &canonical, by_digest, ctx).await?,
    };
    ctx.memory.set(&name, &image.reference);
    Ok(served)
}

/// Fetches and publishes `canonical`, and serves it as `catalog`.
async fn publish(
    catalog: &ClusterCatalog,
    canonical: &CanonicalReference,
    by_digest: bool,
    ctx: &Context,
) -> Result<Arc<ServedCatalog>, SourceError> {
    let started = Instant::now();
    let (store, digest) = (ctx.store.clone(), canonical.digest.clone());
    let stored = blocking(by_digest, move || store.open(&digest)).await?;
    let stored = match stored {
        Some(stored) => stored,
        None => unpack(canonical, by_digest, ctx).await?,
    };
    let name = catalog.name_any();
    let served = Arc::new(ServedCatalog::of(catalog, canonical.clone(), stored));
    ctx.serve(&name, &served);
    info!(catalog = name, reference = %canonical, elapsed = ?started.elapsed(), "published catalog");
    Ok(served)
}

/// Fetches `canonical` and makes it a published catalog; the files of the image are not kept.
async fn unpack(
    canonical: &CanonicalReference,
    by_digest: bool,
    ctx: &Context,
) -> Result<StoredCatalog, SourceError> {
    let image = ctx
        .fetcher
        .fetch(canonical, ImageKind::Catalog)
        .await
        .map_err(|source| SourceError::Fetch { source, by_digest })?;
    let (store, content) = (ctx.store.clone(), ctx.fetcher.store().clone());
    let digest = canonical.digest.clone();
    blocking(by_digest, move || {
        let stored = store.publish(&image)?;
        drop(image);
        if let Err(error) = content.discard(&digest) {
            // The content is published; the garbage collector tries again.
            debug!(error = chain(&error), "cannot remove an unpacked image");
        }
        Ok(stored)
    })
    .await
}

/// Runs work on published catalogs where it does not hinder others.
async fn blocking<T: Send + 'static>(
    by_digest: bool,
    work: impl FnOnce() -> Result<T, CatalogError> + Send + 'static,
) -> Result<T, SourceError> {
    spawn_blocking(work)
        .await
        .map_err(|_join| SourceError::Interrupted)?
        .map_err(|source| SourceError::Store { source, by_digest })
}

/// Whether the registry is to be asked: never for what is served of a digest; for a tag when the reference was edited or
/// the poll interval is over.
fn is_poll_due(
    catalog: &ClusterCatalog,
    image: &ImageSource,
    served: &ServedCatalog,
    ctx: &Context,
) -> bool {
    let name = catalog.name_any();
    let Some(poll) = ctx.memory.get(&name) else {
        // After a restart: what the status says was taken from this reference, with success, needs no registry.
        let is_settled = catalog.status.as_ref().is_some_and(|status| {
            let progressing = condition::find(&status.conditions, ConditionType::Progressing);
            progressing.is_some_and(|one| one.reason == condition::Reason::Succeeded.as_str())
                && status.observed_generation == catalog.metadata.generation
                && resolved(status) == Some(served.reference.to_string())
        });
        if is_settled {
            ctx.memory.set(&name, &image.reference);
        }
        return !is_settled;
    };
    poll.reference != image.reference
        || interval(image).is_some_and(|interval| poll.at.elapsed() >= interval)
}

fn interval(image: &ImageSource) -> Option<Duration> {
    let minutes = u64::try_from(image.poll_interval_minutes?).ok()?;
    Some(Duration::from_secs(minutes.saturating_mul(60)))
}

fn resolved(status: &ClusterCatalogStatus) -> Option<String> {
    Some(
        status
            .resolved_source
            .as_ref()?
            .image
            .as_ref()?
            .reference
            .clone(),
    )
}

/// The digest that the catalog's status says is served.
pub fn resolved_digest(catalog: &ClusterCatalog) -> Option<Digest> {
    let reference = resolved(catalog.status.as_ref()?)?;
    CanonicalReference::parse(&reference)
        .ok()
        .map(|canonical| canonical.digest)
}

impl ServedCatalog {
    /// `stored`, which is served as `catalog`. Where the status tells of the same content it is as old as that says: every
    /// replica unpacks for itself, and all of them are to give it the same age.
    fn of(catalog: &ClusterCatalog, reference: CanonicalReference, stored: StoredCatalog) -> Self {
        let status = catalog.status.as_ref();
        let said = status
            .filter(|status| resolved(status) == Some(reference.to_string()))
            .and_then(|status| status.last_unpacked.as_ref());
        let stored = match said {
            Some(said) => stored.with_unpacked_at(said.0),
            None => stored,
        };
        Self {
            reference,
            content: Arc::new(stored),
        }
    }
}

fn content_of(served: &ServedCatalog, name: &str, ctx: &Context) -> Content {
    Content {
        reference: served.reference.to_string(),
        unpacked_at: served.content.unpacked_at(),
        base_url: format!("https://{}/catalogs/{name}", ctx.external_address),
    }
}

fn next(catalog: &ClusterCatalog, outcome: &Outcome, ctx: &Context) -> Next {
    match outcome {
        Outcome::SetUnavailable => Next::OnChange,
        Outcome::Failed { failure, .. } => match failure.disposition {
            Disposition::Retry => Next::Retry,
            Disposition::Terminal(_) => Next::Blocked(None),
        },
        Outcome::Served(_) => {
            let interval = catalog.spec.source.image.as_ref().and_then(interval);
            let elapsed = ctx
                .memory
                .get(&catalog.name_any())
                .map_or(Duration::ZERO, |poll| poll.at.elapsed());
            interval.map_or(Next::OnChange, |interval| {
                let jitter = interval.mul_f64(POLL_JITTER * spread(&catalog.name_any()));
                Next::After((interval + jitter).saturating_sub(elapsed))
            })
        }
    }
}

/// A number from 0 to 1 that is the catalog's own.
fn spread(name: &str) -> f64 {
    let sum = name.bytes().fold(7_u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    f64::from(sum % 1000) / 1000.0
}

async fn delete(catalog: &ClusterCatalog, ctx: &Context) -> Next {
    let name = catalog.name_any();
    if ctx.withdraw(&name) {
        info!(catalog = name, "stopped serving catalog: it is deleted");
    }
    ctx.memory.forget(&name);
    if !has_finalizer(catalog) {
        return Next::OnChange;
    }
    match patch_metadata(catalog, &finalizers(catalog, false), ctx).await {
        Ok(()) => Next::OnChange,
        Err(kube::Error::Api(status)) if status.is_not_found() => Next::OnChange,
        Err(error) => {
            warn!(
                catalog = name,
                error = chain(&error),
                "cannot remove the catalog's finalizer"
            );
            Next::Retry
        }
    }
}

/// Whether a change is only our own status coming back: no reason to look at the catalog, least of all when the status
/// says that the last attempt failed.
pub fn is_echo(change: &Change<ClusterCatalog>, ctx: &Context) -> bool {
    let Change::Applied {
        old: Some(old),
        new,
    } = change
    else {
        return false;
    };
    ctx.leading.load(Ordering::Acquire)
        && old.spec == new.spec
        && metadata_is_same(old.as_ref(), new.as_ref())
        && ctx.memory.has_written(&new.name_any(), new.status.as_ref())
}

/// Ends the pass under way over a catalog that has gone, is going, or wants other content now.
pub fn end_what_changed(change: &Change<ClusterCatalog>, ctx: &Context) {
    ctx.memory.under_way.changed(change);
}

#[cfg(test)]
mod tests;

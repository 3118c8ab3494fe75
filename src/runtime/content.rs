//! Catalog content in the process: where it is kept, how it is pulled, who serves and who removes it.

#![expect(
    clippy::disallowed_methods,
    reason = "the process is put together here"
)]

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::join_all;
use kube::ResourceExt as _;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::api::{ClusterCatalog, ClusterExtension, ClusterObjectSet, keys};
use crate::controller::garbage::{Garbage, Needed};
use crate::controller::informer::Informer;
use crate::controller::wiring::Queues;
use crate::controller::{cluster_catalog, pull_secrets};
use crate::fetch::Fetcher;
use crate::oci::digest::Digest;
use crate::registry::RegistryClient;
use crate::runtime::RunError;
use crate::runtime::arguments::RunArguments;
use crate::runtime::health::Readiness;
use crate::serve::{self, Served, Tls};
use crate::store::ContentStore;
use crate::store::catalog::{CatalogStore, StoredCatalog};

/// How long a replica waits for catalogs on its disk before it says that it is ready.
const CATALOG_GRACE: Duration = Duration::from_mins(2);
/// How long pulls wait for the pull secrets to be read.
const SECRETS_GRACE: Duration = Duration::from_secs(10);

/// Serves what the catalogs hold, over TLS.
pub(super) async fn serve_catalogs(
    arguments: &RunArguments,
    tls: Tls,
    served: Served,
    metrics: serve::Metrics,
    stop: &CancellationToken,
) -> Result<JoinHandle<()>, RunError> {
    let options = serve::Options::of_content(arguments.catalogs_server_addr, tls);
    let router = serve::router(served, metrics);
    let (address, task) = serve::start(options, router, stop.clone()).await?;
    info!(%address, "serving catalogs");
    Ok(task)
}

pub(super) async fn storage(arguments: &RunArguments) -> Result<(Fetcher, CatalogStore), RunError> {
    let registry = RegistryClient::new(arguments.registry.options())
        .map_err(|error| RunError::Registry(error.into()))?;
    let document_limit_bytes = arguments.registry.max_document_size;
    let budget_bytes = arguments.cache_max_bytes;
    let directory = arguments.cache_dir.clone();
    let opened = tokio::task::spawn_blocking(move || {
        let content =
            ContentStore::share(&directory).map_err(|error| RunError::Store(error.into()))?;
        if let Some(bytes) = budget_bytes {
            content.set_budget(bytes);
        }
        let catalogs =
            CatalogStore::new(content.clone()).map_err(|error| RunError::Store(error.into()))?;
        Ok::<_, RunError>((content, catalogs.with_document_limit(document_limit_bytes)))
    });
    let (content, catalogs) = opened
        .await
        .map_err(|error| RunError::Store(error.into()))??;
    let fetcher = Fetcher::new(registry, content).with_limits(arguments.registry.limits());
    Ok((fetcher, catalogs))
}

/// A collector that keeps what catalogs serve here and elsewhere, and the bundles of revisions.
pub(super) fn garbage(
    fetcher: &Fetcher,
    store: &CatalogStore,
    (catalogs, served, sets): (
        Informer<ClusterCatalog>,
        Served,
        Arc<OnceLock<Informer<ClusterObjectSet>>>,
    ),
) -> Garbage {
    Garbage::new(fetcher.store().clone(), store.clone(), move || {
        let mut needed = Needed {
            catalogs: served.digests(),
            ..Needed::default()
        };
        let resolved = catalogs.all().into_iter();
        needed
            .catalogs
            .extend(resolved.filter_map(|catalog| cluster_catalog::resolved_digest(&catalog)));
        let sets = sets.get().map(Informer::all).unwrap_or_default();
        needed.images.extend(sets.iter().filter_map(|set| {
            let digest = set.annotations().get(keys::BUNDLE_DIGEST)?;
            Digest::parse(digest).ok()
        }));
        needed
    })
}

/// Keeps the registry client's credentials as the pull secrets say, and wakes who may have waited for one. Returns when
/// they were read, or after [`SECRETS_GRACE`].
pub(super) async fn use_pull_secrets(
    source: pull_secrets::Source,
    fetcher: &Fetcher,
    wake: impl Fn() + Send + 'static,
    stop: &CancellationToken,
) {
    let registry = fetcher.registry().clone();
    let read = Arc::new(Notify::new());
    let seen = read.clone();
    let use_credentials = move |credentials| {
        registry.set_credentials(credentials);
        seen.notify_one();
        wake();
    };
    tokio::spawn(pull_secrets::watch(source, stop.clone(), use_credentials));
    if tokio::time::timeout(SECRETS_GRACE, read.notified())
        .await
        .is_err()
    {
        warn!("pull secrets could not be read yet; images are pulled without them meanwhile");
    }
}

/// Wakes the extensions whose package changed in content.
pub(super) fn content_listener(
    queues: Queues,
    extensions: Arc<OnceLock<Informer<ClusterExtension>>>,
) -> cluster_catalog::ContentListener {
    Box::new(
        move |before: Option<&StoredCatalog>, after: Option<&StoredCatalog>| {
            let Some(extensions) = extensions.get() else {
                return;
            };
            let package = |catalog: Option<&StoredCatalog>, name: &str| {
                catalog.map(|one| one.package(name).ok())
            };
            queues.content_changed(extensions, |name| {
                package(before, name) != package(after, name)
            });
        },
    )
}

/// Serves what is on disk at once, and says when the replica has what it needs.
pub(super) async fn restore(
    ctx: &Arc<cluster_catalog::Context>,
    informer: &Informer<ClusterCatalog>,
    readiness: &Readiness,
) {
    if tokio::time::timeout(CATALOG_GRACE, informer.ready())
        .await
        .is_err()
    {
        readiness.release("catalogs");
        return;
    }
    let catalogs = informer.all();
    // Each is verified as a whole; the small ones must not wait for the large ones.
    let restored = catalogs
        .iter()
        .map(|catalog| cluster_catalog::restore(catalog, ctx));
    let restored = join_all(restored).await;
    let restored = restored.into_iter().filter(|served| *served).count();
    info!(
        catalogs = catalogs.len(),
        restored, "serving what is on disk"
    );
    tokio::spawn(release_when_served(
        ctx.clone(),
        informer.clone(),
        readiness.clone(),
    ));
}

/// Ready once every catalog that is being served elsewhere is on this disk, or after [`CATALOG_GRACE`].
async fn release_when_served(
    ctx: Arc<cluster_catalog::Context>,
    informer: Informer<ClusterCatalog>,
    readiness: Readiness,
) {
    let until = tokio::time::Instant::now() + CATALOG_GRACE;
    loop {
        let missing = cluster_catalog::not_on_disk(&informer.all(), &ctx);
        if missing.is_empty() || tokio::time::Instant::now() >= until {
            return readiness.release("catalogs");
        }
        readiness.hold(
            "catalogs",
            format!("not on disk yet: {}", missing.join(", ")),
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

//! Wiring: arguments, telemetry, health, lease, shutdown order.
//!
//! ```text
//! every replica:  the API server answers → watches → what is on disk is served → follows the leader's choice of catalog content
//! the leader:     alone, policies in force, lease → all reconcilers
//! stop:           queues drain → lease is given back → content server goes on for a moment, then drains ([`stop`])
//! ```

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the process is put together here"
)]

pub mod arguments;
mod certificate;
mod content;
pub mod gate;
pub mod health;
mod lead;
pub mod lease;
pub mod memory;
pub mod metrics;
mod stop;
pub mod telemetry;

use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher;
use kube::{Api, Client, Config};
use prometheus_client::registry::Registry;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::api::{ClusterCatalog, ClusterExtension, ClusterObjectSet, keys};
use crate::controller::cluster_extension::Orphaned;
use crate::controller::informer::Informer;
use crate::controller::metrics::{Controller, Metrics};
use crate::controller::queue::{self, Listener, Work};
use crate::controller::report::Reporter;
use crate::controller::wiring::Queues;
use crate::controller::written::Written;
use crate::controller::{cluster_catalog, cluster_operator, pull_secrets};
use crate::identity::connection::{Requests, connect};
use crate::identity::fence::Fence;
use crate::identity::reach;
use crate::runtime::arguments::RunArguments;
use crate::runtime::health::Readiness;
use crate::runtime::metrics::{Counters, Objects, Replica, Reviews};
use crate::runtime::stop::Stop;
use crate::runtime::telemetry::LogLevel;
use crate::serve::{ServeError, Served, Tls};

/// Catalogs looked at at the same time: most wait for a registry, and those that work take turns in `fetch`.
const CATALOG_CONCURRENCY: u16 = 64;
/// The Service in front of the content server; people know its name.
const SERVICE_NAME: &str = "catalogd-service";

/// The part that is not ready while the API server does not answer.
const SERVER: &str = "apiserver";

/// Why the process cannot run, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Logging cannot be started.
    #[error(transparent)]
    Telemetry(#[from] telemetry::InvalidLevel),
    /// There is no way to the cluster.
    #[error("cannot find out how to reach the cluster")]
    Config(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The API server is not usable.
    #[error(transparent)]
    Server(#[from] gate::ServerError),
    /// The API server does not say who we are.
    #[error("cannot find out which user oxolm is to the API server")]
    User(#[source] kube::Error),
    /// The cache directory cannot be used.
    #[error("cannot use the cache directory")]
    Store(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The registry client cannot be made.
    #[error("cannot set up the registry client")]
    Registry(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A certificate or an address cannot be used.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Signals cannot be received.
    #[error("cannot wait for signals")]
    Signal(#[source] std::io::Error),
    /// Somebody else leads now; this process must not go on.
    #[error("stopped leading: the lease {0}")]
    Lost(String),
}

/// Runs until a signal, or until the lease is lost.
///
/// # Errors
/// When something that every part needs is missing, or the lease was lost.
pub async fn run(arguments: RunArguments) -> Result<(), RunError> {
    let log_level = telemetry::start(&arguments.log_level, arguments.log_format)?;
    let readiness = Readiness::default();
    let stop = Stop::on_signals(&readiness).map_err(RunError::Signal)?;
    let config = config(arguments.kubeconfig.as_deref()).await?;
    let namespace = arguments.system_namespace.clone().unwrap_or_else(|| {
        match config.default_namespace.as_str() {
            // Outside a Pod that is only what the kubeconfig happens to say.
            "default" | "" => keys::DEFAULT_SYSTEM_NAMESPACE.to_owned(),
            namespace => namespace.to_owned(),
        }
    });
    let requests = Requests::default();
    let fence = Fence::default();
    let client = connect(config, &requests, &fence);
    let client = client.map_err(|error| RunError::Config(error.into()))?;
    readiness.hold("catalogs", "not read yet");
    let probes = arguments.health_probe_bind_address;
    let bound = health::serve(probes, readiness.clone(), stop.serving.clone()).await?;
    info!(address = %bound, "serving probes");
    if !gate::wait_for_server(&client, &stop.work, |why| readiness.hold(SERVER, why)).await? {
        return Ok(());
    }
    readiness.release(SERVER);
    info!(version = env!("CARGO_PKG_VERSION"), namespace, "starting");
    let origin = Origin {
        client,
        fence,
        requests,
        namespace,
        readiness,
        log_level,
    };
    let (parts, catalogs) = Parts::start(&arguments, origin, &stop).await?;
    // It is large, and made once.
    Box::pin(parts.lead(&arguments)).await?;
    stop.work.cancel();
    stop.end_serving(catalogs).await;
    Ok(())
}

async fn config(kubeconfig: Option<&Path>) -> Result<Config, RunError> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| RunError::Config(error);
    let Some(path) = kubeconfig else {
        return reach::by_environment()
            .await
            .map_err(|error| failed(error.into()));
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| failed(error.into()))?;
    reach::by_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| failed(error.into()))
}

/// What there is before anything runs.
struct Origin {
    client: Client,
    fence: Fence,
    requests: Requests,
    namespace: String,
    readiness: Readiness,
    log_level: LogLevel,
}

/// What every replica runs.
struct Parts {
    client: Client,
    fence: Fence,
    namespace: String,
    instance: String,
    stop: CancellationToken,
    readiness: Readiness,
    queues: Queues,
    listeners: Listeners,
    catalogs: Arc<cluster_catalog::Context>,
    catalog_informer: Informer<ClusterCatalog>,
    /// Every replica tells of extensions; only the leader works on them.
    extension_informer: Informer<ClusterExtension>,
    /// Told when an extension or a revision changed.
    changed: Arc<Notify>,
    /// Filled by the leader, read by who wakes extensions.
    extensions: Arc<OnceLock<Informer<ClusterExtension>>>,
    /// Filled by the leader, read by the garbage collector.
    sets: Arc<OnceLock<Informer<ClusterObjectSet>>>,
    metrics: Metrics,
    /// Filled by the leader, read by who tells what blocks the cluster's upgrade.
    openshift: Arc<OnceLock<Arc<cluster_operator::Known>>>,
}

/// The listening ends that the leader takes.
struct Listeners {
    extensions: Listener,
    sets: Listener,
}

impl Parts {
    async fn start(
        arguments: &RunArguments,
        origin: Origin,
        order: &Stop,
    ) -> Result<(Self, JoinHandle<()>), RunError> {
        let Origin {
            client,
            fence,
            requests,
            namespace,
            readiness,
            log_level,
        } = origin;
        let Stop {
            work: stop,
            serving,
            ..
        } = order.clone();
        let (catalog_queue, catalog_listener) = queue::queue();
        let (extension_queue, extension_listener) = queue::queue();
        let (set_queue, set_listener) = queue::queue();
        let queues = Queues {
            catalogs: catalog_queue,
            extensions: extension_queue,
            sets: set_queue,
            written: Written::default(),
            orphaned: Orphaned::default(),
        };
        let instance = instance();
        let extensions: Arc<OnceLock<Informer<ClusterExtension>>> = Arc::default();
        // Filled below: until then, no status is written.
        let context: Arc<OnceLock<Arc<cluster_catalog::Context>>> = Arc::default();
        let catalog_informer = {
            let (queues, extensions) = (queues.clone(), extensions.clone());
            let context = context.clone();
            Informer::start(
                Api::all(client.clone()),
                watcher::Config::default(),
                stop.clone(),
                move |change| {
                    let context = context.get();
                    if let Some(context) = context {
                        cluster_catalog::end_what_changed(&change, context);
                    }
                    if !context.is_some_and(|ctx| cluster_catalog::is_echo(&change, ctx)) {
                        queues.catalog_changed(&change, extensions.get());
                    }
                },
            )
        };
        let leading = Arc::new(AtomicBool::new(false));
        let changed = Arc::new(Notify::new());
        let extension_informer = {
            let (queues, changed, leading) = (queues.clone(), changed.clone(), leading.clone());
            Informer::start(
                Api::all(client.clone()),
                watcher::Config::default(),
                stop.clone(),
                move |change| {
                    queues.orphaned.note(&change);
                    // Nobody listens before; who begins to lead looks at all of them.
                    if leading.load(Ordering::Acquire) {
                        queues.extension_changed(&change);
                    }
                    changed.notify_one();
                },
            )
        };
        let counters = Counters::new(&requests);
        let metrics = counters.passes.clone();
        let (fetcher, store) = content::storage(arguments).await?;
        let fetcher = fetcher.with_metrics(counters.pulls.clone());
        let (served, sets) = (Served::default(), Arc::default());
        let garbage = content::garbage(
            &fetcher,
            &store,
            (catalog_informer.clone(), served.clone(), Arc::clone(&sets)),
        );
        let catalogs = Arc::new(cluster_catalog::Context {
            client: client.clone(),
            fetcher,
            store,
            served,
            external_address: arguments
                .external_address
                .clone()
                .unwrap_or_else(|| format!("{SERVICE_NAME}.{namespace}.svc")),
            leading: leading.clone(),
            reporter: Reporter::new(client.clone(), &instance).with_metrics(metrics.clone()),
            memory: cluster_catalog::Memory::default(),
            on_content: content::content_listener(queues.clone(), extensions.clone()),
        });
        // Only this fills it, once.
        _ = context.set(catalogs.clone());
        let address = &catalogs.external_address;
        let certificate =
            certificate::start(arguments, &client, &namespace, address, order).await?;
        let tls = Tls::of(certificate, arguments.tls_profile)?;
        let server = content::serve_catalogs(
            arguments,
            tls.clone(),
            catalogs.served.clone(),
            counters.served.clone(),
            &serving,
        )
        .await?;
        let openshift: Arc<OnceLock<Arc<cluster_operator::Known>>> = Arc::default();
        let replica = Replica::new(leading, catalogs.fetcher.store().clone());
        let objects = Objects {
            extensions: extension_informer.clone(),
            catalogs: catalog_informer.clone(),
            served: catalogs.served.clone(),
            openshift: openshift.clone(),
        };
        let work_queues = queue::work_queues([
            (Controller::ClusterCatalog, &queues.catalogs),
            (Controller::ClusterExtension, &queues.extensions),
            (Controller::ClusterObjectSet, &queues.sets),
        ]);
        let told = Told {
            registry: counters.with(work_queues, replica, objects),
            tls,
            reviews: Reviews(client.clone()),
            log_level,
        };
        serve_metrics(arguments, told, &serving).await?;
        content::restore(&catalogs, &catalog_informer, &readiness).await;
        let source = pull_secrets::Source {
            client: client.clone(),
            global: arguments.registry.global_pull_secret.clone(),
            account: pull_secrets::account_of(
                &gate::own_user(&client).await.map_err(RunError::User)?,
            ),
        };
        let wake = {
            let (queues, informer) = (queues.clone(), catalog_informer.clone());
            let extensions = extensions.clone();
            move || queues.credentials_changed(&informer, extensions.get())
        };
        content::use_pull_secrets(source, &catalogs.fetcher, wake, &stop).await;
        tokio::spawn({
            let stop = stop.clone();
            async move { garbage.run(stop).await }
        });
        let pass = {
            let ctx = catalogs.clone();
            move |catalog| cluster_catalog::reconcile(catalog, ctx.clone())
        };
        let work = Work {
            controller: Controller::ClusterCatalog,
            concurrency: CATALOG_CONCURRENCY,
            hanging: 0,
            metrics: metrics.clone(),
            stop: stop.clone(),
        };
        tokio::spawn(queue::run(
            catalog_listener,
            catalog_informer.store(),
            work,
            pass,
        ));
        let listeners = Listeners {
            extensions: extension_listener,
            sets: set_listener,
        };
        let parts = Self {
            client,
            fence,
            namespace,
            instance,
            stop,
            readiness,
            queues,
            listeners,
            catalogs,
            catalog_informer,
            extension_informer,
            changed,
            extensions,
            sets,
            metrics,
            openshift,
        };
        Ok((parts, server))
    }
}

/// The name of this replica: the Pod's.
fn instance() -> String {
    std::env::var("HOSTNAME")
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "oxolm".to_owned())
}

/// What metrics are served of, and with.
struct Told {
    registry: Registry,
    tls: Tls,
    reviews: Reviews,
    log_level: LogLevel,
}

/// Serves `/metrics`, unless it is turned off.
async fn serve_metrics(
    arguments: &RunArguments,
    told: Told,
    stop: &CancellationToken,
) -> Result<(), RunError> {
    let Some(address) = arguments.metrics_address() else {
        return Ok(());
    };
    let options = metrics::Options {
        address,
        secure: arguments.metrics_secure.then_some((told.tls, told.reviews)),
        log_level: told.log_level,
    };
    let bound = metrics::serve(options, told.registry, stop.clone()).await?;
    info!(address = %bound, secure = arguments.metrics_secure, "serving metrics");
    Ok(())
}

//! Wiring: arguments, telemetry, health, lease, shutdown order.
//!
//! ```text
//! every replica:  watches → what is on disk is served → follows the leader's choice of catalog content
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
pub mod lease;
pub mod memory;
pub mod metrics;
mod stop;
pub mod telemetry;

use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher;
use kube::{Api, Client, Config, ResourceExt};
use prometheus_client::registry::Registry;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::api::policy::Settings;
use crate::api::{ClusterCatalog, ClusterExtension, ClusterObjectSet, keys};
use crate::apply::discovery::Discovery;
use crate::apply::permissions::Preflight;
use crate::apply::watch::DriftWatches;
use crate::controller::informer::Informer;
use crate::controller::metrics::{Controller, Metrics};
use crate::controller::queue::{self, Listener, Work};
use crate::controller::report::Reporter;
use crate::controller::wiring::Queues;
use crate::controller::{
    cluster_catalog, cluster_extension, cluster_object_set, cluster_operator, pull_secrets,
};
use crate::identity::accounts::{self, Accounts};
use crate::identity::connection::connect;
use crate::identity::{ExcludedNamespaces, Identity};
use crate::runtime::arguments::{AccountPolicy, RunArguments};
use crate::runtime::health::Readiness;
use crate::runtime::lease::{Kept, LEASE_DURATION, RENEW_DEADLINE, Seat};
use crate::runtime::stop::Stop;
use crate::serve::{self, Served};

/// How long the reconcilers may go on after a stop before they are cut off: somebody else waits to go on, and can from anywhere.
const DRAIN: Duration = Duration::from_secs(1);
/// The same when the lease is lost: until then nobody else can have taken it.
const DRAIN_LOST: Duration = LEASE_DURATION.saturating_sub(RENEW_DEADLINE);
/// Catalogs looked at at the same time: most wait for a registry, and those that work take turns in `fetch`.
const CATALOG_CONCURRENCY: u16 = 64;
/// Extensions and revisions reconciled at the same time.
const CONCURRENCY: u16 = 16;
/// The time between two looks for another controller while we lead.
const RIVAL_PERIOD: Duration = Duration::from_mins(1);
/// The Service in front of the content server; people know its name.
const SERVICE_NAME: &str = "catalogd-service";

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
    /// An address cannot be bound.
    #[error("cannot listen on {0}")]
    Bind(String, #[source] std::io::Error),
    /// The certificate cannot be used.
    #[error("cannot serve catalogs")]
    Serve(#[source] Box<dyn std::error::Error + Send + Sync>),
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
    telemetry::start(&arguments.log_level, arguments.log_format)?;
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
    let client = connect(config).map_err(|error| RunError::Config(error.into()))?;
    gate::check_server(&client).await?;
    info!(version = env!("CARGO_PKG_VERSION"), namespace, "starting");
    let (parts, catalogs) = Parts::start(&arguments, client, namespace, readiness, &stop).await?;
    parts.lead(&arguments).await?;
    stop.work.cancel();
    stop.end_serving(catalogs).await;
    Ok(())
}

async fn config(kubeconfig: Option<&Path>) -> Result<Config, RunError> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| RunError::Config(error);
    let Some(path) = kubeconfig else {
        return Config::infer().await.map_err(|error| failed(error.into()));
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| failed(error.into()))?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| failed(error.into()))
}

/// What every replica runs.
struct Parts {
    client: Client,
    namespace: String,
    instance: String,
    stop: CancellationToken,
    readiness: Readiness,
    queues: Queues,
    listeners: Listeners,
    catalogs: Arc<cluster_catalog::Context>,
    catalog_informer: Informer<ClusterCatalog>,
    /// Filled by the leader, read by who wakes extensions.
    extensions: Arc<OnceLock<Informer<ClusterExtension>>>,
    /// Filled by the leader, read by the garbage collector.
    sets: Arc<OnceLock<Informer<ClusterObjectSet>>>,
    metrics: Metrics,
}

/// The listening ends that the leader takes.
struct Listeners {
    extensions: Listener,
    sets: Listener,
}

impl Parts {
    async fn start(
        arguments: &RunArguments,
        client: Client,
        namespace: String,
        readiness: Readiness,
        order: &Stop,
    ) -> Result<(Self, JoinHandle<()>), RunError> {
        let Stop {
            work: stop,
            serving,
            ..
        } = order.clone();
        readiness.hold("catalogs", "not read yet");
        let probes = arguments.health_probe_bind_address;
        let bound = health::serve(probes, readiness.clone(), serving.clone())
            .await
            .map_err(|error| RunError::Bind(probes.to_string(), error))?;
        info!(address = %bound, "serving probes");
        let (catalog_queue, catalog_listener) = queue::queue();
        let (extension_queue, extension_listener) = queue::queue();
        let (set_queue, set_listener) = queue::queue();
        let queues = Queues {
            catalogs: catalog_queue,
            extensions: extension_queue,
            sets: set_queue,
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
                    if !context.is_some_and(|ctx| cluster_catalog::is_echo(&change, ctx)) {
                        queues.catalog_changed(&change, extensions.get());
                    }
                },
            )
        };
        let mut registry = metrics::registry();
        let metrics = Metrics::register(&mut registry);
        let requests = serve::Metrics::register(&mut registry);
        let (fetcher, store) = content::storage(arguments).await?;
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
            leading: Arc::new(AtomicBool::new(false)),
            reporter: Reporter::new(client.clone(), &instance),
            memory: cluster_catalog::Memory::default(),
            on_content: content::content_listener(queues.clone(), extensions.clone()),
        });
        // Only this fills it, once.
        _ = context.set(catalogs.clone());
        let address = &catalogs.external_address;
        let certificate =
            certificate::start(arguments, &client, &namespace, address, &serving).await?;
        let server = content::serve_catalogs(
            arguments,
            certificate,
            catalogs.served.clone(),
            requests,
            &serving,
        )
        .await?;
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
        serve_metrics(arguments, registry, &serving).await?;
        let work = Work {
            controller: Controller::ClusterCatalog,
            concurrency: CATALOG_CONCURRENCY,
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
            namespace,
            instance,
            stop,
            readiness,
            queues,
            listeners,
            catalogs,
            catalog_informer,
            extensions,
            sets,
            metrics,
        };
        Ok((parts, server))
    }

    /// Waits until this replica may lead, leads until told to stop, and gives the lease back.
    async fn lead(self, arguments: &RunArguments) -> Result<(), RunError> {
        let seat = Seat::new(self.client.clone(), &self.namespace, &self.instance);
        if !self.may_write(arguments).await? {
            return Ok(());
        }
        let Some(since) = seat.acquire(&self.stop, |_why| {}).await else {
            return Ok(());
        };
        let (stop, readiness, client, namespace) = (
            self.stop.clone(),
            self.readiness.clone(),
            self.client.clone(),
            self.namespace.clone(),
        );
        let lost = CancellationToken::new();
        let rivals = watch_for_rivals(&client, &namespace, &readiness, &lost);
        let kept = async {
            tokio::select! {
                kept = seat.keep(since, &stop) => kept,
                () = rivals => Kept::Lost("is not enough: another controller of this API is running".to_owned()),
            }
        };
        tokio::pin!(kept);
        // Caches take their time to fill: the lease is renewed meanwhile.
        let started = tokio::select! {
            tasks = self.start_leading(arguments) => Ok(tasks),
            kept = &mut kept => Err(kept),
        };
        let (mut tasks, kept) = match started {
            Ok(tasks) => (tasks, kept.await),
            Err(kept) => (JoinSet::new(), kept),
        };
        stop.cancel();
        let drain = match kept {
            Kept::Stopped => DRAIN,
            Kept::Lost(_) => DRAIN_LOST,
        };
        let drained =
            tokio::time::timeout(drain, async { while tasks.join_next().await.is_some() {} }).await;
        if drained.is_err() {
            warn!(seconds = drain.as_secs(), "passes under way were cut off");
            tasks.shutdown().await;
        }
        match kept {
            Kept::Stopped => {
                seat.release().await;
                Ok(())
            }
            Kept::Lost(why) => Err(RunError::Lost(why)),
        }
    }

    /// Waits for what must hold before anything is written. False when told to stop meanwhile.
    async fn may_write(&self, arguments: &RunArguments) -> Result<bool, RunError> {
        let hold = |why: &str| self.readiness.hold("leader", why);
        let is_openshift = cluster_operator::is_openshift(&self.client).await;
        if !gate::wait_until_alone(
            &self.client,
            &self.namespace,
            is_openshift,
            &self.stop,
            hold,
        )
        .await
        {
            return Ok(false);
        }
        if arguments.account_policy == AccountPolicy::Required {
            let settings = Settings {
                controller: gate::own_user(&self.client).await.map_err(RunError::User)?,
                default_account: arguments.default_account_text(),
                excluded_namespaces: arguments.excluded_namespaces.clone(),
            };
            if !gate::wait_for_policies(&self.client, &settings, &self.stop, hold).await {
                return Ok(false);
            }
        }
        self.readiness.release("leader");
        Ok(true)
    }

    /// Starts all reconcilers.
    async fn start_leading(self, arguments: &RunArguments) -> JoinSet<()> {
        let Self {
            client,
            stop,
            queues,
            listeners,
            catalogs,
            catalog_informer,
            ..
        } = self;
        let mut tasks = JoinSet::new();
        let accounts = Arc::new(Accounts::default());
        {
            let (accounts, client, stop) = (accounts.clone(), client.clone(), stop.clone());
            tasks.spawn(async move {
                tokio::select! { () = accounts.watch(&client) => {}, () = stop.cancelled() => {} }
            });
        }
        let changed = Arc::new(Notify::new());
        let extension_informer = {
            let (queues, changed) = (queues.clone(), changed.clone());
            Informer::start(
                Api::all(client.clone()),
                watcher::Config::default(),
                stop.clone(),
                move |change| {
                    queues.extension_changed(&change);
                    changed.notify_one();
                },
            )
        };
        let set_informer = {
            let (queues, changed) = (queues.clone(), changed.clone());
            Informer::start(
                Api::all(client.clone()),
                watcher::Config::default(),
                stop.clone(),
                move |change| {
                    queues.set_changed(&change);
                    changed.notify_one();
                },
            )
        };
        tokio::join!(
            catalog_informer.ready(),
            extension_informer.ready(),
            set_informer.ready()
        );
        // Only this leader fills it, once.
        _ = self.extensions.set(extension_informer.clone());
        _ = self.sets.set(set_informer.clone());
        let identity = Identity::new(
            client.clone(),
            accounts.clone(),
            ExcludedNamespaces::new(
                arguments
                    .excluded_namespaces
                    .split(',')
                    .filter(|one| !one.is_empty()),
            ),
            arguments
                .default_service_account
                .clone()
                .unwrap_or_default(),
        );
        let discovery = Arc::new(Discovery::new(client.clone()));
        let preflight = Arc::new(Preflight::default());
        let (watches, drifted) = DriftWatches::new(client.clone());
        let watches = Arc::new(watches);
        tasks.spawn(wake_on_accounts(
            accounts.clone(),
            queues.clone(),
            extension_informer.clone(),
            set_informer.clone(),
            watches.clone(),
            stop.clone(),
        ));
        tasks.spawn(wake_on_drift(drifted, queues.clone(), stop.clone()));
        let known = Arc::new(cluster_operator::Known::default());
        let sets = Arc::new(cluster_object_set::Context {
            client: client.clone(),
            identity: identity.clone(),
            sets: set_informer.clone(),
            discovery: discovery.clone(),
            watches: watches.clone(),
            preflight: preflight.clone(),
            memory: cluster_object_set::memory::Memory::default(),
            system_namespace: self.namespace.clone(),
            crd_deletion: arguments.crd_deletion.into(),
            reread: arguments.reread_period,
            reporter: catalogs.reporter.clone(),
        });
        let extensions = Arc::new(cluster_extension::Context {
            client: client.clone(),
            identity,
            catalogs: catalog_informer.clone(),
            sets: set_informer.clone(),
            served: catalogs.served.clone(),
            fetcher: catalogs.fetcher.clone(),
            system_namespace: self.namespace,
            discovery: discovery.clone(),
            accounts,
            preflight,
            reporter: catalogs.reporter.clone(),
            major_upgrades: arguments.major_upgrades.into(),
            certificates: arguments.webhook_certificates.into(),
            queue: queues.extensions.clone(),
            memory: cluster_extension::Memory::default(),
            openshift: known.clone(),
        });
        let gate = Arc::new(cluster_operator::Context {
            client,
            extensions: extension_informer.clone(),
            sets: set_informer.clone(),
            changed,
            known,
            queue: queues.extensions.clone(),
        });
        let work = |controller| Work {
            controller,
            concurrency: CONCURRENCY,
            metrics: self.metrics.clone(),
            stop: stop.clone(),
        };
        let extension_pass =
            move |extension| cluster_extension::reconcile(extension, extensions.clone());
        tasks.spawn(queue::run(
            listeners.extensions,
            extension_informer.store(),
            work(Controller::ClusterExtension),
            extension_pass,
        ));
        tasks.spawn(cluster_object_set::tidy(sets.clone(), stop.clone()));
        let set_pass = move |set| cluster_object_set::reconcile(sets.clone(), set);
        tasks.spawn(queue::run(
            listeners.sets,
            set_informer.store(),
            work(Controller::ClusterObjectSet),
            set_pass,
        ));
        tasks.spawn(cluster_operator::run(gate, stop.clone()));
        catalogs.leading.store(true, Ordering::Release);
        for catalog in catalog_informer.all() {
            queues.catalogs.wake(&catalog.name_any());
        }
        tasks
    }
}

/// Another controller that appears while we lead: everything stops.
async fn watch_for_rivals(
    client: &Client,
    namespace: &str,
    readiness: &Readiness,
    stop: &CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(RIVAL_PERIOD) => {}
        }
        if let Ok(Some(rival)) = gate::catalogd_rival(client, namespace).await {
            error!("{rival}");
            readiness.hold("leader", rival);
            return;
        }
    }
}

async fn wake_on_accounts(
    accounts: Arc<Accounts>,
    queues: Queues,
    extensions: Informer<ClusterExtension>,
    sets: Informer<ClusterObjectSet>,
    watches: Arc<DriftWatches>,
    stop: CancellationToken,
) {
    let mut changes = accounts.changes();
    loop {
        let change = tokio::select! {
            () = stop.cancelled() => return,
            change = changes.recv() => change,
        };
        let change = match change {
            Ok(change) => change,
            Err(RecvError::Lagged(_)) => accounts::Change::Rights,
            Err(RecvError::Closed) => return,
        };
        if change == accounts::Change::Rights {
            watches.rights_changed();
        }
        queues.account_changed(&change, &extensions, &sets);
    }
}

async fn wake_on_drift(
    mut drifted: UnboundedReceiver<String>,
    queues: Queues,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            name = drifted.recv() => match name {
                Some(name) => queues.sets.wake(&name),
                None => return,
            },
        }
    }
}

/// The name of this replica: the Pod's.
fn instance() -> String {
    std::env::var("HOSTNAME")
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "oxolm".to_owned())
}

/// Serves `/metrics`, unless it is turned off.
async fn serve_metrics(
    arguments: &RunArguments,
    registry: Registry,
    stop: &CancellationToken,
) -> Result<(), RunError> {
    if let Some(address) = arguments.metrics_bind_address.0 {
        let bound = metrics::serve(address, registry, stop.clone())
            .await
            .map_err(|error| RunError::Bind(address.to_string(), error))?;
        info!(address = %bound, "serving metrics");
    }
    Ok(())
}

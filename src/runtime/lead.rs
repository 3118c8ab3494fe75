//! Leading: what one replica does at a time, and how it begins and ends.

#![expect(clippy::disallowed_types, reason = "the process is put together here")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::{Parts, RunError, gate};
use crate::api::policy::Settings;
use crate::api::{ClusterExtension, ClusterObjectSet};
use crate::apply::discovery::Discovery;
use crate::apply::permissions::Preflight;
use crate::apply::secrets::handover::Handover;
use crate::apply::watch::DriftWatches;
use crate::controller::informer::Informer;
use crate::controller::metrics::Controller;
use crate::controller::queue::{self, Work};
use crate::controller::wiring::Queues;
use crate::controller::{cluster_extension, cluster_object_set, cluster_operator};
use crate::identity::accounts::{self, Accounts};
use crate::identity::{ExcludedNamespaces, Identity};
use crate::runtime::arguments::{AccountPolicy, RunArguments};
use crate::runtime::gate::Sightings;
use crate::runtime::health::Readiness;
use crate::runtime::lease::{Kept, LEASE_DURATION, RENEW_DEADLINE, Seat};

/// How long the reconcilers may go on after a stop before they are cut off: somebody else waits to go on, and can from anywhere.
const DRAIN: Duration = Duration::from_secs(1);
/// The same when the lease is lost: until then nobody else can have taken it.
const DRAIN_LOST: Duration = LEASE_DURATION.saturating_sub(RENEW_DEADLINE);
/// Extensions and revisions reconciled at the same time.
const CONCURRENCY: u16 = 16;
/// How many more that wait for somebody who does not answer.
const HANGING: u16 = 112;
/// The time between two looks for another controller while we lead.
const RIVAL_PERIOD: Duration = Duration::from_mins(1);

impl Parts {
    /// Waits until this replica may lead, leads until told to stop, and gives the lease back.
    pub(super) async fn lead(self, arguments: &RunArguments) -> Result<(), RunError> {
        let (client, fence) = (self.client.clone(), self.fence.clone());
        let seat = Seat::new(client, &self.namespace, &self.instance, fence);
        let sightings = Sightings::default();
        if !self.may_write(arguments, &sightings).await? {
            return Ok(());
        }
        let Some(term) = seat.acquire(&self.stop).await else {
            return Ok(());
        };
        let (stop, readiness, client, namespace) = (
            self.stop.clone(),
            self.readiness.clone(),
            self.client.clone(),
            self.namespace.clone(),
        );
        let lost = CancellationToken::new();
        let rivals = watch_for_rivals((&client, &namespace), &sightings, &readiness, &lost);
        let kept = async {
            tokio::select! {
                kept = seat.keep(term, &stop) => kept,
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
    async fn may_write(
        &self,
        arguments: &RunArguments,
        sightings: &Sightings,
    ) -> Result<bool, RunError> {
        let hold = |why: &str| self.readiness.hold("leader", why);
        let is_openshift = cluster_operator::is_openshift(&self.client).await;
        if !gate::wait_until_alone(
            &self.client,
            &self.namespace,
            is_openshift,
            sightings,
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
            extension_informer,
            changed,
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
        let asking = discovery.clone();
        tasks.spawn(async move { asking.ask_ahead().await });
        let preflight = Arc::new(Preflight::default());
        let handover = Arc::new(Handover::default());
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
        // Only this leader fills it, once.
        _ = self.openshift.set(known.clone());
        let sets = Arc::new(cluster_object_set::Context {
            client: client.clone(),
            identity: identity.clone(),
            sets: set_informer.clone(),
            discovery: discovery.clone(),
            watches: watches.clone(),
            preflight: preflight.clone(),
            handover: handover.clone(),
            memory: cluster_object_set::memory::Memory::default(),
            written: queues.written.clone(),
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
            handover,
            system_namespace: self.namespace,
            discovery: discovery.clone(),
            accounts,
            preflight,
            reporter: catalogs.reporter.clone(),
            major_upgrades: arguments.major_upgrades.into(),
            certificates: arguments.webhook_certificates.into(),
            queue: queues.extensions.clone(),
            written: queues.written.clone(),
            orphaned: queues.orphaned.clone(),
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
            hanging: HANGING,
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
        queues.all_extensions(&extension_informer);
        tasks
    }
}

/// Another controller that appears while we lead: everything stops.
async fn watch_for_rivals(
    (client, namespace): (&Client, &str),
    sightings: &Sightings,
    readiness: &Readiness,
    stop: &CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(RIVAL_PERIOD) => {}
        }
        if let Ok(Some(rival)) = gate::catalogd_rival(client, namespace, sightings).await {
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

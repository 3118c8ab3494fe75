//! Which service accounts exist, and when rights changed: metadata watches, so that nobody has to ask again.
//!
//! Until the first list has been read, and whenever the watch is not allowed, every question is a request.
//!
//! RBAC objects that came with an installed bundle change in swarms and seldom give rights to who installs. They are
//! a reason to look again only where an account is known to lack some ([`Accounts::lacks`]), and then once in a while.

#![expect(
    clippy::disallowed_types,
    reason = "the watches are the controller's own"
)]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use kube::api::{Api, ApiResource, DynamicObject, PartialObjectMeta};
use kube::core::GroupVersionKind;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt as _};
use tokio::sync::{Notify, broadcast};
use tracing::debug;

use crate::api::keys;
use crate::identity::request::{self, RequestError};
use crate::revision::Account;

/// The kinds that decide who may do what.
const RBAC_KINDS: [&str; 4] = ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"];
/// How many changes a slow listener may lag behind before it only learns that it missed some.
const CHANGES: usize = 1024;
/// How long changes by bundles are gathered before those that lack rights are told.
const GATHERED: Duration = Duration::from_secs(2);

/// What changed about accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// An account appeared or went, or may have got rights that it lacked.
    Account(Account),
    /// Somebody's rights changed.
    Rights,
}

/// What is known about accounts.
#[derive(Debug)]
pub struct Accounts {
    /// None until the first list is read.
    known: Mutex<Option<BTreeSet<Account>>>,
    /// Counts the changes of rights.
    epoch: AtomicU64,
    /// Who is known to lack rights.
    lacking: Mutex<BTreeSet<Account>>,
    /// A bundle brought or took rights.
    bundled: Notify,
    changes: broadcast::Sender<Change>,
}

impl Default for Accounts {
    fn default() -> Self {
        Self {
            known: Mutex::new(None),
            epoch: AtomicU64::new(0),
            lacking: Mutex::default(),
            bundled: Notify::new(),
            changes: broadcast::channel(CHANGES).0,
        }
    }
}

impl Accounts {
    /// Whether `account` exists; asks through `client` while nothing is known.
    ///
    /// # Errors
    /// When the API server was asked and said neither yes nor no.
    pub async fn exists(&self, client: &Client, account: &Account) -> Result<bool, RequestError> {
        if let Some(known) = &*self.known() {
            return Ok(known.contains(account));
        }
        let path = request::path("", "v1", Some(&account.namespace), "serviceaccounts");
        Ok(request::get(client, &path, &account.name).await?.is_some())
    }

    /// Changes whenever somebody's rights change: what was found out under another number may be wrong.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Notes whether `account` was found to lack rights.
    pub fn lacks(&self, account: &Account, does: bool) {
        let mut lacking = self.lacking();
        if does {
            lacking.insert(account.clone());
        } else {
            lacking.remove(account);
        }
    }

    /// The changes from now on. Who lags behind gets an error once and should look at everything.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Watches until it is dropped.
    pub async fn watch(&self, client: &Client) {
        let [roles, cluster_roles, bindings, cluster_bindings] =
            RBAC_KINDS.map(|kind| self.watch_rights(client, kind));
        tokio::join!(
            self.watch_accounts(client),
            roles,
            cluster_roles,
            bindings,
            cluster_bindings,
            self.tell_of_bundles()
        );
    }

    async fn watch_accounts(&self, client: &Client) {
        let mut events = events(client, "", "ServiceAccount", watcher::Config::default());
        let mut listed = BTreeSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    listed.insert(account_of(&object));
                }
                Ok(Event::InitDone) => {
                    let before = self.known().replace(listed.clone()).unwrap_or_default();
                    for account in before.symmetric_difference(&listed) {
                        self.announce(Change::Account(account.clone()));
                    }
                }
                Ok(Event::Apply(object)) => {
                    let account = account_of(&object);
                    let known = self
                        .known()
                        .as_mut()
                        .map(|known| known.insert(account.clone()));
                    if known == Some(true) {
                        self.announce(Change::Account(account));
                    }
                }
                Ok(Event::Delete(object)) => {
                    let account = account_of(&object);
                    if let Some(known) = self.known().as_mut() {
                        known.remove(&account);
                    }
                    self.announce(Change::Account(account));
                }
                Err(error) => debug!(%error, "cannot watch service accounts"),
            }
        }
    }

    async fn watch_rights(&self, client: &Client, kind: &'static str) {
        let config = watcher::Config::default();
        let mut events = events(client, "rbac.authorization.k8s.io", kind, config);
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(object)) if is_bundled(&object) => self.bundled.notify_one(),
                Ok(Event::Delete(object)) if is_bundled(&object) => self.next_epoch(),
                Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone) => {
                    self.next_epoch();
                    self.announce(Change::Rights);
                }
                Ok(Event::Init | Event::InitApply(_)) => {}
                Err(error) => debug!(%error, kind, "cannot watch rights"),
            }
        }
    }

    /// Tells those that lack rights that a bundle may have brought some.
    async fn tell_of_bundles(&self) {
        loop {
            self.bundled.notified().await;
            if self.lacking().is_empty() {
                continue;
            }
            tokio::time::sleep(GATHERED).await;
            // What was told meanwhile is in.
            _ = self.bundled.notified().now_or_never();
            let lacking = self.lacking().clone();
            for account in lacking {
                self.announce(Change::Account(account));
            }
        }
    }

    fn next_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    fn announce(&self, change: Change) {
        // Nobody listens: nobody needs to know.
        _ = self.changes.send(change);
    }

    fn known(&self) -> MutexGuard<'_, Option<BTreeSet<Account>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lacking(&self) -> MutexGuard<'_, BTreeSet<Account>> {
        self.lacking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Watched = PartialObjectMeta<DynamicObject>;

fn events(
    client: &Client,
    group: &str,
    kind: &str,
    config: watcher::Config,
) -> futures::stream::BoxStream<'static, watcher::Result<Event<Watched>>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    let api: Api<Watched> = Api::all_with(client.clone(), &resource);
    watcher::watcher(api, config).default_backoff().boxed()
}

/// Whether a bundle brought it.
fn is_bundled(object: &Watched) -> bool {
    (object.labels().get(keys::MANAGED_BY)).is_some_and(|manager| manager == keys::MANAGED_BY_OLM)
}

fn account_of(object: &Watched) -> Account {
    Account {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a watch runs beside its test")]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::testing::api_server::ApiServer;

    fn object(kind: &str, name: &str) -> serde_json::Value {
        let api_version = if kind == "ServiceAccount" {
            "v1"
        } else {
            "rbac.authorization.k8s.io/v1"
        };
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "n"}})
    }

    fn account(name: &str) -> Account {
        Account {
            namespace: "n".into(),
            name: name.into(),
        }
    }

    /// What is known of `server`, and the changes, while the watch goes on.
    struct Watching {
        accounts: Arc<Accounts>,
        changes: broadcast::Receiver<Change>,
        task: tokio::task::JoinHandle<()>,
    }

    impl Drop for Watching {
        fn drop(&mut self) {
            self.task.abort();
        }
    }

    fn watch(server: &ApiServer) -> Watching {
        let accounts = Arc::new(Accounts::default());
        let (client, watching) = (server.client(), accounts.clone());
        Watching {
            changes: accounts.changes(),
            accounts,
            task: tokio::spawn(async move { watching.watch(&client).await }),
        }
    }

    /// Waits until all kinds were listed.
    async fn watch_rights(server: &ApiServer) -> Watching {
        let mut watched = watch(server);
        for _ in RBAC_KINDS {
            assert_eq!(watched.changes.recv().await.unwrap(), Change::Rights);
        }
        watched
    }

    #[tokio::test]
    async fn a_watched_account_is_known_without_asking() {
        let server = ApiServer::new();
        server.add(&object("ServiceAccount", "a"));
        let mut watched = watch(&server);
        let (accounts, changes) = (watched.accounts.clone(), &mut watched.changes);
        let mut next_account = async || loop {
            if let Change::Account(account) = changes.recv().await.unwrap() {
                return account;
            }
        };
        assert_eq!(next_account().await, account("a"));
        let requests = server.log().len();
        let client = server.client();
        assert!(accounts.exists(&client, &account("a")).await.unwrap());
        assert!(!accounts.exists(&client, &account("b")).await.unwrap());
        server.add(&object("ServiceAccount", "b"));
        assert_eq!(next_account().await, account("b"));
        assert!(accounts.exists(&client, &account("b")).await.unwrap());
        server.remove(&object("ServiceAccount", "a"));
        assert_eq!(next_account().await, account("a"));
        assert!(!accounts.exists(&client, &account("a")).await.unwrap());
        let reads = |log: &[crate::testing::api_server::Logged]| {
            log.iter()
                .filter(|logged| logged.line.contains("/serviceaccounts/"))
                .count()
        };
        assert_eq!(reads(&server.log()[requests..]), 0);
    }

    #[tokio::test]
    async fn a_change_of_rights_changes_the_epoch() {
        let server = ApiServer::new();
        let mut watched = watch_rights(&server).await;
        let (accounts, changes) = (watched.accounts.clone(), &mut watched.changes);
        let before = accounts.epoch();
        server.add(&object("RoleBinding", "b"));
        assert_eq!(changes.recv().await.unwrap(), Change::Rights);
        assert_ne!(accounts.epoch(), before);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_bundle_grants_concerns_those_that_lack_rights() {
        let server = ApiServer::new();
        let mut watched = watch_rights(&server).await;
        let (accounts, changes) = (watched.accounts.clone(), &mut watched.changes);
        let bundled = |name: &str| {
            let mut binding = object("RoleBinding", name);
            binding["metadata"]["labels"] = json!({keys::MANAGED_BY: keys::MANAGED_BY_OLM});
            binding
        };
        let before = accounts.epoch();
        server.add(&bundled("a"));
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(changes.try_recv().is_err(), "nobody lacks anything");
        accounts.lacks(&account("poor"), true);
        accounts.lacks(&account("once"), true);
        accounts.lacks(&account("once"), false);
        server.add(&bundled("b"));
        server.add(&bundled("c"));
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(changes.try_recv(), Ok(Change::Account(account("poor"))));
        assert!(changes.try_recv().is_err(), "two changes are told at once");
        assert_eq!(accounts.epoch(), before);
        server.remove(&bundled("b"));
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_ne!(accounts.epoch(), before, "what is taken away counts");
    }
}

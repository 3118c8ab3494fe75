//! Which service accounts exist, and when rights changed: metadata watches, so that nobody has to ask again.
//!
//! Until the first list has been read, and whenever the watch is not allowed, every question is a request.

#![expect(
    clippy::disallowed_types,
    reason = "the watches are the controller's own"
)]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use futures::StreamExt as _;
use kube::api::{Api, ApiResource, DynamicObject, PartialObjectMeta};
use kube::core::GroupVersionKind;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt as _};
use tokio::sync::broadcast;
use tracing::debug;

use crate::api::keys;
use crate::identity::request::{self, RequestError};
use crate::revision::Account;

/// The kinds that decide who may do what.
const RBAC_KINDS: [&str; 4] = ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"];
/// How many changes a slow listener may lag behind before it only learns that it missed some.
const CHANGES: usize = 1024;

/// What changed about accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// An account appeared or went.
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
    changes: broadcast::Sender<Change>,
}

impl Default for Accounts {
    fn default() -> Self {
        Self {
            known: Mutex::new(None),
            epoch: AtomicU64::new(0),
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
            cluster_bindings
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

    /// RBAC objects of installed bundles are left out: they give no rights to who installs.
    async fn watch_rights(&self, client: &Client, kind: &'static str) {
        let config = watcher::Config::default().labels(&format!(
            "{}!={}",
            keys::MANAGED_BY,
            keys::MANAGED_BY_OLM
        ));
        let mut events = events(client, "rbac.authorization.k8s.io", kind, config);
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone) => {
                    self.epoch.fetch_add(1, Ordering::AcqRel);
                    self.announce(Change::Rights);
                }
                Ok(Event::Init | Event::InitApply(_)) => {}
                Err(error) => debug!(%error, kind, "cannot watch rights"),
            }
        }
    }

    fn announce(&self, change: Change) {
        // Nobody listens: nobody needs to know.
        _ = self.changes.send(change);
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Option<BTreeSet<Account>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[tokio::test]
    async fn a_watched_account_is_known_without_asking() {
        let server = ApiServer::new();
        server.add(&object("ServiceAccount", "a"));
        let accounts = Arc::new(Accounts::default());
        let mut changes = accounts.changes();
        let (client, watched) = (server.client(), accounts.clone());
        let watch = tokio::spawn(async move { watched.watch(&client).await });
        let account = |name: &str| Account {
            namespace: "n".into(),
            name: name.into(),
        };
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
        watch.abort();
    }

    #[tokio::test]
    async fn a_change_of_rights_changes_the_epoch() {
        let server = ApiServer::new();
        let accounts = Arc::new(Accounts::default());
        let mut changes = accounts.changes();
        let (client, watched) = (server.client(), accounts.clone());
        let watch = tokio::spawn(async move { watched.watch(&client).await });
        for _ in RBAC_KINDS {
            assert_eq!(changes.recv().await.unwrap(), Change::Rights);
        }
        let before = accounts.epoch();
        server.add(&object("RoleBinding", "b"));
        assert_eq!(changes.recv().await.unwrap(), Change::Rights);
        assert_ne!(accounts.epoch(), before);
        watch.abort();
    }
}

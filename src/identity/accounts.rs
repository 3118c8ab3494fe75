//! Which service accounts exist, and when rights changed: watches, of metadata but for bindings, so that nobody asks again.
//!
//! Until the first list has been read, and whenever the watch is not allowed, every question is a request.
//!
//! RBAC objects that came with an installed bundle change in swarms and seldom give rights to who installs. They are
//! a reason to look again only where an account is known to lack some ([`Accounts::lacks`]), and then once in a while.

#![expect(
    clippy::disallowed_types,
    reason = "the watches are the controller's own"
)]

use std::collections::{BTreeMap, BTreeSet};
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
use crate::identity::bindings::Bindings;
pub use crate::identity::bindings::Subject;
use crate::identity::request::{self, RequestError};
use crate::revision::Account;

/// The kinds that say what may be done.
const ROLES: [&str; 2] = ["Role", "ClusterRole"];
/// The kinds that say who may.
const BINDINGS: [&str; 2] = ["RoleBinding", "ClusterRoleBinding"];
const RBAC: &str = "rbac.authorization.k8s.io";
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
    /// It were theirs.
    RightsOf(Subject),
}

/// What is known about accounts.
#[derive(Debug)]
pub struct Accounts {
    /// None until the first list is read.
    known: Mutex<Option<BTreeSet<Account>>>,
    /// Counts the changes of rights.
    epoch: AtomicU64,
    /// Counts the changes of the rights of some.
    changed: Mutex<BTreeMap<Subject, u64>>,
    /// Who has which role, of all bindings that no bundle brought.
    bindings: Mutex<Bindings>,
    /// The same of those without namespace.
    cluster_bindings: Mutex<Bindings>,
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
            changed: Mutex::default(),
            bindings: Mutex::default(),
            cluster_bindings: Mutex::default(),
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

    /// Whether `account` is known not to exist; no request.
    pub fn is_missing(&self, account: &Account) -> bool {
        (self.known().as_ref()).is_some_and(|known| !known.contains(account))
    }

    /// Changes whenever the rights of `account` change, or may have.
    pub fn epoch_of(&self, account: &Account) -> u64 {
        let changed = lock(&self.changed);
        let own = changed.iter().filter(|(one, _)| one.contains(account));
        own.map(|(_, times)| times).sum()
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
        let [roles, cluster_roles] = ROLES.map(|kind| self.watch_roles(client, kind));
        let [bindings, cluster_bindings] = BINDINGS.map(|kind| self.watch_bindings(client, kind));
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

    async fn watch_roles(&self, client: &Client, kind: &'static str) {
        let mut events = events(client, RBAC, kind, watcher::Config::default());
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(role)) if is_bundled(&role) => self.bundled.notify_one(),
                Ok(Event::Delete(role)) if is_bundled(&role) => self.next_epoch(),
                Ok(Event::Apply(role) | Event::Delete(role)) => {
                    let (namespace, name) = (role.namespace().unwrap_or_default(), role.name_any());
                    let subjects = BINDINGS.iter().map(|kind| self.bindings(kind));
                    let subjects =
                        subjects.flat_map(|known| lock(known).of_role(&namespace, &name));
                    self.rights_changed(subjects.collect());
                }
                // What changed while the watch was broken is not known: those that wait look again.
                Ok(Event::InitDone) => self.rights_changed(BTreeSet::new()),
                Ok(Event::Init | Event::InitApply(_)) => {}
                Err(error) => debug!(%error, kind, "cannot watch rights"),
            }
        }
    }

    async fn watch_bindings(&self, client: &Client, kind: &'static str) {
        let known = self.bindings(kind);
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(RBAC, "v1", kind));
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let watch = watcher::watcher(api, watcher::Config::default());
        let mut events = watch.default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(binding)) if is_bundled(&binding) => self.bundled.notify_one(),
                Ok(Event::Delete(binding)) if is_bundled(&binding) => self.next_epoch(),
                Ok(Event::InitApply(binding)) if is_bundled(&binding) => {}
                Ok(Event::Init) => lock(known).begin(),
                Ok(Event::InitApply(binding)) => lock(known).list(&binding),
                Ok(Event::InitDone) => {
                    let concerned = lock(known).end();
                    self.rights_changed(concerned);
                }
                Ok(Event::Apply(binding)) => {
                    let concerned = lock(known).change(&binding, true);
                    self.rights_changed(concerned);
                }
                Ok(Event::Delete(binding)) => {
                    let concerned = lock(known).change(&binding, false);
                    self.rights_changed(concerned);
                }
                Err(error) => debug!(%error, kind, "cannot watch rights"),
            }
        }
    }

    fn bindings(&self, kind: &str) -> &Mutex<Bindings> {
        if kind == "RoleBinding" {
            &self.bindings
        } else {
            &self.cluster_bindings
        }
    }

    /// What was found out about rights may be wrong; whose they are looks anew.
    fn rights_changed(&self, concerned: BTreeSet<Subject>) {
        self.next_epoch();
        self.announce(Change::Rights);
        for subject in concerned {
            *lock(&self.changed).entry(subject.clone()).or_default() += 1;
            self.announce(Change::RightsOf(subject));
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
        lock(&self.known)
    }

    fn lacking(&self) -> MutexGuard<'_, BTreeSet<Account>> {
        lock(&self.lacking)
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
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
fn is_bundled(object: &impl kube::Resource) -> bool {
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
        for _ in ROLES.iter().chain(&BINDINGS) {
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

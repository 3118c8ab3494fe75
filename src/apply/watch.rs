//! Drift watches: metadata of everything that carries our label, one watch per kind for all extensions together.
//!
//! A watch answers one question without a request: is an object still as we left it? The engine notes what it left
//! ([`DriftWatches::note`]), and asks ([`DriftWatches::view`]). A change that is not ours triggers the revision that
//! owns the object.
//!
//! ```text
//! the controller may watch the kind          → one watch for all
//! else the account may, where the object is  → one watch per account and namespace, as the account
//! else, of a Secret, the account may by name → one watch per Secret, as the account
//! else                                       → nothing is seen: whoever asks has to read the object now and then
//! ```
//!
//! Guarantee: every change after a note is triggered at least once, also across a broken watch. Caveat: a change
//! that was undone between two events may go unseen.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the watches are the controller's own or an account's, each a task"
)]

mod task;
#[cfg(test)]
mod tests;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::debug;

use self::task::{State, Watch, trigger};
use crate::api::keys;
use crate::api::object::{Gvk, ObjectKey};
use crate::preflight::permissions::Resource;
use crate::revision::Account;
use crate::revision::collision::{CrdOwner, controller_of};
use crate::revision::compare::{OwnFields, own_fields};

/// How long things are left as they are.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// How long a kind that may not be watched is left alone before the watch is tried again.
    denied: Duration,
    /// How long after a change of rights watches that were denied are tried again: such changes come in swarms.
    rights: Duration,
    /// How long a watch may be without use before it is stopped: longer than the first pass over a revision takes.
    unused: Duration,
}

const PATIENCE: Patience = Patience {
    denied: Duration::from_mins(5),
    rights: Duration::from_secs(15),
    unused: Duration::from_mins(10),
};

/// What the metadata of one object says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its UID.
    pub uid: String,
    /// Its resource version.
    pub resource_version: String,
    /// Our entry in its `managedFields`.
    pub own: Option<OwnFields>,
    /// The UID of its controller.
    pub controller: Option<String>,
    /// The revisions among its owners: UID (empty for a CRD) and name.
    pub revisions: Vec<(String, String)>,
    /// Whether it carries the label that watches go by.
    pub is_labelled: bool,
}

impl Seen {
    /// Reads metadata.
    pub fn of(gvk: &Gvk, metadata: &ObjectMeta) -> Self {
        let owners = metadata.owner_references.iter().flatten();
        let mut revisions: Vec<(String, String)> = owners
            .filter(|owner| {
                owner.kind == "ClusterObjectSet" && owner.api_version.starts_with(crate::api::GROUP)
            })
            .map(|owner| (owner.uid.clone(), owner.name.clone()))
            .collect();
        if gvk.is_crd()
            && let Some(owner) = CrdOwner::of(metadata)
        {
            revisions.push((String::new(), owner.revision));
        }
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            own: own_fields(metadata),
            controller: controller_of(metadata).map(|owner| owner.uid.clone()),
            revisions,
            is_labelled: metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(keys::MANAGED_BY))
                .is_some_and(|value| value == keys::MANAGED_BY_OLM),
        }
    }

    /// Whether this is older than `other`, be that the same object or one that came in its place. Resource versions are
    /// compared as the numbers that they are in practice; what is no number is never older.
    fn is_older_than(&self, other: &Self) -> bool {
        let number = |seen: &Self| seen.resource_version.parse::<u128>().ok();
        matches!((number(self), number(other)), (Some(one), Some(other)) if one < other)
    }
}

/// What is known of one object without asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum View {
    /// The kind is not watched: nothing is known.
    Unwatched,
    /// The first list is not read yet; until then notes hold.
    NotYet,
    /// There is no such object with our label.
    Absent,
    /// It is there.
    Present(Arc<Seen>),
}

/// Who sees the changes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watcher {
    /// The controller.
    Controller,
    /// The account of the revision.
    Account,
    /// Perhaps the account: whether it may is not known yet, and told when it is.
    Undecided,
    /// Nobody.
    Nobody,
    /// Nobody, since somebody takes our label from it as soon as it is written: an admission policy, for instance.
    Unlabelled,
}

/// Who watches where the controller may not.
#[derive(Clone, Copy)]
pub struct Deputy<'a> {
    /// The account.
    pub account: &'a Account,
    /// Acts as the account.
    pub client: &'a Client,
}

impl fmt::Debug for Deputy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Deputy").field(self.account).finish()
    }
}

/// As whom, and where, a kind is watched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    /// As the controller, everywhere.
    Controller,
    /// As an account, in one namespace (empty: the kind has none).
    Account(Account, String),
    /// As an account, one object: namespace and name. Rights on Secrets are given by name, and whoever may list and watch
    /// one by its name may watch no other.
    Named(Account, String, String),
}

impl Scope {
    fn namespace(&self) -> Option<&str> {
        match self {
            Self::Controller => None,
            Self::Account(_, namespace) | Self::Named(_, namespace, _) => {
                Some(namespace.as_str()).filter(|ns| !ns.is_empty())
            }
        }
    }

    /// The name of the only object that is watched.
    fn name(&self) -> Option<&str> {
        match self {
            Self::Controller | Self::Account(..) => None,
            Self::Named(_, _, name) => Some(name),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller => f.write_str("all"),
            Self::Account(account, namespace) => write!(f, "{namespace} as {account}"),
            Self::Named(account, namespace, name) => {
                write!(f, "{namespace}/{name} as {account}")
            }
        }
    }
}

/// All drift watches.
pub struct DriftWatches {
    client: Client,
    triggers: mpsc::UnboundedSender<String>,
    kinds: Arc<Mutex<Kinds>>,
    /// Whether watches that were denied are about to be tried again.
    is_retrying: Arc<AtomicBool>,
    /// Whether the API server is not known to refuse it to send a list as the first events of a watch.
    is_streaming: Arc<AtomicBool>,
    patience: Patience,
}

type Kinds = BTreeMap<(Gvk, Scope), Kind>;

struct Kind {
    state: Arc<Mutex<State>>,
    task: AbortHandle,
    used_at: Instant,
}

impl Drop for Kind {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for DriftWatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriftWatches").finish_non_exhaustive()
    }
}

impl DriftWatches {
    /// Watches through `client`. The receiver gets the name of each `ClusterObjectSet` that has to look again.
    pub fn new(client: Client) -> (Self, mpsc::UnboundedReceiver<String>) {
        let (triggers, receiver) = mpsc::unbounded_channel();
        let watches = Self {
            client,
            triggers,
            kinds: Arc::default(),
            is_retrying: Arc::default(),
            is_streaming: Arc::new(AtomicBool::new(true)),
            patience: PATIENCE,
        };
        (watches, receiver)
    }

    /// Makes sure that the kind of an object is watched, by the controller or, where it may not, by `deputy`;
    /// `is_probed`: also changes of status matter.
    pub fn ensure(
        &self,
        key: &ObjectKey,
        resource: &Resource,
        is_probed: bool,
        deputy: Deputy<'_>,
    ) {
        let mut kinds = lock(&self.kinds);
        let start = Start {
            gvk: &key.gvk,
            resource,
            is_probed,
            denied_for: self.patience.denied,
            is_streaming: &self.is_streaming,
            triggers: &self.triggers,
        };
        if !start.is_blind(&mut kinds, Scope::Controller, &self.client) {
            return;
        }
        let namespace = if resource.is_namespaced {
            key.namespace.clone()
        } else {
            String::new()
        };
        let account = deputy.account.clone();
        let scope = Scope::Account(account.clone(), namespace.clone());
        if start.is_blind(&mut kinds, scope, deputy.client) && is_granted_by_name(&key.gvk) {
            let scope = Scope::Named(account, namespace, key.name.clone());
            start.is_blind(&mut kinds, scope, deputy.client);
        }
    }

    /// What is known of an object of a revision of `account`.
    pub fn view(&self, key: &ObjectKey, account: &Account) -> View {
        let kinds = lock(&self.kinds);
        let Some((_, kind)) = seeing(&kinds, key, account) else {
            return View::Unwatched;
        };
        let state = lock(&kind.state);
        if !state.is_synced() {
            return View::NotYet;
        }
        match state.seen(key) {
            Some(seen) if seen.is_labelled => View::Present(seen.clone()),
            Some(_unseen) => View::Unwatched,
            None => View::Absent,
        }
    }

    /// Who sees the changes of an object of a revision of `account`.
    pub fn watcher(&self, key: &ObjectKey, account: &Account) -> Watcher {
        let kinds = lock(&self.kinds);
        let seeing = seeing(&kinds, key, account);
        seeing.map_or(Watcher::Nobody, |(watcher, kind)| {
            let state = lock(&kind.state);
            match watcher {
                _ if state.seen(key).is_some_and(|seen| !seen.is_labelled) => Watcher::Unlabelled,
                Watcher::Account if !state.is_synced() => Watcher::Undecided,
                watcher => watcher,
            }
        })
    }

    /// Notes how we left an object, so that the event of our own write triggers nothing.
    ///
    /// The watch may be ahead of the answer to our write. What it has seen since is a change that nobody was told of.
    pub fn note(&self, key: &ObjectKey, account: &Account, seen: &Arc<Seen>) {
        let kinds = lock(&self.kinds);
        for scope in scopes(&kinds, key, account) {
            let Some(kind) = kinds.get(&(key.gvk.clone(), scope)) else {
                continue;
            };
            let mut state = lock(&kind.state);
            if !state.is_denied() {
                trigger(&self.triggers, state.note(key, seen.clone()));
            }
        }
    }

    /// Lets a revision look again.
    pub fn wake(&self, set: String) {
        trigger(&self.triggers, [set]);
    }

    /// Somebody's rights changed: what an account was not allowed to watch is soon tried again.
    pub fn rights_changed(&self) {
        let is_denied = |kinds: &Kinds| {
            let mut kinds = kinds.iter();
            kinds.any(|((_, scope), kind)| {
                *scope != Scope::Controller && lock(&kind.state).is_denied()
            })
        };
        if !is_denied(&lock(&self.kinds)) || self.is_retrying.swap(true, Ordering::AcqRel) {
            return;
        }
        let (kinds, triggers) = (self.kinds.clone(), self.triggers.clone());
        let (is_retrying, settle) = (self.is_retrying.clone(), self.patience.rights);
        tokio::spawn(async move {
            tokio::time::sleep(settle).await;
            is_retrying.store(false, Ordering::Release);
            let mut names = BTreeSet::new();
            for ((_, scope), kind) in lock(&kinds).iter() {
                let mut state = lock(&kind.state);
                if *scope != Scope::Controller && state.is_denied() {
                    state.rights_changed();
                    names.extend(state.waiting.iter().cloned());
                }
            }
            trigger(&triggers, names);
        });
    }

    /// Stops the watches that nobody needs: those of kinds that are not among `needed`, what revisions consist of and
    /// as whom.
    pub fn stop_unneeded<'a>(
        &self,
        needed: impl IntoIterator<Item = (&'a ObjectKey, &'a Account)>,
    ) {
        let mut kinds = lock(&self.kinds);
        let mut wanted: BTreeSet<(Gvk, Scope)> = BTreeSet::new();
        for (key, account) in needed {
            let scopes = scopes(&kinds, key, account).into_iter();
            wanted.extend(scopes.map(|scope| (key.gvk.clone(), scope)));
        }
        kinds.retain(|(gvk, scope), kind| {
            let is_kept = kind.used_at.elapsed() < self.patience.unused
                || wanted.contains(&(gvk.clone(), scope.clone()));
            if !is_kept {
                debug!(%gvk, %scope, "drift watch is stopped: nobody needs it");
            }
            is_kept
        });
    }
}

/// What a watch is started with.
struct Start<'a> {
    gvk: &'a Gvk,
    resource: &'a Resource,
    is_probed: bool,
    denied_for: Duration,
    is_streaming: &'a Arc<AtomicBool>,
    triggers: &'a mpsc::UnboundedSender<String>,
}

impl Start<'_> {
    /// Makes sure that there is a watch; whether it is not allowed.
    fn is_blind(&self, kinds: &mut Kinds, scope: Scope, client: &Client) -> bool {
        let now = Instant::now();
        let mut fresh = State::new(self.resource, self.is_probed);
        let entry = kinds.entry((self.gvk.clone(), scope.clone()));
        if let Entry::Occupied(mut occupied) = entry {
            let kind = occupied.get_mut();
            kind.used_at = now;
            let mut state = lock(&kind.state);
            state.is_probed |= self.is_probed;
            if !state.is_to_be_tried(self.denied_for) {
                return state.is_blind();
            }
            fresh = state.tried_again(fresh);
            drop(state);
            occupied.remove();
        }
        let is_blind = fresh.is_blind();
        let state = Arc::new(Mutex::new(fresh));
        let watch = Watch {
            gvk: self.gvk.clone(),
            scope: scope.clone(),
            state: state.clone(),
            is_streaming: self.is_streaming.clone(),
            triggers: self.triggers.clone(),
        };
        let task = tokio::spawn(watch.run(client.clone(), self.resource.clone())).abort_handle();
        let kind = Kind {
            state,
            task,
            used_at: now,
        };
        kinds.insert((self.gvk.clone(), scope), kind);
        is_blind
    }
}

/// Whether rights on objects of a kind are given by name, so that one may be watched alone.
fn is_granted_by_name(gvk: &Gvk) -> bool {
    gvk.is("", "Secret")
}

/// The watches that may see an object, the one that sees most first.
fn scopes(kinds: &Kinds, key: &ObjectKey, account: &Account) -> Vec<Scope> {
    let blind_in = |scope: &Scope| {
        let kind = kinds.get(&(key.gvk.clone(), scope.clone()))?;
        let state = lock(&kind.state);
        state.is_blind().then(|| state.namespace(key))
    };
    let mut scopes = vec![Scope::Controller];
    if let Some(namespace) = blind_in(&Scope::Controller) {
        let scope = Scope::Account(account.clone(), namespace);
        let blind = blind_in(&scope).filter(|_| is_granted_by_name(&key.gvk));
        scopes.push(scope);
        scopes.extend(
            blind.map(|namespace| Scope::Named(account.clone(), namespace, key.name.clone())),
        );
    }
    scopes
}

/// The watch that sees an object.
fn seeing<'a>(kinds: &'a Kinds, key: &ObjectKey, account: &Account) -> Option<(Watcher, &'a Kind)> {
    let scopes = scopes(kinds, key, account).into_iter();
    let found = scopes.filter_map(|scope| {
        let watcher = match scope {
            Scope::Controller => Watcher::Controller,
            Scope::Account(..) | Scope::Named(..) => Watcher::Account,
        };
        let kind = kinds.get(&(key.gvk.clone(), scope))?;
        (!lock(&kind.state).is_blind()).then_some((watcher, kind))
    });
    let mut found = found;
    found.next()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

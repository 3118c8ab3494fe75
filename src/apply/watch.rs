//! Drift watches: metadata of everything that carries our label, one watch per kind for all extensions together.
//!
//! A watch answers one question without a request: is an object still as we left it? The engine notes what it left
//! ([`DriftWatches::note`]), and asks ([`DriftWatches::view`]). A change that is not ours triggers the revision that
//! owns the object. The watches are the controller's own; a kind that it may not list is unwatched, and then whoever
//! asks has to read the object now and then.
//!
//! Guarantee: every change after a note is triggered at least once, also across a broken watch. Caveat: a change
//! that was undone between two events may go unseen.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the watches are the controller's own, each a task"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, PartialObjectMeta};
use kube::core::GroupVersionKind;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::{debug, info};

use crate::api::keys;
use crate::api::object::{Gvk, ObjectKey};
use crate::preflight::permissions::Resource;
use crate::revision::collision::{CrdOwner, controller_of};
use crate::revision::compare::{OwnFields, own_fields};

/// How long a kind that may not be watched is left alone before the watch is tried again.
const DENIED_FOR: Duration = Duration::from_mins(5);
/// How long a watch that worked may be denied before that is believed: an API server that has just started denies
/// everything until it knows the roles.
const BELIEVED_AFTER: Duration = Duration::from_mins(1);

/// Namespace (empty: cluster-scoped) and name.
type Place = (String, String);

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
        }
    }

    /// Whether this is older than `other`. Resource versions are compared as the numbers that they are in practice;
    /// what is no number is never older.
    fn is_older_than(&self, other: &Self) -> bool {
        let number = |seen: &Self| seen.resource_version.parse::<u128>().ok();
        self.uid == other.uid
            && matches!((number(self), number(other)), (Some(one), Some(other)) if one < other)
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
    Present(Seen),
}

/// All drift watches.
pub struct DriftWatches {
    client: Client,
    triggers: mpsc::UnboundedSender<String>,
    kinds: Mutex<BTreeMap<Gvk, Kind>>,
}

struct Kind {
    state: Arc<Mutex<KindState>>,
    task: AbortHandle,
}

#[derive(Default)]
struct KindState {
    is_namespaced: bool,
    is_synced: bool,
    /// Since when the watch is not allowed, or the kind not served.
    denied_since: Option<Instant>,
    /// Whether a change of status matters.
    is_probed: bool,
    objects: BTreeMap<Place, Seen>,
}

impl KindState {
    /// Where an object is. A manifest may name a namespace although its kind has none; the API server drops it.
    fn place(&self, key: &ObjectKey) -> Place {
        let namespace = if self.is_namespaced {
            key.namespace.clone()
        } else {
            String::new()
        };
        (namespace, key.name.clone())
    }
}

impl std::fmt::Debug for DriftWatches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DriftWatches").finish_non_exhaustive()
    }
}

impl Drop for DriftWatches {
    fn drop(&mut self) {
        for kind in lock(&self.kinds).values() {
            kind.task.abort();
        }
    }
}

impl DriftWatches {
    /// Watches through `client`. The receiver gets the name of each `ClusterObjectSet` that has to look again.
    pub fn new(client: Client) -> (Self, mpsc::UnboundedReceiver<String>) {
        let (triggers, receiver) = mpsc::unbounded_channel();
        let watches = Self {
            client,
            triggers,
            kinds: Mutex::default(),
        };
        (watches, receiver)
    }

    /// Makes sure that a kind is watched; `is_probed`: also changes of status matter.
    pub fn ensure(&self, gvk: &Gvk, resource: &Resource, is_probed: bool) {
        let mut kinds = lock(&self.kinds);
        if let Some(kind) = kinds.get(gvk) {
            let mut state = lock(&kind.state);
            state.is_probed |= is_probed;
            let is_to_be_left_alone = state
                .denied_since
                .is_none_or(|since| since.elapsed() < DENIED_FOR);
            if is_to_be_left_alone {
                return;
            }
        }
        let state = Arc::new(Mutex::new(KindState {
            is_namespaced: resource.is_namespaced,
            is_probed,
            ..KindState::default()
        }));
        let watch = Watch {
            gvk: gvk.clone(),
            state: state.clone(),
            triggers: self.triggers.clone(),
        };
        let task = tokio::spawn(watch.run(self.client.clone(), resource.clone())).abort_handle();
        kinds.insert(gvk.clone(), Kind { state, task });
    }

    /// What is known of an object.
    pub fn view(&self, key: &ObjectKey) -> View {
        let kinds = lock(&self.kinds);
        let Some(kind) = kinds.get(&key.gvk) else {
            return View::Unwatched;
        };
        let state = lock(&kind.state);
        if state.denied_since.is_some() {
            return View::Unwatched;
        }
        if !state.is_synced {
            return View::NotYet;
        }
        state
            .objects
            .get(&state.place(key))
            .map_or(View::Absent, |seen| View::Present(seen.clone()))
    }

    /// Notes how we left an object, so that the event of our own write triggers nothing.
    ///
    /// The watch may be ahead of the answer to our write. What it has seen since is a change that nobody was told of.
    pub fn note(&self, key: &ObjectKey, seen: Seen) {
        let kinds = lock(&self.kinds);
        let Some(kind) = kinds.get(&key.gvk) else {
            return;
        };
        let mut state = lock(&kind.state);
        let place = state.place(key);
        if let Some(known) = state.objects.get(&place)
            && seen.is_older_than(known)
        {
            if matters(&seen, known, state.is_probed) {
                trigger(&self.triggers, names_of(known));
            }
            return;
        }
        state.objects.insert(place, seen);
    }
}

/// The task behind one kind.
struct Watch {
    gvk: Gvk,
    state: Arc<Mutex<KindState>>,
    triggers: mpsc::UnboundedSender<String>,
}

type Watched = PartialObjectMeta<DynamicObject>;

impl Watch {
    async fn run(self, client: Client, resource: Resource) {
        let kind = GroupVersionKind::gvk(&self.gvk.group, &self.gvk.version, &self.gvk.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &resource.plural);
        let api: Api<Watched> = Api::all_with(client, &resource);
        let config = watcher::Config::default().labels(&format!(
            "{}={}",
            keys::MANAGED_BY,
            keys::MANAGED_BY_OLM
        ));
        let mut events = watcher::watcher(api, config).default_backoff().boxed();
        let mut listed = BTreeMap::new();
        let mut denied = None;
        while let Some(event) = events.next().await {
            if event.is_ok() {
                denied = None;
            }
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    listed.insert(place_of(&object), Seen::of(&self.gvk, &object.metadata));
                }
                Ok(Event::InitDone) => self.listed(std::mem::take(&mut listed)),
                Ok(Event::Apply(object)) => {
                    self.changed(place_of(&object), Seen::of(&self.gvk, &object.metadata));
                }
                Ok(Event::Delete(object)) => {
                    self.gone(&place_of(&object), &Seen::of(&self.gvk, &object.metadata));
                }
                Err(error) => {
                    let code = code_of(&error);
                    if code != 403 && code != 404 {
                        debug!(gvk = %self.gvk, %error, "drift watch is interrupted");
                        continue;
                    }
                    let since = *denied.get_or_insert_with(Instant::now);
                    if !lock(&self.state).is_synced || since.elapsed() >= BELIEVED_AFTER {
                        return self.end(code);
                    }
                }
            }
        }
    }

    /// A whole list: what differs from what is known is a change, also what is no longer there.
    fn listed(&self, listed: BTreeMap<Place, Seen>) {
        let mut state = lock(&self.state);
        let was_synced = std::mem::replace(&mut state.is_synced, true);
        let mut names = BTreeSet::new();
        let mut known = std::mem::take(&mut state.objects);
        for (place, seen) in listed {
            let seen = match known.remove(&place) {
                // Noted after the list was made.
                Some(noted) if seen.is_older_than(&noted) => noted,
                Some(noted) => {
                    if matters(&noted, &seen, state.is_probed) {
                        names.extend(names_of(&noted).chain(names_of(&seen)));
                    }
                    seen
                }
                None => seen,
            };
            state.objects.insert(place, seen);
        }
        for (place, noted) in known {
            names.extend(names_of(&noted));
            if !was_synced {
                // Perhaps created after the list was made: then the watch will tell.
                state.objects.insert(place, noted);
            }
        }
        drop(state);
        self.trigger(names);
    }

    fn changed(&self, place: Place, seen: Seen) {
        let mut state = lock(&self.state);
        let mut names = BTreeSet::new();
        if let Some(known) = state.objects.get(&place) {
            if seen.is_older_than(known) {
                return;
            }
            if matters(known, &seen, state.is_probed) {
                names.extend(names_of(known).chain(names_of(&seen)));
            }
        } else {
            // Not from us, or our note is about to come: who owns it looks once.
            names.extend(names_of(&seen));
        }
        state.objects.insert(place, seen);
        drop(state);
        self.trigger(names);
    }

    fn gone(&self, place: &Place, seen: &Seen) {
        let mut state = lock(&self.state);
        let mut names: BTreeSet<String> = names_of(seen).collect();
        if let Some(known) = state.objects.get(place) {
            names.extend(names_of(known));
            if known.uid == seen.uid {
                state.objects.remove(place);
            }
        }
        drop(state);
        self.trigger(names);
    }

    /// The watch is over, for now: not allowed, or the kind is no longer served.
    fn end(&self, code: u16) {
        info!(gvk = %self.gvk, code, "drift watch ends: the kind is read now and then instead");
        let mut state = lock(&self.state);
        let objects = std::mem::take(&mut state.objects);
        state.is_synced = false;
        state.denied_since = Some(Instant::now());
        drop(state);
        self.trigger(objects.values().flat_map(names_of).collect());
    }

    fn trigger(&self, names: BTreeSet<String>) {
        trigger(&self.triggers, names);
    }
}

fn trigger(triggers: &mpsc::UnboundedSender<String>, names: impl IntoIterator<Item = String>) {
    for name in names {
        // Nobody listens any more: the process is about to end.
        _ = triggers.send(name);
    }
}

/// What the API server answered; 0 if it did not.
fn code_of(error: &watcher::Error) -> u16 {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status.code,
        watcher::Error::InitialListFailed(_)
        | watcher::Error::WatchStartFailed(_)
        | watcher::Error::WatchFailed(_)
        | watcher::Error::NoResourceVersion => 0,
    }
}

fn matters(known: &Seen, seen: &Seen, is_probed: bool) -> bool {
    known.uid != seen.uid
        || known.own != seen.own
        || known.controller != seen.controller
        || is_probed && known.resource_version != seen.resource_version
}

fn names_of(seen: &Seen) -> impl Iterator<Item = String> + '_ {
    seen.revisions.iter().map(|(_, name)| name.clone())
}

fn place_of(object: &Watched) -> Place {
    (
        object.metadata.namespace.clone().unwrap_or_default(),
        object.metadata.name.clone().unwrap_or_default(),
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::api_server::ApiServer;

    fn config_map(name: &str, owner: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"},
            "metadata": {
                "name": name, "namespace": "n", "labels": {keys::MANAGED_BY: keys::MANAGED_BY_OLM},
                "managedFields": [{"manager": keys::FIELD_MANAGER_OBJECTS, "operation": "Apply", "fieldsV1": {"f:/data/a": {}}}],
                "ownerReferences": [{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet", "name": owner, "uid": owner, "controller": true}],
            },
        })
    }

    fn key() -> ObjectKey {
        ObjectKey::of(&config_map("a", "e-1")).unwrap()
    }

    fn resource() -> Resource {
        Resource {
            group: String::new(),
            version: "v1".into(),
            plural: "configmaps".into(),
            is_namespaced: true,
        }
    }

    fn seen(object: &Value) -> Seen {
        let metadata = serde_json::from_value(object["metadata"].clone()).unwrap();
        Seen::of(&key().gvk, &metadata)
    }

    async fn next(triggers: &mut mpsc::UnboundedReceiver<String>) -> String {
        tokio::time::timeout(Duration::from_secs(10), triggers.recv())
            .await
            .expect("a trigger comes")
            .unwrap()
    }

    #[tokio::test]
    async fn what_others_do_triggers_the_owner_and_what_we_do_does_not() {
        let server = ApiServer::new();
        let (watches, mut triggers) = DriftWatches::new(server.client());
        assert_eq!(watches.view(&key()), View::Unwatched);
        watches.ensure(&key().gvk, &resource(), false);
        assert_eq!(watches.view(&key()), View::NotYet);

        // Ours, noted at once; then one of another revision, by which we know that the watch is past both.
        let ours = server.add(&config_map("a", "e-1"));
        watches.note(&key(), seen(&ours));
        server.add(&config_map("b", "marker"));
        let path = "/api/v1/namespaces/n/configmaps/a";
        while watches.view(&key()) == View::NotYet {
            tokio::task::yield_now().await;
        }
        while triggers.try_recv().is_ok() {}

        // A field that is not ours: no drift. A field of ours: drift. Gone: drift.
        server.edit(path, &json!({"data": {"other": "x"}}));
        server.edit(path, &json!({"data": {"a": "2"}}));
        while next(&mut triggers).await != "e-1" {}
        assert_eq!(triggers.try_recv().ok(), None);
        server.remove(&config_map("a", "e-1"));
        assert_eq!(next(&mut triggers).await, "e-1");
        assert_eq!(watches.view(&key()), View::Absent);
    }

    #[tokio::test]
    async fn a_kind_that_may_not_be_listed_is_unwatched() {
        let server = ApiServer::new();
        server.fail_next("LIST /api/v1/configmaps", 403);
        let (watches, mut triggers) = DriftWatches::new(server.client());
        watches.ensure(&key().gvk, &resource(), false);
        watches.note(&key(), seen(&config_map("a", "e-1")));
        assert_eq!(next(&mut triggers).await, "e-1");
        assert_eq!(watches.view(&key()), View::Unwatched);
        watches.ensure(&key().gvk, &resource(), false);
        assert_eq!(
            watches.view(&key()),
            View::Unwatched,
            "it is left alone for a while"
        );
    }

    #[tokio::test]
    async fn a_watch_that_worked_is_not_given_up_for_one_denial() {
        let server = ApiServer::new();
        let (watches, mut triggers) = DriftWatches::new(server.client());
        server.add(&config_map("a", "e-1"));
        watches.ensure(&key().gvk, &resource(), false);
        while !matches!(watches.view(&key()), View::Present(_)) {
            tokio::task::yield_now().await;
        }
        // The API server starts again, and does not know the roles yet.
        for line in ["WATCH", "LIST"] {
            server.fail_next(&format!("{line} /api/v1/configmaps"), 403);
        }
        server.end_watches();
        server.edit(
            "/api/v1/namespaces/n/configmaps/a",
            &json!({"data": {"a": "2"}}),
        );
        assert_eq!(next(&mut triggers).await, "e-1");
        assert!(matches!(watches.view(&key()), View::Present(_)));
    }

    #[tokio::test]
    async fn the_status_matters_where_it_is_probed() {
        let server = ApiServer::new();
        let (watches, mut triggers) = DriftWatches::new(server.client());
        server.add(&config_map("a", "e-1"));
        watches.ensure(&key().gvk, &resource(), true);
        while !matches!(watches.view(&key()), View::Present(_)) {
            tokio::task::yield_now().await;
        }
        server.set_status("/api/v1/namespaces/n/configmaps/a", &json!({"x": 1}));
        assert_eq!(next(&mut triggers).await, "e-1");
    }

    #[tokio::test]
    async fn a_change_that_overtakes_the_answer_to_our_write_is_told() {
        let server = ApiServer::new();
        let (watches, mut triggers) = DriftWatches::new(server.client());
        let ours = server.add(&config_map("a", "e-1"));
        server.set_status("/api/v1/namespaces/n/configmaps/a", &json!({"ready": true}));
        watches.ensure(&key().gvk, &resource(), true);
        while watches.view(&key()) == View::NotYet {
            tokio::task::yield_now().await;
        }
        watches.note(&key(), seen(&ours));
        assert_eq!(next(&mut triggers).await, "e-1");
    }

    #[tokio::test]
    async fn a_namespace_that_the_kind_does_not_have_means_nothing() {
        let server = ApiServer::new();
        let (watches, mut triggers) = DriftWatches::new(server.client());
        let kind = (
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
        );
        let mut object = config_map("a", "e-1");
        (object["apiVersion"], object["kind"]) = (json!(kind.0), json!(kind.1));
        let key = ObjectKey::of(&object).unwrap();
        assert_eq!(key.namespace, "n", "as it is rendered");
        let resource = Resource {
            group: key.gvk.group.clone(),
            version: "v1".into(),
            plural: "validatingwebhookconfigurations".into(),
            is_namespaced: false,
        };
        watches.ensure(&key.gvk, &resource, false);
        let ours = server.add(&object);
        watches.note(&key, seen(&ours));
        while watches.view(&key) == View::NotYet {
            tokio::task::yield_now().await;
        }
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/a";
        server.edit(path, &json!({"data": {"a": "2"}}));
        while next(&mut triggers).await != "e-1" {}
        assert_ne!(watches.view(&key), View::Present(seen(&ours)));
        server.remove(&object);
        while watches.view(&key) != View::Absent {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn an_older_state_is_told_from_a_newer_one() {
        let at = |uid: &str, version: &str| Seen {
            uid: uid.into(),
            resource_version: version.into(),
            own: None,
            controller: None,
            revisions: Vec::new(),
        };
        assert!(at("u", "9").is_older_than(&at("u", "10")));
        assert!(!at("u", "10").is_older_than(&at("u", "9")));
        assert!(!at("u", "x").is_older_than(&at("u", "y")));
        assert!(!at("u", "1").is_older_than(&at("v", "2")));
    }
}

//! The task behind one watch, and what it has seen.

#![expect(clippy::disallowed_types, reason = "a watch needs a client")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, PartialObjectMeta};
use kube::core::GroupVersionKind;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{debug, info};

use super::{Scope, Seen, lock};
use crate::api::keys;
use crate::api::object::{Gvk, ObjectKey};
use crate::preflight::permissions::Resource;

/// How long a watch that worked may be denied before that is believed: an API server that has just started denies
/// everything until it knows the roles.
const BELIEVED_AFTER: Duration = Duration::from_mins(1);

/// What an API server answers that does not stream lists, as those before 1.32 do not unless they are told to.
const UNPROCESSABLE: u16 = 422;

/// How long an answer to a write of ours may take at most: until then it is known what the watch told of before.
const ANSWERED_AFTER: Duration = Duration::from_mins(5);

/// How long after the first list the watch may take to tell of what was written before it, and was not in it.
const CONFIRMED_AFTER: Duration = Duration::from_secs(10);

/// Namespace (empty: cluster-scoped) and name.
type Place = (String, String);

/// How well a watch sees.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Sight {
    /// The first list is not read yet.
    #[default]
    Starting,
    /// The same, after an attempt that was denied: until this one works, nothing is believed to be seen.
    StartingAgain,
    /// It sees.
    Synced,
    /// It is not allowed, or the kind is not served.
    Denied {
        since: Instant,
        /// Whether rights have changed meanwhile.
        is_due: bool,
    },
}

/// What one watch knows.
#[derive(Default)]
pub(super) struct State {
    is_namespaced: bool,
    sight: Sight,
    /// Whether a change of status matters.
    pub(super) is_probed: bool,
    /// The revisions that have to read for themselves while the watch is denied.
    pub(super) waiting: BTreeSet<String>,
    objects: BTreeMap<Place, Arc<Seen>>,
    /// What went, as it was seen last, and when that was told: an answer to an earlier write may come after that.
    gone: BTreeMap<Place, (Instant, Seen)>,
    /// When what went long ago was forgotten last.
    forgotten_at: Option<Instant>,
    /// What was noted before the first list and was not in it: made after that list, or gone before.
    unconfirmed: BTreeSet<Place>,
}

impl State {
    /// The state of a watch that begins.
    pub(super) fn new(resource: &Resource, is_probed: bool) -> Self {
        Self {
            is_namespaced: resource.is_namespaced,
            is_probed,
            ..Self::default()
        }
    }

    /// Whether nothing can be learnt from this watch.
    pub(super) fn is_blind(&self) -> bool {
        match self.sight {
            Sight::Starting | Sight::Synced => false,
            Sight::StartingAgain | Sight::Denied { .. } => true,
        }
    }

    /// Whether everything is read.
    pub(super) fn is_synced(&self) -> bool {
        self.sight == Sight::Synced
    }

    /// Whether it is denied, and no other attempt was made since.
    pub(super) fn is_denied(&self) -> bool {
        matches!(self.sight, Sight::Denied { .. })
    }

    /// Rights have changed: a denied watch is to be tried again when somebody asks for it.
    pub(super) fn rights_changed(&mut self) {
        if let Sight::Denied { is_due, .. } = &mut self.sight {
            *is_due = true;
        }
    }

    /// Whether it is time to try a watch again that was denied.
    pub(super) fn is_to_be_tried(&self, patience: Duration) -> bool {
        matches!(self.sight, Sight::Denied { since, is_due } if is_due || since.elapsed() >= patience)
    }

    /// `fresh`, as the state of another attempt.
    pub(super) fn tried_again(&mut self, fresh: Self) -> Self {
        Self {
            is_probed: fresh.is_probed || self.is_probed,
            sight: Sight::StartingAgain,
            waiting: std::mem::take(&mut self.waiting),
            ..fresh
        }
    }

    /// Where an object is. A manifest may name a namespace although its kind has none; the API server drops it.
    fn place(&self, key: &ObjectKey) -> Place {
        (self.namespace(key), key.name.clone())
    }

    /// The namespace of an object; empty where the kind has none.
    pub(super) fn namespace(&self, key: &ObjectKey) -> String {
        if self.is_namespaced {
            key.namespace.clone()
        } else {
            String::new()
        }
    }

    /// The object as it was seen last.
    pub(super) fn seen(&self, key: &ObjectKey) -> Option<&Arc<Seen>> {
        self.objects.get(&self.place(key))
    }

    /// Notes how an object was left. The answer: whom to tell, because the watch is ahead of the answer to our write.
    pub(super) fn note(&mut self, key: &ObjectKey, seen: Arc<Seen>) -> BTreeSet<String> {
        let place = self.place(key);
        let mut names = BTreeSet::new();
        if let Some(known) = self.objects.get(&place)
            && seen.is_older_than(known)
        {
            if matters(&seen, known, self.is_probed) {
                names.extend(names_of(known));
            }
            return names;
        }
        if let Some((_, gone)) = self.gone.get(&place)
            && seen.is_older_than(gone)
        {
            names.extend(names_of(&seen));
            return names;
        }
        self.objects.insert(place, seen);
        names
    }

    /// Notes that an object went, or our label with it.
    fn went(&mut self, place: &Place, seen: Seen) {
        let now = Instant::now();
        if (self.forgotten_at).is_none_or(|at| now.duration_since(at) >= ANSWERED_AFTER) {
            self.gone
                .retain(|_, (at, _)| now.duration_since(*at) < ANSWERED_AFTER);
            self.forgotten_at = Some(now);
        }
        self.gone.insert(place.clone(), (now, seen));
    }
}

/// The task behind one watch.
pub(super) struct Watch {
    pub(super) gvk: Gvk,
    pub(super) scope: Scope,
    pub(super) state: Arc<Mutex<State>>,
    /// Whether the API server is not known to refuse it to stream lists.
    pub(super) is_streaming: Arc<AtomicBool>,
    pub(super) triggers: mpsc::UnboundedSender<String>,
}

type Watched = PartialObjectMeta<DynamicObject>;
type Events = BoxStream<'static, watcher::Result<Event<Watched>>>;

impl Watch {
    pub(super) async fn run(self, client: Client, resource: Resource) {
        let kind = GroupVersionKind::gvk(&self.gvk.group, &self.gvk.version, &self.gvk.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &resource.plural);
        let api: Api<Watched> = match self.scope.namespace() {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        let mut streams_list =
            is_of_kubernetes(&self.gvk) && self.is_streaming.load(Ordering::Relaxed);
        let name = self.scope.name();
        let mut events = events(api.clone(), name, streams_list);
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
                    self.gone(&place_of(&object), Seen::of(&self.gvk, &object.metadata));
                }
                Err(error) => {
                    let code = code_of(&error);
                    if streams_list && code == UNPROCESSABLE {
                        self.is_streaming.store(false, Ordering::Relaxed);
                        streams_list = false;
                        events = self::events(api.clone(), name, streams_list);
                        continue;
                    }
                    if code != 403 && code != 404 {
                        debug!(gvk = %self.gvk, %error, "drift watch is interrupted");
                        continue;
                    }
                    let since = *denied.get_or_insert_with(Instant::now);
                    if !lock(&self.state).is_synced() || since.elapsed() >= BELIEVED_AFTER {
                        return self.end(code);
                    }
                }
            }
        }
    }

    /// A whole list: what differs from what is known is a change, also what is no longer there.
    fn listed(&self, listed: BTreeMap<Place, Seen>) {
        let mut state = lock(&self.state);
        let was_synced = std::mem::replace(&mut state.sight, Sight::Synced) == Sight::Synced;
        // Who was told to read for itself need not any more.
        let mut names = std::mem::take(&mut state.waiting);
        let mut known = std::mem::take(&mut state.objects);
        for (place, seen) in listed {
            let seen = match known.remove(&place) {
                // Noted after the list was made.
                Some(noted) if seen.is_older_than(&noted) => noted,
                Some(noted) => {
                    if matters(&noted, &seen, state.is_probed) {
                        names.extend(names_of(&noted).chain(names_of(&seen)));
                    }
                    or_same(noted, seen)
                }
                None => Arc::new(seen),
            };
            state.objects.insert(place, seen);
        }
        for (place, noted) in known {
            names.extend(names_of(&noted));
            if !was_synced {
                // Perhaps created after the list was made: then the watch will tell.
                state.unconfirmed.insert(place.clone());
                state.objects.insert(place, noted);
            }
        }
        let has_unconfirmed = !state.unconfirmed.is_empty();
        if !was_synced && self.scope != Scope::Controller {
            // Who watches is known now, and told.
            names.extend(state.objects.values().flat_map(|seen| names_of(seen)));
        }
        drop(state);
        self.trigger(names);
        if has_unconfirmed {
            tokio::spawn(forget_unconfirmed(
                self.state.clone(),
                self.triggers.clone(),
            ));
        }
    }

    fn changed(&self, place: Place, seen: Seen) {
        let mut state = lock(&self.state);
        let mut names = BTreeSet::new();
        state.unconfirmed.remove(&place);
        let seen = if let Some(known) = state.objects.get(&place) {
            if seen.is_older_than(known) {
                return;
            }
            if matters(known, &seen, state.is_probed) {
                names.extend(names_of(known).chain(names_of(&seen)));
            }
            or_same(known.clone(), seen)
        } else {
            // Not from us, or our note is about to come: who owns it looks once.
            names.extend(names_of(&seen));
            Arc::new(seen)
        };
        state.objects.insert(place, seen);
        drop(state);
        self.trigger(names);
    }

    fn gone(&self, place: &Place, seen: Seen) {
        let mut state = lock(&self.state);
        let mut names: BTreeSet<String> = names_of(&seen).collect();
        state.unconfirmed.remove(place);
        if let Some(known) = state.objects.get(place) {
            names.extend(names_of(known));
            if !seen.is_older_than(known) {
                state.objects.remove(place);
            }
        }
        state.went(place, seen);
        drop(state);
        self.trigger(names);
    }

    /// The watch is over, for now: not allowed, or the kind is no longer served.
    fn end(&self, code: u16) {
        info!(gvk = %self.gvk, scope = %self.scope, code, "drift watch ends: it is denied");
        let mut state = lock(&self.state);
        let objects = std::mem::take(&mut state.objects);
        state.sight = Sight::Denied {
            since: Instant::now(),
            is_due: false,
        };
        let names: BTreeSet<String> = objects.values().flat_map(|seen| names_of(seen)).collect();
        state.waiting.extend(names.iter().cloned());
        drop(state);
        self.trigger(names);
    }

    fn trigger(&self, names: BTreeSet<String>) {
        trigger(&self.triggers, names);
    }
}

/// Takes what no event confirmed for what is gone: whoever wrote it looks again.
async fn forget_unconfirmed(state: Arc<Mutex<State>>, triggers: mpsc::UnboundedSender<String>) {
    tokio::time::sleep(CONFIRMED_AFTER).await;
    let mut names = BTreeSet::new();
    {
        let mut state = lock(&state);
        for place in std::mem::take(&mut state.unconfirmed) {
            if let Some(seen) = state.objects.remove(&place) {
                names.extend(names_of(&seen));
            }
        }
    }
    trigger(&triggers, names);
}

/// What happens to objects with our label, or to the one of this name; `streams_list`: a list costs no request of its own.
fn events(api: Api<Watched>, name: Option<&str>, streams_list: bool) -> Events {
    let label = format!("{}={}", keys::MANAGED_BY, keys::MANAGED_BY_OLM);
    let config = watcher::Config::default().labels(&label);
    let config = match name {
        Some(name) => config.fields(&format!("metadata.name={name}")),
        None => config,
    };
    let config = if streams_list {
        config.streaming_lists()
    } else {
        config
    };
    watcher::watcher(api, config).default_backoff().boxed()
}

/// Whether a kind is Kubernetes' own. Only of its API server it is known that it either streams a list or says that it
/// does not: one that is asked in its stead for kinds of another group may ignore the wish.
fn is_of_kubernetes(gvk: &Gvk) -> bool {
    !gvk.group.contains('.') || gvk.group.ends_with(".k8s.io")
}

/// Wakes revisions.
pub(super) fn trigger(
    triggers: &mpsc::UnboundedSender<String>,
    names: impl IntoIterator<Item = String>,
) {
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

/// What is known already is kept, not stored twice.
fn or_same(known: Arc<Seen>, seen: Seen) -> Arc<Seen> {
    if *known == seen {
        known
    } else {
        Arc::new(seen)
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

//! One watch per kind, which feeds a cache and tells who is to be woken.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "watches are read from the API server, in tasks"
)]

use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// What happened to one object.
#[derive(Debug, Clone)]
pub enum Change<K> {
    /// It is there, new or changed.
    Applied {
        /// As it was in the cache; `None` when it is new.
        old: Option<Arc<K>>,
        /// As it is.
        new: Arc<K>,
    },
    /// It is gone.
    Deleted {
        /// As it was last seen.
        old: Arc<K>,
    },
}

/// The cache of one kind.
#[derive(Debug)]
pub struct Informer<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store: Store<K>,
}

impl<K> Clone for Informer<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
        }
    }
}

impl<K> Informer<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// Starts to watch `api` and calls `on_change` for each change, after the cache has it. The watch is kept up with
    /// back-off until `stop`.
    ///
    /// `managedFields` are dropped before anything is kept: they are most of an object's bytes.
    pub fn start(
        api: Api<K>,
        config: watcher::Config,
        stop: CancellationToken,
        on_change: impl Fn(Change<K>) + Send + 'static,
    ) -> Self {
        let (reader, mut writer) = store::<K>();
        let informer = Self {
            store: reader.clone(),
        };
        tokio::spawn(async move {
            let kind = K::kind(&()).into_owned();
            let events = watcher(api, config)
                .modify(|object| object.meta_mut().managed_fields = None)
                .default_backoff()
                .take_until(stop.cancelled());
            let mut events = std::pin::pin!(events);
            let mut listed: Vec<ObjectRef<K>> = Vec::new();
            while let Some(event) = events.next().await {
                let event = match event {
                    Ok(event) => event,
                    Err(error) => {
                        warn!(
                            kind,
                            error = crate::error::chain(&error),
                            "watch was interrupted"
                        );
                        continue;
                    }
                };
                let before = |object: &K| reader.get(&ObjectRef::from_obj(object));
                match &event {
                    Event::Apply(object) | Event::InitApply(object) => {
                        let old = before(object);
                        if matches!(event, Event::InitApply(_)) {
                            listed.push(ObjectRef::from_obj(object));
                        }
                        let new = Arc::new(object.clone());
                        writer.apply_watcher_event(&event);
                        on_change(Change::Applied { old, new });
                    }
                    Event::Delete(object) => {
                        let old = before(object).unwrap_or_else(|| Arc::new(object.clone()));
                        writer.apply_watcher_event(&event);
                        on_change(Change::Deleted { old });
                    }
                    Event::Init => {
                        listed.clear();
                        writer.apply_watcher_event(&event);
                    }
                    Event::InitDone => {
                        // What was there before a re-list and is not in it was deleted meanwhile.
                        let gone: Vec<Arc<K>> = reader
                            .state()
                            .into_iter()
                            .filter(|object| {
                                !listed.contains(&ObjectRef::from_obj(object.as_ref()))
                            })
                            .collect();
                        writer.apply_watcher_event(&event);
                        debug!(kind, objects = listed.len(), "cache is filled");
                        for old in gone {
                            on_change(Change::Deleted { old });
                        }
                        for object in reader.state() {
                            on_change(Change::Applied {
                                old: None,
                                new: object,
                            });
                        }
                        listed.clear();
                    }
                }
            }
        });
        informer
    }

    /// The cache, for a queue.
    pub fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// The object of that name, as last seen.
    pub fn get(&self, name: &str) -> Option<Arc<K>> {
        self.store.get(&ObjectRef::new(name))
    }

    /// All objects, sorted by name.
    pub fn all(&self) -> Vec<Arc<K>> {
        let mut all = self.store.state();
        all.sort_by(|a, b| a.meta().name.cmp(&b.meta().name));
        all
    }

    /// Waits until the cache holds what there is.
    pub async fn ready(&self) {
        // An error means that the watch has ended: the process is stopping.
        _ = self.store.wait_until_ready().await;
    }
}

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

/// After how many answers in a row a kind counts as missing: an API server that has just started may not know it yet.
const MISSING_AFTER: usize = 3;

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
    ///
    /// A kind whose `CustomResourceDefinition` is gone is one of which there is nothing: what belonged to its objects has to
    /// be let go of. It is seen when it comes back.
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
            let (mut missing, mut is_filled) = (0, false);
            while let Some(event) = events.next().await {
                let event = match event {
                    Ok(event) => event,
                    Err(error) => {
                        warn!(
                            kind,
                            error = crate::error::chain(&error),
                            "watch was interrupted"
                        );
                        missing = if is_missing(&error) { missing + 1 } else { 0 };
                        if missing == MISSING_AFTER && !is_filled {
                            writer.apply_watcher_event(&Event::Init);
                            writer.apply_watcher_event(&Event::InitDone);
                            warn!(kind, "the kind is not there: install the CRDs of oxolm");
                        }
                        continue;
                    }
                };
                if !matches!(event, Event::Init) {
                    missing = 0;
                }
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
                        is_filled = true;
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

/// Whether the API server says that it does not know the kind.
fn is_missing(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::ClusterCatalog;
    use crate::testing::api_server::ApiServer;

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_not_there_is_empty_until_it_comes() {
        const PATH: &str = "LIST /apis/olm.operatorframework.io/v1/clustercatalogs";
        for (refusals, code, seen) in [(2, 404, 1), (3, 404, 0), (3, 503, 1)] {
            let server = ApiServer::new();
            server.add(&json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
                "metadata": {"name": "c"}, "spec": {"source": {"type": "Image", "image": {"ref": "r/c:1"}}}}));
            for _ in 0..refusals {
                server.fail_next(PATH, code);
            }
            let stop = CancellationToken::new();
            let api = Api::<ClusterCatalog>::all(server.client());
            let informer = Informer::start(api, watcher::Config::default(), stop.clone(), |_| {});
            informer.ready().await;
            assert_eq!(informer.all().len(), seen, "{refusals} times {code}");
            tokio::time::sleep(std::time::Duration::from_mins(2)).await;
            assert_eq!(informer.all().len(), 1, "{refusals} times {code}");
            stop.cancel();
        }
    }
}

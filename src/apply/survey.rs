//! The objects of a revision as they are now, for somebody who asks. Nothing is written.

#![expect(clippy::disallowed_types, reason = "reads with the rights of who asks")]

use futures::FutureExt as _;
use kube::Client;
use serde_json::{Value, json};

use crate::api::ClusterObjectSet;
use crate::api::object::ObjectKey;
use crate::apply::discovery::Discovery;
use crate::apply::objects::{metadata_of, path};
use crate::apply::secrets::{ContentError, Reader};
use crate::apply::side_by_side;
use crate::error::chain;
use crate::identity::request;
use crate::revision::collision::{CrdOwner, controller_of};
use crate::revision::probe::{self, Probe, pods};

/// One object of a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surveyed {
    /// The phase that it belongs to.
    pub phase: String,
    /// Which.
    pub key: ObjectKey,
    /// How it is.
    pub state: State,
}

/// How an object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It is there, the revision's own, and passes its probes.
    Ready,
    /// It does not pass a probe; of a workload also what its Pods say.
    NotReady(String),
    /// It is being deleted, and held by these finalizers.
    Leaving(Vec<String>),
    /// It is not there, or its kind is not served.
    Missing,
    /// It is there, and somebody else's: `kind/name`; `None` when nobody controls it.
    Foreign(Option<String>),
    /// It could not be read.
    Unreadable(String),
}

/// The manifests of all objects of `set`; of Secrets for certificates that oxolm makes, only the names.
///
/// # Errors
/// When the Secrets that hold them cannot be read.
pub async fn manifests(
    client: &Client,
    system_namespace: &str,
    set: &ClusterObjectSet,
) -> Result<Vec<Value>, ContentError> {
    let content = reader(client, system_namespace).resolve(set).await?.content;
    let items = content.phases.into_iter().flat_map(|phase| phase.items);
    let secrets = content.servings.into_iter().map(|serving| {
        let ObjectKey {
            name, namespace, ..
        } = serving.secret;
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}})
    });
    Ok(items.map(|item| item.object).chain(secrets).collect())
}

/// Reads everything with the rights of who asks.
fn reader<'a>(client: &'a Client, system_namespace: &'a str) -> Reader<'a> {
    Reader {
        own: client,
        account: client,
        system_namespace,
        given: Vec::new(),
    }
}

/// Looks at all objects of `set`, in the order in which they are applied.
///
/// # Errors
/// When the Secrets that hold them cannot be read.
pub async fn survey(
    client: &Client,
    system_namespace: &str,
    set: &ClusterObjectSet,
) -> Result<Vec<Surveyed>, ContentError> {
    let content = reader(client, system_namespace).resolve(set).await?.content;
    let discovery = Discovery::new(client.clone());
    // The API server let them in: what cannot be read asserts nothing.
    let probes = probe::parse(&set.spec.progression_probes).unwrap_or_default();
    let looks = content.phases.iter().flat_map(|phase| {
        let items = phase.items.iter();
        let (discovery, probes) = (&discovery, probes.as_slice());
        items.map(move |item| {
            let look = async move {
                let state = look(client, discovery, probes, set, &item.key).await;
                Surveyed {
                    phase: phase.name.clone(),
                    key: placed(discovery, &item.key),
                    state,
                }
            };
            look.boxed()
        })
    });
    Ok(side_by_side(looks.collect()).await)
}

/// `key` without a namespace where its kind has none: manifests name one all the same, and the API server drops it.
fn placed(discovery: &Discovery, key: &ObjectKey) -> ObjectKey {
    let mut key = key.clone();
    if discovery
        .known(&key.gvk)
        .is_some_and(|resource| !resource.is_namespaced)
    {
        key.namespace.clear();
    }
    key
}

async fn look(
    client: &Client,
    discovery: &Discovery,
    probes: &[Probe],
    set: &ClusterObjectSet,
    key: &ObjectKey,
) -> State {
    let resource = match discovery.resource(&key.gvk).await {
        Ok(Some(resource)) => resource,
        Ok(None) => return State::Missing,
        Err(error) => return State::Unreadable(chain(&error)),
    };
    match request::get(client, &path(&resource, key), &key.name).await {
        Ok(Some(live)) => match judge(probes, set, key, &live) {
            State::NotReady(why) => match trouble(client, key, &live).await {
                Some(trouble) => State::NotReady(format!("{why}; {trouble}")),
                None => State::NotReady(why),
            },
            state => state,
        },
        Ok(None) => State::Missing,
        Err(error) => State::Unreadable(chain(&error)),
    }
}

/// What the Pods of a workload say; nothing where whoever asks may not list them.
async fn trouble(client: &Client, key: &ObjectKey, live: &Value) -> Option<String> {
    let selector = pods::selector_of(&key.gvk, live)?.to_string();
    let path = request::path("", "v1", Some(&key.namespace), "pods");
    let found = request::select(client, &path, &selector).await.ok()?; // The object's own status is told all the same.
    let pods = found.into_iter();
    pods::trouble(
        pods.filter_map(|pod| serde_json::from_value(pod).ok())
            .collect(),
    ) // The API server's own answer.
}

fn judge(probes: &[Probe], set: &ClusterObjectSet, key: &ObjectKey, live: &Value) -> State {
    let metadata = metadata_of(live);
    let set_name = set.metadata.name.as_deref().unwrap_or_default();
    match controller_of(&metadata) {
        Some(owner) if Some(&owner.uid) == set.metadata.uid.as_ref() => {}
        Some(owner) => return State::Foreign(Some(format!("{}/{}", owner.kind, owner.name))),
        None => match CrdOwner::of(&metadata).filter(|_| key.gvk.is_crd()) {
            Some(owner) if owner.revision == set_name => {}
            Some(owner) => {
                return State::Foreign(Some(format!("ClusterObjectSet/{}", owner.revision)));
            }
            None => return State::Foreign(None),
        },
    }
    if metadata.deletion_timestamp.is_some() {
        return State::Leaving(metadata.finalizers.unwrap_or_default());
    }
    let probed = probe::evaluate(probes, live);
    if probed.is_true() {
        State::Ready
    } else {
        State::NotReady(probed.message())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::api_server::ApiServer;

    #[tokio::test]
    async fn a_kind_without_namespaces_has_none() {
        let server = ApiServer::new();
        let discovery = Discovery::new(server.client());
        for (api_version, kind, expected) in [
            ("v1", "ConfigMap", "n"),
            ("rbac.authorization.k8s.io/v1", "ClusterRole", ""),
        ] {
            let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "namespace": "n"}});
            let key = ObjectKey::of(&object).unwrap();
            discovery.resource(&key.gvk).await.unwrap().unwrap();
            assert_eq!(placed(&discovery, &key).namespace, expected, "{kind}");
        }
    }

    #[test]
    fn an_object_is_judged_by_its_owner_and_its_probes() {
        let set: ClusterObjectSet = serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
            "metadata": {"name": "x-1", "uid": "1"},
            "spec": {"revision": 1, "lifecycleState": "Active", "collisionProtection": "Prevent", "phases": []},
        }))
        .unwrap();
        let probes = probe::parse(&probe::default_probes()).unwrap();
        let told = |owner: Value, phase: &str| {
            let live = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": "n", "ownerReferences": owner},
                "status": {"phase": phase},
            });
            let key = ObjectKey::of(&live).unwrap();
            judge(&probes, &set, &key, &live)
        };
        let owner = |uid: &str| json!([{"apiVersion": "g/v1", "kind": "ClusterObjectSet", "name": "y-1", "uid": uid, "controller": true}]);
        assert_eq!(told(owner("1"), "Active"), State::Ready);
        assert_eq!(
            told(owner("2"), "Active"),
            State::Foreign(Some("ClusterObjectSet/y-1".to_owned()))
        );
        assert_eq!(told(json!([]), "Active"), State::Foreign(None));
        let mut leaving = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "n", "ownerReferences": owner("1"), "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"phase": "Active"},
        });
        let key = ObjectKey::of(&leaving).unwrap();
        assert_eq!(
            judge(&probes, &set, &key, &leaving),
            State::Leaving(Vec::new())
        );
        leaving["metadata"]["finalizers"] = json!(["a/b"]);
        assert_eq!(
            judge(&probes, &set, &key, &leaving),
            State::Leaving(vec!["a/b".to_owned()])
        );
        assert!(matches!(told(owner("1"), "Pending"), State::NotReady(why) if !why.is_empty()));
    }
}

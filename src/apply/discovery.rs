//! What a kind is called by the API server: one request per group and version, remembered for the life of the process.
//!
//! A kind that is not known is asked for again, since its CRD may have come; that costs one request per miss.

#![expect(clippy::disallowed_types, reason = "asks the API server")]

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use serde_json::Value;
use tracing::debug;

use crate::api::object::Gvk;
use crate::error::chain;
use crate::identity::request::{RequestError, path, send};
use crate::preflight::permissions::Resource;
use crate::render::Provider;
use crate::version::Version;

/// A kind of each group and version of which nearly every bundle has objects.
const USUAL: [(&str, &str); 4] = [
    ("v1", "ServiceAccount"),
    ("apps/v1", "Deployment"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
];

/// Group and version.
type GroupVersion = (String, String);
/// What each group and version serves, by kind.
type Known = BTreeMap<GroupVersion, BTreeMap<String, Resource>>;

/// Kinds and what they are called.
pub struct Discovery {
    client: Client,
    known: Mutex<Known>,
}

impl std::fmt::Debug for Discovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Discovery").finish_non_exhaustive()
    }
}

/// The API server could not say what it serves.
#[derive(Debug, thiserror::Error)]
#[error("cannot discover the resources of {group_version}")]
pub struct DiscoveryError {
    /// `group/version`
    pub group_version: String,
    /// Why.
    #[source]
    pub source: RequestError,
}

/// The API server could not say which version it has.
#[derive(Debug, thiserror::Error)]
pub enum ServerVersionError {
    /// It does not answer.
    #[error("cannot read the version of the API server")]
    Unread(#[source] RequestError),
    /// What it says is no version.
    #[error("the API server says that it is version {0:?}")]
    Unknown(String),
}

impl Discovery {
    /// The Kubernetes version of the API server, asked anew: clusters are upgraded while we run.
    ///
    /// # Errors
    /// When it does not answer, or not with a version.
    pub async fn server_version(&self) -> Result<Version, ServerVersionError> {
        let request = http::Request::get("/version").body(Vec::new());
        let request = request.map_err(kube::core::request::Error::BuildRequest);
        let answer = send(&self.client, request)
            .await
            .map_err(ServerVersionError::Unread)?;
        let text = answer
            .get("gitVersion")
            .and_then(Value::as_str)
            .unwrap_or_default();
        Version::parse_tolerant(text)
            .map_err(|_no_version| ServerVersionError::Unknown(text.to_owned()))
    }

    /// Who makes the certificates of webhooks in this cluster: cert-manager where its API is served, else the service CA
    /// of `OpenShift` where that is, else oxolm.
    ///
    /// # Errors
    /// When the API server was asked and did not answer.
    pub async fn certificates(&self) -> Result<Provider, DiscoveryError> {
        let offers = [
            (Provider::CertManager, "cert-manager.io/v1", "Certificate"),
            (Provider::ServiceCa, "operator.openshift.io/v1", "ServiceCA"),
        ];
        for (provider, api_version, kind) in offers {
            let served = self.resource(&Gvk::new(api_version, kind)).await?;
            if served.is_some() {
                return Ok(provider);
            }
        }
        Ok(Provider::SelfSigned)
    }

    /// Asks through `client`.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
        }
    }

    /// What a kind is called; none when it is not served.
    ///
    /// # Errors
    /// When the API server was asked and did not answer.
    pub async fn resource(&self, gvk: &Gvk) -> Result<Option<Resource>, DiscoveryError> {
        if let Some(resource) = self.known(gvk) {
            return Ok(Some(resource));
        }
        let resources = self.ask(gvk).await?;
        let found = resources.get(&gvk.kind).cloned();
        self.lock()
            .insert((gvk.group.clone(), gvk.version.clone()), resources);
        Ok(found)
    }

    /// Asks ahead for what nearly every bundle has, so that the first install need not.
    pub async fn ask_ahead(&self) {
        for (api_version, kind) in USUAL {
            if let Err(error) = self.resource(&Gvk::new(api_version, kind)).await {
                // Who needs it asks again, and tells what is wrong.
                debug!(error = chain(&error), "cannot ask ahead");
            }
        }
    }

    /// What a kind is called, as far as it is remembered.
    pub fn known(&self, gvk: &Gvk) -> Option<Resource> {
        self.lock()
            .get(&(gvk.group.clone(), gvk.version.clone()))?
            .get(&gvk.kind)
            .cloned()
    }

    /// Forgets a group and version: it is no longer what it was.
    pub fn forget(&self, gvk: &Gvk) {
        self.lock()
            .remove(&(gvk.group.clone(), gvk.version.clone()));
    }

    async fn ask(&self, gvk: &Gvk) -> Result<BTreeMap<String, Resource>, DiscoveryError> {
        let url = path(&gvk.group, &gvk.version, None, "");
        let failed = |source| DiscoveryError {
            group_version: gvk.api_version(),
            source,
        };
        let request = http::Request::get(url.trim_end_matches('/'))
            .body(Vec::new())
            .map_err(kube::core::request::Error::BuildRequest);
        let answer = match send(&self.client, request).await {
            Ok(answer) => answer,
            Err(error) if error.is_not_found() => return Ok(BTreeMap::new()),
            Err(error) => return Err(failed(error)),
        };
        let list: APIResourceList = serde_json::from_value(answer)
            .map_err(|error| failed(RequestError::Failed(kube::Error::SerdeError(error))))?;
        let resources = list.resources.into_iter();
        Ok(resources
            .filter(|resource| !resource.name.contains('/'))
            .map(|resource| {
                let known = Resource {
                    group: gvk.group.clone(),
                    version: gvk.version.clone(),
                    plural: resource.name,
                    is_namespaced: resource.namespaced,
                };
                (resource.kind, known)
            })
            .collect())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::api_server::ApiServer;

    #[tokio::test]
    async fn a_kind_is_asked_for_once_and_again_when_it_is_missing() {
        let server = ApiServer::new();
        let discovery = Discovery::new(server.client());
        let deployment = Gvk::new("apps/v1", "Deployment");
        for _ in 0..2 {
            let resource = discovery.resource(&deployment).await.unwrap().unwrap();
            assert_eq!(
                (resource.plural.as_str(), resource.is_namespaced),
                ("deployments", true)
            );
        }
        assert_eq!(server.requests(), ["controller GET /apis/apps/v1"]);
        let thing = Gvk::new("g/v1", "Thing");
        assert_eq!(discovery.resource(&thing).await.unwrap(), None);
        server.add(&json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.g"},
            "spec": {"group": "g", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1"}]},
        }));
        assert!(discovery.resource(&thing).await.unwrap().is_some());
        discovery.forget(&thing);
        assert_eq!(discovery.known(&thing), None);
        server.fail_next("GET /apis/apps/v2", 500);
        let error = discovery
            .resource(&Gvk::new("apps/v2", "X"))
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot discover the resources of apps/v2"
        );
    }

    #[tokio::test]
    async fn what_was_asked_ahead_is_not_asked_again() {
        let server = ApiServer::new();
        let discovery = Discovery::new(server.client());
        server.fail_next("GET /apis/apps/v1", 500);
        discovery.ask_ahead().await;
        assert_eq!(server.requests().len(), USUAL.len());
        for (api_version, kind) in USUAL {
            let found = discovery.resource(&Gvk::new(api_version, kind)).await;
            assert!(found.unwrap().is_some());
        }
        assert_eq!(server.requests(), ["controller GET /apis/apps/v1"]);
    }

    #[tokio::test]
    async fn the_version_is_the_one_of_now() {
        let server = ApiServer::new();
        let discovery = Discovery::new(server.client());
        for (version, expected) in [("v1.33.1", "1.33.1"), ("v1.34.0-gke.7", "1.34.0-gke.7")] {
            server.set_version(version);
            let found = discovery.server_version().await.unwrap();
            assert_eq!(found.to_string(), expected);
        }
        server.set_version("none");
        let error = discovery.server_version().await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the API server says that it is version \"none\""
        );
        server.fail_next("GET /version", 500);
        let error = discovery.server_version().await.unwrap_err();
        assert!(matches!(error, ServerVersionError::Unread(_)), "{error}");
    }
}

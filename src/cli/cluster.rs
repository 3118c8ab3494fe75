//! What the cluster of a kubeconfig knows: its catalogs and their content, its extensions and their revisions.
//!
//! Catalog content is read through the API server's proxy to the Service that `status.urls.base` names, with the rights
//! of whoever asks (`get` on `services/proxy`), or from a port of this machine that is forwarded to it.

#![expect(clippy::disallowed_types, reason = "shell: asks the API server")]

use std::error::Error as _;
use std::io::Read;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use clap::Args;
use futures::TryStreamExt as _;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use kube::api::ListParams;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Api, Client, Config, ResourceExt as _};
use serde_json::Value;
use tokio::io::AsyncRead;
use tokio::runtime::Runtime;
use tokio_util::compat::FuturesAsyncReadCompatExt as _;
use tokio_util::io::{StreamReader, SyncIoBridge};
use tower::{BoxError, service_fn};
use url::{Host, Url};

use crate::api::condition::{self, ConditionType};
use crate::api::{ClusterCatalog, ClusterExtension, ClusterObjectSet, policy};
use crate::error::chain;
use crate::identity::ExcludedNamespaces;
use crate::identity::reach::{self, ReachError};
use crate::identity::request;

/// How long a connection may take, and how long a server may be silent: people wait for the answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which cluster is asked, and how its catalogs are reached.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct ClusterOptions {
    /// The context of the kubeconfig; it implies --cluster [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Where the cluster's catalogs are served, for instance the address of a kubectl port-forward; the certificate is
    /// not checked on a loopback address [default: through the API server's proxy]
    #[arg(long, value_name = "URL")]
    catalogs_url: Option<Url>,
}

/// A connection to the cluster, for a command that does one thing after the other.
pub(super) struct Cluster {
    runtime: Runtime,
    client: Client,
    catalogs_url: Option<Url>,
}

impl ClusterOptions {
    /// The cluster of a context, or of the current one.
    pub(super) fn of_context(context: Option<&str>) -> Self {
        Self {
            context: context.map(str::to_owned),
            catalogs_url: None,
        }
    }

    /// Whether they alone say that a cluster is asked.
    pub(super) fn name_a_cluster(&self) -> bool {
        self.context.is_some() || self.catalogs_url.is_some()
    }

    /// The flags as they were given, each after a space.
    pub(super) fn written(&self) -> String {
        let context = self.context.iter().map(|name| format!(" --context {name}"));
        let url = self.catalogs_url.iter();
        context
            .chain(url.map(|url| format!(" --catalogs-url {url}")))
            .collect()
    }

    /// Connects.
    ///
    /// # Errors
    /// When there is no usable kubeconfig, or it has no such context.
    pub(super) fn connect(&self) -> anyhow::Result<Cluster> {
        let runtime = Runtime::new().context("cannot start")?;
        let client = runtime.block_on(async {
            let mut config = match &self.context {
                None => reach::by_environment().await.map_err(without_pod)?,
                Some(context) => {
                    let options = KubeConfigOptions {
                        context: Some(context.clone()),
                        ..KubeConfigOptions::default()
                    };
                    let kubeconfig = Kubeconfig::read().map_err(|error| unread(&error))?;
                    reach::by_kubeconfig(kubeconfig, &options).await?
                }
            };
            // A server that is not there is an answer; the client would try for minutes before it says so.
            config.default_retry = false;
            anyhow::Ok(client_of(config)?)
        });
        Ok(Cluster {
            client: client.context("cannot use the kubeconfig")?,
            runtime,
            catalogs_url: self.catalogs_url.clone(),
        })
    }
}

/// Why there is no usable kubeconfig: that this is no Pod either says nothing to people.
fn without_pod(error: ReachError) -> anyhow::Error {
    match error.source() {
        Some(of_kubeconfig) if matches!(error, ReachError::Nowhere(_)) => {
            match of_kubeconfig.downcast_ref() {
                Some(error) => unread(error),
                None => anyhow!("{of_kubeconfig}"),
            }
        }
        _ => error.into(),
    }
}

/// Why a kubeconfig cannot be read.
fn unread(error: &KubeconfigError) -> anyhow::Error {
    match error {
        KubeconfigError::ReadConfig(why, path) => {
            anyhow!("{why}").context(format!("cannot read {}", path.display()))
        }
        other => anyhow!("{}", chain(other)),
    }
}

/// A client whose errors name the server: whoever has several clusters must know which one is meant.
fn client_of(config: Config) -> Result<Client, kube::Error> {
    let address = config.cluster_url.to_string();
    let namespace = config.default_namespace.clone();
    let client = Client::try_from(config)?;
    let named = service_fn(move |request: http::Request<Body>| {
        let (client, address) = (client.clone(), address.clone());
        async move {
            let answer = client.send(request).await;
            answer.map_err(|error| Unanswered {
                address,
                source: error.into(),
            })
        }
    });
    Ok(Client::new(named, namespace))
}

/// The API server gave no answer at all.
#[derive(Debug, thiserror::Error)]
#[error("cannot ask the API server at {address}")]
struct Unanswered {
    address: String,
    source: BoxError,
}

/// The API of a kind is not served.
#[derive(Debug, thiserror::Error)]
#[error("the cluster does not know this kind: is oxolm installed there?")]
pub(super) struct UnknownKind;

/// An API server that does not know a kind answers a bare 404, without a reason.
fn known(error: kube::Error) -> anyhow::Error {
    match &error {
        kube::Error::Api(status) if status.code == 404 && status.reason != "NotFound" => {
            anyhow::Error::new(UnknownKind)
        }
        _ => error.into(),
    }
}

#[cfg(test)]
impl Cluster {
    /// The one that a client made by `make` speaks to.
    pub(super) fn of_test(make: impl FnOnce() -> Client) -> Self {
        let runtime = Runtime::new().unwrap();
        let client = runtime.block_on(async { make() });
        Self {
            runtime,
            client,
            catalogs_url: None,
        }
    }
}

impl Cluster {
    /// Runs what needs a client.
    pub(super) fn ask<T, F: Future<Output = T>>(&self, ask: impl FnOnce(Client) -> F) -> T {
        self.runtime.block_on(ask(self.client.clone()))
    }

    /// All catalogs, by name.
    ///
    /// # Errors
    /// When the API server does not answer, or does not know or show them.
    pub(super) fn catalogs(&self) -> anyhow::Result<Vec<ClusterCatalog>> {
        let api: Api<ClusterCatalog> = Api::all(self.client.clone());
        let list = self.runtime.block_on(api.list(&ListParams::default()));
        let list = list.map_err(known).context("cannot list clustercatalogs")?;
        Ok(list.items)
    }

    /// One catalog.
    ///
    /// # Errors
    /// When there is none of that name, or the API server does not answer.
    pub(super) fn catalog(&self, name: &str) -> anyhow::Result<ClusterCatalog> {
        let api: Api<ClusterCatalog> = Api::all(self.client.clone());
        let found = self.runtime.block_on(api.get(name));
        found
            .map_err(known)
            .with_context(|| format!("cannot get clustercatalog {name:?}"))
    }

    /// All extensions, by name.
    ///
    /// # Errors
    /// When the API server does not answer, or does not know or show them.
    pub(super) fn extensions(&self) -> anyhow::Result<Vec<ClusterExtension>> {
        let api: Api<ClusterExtension> = Api::all(self.client.clone());
        let list = self.runtime.block_on(api.list(&ListParams::default()));
        let list = list
            .map_err(known)
            .context("cannot list clusterextensions")?;
        Ok(list.items)
    }

    /// All revisions, by name.
    ///
    /// # Errors
    /// When the API server does not answer, or does not know or show them.
    pub(super) fn sets(&self) -> anyhow::Result<Vec<ClusterObjectSet>> {
        let api: Api<ClusterObjectSet> = Api::all(self.client.clone());
        let list = self.runtime.block_on(api.list(&ListParams::default()));
        Ok(list.context("cannot list clusterobjectsets")?.items)
    }

    /// The namespaces whose accounts oxolm does not use, as the policy in the cluster says; the usual ones where it is not
    /// there or not shown.
    pub(super) fn excluded_namespaces(&self) -> ExcludedNamespaces {
        let api: Api<ValidatingAdmissionPolicy> = Api::all(self.client.clone());
        let policy = self.runtime.block_on(api.get(policy::OF_EXTENSIONS)).ok();
        let excluded = policy.as_ref().and_then(policy::excluded_namespaces);
        excluded.map_or_else(ExcludedNamespaces::default, |text| {
            ExcludedNamespaces::new(text.split(',').filter(|one| !one.is_empty()))
        })
    }

    /// The `ClusterVersion`, where this is `OpenShift`.
    ///
    /// # Errors
    /// When the API server does not answer, or does not show it.
    pub(super) fn openshift_version(&self) -> anyhow::Result<Option<Value>> {
        let path = "/apis/config.openshift.io/v1/clusterversions";
        let read = request::get(&self.client, path, "version");
        self.runtime
            .block_on(read)
            .context("cannot get clusterversion \"version\"")
    }

    /// An extension and all revisions there are: which are its own is [`crate::revision::revisions_of`]'s to say.
    ///
    /// # Errors
    /// When there is none of that name, or the API server does not answer.
    pub(super) fn extension(
        &self,
        name: &str,
    ) -> anyhow::Result<(ClusterExtension, Vec<ClusterObjectSet>)> {
        let extensions: Api<ClusterExtension> = Api::all(self.client.clone());
        let sets: Api<ClusterObjectSet> = Api::all(self.client.clone());
        self.runtime.block_on(async {
            let extension = extensions
                .get(name)
                .await
                .map_err(known)
                .with_context(|| format!("cannot get clusterextension {name:?}"))?;
            let sets = sets
                .list(&ListParams::default())
                .await
                .context("cannot list clusterobjectsets")?;
            Ok((extension, sets.items))
        })
    }

    /// What the catalog serves at `path`, `all` or `metas` with its query, as it comes. For a thread that may block.
    ///
    /// # Errors
    /// When the catalog is not served, cannot be reached, or refuses.
    pub(super) fn content(
        &self,
        catalog: &ClusterCatalog,
        path: &str,
    ) -> anyhow::Result<Box<dyn Read + '_>> {
        let name = catalog.name_any();
        let read = match &self.catalogs_url {
            Some(base) => self.runtime.block_on(forwarded(base, &name, path)),
            None => self.runtime.block_on(self.proxied(catalog, path)),
        };
        let read = read.with_context(|| format!("cannot read clustercatalog {name:?}"))?;
        Ok(Box::new(SyncIoBridge::new_with_handle(
            read,
            self.runtime.handle().clone(),
        )))
    }

    async fn proxied(&self, catalog: &ClusterCatalog, path: &str) -> anyhow::Result<Content> {
        let base = served_at(catalog).context("it is not served: it has no status.urls")?;
        let (service, namespace) = service(base).with_context(|| {
            format!(
                "status.urls.base {base:?} does not name a Service: say with --catalogs-url where it is served"
            )
        })?;
        let name = catalog.name_any();
        let request = http::Request::get(format!(
            "/api/v1/namespaces/{namespace}/services/https:{service}:443/proxy/catalogs/{name}/api/v1/{path}"
        ))
        .body(Vec::new())?;
        let lines = self.client.request_stream(request).await.with_context(|| {
            format!("the API server's proxy to Service {namespace}/{service} (see --catalogs-url)")
        })?;
        Ok(Box::pin(lines.compat()))
    }
}

/// What is read from a server.
type Content = Pin<Box<dyn AsyncRead + Send>>;

async fn forwarded(base: &Url, name: &str, path: &str) -> anyhow::Result<Content> {
    ensure!(
        matches!(base.scheme(), "http" | "https"),
        "--catalogs-url {base} is neither http nor https"
    );
    let url = format!(
        "{}/catalogs/{name}/api/v1/{path}",
        base.as_str().trim_end_matches('/')
    );
    let client = reqwest::Client::builder()
        .connect_timeout(PATIENCE)
        .read_timeout(PATIENCE)
        .tls_danger_accept_invalid_certs(is_loopback(base))
        .build()?;
    let answer = client.get(&url).send().await?;
    if !answer.status().is_success() {
        bail!("{url} answers {}", answer.status());
    }
    let bytes = answer.bytes_stream().map_err(std::io::Error::other);
    Ok(Box::pin(StreamReader::new(bytes)))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// `status.urls.base`, while condition Serving is True.
pub(super) fn served_at(catalog: &ClusterCatalog) -> Option<&str> {
    let status = catalog.status.as_ref()?;
    let serving = condition::is_true(&status.conditions, ConditionType::Serving);
    let urls = status.urls.as_ref().filter(|_| serving)?;
    Some(&urls.base)
}

/// Service and namespace of `https://SERVICE.NAMESPACE.svc/…`.
fn service(base: &str) -> Option<(String, String)> {
    let url = Url::parse(base).ok()?;
    let mut labels = url.host_str()?.split('.');
    let found = (labels.next()?.to_owned(), labels.next()?.to_owned());
    (labels.next() == Some("svc")).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_is_not_served_is_told_from_an_object_that_is_not_there() {
        let error = |reason: &str| {
            let status = kube::core::Status::failure("gone", reason).with_code(404);
            known(kube::Error::Api(Box::new(status))).context("cannot list clusterextensions")
        };
        assert!(error("").is::<UnknownKind>());
        assert!(!error("NotFound").is::<UnknownKind>());
    }

    #[test]
    fn a_server_that_is_not_there_is_named() {
        let cluster = Cluster::of_test(|| {
            let mut config = Config::new("https://127.0.0.1:1".parse().unwrap());
            config.default_retry = false;
            client_of(config).unwrap()
        });
        let text = chain(cluster.extensions().unwrap_err().as_ref());
        let start =
            "cannot list clusterextensions: cannot ask the API server at https://127.0.0.1:1/: ";
        assert!(text.starts_with(start), "{text}");
        assert!(!text.contains("ServiceError"), "{text}");
    }

    #[test]
    fn a_kubeconfig_that_is_not_there_is_named() {
        let error = Kubeconfig::read_from("/no/where").unwrap_err();
        let text = chain(unread(&error).as_ref());
        assert!(
            text.starts_with("cannot read /no/where: No such file"),
            "{text}"
        );
    }

    #[test]
    fn a_service_is_named_by_its_url() {
        for (base, expected) in [
            (
                "https://catalogd-service.olmv1-system.svc/catalogs/x",
                Some(("catalogd-service", "olmv1-system")),
            ),
            ("https://a.b.svc.cluster.local/catalogs/x", Some(("a", "b"))),
            ("https://catalogs.example.com/x", None),
            ("no url", None),
        ] {
            let expected = expected.map(|(a, b): (&str, &str)| (a.to_owned(), b.to_owned()));
            assert_eq!(service(base), expected, "{base}");
        }
    }

    #[test]
    fn only_a_loopback_address_needs_no_certificate() {
        for (url, expected) in [
            ("https://localhost:8443", true),
            ("https://127.0.0.1:8443", true),
            ("https://[::1]:8443", true),
            ("https://catalogs.example.com", false),
            ("https://10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}

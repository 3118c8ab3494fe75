//! The control plane that the stories run on, with the chart installed.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, Config};

use super::controller::Controller;

/// The namespace that the chart is installed in.
pub(crate) const SYSTEM_NAMESPACE: &str = "olmv1-system";

/// The name of the release, and with it of the controller's service account.
pub(crate) const RELEASE: &str = "oxolm";

/// How long helm may take: it waits for nothing, but the API server may be busy.
const HELM_DEADLINE: Duration = Duration::from_mins(2);

/// How long the API server may take to serve a new definition.
const ESTABLISHED_DEADLINE: Duration = Duration::from_secs(30);

/// The control plane of `hack/cluster`.
#[derive(Clone)]
pub(crate) struct Cluster {
    /// A client of the cluster's administrator.
    pub(crate) client: Client,
    /// oxolm, running under the account of the chart.
    pub(crate) controller: Arc<Controller>,
}

impl Cluster {
    /// Connects as `KUBECONFIG` says, and installs the chart with helm, its Deployment scaled to nothing: oxolm runs
    /// on the machine, under the chart's account, with `arguments` besides the chart's.
    ///
    /// # Errors
    /// When there is no cluster, no helm, or the chart cannot be installed.
    pub(crate) async fn prepare(arguments: &[&str]) -> anyhow::Result<Self> {
        // A second installation of the same provider changes nothing.
        _ = rustls::crypto::ring::default_provider().install_default();
        if std::env::var_os("KUBECONFIG").is_none() {
            bail!(
                "KUBECONFIG is not set: run hack/test e2e, or eval \"$(hack/cluster env)\" first"
            );
        }
        let client = Client::try_from(Config::infer().await.context("cannot read KUBECONFIG")?)?;
        install_chart(&client).await?;
        let controller = Arc::new(Controller::prepare(&client, arguments).await?);
        Ok(Self { client, controller })
    }

    /// A client that acts as the user `name`, who has only what is granted to that name.
    ///
    /// # Errors
    /// When the client cannot be made.
    pub(crate) async fn client_of(&self, name: &str) -> anyhow::Result<Client> {
        let mut config = Config::infer().await?;
        config.auth_info.impersonate = Some(name.to_owned());
        config.auth_info.impersonate_groups = Some(vec!["system:authenticated".to_owned()]);
        Ok(Client::try_from(config)?)
    }
}

/// Installs the chart, or upgrades to it, its Deployment scaled to nothing, and waits until its API is served.
pub(crate) async fn install_chart(client: &Client) -> anyhow::Result<()> {
    let chart = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("charts/oxolm");
    let mut helm = Command::new("helm");
    helm.args(["upgrade", "--install", RELEASE])
        .arg(chart)
        .args(["--namespace", SYSTEM_NAMESPACE, "--create-namespace"])
        .args(["--set", "replicas=0"])
        .stdin(Stdio::null());
    let helm = tokio::task::spawn_blocking(move || helm.output());
    let output = tokio::time::timeout(HELM_DEADLINE, helm)
        .await
        .context("helm does not end")?
        .context("helm was not waited for")?
        .context("cannot run helm")?;
    if !output.status.success() {
        bail!("helm: {}", String::from_utf8_lossy(&output.stderr));
    }
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for plural in ["clustercatalogs", "clusterextensions", "clusterobjectsets"] {
        let name = format!("{plural}.olm.operatorframework.io");
        let established = await_condition(api.clone(), &name, conditions::is_crd_established());
        tokio::time::timeout(ESTABLISHED_DEADLINE, established)
            .await
            .with_context(|| format!("{name} is not served"))??;
    }
    Ok(())
}

//! The control plane that the stories run on, with the chart installed.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, Config};

use super::controller::Controller;
use super::release::{RELEASE, SYSTEM_NAMESPACE};

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
        let client = administrator().await?;
        install_chart(&client).await?;
        let controller = Arc::new(Controller::prepare(&client, arguments).await?);
        Ok(Self { client, controller })
    }

    /// Connects as `KUBECONFIG` says, and installs the chart with these options of helm; oxolm runs in its Pods.
    ///
    /// # Errors
    /// When there is no cluster, no helm, or the chart cannot be installed.
    pub(crate) async fn prepare_in_pods(client: Client, options: &[&str]) -> anyhow::Result<Self> {
        install_chart_with(&client, options).await?;
        let controller = Arc::new(Controller::in_pods()?);
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

/// A client of the cluster's administrator.
///
/// # Errors
/// When `KUBECONFIG` is not set or leads nowhere.
pub(crate) async fn administrator() -> anyhow::Result<Client> {
    // A second installation of the same provider changes nothing.
    _ = rustls::crypto::ring::default_provider().install_default();
    if std::env::var_os("KUBECONFIG").is_none() {
        bail!("KUBECONFIG is not set: run hack/test e2e, or eval \"$(hack/cluster env)\" first");
    }
    let config = Config::infer().await.context("cannot read KUBECONFIG")?;
    Ok(Client::try_from(config)?)
}

/// Runs helm for the release in its namespace; what it prints.
///
/// # Errors
/// When it cannot be run, does not end, or says no.
pub(crate) async fn helm(arguments: &[&str]) -> anyhow::Result<String> {
    let mut helm = Command::new("helm");
    helm.args(arguments)
        .args(["--namespace", SYSTEM_NAMESPACE])
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
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Installs the chart, or upgrades to it, its Deployment scaled to nothing, and waits until its API is served.
pub(crate) async fn install_chart(client: &Client) -> anyhow::Result<()> {
    install_chart_with(client, &["--set", "replicas=0"]).await
}

async fn install_chart_with(client: &Client, options: &[&str]) -> anyhow::Result<()> {
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/oxolm");
    let mut arguments = vec!["upgrade", "--install", RELEASE, chart, "--create-namespace"];
    arguments.extend(options);
    helm(&arguments).await?;
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

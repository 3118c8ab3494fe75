//! oxolm itself, run on the machine under the account that the chart made for it.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{DeleteParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use oxolm::api::keys;

use super::release::{RELEASE, SYSTEM_NAMESPACE};

/// How long oxolm may take to lead.
const LEADING_DEADLINE: Duration = Duration::from_mins(1);
/// How long the token may be used: longer than any run.
const TOKEN_SECONDS: i64 = 6 * 3600;

/// Where the catalogs are served in the cluster's own network namespace: the port of the chart's Pods, so that their
/// addresses, all of which are local there, lead here.
pub(crate) const CATALOGS_ADDRESS: &str = "0.0.0.0:8443";

/// The running process. It ends with the stories.
pub(crate) struct Controller {
    folder: tempfile::TempDir,
    /// What oxolm is run with; nothing where the chart's Pods really run.
    arguments: Option<Vec<String>>,
    child: Mutex<Option<Child>>,
}

impl Drop for Controller {
    fn drop(&mut self) {
        _ = self.kill();
    }
}

impl Controller {
    /// Makes all that oxolm needs; it does not run yet.
    pub(crate) async fn prepare(client: &Client, arguments: &[&str]) -> anyhow::Result<Self> {
        let chart = chart_arguments(client).await?.into_iter();
        let more = arguments.iter().map(|&argument| argument.to_owned());
        let arguments = chart.chain(more).collect();
        let controller = Self {
            folder: tempfile::tempdir()?,
            arguments: Some(arguments),
            child: Mutex::new(None),
        };
        fs::create_dir(controller.cache())?;
        fs::write(controller.kubeconfig(), kubeconfig(client, RELEASE).await?)?;
        Ok(controller)
    }

    /// oxolm on this machine, as the chart runs it; where it listens and keeps things is to be added.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oxolm"));
        command
            .args(self.arguments.iter().flatten())
            .arg("--kubeconfig")
            .arg(self.kubeconfig());
        command
    }

    /// oxolm in the chart's own Pods: nothing to start.
    pub(crate) fn in_pods() -> anyhow::Result<Self> {
        Ok(Self {
            folder: tempfile::tempdir()?,
            arguments: None,
            child: Mutex::new(None),
        })
    }

    /// Takes a token of the account that the chart has now.
    pub(crate) async fn renew(&self, client: &Client) -> anyhow::Result<()> {
        fs::write(self.kubeconfig(), kubeconfig(client, RELEASE).await?)?;
        Ok(())
    }

    /// Starts oxolm, again or for the first time, on the same cache; waits until it leads.
    pub(crate) async fn restart(&self, client: &Client) -> anyhow::Result<()> {
        let Some(arguments) = &self.arguments else {
            return Ok(());
        };
        let log = File::options().create(true).append(true).open(self.log())?;
        let (mut command, catalogs_address) = match entrance()? {
            Some(enter) => {
                let mut command = Command::new(enter);
                command.arg(env!("CARGO_BIN_EXE_oxolm"));
                (command, CATALOGS_ADDRESS)
            }
            None => (Command::new(env!("CARGO_BIN_EXE_oxolm")), "127.0.0.1:0"),
        };
        let before = holder(client).await?;
        let child = command
            .args(arguments)
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .arg("--cache-dir")
            .arg(self.cache())
            .args([
                "--catalogs-server-addr",
                catalogs_address,
                "--health-probe-bind-address",
                "127.0.0.1:0",
            ])
            .args([
                "--metrics-bind-address",
                "0",
                "--log-level",
                "info,oxolm=debug",
            ])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start oxolm")?;
        *self.child.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        let leads = async {
            loop {
                let now = holder(client).await?;
                if now.starts_with("oxolm_") && now != before {
                    return anyhow::Ok(());
                }
                if let Some(status) = self.ended()? {
                    bail!("oxolm ended ({status}):\n{}", self.last_lines(30));
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        tokio::time::timeout(LEADING_DEADLINE, leads)
            .await
            .with_context(|| format!("oxolm does not lead:\n{}", self.last_lines(30)))?
    }

    /// Kills oxolm as a crash would.
    pub(crate) fn kill(&self) -> anyhow::Result<()> {
        if let Some(mut child) = self
            .child
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Takes the lease away from who held it, so that the next one need not wait until it expires.
    pub(crate) async fn free_lease(&self, client: &Client) -> anyhow::Result<()> {
        match leases(client)
            .delete(keys::LEASE_NAME, &DeleteParams::default())
            .await
        {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            other => other.map(|_| ()).context("cannot delete the lease"),
        }
    }

    /// Starts oxolm again if it ended, as the kubelet would.
    pub(crate) async fn revive(&self, client: &Client) -> anyhow::Result<()> {
        if self.ended()?.is_some() {
            self.restart(client).await?;
        }
        Ok(())
    }

    /// The process, while it runs.
    pub(crate) fn process(&self) -> Option<u32> {
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.as_ref().map(Child::id)
    }

    /// The last lines of the log, for failures.
    pub(crate) fn last_lines(&self, count: usize) -> String {
        let log = match self.arguments {
            Some(_) => fs::read_to_string(self.log()).unwrap_or_default(),
            None => logs_of_pods(count),
        };
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }

    fn ended(&self) -> anyhow::Result<Option<std::process::ExitStatus>> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match child.as_mut() {
            Some(child) => child.try_wait()?,
            None => None,
        })
    }

    /// Where oxolm keeps catalogs and bundles.
    pub(crate) fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("oxolm.log")
    }
}

/// The program that runs its arguments in the cluster's network namespace, where there is one.
pub(crate) fn entrance() -> anyhow::Result<Option<String>> {
    if std::env::var("OXOLM_CLUSTER_ISOLATED").as_deref() != Ok("1") {
        return Ok(None);
    }
    let program = std::env::var("OXOLM_CLUSTER_EXEC").context("hack/cluster env prints it")?;
    Ok(Some(program))
}

/// What the Pods of oxolm said last, as kubectl tells it.
fn logs_of_pods(count: usize) -> String {
    let output = Command::new("kubectl")
        .args(["logs", "--namespace", SYSTEM_NAMESPACE, "--prefix"])
        .args(["--selector", "app.kubernetes.io/name=oxolm"])
        .args(["--tail", &count.to_string()])
        .output();
    output.map_or_else(
        |error| error.to_string(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

fn leases(client: &Client) -> Api<Lease> {
    Api::namespaced(client.clone(), SYSTEM_NAMESPACE)
}

async fn holder(client: &Client) -> anyhow::Result<String> {
    let lease = leases(client).get_opt(keys::LEASE_NAME).await?;
    Ok(lease
        .and_then(|lease| lease.spec)
        .and_then(|spec| spec.holder_identity)
        .unwrap_or_default())
}

/// The arguments of the container in the chart's Deployment.
async fn chart_arguments(client: &Client) -> anyhow::Result<Vec<String>> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let deployment = deployments.get(RELEASE).await?;
    let pod = deployment
        .spec
        .and_then(|spec| spec.template.spec)
        .context("the chart has a Deployment")?;
    let container = pod
        .containers
        .into_iter()
        .next()
        .context("the Deployment has a container")?;
    container.args.context("the container has arguments")
}

/// A kubeconfig with nothing but a token of an account of the chart.
pub(crate) async fn kubeconfig(client: &Client, account: &str) -> anyhow::Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await?;
    let token = answer
        .status
        .map(|status| status.token)
        .context("the API server gives a token")?;
    let mut config = serde_json::to_value(Kubeconfig::read()?)?;
    for user in config["users"]
        .as_array_mut()
        .context("the kubeconfig has users")?
    {
        user["user"] = serde_json::json!({ "token": token });
    }
    Ok(config.to_string())
}

//! The chart with helm itself: from an older chart to this one, back, and away.
//!
//! Pods of the fake node do not run what they name, so what the hooks run is run here, with their arguments and as their
//! accounts.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use oxolm::api::condition::ConditionType;
use serde_json::Value;

use crate::harness::cluster::{helm, install_chart};
use crate::harness::controller::{entrance, kubeconfig};
use crate::harness::package::Bundle;
use crate::harness::release::{RELEASE, SYSTEM_NAMESPACE};
use crate::harness::stage::Stage;
use crate::harness::wait::shape;
use crate::harness::{Cluster, Outcome, objects};

/// How often a hook is tried: as often as the Job does.
const ATTEMPTS: usize = 5;
/// The time between two of them.
const PAUSE: Duration = Duration::from_secs(2);
/// The exit code that says that nothing can be told.
const NOT_USABLE: i32 = 2;

/// What is installed of the package of the story.
const THING: &str = "apiVersion: chart.example.com/v1\nkind: Thing\nmetadata: {name: mine, namespace: chart}\nspec: {size: 1}\n";

/// An older chart is installed, upgraded to this one, rolled back, upgraded again and uninstalled, which is refused while an
/// extension exists and then leaves everything that extensions installed.
pub(crate) async fn installed_upgraded_rolled_back_and_uninstalled(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "chart").await?;
    stage.offer(&[Bundle::new("1.0.0")]).await?;
    stage.install("1.0.0").await?;
    stage.apply(THING).await?;
    // Elsewhere nobody knows at which port the catalogs are.
    if entrance()?.is_some() {
        checked(&stage, "test", "check-install", 0, "is served").await?;
    }

    checked(&stage, "before", "uninstall-cleanup", 1, "chart").await?;
    helm(&[
        "upgrade",
        RELEASE,
        &chart(),
        "--set",
        "replicas=0,uninstall.force=true",
    ])
    .await?;
    checked(
        &stage,
        "before",
        "uninstall-cleanup",
        0,
        "nothing stands in the way",
    )
    .await?;
    // Nobody writes any more.
    stage.cluster.controller.kill()?;
    helm(&["uninstall", RELEASE, "--wait"]).await?;
    let left = checked(&stage, "after", "uninstall-cleanup", 0, "").await?;
    is_untouched(&stage).await?;
    ensure!(
        !has_cluster_operator(&stage).await?,
        "the ClusterOperator goes: {left}"
    );

    let older = OlderChart::make()?;
    helm(&["install", RELEASE, &older.path(), "--set", "replicas=0"]).await?;
    is_untouched(&stage).await?;
    helm(&["upgrade", RELEASE, &chart(), "--set", "replicas=0"]).await?;
    ensure!(labelled(&stage).await? == current_label(), "upgraded");
    is_untouched(&stage).await?;
    helm(&["rollback", RELEASE, "1", "--wait"]).await?;
    ensure!(labelled(&stage).await? == "oxolm-0.0.1", "rolled back");
    is_untouched(&stage).await?;

    // As it was before the story, with a new account.
    install_chart(&stage.cluster.client).await?;
    stage
        .cluster
        .controller
        .renew(&stage.cluster.client)
        .await?;
    stage
        .cluster
        .controller
        .free_lease(&stage.cluster.client)
        .await?;
    stage
        .cluster
        .controller
        .restart(&stage.cluster.client)
        .await?;
    stage.until_installed("1.0.0").await?;
    stage.delete(THING).await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

fn chart() -> String {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/oxolm");
    chart.display().to_string()
}

async fn finished(mut command: Command) -> anyhow::Result<Output> {
    command.stdin(Stdio::null());
    Ok(tokio::task::spawn_blocking(move || command.output()).await??)
}

/// A chart of a version before this one, without the hooks that came later.
struct OlderChart(tempfile::TempDir);

impl OlderChart {
    fn make() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        copy(Path::new(&chart()), &folder.path().join("oxolm"))?;
        let older = folder.path().join("oxolm");
        fs::remove_file(older.join("templates/uninstall.yaml"))?;
        let about = older.join("Chart.yaml");
        let text: Vec<String> = fs::read_to_string(&about)?
            .lines()
            .map(|line| match line.split_once(':') {
                Some(("version", _)) => "version: 0.0.1".to_owned(),
                _ => line.to_owned(),
            })
            .collect();
        fs::write(about, text.join("\n"))?;
        Ok(Self(folder))
    }

    fn path(&self) -> String {
        self.0.path().join("oxolm").display().to_string()
    }
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn current_label() -> String {
    format!("oxolm-{}", env!("CARGO_PKG_VERSION"))
}

/// The chart that the Deployment says it is of.
async fn labelled(stage: &Stage) -> anyhow::Result<String> {
    let gvk = GroupVersionKind::gvk("apps", "v1", "Deployment");
    let deployments: Api<DynamicObject> = Api::namespaced_with(
        stage.cluster.client.clone(),
        SYSTEM_NAMESPACE,
        &ApiResource::from_gvk(&gvk),
    );
    let deployment = deployments.get(RELEASE).await?;
    let labels = deployment.metadata.labels.unwrap_or_default();
    Ok(labels.get("helm.sh/chart").cloned().unwrap_or_default())
}

/// The extension, what it installed, and the resource of a user are there.
async fn is_untouched(stage: &Stage) -> anyhow::Result<()> {
    let extension = stage.extensions().get(&stage.name).await?;
    ensure!(extension.metadata.deletion_timestamp.is_none());
    ensure!(shape(&extension, ConditionType::Installed) == "True/Succeeded");
    for (group, version, kind, name) in [
        ("apps", "v1", "Deployment", "chart-manager"),
        ("", "v1", "ConfigMap", "chart-settings"),
        ("chart.example.com", "v1", "Thing", "mine"),
    ] {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let api: Api<DynamicObject> = Api::namespaced_with(
            stage.cluster.client.clone(),
            &stage.name,
            &ApiResource::from_gvk(&gvk),
        );
        let object = api.get(name).await.context(name)?;
        ensure!(
            object.metadata.deletion_timestamp.is_none(),
            "{kind} {name} goes"
        );
    }
    Ok(())
}

async fn has_cluster_operator(stage: &Stage) -> anyhow::Result<bool> {
    let gvk = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterOperator");
    let api: Api<DynamicObject> =
        Api::all_with(stage.cluster.client.clone(), &ApiResource::from_gvk(&gvk));
    match api.get_opt("olm").await {
        Ok(found) => Ok(found.is_some()),
        // No story made this OpenShift.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Runs what a hook runs, as its account, and looks at the exit code and what is printed.
async fn checked(
    stage: &Stage,
    hook: &str,
    subcommand: &str,
    code: i32,
    says: &str,
) -> anyhow::Result<String> {
    let manifests = hook_manifests(hook).await?;
    let (pod, account) = pod_of(&manifests, hook)?;
    let container = &pod["containers"][0];
    let arguments: Vec<&str> = container["args"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    ensure!(arguments.first() == Some(&subcommand), "{arguments:?}");
    let rights: Vec<&Value> = manifests
        .iter()
        .filter(|one| !matches!(one["kind"].as_str(), Some("Job" | "Pod")))
        .collect();
    let rights: Vec<String> = rights.iter().map(ToString::to_string).collect();
    let rights = rights.join("\n---\n");
    objects::apply(&stage.cluster.client, &rights).await?;

    let folder = tempfile::tempdir()?;
    let config = folder.path().join("kubeconfig");
    fs::write(&config, kubeconfig(&stage.cluster.client, &account).await?)?;
    // The name of a Service means nothing here; its Pods' port leads to oxolm.
    let arguments: Vec<&str> = arguments
        .into_iter()
        .map(|one| match one.split_once('=') {
            Some(("--catalogs-url", _)) => "--catalogs-url=https://127.0.0.1:8443",
            _ => one,
        })
        .collect();
    let mut output = None;
    // The Job tries again what cannot be told yet: right after an upgrade the API server may not serve its definitions.
    for _ in 0..ATTEMPTS {
        let mut command = program()?;
        command.args(&arguments).env("KUBECONFIG", &config);
        let told = output.insert(finished(command).await?);
        if told.status.code() != Some(NOT_USABLE) || code == NOT_USABLE {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    let output = output.context("it was run")?;
    objects::delete(&stage.cluster.client, &rights).await?;
    let printed = String::from_utf8(output.stdout)?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.code() == Some(code) && printed.contains(says),
        "{subcommand} {arguments:?}: {}: {printed}{complaint}",
        output.status
    );
    Ok(printed)
}

/// oxolm, in the cluster's network where that is one of its own.
fn program() -> anyhow::Result<Command> {
    let program: &OsStr = env!("CARGO_BIN_EXE_oxolm").as_ref();
    Ok(match entrance()? {
        Some(enter) => {
            let mut command = Command::new(enter);
            command.arg(program);
            command
        }
        None => Command::new(program),
    })
}

/// The objects of the hooks for `helm test`, or for `helm uninstall`, with the values of the release.
async fn hook_manifests(hook: &str) -> anyhow::Result<Vec<Value>> {
    let file = match hook {
        "test" => "templates/tests/install.yaml",
        _ => "templates/uninstall.yaml",
    };
    let values = tempfile::NamedTempFile::new()?;
    let installed = helm(&["get", "values", RELEASE, "-o", "json"]).await;
    // Once it is uninstalled, the defaults.
    fs::write(
        values.path(),
        installed.unwrap_or_else(|_gone| "{}".to_owned()),
    )?;
    let (values, chart) = (values.path().display().to_string(), chart());
    let arguments = [
        "template",
        RELEASE,
        &chart,
        "--values",
        &values,
        "--kube-version",
        "1.30.0",
        "--show-only",
        file,
    ];
    let text = helm(&arguments).await?;
    let documents = oxolm::fbc::stream::documents(text.as_bytes());
    let all: Result<Vec<Value>, _> = documents.collect();
    Ok(all?.into_iter().filter(|one| !one.is_null()).collect())
}

/// The Pod of a hook, and its account.
fn pod_of(manifests: &[Value], hook: &str) -> anyhow::Result<(Value, String)> {
    let wanted = match hook {
        "test" => "oxolm-test",
        "before" => "oxolm-uninstall-check",
        _ => "oxolm-uninstall-cleanup",
    };
    let object = manifests
        .iter()
        .find(|one| {
            matches!(one["kind"].as_str(), Some("Job" | "Pod")) && one["metadata"]["name"] == wanted
        })
        .context("the chart has the hook")?;
    let pod = match object["kind"].as_str() {
        Some("Pod") => object["spec"].clone(),
        _ => object["spec"]["template"]["spec"].clone(),
    };
    let account = pod["serviceAccountName"].as_str().map(str::to_owned);
    Ok((pod, account.context("the Pod names its account")?))
}

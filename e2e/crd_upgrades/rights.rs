//! An account that may not list the resources that an upgrade is about.

use std::process::Command;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Api;
use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use oxolm::api::condition::ConditionType;
use serde_json::json;

use crate::harness::package::{Bundle, CRD, entry};
use crate::harness::stage::Stage;
use crate::harness::wait::{message, shape};
use crate::harness::{Cluster, Outcome};

/// How many resources there are: a first page of a few, a whole one, and some more.
const RESOURCES: usize = 520;

/// Made at the same time.
const SIDE_BY_SIDE: usize = 16;

/// The right to read stored resources is asked for only when they can decide: then the refusal names it as the
/// permission preflight names all others, and how to grant it. Granted, all pages are read, and the upgrade goes on with
/// nothing restarted.
pub(crate) async fn resources_that_may_not_be_listed(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set_without_rights(cluster, "crd-rights").await?;
    let (first, second) = (bundle("1.0.0", ""), bundle("1.1.0", ", maximum: 5"));
    stage.grant_for(&[first.clone(), second.clone()]).await?;
    for bundle in [&first, &second] {
        stage.package.push_bundle(bundle).await?;
    }
    stage
        .serve(&[entry("1.0.0", ""), entry("1.1.0", "1.0.0")])
        .await?;
    stage.install("1.0.0").await?;
    add_resources(&stage).await?;

    stage.change_extension(&json!({"version": "1.1.0"})).await?;
    let rule = "\npre-authorization failed: service account requires the following permissions to manage cluster extension:\n  \
                Namespace:\"\" APIGroups:[crd-rights.example.com] Resources:[gadgets] Verbs:[list]";
    let refused = stage
        .until_condition(ConditionType::Progressing, "True/Retrying", rule)
        .await?;
    ensure!(shape(&refused, ConditionType::Installed) == "True/Succeeded");
    let said = message(&refused, ConditionType::Progressing);
    for part in [
        "maximum constraint added when there was none previously : 5\nstoredResources: not looked at: ",
        "crd-rights/installer may not list gadgets.crd-rights.example.com in all namespaces; grant it that: kubectl",
    ] {
        ensure!(said.contains(part), "{said}");
    }
    let bundle = stage.package.push_bundle(&second).await?;
    let (code, told) = rbac_check(bundle).await?;
    ensure!(
        code == Some(1) && told.contains(rule.trim_start()),
        "{code:?} {told}"
    );
    // For an upgrade both versions are to be named.
    ensure!(told.contains(" has 1.0.0 installed; "), "{told}");

    // As the message has it.
    let remedy = said.split_once("grant it that: ").context("the remedy")?.1;
    run(remedy.lines().next().unwrap_or_default()).await?;
    let installed = stage.until_installed("1.1.0").await?;
    ensure!(
        message(&installed, ConditionType::Warnings).contains("maximum constraint added"),
        "{}",
        message(&installed, ConditionType::Warnings)
    );

    // What no resource decides takes no right: that was all.
    remove_role("crd-rights-installer-list-gadgets.crd-rights.example.com").await?;
    let gadgets = gadgets(&stage);
    gadgets
        .delete_collection(
            &kube::api::DeleteParams::default(),
            &kube::api::ListParams::default(),
        )
        .await?;
    stage.grant_everything().await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// A package with a definition whose resources its operator never lists, so neither need the account.
fn bundle(version: &'static str, bound: &str) -> Bundle {
    let crd = CRD.replace("thing", "gadget").replace("Thing", "Gadget");
    let size = format!("size: {{type: integer{bound}}}");
    Bundle {
        manifests: vec![("gadgets.yaml", crd.replace("size: {type: integer}", &size))],
        ..Bundle::new(version)
    }
}

fn gadgets(stage: &Stage) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("crd-rights.example.com", "v1", "Gadget");
    let resource = ApiResource::from_gvk_with_plural(&kind, "gadgets");
    Api::namespaced_with(stage.cluster.client.clone(), &stage.name, &resource)
}

async fn add_resources(stage: &Stage) -> anyhow::Result<()> {
    let gadgets = gadgets(stage);
    let parameters = PostParams::default();
    stream::iter(0..RESOURCES)
        .map(anyhow::Ok)
        .try_for_each_concurrent(SIDE_BY_SIDE, async |index| {
            let gadget = json!({"apiVersion": "crd-rights.example.com/v1", "kind": "Gadget",
                "metadata": {"name": format!("gadget-{index}")}, "spec": {"size": index % 6}});
            gadgets
                .create(&parameters, &serde_json::from_value(gadget)?)
                .await?;
            Ok(())
        })
        .await
}

/// `oxolm rbac check` as the administrator: its exit code, and what it says.
async fn rbac_check(bundle: String) -> anyhow::Result<(Option<i32>, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxolm"));
    command.args(["rbac", "check", &bundle, "--namespace", "crd-rights"]);
    command.args(["--service-account", "installer", "--certificates", "self"]);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).trim_end().to_owned();
    Ok((output.status.code(), said))
}

async fn run(line: &str) -> anyhow::Result<()> {
    let mut command = Command::new("sh");
    command.args(["-ec", line]);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{line}: {said}");
    Ok(())
}

async fn remove_role(name: &str) -> anyhow::Result<()> {
    run(&format!(
        "kubectl delete clusterrolebinding,clusterrole {name}"
    ))
    .await
}

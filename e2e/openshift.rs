//! The `OpenShift` gate: `olm.maxOpenShiftVersion` of what is installed decides `Upgradeable`.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use oxolm::api::condition::ConditionType;
use serde_json::{Value, json};

use crate::harness::controller::entrance;
use crate::harness::package::{Bundle, entry};
use crate::harness::stage::Stage;
use crate::harness::wait::message;
use crate::harness::{Cluster, Outcome, objects};

/// Whether this is `OpenShift` is looked at every half minute.
const DEADLINE: Duration = Duration::from_secs(90);

/// The two kinds of `config.openshift.io/v1` that count, with their documented fields.
const DEFINITIONS: &str = include_str!("testdata/openshift.yaml");

/// A bundle whose maximum is the cluster's minor version blocks the cluster's update, which the administrator and the
/// extension's owner see; an annotation of the administrator counts instead of the bundle's word. Uninstalled, it blocks
/// no more.
pub(crate) async fn an_installed_bundle_blocks_the_update(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "gate").await?;
    become_openshift(&stage).await?;
    for (version, properties) in [
        (
            "1.0.0",
            r#"[{"type":"olm.maxOpenShiftVersion","value":"4.18"}]"#,
        ),
        (
            "1.1.0",
            r#"[{"type":"olm.maxOpenShiftVersion","value":"4.17"}]"#,
        ),
        (
            "1.2.0",
            r#"[{"type":"olm.maxOpenShiftVersion","value":"4.20"}]"#,
        ),
    ] {
        stage
            .package
            .push_bundle(&bundle(version, properties))
            .await?;
    }
    let entries = [
        entry("1.0.0", ""),
        entry("1.1.0", "1.0.0"),
        entry("1.2.0", "1.1.0"),
    ];
    stage.serve(&entries).await?;
    stage.install("1.0.0").await?;

    let named = "bundle \"gate.v1.0.0\" for ClusterExtension \"gate\"";
    let blocked = until(&stage, "it is named", |message| message.contains(named)).await?;
    let condition = condition(&blocked, "Upgradeable")?;
    ensure!(condition["status"] == "False", "{condition}");
    ensure!(
        condition["reason"] == "InstalledOLMOperators_IncompatibleOperatorsInstalled",
        "{condition}"
    );
    ensure!(
        text(&condition["message"]).contains("upgrading cluster to version 4.19: "),
        "{condition}"
    );
    is_complete(&blocked)?;
    let sentence = "The cluster cannot be updated to OpenShift 4.19 before the extension is upgraded or uninstalled: bundle \
                    \"gate.v1.0.0\" supports versions up to 4.18.";
    stage
        .until_condition(
            ConditionType::Warnings,
            "True/ClusterUpgradeBlocked",
            sentence,
        )
        .await?;
    until_noted(&stage, sentence).await?;
    asked_live(&stage).await?;

    // The administrator knows better.
    annotate(&stage, &json!("4.19")).await?;
    let lets_pass = "lets pass: ClusterExtension \"gate\" (4.19)";
    until(&stage, "it is let pass", |message| {
        message.contains(lets_pass) && !message.contains(named)
    })
    .await?;
    stage
        .until("nothing is to be warned of", |extension| {
            !message(extension, ConditionType::Warnings).contains("OpenShift")
        })
        .await?;
    annotate(&stage, &json!(null)).await?;
    until(&stage, "it blocks again", |message| message.contains(named)).await?;

    // Below the cluster's version already.
    stage.change_to("1.1.0").await?;
    stage
        .until_condition(
            ConditionType::Warnings,
            "True/ClusterUpgradeBlocked",
            "Bundle \"gate.v1.1.0\" supports OpenShift up to 4.17, but the cluster is at 4.18 already",
        )
        .await?;
    stage.change_to("1.2.0").await?;
    until(&stage, "an upgrade unblocks", |message| {
        !message.contains("\"gate\"")
    })
    .await?;
    stage.uninstall().await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// While a rollout is under way, the bundle that is installed and the one that is to take its place both count.
pub(crate) async fn both_revisions_count(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "gate-rollout").await?;
    become_openshift(&stage).await?;
    let blocking = r#"[{"type":"olm.maxOpenShiftVersion","value":4.18}]"#;
    for one in [
        bundle("1.0.0", blocking),
        Bundle {
            tag: "unready",
            ..bundle("1.1.0", "[]")
        },
        bundle("1.2.0", "[]"),
        Bundle {
            tag: "unready",
            ..bundle("1.3.0", blocking)
        },
    ] {
        stage.package.push_bundle(&one).await?;
    }
    let entries = [
        entry("1.0.0", ""),
        entry("1.1.0", "1.0.0"),
        entry("1.2.0", "1.1.0"),
        entry("1.3.0", "1.2.0"),
    ];
    stage.serve(&entries).await?;
    let named = |version: &str| {
        format!("bundle \"gate-rollout.v{version}\" for ClusterExtension \"gate-rollout\"")
    };
    stage.install("1.0.0").await?;
    until(&stage, "it blocks", |message| {
        message.contains(&named("1.0.0"))
    })
    .await?;
    // What is rolling out would not block, what is installed still does.
    stage.change_extension(&json!({"version": "1.1.0"})).await?;
    stage.until_active(2).await?;
    stage
        .until_condition(
            ConditionType::Warnings,
            "True/ClusterUpgradeBlocked",
            "v1.0.0",
        )
        .await?;
    until(&stage, "it still blocks", |message| {
        message.contains(&named("1.0.0"))
    })
    .await?;
    stage
        .change_extension(&json!({"version": "1.2.0", "upgradeConstraintPolicy": "SelfCertified"}))
        .await?;
    stage.until_installed("1.2.0").await?;
    until(&stage, "it blocks no more", |message| {
        !message.contains("\"gate-rollout\"")
    })
    .await?;
    // And the other way round.
    stage.change_extension(&json!({"version": "1.3.0"})).await?;
    stage.until_active(2).await?;
    until(&stage, "what is rolling out blocks", |message| {
        message.contains(&named("1.3.0"))
    })
    .await?;
    stage.uninstall().await?;
    until(&stage, "uninstalled, it blocks no more", |message| {
        !message.contains("\"gate-rollout\"")
    })
    .await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

fn bundle(version: &'static str, properties: &'static str) -> Bundle {
    Bundle {
        properties: Some(properties),
        ..Bundle::new(version)
    }
}

/// Makes the cluster one of `OpenShift` 4.18, if it is none yet.
async fn become_openshift(stage: &Stage) -> anyhow::Result<()> {
    objects::apply(&stage.cluster.client, DEFINITIONS).await?;
    let versions = api(stage, "ClusterVersion");
    created(&versions, json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
        "metadata": {"name": "version"}, "spec": {"clusterID": "00000000-0000-0000-0000-000000000000"}})).await?;
    let status = json!({"status": {"desired": {"version": "4.18.3", "image": "i"}, "observedGeneration": 1,
        "versionHash": "h", "availableUpdates": [],
        "history": [{"state": "Completed", "version": "4.18.3", "image": "i", "verified": false,
                     "startedTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T01:00:00Z"}]}});
    let status = Patch::Merge(status);
    let parameters = PatchParams::default();
    is_served(|| versions.patch_status("version", &parameters, &status)).await
}

/// The other conditions, and what the console and must-gather look for.
fn is_complete(operator: &Value) -> anyhow::Result<()> {
    for (kind, status) in [
        ("Available", "True"),
        ("Progressing", "False"),
        ("Degraded", "False"),
    ] {
        let condition = condition(operator, kind)?;
        ensure!(condition["status"] == status, "{condition}");
    }
    let version = &operator["status"]["versions"][0];
    ensure!(version["name"] == "operator", "{operator}");
    ensure!(
        version["version"] == env!("CARGO_PKG_VERSION"),
        "{operator}"
    );
    let related = &operator["status"]["relatedObjects"];
    let groups = related.as_array().context("there are related objects")?;
    ensure!(
        groups
            .iter()
            .any(|one| one["resource"] == "clusterextensions"),
        "{related}"
    );
    Ok(())
}

/// `oxolm upgradeable` of the cluster says the same, and what would help.
async fn asked_live(stage: &Stage) -> anyhow::Result<()> {
    let Some(enter) = entrance()? else {
        return Ok(());
    };
    let mut command = Command::new(enter);
    command
        .arg(env!("CARGO_BIN_EXE_oxolm"))
        // Nobody is behind the Service: oxolm runs on the machine.
        .args(["upgradeable", "-o", "json", "--catalogs-url", "https://127.0.0.1:8443"])
        .stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    ensure!(
        output.status.code() == Some(1),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    let extensions = answer["extensions"]
        .as_array()
        .context("it lists extensions")?;
    let own = extensions
        .iter()
        .find(|one| one["extension"] == stage.name.as_str());
    let own = own.with_context(|| format!("{answer}"))?;
    ensure!(
        own["blocks"] == true && own["maximum"] == "4.18" && own["way"]["version"] == "1.1.0",
        "{own}"
    );
    Ok(())
}

async fn annotate(stage: &Stage, value: &Value) -> anyhow::Result<()> {
    let annotations = json!({"oxolm.dev/max-openshift-version": value});
    stage
        .patch_extension(&json!({"metadata": {"annotations": annotations}}))
        .await
}

/// Waits until an Event about the extension says this.
async fn until_noted(stage: &Stage, sentence: &str) -> anyhow::Result<()> {
    let events: Api<Event> = Api::namespaced(stage.cluster.client.clone(), "default");
    let noted = async {
        loop {
            let all = events.list(&ListParams::default()).await?;
            let is_it = |event: &Event| {
                let regarding = event.regarding.as_ref();
                regarding.and_then(|one| one.name.as_deref()) == Some(&stage.name)
                    && event
                        .note
                        .as_deref()
                        .is_some_and(|note| note.contains(sentence))
            };
            if all.items.iter().any(is_it) {
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    tokio::time::timeout(DEADLINE, noted)
        .await
        .context("no Event says it")?
}

fn api(stage: &Stage, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("config.openshift.io", "v1", kind));
    Api::all_with(stage.cluster.client.clone(), &resource)
}

async fn created(api: &Api<DynamicObject>, object: Value) -> anyhow::Result<()> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let parameters = PostParams::default();
    is_served(|| api.create(&parameters, &object)).await
}

/// Asks until the definition is served: a new one may be gone again for a moment. What is there already is fine.
async fn is_served<Fut>(ask: impl Fn() -> Fut) -> anyhow::Result<()>
where
    Fut: Future<Output = kube::Result<DynamicObject>>,
{
    for _ in 0..50 {
        match ask().await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    bail!("the definitions are not served")
}

/// Waits until the message of condition `Upgradeable` is as wanted, and gives the `ClusterOperator`.
async fn until(stage: &Stage, what: &str, holds: impl Fn(&str) -> bool) -> anyhow::Result<Value> {
    let operators = api(stage, "ClusterOperator");
    let looked = async {
        loop {
            let operator = match operators.get("olm").await {
                Ok(operator) => Some(operator),
                Err(kube::Error::Api(status)) if status.code == 404 => None,
                Err(error) => return Err(error.into()),
            };
            if let Some(operator) = operator
                && let Ok(found) = condition(&operator.data, "Upgradeable")
                && holds(text(&found["message"]))
            {
                return anyhow::Ok(operator.data);
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    match tokio::time::timeout(DEADLINE, looked).await {
        Ok(found) => found,
        Err(_) => bail!(
            "not in {} s: {what}\n{}",
            DEADLINE.as_secs(),
            stage.cluster.controller.last_lines(20)
        ),
    }
}

fn condition(operator: &Value, kind: &str) -> anyhow::Result<Value> {
    let conditions = operator["status"]["conditions"].as_array();
    let mut all = conditions.into_iter().flatten();
    let found = all.find(|one| one["type"] == kind);
    found
        .cloned()
        .with_context(|| format!("no {kind}: {operator}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

//! The life of an operator that really runs: its webhooks are called, its release crashes, its resources have finalizers.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::condition::ConditionType;
use serde_json::{Value, json};

use super::greeter::{self, DEFINITION};
use crate::harness::package::{Entry, entry};
use crate::harness::stage::Stage;
use crate::harness::wait::{shape, until_true};
use crate::harness::{Cluster, Outcome};

/// Installed, called, upgraded, superseded when a release crashes, taken back, and uninstalled with a resource that its operator
/// must let go.
pub(super) async fn an_operator_lives_and_goes(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "greeter").await?;
    restrict(&stage).await?;
    for (version, crashes) in [("1.1.0", false), ("1.2.0", true), ("1.3.0", false)] {
        greeter::push(&stage, version, crashes).await?;
    }
    greeter::install(&stage).await?;
    greet(&stage, "world").await?;
    is_called(&stage).await?;

    let line = || vec![entry("1.0.0", ""), entry("1.1.0", "1.0.0")];
    stage.serve(&line()).await?;
    stage.until_installed("1.1.0").await?;
    is_called(&stage).await?;

    crash_and_supersede(&stage, line).await?;
    greet(&stage, "again").await?;

    let back = json!({"version": "1.0.0", "upgradeConstraintPolicy": "SelfCertified"});
    stage.change_extension(&back).await?;
    stage.until_installed("1.0.0").await?;
    is_called(&stage).await?;

    // The greeting is not removed before: its operator, which still runs, lets it go.
    let delete = json!({"metadata": {"annotations": {"oxolm.dev/crd-deletion": "delete"}}});
    stage.patch_extension(&delete).await?;
    stage.uninstall().await?;
    ensure!(!stage.exists(DEFINITION).await?, "the definition stays");
    let words = format!("/api/v1/namespaces/{}/configmaps/first", stage.name);
    ensure!(
        !stage.exists(&words).await?,
        "the operator did not clean up"
    );
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// A release whose Pods crash does not come up, what is installed stays, and the next release replaces it.
async fn crash_and_supersede(
    stage: &Stage,
    line: impl Fn() -> Vec<Entry<'static>>,
) -> anyhow::Result<()> {
    let mut broken = line();
    broken.push(entry("1.2.0", "1.1.0"));
    stage.serve(&broken).await?;
    stage.until_active(2).await?;
    let why = "greeter";
    let stuck = stage
        .until("the release that crashes is rolling out", |extension| {
            let active = extension
                .status
                .as_ref()
                .map(|status| &status.active_revisions);
            let newest = active.and_then(|revisions| revisions.last());
            shape(extension, ConditionType::Progressing) == "True/RollingOut"
                && newest.is_some_and(|one| {
                    one.conditions
                        .iter()
                        .any(|condition| condition.message.contains(why))
                })
        })
        .await?;
    let installed = stuck.status.and_then(|status| status.install);
    let version = installed.map(|install| install.bundle.version);
    ensure!(version.as_deref() == Some("1.1.0"), "{version:?}");
    let mut mended = line();
    mended.push(entry("1.3.0", "1.1.0"));
    stage.serve(&mended).await?;
    stage.until_installed("1.3.0").await?;
    Ok(())
}

/// The operator's namespace takes only Pods that ask for nothing.
async fn restrict(stage: &Stage) -> anyhow::Result<()> {
    let labels =
        json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    stage
        .merge(&format!("/api/v1/namespaces/{}", stage.name), &labels)
        .await?;
    Ok(())
}

/// Writes a greeting, and waits until the controller of the operator says so in the status.
async fn greet(stage: &Stage, name: &str) -> anyhow::Result<()> {
    let greeting = greeter::greeting(stage, name);
    // The node's proxy hears of a new Pod a moment after everybody else, and the webhook is not reached until then.
    let is_written = async || Ok(stage.apply(&greeting).await.is_ok());
    until_true(&stage.cluster, "a greeting is written", is_written).await?;
    let path = greeter::greeting_path(stage, "v1");
    let words = format!("hello {name}");
    let holds = async || Ok(stage.get(&path).await?["status"]["words"] == words);
    until_true(&stage.cluster, &words, holds).await
}

/// The API server calls both webhooks.
async fn is_called(stage: &Stage) -> anyhow::Result<()> {
    let nobody = greeter::greeting(stage, "nobody");
    let is_refused = async || {
        let refused = stage.apply(&nobody).await.err();
        Ok(refused.is_some_and(|error| format!("{error:#}").contains("nobody is not greeted")))
    };
    until_true(&stage.cluster, "the webhook refuses nobody", is_refused).await?;
    let converted: Value = stage.get(&greeter::greeting_path(stage, "v2")).await?;
    let (first, second) = (&converted["spec"]["person"], &converted["spec"]["name"]);
    ensure!(first.is_string() && second.is_null(), "{converted}");
    Ok(())
}

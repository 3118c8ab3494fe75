//! The `OpenShift` gate: `olm.maxOpenShiftVersion` of what is installed decides `Upgradeable`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::harness::package::{Bundle, entry};
use crate::harness::stage::Stage;
use crate::harness::{Cluster, Outcome, objects};

/// Whether this is `OpenShift` is looked at every half minute.
const DEADLINE: Duration = Duration::from_secs(90);

/// The two kinds of `config.openshift.io/v1` that count, with their documented fields.
const DEFINITIONS: &str = include_str!("testdata/openshift.yaml");

/// A bundle whose maximum is the cluster's minor version blocks the cluster's update; uninstalled, it does not.
pub(crate) async fn an_installed_bundle_blocks_the_update(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "gate").await?;
    let client = stage.cluster.client.clone();
    objects::apply(&client, DEFINITIONS).await?;
    let versions = api(&stage, "ClusterVersion");
    created(&versions, json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
        "metadata": {"name": "version"}, "spec": {"clusterID": "00000000-0000-0000-0000-000000000000"}})).await?;
    let status = json!({"status": {"desired": {"version": "4.18.3", "image": "i"}, "observedGeneration": 1,
        "versionHash": "h", "availableUpdates": [],
        "history": [{"state": "Completed", "version": "4.18.3", "image": "i", "verified": false,
                     "startedTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T01:00:00Z"}]}});
    let status = Patch::Merge(status);
    let parameters = PatchParams::default();
    is_served(|| versions.patch_status("version", &parameters, &status)).await?;

    let properties = r#"[{"type":"olm.maxOpenShiftVersion","value":"4.18"}]"#;
    stage
        .package
        .push_bundle(&Bundle {
            properties: Some(properties),
            ..Bundle::new("1.0.0")
        })
        .await?;
    stage.serve(&[entry("1.0.0", "")]).await?;
    stage.install_newest("1.0.0").await?;
    let blocked = until(&stage, "Upgradeable is False", |one| {
        one["status"] == "False"
    })
    .await?;
    ensure!(
        blocked["reason"] == "InstalledOLMOperators_IncompatibleOperatorsInstalled",
        "{blocked}"
    );
    let message = blocked["message"].as_str().unwrap_or_default();
    ensure!(
        message.contains(
            "cluster to version 4.19: bundle \"gate.v1.0.0\" for ClusterExtension \"gate\"."
        ),
        "{message}"
    );
    stage.uninstall().await?;
    until(&stage, "Upgradeable is True again", |one| {
        one["status"] == "True"
    })
    .await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
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

/// Waits until condition `Upgradeable` of `ClusterOperator` `olm` is as wanted.
async fn until(stage: &Stage, what: &str, holds: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
    let operators = api(stage, "ClusterOperator");
    let looked = async {
        loop {
            let operator = match operators.get("olm").await {
                Ok(operator) => Some(operator),
                Err(kube::Error::Api(status)) if status.code == 404 => None,
                Err(error) => return Err(error.into()),
            };
            let conditions =
                operator.and_then(|one| one.data["status"]["conditions"].as_array().cloned());
            let found = conditions
                .into_iter()
                .flatten()
                .find(|one| one["type"] == "Upgradeable");
            if let Some(found) = found.filter(&holds) {
                return anyhow::Ok(found);
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

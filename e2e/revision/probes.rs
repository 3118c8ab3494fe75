//! Probes of people's own.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::condition::ConditionType;
use serde_json::json;

use super::{apply_set, config_map, config_map_path, delete_set, kind_probe, set_path, value_is};
use crate::harness::stage::Stage;
use crate::harness::wait::message;
use crate::harness::{Cluster, Outcome};

/// A probe that fails halts the rollout until the object or the probe is changed; each kind of assertion and of
/// selector passes.
pub(crate) async fn probes_of_users_halt_and_pass(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "user-probes").await?;
    halts(&stage).await?;
    passes(&stage).await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

async fn halts(stage: &Stage) -> anyhow::Result<()> {
    let set = "user-probes-halt";
    let probe = |value: &str| {
        json!([{"selector": {"type": "Label", "label": {"matchLabels": {"probed": "yes"}}},
                "assertions": [value_is("data.colour", value)]}])
    };
    let red = json!({"colour": "red"});
    let first = config_map(stage, "halt-first", &json!({"probed": "yes"}), &red);
    let second = config_map(stage, "halt-second", &json!({"probed": "no"}), &red);
    let spec = json!({
        "progressionProbes": probe("green"),
        "phases": [
            {"name": "first", "objects": [{"object": first}]},
            {"name": "second", "objects": [{"object": second}]},
        ],
    });
    apply_set(stage, set, &spec).await?;
    let failing = stage
        .until_set(set, ConditionType::Available, "False/ProbeFailure")
        .await?;
    let told = message(&failing, ConditionType::Available);
    let expected = "Object ConfigMap.v1 user-probes/halt-first: value at key \"data.colour\" != \"green\"; \
                    expected: \"green\" got: \"red\"";
    ensure!(told == expected, "{told}");
    let second = config_map_path(stage, "halt-second");
    ensure!(!stage.exists(&second).await?, "the next phase waits");
    stage
        .merge(
            &set_path(set),
            &json!({"spec": {"progressionProbes": probe("red")}}),
        )
        .await?;
    stage.until_rolled_out(set).await?;
    ensure!(stage.exists(&second).await?, "the next phase is there");
    delete_set(stage, set).await?;
    ensure!(!stage.exists(&second).await?, "its objects go with it");
    Ok(())
}

async fn passes(stage: &Stage) -> anyhow::Result<()> {
    let set = "user-probes-pass";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "equal", "namespace": stage.name, "labels": {"one": "same", "other": "same"}}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "ready", "namespace": stage.name, "labels": {"probed": "by-expression"}},
        "spec": {"containers": [{"name": "main", "image": "registry.example.com/ready:latest"}]}});
    let green = json!({"colour": "green"});
    let first = config_map(stage, "pass-first", &json!({}), &green);
    let last = config_map(stage, "pass-last", &json!({}), &green);
    let equal = json!({"type": "FieldsEqual", "fieldsEqual": {"fieldA": "metadata.labels.one", "fieldB": "metadata.labels.other"}});
    let spec = json!({
        "progressionProbes": [
            kind_probe("", "ConfigMap", &value_is("data.colour", "green")),
            kind_probe("", "ServiceAccount", &equal),
            {"selector": {"type": "Label", "label": {"matchExpressions": [
                {"key": "probed", "operator": "In", "values": ["by-expression"]}]}},
             "assertions": [{"type": "ConditionEqual", "conditionEqual": {"type": "Ready", "status": "True"}}]},
        ],
        "phases": [
            {"name": "first", "objects": [{"object": first}]},
            {"name": "second", "objects": [{"object": account}]},
            {"name": "third", "objects": [{"object": pod}]},
            {"name": "last", "objects": [{"object": last}]},
        ],
    });
    apply_set(stage, set, &spec).await?;
    stage.until_rolled_out(set).await?;
    stage
        .until_set(set, ConditionType::Available, "True/ProbesSucceeded")
        .await?;
    ensure!(
        stage.exists(&config_map_path(stage, "pass-last")).await?,
        "the last phase is there"
    );
    delete_set(stage, set).await
}

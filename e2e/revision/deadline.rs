//! A rollout that takes too long.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams};
use oxolm::api::condition::{self, ConditionType};
use serde_json::{Value, json};

use super::{apply_set, config_map, config_map_path, delete_set, kind_probe, set_path, value_is};
use crate::harness::package::{Bundle, entry};
use crate::harness::stage::Stage;
use crate::harness::wait::{message, shape, until_true};
use crate::harness::{Cluster, Outcome};

/// The shortest deadline that can be told is a minute; what waits for it also waits for a busy machine.
const LATE: Duration = Duration::from_secs(75);

/// After its deadline a rollout says so, as the reference does. One that is archived then takes its objects back; one
/// that becomes available after all has succeeded; an extension shows what its revision does.
pub(crate) async fn a_late_rollout_is_archived_or_recovers(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "late").await?;
    for name in ["clusterextensions", "clusterobjectsets"] {
        allow_a_minute(&stage, name).await?;
    }
    let bundle = Bundle {
        tag: "bad-image",
        ..Bundle::new("1.0.2")
    };
    stage.package.push_bundle(&bundle).await?;
    let catalog = stage
        .package
        .push_catalog("one", &[entry("1.0.2", "")])
        .await?;
    stage.add_catalog(&catalog).await?;
    stage.add_extension(&json!({})).await?;
    let deadline = json!({"spec": {"progressDeadlineMinutes": 1}});
    let path = "/apis/olm.operatorframework.io/v1/clusterextensions/late";
    let is_taken = async || Ok(stage.merge(path, &deadline).await.is_ok());
    until_true(&stage.cluster, "an extension accepts a minute", is_taken).await?;
    for set in ["late-archived", "late-recovers"] {
        let is_taken = async || Ok(apply_set(&stage, set, &waiting(&stage, set)).await.is_ok());
        until_true(&stage.cluster, "a revision accepts a minute", is_taken).await?;
    }
    tokio::time::sleep(LATE).await;

    let text =
        "Revision has not rolled out for 1 minute(s). Last status: Revision 1.0.2 is rolling out.";
    let late = "False/ProgressDeadlineExceeded";
    let revision = stage
        .until_set("late-1", ConditionType::Progressing, late)
        .await?;
    ensure!(message(&revision, ConditionType::Progressing) == text);
    let extension = stage
        .until_condition(ConditionType::Progressing, late, text)
        .await?;
    ensure!(message(&extension, ConditionType::Progressing) == text);
    ensure!(shape(&extension, ConditionType::Installed) == "False/Absent");
    let active = extension.status.map(|status| status.active_revisions);
    let conditions = active.unwrap_or_default().remove(0).conditions;
    ensure!(
        condition::find(&conditions, ConditionType::Available)
            .is_some_and(|available| available.reason == "ProbeFailure"),
        "{conditions:?}"
    );

    let set = stage
        .until_set("late-archived", ConditionType::Progressing, late)
        .await?;
    let told = message(&set, ConditionType::Progressing);
    ensure!(
        told == "Revision has not rolled out for 1 minute(s). Last status: Revision late-archived is rolling out.",
        "{told}"
    );
    let archive = json!({"spec": {"lifecycleState": "Archived"}});
    stage.merge(&set_path("late-archived"), &archive).await?;
    stage.until_archived("late-archived").await?;
    let archived = config_map_path(&stage, "late-archived");
    stage.until_exists(&archived, false).await?;

    stage
        .until_set("late-recovers", ConditionType::Progressing, late)
        .await?;
    let green = json!({"data": {"colour": "green"}});
    stage
        .merge(&config_map_path(&stage, "late-recovers"), &green)
        .await?;
    stage.until_rolled_out("late-recovers").await?;
    for set in ["late-archived", "late-recovers"] {
        delete_set(&stage, set).await?;
    }
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// A revision whose only object is available when somebody colours it.
fn waiting(stage: &Stage, name: &str) -> Value {
    let map = config_map(stage, name, &json!({}), &json!({}));
    json!({
        "progressDeadlineMinutes": 1,
        "progressionProbes": [kind_probe("", "ConfigMap", &value_is("data.colour", "green"))],
        "phases": [{"name": "objects", "objects": [{"object": map}]}],
    })
}

/// Lets the definition accept a deadline of one minute. The API server needs a moment to notice.
async fn allow_a_minute(stage: &Stage, plural: &str) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(stage.cluster.client.clone());
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/progressDeadlineMinutes/minimum";
    let patch: json_patch::Patch =
        serde_json::from_value(json!([{"op": "replace", "path": path, "value": 1}]))?;
    let name = format!("{plural}.olm.operatorframework.io");
    api.patch(&name, &PatchParams::default(), &Patch::Json::<()>(patch))
        .await?;
    Ok(())
}

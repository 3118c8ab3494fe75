//! A custom resource deleted in the same command as the extension whose operator has to finish it.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::condition::ConditionType;
use serde_json::json;

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::message;
use crate::harness::{Cluster, Outcome};

/// The operator stays until the resource is gone, and the message names what holds it. A definition without resources goes.
pub(crate) async fn resources_that_leave_are_waited_for(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let name = "leaving-together";
    let stage = Stage::offering(cluster, name, &[Bundle::new("1.0.0")]).await?;
    stage.install_newest("1.0.0").await?;
    let thing = json!({
        "apiVersion": format!("{name}.example.com/v1"),
        "kind": "Thing",
        "metadata": {"name": "one", "namespace": "default", "finalizers": ["example.com/tidy"]},
        "spec": {"size": 1},
    });
    stage.apply(&thing.to_string()).await?;
    let thing = format!("/apis/{name}.example.com/v1/namespaces/default/things/one");
    let extension = format!("/apis/olm.operatorframework.io/v1/clusterextensions/{name}");
    stage.remove(&thing, &json!({})).await?;
    stage.remove(&extension, &json!({})).await?;

    let wanted = "(its resource default/one waits for example.com/tidy)";
    let what = format!("a message with {wanted:?}");
    let holds = |extension: &_| message(extension, ConditionType::Progressing).contains(wanted);
    stage.until(&what, holds).await?;
    ensure!(
        stage.exists(&stage.deployment_path()).await?,
        "the operator is there as long as it is needed"
    );

    // What the operator does.
    stage
        .merge(&thing, &json!({"metadata": {"finalizers": null}}))
        .await?;
    stage.until_exists(&extension, false).await?;
    stage.has_nothing().await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

//! Fields that the API server does not know.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::condition::ConditionType;
use serde_json::json;

use crate::harness::stage::Stage;
use crate::harness::wait::{message, until_true};
use crate::harness::{Cluster, Outcome};
use crate::revision::{apply_set, delete_set};

/// They are left out and told, also where server-side apply would refuse the whole object; a port that somebody changed is
/// ours again, although both together are not valid; and so is what changed beside a list that names something twice.
pub(crate) async fn what_the_server_does_not_know_is_left_out(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let name = "unknown-fields";
    let stage = Stage::set(cluster, name).await?;
    let ports = json!([{"name": "http", "port": 80, "prot": "TCP"}, {"name": "more", "port": 81}]);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "server", "namespace": name},
        "spec": {"ports": ports, "slector": {"app": "server"}}});
    let env = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    let labels = json!({"app": "server"});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "server", "namespace": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "m", "image": "server", "env": env}]}}}});
    let objects = json!([{"object": service}, {"object": deployment}]);
    let spec = json!({"phases": [{"name": "all", "objects": objects}]});
    apply_set(&stage, name, &spec).await?;
    let set = stage.until_rolled_out(name).await?;
    let told = "Service.v1 unknown-fields/server: left out what the API server does not know: spec.ports[0].prot, spec.slector.";
    ensure!(message(&set, ConditionType::Warnings) == told);

    let path = format!("/api/v1/namespaces/{name}/services/server");
    let change =
        json!({"spec": {"ports": [{"name": "http", "port": 99}, {"name": "more", "port": 81}]}});
    stage.merge(&path, &change).await?;
    let is_back = async || Ok(stage.get(&path).await?["spec"]["ports"][0]["port"] == 80);
    until_true(&stage.cluster, "the changed port is set back", is_back).await?;
    let set = stage.until_rolled_out(name).await?;
    ensure!(message(&set, ConditionType::Warnings) == told);
    // What server-side apply cannot hold is set back, and again.
    let path = format!("/apis/apps/v1/namespaces/{name}/deployments/server");
    for replicas in [2, 3] {
        let change = json!({"spec": {"replicas": replicas}});
        stage.merge(&path, &change).await?;
        let is_back = async || Ok(stage.get(&path).await?["spec"]["replicas"] == 1);
        until_true(&stage.cluster, "the replicas are set back", is_back).await?;
        let template = &stage.get(&path).await?["spec"]["template"];
        ensure!(
            template["spec"]["containers"][0]["env"] == env,
            "{template}"
        );
        stage.until_rolled_out(name).await?;
    }
    delete_set(&stage, name).await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

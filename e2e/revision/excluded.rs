//! Drift that is not valid together with what the revision wants.

use std::sync::Arc;

use anyhow::ensure;
use serde_json::json;

use super::{apply_set, delete_set};
use crate::harness::stage::Stage;
use crate::harness::wait::until_true;
use crate::harness::{Cluster, Outcome};

/// Server-side apply leaves what others added beside ours, and the API server refuses both together: ours is written over it.
pub(crate) async fn drift_that_excludes_ours_is_repaired(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let name = "drift-excludes";
    let stage = Stage::set(cluster, name).await?;
    let labels = json!({ "app": name });
    let field = json!({"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}});
    let container = json!({"name": "m", "image": "example.com/m:v1", "env": [{"name": "WATCH", "valueFrom": field}]});
    let metadata = json!({"name": name, "namespace": name});
    let objects = [
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {
            "strategy": {"type": "Recreate"}, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": {"selector": labels, "ports": [{"port": 80}]}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata,
            "spec": {"selector": {"matchLabels": labels}, "minAvailable": 1}}),
    ];
    let objects: Vec<_> = objects
        .iter()
        .map(|object| json!({ "object": object }))
        .collect();
    let spec = json!({"phases": [{"name": "all", "objects": objects}]});
    apply_set(&stage, name, &spec).await?;
    stage.until_rolled_out(name).await?;

    let deployment = format!("/apis/apps/v1/namespaces/{name}/deployments/{name}");
    let service = format!("/api/v1/namespaces/{name}/services/{name}");
    let budget = format!("/apis/policy/v1/namespaces/{name}/poddisruptionbudgets/{name}");
    let env = json!([{"name": "WATCH", "value": "all"}]);
    let spec = json!({"containers": [{"name": "m", "image": "example.com/m:v1", "env": env}]});
    for (path, change, at, wanted) in [
        (
            &deployment,
            json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}}}}),
            "/spec/strategy",
            json!({"type": "Recreate"}),
        ),
        (
            &deployment,
            json!({"spec": {"template": {"spec": spec}}}),
            "/spec/template/spec/containers/0/env/0/valueFrom",
            field.clone(),
        ),
        (
            &service,
            json!({"spec": {"ports": [{"port": 8080}]}}),
            "/spec/ports/0/port",
            json!(80),
        ),
        (
            &budget,
            json!({"spec": {"minAvailable": null, "maxUnavailable": 1}}),
            "/spec/minAvailable",
            json!(1),
        ),
    ] {
        let changed = stage.merge(path, &change).await?;
        ensure!(changed.pointer(at) != Some(&wanted), "{changed}");
        let is_back = async || Ok(stage.get(path).await?.pointer(at) == Some(&wanted));
        until_true(&stage.cluster, &format!("{at} of {path} is back"), is_back).await?;
        stage.until_rolled_out(name).await?;
    }
    delete_set(&stage, name).await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

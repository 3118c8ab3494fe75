//! Objects that stand in Secrets.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::condition::ConditionType;
use serde_json::{Value, json};

use super::{apply_set, config_map, config_map_path, delete_set};
use crate::harness::stage::Stage;
use crate::harness::{Cluster, Outcome};

/// A Secret in the namespace of the stage whose keys hold objects.
pub(super) fn secret(
    stage: &Stage,
    name: &str,
    is_immutable: bool,
    data: &[(&str, Value)],
) -> String {
    let data: Value = data
        .iter()
        .map(|(key, object)| ((*key).to_owned(), json!(object.to_string())))
        .collect::<serde_json::Map<String, Value>>()
        .into();
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "olm.operatorframework.io/object-data",
        "metadata": {"name": name, "namespace": stage.name},
        "immutable": is_immutable, "stringData": data,
    })
    .to_string()
}

/// A phase with one object, which stands in a Secret of the stage's namespace.
pub(super) fn referring(stage: &Stage, secret: &str, keys: &[&str]) -> Value {
    let objects: Vec<Value> = keys
        .iter()
        .map(|key| json!({"ref": {"name": secret, "namespace": stage.name, "key": key}}))
        .collect();
    json!([{"name": "objects", "objects": objects}])
}

/// Objects are read from a Secret as the account, applied, and their digest is noted; a Secret of oxolm's own
/// namespace that is another revision's is not read.
pub(crate) async fn objects_stand_in_secrets(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "in-secrets").await?;
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": stage.name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "registry.example.com/web:latest"}]}}},
    });
    let map = config_map(&stage, "from-secret", &json!({}), &json!({"a": "b"}));
    let content = secret(
        &stage,
        "content",
        true,
        &[("map", map), ("web", deployment)],
    );
    stage.apply(&content).await?;
    let spec = json!({"phases": referring(&stage, "content", &["map", "web"])});
    apply_set(&stage, "in-secrets", &spec).await?;
    let set = stage.until_rolled_out("in-secrets").await?;
    let observed = set.status.map(|status| status.observed_phases);
    let observed = observed.unwrap_or_default();
    ensure!(
        observed.len() == 1
            && observed[0].name == "objects"
            && observed[0].digest.starts_with("sha256:"),
        "{observed:?}"
    );
    let paths = [
        config_map_path(&stage, "from-secret"),
        "/apis/apps/v1/namespaces/in-secrets/deployments/web".to_owned(),
    ];
    for path in &paths {
        ensure!(stage.exists(path).await?, "{path}");
    }

    // The system namespace is read with oxolm's own rights: only what was made for this very revision.
    let spec = json!({"phases": [{"name": "objects", "objects": [
        {"ref": {"name": "oxolm-in-secrets-other", "namespace": "olmv1-system", "key": "token"}}]}]});
    stage.apply("apiVersion: v1\nkind: Secret\nimmutable: true\nmetadata: {name: oxolm-in-secrets-other, namespace: olmv1-system}\n\
         stringData: {token: hunter2}\n",
    )
    .await?;
    apply_set(&stage, "in-secrets-thief", &spec).await?;
    let set = stage
        .until_set(
            "in-secrets-thief",
            ConditionType::Progressing,
            "False/Blocked",
        )
        .await?;
    let text = serde_json::to_string(&set.status)?;
    ensure!(!text.contains("hunter2"), "{text}");
    delete_set(&stage, "in-secrets-thief").await?;
    stage.delete("apiVersion: v1\nkind: Secret\nmetadata: {name: oxolm-in-secrets-other, namespace: olmv1-system}\n",
    )
    .await?;

    delete_set(&stage, "in-secrets").await?;
    for path in &paths {
        ensure!(!stage.exists(path).await?, "{path} is gone");
    }
    ensure!(
        stage
            .exists("/api/v1/namespaces/in-secrets/secrets/content")
            .await?,
        "the Secret is its author's, and stays"
    );
    stage.clear().await?;
    Ok(Outcome::Passed)
}

//! Kinds that oxolm's own account may not watch: Secrets, and resources of a CRD that the revision brings.

use std::sync::Arc;

use anyhow::ensure;
use kube::api::DeleteParams;
use oxolm::api::condition::ConditionType;
use serde_json::{Value, json};

use crate::harness::stage::Stage;
use crate::harness::wait::{message, until, until_true};
use crate::harness::{Cluster, Outcome};
use crate::revision::{apply_set, delete_set};

/// What no account can do without.
const TO_WRITE: &str = "get, create, patch, update, delete";
/// What it takes to see changes.
const TO_WATCH: &str = "get, create, patch, update, delete, list, watch";

/// Where the account may watch, it does, and drift is repaired at once; where it may not, objects are read on a timer as
/// the account; status says which, and rights that come later are used.
pub(crate) async fn what_oxolm_may_not_watch_is_kept_up(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let name = "unwatched";
    let stage = Stage::set_without_rights(cluster, name).await?;
    grant(&stage, TO_WRITE).await?;
    apply_set(&stage, name, &spec(name)).await?;
    stage.until_rolled_out(name).await?;
    until_told(
        &stage,
        "Changes of Secret.v1, Widget.unwatched.example.com/v1 are not watched: they are looked for every 20 seconds as \
         service account unwatched/installer, which may not list and watch them.",
    )
    .await?;
    is_kept_up(&stage).await?;

    grant(&stage, TO_WATCH).await?;
    until_told(
        &stage,
        "Changes of Secret.v1, Widget.unwatched.example.com/v1 are watched as service account unwatched/installer.",
    )
    .await?;
    is_kept_up(&stage).await?;

    delete_set(&stage, name).await?;
    ensure!(
        !stage.exists(&secret_path(name)).await?,
        "the Secret is gone"
    );
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// Lets the account do `verbs` to what the revision consists of, and nothing else.
async fn grant(stage: &Stage, verbs: &str) -> anyhow::Result<()> {
    let name = &stage.name;
    let group = "rbac.authorization.k8s.io";
    let yaml = format!(
        "apiVersion: {group}/v1\nkind: ClusterRole\nmetadata: {{name: {name}}}\nrules:\n\
         - {{apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [{TO_WATCH}]}}\n\
         - {{apiGroups: [''], resources: [secrets], verbs: [{verbs}]}}\n\
         - {{apiGroups: [{name}.example.com], resources: [widgets], verbs: [{verbs}]}}\n---\n\
         apiVersion: {group}/v1\nkind: ClusterRoleBinding\nmetadata: {{name: {name}}}\n\
         roleRef: {{apiGroup: {group}, kind: ClusterRole, name: {name}}}\n\
         subjects: [{{kind: ServiceAccount, name: installer, namespace: {name}}}]\n"
    );
    stage.apply(&yaml).await
}

/// A Secret, a CRD, and a resource of it.
fn spec(name: &str) -> Value {
    let group = format!("{name}.example.com");
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let widget = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "spec": {"size": 1},
        "metadata": {"name": "widget", "namespace": name}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "MQ=="},
        "metadata": {"name": "secret", "namespace": name}});
    let established = json!({"selector": {"type": "GroupKind", "groupKind": {
            "group": "apiextensions.k8s.io", "kind": "CustomResourceDefinition"}},
        "assertions": [{"type": "ConditionEqual", "conditionEqual": {"type": "Established", "status": "True"}}]});
    json!({
        "progressionProbes": [established],
        "phases": [
            {"name": "crds", "objects": [{"object": crd}]},
            {"name": "rest", "objects": [{"object": secret}, {"object": widget}]},
        ],
    })
}

fn secret_path(name: &str) -> String {
    format!("/api/v1/namespaces/{name}/secrets/secret")
}

async fn until_told(stage: &Stage, sentence: &str) -> anyhow::Result<()> {
    let told = |set: &_| message(set, ConditionType::Warnings) == sentence;
    until(&stage.cluster, &stage.sets(), &stage.name, sentence, told).await?;
    Ok(())
}

/// A changed resource is set back, and a deleted Secret comes again.
async fn is_kept_up(stage: &Stage) -> anyhow::Result<()> {
    let name = &stage.name;
    let widget = format!("/apis/{name}.example.com/v1/namespaces/{name}/widgets/widget");
    stage.merge(&widget, &json!({"spec": {"size": 2}})).await?;
    let is_back = async || Ok(stage.get(&widget).await?["spec"]["size"] == 1);
    until_true(&stage.cluster, "the changed field is set back", is_back).await?;
    let secret = secret_path(name);
    stage
        .remove(&secret, &serde_json::to_value(DeleteParams::default())?)
        .await?;
    stage.until_exists(&secret, true).await
}

//! Annotation `oxolm.dev/adopt`.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::condition::ConditionType;
use serde_json::{Value, json};

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::{message, until_true};
use crate::harness::{Cluster, Outcome};

/// Objects of an earlier installation are left alone by default; `unowned` takes what nobody controls, `all` the rest.
pub(crate) async fn adoption_is_asked_for(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::offering(cluster, "adopted", &[Bundle::new("1.0.0")]).await?;
    let free = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: adopted-settings, namespace: adopted}\ndata: {version: '0', mine: stays}\n";
    stage.apply(free).await?;
    let uid = stage.get(&stage.settings_path()).await?["metadata"]["uid"].clone();
    let held = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "adopted-manager", "namespace": "adopted", "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "adopted-settings", "uid": uid, "controller": true}]}});
    stage.apply(&held.to_string()).await?;

    let adopt = |value: &str| json!({"metadata": {"annotations": {"oxolm.dev/adopt": value}}});
    let retried = async |text: &str| {
        let retrying = "True/Retrying";
        stage
            .until_condition(ConditionType::Progressing, retrying, text)
            .await
    };
    // One that could not even be changed is told as somebody else's first.
    let crd = |size: &str| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.adopted.example.com"},
            "spec": {"group": "adopted.example.com", "scope": "Namespaced",
                "names": {"kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": size}}}}}}}]}})
            .to_string()
    };
    stage.apply(&crd("string")).await?;
    stage.add_extension(&json!({})).await?;
    let text = "CRDs are there already and somebody else's: let ClusterExtension adopted take them over: annotate it with \
                oxolm.dev/adopt unowned (objects without owner) or all; a CustomResourceDefinition that is deleted takes all its \
                resources with it\n\
                Object CustomResourceDefinition.apiextensions.k8s.io/v1 /things.adopted.example.com\n\
                Action: \"Collision\"\nConflicting Owner: nil\n\
                validating upgrade for CRD \"things.adopted.example.com\": v1: ^.spec.size: type: type changed : \"string\" -> \"integer\"";
    retried(text).await?;
    stage.apply(&crd("integer")).await?;
    retried("Object ConfigMap.v1 adopted/adopted-settings").await?;
    ensure!(
        stage.get(&stage.settings_path()).await?["data"]["version"] == "0",
        "it is left alone"
    );

    stage.patch_extension(&adopt("unowned")).await?;
    stage
        .until_set("adopted-2", ConditionType::Progressing, "True/Retrying")
        .await?;
    // The status may still be about the revision before.
    let held_alone = async || {
        let told = retried("Object ServiceAccount.v1 adopted/adopted-manager").await?;
        Ok(!message(&told, ConditionType::Progressing).contains("Object ConfigMap.v1"))
    };
    until_true(
        &stage.cluster,
        "what nobody controls is adopted",
        held_alone,
    )
    .await?;

    stage.patch_extension(&adopt("all")).await?;
    stage.until_installed("1.0.0").await?;
    let map: Value = stage.get(&stage.settings_path()).await?;
    ensure!(map["metadata"]["uid"] == uid, "it is the same object");
    ensure!(
        map["data"] == json!({"version": "1.0.0", "mine": "stays"}),
        "{map}"
    );
    ensure!(
        map["metadata"]["ownerReferences"][0]["kind"] == "ClusterObjectSet",
        "{map}"
    );
    stage.clear().await?;
    Ok(Outcome::Passed)
}

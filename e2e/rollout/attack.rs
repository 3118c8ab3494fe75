//! A tenant's revision that carries the labels of somebody else's extension.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use oxolm::api::condition::ConditionType;
use serde_json::{Value, json};

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::{message, shape};
use crate::harness::{Cluster, Outcome, objects};
use crate::revision::{delete_set, set_path};

/// What the tenant may do: write revisions, and act as the account of a namespace of its own.
const TENANT: &str = r#"apiVersion: v1
kind: Namespace
metadata: {name: mislabelled-tenant}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: installer, namespace: mislabelled-tenant}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: mislabelled-tenant}
rules:
- {apiGroups: [olm.operatorframework.io], resources: [clusterobjectsets], verbs: [get, create, update, patch, delete]}
- {apiGroups: [""], resources: [serviceaccounts], resourceNames: [installer], verbs: [impersonate]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mislabelled-tenant}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: mislabelled-tenant}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: mallory-tenant}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mislabelled-tenant-admin}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: installer, namespace: mislabelled-tenant}]
"#;

/// It is refused; and if an administrator lets it in, it changes nothing for the extension, whose next revision passes
/// over the name that was taken.
pub(crate) async fn a_label_of_somebody_else_means_nothing(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::offering(
        cluster,
        "mislabelled",
        &[Bundle::new("1.0.0"), Bundle::new("1.1.0")],
    )
    .await?;
    stage.install("1.0.0").await?;
    stage.apply(TENANT).await?;
    let false_one = false_revision();
    let tenant = stage.cluster.client_of("mallory-tenant").await?;
    let refused = objects::apply(&tenant, &false_one.to_string()).await;
    let text = format!("{:#}", refused.err().context("it was admitted")?);
    ensure!(
        text.contains("clusterobjectset-identity.oxolm.dev"),
        "{text}"
    );

    stage.apply(&false_one.to_string()).await?;
    let set = stage
        .until_set("mislabelled-2", ConditionType::Progressing, "True/Retrying")
        .await?;
    let told = message(&set, ConditionType::Progressing);
    ensure!(told.contains("revision object collisions"), "{told}");
    let extension = stage.until_installed("1.0.0").await?;
    let status = extension.status.clone().unwrap_or_default();
    let active: Vec<&str> = status
        .active_revisions
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    ensure!(active == ["mislabelled-1"], "{active:?}");
    ensure!(shape(&extension, ConditionType::Installed) == "True/Succeeded");
    let map = stage.get(&stage.settings_path()).await?;
    ensure!(map["data"]["version"] == "1.0.0", "{map}");
    let set = stage.get(&set_path("mislabelled-2")).await?;
    ensure!(
        set["metadata"]["ownerReferences"].is_null(),
        "nobody takes it for his own: {set}"
    );

    stage.change_to("1.1.0").await?;
    stage.until_rolled_out("mislabelled-3").await?;
    let set = stage.get(&set_path("mislabelled-2")).await?;
    ensure!(
        set["spec"]["lifecycleState"] == "Active",
        "it is not archived either"
    );
    stage.uninstall().await?;
    ensure!(
        stage.exists(&set_path("mislabelled-2")).await?,
        "nor deleted"
    );
    delete_set(&stage, "mislabelled-2").await?;
    stage.delete(TENANT).await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

fn false_revision() -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
        "metadata": {"name": "mislabelled-2",
            "labels": {"olm.operatorframework.io/owner-kind": "ClusterExtension",
                       "olm.operatorframework.io/owner-name": "mislabelled"},
            "annotations": {"olm.operatorframework.io/service-account-name": "installer",
                "olm.operatorframework.io/service-account-namespace": "mislabelled-tenant",
                "olm.operatorframework.io/package-name": "mislabelled"}},
        "spec": {"lifecycleState": "Active", "revision": 2, "collisionProtection": "IfNoController", "phases": [
            {"name": "objects", "objects": [{"object": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "mislabelled-settings", "namespace": "mislabelled"},
                "data": {"version": "mallory"}}}]}]},
    })
}

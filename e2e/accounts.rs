//! The account that installs: missing, without rights, and with somebody who may not name it.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::condition::ConditionType;
use serde_json::json;

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::{message, shape};
use crate::harness::{Cluster, Outcome, objects};

/// An account that does not exist: a condition that names the command that makes it; made, the extension installs.
pub(crate) async fn missing_account(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "missing-account").await?;
    stage.delete("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: installer, namespace: missing-account}\n",
    )
    .await?;
    stage.offer(&[Bundle::new("1.0.0")]).await?;
    stage.add_extension(&json!({})).await?;
    let text = "operation cannot proceed due to the following validation error(s): service account \"installer\" not \
                found in namespace \"missing-account\"";
    let refused = stage
        .until_condition(ConditionType::Progressing, "True/Retrying", text)
        .await?;
    let told = message(&refused, ConditionType::Progressing);
    ensure!(
        told.ends_with("kubectl create serviceaccount installer --namespace missing-account"),
        "{told}"
    );
    ensure!(shape(&refused, ConditionType::Installed) == "Unknown/Failed");
    stage.apply("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: installer, namespace: missing-account}\n",
    )
    .await?;
    stage.until_installed("1.0.0").await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// An account without rights: all missing rules in one message, nothing written; granted, the extension installs.
pub(crate) async fn missing_permission(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::set_without_rights(cluster, "missing-permission").await?;
    stage.offer(&[Bundle::new("1.0.0")]).await?;
    stage.add_extension(&json!({})).await?;
    let text = "pre-authorization failed: service account requires the following permissions to manage cluster extension:";
    let refused = stage
        .until_condition(ConditionType::Progressing, "True/Retrying", text)
        .await?;
    let told = message(&refused, ConditionType::Progressing);
    ensure!(
        told.starts_with(
            "error for resolved bundle \"missing-permission.v1.0.0\" with version \"1.0.0\": "
        ),
        "{told}"
    );
    for line in [
        "\n  Namespace:\"\" APIGroups:[apiextensions.k8s.io] Resources:[customresourcedefinitions] \
         ResourceNames:[things.missing-permission.example.com] Verbs:[delete,get,patch",
        "\n  Namespace:\"missing-permission\" APIGroups:[apps] Resources:[deployments] Verbs:[create]",
        "Verbs:[create]",
    ] {
        ensure!(told.contains(line), "{line:?} is in: {told}");
    }
    stage.has_nothing().await?;
    stage.grant_everything().await?;
    stage.until_installed("1.0.0").await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// Whoever may write extensions but not impersonate an account cannot name it.
pub(crate) async fn account_that_the_requester_may_not_impersonate(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "not-yours").await?;
    stage.apply("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: not-yours-writer}\n\
         rules: [{apiGroups: [olm.operatorframework.io], resources: [clusterextensions], verbs: ['*']}]\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: not-yours-writer}\n\
         roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: not-yours-writer}\n\
         subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: mallory}]\n",
    )
    .await?;
    let mallory = stage.cluster.client_of("mallory").await?;
    let extension = json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": "not-yours"},
        "spec": {"namespace": "not-yours", "serviceAccount": {"name": "installer"},
                 "source": {"sourceType": "Catalog", "catalog": {"packageName": "not-yours"}}},
    });
    let refused = objects::apply(&mallory, &extension.to_string()).await;
    let text = format!(
        "{:#}",
        refused.err().unwrap_or_else(|| anyhow::anyhow!("admitted"))
    );
    let expected = "user mallory may not impersonate service account not-yours/installer: grant verb impersonate on it, \
                    or name another";
    ensure!(text.contains(expected), "{text}");
    stage.delete("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: not-yours-writer}\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: not-yours-writer}\n",
    )
    .await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

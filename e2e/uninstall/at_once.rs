//! Namespace, account, bindings and extension deleted in one command.

use std::sync::Arc;

use anyhow::ensure;
use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::until_true;
use crate::harness::{Cluster, Outcome};

/// Who is deleted first. The API server gets the requests one after the other, and nobody waits in between.
const ORDERS: [(&str, &str, [usize; 4]); 7] = [
    ("at-once-a", "Background", [0, 1, 2, 3]),
    ("at-once-b", "Background", [3, 2, 1, 0]),
    ("at-once-c", "Foreground", [0, 1, 2, 3]),
    ("at-once-d", "Foreground", [3, 1, 0, 2]),
    ("at-once-e", "Orphan", [0, 1, 2, 3]),
    ("at-once-f", "Orphan", [3, 2, 1, 0]),
    ("at-once-g", "Orphan", [1, 3, 2, 0]),
];

/// In any order and with any cascade: nothing is stuck, and nothing is left but a definition that is used, with its
/// resource.
pub(crate) async fn everything_is_deleted_in_one_command(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let told =
        ORDERS.map(|(name, cascade, order)| delete_all(cluster.clone(), name, cascade, order));
    try_join_all(told).await?;
    Ok(Outcome::Passed)
}

async fn delete_all(
    cluster: Arc<Cluster>,
    name: &str,
    cascade: &str,
    order: [usize; 4],
) -> anyhow::Result<()> {
    let stage = Stage::offering(cluster, name, &[Bundle::new("1.0.0")]).await?;
    stage.install_newest("1.0.0").await?;
    let thing = format!(
        "apiVersion: {name}.example.com/v1\nkind: Thing\nmetadata: {{name: {name}, namespace: default}}\nspec: {{size: 1}}\n"
    );
    stage.apply(&thing).await?;

    let paths = [
        format!("/api/v1/namespaces/{name}"),
        format!("/api/v1/namespaces/{name}/serviceaccounts/installer"),
        format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{name}-admin"),
        format!("/apis/olm.operatorframework.io/v1/clusterextensions/{name}"),
    ];
    for at in order {
        stage
            .remove(&paths[at], &json!({ "propagationPolicy": cascade }))
            .await?;
    }
    for path in &paths {
        stage.until_exists(path, false).await?;
    }
    let owned = format!("labelSelector=olm.operatorframework.io/owner-name={name}");
    for list in [
        "/apis/olm.operatorframework.io/v1/clusterobjectsets",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "/api/v1/secrets",
        "/api/v1/configmaps",
    ] {
        let is_empty = async || {
            let left: Value = stage.get(&format!("{list}?{owned}")).await?;
            Ok(left["items"] == json!([]))
        };
        until_true(
            &stage.cluster,
            &format!("nothing of {name} is left in {list}"),
            is_empty,
        )
        .await?;
    }
    let thing_path = format!("/apis/{name}.example.com/v1/namespaces/default/things/{name}");
    ensure!(stage.exists(&thing_path).await?, "{thing_path} is not lost");
    stage.delete(&thing).await?;
    let crd = format!(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{name}.example.com"
    );
    stage.remove(&crd, &json!({})).await?;
    stage.clear().await
}

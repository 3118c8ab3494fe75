//! Defaults, and the columns of `kubectl get`.

use std::sync::Arc;

use anyhow::{bail, ensure};
use http::Request;
use kube::Client;
use oxolm::api::{ClusterCatalog, ClusterExtension};
use serde_json::{Value, json};

use super::{dry_run, object, wire};
use crate::harness::{Cluster, Outcome};

/// What the API server adds, and what `kubectl get` shows, without and with `-o wide`.
pub(crate) async fn defaults_and_columns(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    defaults(&cluster.client).await?;
    for (plural, always, wide) in [
        (
            "clustercatalogs",
            vec!["Name", "LastUnpacked", "Serving", "Age"],
            vec!["Progressing", "Priority", "Source"],
        ),
        (
            "clusterextensions",
            vec![
                "Name",
                "Installed Bundle",
                "Version",
                "Installed",
                "Progressing",
                "Age",
            ],
            vec![
                "Reason",
                "Available Update",
                "Catalog",
                "Namespace",
                "Account",
            ],
        ),
        (
            "clusterobjectsets",
            vec!["Name", "Available", "Progressing", "Age"],
            vec!["State", "Revision", "Version", "Account"],
        ),
    ] {
        let columns = columns(&cluster.client, plural).await?;
        let shown = |priority: i64| -> Vec<&str> {
            columns
                .iter()
                .filter(|(_, at)| *at == priority)
                .map(|(name, _)| name.as_str())
                .collect()
        };
        ensure!(shown(0) == always, "{plural}: {:?}", shown(0));
        ensure!(shown(1) == wide, "{plural} -o wide: {:?}", shown(1));
    }
    Ok(Outcome::Passed)
}

async fn defaults(client: &Client) -> anyhow::Result<()> {
    let catalog = json!({
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterCatalog",
        "metadata": {"name": "rules-defaults"},
        "spec": {"source": {"type": "Image", "image": {"ref": "quay.io/a/b:c"}}},
    });
    let stored = wire::<ClusterCatalog>(client)
        .create(&dry_run(), &object(catalog))
        .await?;
    ensure!(stored.data["spec"]["priority"] == json!(0));
    ensure!(stored.data["spec"]["availabilityMode"] == json!("Available"));

    let extension = json!({
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterExtension",
        "metadata": {"name": "rules-defaults"},
        "spec": {"namespace": "a", "source": {"sourceType": "Catalog", "catalog": {"packageName": "b"}}},
    });
    let stored = wire::<ClusterExtension>(client)
        .create(&dry_run(), &object(extension))
        .await?;
    let source = &stored.data["spec"]["source"]["catalog"];
    ensure!(source["upgradeConstraintPolicy"] == json!("CatalogProvided"));
    Ok(())
}

/// The names and priorities of the columns, as the API server tells kubectl.
async fn columns(client: &Client, plural: &str) -> anyhow::Result<Vec<(String, i64)>> {
    let request = Request::get(format!(
        "/apis/olm.operatorframework.io/v1/{plural}?limit=1"
    ))
    .header(
        http::header::ACCEPT,
        "application/json;as=Table;g=meta.k8s.io;v=v1",
    )
    .body(Vec::new())?;
    let table: Value = client.request(request).await?;
    let Some(definitions) = table["columnDefinitions"].as_array() else {
        bail!("{plural}: not a table: {table}");
    };
    Ok(definitions
        .iter()
        .map(|column| {
            (
                column["name"].as_str().unwrap_or_default().to_owned(),
                column["priority"].as_i64().unwrap_or_default(),
            )
        })
        .collect())
}

//! A definition that stays behind, whose versions only its operator can convert.

use std::sync::Arc;

use anyhow::ensure;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::{converted_crd, until_event};
use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::{Cluster, Outcome};

const NAME: &str = "things.crd-differing.example.com";

/// `v2` calls so what `v1` calls `size`.
const WIDTH: &str = "width: {type: integer}";

const THING: &str = "apiVersion: crd-differing.example.com/v1\nkind: Thing\n\
                     metadata: {name: mine, namespace: crd-differing}\nspec: {size: 1}\n";

/// On a downgrade and on uninstall the definition keeps its conversion, since without it values would be lost, and is
/// reported; the garbage collector goes on meanwhile.
pub(crate) async fn a_webhook_that_is_still_needed_is_reported(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "crd-differing").await?;
    let without = Bundle {
        has_crd: false,
        ..Bundle::new("1.0.0")
    };
    let with = Bundle {
        manifests: vec![("crd.yaml", converted_crd(WIDTH))],
        ..Bundle::new("1.1.0")
    };
    stage.offer(&[without, with]).await?;
    stage.install("1.1.0").await?;
    stage.apply(THING).await?;

    stage
        .change_extension(&json!({"version": "1.0.0", "upgradeConstraintPolicy": "SelfCertified"}))
        .await?;
    stage.until_installed("1.0.0").await?;
    let is_reported = |note: &str| note.contains(NAME) && note.contains("conversion webhook");
    until_event(&stage, is_reported).await?;
    is_kept(&stage).await?;

    // Taken back, and left at the end.
    stage.change_extension(&json!({"version": "1.1.0"})).await?;
    stage.until_installed("1.1.0").await?;
    stage.uninstall().await?;
    is_kept(&stage).await?;
    garbage_is_collected(&stage).await?;

    // What the message says to do: without the webhook, resources are readable in their stored version.
    let crds: Api<CustomResourceDefinition> = Api::all(stage.cluster.client.clone());
    let patch = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    crds.patch(NAME, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    stage.delete(THING).await?;
    crds.delete(NAME, &DeleteParams::default()).await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

async fn is_kept(stage: &Stage) -> anyhow::Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(stage.cluster.client.clone());
    let kept = crds.get(NAME).await?;
    ensure!(kept.metadata.deletion_timestamp.is_none(), "it is kept");
    let strategy = kept.spec.conversion.map(|conversion| conversion.strategy);
    ensure!(strategy.as_deref() == Some("Webhook"), "{strategy:?}");
    Ok(())
}

/// What belongs to an object that is deleted goes with it.
async fn garbage_is_collected(stage: &Stage) -> anyhow::Result<()> {
    let map = |name: &str, owner: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: crd-differing{owner}}}\n"
        )
    };
    let path = |name: &str| format!("/api/v1/namespaces/crd-differing/configmaps/{name}");
    stage.apply(&map("owner", "")).await?;
    let uid = stage.get(&path("owner")).await?["metadata"]["uid"].clone();
    let owner = format!(
        ", ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: owner, uid: {uid}}}]"
    );
    stage.apply(&map("owned", &owner)).await?;
    stage.delete(&map("owner", "")).await?;
    stage.until_exists(&path("owned"), false).await
}

//! The definitions of the API itself are deleted, and with them, by the API server, all extensions and revisions.

use std::sync::Arc;

use anyhow::ensure;
use serde_json::json;

use super::{deletions, restore, save};
use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::until_true;
use crate::harness::{Cluster, Outcome};

/// Where definitions are.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Nobody asked for what runs to go, and it is taken back when the definitions and the extension are there again.
pub(crate) async fn nothing_goes_with_the_kinds_of_the_api(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let name = "kinds-deleted";
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0")];
    let stage = Stage::offering(cluster, name, &bundles).await?;
    stage.install("1.0.0").await?;
    let (saved, before) = (save(&stage).await?, stage.uids().await?);
    let deleted_before = deletions(name)?.len();

    for kinds in [
        &["clusterextensions"][..],
        &["clusterobjectsets"],
        &["clusterextensions", "clusterobjectsets"],
    ] {
        let paths: Vec<String> = kinds
            .iter()
            .map(|kind| format!("{DEFINITIONS}/{kind}.olm.operatorframework.io"))
            .collect();
        let mut definitions = Vec::new();
        for path in &paths {
            definitions.push(stage.get(path).await?);
        }
        for path in &paths {
            stage.remove(path, &json!({})).await?;
        }
        for path in &paths {
            stage.until_exists(path, false).await?;
        }
        for definition in definitions {
            let mut wanted = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"});
            for field in ["name", "labels", "annotations"] {
                wanted["metadata"][field] = definition["metadata"][field].clone();
            }
            wanted["spec"] = definition["spec"].clone();
            stage.apply(&wanted.to_string()).await?;
        }
        for kind in kinds {
            let list = format!("/apis/olm.operatorframework.io/v1/{kind}");
            let is_served = async || Ok(stage.get(&list).await.is_ok());
            until_true(&stage.cluster, &format!("{kind} are served"), is_served).await?;
        }
        // What was written by hand is applied again; revisions are made anew.
        restore(&stage, &saved, &[0]).await?;
        stage.until_installed("1.0.0").await?;
        ensure!(stage.uids().await? == before, "made anew after {kinds:?}");
    }

    let deleted: Vec<String> = deletions(name)?.split_off(deleted_before);
    let is_ours = |line: &&String| !line.contains(" deleted secrets olmv1-system/");
    let deleted: Vec<&String> = deleted.iter().filter(is_ours).collect();
    ensure!(deleted.is_empty(), "{deleted:#?}");
    stage.change_to("1.1.0").await?;
    stage.uninstall().await?;
    stage.has_nothing().await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

//! Objects that a new version puts somewhere else.

use std::sync::Arc;

use anyhow::ensure;
use serde_json::json;

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::{Cluster, Outcome};

/// More maps than one phase holds; the last ones are in a second phase of their kind.
const MAPS: usize = 60;

fn map(number: usize) -> (&'static str, String) {
    let file: &'static str = format!("map-{number}.yaml").leak();
    let text = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: PACKAGE-map-{number:02}}}\ndata: {{a: b}}\n"
    );
    (file, text)
}

fn thing(kind: &str) -> (&'static str, String) {
    let text = format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: PACKAGE-thing}}\n");
    ("thing.yaml", text)
}

/// Fewer objects in a kind's first phase move those of its second one there: they stay as they are. One that becomes
/// another kind of the same name is made anew, and the old one goes.
pub(crate) async fn what_moves_stays_and_what_changes_kind_is_made_anew(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "moved").await?;
    let maps = |range: std::ops::Range<usize>| range.map(map);
    let before = Bundle {
        manifests: maps(0..MAPS).chain([thing("ConfigMap")]).collect(),
        ..Bundle::new("1.0.0")
    };
    let after = Bundle {
        manifests: maps(20..MAPS).chain([thing("Secret")]).collect(),
        ..Bundle::new("1.1.0")
    };
    stage.offer(std::slice::from_ref(&before)).await?;
    stage.add_extension(&json!({})).await?;
    stage.until_installed("1.0.0").await?;
    let core = "/api/v1/namespaces/moved";
    let last = format!("{core}/configmaps/moved-map-59");
    let made = stage.get(&last).await?["metadata"]["uid"].clone();
    ensure!(
        stage
            .get("/apis/olm.operatorframework.io/v1/clusterobjectsets/moved-1")
            .await?["spec"]["phases"]
            .as_array()
            .is_some_and(|phases| phases
                .iter()
                .any(|phase| phase["name"] == "configuration-2"))
    );

    stage.offer(&[before, after]).await?;
    stage.until_installed("1.1.0").await?;
    stage.until_archived("moved-1").await?;
    ensure!(
        stage.get(&last).await?["metadata"]["uid"] == made,
        "what moved was made anew"
    );
    for (path, wanted) in [
        ("configmaps/moved-map-00", false),
        ("configmaps/moved-map-20", true),
        ("configmaps/moved-thing", false),
        ("secrets/moved-thing", true),
    ] {
        ensure!(
            stage.exists(&format!("{core}/{path}")).await? == wanted,
            "{path}"
        );
    }
    stage.uninstall().await?;
    stage.has_nothing().await?;
    ensure!(!stage.exists(&last).await?);
    stage.clear().await?;
    Ok(Outcome::Passed)
}

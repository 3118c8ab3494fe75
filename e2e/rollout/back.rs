//! A newer version that does not come up.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::condition::ConditionType;
use serde_json::json;

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::{Cluster, Outcome};

/// A map that cannot be changed.
fn sealed(value: &str) -> (&'static str, String) {
    let text = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: PACKAGE-sealed}}\nimmutable: true\ndata: {{a: {value}}}\n"
    );
    ("sealed.yaml", text)
}

fn map(name: &str) -> (&'static str, String) {
    let text = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: PACKAGE-{name}}}\ndata: {{a: b}}\n"
    );
    ("extra.yaml", text)
}

/// The package's CRD with another field.
fn grown() -> (&'static str, String) {
    let crd = crate::harness::package::CRD;
    let size = "size: {type: integer}";
    (
        "crd.yaml",
        crd.replace(
            size,
            &format!("{size}\n              colour: {{type: string}}"),
        ),
    )
}

/// From a version that never becomes ready, whose CRD has another field, and from one that is half applied because an
/// object became immutable, the spec leads back; what only they had is gone, and the rest was not made anew.
pub(crate) async fn a_forced_way_back(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "way-back").await?;
    let good = Bundle {
        manifests: vec![sealed("first")],
        ..Bundle::new("1.0.0")
    };
    let broken = Bundle {
        tag: "bad-image",
        manifests: vec![sealed("first"), map("broken"), grown()],
        ..Bundle::new("2.0.0")
    };
    let halved = Bundle {
        manifests: vec![sealed("second"), map("halved")],
        ..Bundle::new("3.0.0")
    };
    stage.offer(&[good, broken, halved]).await?;
    let version =
        |version: &str| json!({"version": version, "upgradeConstraintPolicy": "SelfCertified"});
    stage.add_extension(&version("1.0.0")).await?;
    stage.until_installed("1.0.0").await?;
    let before = stage.uids().await?;

    stage.change_extension(&version("2.0.0")).await?;
    stage
        .until_set("way-back-2", ConditionType::Available, "False/ProbeFailure")
        .await?;
    let extra = |name: &str| format!("/api/v1/namespaces/way-back/configmaps/way-back-{name}");
    ensure!(stage.exists(&extra("broken")).await?);
    stage.change_extension(&version("1.0.0")).await?;
    stage.until_rolled_out("way-back-3").await?;
    stage.until_installed("1.0.0").await?;
    stage.until_exists(&extra("broken"), false).await?;

    stage.change_extension(&version("3.0.0")).await?;
    let text = "field is immutable when `immutable` is set";
    stage
        .until_condition(ConditionType::Progressing, "True/Retrying", text)
        .await?;
    stage.change_extension(&version("1.0.0")).await?;
    stage.until_rolled_out("way-back-5").await?;
    stage.until_installed("1.0.0").await?;
    stage.until_exists(&extra("halved"), false).await?;
    let sealed = stage.get(&extra("sealed")).await?;
    ensure!(sealed["data"]["a"] == "first", "{sealed}");
    ensure!(stage.uids().await? == before, "nothing was made anew");
    stage.clear().await?;
    Ok(Outcome::Passed)
}

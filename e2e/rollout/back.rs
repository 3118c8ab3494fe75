//! A newer version that does not come up.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::condition::ConditionType;
use serde_json::json;

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::shape;
use crate::harness::{Cluster, Outcome};

/// A map that cannot be changed.
fn sealed(value: &str) -> (&'static str, String) {
    let text = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: PACKAGE-sealed}}\nimmutable: true\ndata: {{a: {value}}}\n"
    );
    ("sealed.yaml", text)
}

/// A class whose value cannot be changed, and that other things refer to.
fn class(value: u32) -> (&'static str, String) {
    let text = format!(
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: PACKAGE-class}}\nvalue: {value}\n"
    );
    ("class.yaml", text)
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
/// object cannot be changed, the spec leads back; what only they had is gone, and the rest was not made anew. Who deletes the
/// object lets the version have it; what is nothing but its content is made anew without anybody.
pub(crate) async fn a_forced_way_back(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "way-back").await?;
    let good = Bundle {
        manifests: vec![sealed("first"), class(1)],
        ..Bundle::new("1.0.0")
    };
    let broken = Bundle {
        tag: "bad-image",
        manifests: vec![sealed("first"), class(1), map("broken"), grown()],
        ..Bundle::new("2.0.0")
    };
    let halved = Bundle {
        manifests: vec![sealed("first"), class(2), map("halved")],
        ..Bundle::new("3.0.0")
    };
    let resealed = Bundle {
        manifests: vec![sealed("second"), class(2)],
        ..Bundle::new("4.0.0")
    };
    stage.offer(&[good, broken, halved, resealed]).await?;
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
    is_refused(&stage).await?;
    stage.change_extension(&version("1.0.0")).await?;
    stage.until_rolled_out("way-back-5").await?;
    stage.until_installed("1.0.0").await?;
    stage.until_exists(&extra("halved"), false).await?;
    ensure!(stage.get(CLASS).await?["value"] == 1);
    ensure!(stage.uids().await? == before, "nothing was made anew");

    stage.change_extension(&version("3.0.0")).await?;
    is_refused(&stage).await?;
    let (_, sealed) = class(1);
    stage.delete(&sealed.replace("PACKAGE", "way-back")).await?;
    stage.until_installed("3.0.0").await?;
    ensure!(stage.get(CLASS).await?["value"] == 2);
    stage.change_extension(&version("4.0.0")).await?;
    stage.until_installed("4.0.0").await?;
    let sealed = stage.get(&extra("sealed")).await?;
    ensure!(sealed["data"]["a"] == "second", "{sealed}");
    stage.clear().await?;
    Ok(Outcome::Passed)
}

const CLASS: &str = "/apis/scheduling.k8s.io/v1/priorityclasses/way-back-class";

async fn is_refused(stage: &Stage) -> anyhow::Result<()> {
    let text = "may not be changed in an update";
    stage
        .until_condition(ConditionType::Progressing, "True/Retrying", text)
        .await?;
    Ok(())
}

/// A resource that uses the new field of a newer CRD would lose it on the way back: that is refused, the resource and the
/// way out are named, and the newer version stays; who takes the loss goes back all the same.
pub(crate) async fn a_way_back_that_loses_data(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let name = "way-back-data";
    let stage = Stage::set(cluster, name).await?;
    let newer = Bundle {
        manifests: vec![grown()],
        ..Bundle::new("1.1.0")
    };
    stage.offer(&[Bundle::new("1.0.0"), newer]).await?;
    stage.install("1.0.0").await?;
    stage.change_to("1.1.0").await?;
    let thing = format!(
        "apiVersion: {name}.example.com/v1\nkind: Thing\nmetadata: {{name: red, namespace: {name}}}\n\
         spec: {{size: 1, colour: red}}\n"
    );
    stage.apply(&thing).await?;

    let back = json!({"version": "1.0.0", "upgradeConstraintPolicy": "SelfCertified"});
    stage.change_extension(&back).await?;
    let named = format!("Thing {name}/red: spec.colour");
    let refused = stage
        .until_condition(ConditionType::Progressing, "True/Retrying", &named)
        .await?;
    ensure!(shape(&refused, ConditionType::Installed) == "True/Succeeded");
    let path = format!("/apis/{name}.example.com/v1/namespaces/{name}/things/red");
    ensure!(stage.get(&path).await?["spec"]["colour"] == "red");

    let enforcement = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}});
    stage
        .patch_extension(&json!({"spec": {"install": enforcement}}))
        .await?;
    stage.until_installed("1.0.0").await?;
    let kept = stage.get(&path).await?;
    ensure!(kept["spec"] == json!({"size": 1}), "{kept}");
    stage.delete(&thing).await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

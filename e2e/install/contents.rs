//! What a revision holds and carries.

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::ensure;
use serde_json::json;

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::{Cluster, Outcome};
use crate::revision::set_path;

/// A revision carries whose it is and what the bundle says of itself; its objects stand in immutable Secrets that go
/// with it.
pub(crate) async fn revisions_tell_what_they_hold(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "what-is-held").await?;
    let properties = r#"[{"type":"olm.test-property","value":"some-value"}]"#;
    let bundle = Bundle {
        properties: Some(properties),
        ..Bundle::new("1.0.0")
    };
    stage.offer(&[bundle]).await?;
    stage.install_newest("1.0.0").await?;

    let set = stage.get(&set_path("what-is-held-1")).await?;
    let metadata = &set["metadata"];
    ensure!(
        metadata["annotations"]["olm.properties"] == properties,
        "{metadata}"
    );
    ensure!(
        metadata["labels"]
            == json!({
                "olm.operatorframework.io/owner-kind": "ClusterExtension",
                "olm.operatorframework.io/owner-name": "what-is-held",
            }),
        "{metadata}"
    );
    let mut secrets = Vec::new();
    for object in set["spec"]["phases"].as_array().into_iter().flatten() {
        for object in object["objects"].as_array().into_iter().flatten() {
            let reference = &object["ref"];
            ensure!(reference["namespace"] == "olmv1-system", "{object}");
            secrets.push(reference["name"].as_str().unwrap_or_default().to_owned());
        }
    }
    secrets.sort();
    secrets.dedup();
    ensure!(!secrets.is_empty(), "objects stand in Secrets");
    for name in &secrets {
        let secret = stage
            .get(&format!("/api/v1/namespaces/olmv1-system/secrets/{name}"))
            .await?;
        ensure!(secret["type"] == "olm.operatorframework.io/object-data");
        ensure!(secret["immutable"] == true);
        let metadata = &secret["metadata"];
        ensure!(
            metadata["labels"]
                == json!({
                    "olm.operatorframework.io/revision-name": "what-is-held-1",
                    "olm.operatorframework.io/owner-name": "what-is-held",
                }),
            "{metadata}"
        );
        ensure!(
            metadata["ownerReferences"][0]["uid"] == set["metadata"]["uid"],
            "{metadata}"
        );
    }
    for path in stage.object_paths() {
        let object = stage.get(&path).await?;
        let labels = &object["metadata"]["labels"];
        ensure!(
            labels["olm.operatorframework.io/owner-kind"] == "ClusterExtension",
            "{labels}"
        );
        ensure!(
            labels["olm.operatorframework.io/owner-name"] == "what-is-held",
            "{labels}"
        );
    }

    stage.uninstall().await?;
    for name in &secrets {
        let path = format!("/api/v1/namespaces/olmv1-system/secrets/{name}");
        stage.until_exists(&path, false).await?;
    }
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// A definition with 250 described fields is larger than what a last-applied annotation could hold.
pub(crate) async fn a_large_definition_installs(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "large-crd").await?;
    let mut crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
        metadata: {name: things.PACKAGE.example.com}\nspec:\n  group: PACKAGE.example.com\n  scope: Namespaced\n  \
        names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}\n  versions:\n  - name: v1\n    \
        served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n          \
        spec:\n            type: object\n            properties:\n"
        .to_owned();
    let description = "what it means ".repeat(100);
    for number in 0..250 {
        _ = writeln!(
            crd,
            "              field{number}: {{type: string, description: '{description}'}}"
        );
    }
    let bundle = Bundle {
        manifests: vec![("crd.yaml", crd)],
        ..Bundle::new("1.0.0")
    };
    stage.offer(&[bundle]).await?;
    stage.install_newest("1.0.0").await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

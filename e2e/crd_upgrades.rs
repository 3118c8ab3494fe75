//! An upgrade that changes a CRD: what would break somebody is refused, what is only noteworthy is said.

use std::sync::Arc;

use anyhow::ensure;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use oxolm::api::condition::ConditionType;
use serde_json::{Value, json};

use crate::harness::package::{Bundle, entry};
use crate::harness::stage::Stage;
use crate::harness::wait::{message, shape};
use crate::harness::{Cluster, Outcome};

/// The CRD of the package; `size` has type `$TYPE`, and `$COLUMNS` are its columns.
macro_rules! crd {
    ($type:literal, $columns:literal) => {
        concat!(
            "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.PACKAGE.example.com
spec:
  group: PACKAGE.example.com
  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: ",
            $columns,
            "
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: ",
            $type,
            "}
"
        )
    };
}

/// A changed type is refused with the reference's text, and what is installed stays; told to look away, it goes on. A
/// column that goes is an event.
pub(crate) async fn a_breaking_change_is_refused(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "crd-upgrade").await?;
    let with_crd = |version, crd: &str| Bundle {
        manifests: vec![("crd.yaml", crd.to_owned())],
        ..Bundle::new(version)
    };
    let columns = crd!(
        "string",
        "[{name: Size, type: string, jsonPath: .spec.size}]"
    );
    for bundle in [
        Bundle::new("1.0.0"),
        with_crd("1.1.0", columns),
        with_crd("1.2.0", crd!("string", "[]")),
    ] {
        stage.package.push_bundle(&bundle).await?;
    }
    let entries = [
        entry("1.0.0", ""),
        entry("1.1.0", "1.0.0"),
        entry("1.2.0", "1.1.0"),
    ];
    stage.serve(&entries).await?;
    stage.install("1.0.0").await?;

    stage.change_extension(&json!({"version": "1.1.0"})).await?;
    let text = "error for resolved bundle \"crd-upgrade.v1.1.0\" with version \"1.1.0\": validating upgrade for CRD \
                \"things.crd-upgrade.example.com\": v1: ^.spec.size: type: type changed : \"integer\" -> \"string\"";
    let refused = stage
        .until_condition(ConditionType::Progressing, "True/Retrying", text)
        .await?;
    ensure!(
        message(&refused, ConditionType::Progressing) == text,
        "{}",
        message(&refused, ConditionType::Progressing)
    );
    ensure!(shape(&refused, ConditionType::Installed) == "True/Succeeded");

    enforce(&stage, &json!("None")).await?;
    stage.until_installed("1.1.0").await?;

    enforce(&stage, &json!("Strict")).await?;
    let installed = stage.change_to("1.2.0").await?;
    ensure!(
        shape(&installed, ConditionType::Warnings) == "absent",
        "what was said of the upgrade goes with it: {}",
        message(&installed, ConditionType::Warnings)
    );
    let note = "The upgrade changes CRD things.crd-upgrade.example.com: printerColumn: column \"Size\" of version v1 is gone.";
    ensure!(
        notes(&stage).await?.iter().any(|one| one == note),
        "an event says it"
    );
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// A tightened field is refused while a resource does not fit, which is named; changed, the upgrade goes on with a warning.
/// With the annotation the schemas decide alone.
pub(crate) async fn stored_resources_decide(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "crd-resources").await?;
    let tightened = Bundle {
        manifests: vec![("crd.yaml", crd!("integer, maximum: 5", "[]").to_owned())],
        ..Bundle::new("1.1.0")
    };
    for bundle in [Bundle::new("1.0.0"), tightened] {
        stage.package.push_bundle(&bundle).await?;
    }
    let entries = [entry("1.0.0", ""), entry("1.1.0", "1.0.0")];
    stage.serve(&entries).await?;
    stage.install("1.0.0").await?;
    let thing = |size: u8| {
        format!(
            "apiVersion: crd-resources.example.com/v1\nkind: Thing\n\
             metadata: {{name: large, namespace: crd-resources}}\nspec: {{size: {size}}}\n"
        )
    };
    stage.apply(&thing(9)).await?;

    stage.change_extension(&json!({"version": "1.1.0"})).await?;
    let named = "maximum constraint added when there was none previously : 5\nstoredResources: 1 of 1 would not be valid or \
                 lose data: Thing crd-resources/large: spec.size: must be at most 5, is 9";
    let refused = stage
        .until_condition(ConditionType::Progressing, "True/Retrying", named)
        .await?;
    ensure!(shape(&refused, ConditionType::Installed) == "True/Succeeded");

    annotate(&stage, &json!("schema-only")).await?;
    stage
        .until("the schemas decide alone", |extension| {
            !message(extension, ConditionType::Progressing).contains("storedResources")
                && message(extension, ConditionType::Progressing).ends_with("previously : 5")
        })
        .await?;
    stage.apply(&thing(3)).await?;
    annotate(&stage, &json!(null)).await?;
    stage.until_installed("1.1.0").await?;
    ensure!(
        notes(&stage)
            .await?
            .iter()
            .any(|note| note.contains("maximum constraint added")),
        "an event says what was let pass"
    );
    stage.delete(&thing(3)).await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

async fn annotate(stage: &Stage, value: &Value) -> anyhow::Result<()> {
    let patch = json!({"metadata": {"annotations": {"oxolm.dev/crd-upgrade-safety": value}}});
    stage
        .extensions()
        .patch(&stage.name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

async fn enforce(stage: &Stage, how: &Value) -> anyhow::Result<()> {
    let patch =
        json!({"spec": {"install": {"preflight": {"crdUpgradeSafety": {"enforcement": how}}}}});
    stage
        .extensions()
        .patch(&stage.name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

/// The notes of the events about the extension with reason `CrdFindings`.
async fn notes(stage: &Stage) -> anyhow::Result<Vec<String>> {
    let events: Api<Event> = Api::namespaced(stage.cluster.client.clone(), "default");
    let all = events.list(&ListParams::default()).await?;
    let about = all.items.into_iter().filter(|event| {
        event.reason.as_deref() == Some("CrdFindings")
            && event
                .regarding
                .as_ref()
                .and_then(|regarding| regarding.name.as_deref())
                == Some(&stage.name)
    });
    Ok(about.filter_map(|event| event.note).collect())
}

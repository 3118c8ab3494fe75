//! An upgrade that changes a CRD: what would break somebody is refused, what is only noteworthy is said.

mod differing;
mod rights;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use oxolm::api::condition::ConditionType;
use serde_json::{Value, json};

use crate::harness::package::{Bundle, entry};
use crate::harness::stage::Stage;
use crate::harness::wait::{self, message, shape};
use crate::harness::{Cluster, Outcome};

pub(crate) use self::differing::a_webhook_that_is_still_needed_is_reported;
pub(crate) use self::rights::resources_that_may_not_be_listed;

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
    let note = "CRD things.crd-upgrade.example.com changes: printerColumn: column \"Size\" of version v1 is gone.";
    ensure!(
        message(&installed, ConditionType::Warnings) == note,
        "what was let pass is said as long as the revision is in force: {}",
        message(&installed, ConditionType::Warnings)
    );
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
    annotate(&stage, &json!(null)).await?;
    stage
        .until_condition(ConditionType::Progressing, "True/Retrying", named)
        .await?;
    // Nothing of the extension changes: the resource alone wakes the upgrade.
    stage.apply(&thing(3)).await?;
    let installed = stage.until_installed("1.1.0").await?;
    ensure!(
        message(&installed, ConditionType::Warnings).contains("maximum constraint added"),
        "{}",
        message(&installed, ConditionType::Warnings)
    );
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

/// A CRD of which `v1` has the field `size`, and `v2` the field `second`, behind a conversion webhook that nobody serves.
fn converted_crd(second: &str) -> String {
    const CRD: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.PACKAGE.example.com
spec:
  group: PACKAGE.example.com
  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}
  scope: Namespaced
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {service: {namespace: PACKAGE, name: nobody, path: /convert}}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer}}}}
  - name: v2
    served: true
    storage: false
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {SECOND}}}
";
    CRD.replace("SECOND", second)
}

/// A conversion webhook that does not answer leaves the verdict to the schemas, and the message says why. It also does
/// not stand in the way of taking the extension down.
pub(crate) async fn a_dead_conversion_webhook_leaves_the_verdict(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "crd-conversion").await?;
    for (version, second) in [
        ("1.0.0", "size: {type: integer}"),
        ("1.1.0", "size: {type: integer, maximum: 5}"),
    ] {
        let bundle = Bundle {
            manifests: vec![("crd.yaml", converted_crd(second))],
            ..Bundle::new(version)
        };
        stage.package.push_bundle(&bundle).await?;
    }
    let entries = [entry("1.0.0", ""), entry("1.1.0", "1.0.0")];
    stage.serve(&entries).await?;
    stage.install("1.0.0").await?;
    let thing = "apiVersion: crd-conversion.example.com/v1\nkind: Thing\n\
                 metadata: {name: small, namespace: crd-conversion}\nspec: {size: 1}\n";
    stage.apply(thing).await?;

    stage.change_extension(&json!({"version": "1.1.0"})).await?;
    let why = "maximum constraint added when there was none previously : 5\nstoredResources: not looked at: the conversion \
               webhook of things.crd-conversion.example.com does not answer properly, without which none can be read as \
               v2: see to its Service and its pods";
    let refused = stage
        .until_condition(ConditionType::Progressing, "True/Retrying", why)
        .await?;
    ensure!(shape(&refused, ConditionType::Installed) == "True/Succeeded");

    // The resource stays, so the definition does; its versions are alike, so nothing needs the webhook any more.
    stage.uninstall().await?;
    let crds: Api<CustomResourceDefinition> = Api::all(stage.cluster.client.clone());
    let kept = crds.get("things.crd-conversion.example.com").await?;
    let strategy = kept.spec.conversion.map(|conversion| conversion.strategy);
    ensure!(
        strategy
            .as_deref()
            .is_none_or(|strategy| strategy == "None"),
        "{strategy:?}"
    );
    stage.delete(thing).await?;
    crds.delete(
        "things.crd-conversion.example.com",
        &DeleteParams::default(),
    )
    .await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// Two versions, `v1` of which is served or not; resources are stored in one of them.
fn versioned_crd(first_is_served: bool, stored: &str) -> String {
    let version = |name: &str, is_served: bool| {
        format!(
            "  - name: {name}\n    served: {is_served}\n    storage: {}\n    schema: {{openAPIV3Schema: {{type: object, \
             properties: {{spec: {{type: object, properties: {{size: {{type: integer}}}}}}}}}}}}\n",
            name == stored
        )
    };
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: things.PACKAGE.example.com}}\n\
         spec:\n  group: PACKAGE.example.com\n  names: {{kind: Thing, listKind: ThingList, plural: things, singular: thing}}\n  \
         scope: Namespaced\n  versions:\n{}{}",
        version("v1", first_is_served),
        version("v2", true)
    )
}

/// A version in which resources are stored stays served as long as there are any.
pub(crate) async fn a_version_with_resources_stays_served(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "crd-served").await?;
    let bundle = |version, crd: String| Bundle {
        manifests: vec![("crd.yaml", crd)],
        ..Bundle::new(version)
    };
    let (old, new) = (versioned_crd(true, "v1"), versioned_crd(false, "v2"));
    stage
        .offer(&[bundle("1.0.0", old), bundle("1.1.0", new)])
        .await?;
    stage.install("1.0.0").await?;
    let thing = "apiVersion: crd-served.example.com/v1\nkind: Thing\n\
                 metadata: {name: stored, namespace: crd-served}\nspec: {size: 1}\n";
    stage.apply(thing).await?;
    stage.change_extension(&json!({"version": "1.1.0"})).await?;
    let finding = "servedVersion: version v1 is no longer served: clients that ask for it fail";
    let refused = stage
        .until_condition(ConditionType::Progressing, "True/Retrying", finding)
        .await?;
    ensure!(shape(&refused, ConditionType::Installed) == "True/Succeeded");
    stage.delete(thing).await?;
    let installed = stage.until_installed("1.1.0").await?;
    ensure!(
        message(&installed, ConditionType::Warnings).contains(finding),
        "{}",
        message(&installed, ConditionType::Warnings)
    );
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// A CRD that a downgrade drops stays with its resources, which is said, and names no webhook that went with the operator.
pub(crate) async fn a_dropped_definition_is_kept_with_its_resources(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    const NAME: &str = "things.crd-dropped.example.com";
    let stage = Stage::set(cluster, "crd-dropped").await?;
    let without = Bundle {
        has_crd: false,
        ..Bundle::new("1.0.0")
    };
    let with = Bundle {
        manifests: vec![("crd.yaml", converted_crd("size: {type: integer}"))],
        ..Bundle::new("1.1.0")
    };
    stage.offer(&[without, with]).await?;
    stage.install("1.1.0").await?;
    let thing = "apiVersion: crd-dropped.example.com/v1\nkind: Thing\n\
                 metadata: {name: mine, namespace: crd-dropped}\nspec: {size: 1}\n";
    stage.apply(thing).await?;
    stage
        .change_extension(&json!({"version": "1.0.0", "upgradeConstraintPolicy": "SelfCertified"}))
        .await?;
    stage.until_installed("1.0.0").await?;
    let crds: Api<CustomResourceDefinition> = Api::all(stage.cluster.client.clone());
    let has_no_webhook = |crd: &CustomResourceDefinition| {
        let conversion = crd.spec.conversion.as_ref();
        conversion.is_none_or(|conversion| conversion.strategy == "None")
    };
    wait::until(
        &stage.cluster,
        &crds,
        NAME,
        "it names no webhook",
        has_no_webhook,
    )
    .await?;
    let kept = crds.get(NAME).await?;
    ensure!(kept.metadata.deletion_timestamp.is_none(), "it is kept");
    until_event(&stage, |note| note.contains(NAME)).await?;
    stage.delete(thing).await?;
    crds.delete(NAME, &DeleteParams::default()).await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// Waits until an Event about anything says something.
async fn until_event(stage: &Stage, says: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    let events: Api<Event> = Api::namespaced(stage.cluster.client.clone(), "default");
    let said = async {
        loop {
            let all = events.list(&ListParams::default()).await?;
            let mut notes = all.items.iter().filter_map(|event| event.note.as_deref());
            if notes.any(&says) {
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), said)
        .await
        .context("no Event says so")?
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

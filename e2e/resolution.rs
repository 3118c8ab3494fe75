//! What a choice of the resolver looks like on the objects.

use std::sync::Arc;

use anyhow::ensure;
use kube::api::{DeleteParams, Patch, PatchParams};
use oxolm::api::ClusterExtension;
use oxolm::api::condition::ConditionType;
use serde_json::json;

use crate::harness::package::{Bundle, entry};
use crate::harness::stage::Stage;
use crate::harness::wait::{message, shape};
use crate::harness::{Cluster, Outcome};

/// Package, channel and bundle are deprecated, each with its message; then the catalog takes it back; then it is gone.
pub(crate) async fn deprecated_content_is_said(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "deprecated").await?;
    for version in ["1.0.0", "1.1.0"] {
        stage.package.push_bundle(&Bundle::new(version)).await?;
    }
    let entries = [entry("1.0.0", ""), entry("1.1.0", "1.0.0")];
    let sound = stage.package.catalog_text(&entries);
    let deprecated = format!(
        "{sound}---\nschema: olm.deprecations\npackage: deprecated\nentries:\n\
         - reference: {{schema: olm.package}}\n  message: use another package\n\
         - reference: {{schema: olm.channel, name: stable}}\n  message: use another channel\n\
         - reference: {{schema: olm.bundle, name: deprecated.v1.0.0}}\n  message: use 1.1.0\n"
    );
    stage.serve_text(&deprecated).await?;
    stage
        .add_extension(&json!({"version": "1.0.0", "channels": ["stable"]}))
        .await?;
    stage.until_installed("1.0.0").await?;
    let said = stage
        .until_condition(ConditionType::Deprecated, "True/Deprecated", "use 1.1.0")
        .await?;
    let expected = "use another package\nuse another channel\nuse 1.1.0";
    ensure!(
        message(&said, ConditionType::Deprecated) == expected,
        "{}",
        message(&said, ConditionType::Deprecated)
    );
    for (kind, text) in [
        (ConditionType::PackageDeprecated, "use another package"),
        (ConditionType::ChannelDeprecated, "use another channel"),
        (ConditionType::BundleDeprecated, "use 1.1.0"),
    ] {
        ensure!(shape(&said, kind) == "True/Deprecated" && message(&said, kind) == text);
    }
    let status = said.status.unwrap_or_default();
    let update = status.available_update.map(|update| update.version);
    ensure!(
        update.as_deref() == Some("1.1.0"),
        "1.1.0 is beyond the range alone: {update:?}"
    );

    stage.serve_text(&sound).await?;
    let taken_back = stage
        .until_condition(
            ConditionType::Deprecated,
            "False/NotDeprecated",
            "not deprecated",
        )
        .await?;
    ensure!(
        message(&taken_back, ConditionType::BundleDeprecated) == "bundle not deprecated",
        "{}",
        message(&taken_back, ConditionType::BundleDeprecated)
    );
    stage.remove_catalog().await?;
    let unknown = stage
        .until_condition(
            ConditionType::Deprecated,
            "Unknown/DeprecationStatusUnknown",
            "deprecation status unknown: catalog data unavailable",
        )
        .await?;
    ensure!(shape(&unknown, ConditionType::Installed) == "True/Succeeded");
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// Two catalogs offer the package: that is ambiguous until one has the higher priority, and no longer once one of
/// them is where the installed bundle came from.
pub(crate) async fn catalogs_of_equal_priority(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "priority").await?;
    stage.package.push_bundle(&Bundle::new("1.0.0")).await?;
    let reference = stage
        .package
        .push_catalog("one", &[entry("1.0.0", "")])
        .await?;
    stage.add_catalog(&reference).await?;
    let second = format!(
        "apiVersion: olm.operatorframework.io/v1\nkind: ClusterCatalog\n\
         metadata: {{name: priority-second, labels: {{story: priority}}}}\n\
         spec: {{source: {{type: Image, image: {{ref: '{reference}'}}}}}}\n"
    );
    stage.apply(&second).await?;
    stage.add_extension(&json!({})).await?;
    let text = "found bundles for package \"priority\" in multiple catalogs with the same priority [priority priority-second]";
    let torn = stage
        .until_condition(ConditionType::Progressing, "True/Retrying", text)
        .await?;
    ensure!(shape(&torn, ConditionType::Resolved) == "False/AmbiguousCatalogs");

    let priority = |priority: i32| Patch::Merge(json!({"spec": {"priority": priority}}));
    let parameters = PatchParams::default();
    stage
        .catalogs()
        .patch("priority-second", &parameters, &priority(10))
        .await?;
    let installed = stage.until_installed("1.0.0").await?;
    ensure!(
        origin(&installed).as_deref() == Some("priority-second"),
        "the higher priority wins: {:?}",
        origin(&installed)
    );
    stage
        .catalogs()
        .patch("priority-second", &parameters, &priority(0))
        .await?;
    let settled = stage
        .until_condition(
            ConditionType::Resolved,
            "True/Resolved",
            "from catalog \"priority-second\"",
        )
        .await?;
    ensure!(shape(&settled, ConditionType::Progressing) == "True/Succeeded");
    stage
        .catalogs()
        .delete("priority-second", &DeleteParams::default())
        .await?;
    stage
        .until_condition(
            ConditionType::Resolved,
            "True/Resolved",
            "from catalog \"priority\"",
        )
        .await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

fn origin(extension: &ClusterExtension) -> Option<String> {
    let install = extension.status.as_ref()?.install.as_ref()?;
    install.catalog.clone()
}

/// The same version with another digest is not rolled out by itself; it is when its digest is accepted.
pub(crate) async fn other_content_under_the_same_version(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "republished").await?;
    stage.package.push_bundle(&Bundle::new("1.0.0")).await?;
    let text = stage.package.catalog_text(&[entry("1.0.0", "")]);
    stage.serve_text(&text).await?;
    stage.install_newest("1.0.0").await?;

    let other = Bundle {
        tag: "other",
        ..Bundle::new("1.0.0")
    };
    let other = stage.package.push_bundle(&other).await?;
    let digest = other.rsplit_once('@').map_or("", |(_, digest)| digest);
    let rebuilt = format!("{text}---\nschema: example.rebuilt\npackage: republished\nname: x\n");
    stage.serve_text(&rebuilt).await?;
    stage
        .until_condition(ConditionType::Warnings, "True/BundleContentChanged", digest)
        .await?;
    ensure!(
        stage.sets().get_opt("republished-2").await?.is_none(),
        "it is not rolled out by itself"
    );
    let accept = json!({"metadata": {"annotations": {"oxolm.dev/accept-digest": digest}}});
    stage
        .extensions()
        .patch(
            "republished",
            &PatchParams::default(),
            &Patch::Merge(accept),
        )
        .await?;
    stage
        .until("the accepted content is installed", |extension| {
            let revisions = extension
                .status
                .as_ref()
                .map(|status| &status.active_revisions);
            let is_second =
                revisions.is_some_and(|list| list.len() == 1 && list[0].name == "republished-2");
            is_second
                && shape(extension, ConditionType::Progressing) == "True/Succeeded"
                && shape(extension, ConditionType::Warnings) == "absent"
        })
        .await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

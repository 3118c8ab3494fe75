//! What is written to a catalog's object: label, finalizer, status.

#![expect(clippy::disallowed_types, reason = "catalogs are patched")]

use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::Context;
use crate::api::cluster_catalog::{AvailabilityMode, ClusterCatalogStatus};
use crate::api::{ClusterCatalog, keys};
use crate::controller::report::status_patch;
use crate::status::transition;

/// The finalizer and the label of the catalog's own name, in one patch, only when one is missing.
pub(super) async fn write_metadata(
    catalog: &ClusterCatalog,
    ctx: &Context,
) -> Result<(), kube::Error> {
    let name = catalog.name_any();
    let wants_finalizer = catalog.spec.availability_mode == AvailabilityMode::Available;
    let has_finalizer = has_finalizer(catalog);
    let label_is_right = catalog.labels().get(keys::METADATA_NAME) == Some(&name);
    let mut metadata = json!({});
    if wants_finalizer != has_finalizer {
        metadata = finalizers(catalog, wants_finalizer);
    }
    if !label_is_right && let Some(map) = metadata.as_object_mut() {
        map.insert("labels".to_owned(), json!({ keys::METADATA_NAME: name }));
    }
    if metadata.as_object().is_none_or(serde_json::Map::is_empty) {
        return Ok(());
    }
    patch_metadata(catalog, &metadata, ctx).await
}

pub(super) fn has_finalizer(catalog: &ClusterCatalog) -> bool {
    catalog
        .finalizers()
        .iter()
        .any(|one| one == keys::FINALIZER_DELETE_SERVER_CACHE)
}

/// The finalizer list with or without ours, guarded by the version that it was read at.
pub(super) fn finalizers(catalog: &ClusterCatalog, with_ours: bool) -> serde_json::Value {
    let mut list: Vec<String> = catalog
        .finalizers()
        .iter()
        .filter(|one| *one != keys::FINALIZER_DELETE_SERVER_CACHE)
        .cloned()
        .collect();
    if with_ours {
        list.push(keys::FINALIZER_DELETE_SERVER_CACHE.to_owned());
    }
    json!({ "finalizers": list, "resourceVersion": catalog.resource_version() })
}

pub(super) async fn patch_metadata(
    catalog: &ClusterCatalog,
    metadata: &serde_json::Value,
    ctx: &Context,
) -> Result<(), kube::Error> {
    let api: Api<ClusterCatalog> = Api::all(ctx.client.clone());
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    api.patch(&catalog.name_any(), &PatchParams::default(), &patch)
        .await
        .map(|_| ())
}

pub(super) async fn report(
    catalog: &ClusterCatalog,
    status: &ClusterCatalogStatus,
    ctx: &Context,
) -> Result<(), kube::Error> {
    if catalog.status.as_ref() == Some(status) {
        return Ok(());
    }
    ctx.memory.writes(&catalog.name_any(), status);
    let api: Api<ClusterCatalog> = Api::all(ctx.client.clone());
    let patch = status_patch(catalog.status.as_ref(), status);
    api.patch_status(
        &catalog.name_any(),
        &PatchParams::default(),
        &Patch::Merge(patch),
    )
    .await?;
    let before = catalog
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let transitions = transition::between(before, &status.conditions);
    ctx.reporter.publish_all(catalog, &transitions).await;
    Ok(())
}

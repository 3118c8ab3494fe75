//! What is written to an extension's object: finalizers, status.

use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::Context;
use crate::api::{ClusterExtension, ClusterExtensionStatus, keys};
use crate::controller::report::status_patch;
use crate::status::transition;

/// Adds our finalizer where it is missing, and takes away the reference's, which have nothing to do here.
pub(super) async fn write_finalizer(
    extension: &ClusterExtension,
    ctx: &Context,
) -> Result<(), kube::Error> {
    let is_deleting = extension.metadata.deletion_timestamp.is_some();
    let mut wanted: Vec<String> = extension
        .finalizers()
        .iter()
        .filter(|one| !keys::FOREIGN_FINALIZERS.contains(&one.as_str()))
        .cloned()
        .collect();
    if !is_deleting && !wanted.iter().any(|one| one == keys::FINALIZER_UNINSTALL) {
        wanted.push(keys::FINALIZER_UNINSTALL.to_owned());
    }
    if wanted == extension.finalizers() {
        return Ok(());
    }
    patch_finalizers(extension, &wanted, ctx).await
}

pub(super) async fn remove_finalizer(
    extension: &ClusterExtension,
    ctx: &Context,
) -> Result<(), kube::Error> {
    let kept: Vec<String> = extension
        .finalizers()
        .iter()
        .filter(|one| *one != keys::FINALIZER_UNINSTALL)
        .cloned()
        .collect();
    match patch_finalizers(extension, &kept, ctx).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other,
    }
}

async fn patch_finalizers(
    extension: &ClusterExtension,
    finalizers: &[String],
    ctx: &Context,
) -> Result<(), kube::Error> {
    let api: Api<ClusterExtension> = Api::all(ctx.client.clone());
    let patch = json!({ "metadata": { "finalizers": finalizers, "resourceVersion": extension.resource_version() } });
    api.patch(
        &extension.name_any(),
        &PatchParams::default(),
        &Patch::Merge(patch),
    )
    .await
    .map(|_| ())
}

pub(super) async fn report(
    extension: &ClusterExtension,
    status: &ClusterExtensionStatus,
    ctx: &Context,
) -> Result<(), kube::Error> {
    ctx.written.note(extension, status);
    if extension.status.as_ref() == Some(status) {
        return Ok(());
    }
    let api: Api<ClusterExtension> = Api::all(ctx.client.clone());
    let patch = status_patch(extension.status.as_ref(), status);
    match api
        .patch_status(
            &extension.name_any(),
            &PatchParams::default(),
            &Patch::Merge(patch),
        )
        .await
    {
        // It went away meanwhile.
        Err(kube::Error::Api(error)) if error.is_not_found() => return Ok(()),
        answer => ctx.memory.reported.note(&answer?, status),
    }
    let nothing = ClusterExtensionStatus::default();
    let before = extension.status.as_ref().unwrap_or(&nothing);
    let transitions = transition::of_extension(before, status);
    ctx.reporter.publish_all(extension, &transitions).await;
    Ok(())
}

//! Objects from YAML, applied and removed.

use std::time::Duration;

use anyhow::Context as _;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::runtime::wait::await_condition;
use kube::{Client, ResourceExt as _};

/// The field manager of the stories.
const FIELD_MANAGER: &str = "oxolm-e2e";

/// How long a deleted object may stay: a namespace goes when everything in it is gone.
const DELETION_DEADLINE: Duration = Duration::from_mins(1);

/// Applies every document of `yaml` by server-side apply, in order.
///
/// # Errors
/// When a document cannot be read, or the API server refuses it.
pub(crate) async fn apply(client: &Client, yaml: &str) -> anyhow::Result<()> {
    for object in documents(yaml)? {
        let name = object.name_any();
        api_of(client, &object)
            .await?
            .patch(
                &name,
                &PatchParams::apply(FIELD_MANAGER).force(),
                &Patch::Apply(&object),
            )
            .await
            .with_context(|| format!("cannot apply {name}"))?;
    }
    Ok(())
}

/// Deletes every object of `yaml`, the last one first, and waits until they are gone; what is not there is left.
///
/// # Errors
/// When a document cannot be read, the API server refuses, or an object stays.
pub(crate) async fn delete(client: &Client, yaml: &str) -> anyhow::Result<()> {
    let mut deleted = Vec::new();
    for object in documents(yaml)?.iter().rev() {
        let name = object.name_any();
        let api = api_of(client, object).await?;
        match api.delete(&name, &DeleteParams::background()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            result => {
                result.with_context(|| format!("cannot delete {name}"))?;
                deleted.push((api, name));
            }
        }
    }
    for (api, name) in deleted {
        let gone = await_condition(api, &name, |object: Option<&DynamicObject>| {
            object.is_none()
        });
        tokio::time::timeout(DELETION_DEADLINE, gone)
            .await
            .with_context(|| format!("{name} is not deleted"))??;
    }
    Ok(())
}

/// The documents of a YAML stream.
pub(crate) fn documents(yaml: &str) -> anyhow::Result<Vec<DynamicObject>> {
    yaml.split("\n---\n")
        .filter(|document| !document.trim().is_empty())
        .map(|document| {
            serde_saphyr::from_str(document)
                .with_context(|| format!("cannot read YAML:\n{document}"))
        })
        .collect()
}

/// Where an object of this kind and namespace lives.
async fn api_of(client: &Client, object: &DynamicObject) -> anyhow::Result<Api<DynamicObject>> {
    let types = object.types.as_ref().context("an object without kind")?;
    let gvk = GroupVersionKind::try_from(types)?;
    let (resource, capabilities) = pinned_kind(client, &gvk).await?;
    Ok(match (capabilities.scope, object.namespace()) {
        (Scope::Namespaced, Some(ns)) => Api::namespaced_with(client.clone(), &ns, &resource),
        (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), &resource),
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
    })
}

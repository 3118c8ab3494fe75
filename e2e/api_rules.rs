//! Story: what the API server admits and refuses, field by field, with the messages.

mod catalog;
mod columns;
mod extension;
mod revision;

pub(crate) use catalog::{creation as catalog_creation, status as catalog_status};
pub(crate) use columns::defaults_and_columns;
pub(crate) use extension::{
    creation as extension_creation, status as extension_status, update as extension_update,
};
pub(crate) use revision::{
    creation as revision_creation, status as revision_status, update as revision_update,
};

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::{Client, Resource};
use serde_json::Value;

/// Asks without storing anything.
fn dry_run() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}

/// The objects of one of our kinds, as they are on the wire.
fn wire<K: Resource<DynamicType = ()>>(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &ApiResource::erase::<K>(&()))
}

/// An object from its JSON, as a request would carry it.
fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).expect("every object of the tables has metadata")
}

/// Stores `value`, replacing what an earlier run left.
async fn stored(api: &Api<DynamicObject>, value: &Value) -> anyhow::Result<DynamicObject> {
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    removed(api, name).await?;
    Ok(api
        .create(&PostParams::default(), &object(value.clone()))
        .await?)
}

/// Removes the object `name`; it has no finalizers.
async fn removed(api: &Api<DynamicObject>, name: &str) -> anyhow::Result<()> {
    match api.delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        result => Ok(result.map(|_| ())?),
    }
}

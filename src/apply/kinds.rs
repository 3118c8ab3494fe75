//! Whether the kinds of this API itself are being deleted: with a definition the API server deletes all objects of its kind,
//! and of none of them did anybody say that what it runs should go.

#![expect(clippy::disallowed_types, reason = "reads definitions")]

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;

use super::objects::metadata_of;
use crate::api::GROUP;
use crate::error::{Classify, Disposition};
use crate::identity::request::{self, RequestError, path};

/// The definition of a kind could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot tell whether the kinds of this API are being deleted")]
pub struct KindError(#[source] RequestError);

impl Classify for KindError {
    fn disposition(&self) -> Disposition {
        Disposition::Retry
    }
}

/// Where the API server has all definitions.
pub fn definitions() -> String {
    path(
        "apiextensions.k8s.io",
        "v1",
        None,
        "customresourcedefinitions",
    )
}

/// Since when the kind of this plural name leaves, if it does. One that may not be read is taken to stay.
///
/// # Errors
/// When the API server did not say.
async fn leaving_since(client: &Client, plural: &str) -> Result<Option<Timestamp>, RequestError> {
    let definition = match request::get(client, &definitions(), &format!("{plural}.{GROUP}")).await
    {
        Err(error) if error.is_lacking() => return Ok(None),
        definition => definition?,
    };
    Ok(definition.and_then(|it| metadata_of(&it).deletion_timestamp.map(|since| since.0)))
}

/// Whether an object of this API is deleted only because its kind is: not before that.
///
/// # Errors
/// When the API server did not say.
pub async fn goes_along(
    client: &Client,
    plural: &str,
    metadata: &ObjectMeta,
) -> Result<bool, KindError> {
    let Some(deleted) = &metadata.deletion_timestamp else {
        return Ok(false);
    };
    let since = leaving_since(client, plural).await.map_err(KindError)?;
    Ok(since.is_some_and(|since| since.as_second() <= deleted.0.as_second()))
}

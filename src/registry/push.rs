//! Uploading an image: each blob that the registry has not yet, then the manifest.

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::LOCATION;
use http::{Method, StatusCode};
use reqwest::Response;
use url::Url;

use super::authorization::Access;
use super::build::BuiltImage;
use super::endpoint::Endpoint;
use super::error::{Fault, Operation, RegistryError};
use super::transport::{Call, Where};
use super::{RegistryClient, failed};
use crate::oci::digest::Digest;
use crate::oci::reference::{CanonicalReference, Reference};

impl RegistryClient {
    /// Uploads an image, or an index with all its images, under the tag (or the digest, if it is the right one) of `reference`.
    ///
    /// Mirrors are for pulling; a push goes to the registry itself.
    ///
    /// # Errors
    /// When the registry does not take it.
    pub async fn push(
        &self,
        image: &BuiltImage,
        reference: &Reference,
    ) -> Result<CanonicalReference, RegistryError> {
        let endpoint = self.own_endpoint(reference)?;
        let fail = |operation| {
            let endpoint = &endpoint;
            move |fault| failed(operation, reference, vec![self.attempt(endpoint, fault)])
        };
        if let Some(expected) = reference.canonical().map(|canonical| canonical.digest)
            && expected != image.digest
        {
            let actual = image.digest.clone();
            return Err(fail(Operation::WriteManifest)(Fault::WrongDigest {
                expected,
                actual,
            }));
        }
        let name = reference.target().to_string();
        self.push_tree(&endpoint, image, &name)
            .await
            .map_err(|(operation, fault)| fail(operation)(fault))?;
        Ok(reference.with_digest(image.digest.clone()))
    }

    /// Uploads what a manifest names, and then the manifest: a registry takes none that leads nowhere.
    fn push_tree<'a>(
        &'a self,
        endpoint: &'a Endpoint,
        image: &'a BuiltImage,
        name: &'a str,
    ) -> BoxFuture<'a, Result<(), (Operation, Fault)>> {
        Box::pin(async move {
            for part in &image.images {
                self.push_tree(endpoint, part, part.digest.as_str()).await?;
            }
            for (descriptor, bytes) in &image.blobs {
                self.push_blob(endpoint, &descriptor.digest, bytes)
                    .await
                    .map_err(|fault| (Operation::WriteBlob, fault))?;
            }
            self.push_manifest(endpoint, image, name)
                .await
                .map_err(|fault| (Operation::WriteManifest, fault))
        })
    }

    async fn push_manifest(
        &self,
        endpoint: &Endpoint,
        image: &BuiltImage,
        name: &str,
    ) -> Result<(), Fault> {
        let path = format!("manifests/{name}");
        let call = Call {
            method: Method::PUT,
            access: Access::Push,
            body: Some((&image.media_type, image.manifest.clone())),
            ..Call::get(&path)
        };
        self.transport.send(endpoint, &call).await?;
        Ok(())
    }

    async fn push_blob(
        &self,
        endpoint: &Endpoint,
        digest: &Digest,
        bytes: &Bytes,
    ) -> Result<(), Fault> {
        let path = format!("blobs/{digest}");
        let call = Call {
            method: Method::HEAD,
            access: Access::Push,
            ..Call::get(&path)
        };
        match self.transport.send(endpoint, &call).await {
            Ok(_) => return Ok(()),
            Err(fault) if fault.is_status(StatusCode::NOT_FOUND) => {}
            Err(fault) => return Err(fault),
        }
        let call = Call {
            method: Method::POST,
            access: Access::Push,
            ..Call::get("blobs/uploads/")
        };
        let response = self.transport.send(endpoint, &call).await?;
        let mut location = upload_location(&response)?;
        location
            .query_pairs_mut()
            .append_pair("digest", digest.as_str());
        let call = Call {
            method: Method::PUT,
            target: Where::Location(location),
            access: Access::Push,
            body: Some(("application/octet-stream", bytes.clone())),
            ..Call::get("")
        };
        self.transport.send(endpoint, &call).await?;
        Ok(())
    }
}

/// Where the registry wants the bytes: an address, or a path on its own host.
fn upload_location(response: &Response) -> Result<Url, Fault> {
    let location = response
        .headers()
        .get(LOCATION)
        .and_then(|value| value.to_str().ok());
    location
        .and_then(|location| response.url().join(location).ok())
        .filter(|location| location.scheme() == "https" || response.url().scheme() == "http")
        .ok_or_else(|| Fault::Protocol("no location to upload to".to_owned()))
}

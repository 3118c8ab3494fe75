//! Pulling from OCI registries, and pushing what `oxolm image` builds.
//!
//! Follows the [OCI distribution spec 1.1](https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md).
//! Nothing that a registry says is believed: sizes and digests are checked while the bytes flow, every buffer is bounded,
//! every wait has a deadline. This room does not unpack and does not keep anything: see `store` and `fetch`.
//!
//! Hosts of the loopback are asked by HTTPS if they speak it, else by plain HTTP; all others by HTTPS.

mod auth;
mod authorization;
pub mod blob;
pub mod build;
mod challenge;
mod client;
pub mod config;
pub mod credential;
mod endpoint;
pub mod error;
pub mod limits;
mod mirror;
mod pause;
mod policy;
mod push;
mod transport;
mod trusted;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use tokio::sync::mpsc;
use tokio::time::timeout;

use self::blob::{Delivery, Piece, Progress};
use self::config::RegistryOptions;
use self::credential::Credentials;
use self::endpoint::Endpoint;
use self::error::{Attempt, Fault, Operation, RegistryError};
use self::limits::{LAYER_TIMEOUT, MAX_CONFIG_BYTES, MAX_LAYERS, MAX_MANIFEST_BYTES};
use self::transport::{Call, Transport, document};
use crate::oci::digest::Digest;
use crate::oci::manifest::{
    self, Descriptor, ImageManifest, Manifest, ManifestError, Platform, media_type,
};
use crate::oci::reference::{CanonicalReference, Reference};

/// Speaks to registries. Cheap to clone; all clones share connections, tokens and credentials.
#[derive(Debug, Clone)]
pub struct RegistryClient {
    transport: Arc<Transport>,
    options: Arc<RegistryOptions>,
    platform: Platform,
}

/// An image whose documents are verified and whose layers can be pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// How the image was asked for.
    pub reference: CanonicalReference,
    /// The labels of its configuration.
    pub labels: BTreeMap<String, String>,
    /// Its layers, lowest first.
    pub layers: Vec<Descriptor>,
}

impl RegistryClient {
    /// A client with these options and no credentials yet.
    ///
    /// # Errors
    /// When the CA directory or the proxy address cannot be used.
    pub fn new(options: RegistryOptions) -> Result<Self, RegistryError> {
        let transport = Transport::new(&options).map_err(RegistryError::Setup)?;
        let platform = options
            .platform
            .clone()
            .unwrap_or_else(|| Platform::of_rust(std::env::consts::OS, std::env::consts::ARCH));
        Ok(Self {
            transport: Arc::new(transport),
            options: Arc::new(options),
            platform,
        })
    }

    /// From now on these credentials are used.
    pub fn set_credentials(&self, credentials: Credentials) {
        self.transport.set_credentials(credentials);
    }

    /// Asks the registry which digest a tag has now: that of the manifest as served, of the index if there is one.
    ///
    /// A reference by digest is its own answer, without a request.
    ///
    /// # Errors
    /// When no endpoint answers with a manifest.
    pub async fn canonicalize(
        &self,
        reference: &Reference,
    ) -> Result<CanonicalReference, RegistryError> {
        if let Some(canonical) = reference.canonical() {
            return Ok(canonical);
        }
        let (bytes, content_type) = self.manifest(reference).await?;
        // An answer that is no manifest must not become a digest that nobody can use.
        Manifest::parse(&bytes, content_type.as_deref())
            .map_err(|source| unusable(reference, source))?;
        Ok(reference.with_digest(Digest::of(&bytes)))
    }

    /// Reads manifest and configuration of an image, choosing this platform's from an index.
    ///
    /// # Errors
    /// When no endpoint serves them, they do not match their digests, or they are not of a container image.
    pub async fn image(&self, reference: &CanonicalReference) -> Result<Image, RegistryError> {
        let whole: Reference = reference.clone().into();
        let (bytes, content_type) = self.manifest(&whole).await?;
        let parsed = Manifest::parse(&bytes, content_type.as_deref());
        let manifest = match parsed.map_err(|source| unusable(&whole, source))? {
            Manifest::Image(manifest) => manifest,
            Manifest::Index(index) => {
                let chosen = index
                    .choose(&self.platform)
                    .map_err(|source| unusable(&whole, source))?;
                self.platform_manifest(&whole.with_digest(chosen.digest.clone()))
                    .await?
            }
        };
        manifest
            .check_is_image()
            .map_err(|source| unusable(&whole, source))?;
        check_limits(&whole, &manifest, self.options.max_layer_bytes)?;
        let config = self.config(&whole, &manifest.config).await?;
        Ok(Image {
            reference: reference.clone(),
            labels: manifest::labels(&config).map_err(|source| unusable(&whole, source))?,
            layers: manifest.layers,
        })
    }

    /// Sends a layer's bytes, as they are transferred, to `pieces`; [`Piece::Verified`] says that they were right.
    ///
    /// # Errors
    /// When no endpoint delivers the bytes that the descriptor promises. What was sent before is void then.
    pub async fn pull_layer(
        &self,
        image: &Image,
        layer: &Descriptor,
        pieces: &mpsc::Sender<Piece>,
    ) -> Result<Delivery, RegistryError> {
        let reference: Reference = image.reference.clone().into();
        let mut progress = Progress::new();
        let mut attempts = Vec::new();
        for endpoint in self.endpoints(&reference)? {
            let copy = self
                .transport
                .copy_blob(&endpoint, layer, &mut progress, pieces);
            let result = match timeout(LAYER_TIMEOUT, copy).await {
                Ok(result) => result,
                Err(_elapsed) => Err(Fault::Deadline(LAYER_TIMEOUT.as_secs())),
            };
            match result {
                Ok(delivery) => return Ok(delivery),
                Err(fault) => {
                    // Bytes that were wrong are on their way already; another endpoint cannot call them back.
                    let spoilt =
                        matches!(fault, Fault::WrongDigest { .. } | Fault::WrongSize { .. });
                    attempts.push(self.attempt(&endpoint, fault));
                    if spoilt {
                        break;
                    }
                }
            }
        }
        Err(failed(Operation::ReadLayer, &reference, attempts))
    }

    /// The manifest that `reference` names, as served, and what the registry calls it.
    async fn manifest(
        &self,
        reference: &Reference,
    ) -> Result<(Bytes, Option<String>), RegistryError> {
        let path = format!("manifests/{}", reference.target());
        let mut call = Call::get(&path);
        call.accept = Some(media_type::MANIFESTS.join(", "));
        let expected = reference.canonical().map(|canonical| canonical.digest);
        self.document(
            Operation::ReadManifest,
            reference,
            &call,
            MAX_MANIFEST_BYTES,
            expected.as_ref(),
        )
        .await
    }

    async fn platform_manifest(
        &self,
        reference: &CanonicalReference,
    ) -> Result<ImageManifest, RegistryError> {
        let reference: Reference = reference.clone().into();
        let (bytes, content_type) = self.manifest(&reference).await?;
        match Manifest::parse(&bytes, content_type.as_deref()) {
            Ok(Manifest::Image(manifest)) => Ok(manifest),
            Ok(Manifest::Index(_)) => {
                let nested = ManifestError::MediaType("an index inside an index".to_owned());
                Err(unusable(&reference, nested))
            }
            Err(source) => Err(unusable(&reference, source)),
        }
    }

    async fn config(
        &self,
        reference: &Reference,
        config: &Descriptor,
    ) -> Result<Bytes, RegistryError> {
        let path = format!("blobs/{}", config.digest);
        let call = Call::get(&path);
        let operation = Operation::ReadConfig;
        let (bytes, _) = self
            .document(
                operation,
                reference,
                &call,
                MAX_CONFIG_BYTES,
                Some(&config.digest),
            )
            .await?;
        Ok(bytes)
    }

    /// Reads a document of at most `limit` bytes from the first endpoint that has it.
    async fn document(
        &self,
        operation: Operation,
        reference: &Reference,
        call: &Call<'_>,
        limit: u64,
        expected: Option<&Digest>,
    ) -> Result<(Bytes, Option<String>), RegistryError> {
        let what = match operation {
            Operation::ReadConfig => "image configuration",
            _ => "manifest",
        };
        let mut attempts = Vec::new();
        for endpoint in self.endpoints(reference)? {
            match self
                .document_of(&endpoint, call, what, limit, expected)
                .await
            {
                Ok(found) => return Ok(found),
                Err(fault) => attempts.push(self.attempt(&endpoint, fault)),
            }
        }
        Err(failed(operation, reference, attempts))
    }

    async fn document_of(
        &self,
        endpoint: &Endpoint,
        call: &Call<'_>,
        what: &'static str,
        limit: u64,
        expected: Option<&Digest>,
    ) -> Result<(Bytes, Option<String>), Fault> {
        let mut tried = 0;
        loop {
            let response = self.transport.send(endpoint, call).await?;
            let content_type = response.headers().get(CONTENT_TYPE);
            let content_type = content_type.and_then(|value| Some(value.to_str().ok()?.to_owned()));
            let bytes = match document(response, what, limit).await {
                Ok(bytes) => bytes,
                Err(fault) => {
                    tried += 1;
                    if self.transport.wait_to_retry(tried, &fault).await.is_err() {
                        return Err(fault);
                    }
                    continue;
                }
            };
            let actual = Digest::of(&bytes);
            return match expected {
                Some(expected) if *expected != actual => Err(Fault::WrongDigest {
                    expected: expected.clone(),
                    actual,
                }),
                _ => Ok((bytes, content_type)),
            };
        }
    }

    /// Where to ask for an image, in order, after the administrator's rules had their say.
    fn endpoints(&self, reference: &Reference) -> Result<Vec<Endpoint>, RegistryError> {
        let refused = |source| RegistryError::Refused {
            reference: reference.to_string(),
            source,
        };
        self.transport.refresh().map_err(refused)?;
        policy::check(self.options.policy.as_deref(), reference).map_err(refused)?;
        mirror::endpoints(self.options.registries_conf.as_deref(), reference).map_err(refused)
    }

    /// The registry itself, where images are pushed to.
    fn own_endpoint(&self, reference: &Reference) -> Result<Endpoint, RegistryError> {
        let own = self.endpoints(reference)?.pop();
        Ok(own.unwrap_or_else(|| Endpoint::of(reference.repository())))
    }

    fn attempt(&self, endpoint: &Endpoint, fault: Fault) -> Attempt {
        Attempt {
            endpoint: self.transport.describe(endpoint),
            credential: self.transport.credential_origin(endpoint),
            unusable_secrets: self.transport.unusable_secrets(),
            fault,
        }
    }
}

fn check_limits(
    reference: &Reference,
    manifest: &ImageManifest,
    max_layer_bytes: u64,
) -> Result<(), RegistryError> {
    let too_large = |what, limit| RegistryError::TooLarge {
        reference: reference.to_string(),
        what,
        limit,
    };
    if manifest.layers.len() > MAX_LAYERS {
        return Err(too_large("its number of layers", MAX_LAYERS as u64));
    }
    if manifest.config.size > MAX_CONFIG_BYTES {
        return Err(too_large(
            "the size of its configuration in bytes",
            MAX_CONFIG_BYTES,
        ));
    }
    if manifest
        .layers
        .iter()
        .any(|layer| layer.size > max_layer_bytes)
    {
        return Err(too_large("the size of a layer in bytes", max_layer_bytes));
    }
    Ok(())
}

fn unusable(reference: &Reference, source: ManifestError) -> RegistryError {
    RegistryError::Unusable {
        reference: reference.to_string(),
        source,
    }
}

fn failed(operation: Operation, reference: &Reference, attempts: Vec<Attempt>) -> RegistryError {
    RegistryError::Failed {
        operation,
        reference: reference.to_string(),
        attempts,
    }
}

#[cfg(test)]
mod tests;

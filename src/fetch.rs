//! From a reference to an image on disk: canonicalize, stored already?, pull, unpack. One flight per digest.
//!
//! Catalogs and bundles go the same way and share what is stored: a digest is pulled and unpacked once, however many
//! owners ask for it, at the same time or later. Bytes flow from the registry through the decompressor to the disk without being
//! kept in between; nothing is published before every layer's size and digest are verified.
//!
//! The prefixes of the messages are those of the reference.

mod metrics;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinError;
use tokio::time::{Instant, sleep, timeout};
use tracing::info;

pub use self::metrics::Metrics;
use crate::error::{Classify, Disposition};
use crate::oci::digest::Digest;
use crate::oci::reference::{CanonicalReference, Reference};
use crate::registry::blob::{Delivery, Piece};
use crate::registry::error::RegistryError;
use crate::registry::{Image, RegistryClient};
use crate::store::limits::Limits;
use crate::store::{Added, CONFIGS_LABEL, ContentStore, StoreError, UnpackedImage, Wanted};

/// How many images are pulled at a time; the others wait.
const CONCURRENT_PULLS: usize = 6;

/// How long the pull of one image may take altogether, waiting for its turn not counted.
const PULL_TIMEOUT: Duration = Duration::from_hours(1);

/// How long a pull keeps its turn while nothing arrives: a registry that hangs delays no other pull.
const STALL: Duration = Duration::from_secs(5);

/// How many pieces of a layer wait for the decompressor: a few hundred kilobytes.
const PIECES_AHEAD: usize = 16;

/// What an image is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageKind {
    /// A file-based catalog: its label must say where the content is.
    Catalog,
    /// A registry+v1 bundle.
    Bundle,
}

/// Brings images to disk. Cheap to clone; all clones share flights and limits.
#[derive(Clone)]
pub struct Fetcher {
    registry: RegistryClient,
    store: ContentStore,
    limits: Limits,
    /// Held weakly: a flight that all have left is over, and its files go.
    flights: Arc<Mutex<Flights>>,
    turns: Arc<Semaphore>,
    stall: Duration,
    metrics: Metrics,
}

/// Pulls under way.
type Flights = BTreeMap<(Digest, ImageKind), WeakShared<Flight>>;

/// A pull under way.
type Flight = BoxFuture<'static, Result<UnpackedImage, FetchError>>;

/// A failed fetch. Cheap to clone, as all who waited for one flight get it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FetchError {
    /// The registry does not say which digest a tag has.
    #[error("error creating image source")]
    Canonicalize(#[source] Arc<RegistryError>),
    /// The image cannot be pulled.
    #[error("error copying image")]
    Pull(#[source] Arc<RegistryError>),
    /// Pulling took too long.
    #[error("error copying image: {reference} was not pulled within {} minutes", PULL_TIMEOUT.as_secs() / 60)]
    Deadline {
        /// The image.
        reference: String,
    },
    /// The image cannot be unpacked or stored.
    #[error("error applying image")]
    Unpack(#[source] Arc<StoreError>),
    /// The catalog image does not say where its content is. Whether another attempt helps depends on how the user named
    /// it: by digest never, by tag perhaps.
    #[error("error applying image: catalog image is missing the required label {CONFIGS_LABEL:?}")]
    MissingConfigsLabel,
    /// The task that unpacks died.
    #[error("error applying image: unpacking {reference} was interrupted")]
    Interrupted {
        /// The image.
        reference: String,
        /// Why.
        source: Arc<JoinError>,
    },
}

impl Classify for FetchError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Canonicalize(error) | Self::Pull(error) => error.disposition(),
            Self::Unpack(error) => error.disposition(),
            Self::Deadline { .. } | Self::MissingConfigsLabel | Self::Interrupted { .. } => {
                Disposition::Retry
            }
        }
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl Fetcher {
    /// Fetches through `registry` into `store`.
    pub fn new(registry: RegistryClient, store: ContentStore) -> Self {
        Self {
            registry,
            store,
            limits: Limits::default(),
            flights: Arc::default(),
            turns: Arc::new(Semaphore::new(CONCURRENT_PULLS)),
            stall: STALL,
            metrics: Metrics::default(),
        }
    }

    /// The same, with its pulls counted there.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// The same with other limits for unpacking.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What images are pulled through.
    pub fn registry(&self) -> &RegistryClient {
        &self.registry
    }

    /// Where images are kept.
    pub fn store(&self) -> &ContentStore {
        &self.store
    }

    /// Asks the registry which digest a tag has now. A reference by digest costs nothing.
    ///
    /// # Errors
    /// When the registry does not answer with a manifest.
    pub async fn canonicalize(
        &self,
        reference: &Reference,
    ) -> Result<CanonicalReference, FetchError> {
        let asked = self.registry.canonicalize(reference).await;
        asked.map_err(|error| FetchError::Canonicalize(Arc::new(error)))
    }

    /// The image on disk, pulled if it is not there yet. Whoever asks meanwhile waits for the same pull.
    ///
    /// If all who wait give up, so does the pull, and nothing of it is left.
    ///
    /// # Errors
    /// When the image cannot be pulled or unpacked, or is not of this kind.
    pub async fn fetch(
        &self,
        reference: &CanonicalReference,
        kind: ImageKind,
    ) -> Result<UnpackedImage, FetchError> {
        let flight = self.flight(reference, kind);
        let image = flight.await?;
        check_kind(&image.labels, kind)?;
        Ok(image)
    }

    /// Joins the pull that is under way, or starts one.
    fn flight(&self, reference: &CanonicalReference, kind: ImageKind) -> Shared<Flight> {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        flights.retain(|_, flight| {
            flight
                .upgrade()
                .is_some_and(|flight| flight.peek().is_none())
        });
        let key = (reference.digest.clone(), kind);
        if let Some(flight) = flights.get(&key).and_then(WeakShared::upgrade) {
            return flight;
        }
        let flight = self.clone().fly(reference.clone(), kind).boxed().shared();
        // Not finished yet, so it can be held weakly.
        if let Some(weak) = flight.downgrade() {
            flights.insert(key, weak);
        }
        flight
    }

    async fn fly(
        self,
        reference: CanonicalReference,
        kind: ImageKind,
    ) -> Result<UnpackedImage, FetchError> {
        let store = self.store.clone();
        let digest = reference.digest.clone();
        let stored = blocking(&reference, move || store.get(&digest)).await?;
        if let Some(image) = stored {
            return Ok(image);
        }
        let started = Instant::now();
        let result = self.pull_in_time(&reference, kind).await;
        self.metrics.pulled(kind, result.is_ok(), started.elapsed());
        result
    }

    async fn pull_in_time(
        &self,
        reference: &CanonicalReference,
        kind: ImageKind,
    ) -> Result<UnpackedImage, FetchError> {
        let progress = Progress::default();
        let pull = timeout(PULL_TIMEOUT, self.pull(reference, kind, &progress));
        let Ok(result) = self.in_turn(&progress, pull).await else {
            return Err(FetchError::Deadline {
                reference: reference.to_string(),
            });
        };
        result
    }

    /// Waits for a turn and runs `pull`, which gives its turn up while nothing arrives. When bytes flow again it goes on
    /// at once, and takes a turn if there is one.
    async fn in_turn<T>(&self, progress: &Progress, pull: impl Future<Output = T>) -> T {
        let mut turn = self.turns.acquire().await.ok();
        let mut pull = pin!(pull);
        loop {
            let before = progress.bytes();
            tokio::select! {
                done = &mut pull => return done,
                () = sleep(self.stall) => {}
            }
            if progress.bytes() == before {
                turn = None;
            } else if turn.is_none() {
                turn = self.turns.try_acquire().ok();
            }
        }
    }

    async fn pull(
        &self,
        reference: &CanonicalReference,
        kind: ImageKind,
        progress: &Progress,
    ) -> Result<UnpackedImage, FetchError> {
        let failed = |error| FetchError::Pull(Arc::new(error));
        let image = Arc::new(self.registry.image(reference).await.map_err(failed)?);
        // Before gigabytes are transferred for nothing.
        check_kind(&image.labels, kind)?;
        let mut wanted =
            Wanted::of(&image.labels).map_err(|error| FetchError::Unpack(Arc::new(error)))?;
        loop {
            match self.unpack(&image, &wanted, progress).await? {
                Added::Image(unpacked) => {
                    info!(%reference, layers = image.layers.len(), "unpacked image");
                    return Ok(unpacked);
                }
                Added::Elsewhere(more) => wanted = more,
            }
        }
    }

    /// Pulls and unpacks all layers, the one while the other.
    async fn unpack(
        &self,
        image: &Arc<Image>,
        wanted: &Wanted,
        progress: &Progress,
    ) -> Result<Added, FetchError> {
        let (senders, layers): (Vec<_>, Vec<_>) = image
            .layers
            .iter()
            .map(|_| {
                let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
                (sender, Layer::new(receiver, progress.clone()))
            })
            .unzip();
        let unpacked = {
            let (store, image, wanted, limits) = (
                self.store.clone(),
                Arc::clone(image),
                wanted.clone(),
                self.limits,
            );
            let reference = image.reference.clone();
            async move {
                let add = move || {
                    store.add(
                        &image.reference.digest,
                        &image.labels,
                        &wanted,
                        &limits,
                        layers,
                    )
                };
                blocking(&reference, add).await
            }
        };
        let pulled = async {
            for (descriptor, sender) in image.layers.iter().zip(senders) {
                if self.registry.pull_layer(image, descriptor, &sender).await? == Delivery::Declined
                {
                    // Unpacking failed, and says why.
                    break;
                }
            }
            Ok(())
        };
        let (pulled, unpacked) = tokio::join!(pulled, unpacked);
        if let Err(FetchError::Unpack(error)) = &unpacked
            && error.is_full()
        {
            self.store.call_for_room();
        }
        // A pull that breaks off also looks like a broken archive; its own reason is the one that counts.
        pulled.map_err(|error: RegistryError| FetchError::Pull(Arc::new(error)))?;
        unpacked
    }
}

/// Runs work on files where it does not hinder others.
async fn blocking<T: Send + 'static>(
    reference: &CanonicalReference,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, FetchError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(|error| FetchError::Unpack(Arc::new(error))),
        Err(error) => Err(FetchError::Interrupted {
            reference: reference.to_string(),
            source: Arc::new(error),
        }),
    }
}

fn check_kind(labels: &BTreeMap<String, String>, kind: ImageKind) -> Result<(), FetchError> {
    match kind {
        ImageKind::Catalog if !labels.contains_key(CONFIGS_LABEL) => {
            Err(FetchError::MissingConfigsLabel)
        }
        ImageKind::Catalog | ImageKind::Bundle => Ok(()),
    }
}

/// How many bytes of a pull have arrived. Clones count together.
#[derive(Debug, Clone, Default)]
struct Progress(Arc<AtomicU64>);

impl Progress {
    fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// The bytes of a layer as they come. Its end is an error unless the layer was verified.
struct Layer {
    pieces: mpsc::Receiver<Piece>,
    rest: Bytes,
    is_verified: bool,
    progress: Progress,
}

impl Layer {
    fn new(pieces: mpsc::Receiver<Piece>, progress: Progress) -> Self {
        Self {
            pieces,
            rest: Bytes::new(),
            is_verified: false,
            progress,
        }
    }
}

impl Read for Layer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() && !self.is_verified {
            match self.pieces.blocking_recv() {
                Some(Piece::Bytes(bytes)) => {
                    self.progress.add(bytes.len());
                    self.rest = bytes;
                }
                Some(Piece::Verified) => self.is_verified = true,
                None => {
                    let reason = "the transfer of the layer broke off";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason));
                }
            }
        }
        let count = self.rest.len().min(buffer.len());
        let bytes = self.rest.split_to(count);
        if let Some(target) = buffer.get_mut(..count) {
            target.copy_from_slice(&bytes);
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests;

#![expect(clippy::disallowed_methods, reason = "shell: keeps content on disk")]
//! Content on disk, a directory per digest: unpacked once, published by one rename, never modified.
//!
//! ```text
//! <root>/                 0700
//!   tmp/                  whatever is not finished; emptied at start
//!   images/<sha256 hex>/
//!     image.json          digest, labels, and size and checksum of every file
//!     rootfs/…            directories 0500, files 0400, nothing else
//! ```
//!
//! What a process finds on disk when it starts is verified against `image.json` before its first use, so a torn write or a
//! tampering hand costs a pull, never a wrong answer. Tags never come here, only digests.

mod budget;
pub mod bundle;
pub mod catalog;
mod checksum;
mod description;
mod error;
mod layer;
pub mod limits;
mod meter;
mod place;
mod removal;
mod tree;
mod unpack;
pub mod unpacked;
mod wanted;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::Notify;
use tracing::warn;

use self::budget::Budget;
pub(crate) use self::description::FileDescription;
use self::description::{Description, is_file, verify, write_description};
pub use self::error::StoreError;
use self::error::is_full;
use self::limits::{KEPT_BYTES, Limits};
use self::place::Place;
use self::unpack::Unpacker;
use self::unpacked::{Finished, UnpackError};
pub use self::wanted::Wanted;
use crate::oci::digest::Digest;

/// The label that names the directory (or file) of a catalog image that holds its content.
pub const CONFIGS_LABEL: &str = "operators.operatorframework.io.index.configs.v1";

/// The directory of images.
const IMAGES: &str = "images";
/// The directory of what is not finished.
const STAGING: &str = "tmp";
/// The description of an image.
const DESCRIPTION: &str = "image.json";
/// The files of an image.
const ROOTFS: &str = "rootfs";
/// The version of the description's format; another one is unpacked again.
const FORMAT: u32 = 2;

/// Unpacked images by digest. Cheap to clone; all clones are one store.
#[derive(Debug, Clone)]
pub struct ContentStore {
    root: PathBuf,
    /// Images that this process has verified, and whether somebody holds them.
    known: Arc<Mutex<BTreeMap<Digest, Known>>>,
    budget: Arc<Budget>,
    /// Told when something did not fit.
    shortage: Arc<Notify>,
    /// How many pieces of work were begun.
    begun: Arc<AtomicU64>,
    opened_at: Instant,
    /// Held for its lock; see [`ContentStore::share`].
    place: Option<Arc<Place>>,
}

#[derive(Debug)]
struct Known {
    description: Arc<Description>,
    unpacked_at: Timestamp,
    used_at: Instant,
    lease: Weak<Lease>,
}

/// An image on disk. As long as one is held, garbage collection leaves its files alone.
#[derive(Debug, Clone)]
pub struct UnpackedImage {
    /// The digest that it was asked for by: the index's, if there is one.
    pub digest: Digest,
    /// The root of its file system; only the parts that catalogs and bundles need are there.
    pub root: PathBuf,
    /// The labels of its configuration.
    pub labels: BTreeMap<String, String>,
    /// When it was unpacked, to the second.
    pub unpacked_at: Timestamp,
    /// Only its life counts.
    _lease: Arc<Lease>,
}

/// Says by being held that an image is in use.
#[derive(Debug)]
struct Lease;

/// How far unpacking came.
#[derive(Debug)]
pub enum Added {
    /// The image is published.
    Image(UnpackedImage),
    /// Links lead to parts of the image that were not kept: unpack again, wanting this.
    Elsewhere(Wanted),
}

impl ContentStore {
    /// Opens the store at `root`, making it if need be, and removes what an earlier process did not finish.
    ///
    /// # Errors
    /// When the directory cannot be made or read.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let store = Self {
            root: root.to_owned(),
            known: Arc::default(),
            budget: Arc::default(),
            shortage: Arc::default(),
            begun: Arc::default(),
            opened_at: Instant::now(),
            place: None,
        };
        for directory in [root.to_owned(), store.images(), store.staging()] {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&directory)
                .map_err(disk("create directory", &directory))?;
        }
        let staging = store.staging();
        for entry in fs::read_dir(&staging).map_err(disk("read directory", &staging))? {
            let path = entry.map_err(disk("read directory", &staging))?.path();
            if let Err(error) = removal::remove_tree(&path) {
                // A disk that takes no changes can still be read from, which is what matters at a start.
                warn!(path = %path.display(), %error, "cannot remove what an earlier process did not finish");
            }
        }
        Ok(store)
    }

    /// Opens a store in a place below `root` that no other process uses as long as this store lives.
    ///
    /// # Errors
    /// When the directory cannot be made or read.
    pub fn share(root: &Path) -> Result<Self, StoreError> {
        let place = Place::claim(root).map_err(disk("find a free place in", root))?;
        let mut store = Self::open(&place.directory)?;
        store.place = Some(Arc::new(place));
        Ok(store)
    }

    /// From now on all files of the store together may have this many bytes.
    pub fn set_budget(&self, bytes: u64) {
        self.budget.set(bytes);
    }

    /// Waits until something did not fit.
    pub async fn shortage(&self) {
        self.shortage.notified().await;
    }

    /// Something did not fit: whoever collects garbage should do so.
    pub(crate) fn call_for_room(&self) {
        self.shortage.notify_one();
    }

    /// How many bytes all files of the store have.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub fn used_bytes(&self) -> io::Result<u64> {
        budget::used(&self.root)
    }

    /// How many bytes more fit into the budget.
    fn room(&self) -> Result<u64, StoreError> {
        self.budget
            .room(&self.root)
            .map_err(disk("measure", &self.root))
    }

    fn full(&self) -> StoreError {
        StoreError::Full {
            budget_bytes: self.budget.bytes().unwrap_or(u64::MAX),
        }
    }

    /// Where the store lies.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The image of this digest, if it is here and whole. A damaged one is removed.
    ///
    /// The first call after a start reads every file of the image.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub fn get(&self, digest: &Digest) -> Result<Option<UnpackedImage>, StoreError> {
        let path = self.image(digest);
        if let Some(image) = self.lease_known(digest, &path) {
            return Ok(Some(image));
        }
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                self.remove(digest)?;
                return Ok(None);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(disk("read", &path)(error)),
        }
        let Some(description) = verify(&path, digest)? else {
            self.remove(digest)?;
            return Ok(None);
        };
        self.remember(digest, description).map(Some)
    }

    /// Unpacks `layers`, lowest first, and publishes the image. The layers may be compressed.
    ///
    /// If another process or task published it meanwhile, that one is returned.
    ///
    /// # Errors
    /// When a layer is not acceptable or the disk does not take it. Nothing is left behind then.
    pub fn add(
        &self,
        digest: &Digest,
        labels: &BTreeMap<String, String>,
        wanted: &Wanted,
        limits: &Limits,
        layers: impl IntoIterator<Item = impl io::Read>,
    ) -> Result<Added, StoreError> {
        let room = self.room()?;
        let allowed = Limits {
            kept_bytes: limits.kept_bytes.min(room),
            ..*limits
        };
        let staging = self.begin()?;
        let mut unpacker = Unpacker::new(staging.path(), wanted, &allowed)?;
        for layer in layers {
            unpacker.layer(layer).map_err(|error| match error {
                UnpackError::Limit { what, .. }
                    if what == KEPT_BYTES && room < limits.kept_bytes =>
                {
                    self.full()
                }
                other => other.into(),
            })?;
        }
        let target = staging.path().join("image");
        // Messages name the directory of all staging: a random name in them would differ each time.
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&target)
            .map_err(disk("create a directory in", &self.staging()))?;
        let files = match unpacker.finish(&target.join(ROOTFS))? {
            Finished::Tree(files) => files,
            Finished::Elsewhere(paths) => {
                return Ok(Added::Elsewhere(wanted.and(paths)));
            }
        };
        let description = Description {
            format: FORMAT,
            digest: digest.clone(),
            labels: labels.clone(),
            files,
        };
        let bytes =
            serde_json::to_vec_pretty(&description).map_err(|source| StoreError::Describe {
                digest: digest.clone(),
                source,
            })?;
        write_description(&target.join(DESCRIPTION), &bytes)
            .map_err(disk("write to", &self.staging()))?;
        self.publish(digest, &target)?;
        self.remember(digest, description).map(Added::Image)
    }

    /// Removes every image that is neither in `keep` nor held by somebody nor was asked for within `grace`, and returns
    /// what it removed. What an earlier process left counts as asked for when the store was opened.
    ///
    /// # Errors
    /// When the disk cannot be read or an image not be removed.
    pub fn collect_garbage(
        &self,
        keep: &BTreeSet<Digest>,
        grace: Duration,
    ) -> Result<Vec<Digest>, StoreError> {
        let images = self.images();
        let mut removed = Vec::new();
        for entry in fs::read_dir(&images).map_err(disk("read directory", &images))? {
            let name = entry.map_err(disk("read directory", &images))?.file_name();
            let text = format!("sha256:{}", name.to_string_lossy());
            let Ok(digest) = Digest::parse(&text) else {
                // Not ours, so nobody can hold it.
                let path = images.join(&name);
                removal::remove_tree(&path).map_err(disk("remove", &path))?;
                continue;
            };
            if keep.contains(&digest) || self.is_in_use(&digest, grace) {
                continue;
            }
            self.remove(&digest)?;
            removed.push(digest);
        }
        removed.sort();
        Ok(removed)
    }

    /// Removes the image of this digest unless somebody holds it.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn discard(&self, digest: &Digest) -> Result<(), StoreError> {
        if self.is_in_use(digest, Duration::ZERO) {
            return Ok(());
        }
        self.remove(digest)
    }

    /// A directory for work that is not finished; it vanishes with the value.
    pub(crate) fn begin(&self) -> Result<Staging, StoreError> {
        let staging = self.staging();
        loop {
            // One process uses a root at a time, and the directory was emptied when it started.
            let number = self.begun.fetch_add(1, Ordering::Relaxed);
            let path = staging.join(number.to_string());
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Staging(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // The name is not told: messages must not vary.
                Err(error) => return Err(disk("create a directory in", &staging)(error)),
            }
        }
    }

    fn publish(&self, digest: &Digest, source: &Path) -> Result<(), StoreError> {
        let path = self.image(digest);
        match fs::rename(source, &path) {
            Ok(()) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
                ) =>
            {
                // Published meanwhile; the same digest means the same files.
                return Ok(());
            }
            Err(error) => return Err(disk("publish", &path)(error)),
        }
        let images = self.images();
        let directory = fs::File::open(&images).map_err(disk("open", &images))?;
        directory.sync_all().map_err(disk("write", &images))
    }

    fn remove(&self, digest: &Digest) -> Result<(), StoreError> {
        lock(&self.known).remove(digest);
        let path = self.image(digest);
        if is_absent(&path) {
            return Ok(());
        }
        // Readers see the whole image or none: it leaves its place before it is taken apart.
        let staging = self.begin()?;
        let grave = staging.path().join("image");
        match fs::rename(&path, &grave) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(disk("remove", &path)(error)),
        }
        removal::remove_tree(&grave).map_err(disk("remove", &path))
    }

    fn is_in_use(&self, digest: &Digest, grace: Duration) -> bool {
        let all = lock(&self.known);
        let known = all.get(digest);
        let used_at = known.map_or(self.opened_at, |known| known.used_at);
        known.is_some_and(|known| known.lease.strong_count() > 0) || used_at.elapsed() < grace
    }

    fn lease_known(&self, digest: &Digest, path: &Path) -> Option<UnpackedImage> {
        let mut all = lock(&self.known);
        let known = all.get_mut(digest)?;
        if !path.join(ROOTFS).is_dir() {
            all.remove(digest);
            return None;
        }
        Some(known.lend(path))
    }

    fn remember(
        &self,
        digest: &Digest,
        description: Description,
    ) -> Result<UnpackedImage, StoreError> {
        let path = self.image(digest);
        let file = path.join(DESCRIPTION);
        let modified = fs::metadata(&file)
            .and_then(|metadata| metadata.modified())
            .map_err(disk("read", &file))?;
        let modified = Timestamp::try_from(modified).unwrap_or_default();
        let mut all = lock(&self.known);
        let known = all.entry(digest.clone()).or_insert_with(|| Known {
            description: Arc::new(description),
            // Whole seconds, as in the API.
            unpacked_at: Timestamp::from_second(modified.as_second()).unwrap_or_default(),
            used_at: Instant::now(),
            lease: Weak::new(),
        });
        Ok(known.lend(&path))
    }

    fn images(&self) -> PathBuf {
        self.root.join(IMAGES)
    }

    fn staging(&self) -> PathBuf {
        self.root.join(STAGING)
    }

    fn image(&self, digest: &Digest) -> PathBuf {
        self.images().join(digest.hex())
    }
}

impl Known {
    fn lend(&mut self, path: &Path) -> UnpackedImage {
        let lease = self.lease.upgrade().unwrap_or_else(|| Arc::new(Lease));
        self.lease = Arc::downgrade(&lease);
        self.used_at = Instant::now();
        UnpackedImage {
            digest: self.description.digest.clone(),
            root: path.join(ROOTFS),
            labels: self.description.labels.clone(),
            unpacked_at: self.unpacked_at,
            _lease: lease,
        }
    }
}

impl UnpackedImage {
    /// Where the catalog in this image lies: a directory, or a single file. `None` when the image has no catalog label.
    pub fn catalog_root(&self) -> Option<PathBuf> {
        let label = self.labels.get(CONFIGS_LABEL)?;
        let path = tree::clean(label.as_bytes()).ok()??;
        Some(self.root.join(path.join("/")))
    }
}

/// A directory below `tmp`, removed when dropped.
#[derive(Debug)]
pub(crate) struct Staging(PathBuf);

impl Staging {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What cannot be removed now is removed at the next start.
        _ = removal::remove_tree(&self.0);
    }
}

/// Whether there is nothing at `path`; what cannot be looked at counts as there.
fn is_absent(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn disk(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Disk {
        operation,
        path,
        source,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Each critical section is one operation of a map, so a poisoned one is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

#![expect(clippy::disallowed_methods, reason = "shell: keeps content on disk")]
//! Content on disk, a directory per digest: unpacked once, published by one rename, never modified.
//!
//! ```text
//! <root>/                 0700
//!   tmp/                  whatever is not finished; emptied at start
//!   images/<sha256 hex>/
//!     image.json          digest, labels, and size and hash of every file
//!     rootfs/…            directories 0500, files 0400, nothing else
//! ```
//!
//! What a process finds on disk when it starts is verified against `image.json` before its first use, so a torn write or a
//! tampering hand costs a pull, never a wrong answer. Tags never come here, only digests.

pub mod bundle;
pub mod catalog;
mod layer;
mod meter;
mod removal;
mod tree;
pub mod unpack;
mod wanted;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use self::unpack::{Limits, UnpackError, Unpacker};
pub use self::wanted::Wanted;
use crate::error::{Classify, Disposition};
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
const FORMAT: u32 = 1;

/// Unpacked images by digest. Cheap to clone; all clones are one store. One process uses a root at a time.
#[derive(Debug, Clone)]
pub struct ContentStore {
    root: PathBuf,
    /// Images that this process has verified, and whether somebody holds them.
    known: Arc<Mutex<BTreeMap<Digest, Known>>>,
}

#[derive(Debug)]
struct Known {
    description: Arc<Description>,
    unpacked_at: Timestamp,
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

/// `image.json`
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Description {
    format: u32,
    digest: Digest,
    labels: BTreeMap<String, String>,
    /// By path below `rootfs`.
    files: BTreeMap<String, FileDescription>,
}

/// What a file must be to be the one that was unpacked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileDescription {
    pub(crate) size: u64,
    pub(crate) sha256: Digest,
}

/// How far unpacking came.
#[derive(Debug)]
pub enum Added {
    /// The image is published.
    Image(UnpackedImage),
    /// Links lead to parts of the image that were not kept: unpack again, wanting this.
    Elsewhere(Wanted),
}

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or directory of the store cannot be used.
    #[error("cannot {operation} {}", path.display())]
    Disk {
        /// What was attempted.
        operation: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The image's layers cannot be unpacked.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// The label that names the content leads out of the image.
    #[error("label {CONFIGS_LABEL} of the image leads out of it: {0:?}")]
    Label(String),
    /// The description cannot be written.
    #[error("cannot describe image {digest}")]
    Describe {
        /// The image.
        digest: Digest,
        /// Why.
        source: serde_json::Error,
    },
}

impl Classify for StoreError {
    fn disposition(&self) -> Disposition {
        // As in the reference: disks are emptied, tags are pushed again.
        Disposition::Retry
    }
}

impl ContentStore {
    /// Opens the store at `root`, making it if need be, and removes what an earlier process did not finish.
    ///
    /// # Errors
    /// When the directory cannot be made or emptied.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let store = Self {
            root: root.to_owned(),
            known: Arc::default(),
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
            removal::remove_tree(&path).map_err(disk("remove", &path))?;
        }
        Ok(store)
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
        let staging = self.begin()?;
        let mut unpacker = Unpacker::new(staging.path(), wanted, limits)?;
        for layer in layers {
            unpacker.layer(layer)?;
        }
        let target = staging.path().join("image");
        // Messages name the directory of all staging: a random name in them would differ each time.
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&target)
            .map_err(disk("create a directory in", &self.staging()))?;
        let files = match unpacker.finish(&target.join(ROOTFS))? {
            unpack::Finished::Tree(files) => files,
            unpack::Finished::Elsewhere(paths) => {
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

    /// Removes every image that is neither in `keep` nor held by somebody, and returns what it removed.
    ///
    /// # Errors
    /// When the disk cannot be read or an image not be removed.
    pub fn collect_garbage(&self, keep: &BTreeSet<Digest>) -> Result<Vec<Digest>, StoreError> {
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
            if keep.contains(&digest) || self.is_held(&digest) {
                continue;
            }
            self.remove(&digest)?;
            removed.push(digest);
        }
        removed.sort();
        Ok(removed)
    }

    /// A directory for work that is not finished; it vanishes with the value.
    pub(crate) fn begin(&self) -> Result<Staging, StoreError> {
        let staging = self.staging();
        let made = tempfile::Builder::new()
            .prefix("")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(&staging)
            .map_err(disk("create a directory in", &staging))?;
        Ok(Staging(made.keep()))
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

    fn is_held(&self, digest: &Digest) -> bool {
        lock(&self.known)
            .get(digest)
            .is_some_and(|known| known.lease.strong_count() > 0)
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

/// Compares an image on disk with its description. `None` when they differ.
fn verify(path: &Path, digest: &Digest) -> Result<Option<Description>, StoreError> {
    let file = path.join(DESCRIPTION);
    let bytes = match fs::read(&file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(disk("read", &file)(error)),
    };
    let Ok(description) = serde_json::from_slice::<Description>(&bytes) else {
        return Ok(None);
    };
    if description.format != FORMAT || description.digest != *digest {
        return Ok(None);
    }
    let root = path.join(ROOTFS);
    let mut found = 0;
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(disk("read directory", &directory)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(disk("read directory", &directory))?;
            let kind = entry.file_type().map_err(disk("read", &entry.path()))?;
            if kind.is_dir() {
                directories.push(entry.path());
            } else {
                found += 1;
                let relative = entry.path();
                let relative = relative.strip_prefix(&root).ok().and_then(Path::to_str);
                let expected = relative.and_then(|relative| description.files.get(relative));
                let same = match expected {
                    Some(expected) if kind.is_file() => is_file(&entry.path(), expected)?,
                    _ => false,
                };
                if !same {
                    return Ok(None);
                }
            }
        }
    }
    Ok((found == description.files.len()).then_some(description))
}

fn is_file(path: &Path, expected: &FileDescription) -> Result<bool, StoreError> {
    let mut file = fs::File::open(path).map_err(disk("open", path))?;
    let mut hash = Sha256::new();
    let mut size = 0;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = file.read(&mut buffer).map_err(disk("read", path))?;
        if count == 0 {
            break;
        }
        size += count as u64;
        hash.update(buffer.get(..count).unwrap_or_default());
    }
    Ok(size == expected.size && Digest::from_sha256(hash.finalize().as_slice()) == expected.sha256)
}

fn write_description(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(bytes)?;
    file.set_permissions(fs::Permissions::from_mode(0o400))?;
    file.sync_all()
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

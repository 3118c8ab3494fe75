#![expect(clippy::disallowed_methods, reason = "shell: keeps catalogs on disk")]
//! Published catalogs: made of an unpacked image once per digest, read by the resolver and the content server.
//!
//! ```text
//! <root>/catalogs/<sha256 hex>/     published by one rename, never modified
//!   catalog.json                    digest, time, and size and checksum of the other files
//!   catalog.jsonl                   every blob in normal form, one per line
//!   catalog.jsonl.gz                the same, compressed with gzip
//!   catalog.jsonl.zst               the same, compressed with zstd
//!   packages.jsonl                  what resolution needs of each package, one per line
//!   index.json                      where each blob and each package lies
//! ```
//!
//! A catalog that is open keeps its files open, so removing it harms no reader. What a process finds on disk
//! is verified before its first use; what is damaged is made again.

mod error;
mod publish;
pub mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ContentStore, FileDescription, UnpackedImage, removal};
use crate::fbc::document::DOCUMENT_LIMIT_BYTES;
use crate::fbc::index::{CatalogIndex, Filter};
use crate::fbc::package::PackageContents;
use crate::oci::digest::Digest;

pub use self::error::CatalogError;
pub use self::walk::{examine, packages, read_directory_or_file};

/// The directory of published catalogs.
const CATALOGS: &str = "catalogs";
const DESCRIPTION: &str = "catalog.json";
const BLOBS: &str = "catalog.jsonl";
const GZIP: &str = "catalog.jsonl.gz";
const ZSTD: &str = "catalog.jsonl.zst";
const PACKAGES: &str = "packages.jsonl";
const INDEX: &str = "index.json";

/// The version of the format on disk; another one is published again.
const FORMAT: u32 = 3;

/// `catalog.json`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Description {
    format: u32,
    digest: Digest,
    /// When the content was unpacked, in seconds since 1970.
    unpacked_at_seconds: i64,
    files: BTreeMap<String, FileDescription>,
}

/// `index.json`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Index {
    blobs: CatalogIndex,
    /// Offset and length in `packages.jsonl`.
    packages: BTreeMap<String, (u64, u64)>,
}

/// A line of `packages.jsonl`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum PackageLine {
    Contents(PackageContents),
    Problem(String),
}

/// The published catalogs of a content store. Cheap to clone; all clones are one store.
#[derive(Debug, Clone)]
pub struct CatalogStore {
    content: ContentStore,
    /// The largest document that is read, in bytes.
    document_limit_bytes: usize,
    /// What this process has verified or published itself.
    verified: Arc<Mutex<BTreeSet<Digest>>>,
    /// When each was last asked for.
    used_at: Arc<Mutex<BTreeMap<Digest, Instant>>>,
    made_at: Instant,
}

impl CatalogStore {
    /// The published catalogs beside the images of `content`.
    ///
    /// # Errors
    /// When their directory cannot be made.
    pub fn new(content: ContentStore) -> Result<Self, CatalogError> {
        let store = Self {
            content,
            document_limit_bytes: DOCUMENT_LIMIT_BYTES,
            verified: Arc::default(),
            used_at: Arc::default(),
            made_at: Instant::now(),
        };
        let directory = store.catalogs();
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(disk("create directory", &directory))?;
        Ok(store)
    }

    /// The same with another limit for documents, in bytes; see [`DOCUMENT_LIMIT_BYTES`].
    #[must_use]
    pub fn with_document_limit(mut self, limit_bytes: usize) -> Self {
        self.document_limit_bytes = limit_bytes;
        self
    }

    /// The published catalog of this digest, if it is here and whole. A damaged one is removed.
    ///
    /// The first call after a start reads every file of the catalog.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub fn open(&self, digest: &Digest) -> Result<Option<StoredCatalog>, CatalogError> {
        let directory = self.catalog(digest);
        let is_verified = self.verified().contains(digest);
        match StoredCatalog::open(&directory, digest, is_verified) {
            Ok(Some(catalog)) => {
                self.verified().insert(digest.clone());
                self.uses().insert(digest.clone(), Instant::now());
                Ok(Some(catalog))
            }
            Ok(None) => {
                self.remove(digest)?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Publishes the catalog in `image`, or opens it where it is published already.
    ///
    /// # Errors
    /// When the content is not acceptable or the disk does not take it. Nothing is left behind then, and
    /// what was published before stays.
    pub fn publish(&self, image: &UnpackedImage) -> Result<StoredCatalog, CatalogError> {
        self.write_and_open(image).inspect_err(|error| {
            if error.is_full() {
                self.content.call_for_room();
            }
        })
    }

    fn write_and_open(&self, image: &UnpackedImage) -> Result<StoredCatalog, CatalogError> {
        if let Some(catalog) = self.open(&image.digest)? {
            return Ok(catalog);
        }
        let content = image.catalog_root().ok_or(CatalogError::NoLabel)?;
        let staging = self.content.begin()?;
        let target = staging.path().join("catalog");
        let source = publish::Source {
            content: &content,
            document_limit_bytes: self.document_limit_bytes,
            room_bytes: self.content.room()?,
        };
        publish::write(&target, &source, &image.digest, image.unpacked_at)?
            .ok_or_else(|| self.content.full())?;
        let directory = self.catalog(&image.digest);
        match fs::rename(&target, &directory) {
            Ok(()) => sync_directory(&self.catalogs())?,
            // Published meanwhile; the same digest means the same content.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
                ) => {}
            Err(error) => return Err(disk("publish", &directory)(error)),
        }
        self.verified().insert(image.digest.clone());
        self.open(&image.digest)?
            .ok_or(CatalogError::Damaged(directory))
    }

    /// Removes every published catalog that is not in `keep` and was not asked for within `grace`, and returns what
    /// it removed. Whoever has one open can go on reading it. What an earlier process left counts as asked for when
    /// the store was made.
    ///
    /// # Errors
    /// When the disk cannot be read or a catalog not be removed.
    pub fn collect_garbage(
        &self,
        keep: &BTreeSet<Digest>,
        grace: Duration,
    ) -> Result<Vec<Digest>, CatalogError> {
        let directory = self.catalogs();
        let mut removed = Vec::new();
        for entry in fs::read_dir(&directory).map_err(disk("read directory", &directory))? {
            let name = entry
                .map_err(disk("read directory", &directory))?
                .file_name();
            match Digest::parse(&format!("sha256:{}", name.to_string_lossy())) {
                Ok(digest) if keep.contains(&digest) || self.used_within(&digest, grace) => {}
                Ok(digest) => {
                    self.remove(&digest)?;
                    removed.push(digest);
                }
                Err(_not_ours) => {
                    let path = directory.join(name);
                    removal::remove_tree(&path).map_err(disk("remove", &path))?;
                }
            }
        }
        removed.sort();
        Ok(removed)
    }

    fn remove(&self, digest: &Digest) -> Result<(), CatalogError> {
        self.verified().remove(digest);
        self.uses().remove(digest);
        let path = self.catalog(digest);
        if super::is_absent(&path) {
            return Ok(());
        }
        let staging = self.content.begin()?;
        match fs::rename(&path, staging.path().join("catalog")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(disk("remove", &path)(error))
            }
            // The rest goes with the staging directory.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn used_within(&self, digest: &Digest, grace: Duration) -> bool {
        let used_at = self.uses().get(digest).copied();
        used_at.unwrap_or(self.made_at).elapsed() < grace
    }

    fn uses(&self) -> std::sync::MutexGuard<'_, BTreeMap<Digest, Instant>> {
        self.used_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn verified(&self) -> std::sync::MutexGuard<'_, BTreeSet<Digest>> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn catalogs(&self) -> PathBuf {
        self.content.root().join(CATALOGS)
    }

    fn catalog(&self, digest: &Digest) -> PathBuf {
        self.catalogs().join(digest.hex())
    }
}

/// A published catalog, open for reading. Reads are positional, so any number of readers share it.
#[derive(Debug)]
pub struct StoredCatalog {
    digest: Digest,
    unpacked_at: Timestamp,
    directory: PathBuf,
    blobs: FileOnDisk,
    gzip: FileOnDisk,
    zstd: FileOnDisk,
    packages: FileOnDisk,
    index: Index,
    etag: String,
}

#[derive(Debug)]
struct FileOnDisk {
    file: File,
    size_bytes: u64,
}

/// In which form the bytes of a catalog are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// As they are.
    Identity,
    /// Compressed with gzip.
    Gzip,
    /// Compressed with zstd.
    Zstd,
}

impl StoredCatalog {
    /// Opens what lies in `directory`; `None` when there is nothing or it is not whole.
    fn open(
        directory: &Path,
        digest: &Digest,
        is_verified: bool,
    ) -> Result<Option<Self>, CatalogError> {
        let Some(description) = read_if_there(&directory.join(DESCRIPTION))? else {
            return Ok(None);
        };
        let Ok(description) = serde_json::from_slice::<Description>(&description) else {
            return Ok(None);
        };
        if description.format != FORMAT || description.digest != *digest {
            return Ok(None);
        }
        for (name, expected) in description.files.iter().filter(|_| !is_verified) {
            let path = directory.join(name);
            if !path.is_file() || !super::is_file(&path, expected)? {
                return Ok(None);
            }
        }
        let Some(index) = read_if_there(&directory.join(INDEX))? else {
            return Ok(None);
        };
        let Ok(index) = serde_json::from_slice::<Index>(&index) else {
            return Ok(None);
        };
        let file = |name: &str| FileOnDisk::open(directory, name, &description);
        let (Some(blobs), Some(gzip), Some(zstd), Some(packages)) =
            (file(BLOBS)?, file(GZIP)?, file(ZSTD)?, file(PACKAGES)?)
        else {
            return Ok(None);
        };
        let etag = description
            .files
            .get(BLOBS)
            .map(|file| file.checksum.to_string());
        Ok(Some(Self {
            digest: digest.clone(),
            unpacked_at: Timestamp::from_second(description.unpacked_at_seconds)
                .unwrap_or_default(),
            directory: directory.to_owned(),
            blobs,
            gzip,
            zstd,
            packages,
            index,
            etag: etag.unwrap_or_default(),
        }))
    }

    /// The digest of the image.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// When the content was unpacked, to the second.
    pub fn unpacked_at(&self) -> Timestamp {
        self.unpacked_at
    }

    /// The same content, said to have been unpacked at another time: where it was unpacked first.
    #[must_use]
    pub fn with_unpacked_at(mut self, unpacked_at: Timestamp) -> Self {
        self.unpacked_at = unpacked_at;
        self
    }

    /// A name for the content: equal if and only if all bytes are equal. 32 hexadecimal digits.
    pub fn etag(&self) -> &str {
        &self.etag
    }

    /// How many bytes all blobs take.
    pub fn size_bytes(&self, encoding: Encoding) -> u64 {
        self.file(encoding).size_bytes
    }

    /// Where the wanted blobs lie among the uncompressed bytes, in order; each ends with a line break.
    pub fn select(&self, filter: &Filter<'_>) -> Vec<Range<u64>> {
        self.index.blobs.select(filter)
    }

    /// Which blobs there are.
    pub fn index(&self) -> &CatalogIndex {
        &self.index.blobs
    }

    /// The names of all packages, sorted.
    pub fn package_names(&self) -> impl Iterator<Item = &str> {
        self.index.packages.keys().map(String::as_str)
    }

    /// What resolution needs of a package; `None` when the catalog does not have it. Reads one piece of a file.
    ///
    /// # Errors
    /// When the disk cannot be read, or the package's blobs do not have the form that their schemas demand.
    pub fn package(&self, name: &str) -> Result<Option<PackageContents>, CatalogError> {
        let Some((offset, length)) = self.index.packages.get(name) else {
            return Ok(None);
        };
        let path = || self.directory.join(PACKAGES);
        let mut line = vec![0; usize::try_from(*length).unwrap_or_default()];
        self.packages
            .file
            .read_exact_at(&mut line, *offset)
            .map_err(|source| disk("read", &path())(source))?;
        match serde_json::from_slice(&line) {
            Ok(PackageLine::Contents(contents)) => Ok(Some(contents)),
            Ok(PackageLine::Problem(problem)) => Err(CatalogError::Package(problem)),
            Err(_not_what_was_written) => Err(CatalogError::Damaged(path())),
        }
    }

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// When they cannot be read, or there are not so many.
    pub fn read_at(&self, encoding: Encoding, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file(encoding).file.read_exact_at(buffer, offset)
    }

    fn file(&self, encoding: Encoding) -> &FileOnDisk {
        match encoding {
            Encoding::Identity => &self.blobs,
            Encoding::Gzip => &self.gzip,
            Encoding::Zstd => &self.zstd,
        }
    }
}

impl FileOnDisk {
    fn open(
        directory: &Path,
        name: &str,
        description: &Description,
    ) -> Result<Option<Self>, CatalogError> {
        let path = directory.join(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(disk("open", &path)(error)),
        };
        let size_bytes = file.metadata().map_err(disk("read", &path))?.len();
        let expected = description.files.get(name).map(|file| file.size);
        Ok((expected == Some(size_bytes)).then_some(Self { file, size_bytes }))
    }
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, CatalogError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(disk("read", path)(error)),
    }
}

fn sync_directory(path: &Path) -> Result<(), CatalogError> {
    let directory = File::open(path).map_err(disk("open", path))?;
    directory.sync_all().map_err(disk("write", path))
}

fn disk(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CatalogError {
    let path = path.to_owned();
    move |source| CatalogError::Disk {
        operation,
        path,
        source,
    }
}

#[cfg(test)]
pub(crate) mod conformance;
#[cfg(test)]
mod tests;

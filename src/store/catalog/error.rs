//! What can go wrong with a published catalog.

use std::io;
use std::path::PathBuf;

use super::super::{CONFIGS_LABEL, StoreError};
use crate::error::{Classify, Disposition};
use crate::fbc::package::PackageError;
use crate::fbc::read::StreamError;

/// A failure to publish or to read a catalog.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// A file or directory cannot be used.
    #[error("cannot {operation} {}", path.display())]
    Disk {
        /// What was attempted.
        operation: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The content store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of the catalog cannot be read.
    #[error("error walking FBC root: {file}")]
    Content {
        /// Its path in the catalog.
        file: String,
        /// Where and why.
        source: StreamError,
    },
    /// A file of the catalog has a document that is too large.
    #[error("error walking FBC root: {file} ({size_bytes} bytes)")]
    TooLarge {
        /// Its path in the catalog.
        file: String,
        /// Its size.
        size_bytes: u64,
        /// Where.
        source: StreamError,
    },
    /// Something in the catalog is neither a file nor a directory, or a link that leads out of it.
    #[error("error walking FBC root: {file} is neither a file nor a directory of the catalog")]
    NoFile {
        /// Its path in the catalog.
        file: String,
    },
    /// An `.indexignore` cannot be read.
    #[error("error walking FBC root: {file} is larger than {limit_bytes} bytes")]
    IgnoreFile {
        /// Its path in the catalog.
        file: String,
        /// The limit.
        limit_bytes: u64,
    },
    /// The image does not say where its catalog is.
    #[error("image has no label {CONFIGS_LABEL}")]
    NoLabel,
    /// The package's blobs do not have the form that their schemas demand.
    #[error("{0}")]
    Package(String),
    /// A file of a published catalog does not hold what it should.
    #[error("{} of the published catalog is damaged", .0.display())]
    Damaged(PathBuf),
}

impl CatalogError {
    /// Whether the content is to blame, so that only other content helps.
    pub fn is_content(&self) -> bool {
        match self {
            Self::Content { source, .. } => !matches!(source, StreamError::Read(_)),
            Self::TooLarge { .. }
            | Self::NoFile { .. }
            | Self::IgnoreFile { .. }
            | Self::NoLabel
            | Self::Package(_) => true,
            Self::Disk { .. } | Self::Store(_) | Self::Damaged(_) => false,
        }
    }

    /// Whether less on disk would have helped.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Store(error) => error.is_full(),
            Self::Disk { source, .. } => super::super::is_full(source),
            Self::Content { .. }
            | Self::TooLarge { .. }
            | Self::NoFile { .. }
            | Self::IgnoreFile { .. }
            | Self::NoLabel
            | Self::Package(_)
            | Self::Damaged(_) => false,
        }
    }
}

impl Classify for CatalogError {
    /// A tag can be pushed again and a disk emptied; who knows that the content is pinned by digest asks
    /// [`CatalogError::is_content`].
    fn disposition(&self) -> Disposition {
        Disposition::Retry
    }
}

impl From<PackageError> for CatalogError {
    fn from(error: PackageError) -> Self {
        Self::Package(error.to_string())
    }
}

//! What can go wrong with the store.

use std::io;
use std::path::PathBuf;

use super::CONFIGS_LABEL;
use super::unpacked::UnpackError;
use crate::error::{Classify, Disposition};
use crate::oci::digest::Digest;

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
    /// The bound on the whole store leaves too little room.
    #[error(
        "the content does not fit into the cache: --cache-max-bytes allows {budget_bytes} bytes in all, and what is in use \
         leaves too few of them"
    )]
    Full {
        /// The bound.
        budget_bytes: u64,
    },
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

impl StoreError {
    /// Whether the content is to blame, so that only other content helps.
    pub fn is_content(&self) -> bool {
        match self {
            Self::Unpack(error) => !matches!(error, UnpackError::Disk { .. }),
            Self::Label(_) => true,
            Self::Disk { .. } | Self::Full { .. } | Self::Describe { .. } => false,
        }
    }

    /// Whether less on disk would have helped.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full { .. } => true,
            Self::Disk { source, .. } | Self::Unpack(UnpackError::Disk { source, .. }) => {
                is_full(source)
            }
            Self::Unpack(_) | Self::Label(_) | Self::Describe { .. } => false,
        }
    }
}

pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

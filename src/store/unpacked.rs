//! What unpacking an image comes to: files, links that lead elsewhere, or an error.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::FileDescription;
use super::tree::PathError;

/// How unpacking ended.
#[derive(Debug)]
pub(super) enum Finished {
    /// The wanted files are written; by path below the root.
    Tree(BTreeMap<String, FileDescription>),
    /// Links lead to these paths, which were not kept.
    Elsewhere(BTreeSet<String>),
}

/// A numbered file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) number: u64,
    pub(super) description: FileDescription,
}

/// A layer that cannot be, or must not be, unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The bytes are not a (compressed) archive, or end too early.
    #[error("cannot read layer {layer}")]
    Read {
        /// Which layer, counted from 1.
        layer: usize,
        /// Why.
        source: io::Error,
    },
    /// A compression that is not supported.
    #[error(
        "layer {layer} is compressed with {compression}, which is not supported: use gzip, zstd or none"
    )]
    Compression {
        /// Which layer, counted from 1.
        layer: usize,
        /// Its compression.
        compression: &'static str,
    },
    /// More than the limits allow.
    #[error("layer {layer} exceeds the limit of {limit} {what}")]
    Limit {
        /// Which layer, counted from 1.
        layer: usize,
        /// What there is too much of.
        what: &'static str,
        /// How much there may be.
        limit: u64,
    },
    /// An entry whose path leads nowhere or out of the image.
    #[error("layer {layer}: entry {name:?} {problem}")]
    Path {
        /// Which layer, counted from 1.
        layer: usize,
        /// The entry.
        name: String,
        /// What is wrong with its path.
        problem: PathProblem,
    },
    /// An entry that is no file, link or directory.
    #[error("layer {layer}: refusing entry {name:?}: it is a {kind}")]
    Kind {
        /// Which layer, counted from 1.
        layer: usize,
        /// The entry.
        name: String,
        /// What it is.
        kind: &'static str,
    },
    /// A link that leads nowhere, to a directory, or out of the image.
    #[error("link {name:?} {problem}")]
    Link {
        /// The link.
        name: String,
        /// What is wrong with it.
        problem: LinkProblem,
    },
    /// The disk does not take it.
    #[error("cannot write to {}", path.display())]
    Disk {
        /// The staging directory, or the file that is wanted.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What is wrong with the path of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct PathProblem(pub(super) PathError);

/// What is wrong with a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkProblem {
    /// Its path.
    #[error(transparent)]
    Path(PathProblem),
    /// Its target does not exist.
    #[error("leads to nothing in the image")]
    Dangling,
    /// Its target is a directory.
    #[error("leads to a directory")]
    Directory,
}

/// The disk does not take what is written at `path`.
pub(super) fn disk(path: &Path) -> impl FnOnce(io::Error) -> UnpackError {
    let path = path.to_owned();
    move |source| UnpackError::Disk { path, source }
}

//! Why the objects of a revision could not be read.

use crate::api::keys;
use crate::api::object::InvalidObject;
use crate::error::{Classify, Disposition, Reason};
use crate::identity::request::RequestError;
use crate::revision::SECRET_IS_MISSING;
use crate::revision::pack::UnpackError;

/// Objects that could not be read. The texts are the reference's.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// A Secret could not be read.
    #[error("resolving ref in phase {phase:?}: getting Secret {secret}")]
    Read {
        /// The phase.
        phase: String,
        /// `namespace/name`
        secret: String,
        /// Why.
        #[source]
        source: RequestError,
    },
    /// A Secret is not there.
    #[error(
        "resolving ref in phase {phase:?}: getting Secret {secret}: not found: {SECRET_IS_MISSING}"
    )]
    NotFound {
        /// The phase.
        phase: String,
        /// `namespace/name`
        secret: String,
    },
    /// A Secret of the system namespace that is not the revision's.
    #[error(
        "resolving ref in phase {phase:?}: Secret {secret} is not of type {type_} with label {label} naming this revision",
        type_ = keys::OBJECT_DATA_SECRET_TYPE, label = keys::REVISION_NAME
    )]
    Foreign {
        /// The phase.
        phase: String,
        /// `namespace/name`
        secret: String,
    },
    /// A Secret has not the key.
    #[error("resolving ref in phase {phase:?}: key {key:?} not found in Secret {secret}")]
    NoKey {
        /// The phase.
        phase: String,
        /// `namespace/name`
        secret: String,
        /// The key.
        key: String,
    },
    /// What the key holds is no object.
    #[error("resolving ref in phase {phase:?}")]
    Unpack {
        /// The phase.
        phase: String,
        /// Why.
        #[source]
        source: UnpackError,
    },
    /// Secrets that could change.
    #[error(
        "the following secrets are not immutable (referenced secrets must have immutable set to true): {}",
        .0.join(", ")
    )]
    Mutable(Vec<String>),
    /// What was read is not what it was.
    #[error("{0}")]
    Changed(String),
    /// An object without apiVersion, kind or name.
    #[error("phase {phase:?}: object {index}")]
    Unidentified {
        /// The phase.
        phase: String,
        /// Its place.
        index: usize,
        /// What is missing.
        #[source]
        source: InvalidObject,
    },
    /// Neither object nor reference.
    #[error("phase {phase:?}: object {index} is neither an object nor a reference")]
    Empty {
        /// The phase.
        phase: String,
        /// Its place.
        index: usize,
    },
}

impl Classify for ContentError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Read { .. }
            | Self::NotFound { .. }
            | Self::NoKey { .. }
            | Self::Unpack { .. } => Disposition::Retry,
            Self::Foreign { .. }
            | Self::Mutable(_)
            | Self::Changed(_)
            | Self::Unidentified { .. }
            | Self::Empty { .. } => Disposition::Terminal(Reason::Blocked),
        }
    }
}

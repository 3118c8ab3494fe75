//! Version and release of a bundle: one total order.
//!
//! A release tells bundles of one version apart. It is written beside the version (explicit), or, in older catalogs,
//! as the version's build metadata (legacy).

use std::cmp::Ordering;
use std::fmt;

use super::{Identifier, IdentifierError, Version, VersionError, write_identifiers};
use crate::error::quoted;

/// How many bytes a release may have.
pub const MAX_RELEASE_BYTES: usize = 20;

/// A release: no identifier (explicitly empty) or several, ordered as pre-releases are.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release(Vec<Identifier>);

/// Why a text is not a release.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// More than [`MAX_RELEASE_BYTES`].
    #[error("invalid release {}: exceeds maximum length of {MAX_RELEASE_BYTES} characters", quoted(.0))]
    TooLong(String),
    /// Some identifiers are wrong; all of them are told.
    #[error("invalid release {}: {}", quoted(.text), listed(.wrong))]
    Identifiers {
        /// The release as written.
        text: String,
        /// Position from 0 and fault of each wrong identifier.
        wrong: Vec<(usize, IdentifierError)>,
    },
}

fn listed(wrong: &[(usize, IdentifierError)]) -> String {
    wrong
        .iter()
        .map(|(index, error)| format!("segment {index}: {error}"))
        .collect::<Vec<_>>()
        .join("\n")
}

impl Release {
    /// Parses dot-separated identifiers; `""` is the explicitly empty release.
    ///
    /// # Errors
    /// When it is too long or an identifier is wrong.
    pub fn parse(text: &str) -> Result<Self, ReleaseError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        if text.len() > MAX_RELEASE_BYTES {
            return Err(ReleaseError::TooLong(text.to_owned()));
        }
        let mut identifiers = Vec::new();
        let mut wrong = Vec::new();
        for (index, segment) in text.split('.').enumerate() {
            match Identifier::parse(segment) {
                Ok(identifier) => identifiers.push(identifier),
                Err(error) => wrong.push((index, error)),
            }
        }
        if wrong.is_empty() {
            Ok(Self(identifiers))
        } else {
            Err(ReleaseError::Identifiers {
                text: text.to_owned(),
                wrong,
            })
        }
    }

    /// Whether it is the explicitly empty release.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_identifiers(f, &self.0)
    }
}

/// A bundle's version and release.
///
/// The order is total up to what is never compared (build metadata, and none against an explicitly empty release):
/// precedence of the versions first, then no or an empty release below any other, then identifier by identifier.
#[derive(Debug, Clone, Default)]
pub struct BundleVersion {
    /// The version. In the legacy form its build metadata has become the release, where it could.
    pub version: Version,
    /// The release; `Some` of an empty one means that `release: ""` was written.
    pub release: Option<Release>,
}

/// Why version and release of a bundle cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleVersionError {
    /// The version of a legacy text is wrong.
    #[error(transparent)]
    Legacy(VersionError),
    /// The version beside a release is wrong.
    #[error("error parsing version {}: {fault}", quoted(.text))]
    Version {
        /// The version as written.
        text: String,
        /// What is wrong with it.
        fault: VersionError,
    },
    /// The release is wrong.
    #[error("error parsing release {}: {fault}", quoted(.text))]
    Release {
        /// The release as written.
        text: String,
        /// What is wrong with it.
        fault: ReleaseError,
    },
}

impl BundleVersion {
    /// From one text: legal, non-empty build metadata is the release; any other stays what it is.
    ///
    /// # Errors
    /// When the version is wrong; build metadata that is no release is no error.
    pub fn legacy(text: &str) -> Result<Self, BundleVersionError> {
        let version = Version::parse(text).map_err(BundleVersionError::Legacy)?;
        match Release::parse(&version.build) {
            Ok(release) if !release.is_empty() => Ok(Self {
                version: version.without_build(),
                release: Some(release),
            }),
            Ok(_) | Err(_) => Ok(Self {
                version,
                release: None,
            }),
        }
    }

    /// From two texts: the version keeps its build metadata.
    ///
    /// # Errors
    /// When one of them is wrong.
    pub fn explicit(version: &str, release: &str) -> Result<Self, BundleVersionError> {
        let version = Version::parse(version).map_err(|fault| BundleVersionError::Version {
            text: version.to_owned(),
            fault,
        })?;
        let release = Release::parse(release).map_err(|fault| BundleVersionError::Release {
            text: release.to_owned(),
            fault,
        })?;
        Ok(Self {
            version,
            release: Some(release),
        })
    }

    /// [`Self::explicit`] if there is a release, else [`Self::legacy`].
    ///
    /// # Errors
    /// As those.
    pub fn parse(version: &str, release: Option<&str>) -> Result<Self, BundleVersionError> {
        match release {
            Some(release) => Self::explicit(version, release),
            None => Self::legacy(version),
        }
    }

    fn ordering_release(&self) -> &[Identifier] {
        self.release
            .as_ref()
            .map_or(&[], |release| release.0.as_slice())
    }
}

/// `1.2.3`, or `1.2.3 release 4` where there is one.
impl fmt::Display for BundleVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.version)?;
        match &self.release {
            Some(release) if !release.is_empty() => write!(f, " release {release}"),
            Some(_) | None => Ok(()),
        }
    }
}

impl Ord for BundleVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.version
            .cmp(&other.version)
            .then_with(|| self.ordering_release().cmp(other.ordering_release()))
    }
}

impl PartialOrd for BundleVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for BundleVersion {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for BundleVersion {}

//! Why nothing was chosen.
//!
//! The texts are those of the reference: `Progressing` carries them, and scripts match them. What tells the cases apart
//! is [`UnresolvedReason`], the reason of condition `Resolved`.

use crate::error::{Classify, Disposition, Reason, quoted};
use crate::version::range::RangeError;
use crate::version::release::BundleVersionError;

use super::Query;
use super::selector::SelectorError;

/// Why no bundle was chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The catalog selector is none.
    #[error("desired catalog selector is invalid: {0}")]
    InvalidSelector(SelectorError),
    /// The range is none.
    #[error("desired version range {} is invalid: {fault}", quoted(.range))]
    InvalidVersionRange {
        /// The range as written.
        range: String,
        /// What is wrong with it.
        fault: RangeError,
    },
    /// A selected catalog cannot be read, and its content could change the answer.
    #[error(
        "error walking catalogs: error getting package {} from catalog {}: {why}",
        quoted(.package),
        quoted(.catalog)
    )]
    CatalogUnavailable {
        /// The package asked for.
        package: String,
        /// The first such catalog by name.
        catalog: String,
        /// Why it cannot be read.
        why: String,
    },
    /// The version that is recorded as installed cannot be read.
    #[error("error walking catalogs: error finding upgrade edges: {0}")]
    InvalidInstalledVersion(InstalledVersionError),
    /// Nothing is left after the filters.
    #[error("{}", asked.text("no bundles found", &[]))]
    NoBundles {
        /// What was asked for.
        asked: Asked,
        /// Which filter left nothing.
        emptied_by: EmptiedBy,
    },
    /// Several catalogs of one priority have an answer.
    #[error("{}", asked.text("found bundles", catalogs))]
    AmbiguousCatalogs {
        /// What was asked for.
        asked: Asked,
        /// The catalogs of the top priority, by name.
        catalogs: Vec<String>,
    },
    /// The chosen bundle's version cannot be read.
    #[error("error getting resolved bundle version for bundle {}: {fault}", quoted(.bundle))]
    UnsupportedBundle {
        /// The bundle.
        bundle: String,
        /// What is wrong with its version.
        fault: BundleFault,
    },
    /// The chosen bundle has a dependency.
    #[error(
        "validating bundle {0}: bundle {0} has a dependency declared via property {1} which is currently not supported",
        quoted(.bundle),
        quoted(.property)
    )]
    UnmetDependency {
        /// The bundle.
        bundle: String,
        /// The first property that declares one.
        property: String,
    },
}

/// Why the recorded version of what is installed cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstalledVersionError {
    /// Recorded without a release.
    #[error("failed to get version and release of installed bundle: {0}")]
    Legacy(BundleVersionError),
    /// Recorded with one.
    #[error("failed to parse installed bundle version and release: {0}")]
    Explicit(BundleVersionError),
}

/// Why the version of a catalog's bundle cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleFault {
    /// It has no `olm.package` property.
    #[error("no package property found in bundle {}", quoted(.0))]
    NoPackageProperty(String),
    /// That property is of another shape.
    #[error("error unmarshalling package property: {0}")]
    PackageProperty(String),
    /// Its version or release is wrong.
    #[error(transparent)]
    Version(BundleVersionError),
}

/// Which filter left nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptiedBy {
    /// Selector and availability: there is no catalog.
    Selection,
    /// No catalog has the package.
    Package,
    /// No bundle is in the channels.
    Channels,
    /// No version is in the range.
    Range,
    /// No bundle can follow the installed one.
    Edges,
}

/// What was asked for, as messages print it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    package: String,
    version: String,
    channels: Vec<String>,
    installed_version: Option<String>,
}

impl Asked {
    pub(super) fn of(query: &Query) -> Self {
        Self {
            package: query.package.clone(),
            version: query.version.clone(),
            channels: query.channels.clone(),
            installed_version: query
                .installed
                .as_ref()
                .map(|installed| installed.version.clone()),
        }
    }

    fn text(&self, finding: &str, catalogs: &[String]) -> String {
        let mut parts = Vec::new();
        if let Some(version) = &self.installed_version {
            parts.push(format!(
                "error upgrading from currently installed version {}:",
                quoted(version)
            ));
        }
        parts.push(format!("{finding} for package {}", quoted(&self.package)));
        if !self.version.is_empty() {
            parts.push(format!("matching version {}", quoted(&self.version)));
        }
        if !self.channels.is_empty() {
            parts.push(format!("in channels [{}]", self.channels.join(" ")));
        }
        if !catalogs.is_empty() {
            parts.push(format!(
                "in multiple catalogs with the same priority [{}]",
                catalogs.join(" ")
            ));
        }
        parts.join(" ")
    }
}

/// The reasons of condition `Resolved` when it is False.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnresolvedReason {
    /// No catalog has the package.
    PackageNotFound,
    /// The range excludes all that the channels hold.
    NoMatchingVersion,
    /// What is in the range cannot follow what is installed.
    NoUpgradePath,
    /// The channels hold nothing.
    NoMatchingChannel,
    /// Several catalogs of one priority have an answer.
    AmbiguousCatalogs,
    /// A catalog cannot be read that could change the answer.
    CatalogUnavailable,
    /// Selector and availability leave no catalog.
    NoCatalogSelected,
    /// The range is none.
    InvalidVersionRange,
    /// The selector is none.
    InvalidSelector,
    /// The recorded version of what is installed is none.
    InvalidInstalledVersion,
    /// The chosen bundle's version is none.
    UnsupportedBundle,
    /// The chosen bundle has a dependency.
    UnmetDependency,
}

impl UnresolvedReason {
    /// The reason as conditions carry it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PackageNotFound => "PackageNotFound",
            Self::NoMatchingVersion => "NoMatchingVersion",
            Self::NoUpgradePath => "NoUpgradePath",
            Self::NoMatchingChannel => "NoMatchingChannel",
            Self::AmbiguousCatalogs => "AmbiguousCatalogs",
            Self::CatalogUnavailable => "CatalogUnavailable",
            Self::NoCatalogSelected => "NoCatalogSelected",
            Self::InvalidVersionRange => "InvalidVersionRange",
            Self::InvalidSelector => "InvalidSelector",
            Self::InvalidInstalledVersion => "InvalidInstalledVersion",
            Self::UnsupportedBundle => "UnsupportedBundle",
            Self::UnmetDependency => "UnmetDependency",
        }
    }
}

impl std::fmt::Display for UnresolvedReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ResolveError {
    /// The reason of condition `Resolved`.
    pub fn reason(&self) -> UnresolvedReason {
        match self {
            Self::InvalidSelector(_) => UnresolvedReason::InvalidSelector,
            Self::InvalidVersionRange { .. } => UnresolvedReason::InvalidVersionRange,
            Self::CatalogUnavailable { .. } => UnresolvedReason::CatalogUnavailable,
            Self::InvalidInstalledVersion(_) => UnresolvedReason::InvalidInstalledVersion,
            Self::NoBundles { emptied_by, .. } => match emptied_by {
                EmptiedBy::Selection => UnresolvedReason::NoCatalogSelected,
                EmptiedBy::Package => UnresolvedReason::PackageNotFound,
                EmptiedBy::Channels => UnresolvedReason::NoMatchingChannel,
                EmptiedBy::Range => UnresolvedReason::NoMatchingVersion,
                EmptiedBy::Edges => UnresolvedReason::NoUpgradePath,
            },
            Self::AmbiguousCatalogs { .. } => UnresolvedReason::AmbiguousCatalogs,
            Self::UnsupportedBundle { .. } => UnresolvedReason::UnsupportedBundle,
            Self::UnmetDependency { .. } => UnresolvedReason::UnmetDependency,
        }
    }
}

impl Classify for ResolveError {
    /// Differs from the reference, which retries all of them: what only spec or catalog can heal is terminal.
    fn disposition(&self) -> Disposition {
        match self {
            Self::InvalidSelector(_)
            | Self::InvalidVersionRange { .. }
            | Self::UnsupportedBundle { .. }
            | Self::UnmetDependency { .. } => Disposition::Terminal(Reason::Blocked),
            Self::CatalogUnavailable { .. }
            | Self::InvalidInstalledVersion(_)
            | Self::NoBundles { .. }
            | Self::AmbiguousCatalogs { .. } => Disposition::Retry,
        }
    }
}

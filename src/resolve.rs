//! Choosing a bundle.
//!
//! [`resolve`] takes what an extension asks for ([`Query`]) and what the catalogs hold ([`Catalog`]), and gives the
//! bundle to install or the reason why there is none, with a [`report::Report`] that explains both. It is pure: same
//! input, same answer, whatever the order of catalogs, bundles and channels.
//!
//! ```text
//! catalogs ─selector, availability→ selected ─channels, version, edges, not lower→ candidates ─best of each→ winners
//! winners ─not deprecated first→ ─highest priority→ ─the installed bundle's own catalog→ one, or ambiguous
//! ```
//!
//! It follows section 3 of the reference's behaviour with these differences: an installed bundle that satisfies the
//! spec is never replaced by a lower one; the deprecations are those of the chosen catalog; ties are deterministic and
//! go to the catalog that the installed bundle came from; a catalog that cannot be read blocks only if its content
//! could change the answer.

pub mod candidate;
mod choice;
pub mod deprecation;
pub mod error;
pub mod report;
pub mod selector;
mod successor;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::fbc::package::{Deprecation, PackageContents};
use crate::version::Version;
use crate::version::release::Release;

use choice::View;
pub use error::{ResolveError, UnresolvedReason};

/// What an extension asks for, as plain values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    /// The package's name.
    pub package: String,
    /// The range; `""` for none, which admits pre-releases, too.
    pub version: String,
    /// The channels; none means all of them, and bundles of no channel.
    pub channels: Vec<String>,
    /// Which catalogs; `None` and an empty selector mean all.
    pub selector: Option<LabelSelector>,
    /// Whether the catalog's edges bind.
    pub policy: UpgradePolicy,
    /// What is installed.
    pub installed: Option<Installed>,
    /// What a higher major version takes.
    pub major_upgrades: MajorUpgrades,
}

/// `spec.source.catalog.upgradeConstraintPolicy`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UpgradePolicy {
    /// Only along edges of the catalog.
    #[default]
    CatalogProvided,
    /// To any version of the package.
    SelfCertified,
}

/// What an upgrade to a higher major version takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MajorUpgrades {
    /// An edge, as any other upgrade.
    #[default]
    Edges,
    /// [`UpgradePolicy::SelfCertified`].
    Forced,
}

/// What is installed, as it was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installed {
    /// The bundle's name.
    pub name: String,
    /// The version's text; it may be wrong.
    pub version: String,
    /// The release's text, if one was recorded; without one the version's build metadata may be the release.
    pub release: Option<String>,
    /// The catalog that it came from, if that is known.
    pub catalog: Option<String>,
    /// The digest of its image, if that is known.
    pub digest: Option<String>,
}

/// One catalog of the cluster, as far as resolution sees it.
#[derive(Debug, Clone)]
pub struct Catalog<'a> {
    /// Its name; messages sort by it.
    pub name: String,
    /// Its labels. The label of its own name is treated as set, and rightly.
    pub labels: BTreeMap<String, String>,
    /// Its priority: higher wins.
    pub priority: i32,
    /// Whether it takes part at all.
    pub availability: Availability,
    /// Whether it is being served.
    pub serving: bool,
    /// What it holds of the package asked for.
    pub content: Content<'a>,
}

/// `spec.availabilityMode`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Availability {
    /// It takes part.
    #[default]
    Available,
    /// It does not.
    Unavailable,
}

/// What a catalog holds of the package.
#[derive(Debug, Clone)]
pub enum Content<'a> {
    /// The package.
    Package(&'a PackageContents),
    /// It was read and has no such package.
    NoSuchPackage,
    /// It cannot be read; the text says why, for instance `cache for catalog "x" not found`.
    Unreadable(String),
}

/// The answer, and why in short.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolution {
    /// The chosen bundle, or why there is none.
    pub outcome: Result<ResolvedBundle, ResolveError>,
    /// The message of condition `Resolved`: what was chosen, or the nearest candidates, what excluded them and what to
    /// do. At most [`report::MAX_MESSAGE_BYTES`].
    pub message: String,
    /// Whether an installed bundle may stay without an error although nothing was chosen: no catalog is selected at all,
    /// and the spec names no version or literally the installed one.
    pub may_stay: bool,
    /// The best bundle beyond the one chosen that only the range of the spec excludes.
    pub available_update: Option<AvailableUpdate>,
}

/// What an extension is to run.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// The bundle that resolution chose.
    Bundle(Box<ResolvedBundle>),
    /// What is installed: there is no catalog to choose from, and nothing else is asked for.
    Installed(Installed),
}

/// A bundle that was chosen; it owns all that later steps need.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedBundle {
    /// The bundle's name.
    pub name: String,
    /// Its package.
    pub package: String,
    /// Its version.
    pub version: Version,
    /// Its release; `None` when there is none, not when it is empty.
    pub release: Option<Release>,
    /// Its image reference.
    pub image: String,
    /// The catalog that won.
    pub catalog: String,
    /// The catalog's deprecation entries of the package, of all its channels, of this bundle and of the installed one,
    /// in the blob's order. [`deprecation`] sorts them.
    pub deprecations: Vec<Deprecation>,
    /// The major version that is left behind when an edge leads to a higher one: worth a warning.
    pub leaves_major: Option<u64>,
}

/// `status.availableUpdate`: higher than what is installed and than what was chosen; only the range excludes it.
#[derive(Debug, Clone, PartialEq)]
pub struct AvailableUpdate {
    /// The bundle's name.
    pub bundle: String,
    /// Its version.
    pub version: Version,
}

impl Resolution {
    /// What to run: the chosen bundle, or what is installed where that [may stay](Self::may_stay).
    ///
    /// # Errors
    /// The outcome's, when nothing was chosen and what is installed may not stay without an error. It is to be
    /// maintained nevertheless.
    pub fn target(&self, query: &Query) -> Result<Target, ResolveError> {
        match (&self.outcome, &query.installed) {
            (Ok(bundle), _) => Ok(Target::Bundle(Box::new(bundle.clone()))),
            (Err(_), Some(installed)) if self.may_stay => Ok(Target::Installed(installed.clone())),
            (Err(error), _) => Err(error.clone()),
        }
    }
}

impl ResolvedBundle {
    /// The entries that apply to a reader who asks about this bundle: package, all channels, the bundle itself.
    pub fn applying_deprecations(&self) -> impl Iterator<Item = &Deprecation> {
        deprecation::applying(&self.deprecations, &self.name)
    }
}

/// Chooses a bundle for `query` among `catalogs`, whatever their order.
pub fn resolve(query: &Query, catalogs: &[Catalog<'_>]) -> Resolution {
    let view = match View::of(query, catalogs) {
        Ok(view) => view,
        Err(error) => return Resolution::without_view(query, error),
    };
    let (outcome, choice) = view.outcome();
    let message = report::message::of(&view, &outcome, &choice);
    Resolution {
        may_stay: outcome.is_err() && view.may_stay(),
        available_update: view.available_update(&choice),
        outcome,
        message,
    }
}

impl Resolution {
    /// When the question itself is wrong.
    fn without_view(query: &Query, error: ResolveError) -> Self {
        Self {
            message: report::message::without_view(query, &error),
            outcome: Err(error),
            may_stay: false,
            available_update: None,
        }
    }
}

#[cfg(test)]
mod brute;
#[cfg(test)]
mod tests;

//! What the resolver is asked, and what its answer means for the status.

use std::sync::Arc;

use crate::api::cluster_catalog::AvailabilityMode;
use crate::api::cluster_extension::{AvailableUpdate, CatalogFilter, UpgradeConstraintPolicy};
use crate::api::condition::Reason;
use crate::api::{ClusterCatalog, ClusterExtension};
use crate::fbc::package::PackageContents;
use crate::resolve::deprecation::Messages;
use crate::resolve::{
    self, Availability, Catalog, Content, Installed, MajorUpgrades, Query, Resolution,
    UpgradePolicy,
};
use crate::revision::BundleIdentity;
use crate::serve::Served;
use crate::status::cluster_extension as status;

/// The question that an extension asks.
pub(crate) fn query(
    extension: &ClusterExtension,
    installed: Option<&BundleIdentity>,
    major: MajorUpgrades,
) -> Query {
    let filter = filter(extension);
    Query {
        package: filter.package_name,
        version: filter.version.unwrap_or_default(),
        channels: filter.channels,
        selector: filter.selector,
        policy: match filter.upgrade_constraint_policy {
            UpgradeConstraintPolicy::CatalogProvided => UpgradePolicy::CatalogProvided,
            UpgradeConstraintPolicy::SelfCertified => UpgradePolicy::SelfCertified,
        },
        installed: installed.map(installed_of),
        major_upgrades: major,
    }
}

/// `spec.source.catalog`; admission makes sure that it is there.
fn filter(extension: &ClusterExtension) -> CatalogFilter {
    extension.spec.source.catalog.clone().unwrap_or_default()
}

fn installed_of(bundle: &BundleIdentity) -> Installed {
    Installed {
        name: bundle.name.clone(),
        version: bundle.version.clone(),
        release: bundle.release.clone(),
        catalog: bundle.catalog.clone(),
        digest: bundle.digest.clone(),
    }
}

/// Reads the package from every catalog that is served here and resolves. Reads files: not for an async task.
pub(super) fn resolve(
    query: &Query,
    catalogs: &[Arc<ClusterCatalog>],
    served: &Served,
) -> Resolution {
    let packages: Vec<Package> = catalogs
        .iter()
        .map(|catalog| package(query, catalog, served))
        .collect();
    let views: Vec<Catalog<'_>> = catalogs
        .iter()
        .zip(&packages)
        .map(|(catalog, package)| view(catalog, package))
        .collect();
    resolve::resolve(query, &views)
}

/// What one catalog holds of the package.
#[derive(Debug)]
pub(crate) enum Package {
    /// The catalog is not served.
    NotServed,
    /// There is no such package.
    None,
    /// All that is needed to resolve.
    Contents(PackageContents),
    /// Why it cannot be read.
    Unreadable(String),
}

impl Package {
    /// A package that was read from a catalog, or not, as the resolver is told.
    pub(crate) fn of<E: std::error::Error + 'static>(
        name: &str,
        read: Result<Option<PackageContents>, E>,
    ) -> Self {
        match read {
            Ok(Some(contents)) => Self::Contents(contents),
            Ok(None) => Self::None,
            Err(error) => Self::Unreadable(format!(
                "error loading package {name:?}: {}",
                crate::error::chain(&error)
            )),
        }
    }

    /// What the resolver reads of it, in the catalog `name`.
    pub(crate) fn content(&self, name: &str) -> Content<'_> {
        match self {
            Self::NotServed => Content::Unreadable(format!("catalog {name:?} is not being served")),
            Self::None => Content::NoSuchPackage,
            Self::Contents(contents) => Content::Package(contents),
            Self::Unreadable(why) => Content::Unreadable(why.clone()),
        }
    }
}

fn package(query: &Query, catalog: &ClusterCatalog, served: &Served) -> Package {
    let name = catalog.metadata.name.as_deref().unwrap_or_default();
    let Some(content) = served.get(name) else {
        return Package::NotServed;
    };
    Package::of(&query.package, content.package(&query.package))
}

/// A catalog as the resolver sees it.
pub(crate) fn view<'a>(catalog: &ClusterCatalog, package: &'a Package) -> Catalog<'a> {
    let name = catalog.metadata.name.clone().unwrap_or_default();
    Catalog {
        labels: catalog.metadata.labels.clone().unwrap_or_default(),
        priority: catalog.spec.priority,
        availability: match catalog.spec.availability_mode {
            AvailabilityMode::Available => Availability::Available,
            AvailabilityMode::Unavailable => Availability::Unavailable,
        },
        serving: !matches!(package, Package::NotServed),
        content: package.content(&name),
        name,
    }
}

/// The resolver's answer as the status shows it. Deprecations are those of `installed`.
pub(super) fn resolution_status(
    resolution: &Resolution,
    query: &Query,
    installed: Option<&BundleIdentity>,
) -> status::Resolution {
    let reason = match &resolution.outcome {
        Ok(_) => Reason::Resolved,
        Err(error) => Reason::parse(error.reason().as_str()).unwrap_or(Reason::PackageNotFound),
    };
    let deprecations = resolution.outcome.as_ref().ok().map(|bundle| {
        let messages = Messages::of(
            &bundle.deprecations,
            &query.channels,
            installed.map(|one| one.name.as_str()),
        );
        status::Deprecations {
            package: messages.package,
            channel: messages.channel,
            bundle: messages.bundle,
        }
    });
    status::Resolution {
        reason,
        message: resolution.message.clone(),
        deprecations,
        available_update: resolution
            .available_update
            .as_ref()
            .map(|update| AvailableUpdate {
                version: update.version.to_string(),
                bundle: update.bundle.clone(),
            }),
    }
}

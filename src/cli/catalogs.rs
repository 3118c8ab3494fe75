//! Catalogs in commands, files or those of a cluster: opened, and asked for a package.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context as _, ensure};
use clap::Args;
use kube::ResourceExt as _;

use super::cluster::{Cluster, ClusterOptions, served_at};
use super::source::{self, Sources};
use crate::api::ClusterCatalog;
use crate::controller::cluster_extension::choose::{self, Package};
use crate::error::chain;
use crate::fbc::meta::Meta;
use crate::fbc::package::{PackageContents, PackageError, Packages};
use crate::fbc::read::{Metas, StreamError};
use crate::resolve::error::EmptiedBy;
use crate::resolve::{
    Availability, Catalog, Content, Query, Resolution, ResolveError, ResolvedBundle, resolve,
};
use crate::store::catalog;

/// Where packages are looked up.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Catalogs {
    /// A catalog: a directory or a file of JSON or YAML, or an image; may be repeated
    #[arg(
        long = "catalog",
        value_name = "[NAME=]PATH|IMAGE",
        conflicts_with = "cluster"
    )]
    pub(super) files: Vec<String>,
    /// Choose from the catalogs of the cluster that the kubeconfig names
    #[arg(long)]
    pub(super) cluster: bool,
    #[command(flatten)]
    pub(super) live: ClusterOptions,
}

/// A catalog to choose from.
#[derive(Debug)]
pub(super) struct Source {
    /// Its name, labels, priority and availability, without content.
    pub(super) catalog: Catalog<'static>,
    /// What it holds of the package.
    pub(super) package: Package,
}

impl Catalogs {
    /// The bundle that a new extension would get.
    ///
    /// # Errors
    /// When there is no catalog, one cannot be read, or none has a bundle: that one is [`Unresolved`].
    pub(super) fn choose(
        &self,
        sources: &Sources,
        query: &Query,
    ) -> anyhow::Result<ResolvedBundle> {
        let asks_cluster = self.cluster || (self.files.is_empty() && self.live.name_a_cluster());
        let found = if asks_cluster {
            of_cluster(&self.live.connect()?, &query.package)?
        } else {
            ensure!(
                !self.files.is_empty(),
                "{} is no file, directory or image, and to look it up as a package takes --catalog or --cluster",
                query.package
            );
            of_files(&self.files, sources, &query.package)?
        };
        let Resolution {
            outcome, message, ..
        } = resolve(query, &views(&found));
        outcome.map_err(|error| {
            let help = self.help(&query.package, &error, message, &found);
            Unresolved { error, help }.into()
        })
    }

    /// What there is instead, and which command tells more.
    fn help(
        &self,
        package: &str,
        error: &ResolveError,
        message: String,
        found: &[Source],
    ) -> String {
        let ResolveError::NoBundles { emptied_by, .. } = error else {
            return message;
        };
        let names = found.iter().map(|source| source.catalog.name.as_str());
        let more = match (emptied_by, self.files.is_empty()) {
            (EmptiedBy::Selection, _) => return message,
            (EmptiedBy::Package, true) => names
                .map(|name| format!("oxolm catalog list cluster:{name}"))
                .collect::<Vec<_>>(),
            (EmptiedBy::Package, false) => (self.files.iter())
                .map(|file| format!("oxolm catalog list {file}"))
                .collect(),
            (EmptiedBy::Channels | EmptiedBy::Range | EmptiedBy::Edges, is_cluster) => {
                let mut line = format!("oxolm resolve {package}");
                if is_cluster {
                    line.push_str(" --cluster");
                }
                for file in &self.files {
                    line = format!("{line} --catalog {file}");
                }
                vec![line + " --all"]
            }
        };
        format!("{message}; to see what there is: {}", more.join(", "))
    }
}

/// No bundle was chosen.
#[derive(Debug)]
pub(super) struct Unresolved {
    /// Why, in the words of conditions.
    pub(super) error: ResolveError,
    /// What there is instead.
    help: String,
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Of a catalog that cannot be read the help says why, too.
        if matches!(self.error, ResolveError::CatalogUnavailable { .. }) {
            return f.write_str(&self.help);
        }
        write!(f, "{}: {}", self.error, self.help)
    }
}

impl std::error::Error for Unresolved {}

/// What resolution sees of the catalogs.
pub(super) fn views(sources: &[Source]) -> Vec<Catalog<'_>> {
    sources
        .iter()
        .map(|source| Catalog {
            content: source.package.content(&source.catalog.name),
            ..source.catalog.clone()
        })
        .collect()
}

/// What the catalogs `[NAME=]PATH|IMAGE` hold of a package; each has priority 0.
///
/// # Errors
/// When one cannot be read, or two have the same name.
pub(super) fn of_files(
    texts: &[String],
    images: &Sources,
    package: &str,
) -> anyhow::Result<Vec<Source>> {
    let mut sources: Vec<Source> = Vec::new();
    for text in texts {
        let (name, source) = source::named(text)?;
        ensure!(
            sources.iter().all(|source| source.catalog.name != name),
            "two catalogs are called {name:?}: name them with --catalog NAME=…"
        );
        let read = catalog::packages(images.catalog(source)?.path())
            .with_context(|| format!("cannot read catalog {source}"))?
            .remove(package)
            .transpose();
        sources.push(of_file(name, Package::of(package, read)));
    }
    Ok(sources)
}

/// What a catalog that is no cluster's holds of a package; it has priority 0.
fn of_file(name: String, package: Package) -> Source {
    Source {
        catalog: Catalog {
            name,
            labels: BTreeMap::new(),
            priority: 0,
            availability: Availability::Available,
            serving: true,
            content: Content::NoSuchPackage,
        },
        package,
    }
}

/// A package that was read from the catalog `name`; it has priority 0.
pub(super) fn of_contents(
    name: &str,
    package: &str,
    read: Result<PackageContents, PackageError>,
) -> Source {
    of_file(name.to_owned(), Package::of(package, read.map(Some)))
}

/// What the catalogs of a cluster hold of a package.
///
/// # Errors
/// When the cluster does not say which there are.
pub(super) fn of_cluster(cluster: &Cluster, name: &str) -> anyhow::Result<Vec<Source>> {
    of_cluster_with(cluster, name, &mut |_, _| {})
}

/// Like [`of_cluster`]; `see` is shown every blob with the name of its catalog.
///
/// # Errors
/// When the cluster does not say which there are.
pub(super) fn of_cluster_with(
    cluster: &Cluster,
    name: &str,
    see: &mut dyn FnMut(&str, &Meta),
) -> anyhow::Result<Vec<Source>> {
    let catalogs = cluster.catalogs()?.into_iter();
    let source = |catalog: ClusterCatalog| {
        let package = package(cluster, &catalog, name, see);
        Source {
            catalog: Catalog {
                serving: !matches!(package, Package::NotServed),
                ..choose::view(&catalog, &Package::None)
            },
            package,
        }
    };
    Ok(catalogs.map(source).collect())
}

/// What one catalog holds of the package. A catalog that cannot be read is part of the answer, not the end of it.
fn package(
    cluster: &Cluster,
    catalog: &ClusterCatalog,
    name: &str,
    see: &mut dyn FnMut(&str, &Meta),
) -> Package {
    if served_at(catalog).is_none() {
        return Package::NotServed;
    }
    let query: String = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("package", name)
        .finish();
    let read = cluster.content(catalog, &format!("metas?{query}"));
    let mut see = |meta: &Meta| see(&catalog.name_any(), meta);
    match read.map(|content| read_package(content, name, &mut see)) {
        Ok(Ok(read)) => Package::of(name, read.transpose()),
        Ok(Err(error)) => Package::Unreadable(chain(&error)),
        Err(error) => Package::Unreadable(chain(error.as_ref())),
    }
}

/// A package, if there is one and it can be read.
type Read = Option<Result<PackageContents, PackageError>>;

fn read_package(
    content: impl std::io::Read,
    name: &str,
    see: &mut dyn FnMut(&Meta),
) -> Result<Read, StreamError> {
    let mut packages = Packages::default();
    for located in Metas::new(content) {
        let meta = located?.meta;
        see(&meta);
        packages.add(&meta);
    }
    let mut packages: BTreeMap<_, _> = packages.finish();
    Ok(packages.remove(name))
}

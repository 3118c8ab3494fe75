//! The question of an extension, and the catalogs of its cluster.

use std::collections::BTreeMap;

use kube::ResourceExt as _;

use super::super::cluster::{Cluster, served_at};
use super::{Resolve, Source};
use crate::api::{ClusterCatalog, ClusterExtension, ClusterObjectSet};
use crate::controller::cluster_extension::choose::{self, Package};
use crate::fbc::package::{PackageContents, PackageError, Packages};
use crate::fbc::read::{Metas, StreamError};
use crate::resolve::{Catalog, MajorUpgrades, Query};
use crate::revision;

/// What is asked, and what it is answered from.
pub(super) fn question(arguments: &Resolve) -> anyhow::Result<(Query, Vec<Source>)> {
    let cluster = arguments.live.connect()?;
    let query = match &arguments.extension {
        None => Query::default(),
        Some(name) => {
            let (extension, sets) = cluster.extension(name)?;
            query_of(&extension, &sets)
        }
    };
    let query = arguments.amend(query)?;
    let mut sources: Vec<Source> = Vec::new();
    for catalog in cluster.catalogs()? {
        let package = package(&cluster, &catalog, &query.package);
        let catalog = Catalog {
            serving: !matches!(package, Package::NotServed),
            ..choose::view(&catalog, &Package::None)
        };
        sources.push(Source { catalog, package });
    }
    arguments.prioritize(&mut sources)?;
    Ok((query, sources))
}

fn query_of(extension: &ClusterExtension, sets: &[ClusterObjectSet]) -> Query {
    let identity = revision::Extension {
        name: extension.name_any(),
        uid: extension.uid().unwrap_or_default(),
        account: None,
    };
    let revisions = revision::revisions_of(sets, &identity);
    let installed = revision::states(&revisions).installed;
    let installed = installed.map(|revision| revision.bundle);
    choose::query(extension, installed.as_ref(), MajorUpgrades::Edges)
}

/// What one catalog holds of the package. A catalog that cannot be read is part of the answer, not the end of it.
fn package(cluster: &Cluster, catalog: &ClusterCatalog, name: &str) -> Package {
    if served_at(catalog).is_none() {
        return Package::NotServed;
    }
    let query: String = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("package", name)
        .finish();
    let read = cluster.content(catalog, &format!("metas?{query}"));
    match read.map(|content| read_package(content, name)) {
        Ok(Ok(read)) => Package::of(name, read.transpose()),
        Ok(Err(error)) => Package::Unreadable(error.to_string()),
        Err(error) => Package::Unreadable(format!("{error:#}")),
    }
}

/// A package, if there is one and it can be read.
type Read = Option<Result<PackageContents, PackageError>>;

fn read_package(content: impl std::io::Read, name: &str) -> Result<Read, StreamError> {
    let mut packages = Packages::default();
    for located in Metas::new(content) {
        packages.add(&located?.meta);
    }
    let mut packages: BTreeMap<_, _> = packages.finish();
    Ok(packages.remove(name))
}

//! The question of an extension, and the catalogs of its cluster.

use kube::ResourceExt as _;

use super::super::catalogs::{self, Source};
use super::Resolve;
use crate::api::{ClusterExtension, ClusterObjectSet};
use crate::controller::cluster_extension::choose;
use crate::resolve::{MajorUpgrades, Query};
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
    let mut sources = catalogs::of_cluster(&cluster, &query.package)?;
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

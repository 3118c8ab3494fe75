//! What an extension of a cluster has: the objects of its revisions, as they stand.

use anyhow::Context as _;
use kube::ResourceExt as _;
use serde_json::Value;

use crate::api::cluster_object_set::LifecycleState;
use crate::api::keys;
use crate::apply::survey::manifests;
use crate::cli::cluster::Cluster;
use crate::cli::installed::owner;
use crate::revision::revisions_of;

/// The objects of an extension's revisions: of those that are active, and of those that are not taken down yet.
#[derive(Debug)]
pub(in crate::cli) struct Held {
    /// The package.
    pub(in crate::cli) package: String,
    /// The revisions, by number, each with its manifests.
    pub(in crate::cli) revisions: Vec<(String, Vec<Value>)>,
}

impl Held {
    /// What `extension` has in `cluster`.
    ///
    /// # Errors
    /// When there is no such extension, or its revisions cannot be read.
    pub(in crate::cli) fn by(
        cluster: &Cluster,
        extension: &str,
        system_namespace: &str,
    ) -> anyhow::Result<Self> {
        let (found, sets) = cluster.extension(extension)?;
        let catalog = found.spec.source.catalog.as_ref();
        let package = catalog.map(|catalog| catalog.package_name.clone());
        let mut revisions = Vec::new();
        for revision in revisions_of(&sets, &owner(&found)) {
            let Some(set) = sets.iter().find(|set| set.name_any() == revision.name) else {
                continue;
            };
            let mut finalizers = set.finalizers().iter();
            let is_left = revision.state == LifecycleState::Active
                || finalizers.any(|finalizer| finalizer == keys::FINALIZER_TEARDOWN);
            if is_left {
                let read = cluster
                    .ask(|client| async move { manifests(&client, system_namespace, set).await });
                let read = read.with_context(|| {
                    format!("cannot read what revision {} holds", revision.name)
                })?;
                revisions.push((revision.name, read));
            }
        }
        Ok(Self {
            // The API server lets none in without a package.
            package: package.unwrap_or_default(),
            revisions,
        })
    }
}

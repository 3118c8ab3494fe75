//! What a cluster has installed of the package that an account is to install: whoever computes rights needs it, since the
//! controller keeps to it.

use anyhow::Context as _;
use kube::ResourceExt as _;

use super::cluster::{Cluster, UnknownKind};
use crate::api::{ClusterExtension, ClusterObjectSet};
use crate::render::Provider;
use crate::revision::{Account, Extension, Revision, revisions_of, states};

/// An extension of the package, in the namespace and by the account that are asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Installed {
    /// The name of the extension.
    pub(super) extension: String,
    /// The version that it has; none while nothing is installed.
    pub(super) version: Option<String>,
    /// Who makes the certificates of its webhooks, and the revision that recorded it.
    pub(super) certificates: Option<(Provider, String)>,
}

impl Installed {
    /// The extension of `package` that `account` installs in its namespace, if the cluster has one.
    ///
    /// # Errors
    /// When the API server does not answer, or does not show extensions and revisions.
    pub(super) fn find(
        cluster: &Cluster,
        package: &str,
        account: &Account,
    ) -> anyhow::Result<Option<Self>> {
        let extensions = match cluster.extensions() {
            Ok(extensions) => extensions,
            // Where there is no oxolm, nothing is installed by it.
            Err(error) if error.is::<UnknownKind>() => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut candidates = extensions
            .into_iter()
            .filter(|extension| is_of(extension, package, account))
            .peekable();
        if candidates.peek().is_none() {
            return Ok(None);
        }
        let sets = cluster
            .sets()
            .context("cannot tell what is installed already")?;
        let found = candidates.filter_map(|extension| Self::of(&extension, &sets, account));
        // Two of them cannot both be in place: the one that has something counts.
        Ok(found.max_by_key(|one| (one.version.is_some(), one.certificates.is_some())))
    }

    /// What `extension` has; none when another account installs it.
    fn of(
        extension: &ClusterExtension,
        sets: &[ClusterObjectSet],
        account: &Account,
    ) -> Option<Self> {
        let identity = Extension {
            name: extension.name_any(),
            uid: extension.uid().unwrap_or_default(),
            account: Some(account.clone()),
        };
        let revisions = revisions_of(sets, &identity);
        // Where the spec names no account, it is the controller's default one, which revisions tell.
        if extension.spec.service_account_name().is_none()
            && let Some(used) = revisions.iter().rev().find_map(|one| one.account.as_ref())
            && used != account
        {
            return None;
        }
        let recorded = |revision: &Revision| {
            let provider = Provider::parse(revision.webhook_certificates.as_deref()?)?;
            Some((provider, revision.name.clone()))
        };
        Some(Self {
            extension: identity.name,
            version: states(&revisions)
                .installed
                .map(|revision| revision.bundle.version),
            // As the controller: the newest record counts, whatever became of its revision.
            certificates: revisions.iter().rev().find_map(recorded),
        })
    }
}

/// Whose revisions are asked for, with the account that the spec names.
pub(super) fn owner(extension: &ClusterExtension) -> Extension {
    let account = extension.spec.service_account_name();
    Extension {
        name: extension.name_any(),
        uid: extension.metadata.uid.clone().unwrap_or_default(),
        account: account.map(|name| Account {
            namespace: extension.spec.namespace.clone(),
            name: name.to_owned(),
        }),
    }
}

fn is_of(extension: &ClusterExtension, package: &str, account: &Account) -> bool {
    let spec = &extension.spec;
    let catalog = spec.source.catalog.as_ref();
    spec.namespace == account.namespace
        && catalog.is_some_and(|catalog| catalog.package_name == package)
        && spec
            .service_account_name()
            .is_none_or(|name| name == account.name)
}

//! What of an extension is on the cluster, read from its revisions.

use kube::ResourceExt;

use super::Context;
use crate::api::ClusterExtension;
use crate::api::cluster_extension::BundleMetadata;
use crate::revision::{self, Account, BundleIdentity, Extension, Revision};
use crate::status::cluster_extension::{self as status, Observed};

pub(super) fn identity_of(extension: &ClusterExtension, account: Option<Account>) -> Extension {
    Extension {
        name: extension.name_any(),
        uid: extension.uid().unwrap_or_default(),
        account,
    }
}

pub(super) fn revisions(extension: &Extension, ctx: &Context) -> Vec<Revision> {
    let sets = ctx.sets.all();
    revision::revisions_of(sets.iter().map(AsRef::as_ref), extension)
}

pub(super) fn observed(revisions: &[Revision]) -> Observed {
    let states = revision::states(revisions);
    Observed {
        installed: states.installed.as_ref().map(revision_status),
        rolling_out: states.rolling_out.iter().map(revision_status).collect(),
    }
}

pub(super) fn with_created(mut observed: Observed, created: Option<status::Revision>) -> Observed {
    if let Some(created) = created
        && !observed
            .rolling_out
            .iter()
            .any(|revision| revision.name == created.name)
    {
        observed.rolling_out.push(created);
    }
    observed
}

fn revision_status(revision: &Revision) -> status::Revision {
    status::Revision {
        name: revision.name.clone(),
        number: revision.number,
        bundle: bundle_metadata(&revision.bundle),
        reference: revision.bundle.reference.clone(),
        catalog: revision.bundle.catalog.clone(),
        conditions: revision.conditions.clone(),
    }
}

pub(super) fn bundle_metadata(bundle: &BundleIdentity) -> BundleMetadata {
    BundleMetadata {
        name: bundle.name.clone(),
        version: bundle.version.clone(),
        release: bundle.release.clone(),
    }
}

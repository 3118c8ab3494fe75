//! What of an extension is on the cluster, read from its revisions.

use kube::ResourceExt;

use super::Context;
use crate::api::ClusterExtension;
use crate::api::cluster_extension::BundleMetadata;
use crate::api::condition::{self, ConditionType, Reason};

use crate::revision::{self, Account, BundleIdentity, Extension, Revision};
use crate::status::cluster_extension::{self as status, Observed, Warning};

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

/// The archived revisions that cannot be taken down: nobody looks at them any more, and what they alone hold stays.
pub(super) fn stuck(revisions: &[Revision]) -> impl Iterator<Item = Warning> {
    let archived = revisions.iter();
    let archived = archived.filter(|revision| !revision.is_active() && revision.is_observed);
    archived.filter_map(|revision| {
        let progressing = condition::find(&revision.conditions, ConditionType::Progressing)?;
        let is_stuck = [Reason::Retrying, Reason::Blocked]
            .iter()
            .any(|reason| progressing.reason == reason.as_str());
        is_stuck.then(|| Warning {
            reason: Reason::TeardownStuck,
            sentence: format!(
                "Revision {} cannot be taken down: {}",
                revision.name, progressing.message
            ),
        })
    })
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_archived_revision_that_is_stuck_is_told() {
        let told_of = |state: &str, reason: &str, observed: i64| {
            let set = serde_json::from_value(json!({
                "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
                "metadata": {"name": "e-1", "generation": 2, "ownerReferences": [
                    {"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "e", "uid": "e", "controller": true},
                ]},
                "spec": {"revision": 1, "lifecycleState": state, "collisionProtection": "Prevent", "phases": []},
                "status": {"observedGeneration": observed, "conditions": [{"type": "Progressing", "status": "True", "reason": reason, "message": "m",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
            }));
            let extension = Extension {
                name: "e".into(),
                uid: "e".into(),
                account: None,
            };
            let revisions = revision::revisions_of([&set.unwrap()], &extension);
            let told = stuck(&revisions).next();
            told.map(|warning| warning.sentence)
        };
        let told = |state: &str, reason: &str| told_of(state, reason, 2);
        let expected = "Revision e-1 cannot be taken down: m";
        // What its rollout said before it was archived is not meant.
        assert_eq!(told_of("Archived", "Retrying", 1), None);
        assert_eq!(told("Archived", "Retrying").as_deref(), Some(expected));
        assert_eq!(told("Archived", "Archived"), None);
        assert_eq!(told("Active", "Retrying"), None);
    }
}

//! What each reason of a condition means, and what somebody who meets it can do.
//!
//! One table for `oxolm status`, which tells the next step, and for `config/conditions.md`, which is made from it. A
//! reason without an entry does not compile.

use crate::api::condition::Reason;

/// What a reason tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// How it comes to be.
    pub cause: &'static str,
    /// What to do; `None` where there is nothing to do.
    pub remedy: Option<&'static str>,
}

pub(super) const fn fine(cause: &'static str) -> Meaning {
    Meaning {
        cause,
        remedy: None,
    }
}

pub(super) const fn act(cause: &'static str, remedy: &'static str) -> Meaning {
    Meaning {
        cause,
        remedy: Some(remedy),
    }
}

/// The meaning of a reason.
pub const fn meaning(reason: Reason) -> Meaning {
    match reason {
        Reason::Succeeded => fine("What the spec asks for is in place."),
        Reason::RollingOut => fine(
            "A revision is being applied, or its objects do not pass their probes yet; the message says which.",
        ),
        Reason::Reconciling => fine("Work is under way, or its last look ended in an error."),
        Reason::ProbesSucceeded => fine("All objects pass their probes."),
        Reason::Archived => {
            fine("A newer revision took over; the objects that it dropped are deleted.")
        }
        Reason::Migrated => {
            fine("The revision was made from the Helm release of an older controller.")
        }
        Reason::NotDeprecated => fine("No catalog calls it deprecated."),
        Reason::Available => fine("The catalog's content is served."),
        Reason::UserSpecifiedUnavailable => fine(
            "spec.availabilityMode of the catalog is Unavailable: it is not served on purpose.",
        ),
        Reason::Resolved => fine("A bundle is chosen; the message names it."),
        Reason::Ready => fine("Everything is as the spec asks."),
        Reason::Uninstalling => fine(
            "The object is deleted, and what it installed is being removed; the message says what is left.",
        ),
        Reason::Failed => act(
            "No bundle is installed, because the last attempt failed.",
            "Read condition Progressing: it has the error.",
        ),
        Reason::Absent => act(
            "Nothing is installed, chosen or served yet.",
            "Wait; when it lasts, conditions Progressing and Resolved say what is missing.",
        ),
        Reason::Retrying => act(
            "Something failed that time or somebody else can heal; it is tried again, at the latest after five minutes.",
            "Do what the message says: a missing account, permission, namespace or registry is named there; colliding objects are taken over with annotation oxolm.dev/adopt, or deleted, but no CustomResourceDefinition, which takes its resources with it. Nothing has to be restarted.",
        ),
        Reason::Blocked => act(
            "What the spec asks for cannot be done, and trying again would not help.",
            "Change the spec, or the bundle or catalog that the message names; that alone starts another attempt.",
        ),
        Reason::InvalidConfiguration => act(
            "spec.config does not fit what the bundle accepts; the message lists every violation.",
            "Correct spec.config; `oxolm bundle show` lists what the bundle accepts.",
        ),
        Reason::ProgressDeadlineExceeded => act(
            "The objects of a revision did not pass their probes within spec.progressDeadlineMinutes.",
            "Look at the objects that condition Available names (`oxolm status NAME`); a changed spec or a newer bundle supersedes the revision.",
        ),
        Reason::ProbeFailure => act(
            "An object does not pass its probe; the message names it and the probe.",
            "Look at that object and its Pods: kubectl describe, kubectl logs.",
        ),
        Reason::Deprecated => act(
            "The catalog calls the package, a channel that is asked for, or the installed bundle deprecated.",
            "Follow the catalog's message; it usually names what to use instead.",
        ),
        Reason::DeprecationStatusUnknown => act(
            "No selected catalog could be read, so nobody knows whether it is deprecated.",
            "Look at the catalogs: kubectl get clustercatalog.",
        ),
        Reason::Unavailable => act(
            "The catalog's content could not be pulled or stored, and there is none from before.",
            "Read the catalog's condition Progressing: reference, endpoint and status are named there.",
        ),
        Reason::PackageNotFound => act(
            "No selected catalog has the package.",
            "Check packageName and the catalogs: `oxolm catalog list cluster:NAME`.",
        ),
        Reason::NoMatchingVersion => act(
            "The package exists, but the version range excludes every bundle.",
            "Change spec.source.catalog.version; `oxolm range explain` says what a range admits.",
        ),
        Reason::NoUpgradePath => act(
            "Bundles fit the range, but no upgrade edge leads there from the installed one.",
            "Go by the hops that the message names, or force it with upgradeConstraintPolicy: SelfCertified.",
        ),
        Reason::NoMatchingChannel => act(
            "The channels that are asked for hold no bundle of the package.",
            "Correct spec.source.catalog.channels; the message lists those that exist.",
        ),
        Reason::AmbiguousCatalogs => act(
            "Several catalogs of the same priority offer a bundle, and nothing decides between them.",
            "Give one a higher spec.priority, or select one with spec.source.catalog.selector.",
        ),
        Reason::CatalogUnavailable => act(
            "A selected catalog cannot be read, and without it the answer could be wrong.",
            "Mend that catalog, or leave it out with a selector; what is installed is kept up meanwhile.",
        ),
        Reason::NoCatalogSelected => act(
            "The selector matches no catalog, or there is none.",
            "Create a ClusterCatalog, or correct spec.source.catalog.selector.",
        ),
        Reason::InvalidVersionRange => act(
            "spec.source.catalog.version is no version range; the message says where it ends to be one.",
            "Correct it; `oxolm range check` tries a range without a cluster.",
        ),
        Reason::InvalidSelector => act(
            "spec.source.catalog.selector is no label selector.",
            "Correct it as the message says.",
        ),
        Reason::InvalidInstalledVersion => act(
            "The version that is recorded for the installed bundle is none.",
            "Correct annotation olm.operatorframework.io/bundle-version of the revision, or install another version with SelfCertified.",
        ),
        Reason::UnsupportedBundle => act(
            "The chosen bundle is of a format or needs an install mode that this API does not have.",
            "Choose another version or package; `oxolm bundle validate` tells what is not supported.",
        ),
        Reason::UnmetDependency => act(
            "The bundle depends on other packages or APIs, which are not installed for it.",
            "Choose a version without dependencies; `oxolm bundle show` lists them.",
        ),
        Reason::NotReady => act(
            "Something is not as the spec asks.",
            "Read the other conditions: one of them says what.",
        ),
        Reason::CrdFindings => act(
            "A changed CustomResourceDefinition may break clients or stored resources.",
            "Read the findings; `oxolm crd check --cluster` tells what to do about each.",
        ),
        Reason::ClusterUpgradeBlocked => act(
            "The installed bundle does not support the next OpenShift minor version, so the cluster's update is blocked.",
            "Upgrade the extension; `oxolm upgradeable` names the version that suffices.",
        ),
        Reason::PermissionsGained => act(
            "The new version gives more rights than the one before; the message lists them, and who gets them.",
            "Check that you want it to; pin spec.source.catalog.version to stay.",
        ),
        Reason::PermissionsMissing => act(
            "The service account has lost rights since the installation; what is installed runs on, but may not be mended or removed.",
            "Grant them again: `oxolm rbac generate` prints the roles.",
        ),
        Reason::BundleContentChanged => act(
            "The catalog offers other content under the name and version that is installed.",
            "Ask the catalog's author why; annotation oxolm.dev/accept-digest on the extension takes the new content.",
        ),
        Reason::MajorUpgrade => act(
            "An automatic upgrade goes to another major version.",
            "Check the release notes; a range such as 1.x keeps to one major version.",
        ),
        Reason::CrdsKept => act(
            "CustomResourceDefinitions stay although nothing wants them any more, since resources of them are stored.",
            "Delete the resources, then the definitions that the message names, if nobody needs them.",
        ),
        Reason::TeardownStuck => act(
            "A revision that was replaced cannot be taken down, so what it alone holds stays, its rights among it.",
            "Do what the message says.",
        ),
        Reason::NotWatched => act(
            "oxolm may not watch some of the kinds that are installed, so a change of theirs is seen later.",
            "If it matters, add the kinds to the chart's watchedKinds; Secrets, which the chart refuses there, are watched as the service account where it may list and watch them, in their namespace or by name: `oxolm rbac generate` grants the latter.",
        ),
        Reason::WatchedAsAccount => act(
            "oxolm may not watch some of the kinds that are installed, but the service account may: their changes are seen as it.",
            "Nothing has to be done; with the kinds in the chart's watchedKinds, oxolm watches them itself.",
        ),
        Reason::UnknownFields => act(
            "A manifest of the bundle has fields that the API server does not know; they are left out, the rest is installed.",
            "Tell the author of the bundle, who may have misspelt them; or the cluster is too old for them.",
        ),
        Reason::ChangedOnTheWay => act(
            "Fields of an object are not what its manifest says, since something changes them whenever the object is applied: a mutating admission webhook or policy.",
            "If this is what the cluster's policies are for, nothing has to be done; otherwise take the object out of their reach.",
        ),
        Reason::Contested => act(
            "Somebody, another controller perhaps, changes or deletes objects of a revision as often as oxolm brings them back.",
            "Find out who writes them (kubectl get --show-managed-fields), and make it stop; an autoscaler needs a Deployment whose manifest leaves replicas out; a Job with ttlSecondsAfterFinished deletes itself, and runs again.",
        ),
        Reason::UnknownAnnotation => act(
            "An annotation of oxolm's on the extension has no effect: its name or its value is none that oxolm knows.",
            "Correct it, or take it away.",
        ),
        Reason::SeveralWarnings => act(
            "More than one kind of warning; the message has each.",
            "Read them one by one.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_meaning_is_a_sentence() {
        for reason in Reason::ALL {
            let Meaning { cause, remedy } = meaning(*reason);
            for text in [Some(cause), remedy].into_iter().flatten() {
                assert!(text.ends_with('.'), "{reason}: {text}");
                assert!(!text.contains('|') && !text.contains('\n'), "{reason}");
            }
        }
    }
}

//! What Events tell beside the reasons of conditions, and what somebody who reads it can do.

use super::meaning::{Meaning, act, fine};

/// Something that happened. Its name is the reason of the Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// A revision was given up.
    Abandoned,
    /// All objects pass their probes.
    Available,
    /// A webhook certificate was made anew.
    CertificateRenewed,
    /// An object is somebody else's.
    Collision,
    /// A `CustomResourceDefinition` stays.
    CrdKept,
    /// Objects were brought back.
    DriftRepaired,
    /// A bundle is installed that was not.
    Installed,
    /// Objects were not taken down in order.
    LeftToGarbageCollector,
    /// The installed bundle is gone.
    NotInstalled,
    /// A catalog's content is no longer served.
    NotServing,
    /// An extension left what it installed.
    Orphaned,
    /// Objects were deleted and made anew.
    Replaced,
    /// A lower version is installed.
    RolledBack,
    /// A catalog's content is served.
    Serving,
    /// An object no longer passes its probe.
    Unavailable,
    /// Nothing is left of an extension.
    Uninstalled,
    /// Another bundle is installed.
    Upgraded,
}

impl News {
    /// All of them, by name.
    pub const ALL: [Self; 17] = [
        Self::Abandoned,
        Self::Available,
        Self::CertificateRenewed,
        Self::Collision,
        Self::CrdKept,
        Self::DriftRepaired,
        Self::Installed,
        Self::LeftToGarbageCollector,
        Self::NotInstalled,
        Self::NotServing,
        Self::Orphaned,
        Self::Replaced,
        Self::RolledBack,
        Self::Serving,
        Self::Unavailable,
        Self::Uninstalled,
        Self::Upgraded,
    ];

    /// The reason of the Event.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Abandoned => "Abandoned",
            Self::Available => "Available",
            Self::CertificateRenewed => "CertificateRenewed",
            Self::Collision => "Collision",
            Self::CrdKept => "CrdKept",
            Self::DriftRepaired => "DriftRepaired",
            Self::Installed => "Installed",
            Self::LeftToGarbageCollector => "LeftToGarbageCollector",
            Self::NotInstalled => "NotInstalled",
            Self::NotServing => "NotServing",
            Self::Orphaned => "Orphaned",
            Self::Replaced => "Replaced",
            Self::RolledBack => "RolledBack",
            Self::Serving => "Serving",
            Self::Unavailable => "Unavailable",
            Self::Uninstalled => "Uninstalled",
            Self::Upgraded => "Upgraded",
        }
    }

    /// What it means.
    pub const fn meaning(self) -> Meaning {
        match self {
            Self::Abandoned => fine(
                "Extension and namespace of an orphaned revision are gone, so it is deleted, with what is left of its objects.",
            ),
            Self::Available => fine("All objects pass their probes."),
            Self::CertificateRenewed => fine(
                "oxolm made a new certificate for the webhooks that the note names; no call was refused meanwhile.",
            ),
            Self::Collision => act(
                "Objects of the bundle are on the cluster already, and somebody else's; nothing was written.",
                "Remove them or their owner, or let the extension take them over: annotation oxolm.dev/adopt on it, `unowned` for objects without owner, `all` for any.",
            ),
            Self::CrdKept => act(
                "A CustomResourceDefinition is no longer wanted and stays, because resources of it are stored or may be.",
                "Delete the resources, then the definition, if nobody needs them; an extension of the same name, package, namespace and account takes it back.",
            ),
            Self::DriftRepaired => act(
                "Somebody deleted or changed objects of a revision; they are as the bundle has them again.",
                "Where it happens again and again, find out who writes them: kubectl get --show-managed-fields.",
            ),
            Self::Installed => fine("A bundle is installed where there was none."),
            Self::LeftToGarbageCollector => act(
                "An uninstall could not delete these objects in order; the garbage collector deletes those that have an owner.",
                "Look whether what the note names is gone; CustomResourceDefinitions stay.",
            ),
            Self::NotInstalled => act(
                "The revision of the installed bundle was deleted.",
                "Wait: another one is made from the spec; condition Progressing tells how far it is.",
            ),
            Self::NotServing => act(
                "The catalog's content is no longer served.",
                "Read the catalog's conditions; with spec.availabilityMode Unavailable it is meant to be so.",
            ),
            Self::Orphaned => act(
                "The extension was deleted with --cascade=orphan: what it installed runs on, and is kept up.",
                "An extension of the same name and account takes it back; to remove it, delete its ClusterObjectSets.",
            ),
            Self::Replaced => fine(
                "Kubernetes does not let these objects be changed into what the revision wants, so they were deleted and made anew; labels and annotations of others were kept.",
            ),
            Self::RolledBack => fine("A lower version than before is installed."),
            Self::Serving => fine("The catalog's content is served."),
            Self::Unavailable => act(
                "An object of the installed bundle no longer passes its probe; the note names it.",
                "Look at that object and its Pods: kubectl describe, kubectl logs.",
            ),
            Self::Uninstalled => fine("The extension and all that it installed are gone."),
            Self::Upgraded => fine("Another bundle than before is installed."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_listed_by_name() {
        let names = News::ALL.map(News::as_str);
        assert!(names.is_sorted());
        assert!(
            News::ALL
                .iter()
                .zip(names)
                .all(|(news, name)| format!("{news:?}") == name)
        );
    }
}

//! The closed vocabularies of conditions: types, statuses and reasons.
//!
//! Types and reasons of the reference are kept to the letter; `Resolved`, `Warnings` and the kstatus types
//! (`Ready`, `Reconciling`, `Stalled`) are additions of ours. Conditions are built in `status`, nowhere else.

use std::fmt;

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::error;

/// Declares a closed enum of words: each variant is the word on the wire.
macro_rules! words {
    ($(#[$outer:meta])* pub enum $name:ident { $($(#[$inner:meta])* $variant:ident,)+ }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$inner])* $variant,)+
        }

        impl $name {
            /// Every word, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant),)+
                }
            }

            /// The word that `text` is, if it is one of ours.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// What a condition is about.
    pub enum ConditionType {
        /// A bundle is installed (extension).
        Installed,
        /// The wanted state is reached or on its way (all three kinds).
        Progressing,
        /// The objects pass their probes (revision; mirrored on the extension).
        Available,
        /// All objects passed their probes once (revision); never removed.
        Succeeded,
        /// The content is served (catalog).
        Serving,
        /// Package, channel or bundle is deprecated (extension).
        Deprecated,
        /// The package is deprecated (extension).
        PackageDeprecated,
        /// The channel is deprecated (extension).
        ChannelDeprecated,
        /// The installed bundle is deprecated (extension).
        BundleDeprecated,
        /// A bundle could be chosen, or why not (extension). Ours.
        Resolved,
        /// Something to know, absent when there is nothing (all three kinds). Ours.
        Warnings,
        /// kstatus: the object is as wanted (all three kinds). Ours.
        Ready,
        /// kstatus: work is under way (all three kinds). Ours.
        Reconciling,
        /// kstatus: nothing will happen without a change by somebody (all three kinds). Ours.
        Stalled,
    }
}

words! {
    /// Whether a condition holds.
    pub enum ConditionStatus {
        /// It holds.
        True,
        /// It does not hold.
        False,
        /// It cannot be said.
        Unknown,
    }
}

words! {
    /// Why a condition is as it is.
    pub enum Reason {
        /// The wanted state is reached.
        Succeeded,
        /// It could not be done.
        Failed,
        /// There is nothing yet.
        Absent,
        /// It failed and is tried again.
        Retrying,
        /// It failed and is not tried again without a change.
        Blocked,
        /// The configuration is not what the bundle accepts.
        InvalidConfiguration,
        /// A revision is rolling out.
        RollingOut,
        /// A revision did not become available in time.
        ProgressDeadlineExceeded,
        /// The revision is taken down.
        Archived,
        /// All objects pass their probes.
        ProbesSucceeded,
        /// An object does not pass a probe.
        ProbeFailure,
        /// It cannot be said, since an error came in between; also: work is under way.
        Reconciling,
        /// A revision that was taken over from a Helm release.
        Migrated,
        /// The catalog says deprecated.
        Deprecated,
        /// The catalog does not say deprecated.
        NotDeprecated,
        /// No catalog could be asked.
        DeprecationStatusUnknown,
        /// The content is served.
        Available,
        /// The content is not served.
        Unavailable,
        /// The content is not served because the spec says so.
        UserSpecifiedUnavailable,
        /// A bundle is chosen.
        Resolved,
        /// No readable catalog has the package.
        PackageNotFound,
        /// No bundle of the package satisfies the version range.
        NoMatchingVersion,
        /// Bundles satisfy the spec, but no upgrade edge leads to one.
        NoUpgradePath,
        /// No bundle of the package is in the named channels.
        NoMatchingChannel,
        /// Several catalogs of the same priority have the package.
        AmbiguousCatalogs,
        /// A catalog that decides cannot be read.
        CatalogUnavailable,
        /// The selector matches no catalog, or there is none.
        NoCatalogSelected,
        /// The version range cannot be parsed.
        InvalidVersionRange,
        /// The catalog selector is not one.
        InvalidSelector,
        /// The version of the installed bundle cannot be parsed.
        InvalidInstalledVersion,
        /// The chosen bundle cannot be installed by this controller.
        UnsupportedBundle,
        /// The chosen bundle depends on something.
        UnmetDependency,
        /// kstatus: everything is as wanted.
        Ready,
        /// kstatus: not everything is as wanted.
        NotReady,
        /// The object is being deleted.
        Uninstalling,
        /// A change of a `CustomResourceDefinition` may break somebody.
        CrdFindings,
        /// An installed bundle blocks the upgrade of the cluster.
        ClusterUpgradeBlocked,
        /// The new version has more permissions than the one before.
        PermissionsGained,
        /// The account has less rights than when it installed.
        PermissionsMissing,
        /// The same name and version came with another digest.
        BundleContentChanged,
        /// An automatic upgrade crosses a major version.
        MajorUpgrade,
        /// CRDs stay although they are no longer wanted, since they are in use.
        CrdsKept,
        /// What an archived revision holds cannot be taken down.
        TeardownStuck,
        /// Changes of some kinds are not seen at once.
        NotWatched,
        /// Changes of some kinds are seen as the account.
        WatchedAsAccount,
        /// The API server does not know some fields of what is installed.
        UnknownFields,
        /// Admission changed what is installed on its way into the cluster.
        ChangedOnTheWay,
        /// Somebody else writes what is installed, again and again.
        Contested,
        /// An annotation of ours that says nothing.
        UnknownAnnotation,
        /// More than one kind of warning.
        SeveralWarnings,
    }
}

impl From<error::Reason> for Reason {
    fn from(reason: error::Reason) -> Self {
        match reason {
            error::Reason::Blocked => Self::Blocked,
            error::Reason::InvalidConfiguration => Self::InvalidConfiguration,
        }
    }
}

/// The condition of a type among `conditions`.
pub fn find(conditions: &[Condition], condition_type: ConditionType) -> Option<&Condition> {
    conditions
        .iter()
        .find(|condition| condition.type_ == condition_type.as_str())
}

/// Whether the condition of a type is there with status `True`.
pub fn is_true(conditions: &[Condition], condition_type: ConditionType) -> bool {
    find(conditions, condition_type)
        .is_some_and(|condition| condition.status == ConditionStatus::True.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_their_variants_and_parse_back() {
        assert_eq!(
            ConditionType::PackageDeprecated.as_str(),
            "PackageDeprecated"
        );
        assert_eq!(
            Reason::ProgressDeadlineExceeded.to_string(),
            "ProgressDeadlineExceeded"
        );
        for reason in Reason::ALL {
            assert_eq!(Reason::parse(reason.as_str()), Some(*reason));
        }
        assert_eq!(Reason::parse("RolloutInProgress"), None);
    }

    #[test]
    fn a_terminal_failure_has_the_reason_of_its_error() {
        assert_eq!(Reason::from(error::Reason::Blocked), Reason::Blocked);
        assert_eq!(
            Reason::from(error::Reason::InvalidConfiguration),
            Reason::InvalidConfiguration
        );
    }
}

//! Which changes of conditions are worth an event.

use crate::api::ClusterExtensionStatus;
use crate::api::condition::{Condition, ConditionStatus, ConditionType, Reason};
use crate::status::news::News;
use crate::version::release::BundleVersion;

/// A change that somebody may wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// Whether it is bad news.
    pub weight: Weight,
    /// The event's reason.
    pub reason: String,
    /// The event's note: the condition's message.
    pub note: String,
}

/// Whether an event is news or bad news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// News.
    Normal,
    /// Bad news.
    Warning,
}

/// The conditions whose changes are told; the others say the same in other words.
const TOLD: &[ConditionType] = &[
    ConditionType::Installed,
    ConditionType::Progressing,
    ConditionType::Available,
    ConditionType::Serving,
    ConditionType::Resolved,
    ConditionType::Deprecated,
    ConditionType::Warnings,
];

/// The transitions from `before` to `after`, in the order of [`TOLD`]. A change of message alone is told only where the
/// message carries the news: another installed bundle, another warning, another failure.
pub fn between(before: &[Condition], after: &[Condition]) -> Vec<Transition> {
    TOLD.iter()
        .filter_map(|kind| told(*kind, find(before, *kind), find(after, *kind)?))
        .collect()
}

/// What of [`between`] there is to tell of an extension: the same news not twice, no alarm at what belongs to a rollout, and
/// a step to a lower version is no upgrade.
pub fn of_extension(
    before: &ClusterExtensionStatus,
    after: &ClusterExtensionStatus,
) -> Vec<Transition> {
    let mut transitions = between(&before.conditions, &after.conditions);
    let is_bundle = |one: &Transition| {
        [News::Installed, News::Upgraded]
            .iter()
            .any(|news| one.reason == news.as_str())
    };
    if transitions.iter().any(is_bundle) {
        // Who is told that it is installed knows that it has rolled out and is available.
        let known = [Reason::Succeeded.as_str(), News::Available.as_str()];
        transitions.retain(|one| !known.contains(&one.reason.as_str()));
    }
    // While a revision rolls out, not everything is available yet: that is no trouble of its own.
    let progress = find(&after.conditions, ConditionType::Progressing);
    if progress.is_some_and(|one| one.reason == Reason::RollingOut.as_str()) {
        transitions.retain(|one| one.reason != News::Unavailable.as_str());
    }
    let (from, to) = (version(before), version(after));
    if from.zip(to).is_some_and(|(from, to)| to < from) {
        let upgrades = transitions.iter_mut();
        for transition in upgrades.filter(|one| one.reason == News::Upgraded.as_str()) {
            News::RolledBack.as_str().clone_into(&mut transition.reason);
        }
    }
    transitions
}

/// The version of what is installed, where it has one that can be compared.
fn version(status: &ClusterExtensionStatus) -> Option<BundleVersion> {
    let bundle = &status.install.as_ref()?.bundle;
    BundleVersion::parse(&bundle.version, bundle.release.as_deref()).ok()
}

/// What of [`between`] is about `Progressing`: all that is told of a revision, whose extension tells the rest.
pub fn progress(before: &[Condition], after: &[Condition]) -> Option<Transition> {
    let kind = ConditionType::Progressing;
    told(kind, find(before, kind), find(after, kind)?)
}

fn find(conditions: &[Condition], kind: ConditionType) -> Option<&Condition> {
    crate::api::condition::find(conditions, kind)
}

fn told(kind: ConditionType, before: Option<&Condition>, after: &Condition) -> Option<Transition> {
    let is = |status: ConditionStatus| after.status == status.as_str();
    let has = |reason: Reason| after.reason == reason.as_str();
    let changed = before
        .is_none_or(|before| (&before.status, &before.reason) != (&after.status, &after.reason));
    let reworded = before.is_some_and(|before| before.message != after.message);
    let (told, weight, reason) = match kind {
        ConditionType::Installed => match before.map(|before| before.status.as_str()) {
            Some("True") if is(ConditionStatus::True) => {
                (reworded, Weight::Normal, News::Upgraded.as_str())
            }
            _ if is(ConditionStatus::True) => (changed, Weight::Normal, News::Installed.as_str()),
            Some("True") => (changed, Weight::Warning, News::NotInstalled.as_str()),
            _ => return None,
        },
        ConditionType::Progressing => {
            let bad = is(ConditionStatus::False) && !has(Reason::Archived) || has(Reason::Retrying);
            let weight = if bad { Weight::Warning } else { Weight::Normal };
            (changed || bad && reworded, weight, after.reason.as_str())
        }
        ConditionType::Available => match (
            before.map(|before| before.status.as_str()),
            is(ConditionStatus::True),
        ) {
            (Some("True"), false) => (changed, Weight::Warning, News::Unavailable.as_str()),
            (_, true) => (changed, Weight::Normal, News::Available.as_str()),
            _ => return None,
        },
        ConditionType::Serving => {
            let good = is(ConditionStatus::True) || has(Reason::UserSpecifiedUnavailable);
            let weight = if good {
                Weight::Normal
            } else {
                Weight::Warning
            };
            (
                changed,
                weight,
                if is(ConditionStatus::True) {
                    News::Serving.as_str()
                } else {
                    News::NotServing.as_str()
                },
            )
        }
        ConditionType::Resolved if is(ConditionStatus::True) => return None,
        ConditionType::Resolved => (changed, Weight::Warning, after.reason.as_str()),
        ConditionType::Deprecated if is(ConditionStatus::True) => {
            (changed || reworded, Weight::Warning, after.reason.as_str())
        }
        ConditionType::Warnings => (changed || reworded, Weight::Warning, after.reason.as_str()),
        _ => return None,
    };
    told.then(|| Transition {
        weight,
        reason: reason.to_owned(),
        note: after.message.clone(),
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::api::cluster_extension::{BundleMetadata, ClusterExtensionInstallStatus};
    use crate::status::Conditions;

    fn one(
        kind: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        message: &str,
    ) -> Vec<Condition> {
        let mut conditions = Conditions::of(&[], Some(1), Timestamp::UNIX_EPOCH);
        conditions.set(kind, status, reason, message);
        conditions.finish()
    }

    fn reasons(before: &[Condition], after: &[Condition]) -> Vec<String> {
        between(before, after)
            .into_iter()
            .map(|transition| transition.reason)
            .collect()
    }

    #[test]
    fn install_and_upgrade_are_told_once() {
        use ConditionStatus::{False, True};
        use ConditionType::Installed;
        let none = one(Installed, False, Reason::Absent, "No bundle installed");
        let first = one(
            Installed,
            True,
            Reason::Succeeded,
            "Installed bundle a successfully",
        );
        let second = one(
            Installed,
            True,
            Reason::Succeeded,
            "Installed bundle b successfully",
        );
        assert_eq!(reasons(&[], &none), Vec::<String>::new());
        assert_eq!(reasons(&none, &first), ["Installed"]);
        assert_eq!(reasons(&first, &first), Vec::<String>::new());
        assert_eq!(reasons(&first, &second), ["Upgraded"]);
        assert_eq!(between(&second, &none)[0].weight, Weight::Warning);
    }

    #[test]
    fn a_step_to_a_lower_version_is_told_as_one() {
        let installed = |version: &str, release: Option<&str>| ClusterExtensionStatus {
            conditions: one(
                ConditionType::Installed,
                ConditionStatus::True,
                Reason::Succeeded,
                &format!("Installed bundle {version} {release:?} successfully"),
            ),
            install: Some(ClusterExtensionInstallStatus {
                bundle: BundleMetadata {
                    version: version.to_owned(),
                    release: release.map(str::to_owned),
                    ..BundleMetadata::default()
                },
                catalog: None,
            }),
            ..ClusterExtensionStatus::default()
        };
        for (from, to, reason) in [
            (("1.0.0", None), ("1.10.0", None), "Upgraded"),
            (("1.10.0", None), ("1.9.0", None), "RolledBack"),
            (("1.0.0", Some("2")), ("1.0.0", Some("1")), "RolledBack"),
            (("1.0.0", Some("1")), ("1.0.0", Some("2")), "Upgraded"),
            // What cannot be compared is not called lower.
            (("1.0.0", None), ("one", None), "Upgraded"),
        ] {
            let told = of_extension(&installed(from.0, from.1), &installed(to.0, to.1));
            let told: Vec<_> = told.iter().map(|told| told.reason.as_str()).collect();
            assert_eq!(told, [reason], "{from:?} {to:?}");
        }
    }

    #[test]
    fn what_is_installed_is_known_to_be_rolled_out_and_available() {
        let status = |is_installed: bool| {
            use ConditionType::{Available, Installed, Progressing};
            let mut conditions = Conditions::of(&[], Some(1), Timestamp::UNIX_EPOCH);
            let (done, rolling) = (Reason::Succeeded, Reason::RollingOut);
            let reason = if is_installed { done } else { rolling };
            let is_true = ConditionStatus::True;
            conditions.set(
                Progressing,
                is_true,
                reason,
                "Revision 1.0.0 has rolled out.",
            );
            conditions.set(
                Available,
                is_true,
                Reason::ProbesSucceeded,
                "Objects are available.",
            );
            if is_installed {
                conditions.set(Installed, is_true, done, "Installed bundle a successfully");
            }
            ClusterExtensionStatus {
                conditions: conditions.finish(),
                ..ClusterExtensionStatus::default()
            }
        };
        let told = |before: &ClusterExtensionStatus, after: &ClusterExtensionStatus| {
            let told = of_extension(before, after).into_iter();
            told.map(|one| one.reason).collect::<Vec<_>>()
        };
        let nothing = ClusterExtensionStatus::default();
        assert_eq!(told(&nothing, &status(true)), ["Installed"]);
        assert_eq!(told(&nothing, &status(false)), ["RollingOut", "Available"]);
        // After trouble, nothing but that it is over.
        let mut troubled = status(true);
        troubled.conditions.retain(|one| one.type_ == "Installed");
        assert_eq!(told(&troubled, &status(true)), ["Succeeded", "Available"]);
    }

    #[test]
    fn what_is_not_available_yet_is_no_alarm() {
        use ConditionStatus::{False, True};
        use ConditionType::{Available, Progressing};
        let status = |reason: Reason, available: ConditionStatus| {
            let mut conditions = Conditions::of(&[], Some(1), Timestamp::UNIX_EPOCH);
            conditions.set(Progressing, True, reason, "Revision 1.1.0");
            conditions.set(Available, available, Reason::ProbeFailure, "Deployment");
            ClusterExtensionStatus {
                conditions: conditions.finish(),
                ..ClusterExtensionStatus::default()
            }
        };
        for (reason, expected) in [
            (Reason::RollingOut, Vec::new()),
            (Reason::Succeeded, vec!["Unavailable"]),
            (Reason::Retrying, vec!["Unavailable"]),
        ] {
            let told = of_extension(&status(reason, True), &status(reason, False));
            let told: Vec<&str> = told.iter().map(|one| one.reason.as_str()).collect();
            assert_eq!(told, expected, "{reason:?}");
        }
    }

    #[test]
    fn another_failure_is_told_again_and_the_same_is_not() {
        use ConditionStatus::True;
        use ConditionType::Progressing;
        let first = one(Progressing, True, Reason::Retrying, "no");
        let second = one(Progressing, True, Reason::Retrying, "still no");
        assert_eq!(reasons(&first, &first), Vec::<String>::new());
        assert_eq!(reasons(&first, &second), ["Retrying"]);
        let rolled = one(
            Progressing,
            True,
            Reason::Succeeded,
            "Revision 1.0.0 has rolled out.",
        );
        assert_eq!(between(&second, &rolled)[0].weight, Weight::Normal);
    }
}

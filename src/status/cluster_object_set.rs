//! The status of a `ClusterObjectSet`. Types, reasons and texts are the reference's.

use jiff::{SignedDuration, Timestamp};

use crate::api::cluster_object_set::LifecycleState;
use crate::api::condition::{ConditionStatus, ConditionType, Reason, is_true};
use crate::api::{ClusterObjectSet, ClusterObjectSetStatus, keys};
use crate::error::Disposition;
use crate::revision::rollout::{Pass, Rollout, Warning};
use crate::status::{Conditions, Kstatus};

const AVAILABLE: &str = "Objects are available and pass all probes.";
const SUCCEEDED: &str = "Revision succeeded rolling out.";
const ARCHIVED: &str = "revision is archived";
const ARCHIVING: &str = "removing revision resources that are not owned by another revision";
/// How many objects that are waited for are named.
const NAMED: usize = 10;

/// When the rollout should have ended; none while there is no such limit.
pub fn deadline(set: &ClusterObjectSet) -> Option<Timestamp> {
    let minutes = set
        .spec
        .progress_deadline_minutes
        .filter(|minutes| *minutes > 0)?;
    let conditions = set
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice());
    let is_over = is_true(conditions.unwrap_or_default(), ConditionType::Succeeded)
        || set.spec.lifecycle_state == LifecycleState::Archived
        || set.metadata.deletion_timestamp.is_some();
    if is_over {
        return None;
    }
    let created = set.metadata.creation_timestamp.as_ref()?.0;
    created
        .checked_add(SignedDuration::from_mins(i64::from(minutes)))
        .ok() // Beyond the end of time: no limit.
}

/// The status after `pass`.
pub fn cluster_object_set(
    set: &ClusterObjectSet,
    pass: &Pass,
    now: Timestamp,
) -> ClusterObjectSetStatus {
    let mut status = set.status.clone().unwrap_or_default();
    status.observed_generation = set.metadata.generation;
    if status.observed_phases.is_empty()
        && let Some(observed) = &pass.observed_phases
    {
        status.observed_phases.clone_from(observed);
    }
    let conditions = Conditions::of(&status.conditions, set.metadata.generation, now);
    let mut report = Report {
        set,
        conditions,
        is_late: deadline(set).is_some_and(|deadline| deadline <= now),
    };
    match &pass.rollout {
        Rollout::Complete => report.complete(),
        Rollout::InProgress {
            failing,
            is_available,
        } => report.in_progress(failing, *is_available),
        Rollout::Failed(failure) => match failure.disposition {
            Disposition::Retry => report.failed(Reason::Retrying, &failure.message),
            Disposition::Terminal(reason) => report.failed(reason.into(), &failure.message),
        },
        Rollout::TearingDown { remaining } => {
            let named = remaining.get(..NAMED).unwrap_or(remaining);
            report.tearing_down(remaining.len(), named);
        }
        Rollout::Archived => report.archived(),
    }
    report.warn(&pass.warnings);
    status.conditions = report.conditions.finish();
    status
}

struct Report<'a> {
    set: &'a ClusterObjectSet,
    conditions: Conditions,
    /// Whether the deadline has passed.
    is_late: bool,
}

impl Report<'_> {
    fn complete(&mut self) {
        use ConditionStatus::True;
        let message = format!("Revision {} has rolled out.", self.subject());
        self.set(
            ConditionType::Progressing,
            True,
            Reason::Succeeded,
            &message,
        );
        self.set(
            ConditionType::Available,
            True,
            Reason::ProbesSucceeded,
            AVAILABLE,
        );
        let is_latched = self
            .conditions
            .find(ConditionType::Succeeded)
            .is_some_and(|condition| condition.status == True.as_str());
        if !is_latched {
            self.set(ConditionType::Succeeded, True, Reason::Succeeded, SUCCEEDED);
        }
        self.conditions.set_kstatus(Kstatus::Ready, &message);
    }

    fn in_progress(&mut self, failing: &[String], is_available: bool) {
        let message = format!("Revision {} is rolling out.", self.subject());
        self.progressing(Reason::RollingOut, &message);
        if is_available {
            self.set(
                ConditionType::Available,
                ConditionStatus::True,
                Reason::ProbesSucceeded,
                AVAILABLE,
            );
        } else if failing.is_empty() {
            self.unavailable(Reason::RollingOut, &message);
        } else {
            self.unavailable(Reason::ProbeFailure, &failing.join("\n"));
        }
        self.kstatus_of_progressing();
    }

    fn failed(&mut self, reason: Reason, message: &str) {
        self.progressing(reason, message);
        self.availability_is_unknown(message);
        self.kstatus_of_progressing();
    }

    /// An error, or a teardown, never makes the condition, it only makes it uncertain.
    fn availability_is_unknown(&mut self, message: &str) {
        if self.conditions.find(ConditionType::Available).is_some() {
            self.set(
                ConditionType::Available,
                ConditionStatus::Unknown,
                Reason::Reconciling,
                message,
            );
        }
    }

    fn tearing_down(&mut self, count: usize, names: &[String]) {
        let message = if self.set.metadata.deletion_timestamp.is_some() {
            let more = count.saturating_sub(names.len());
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            format!("uninstalling: waiting for {}{more}", names.join(", "))
        } else {
            ARCHIVING.to_owned()
        };
        self.set(
            ConditionType::Progressing,
            ConditionStatus::True,
            Reason::Retrying,
            &message,
        );
        self.availability_is_unknown(&message);
        self.conditions.set_kstatus(Kstatus::Reconciling, &message);
    }

    fn archived(&mut self) {
        self.set(
            ConditionType::Progressing,
            ConditionStatus::False,
            Reason::Archived,
            ARCHIVED,
        );
        self.set(
            ConditionType::Available,
            ConditionStatus::Unknown,
            Reason::Archived,
            ARCHIVED,
        );
        self.conditions.set_kstatus(Kstatus::Ready, ARCHIVED);
    }

    /// `Progressing`: True, but False when blocked or late. Blocked takes precedence.
    fn progressing(&mut self, reason: Reason, message: &str) {
        let is_blocked = !matches!(reason, Reason::RollingOut | Reason::Retrying);
        if is_blocked {
            self.set(
                ConditionType::Progressing,
                ConditionStatus::False,
                reason,
                message,
            );
        } else if self.is_late {
            let minutes = self.set.spec.progress_deadline_minutes.unwrap_or_default();
            let late = format!(
                "Revision has not rolled out for {minutes} minute(s). Last status: {message}"
            );
            let reason = Reason::ProgressDeadlineExceeded;
            self.set(
                ConditionType::Progressing,
                ConditionStatus::False,
                reason,
                &late,
            );
        } else {
            self.set(
                ConditionType::Progressing,
                ConditionStatus::True,
                reason,
                message,
            );
        }
    }

    fn kstatus_of_progressing(&mut self) {
        let Some(progressing) = self.conditions.find(ConditionType::Progressing).cloned() else {
            return;
        };
        let state = if progressing.status == ConditionStatus::True.as_str() {
            Kstatus::Reconciling
        } else {
            Kstatus::Stalled
        };
        self.conditions.set_kstatus(state, &progressing.message);
    }

    fn unavailable(&mut self, reason: Reason, message: &str) {
        self.set(
            ConditionType::Available,
            ConditionStatus::False,
            reason,
            message,
        );
    }

    fn warn(&mut self, warnings: &[Warning]) {
        let Some(first) = warnings.first() else {
            self.conditions.remove(ConditionType::Warnings);
            return;
        };
        let is_one_kind = warnings
            .iter()
            .all(|warning| warning.reason == first.reason);
        let reason = if is_one_kind {
            first.reason
        } else {
            Reason::SeveralWarnings
        };
        let sentences: Vec<&str> = warnings
            .iter()
            .map(|warning| warning.sentence.as_str())
            .collect();
        self.set(
            ConditionType::Warnings,
            ConditionStatus::True,
            reason,
            &sentences.join("\n"),
        );
    }

    fn set(&mut self, kind: ConditionType, status: ConditionStatus, reason: Reason, message: &str) {
        self.conditions.set(kind, status, reason, message);
    }

    /// The version of the bundle, or the name of a revision that somebody wrote by hand.
    fn subject(&self) -> &str {
        let metadata = &self.set.metadata;
        let annotations = metadata.annotations.as_ref();
        let version = annotations.and_then(|annotations| annotations.get(keys::BUNDLE_VERSION));
        (version.or(metadata.name.as_ref())).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::error::{self, Failure};
    use crate::revision::rollout::Rollout::{Archived, Complete};

    const CREATED: &str = "2026-01-01T00:00:00Z";

    fn set(spec: &Value, conditions: &Value) -> ClusterObjectSet {
        let mut set = json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
            "metadata": {"name": "e-1", "generation": 2, "creationTimestamp": CREATED, "annotations": {keys::BUNDLE_VERSION: "1.2.3"}},
            "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent"},
            "status": {"conditions": conditions},
        });
        for (key, value) in spec.as_object().unwrap() {
            set["spec"][key] = value.clone();
        }
        serde_json::from_value(set).unwrap()
    }

    fn after(minutes: i64) -> Timestamp {
        CREATED.parse::<Timestamp>().unwrap() + SignedDuration::from_mins(minutes)
    }

    fn lines(status: &ClusterObjectSetStatus) -> Vec<String> {
        let own = status.conditions.iter().filter(|condition| {
            !["Ready", "Reconciling", "Stalled"].contains(&condition.type_.as_str())
        });
        own.map(|c| format!("{} {}/{}: {}", c.type_, c.status, c.reason, c.message))
            .collect()
    }

    #[track_caller]
    fn check(set: &ClusterObjectSet, rollout: Rollout, expected: &[&str]) {
        let status = cluster_object_set(set, &Pass::from(rollout), after(30));
        assert_eq!(lines(&status), expected);
        assert_eq!(status.observed_generation, Some(2));
    }

    fn rolling(failing: &[&str]) -> Rollout {
        Rollout::InProgress {
            failing: failing.iter().map(|line| (*line).to_owned()).collect(),
            is_available: false,
        }
    }

    fn failure(disposition: Disposition) -> Rollout {
        Rollout::Failed(Failure {
            message: "it broke".into(),
            disposition,
        })
    }

    fn condition(kind: &str, status: &str) -> Value {
        json!({"type": kind, "status": status, "reason": "X", "message": "m", "lastTransitionTime": CREATED})
    }

    #[test]
    fn each_outcome_has_the_references_conditions() {
        let new = set(&json!({}), &json!([]));
        check(
            &new,
            Complete,
            &[
                "Progressing True/Succeeded: Revision 1.2.3 has rolled out.",
                "Available True/ProbesSucceeded: Objects are available and pass all probes.",
                "Succeeded True/Succeeded: Revision succeeded rolling out.",
            ],
        );
        check(
            &new,
            rolling(&[]),
            &[
                "Progressing True/RollingOut: Revision 1.2.3 is rolling out.",
                "Available False/RollingOut: Revision 1.2.3 is rolling out.",
            ],
        );
        check(
            &new,
            rolling(&["Object a: x", "Object b: y"]),
            &[
                "Progressing True/RollingOut: Revision 1.2.3 is rolling out.",
                "Available False/ProbeFailure: Object a: x\nObject b: y",
            ],
        );
        check(
            &new,
            failure(Disposition::Retry),
            &["Progressing True/Retrying: it broke"],
        );
        check(
            &new,
            failure(Disposition::Terminal(error::Reason::Blocked)),
            &["Progressing False/Blocked: it broke"],
        );
        check(
            &new,
            Archived,
            &[
                "Progressing False/Archived: revision is archived",
                "Available Unknown/Archived: revision is archived",
            ],
        );
        check(
            &new,
            Rollout::TearingDown {
                remaining: Vec::new(),
            },
            &[
                "Progressing True/Retrying: removing revision resources that are not owned by another revision",
            ],
        );
    }

    #[test]
    fn an_error_makes_availability_unknown_but_never_makes_the_condition() {
        let known = set(&json!({}), &json!([condition("Available", "True")]));
        check(
            &known,
            failure(Disposition::Retry),
            &[
                "Available Unknown/Reconciling: it broke",
                "Progressing True/Retrying: it broke",
            ],
        );
    }

    #[test]
    fn succeeded_is_never_taken_back() {
        let known = set(&json!({}), &json!([condition("Succeeded", "True")]));
        let status = cluster_object_set(&known, &Pass::from(rolling(&["Object a: x"])), after(1));
        assert!(lines(&status).contains(&"Succeeded True/X: m".to_owned()));
        let again = cluster_object_set(&known, &Pass::from(Complete), after(1));
        assert!(lines(&again).contains(&"Succeeded True/X: m".to_owned()));
    }

    #[test]
    fn a_late_rollout_says_so_until_it_succeeds() {
        let late = set(&json!({"progressDeadlineMinutes": 10}), &json!([]));
        let text = "Revision has not rolled out for 10 minute(s). Last status: ";
        let status = |rollout, minutes| {
            lines(&cluster_object_set(
                &late,
                &Pass::from(rollout),
                after(minutes),
            ))
            .remove(0)
        };
        assert_eq!(
            status(rolling(&[]), 10),
            format!(
                "Progressing False/ProgressDeadlineExceeded: {text}Revision 1.2.3 is rolling out."
            )
        );
        assert_eq!(
            status(failure(Disposition::Retry), 11),
            format!("Progressing False/ProgressDeadlineExceeded: {text}it broke")
        );
        assert!(status(rolling(&[]), 9).starts_with("Progressing True/RollingOut"));
        assert!(status(Complete, 11).starts_with("Progressing True/Succeeded"));
        let blocked = failure(Disposition::Terminal(error::Reason::Blocked));
        assert!(status(blocked, 11).starts_with("Progressing False/Blocked"));
        let done = set(
            &json!({"progressDeadlineMinutes": 10}),
            &json!([condition("Succeeded", "True")]),
        );
        assert_eq!(deadline(&done), None);
        assert_eq!(deadline(&late), Some(after(10)));
        let archived = set(
            &json!({"progressDeadlineMinutes": 10, "lifecycleState": "Archived"}),
            &json!([]),
        );
        assert_eq!(deadline(&archived), None);
    }

    #[test]
    fn the_same_pass_gives_the_same_status() {
        let first = set(&json!({}), &json!([]));
        let pass = Pass::from(rolling(&["Object a: x"]));
        let status = cluster_object_set(&first, &pass, after(1));
        let mut second = first;
        second.status = Some(status.clone());
        assert_eq!(cluster_object_set(&second, &pass, after(2)), status);
    }

    #[test]
    fn warnings_come_and_go() {
        let warning = |reason, sentence: &str| Warning {
            reason,
            sentence: sentence.to_owned(),
        };
        let mut set = set(&json!({}), &json!([]));
        let mut pass = Pass::from(Complete);
        pass.warnings = vec![
            warning(Reason::CrdsKept, "one."),
            warning(Reason::NotWatched, "two."),
        ];
        let status = cluster_object_set(&set, &pass, after(1));
        assert!(lines(&status).contains(&"Warnings True/SeveralWarnings: one.\ntwo.".to_owned()));
        set.status = Some(status);
        let status = cluster_object_set(&set, &Pass::from(Complete), after(1));
        assert!(
            !lines(&status)
                .iter()
                .any(|line| line.starts_with("Warnings"))
        );
    }
}

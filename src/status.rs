//! `(object, outcome, now)` to a new status. The only builders of conditions.
//!
//! Everything here is pure and deterministic: the same object and outcome give the same status, so a pass that
//! changed nothing writes nothing. Messages are free of socket addresses and cut at the API's limit.

mod advice;
pub mod cluster_catalog;
pub mod cluster_extension;
pub mod cluster_object_set;
pub mod cluster_operator;
pub mod meaning;
pub mod news;
pub mod overview;
pub mod transition;

use std::sync::LazyLock;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use regex::Regex;

use crate::api::condition::{Condition, ConditionStatus, ConditionType, Reason};
use crate::error::{Disposition, Failure};

/// The limit of a condition's message in bytes, from the API's own schema.
pub const MESSAGE_LIMIT_BYTES: usize = 32_768;
const TRUNCATED: &str = "\n\n... [message truncated]";

/// Socket pairs in error texts; they hold ephemeral ports, which would make every retry a status change.
/// The expression is the reference's.
static SOCKETS: LazyLock<Regex> = LazyLock::new(|| {
    let address = r"(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|\[[0-9a-fA-F:]+\])(?::\d+)?";
    Regex::new(&format!(
        "(read|write) (tcp|udp) ({address})->({address})(: )?"
    ))
    .expect("the expression is a constant: checked by the tests")
});

/// The conditions of one object while its new status is built.
///
/// Conditions that nobody sets stay as they are, also foreign ones. `lastTransitionTime` moves only when the
/// status changes.
#[derive(Debug)]
pub struct Conditions {
    list: Vec<Condition>,
    generation: Option<i64>,
    now: Timestamp,
}

impl Conditions {
    /// Starts from the conditions that the object has.
    pub fn of(previous: &[Condition], generation: Option<i64>, now: Timestamp) -> Self {
        Self {
            list: previous.to_vec(),
            generation,
            now,
        }
    }

    /// Sets one condition; the message is cleaned and cut.
    pub fn set(
        &mut self,
        kind: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        message: &str,
    ) {
        self.set_text(kind, status.as_str(), reason.as_str(), message);
    }

    /// Sets one condition to a status and reason that another object's condition carries.
    pub fn mirror(&mut self, kind: ConditionType, source: &Condition) {
        self.set_text(kind, &source.status, &source.reason, &source.message);
    }

    fn set_text(&mut self, kind: ConditionType, status: &str, reason: &str, message: &str) {
        let existing = self
            .list
            .iter_mut()
            .find(|condition| condition.type_ == kind.as_str());
        let since = match &existing {
            Some(condition) if condition.status == status => condition.last_transition_time.clone(),
            _ => seconds(self.now),
        };
        let condition = Condition {
            type_: kind.as_str().to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message_of(message),
            observed_generation: self.generation,
            last_transition_time: since,
        };
        match existing {
            Some(place) => *place = condition,
            None => self.list.push(condition),
        }
    }

    /// Takes a condition away.
    pub fn remove(&mut self, kind: ConditionType) {
        self.list
            .retain(|condition| condition.type_ != kind.as_str());
    }

    /// Sets `Progressing` from a failure: True/Retrying, or False with the failure's own reason.
    pub fn set_progressing_failure(&mut self, failure: &Failure) {
        let (status, reason) = match failure.disposition {
            Disposition::Retry => (ConditionStatus::True, Reason::Retrying),
            Disposition::Terminal(reason) => (ConditionStatus::False, reason.into()),
        };
        self.set(ConditionType::Progressing, status, reason, &failure.message);
    }

    /// Sets the conditions of [kstatus](https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus):
    /// `Ready` always, `Reconciling` and `Stalled` only while they hold.
    pub fn set_kstatus(&mut self, state: Kstatus, message: &str) {
        let (ready, reason) = match state {
            Kstatus::Ready => (ConditionStatus::True, Reason::Ready),
            Kstatus::Reconciling | Kstatus::Stalled | Kstatus::NotReady => {
                (ConditionStatus::False, Reason::NotReady)
            }
        };
        self.set(ConditionType::Ready, ready, reason, message);
        for (kind, holds) in [
            (ConditionType::Reconciling, state == Kstatus::Reconciling),
            (ConditionType::Stalled, state == Kstatus::Stalled),
        ] {
            if holds {
                let why = if state == Kstatus::Stalled {
                    Reason::Blocked
                } else {
                    Reason::Reconciling
                };
                self.set(kind, ConditionStatus::True, why, message);
            } else {
                self.remove(kind);
            }
        }
    }

    /// The condition of a type, as built so far.
    pub fn find(&self, kind: ConditionType) -> Option<&Condition> {
        crate::api::condition::find(&self.list, kind)
    }

    /// The finished list.
    pub fn finish(self) -> Vec<Condition> {
        self.list
    }
}

/// What a revision that rolls out waits for, by its conditions: `Available`, with what its probes say.
fn waits_for(conditions: &[Condition]) -> Option<&Condition> {
    let available = crate::api::condition::find(conditions, ConditionType::Available)?;
    (available.reason == Reason::ProbeFailure.as_str()).then_some(available)
}

/// What kstatus shall say about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kstatus {
    /// As wanted.
    Ready,
    /// On its way, or tried again.
    Reconciling,
    /// Not without a change by somebody.
    Stalled,
    /// Done, and not as wanted (an installed workload that is unhealthy).
    NotReady,
}

/// `now` as the API prints it: whole seconds.
pub fn seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// A condition's message: without socket addresses, at most [`MESSAGE_LIMIT_BYTES`], cut on a character boundary.
pub fn message_of(text: &str) -> String {
    let cleaned = SOCKETS.replace_all(text, "");
    if cleaned.len() <= MESSAGE_LIMIT_BYTES {
        return cleaned.into_owned();
    }
    let mut end = MESSAGE_LIMIT_BYTES - TRUNCATED.len();
    while !cleaned.is_char_boundary(end) {
        end -= 1;
    }
    let kept = cleaned.get(..end).unwrap_or_default();
    format!("{kept}{TRUNCATED}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let mut first = Conditions::of(&[], Some(1), at(100));
        first.set(
            ConditionType::Installed,
            ConditionStatus::False,
            Reason::Failed,
            "No bundle installed",
        );
        let first = first.finish();
        let mut second = Conditions::of(&first, Some(2), at(200));
        second.set(
            ConditionType::Installed,
            ConditionStatus::False,
            Reason::Absent,
            "No bundle installed",
        );
        let second = second.finish();
        assert_eq!(second[0].last_transition_time, Time(at(100)));
        assert_eq!(second[0].observed_generation, Some(2));
        let mut third = Conditions::of(&second, Some(2), at(300));
        third.set(
            ConditionType::Installed,
            ConditionStatus::True,
            Reason::Succeeded,
            "x",
        );
        assert_eq!(third.finish()[0].last_transition_time, Time(at(300)));
    }

    #[test]
    fn socket_pairs_are_removed_and_dial_stays() {
        for (text, expected) in [
            ("a: read tcp 10.0.0.1:3456->10.0.0.2:443: reset", "a: reset"),
            ("write udp [::1]:1->[::1]:2 x", " x"),
            (
                "dial tcp 10.0.0.1:3456->10.0.0.2:443: refused",
                "dial tcp 10.0.0.1:3456->10.0.0.2:443: refused",
            ),
        ] {
            assert_eq!(message_of(text), expected);
        }
    }

    #[test]
    fn long_messages_are_cut_on_a_character_boundary() {
        let long = "ä".repeat(MESSAGE_LIMIT_BYTES);
        let cut = message_of(&long);
        assert!(cut.len() <= MESSAGE_LIMIT_BYTES && cut.len() >= MESSAGE_LIMIT_BYTES - 3);
        assert!(cut.ends_with(TRUNCATED));
        assert_eq!(
            message_of(&"x".repeat(MESSAGE_LIMIT_BYTES)).len(),
            MESSAGE_LIMIT_BYTES
        );
    }

    #[test]
    fn kstatus_has_one_answer_at_a_time() {
        let mut conditions = Conditions::of(&[], Some(1), at(1));
        conditions.set_kstatus(Kstatus::Reconciling, "working");
        assert!(conditions.find(ConditionType::Reconciling).is_some());
        conditions.set_kstatus(Kstatus::Ready, "done");
        assert!(conditions.find(ConditionType::Reconciling).is_none());
        assert_eq!(
            conditions.find(ConditionType::Ready).unwrap().status,
            "True"
        );
        conditions.set_kstatus(Kstatus::Stalled, "no");
        assert!(conditions.find(ConditionType::Stalled).is_some());
        assert_eq!(
            conditions.find(ConditionType::Ready).unwrap().status,
            "False"
        );
    }
}

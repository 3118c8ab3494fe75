//! Extensions, catalogs and revisions as people ask about them: what is wrong first, and what to do next.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::condition::{self, Condition, ConditionStatus, ConditionType, Reason};
use crate::api::{ClusterCatalog, ClusterExtension, ClusterObjectSet};
use crate::status::advice;
use crate::status::meaning::meaning;
use crate::status::waits_for;

/// How long work may be under way before somebody should look: most operators are up, and gone, in less.
const SLOW: SignedDuration = SignedDuration::from_mins(5);

/// How much something asks for somebody. The order is that of attention: the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nothing that is wanted works.
    Broken,
    /// What is there works, but what is wanted now cannot be had.
    Failing,
    /// It works, and there is something to know.
    Notice,
    /// Work is under way.
    Working,
    /// Nothing to do.
    Fine,
}

/// How one object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overview {
    /// How much it asks for somebody.
    pub urgency: Urgency,
    /// In a word or three, such as `installed`.
    pub state: &'static str,
    /// Why, in the words of the condition that decided; empty when all is well.
    pub why: String,
    /// What to do next, if anything.
    pub next: Option<String>,
}

impl Overview {
    fn plain(urgency: Urgency, state: &'static str) -> Self {
        Self {
            urgency,
            state,
            why: String::new(),
            next: None,
        }
    }

    fn of(urgency: Urgency, state: &'static str, condition: Option<&Condition>) -> Self {
        let reason = condition.and_then(|condition| Reason::parse(&condition.reason));
        Self {
            urgency,
            state,
            why: condition
                .map(|condition| condition.message.clone())
                .unwrap_or_default(),
            next: reason.and_then(|reason| {
                let about = [Reason::Retrying, Reason::Uninstalling].contains(&reason);
                let about = condition.filter(|_| about);
                let advice = about.and_then(|condition| advice::of(&condition.message));
                advice.or_else(|| meaning(reason).remedy.map(str::to_owned))
            }),
        }
    }

    /// The same for work that is under way since some time.
    fn of_work(
        since: &Time,
        now: Timestamp,
        work: (Urgency, &'static str),
        slow: (Urgency, &'static str),
        condition: Option<&Condition>,
    ) -> Self {
        let is_slow = now.duration_since(since.0) >= SLOW;
        let (urgency, state) = if is_slow { slow } else { work };
        Self::of(urgency, state, condition)
    }

    /// Nobody looked at the object, or not since its spec changed.
    fn unseen(is_new: bool) -> Self {
        Self {
            urgency: Urgency::Notice,
            state: if is_new { "not looked at" } else { "outdated" },
            why: "oxolm has not looked at this spec yet".to_owned(),
            next: Some(
                "When it lasts, look whether oxolm runs: kubectl get pods -n olmv1-system."
                    .to_owned(),
            ),
        }
    }
}

struct Seen<'a>(&'a [Condition]);

impl<'a> Seen<'a> {
    fn get(&self, kind: ConditionType) -> Option<&'a Condition> {
        condition::find(self.0, kind)
    }

    fn is(&self, kind: ConditionType, status: ConditionStatus) -> bool {
        self.get(kind)
            .is_some_and(|condition| condition.status == status.as_str())
    }

    fn with(&self, kind: ConditionType, status: ConditionStatus) -> Option<&'a Condition> {
        self.get(kind)
            .filter(|condition| condition.status == status.as_str())
    }

    fn reason(&self, kind: ConditionType) -> Option<Reason> {
        Reason::parse(&self.get(kind)?.reason)
    }
}

/// How an extension is at `now`.
pub fn extension(extension: &ClusterExtension, now: Timestamp) -> Overview {
    let status = extension.status.clone().unwrap_or_default();
    let seen = Seen(&status.conditions);
    let progressing = seen.get(ConditionType::Progressing);
    if let Some(since) = &extension.metadata.deletion_timestamp {
        let slow = (Urgency::Failing, "uninstalling slowly");
        return Overview::of_work(
            since,
            now,
            (Urgency::Working, "uninstalling"),
            slow,
            progressing,
        );
    }
    if status.conditions.is_empty() {
        return Overview::unseen(true);
    }
    if status.observed_generation < extension.metadata.generation {
        return Overview::unseen(false);
    }
    let is_installed = seen.is(ConditionType::Installed, ConditionStatus::True);
    if let Some(failed) = failed(&seen) {
        let (urgency, state) = match (is_installed, seen.is_stalled()) {
            (true, true) => (Urgency::Failing, "installed, blocked"),
            (true, false) => (Urgency::Failing, "installed, retrying"),
            (false, true) => (Urgency::Broken, "blocked"),
            (false, false) => (Urgency::Broken, "retrying"),
        };
        let mut overview = Overview::of(urgency, state, Some(failed));
        if failed.reason == Reason::Retrying.as_str() {
            let resolved = seen.with(ConditionType::Resolved, ConditionStatus::True);
            let resolved = resolved.map(|condition| condition.message.as_str());
            let advice = advice::of_extension(extension, resolved, &failed.message);
            overview.next = advice.or(overview.next);
        }
        return overview;
    }
    if is_installed && let Some(down) = seen.with(ConditionType::Available, ConditionStatus::False)
    {
        return Overview::of(Urgency::Broken, "installed, not available", Some(down));
    }
    if seen.reason(ConditionType::Progressing) != Some(Reason::Succeeded) {
        let (state, slow) = if is_installed {
            ("upgrading", (Urgency::Failing, "upgrading slowly"))
        } else {
            ("installing", (Urgency::Broken, "installing slowly"))
        };
        let newest = status.active_revisions.last();
        let waits = newest.and_then(|newest| waits_for(&newest.conditions));
        let work = (Urgency::Working, state);
        let Some(waits) = waits else {
            return Overview::of(work.0, work.1, progressing);
        };
        return Overview::of_work(&waits.last_transition_time, now, work, slow, Some(waits));
    }
    for kind in [ConditionType::Warnings, ConditionType::Deprecated] {
        if let Some(told) = seen.with(kind, ConditionStatus::True) {
            return Overview::of(Urgency::Notice, "installed", Some(told));
        }
    }
    Overview::plain(Urgency::Fine, "installed")
}

impl Seen<'_> {
    fn is_stalled(&self) -> bool {
        self.is(ConditionType::Progressing, ConditionStatus::False)
    }
}

/// The condition that says what failed: `Resolved` where no bundle could be chosen, since it knows what to do.
fn failed<'a>(seen: &Seen<'a>) -> Option<&'a Condition> {
    let progressing = seen.get(ConditionType::Progressing)?;
    let has_failed = progressing.status == ConditionStatus::False.as_str()
        || progressing.reason == Reason::Retrying.as_str();
    let unresolved = seen.with(ConditionType::Resolved, ConditionStatus::False);
    unresolved.or(has_failed.then_some(progressing))
}

/// How a catalog is.
pub fn catalog(catalog: &ClusterCatalog) -> Overview {
    let status = catalog.status.clone().unwrap_or_default();
    let seen = Seen(&status.conditions);
    if catalog.metadata.deletion_timestamp.is_some() {
        return Overview::plain(Urgency::Working, "being deleted");
    }
    if status.conditions.is_empty() {
        return Overview::unseen(true);
    }
    if seen.reason(ConditionType::Serving) == Some(Reason::UserSpecifiedUnavailable) {
        return Overview::plain(Urgency::Fine, "switched off");
    }
    let is_serving = seen.is(ConditionType::Serving, ConditionStatus::True);
    if let Some(failed) = failed(&seen) {
        let (urgency, state) = if is_serving {
            (Urgency::Failing, "serves what it had")
        } else {
            (Urgency::Broken, "not serving")
        };
        return Overview::of(urgency, state, Some(failed));
    }
    if !is_serving {
        let reconciling = seen.get(ConditionType::Reconciling);
        return Overview::of(Urgency::Working, "unpacking", reconciling);
    }
    if let Some(told) = seen.with(ConditionType::Warnings, ConditionStatus::True) {
        return Overview::of(Urgency::Notice, "serving", Some(told));
    }
    Overview::plain(Urgency::Fine, "serving")
}

/// How a revision is at `now`.
pub fn revision(set: &ClusterObjectSet, now: Timestamp) -> Overview {
    let status = set.status.clone().unwrap_or_default();
    let seen = Seen(&status.conditions);
    if let Some(since) = &set.metadata.deletion_timestamp {
        let progressing = seen.get(ConditionType::Progressing);
        let slow = (Urgency::Failing, "being taken down slowly");
        return Overview::of_work(
            since,
            now,
            (Urgency::Working, "being taken down"),
            slow,
            progressing,
        );
    }
    if status.conditions.is_empty() {
        return Overview::unseen(true);
    }
    if seen.reason(ConditionType::Progressing) == Some(Reason::Archived) {
        return Overview::plain(Urgency::Fine, "archived");
    }
    if let Some(failed) = failed(&seen) {
        return Overview::of(Urgency::Broken, "failing", Some(failed));
    }
    if seen.is(ConditionType::Available, ConditionStatus::True) {
        return Overview::plain(Urgency::Fine, "available");
    }
    let available = seen.get(ConditionType::Available);
    if seen.is(ConditionType::Succeeded, ConditionStatus::True) {
        return Overview::of(Urgency::Broken, "not available", available);
    }
    let work = (Urgency::Working, "rolling out");
    let Some(waits) = waits_for(&status.conditions) else {
        return Overview::of(work.0, work.1, available);
    };
    let slow = (Urgency::Broken, "rolling out slowly");
    Overview::of_work(&waits.last_transition_time, now, work, slow, Some(waits))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::status::Conditions;
    use ConditionStatus::{False, True};

    use ConditionType::{Available, Deprecated, Installed, Progressing, Resolved, Serving};

    fn conditions(of: &[(ConditionType, ConditionStatus, Reason)]) -> Vec<Condition> {
        let mut conditions = Conditions::of(&[], Some(1), Timestamp::UNIX_EPOCH);
        for (kind, status, reason) in of {
            conditions.set(*kind, *status, *reason, &format!("{kind} says {reason}"));
        }
        conditions.finish()
    }

    fn told(of: &[(ConditionType, ConditionStatus, Reason)]) -> (Urgency, &'static str, String) {
        let mut object: ClusterExtension = serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": "x", "generation": 1},
            "spec": {"namespace": "n", "serviceAccount": {"name": "s"},
                "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}},
            "status": {"observedGeneration": 1},
        }))
        .unwrap();
        object.status.as_mut().unwrap().conditions = conditions(of);
        let overview = extension(&object, Timestamp::UNIX_EPOCH);
        (overview.urgency, overview.state, overview.why)
    }

    #[test]
    fn the_worst_of_an_extension_is_told() {
        let installed = (Installed, True, Reason::Succeeded);
        let fine = (Progressing, True, Reason::Succeeded);
        let retrying = (Progressing, True, Reason::Retrying);
        let blocked = (Progressing, False, Reason::Blocked);
        let no_way = (Resolved, False, Reason::NoUpgradePath);
        let old = (Deprecated, True, Reason::Deprecated);
        let down = (Available, False, Reason::ProbeFailure);
        let rolling = (Progressing, True, Reason::RollingOut);
        for (of, urgency, state, why) in [
            (vec![installed, fine], Urgency::Fine, "installed", ""),
            (
                vec![installed, retrying],
                Urgency::Failing,
                "installed, retrying",
                "Progressing says Retrying",
            ),
            (
                vec![retrying],
                Urgency::Broken,
                "retrying",
                "Progressing says Retrying",
            ),
            (
                vec![blocked],
                Urgency::Broken,
                "blocked",
                "Progressing says Blocked",
            ),
            (
                vec![installed, retrying, no_way],
                Urgency::Failing,
                "installed, retrying",
                "Resolved says NoUpgradePath",
            ),
            (
                vec![installed, fine, old],
                Urgency::Notice,
                "installed",
                "Deprecated says Deprecated",
            ),
            (
                vec![installed, fine, down, old],
                Urgency::Broken,
                "installed, not available",
                "Available says ProbeFailure",
            ),
            (
                vec![installed, rolling],
                Urgency::Working,
                "upgrading",
                "Progressing says RollingOut",
            ),
            (
                vec![rolling],
                Urgency::Working,
                "installing",
                "Progressing says RollingOut",
            ),
            (
                vec![],
                Urgency::Notice,
                "not looked at",
                "oxolm has not looked at this spec yet",
            ),
        ] {
            assert_eq!(told(&of), (urgency, state, why.to_owned()), "{of:?}");
        }
    }

    #[test]
    fn work_that_takes_long_asks_for_somebody() {
        let told = |object: &serde_json::Value, minutes: i64| {
            let object: ClusterExtension = serde_json::from_value(object.clone()).unwrap();
            let now = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes);
            let overview = extension(&object, now);
            let text = format!("{}: {}", overview.state, overview.why);
            (overview.urgency, text)
        };
        let waits = conditions(&[(Available, False, Reason::ProbeFailure)]);
        let object = json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": "x", "generation": 1},
            "spec": {"namespace": "n", "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}},
            "status": {"observedGeneration": 1, "activeRevisions": [{"name": "x-1", "conditions": waits}],
                "conditions": conditions(&[(Progressing, True, Reason::RollingOut)])},
        });
        let why = "Available says ProbeFailure";
        for (minutes, urgency, state) in [
            (4, Urgency::Working, "installing"),
            (5, Urgency::Broken, "installing slowly"),
        ] {
            let expected = (urgency, format!("{state}: {why}"));
            assert_eq!(told(&object, minutes), expected);
        }
        let mut leaving = object;
        leaving["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
        let why = "Progressing says RollingOut";
        for (minutes, urgency, state) in [
            (4, Urgency::Working, "uninstalling"),
            (5, Urgency::Failing, "uninstalling slowly"),
        ] {
            let expected = (urgency, format!("{state}: {why}"));
            assert_eq!(told(&leaving, minutes), expected);
        }
    }

    #[test]
    fn a_catalog_that_serves_old_content_is_not_fine() {
        let told = |of: &[_]| {
            let mut object: ClusterCatalog = serde_json::from_value(json!({
                "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": "x"},
                "spec": {"source": {"type": "Image", "image": {"ref": "r/c:1"}}}, "status": {},
            }))
            .unwrap();
            object.status.as_mut().unwrap().conditions = conditions(of);
            let overview = catalog(&object);
            (overview.urgency, overview.state)
        };
        let serving = (Serving, True, Reason::Available);
        let gone = (Serving, False, Reason::Unavailable);
        let fine = (Progressing, True, Reason::Succeeded);
        let retrying = (Progressing, True, Reason::Retrying);
        assert_eq!(told(&[serving, fine]), (Urgency::Fine, "serving"));
        assert_eq!(
            told(&[serving, retrying]),
            (Urgency::Failing, "serves what it had")
        );
        assert_eq!(told(&[gone, retrying]), (Urgency::Broken, "not serving"));
        assert_eq!(
            told(&[(Serving, False, Reason::UserSpecifiedUnavailable)]),
            (Urgency::Fine, "switched off")
        );
    }
}

//! Writing what a pass found: a status patch, and one event, one log line and one count per transition.

#![expect(
    clippy::disallowed_types,
    reason = "events are written to the API server"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter as EventReporter};
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::api::condition::Condition;
use crate::controller::metrics::Metrics;
use crate::controller::queue::Next;
use crate::error::chain;
use crate::status::transition::{self, Transition, Weight};

/// The controller's name in events.
const CONTROLLER: &str = "oxolm";

/// The longest note that the events API takes, in bytes.
const NOTE_LIMIT_BYTES: usize = 1024;

/// What follows when `what` could not be written. After a conflict there is nothing to say: what the object became
/// meanwhile is on its way, and is looked at then.
pub fn unwritten(error: &kube::Error, what: &'static str) -> Next {
    match error {
        kube::Error::Api(status) if status.is_conflict() => Next::OnChange,
        _ => {
            warn!(error = chain(error), "cannot write {what}");
            Next::Retry
        }
    }
}

/// How long after its last use the recorder of a series is kept. Within six minutes it counts a repeated event up.
const SERIES_LASTS: Duration = Duration::from_mins(10);

/// How many series are remembered: a recorder keeps its last event. Of more than these at once, the oldest begin anew.
const MOST_SERIES: usize = 256;

/// Publishes events about objects of our kinds.
///
/// The same event again counts up; one of the same reason with another note is an event of its own. A recorder tells
/// events apart without their notes, so each series has its own.
#[derive(Clone)]
pub struct Reporter {
    client: Client,
    source: EventReporter,
    series: Arc<Mutex<BTreeMap<(String, String), Series>>>,
    metrics: Metrics,
}

/// The newest note for an object and a reason.
struct Series {
    note: String,
    recorder: Recorder,
    used: Instant,
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reporter").finish_non_exhaustive()
    }
}

impl Reporter {
    /// Publishes through `client`, as `instance` (the Pod's name).
    pub fn new(client: Client, instance: &str) -> Self {
        let reporter = EventReporter {
            controller: CONTROLLER.to_owned(),
            instance: Some(instance.to_owned()),
        };
        Self {
            client,
            source: reporter,
            series: Arc::default(),
            metrics: Metrics::default(),
        }
    }

    /// The same, with what it tells counted there.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Where passes count what they do.
    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn recorder(&self, object: &ObjectReference, reason: &str, note: &str) -> Recorder {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        series.retain(|_, series| series.used.elapsed() < SERIES_LASTS);
        let key = (object.uid.clone().unwrap_or_default(), reason.to_owned());
        let now = Instant::now();
        let newest = series
            .get_mut(&key)
            .filter(|series| series.note == note)
            .map(|series| {
                series.used = now;
                series.recorder.clone()
            });
        newest.unwrap_or_else(|| {
            let recorder = Recorder::new(self.client.clone(), self.source.clone());
            let begun = Series {
                note: note.to_owned(),
                recorder: recorder.clone(),
                used: now,
            };
            if series.len() >= MOST_SERIES
                && let Some(oldest) =
                    (series.iter().min_by_key(|(_, one)| one.used)).map(|(key, _)| key.clone())
            {
                series.remove(&oldest);
            }
            series.insert(key, begun);
            recorder
        })
    }

    /// One event and one log line for each transition between two lists of conditions.
    pub async fn transitions<K>(&self, object: &K, before: &[Condition], after: &[Condition])
    where
        K: Resource<DynamicType = ()>,
    {
        for transition in transition::between(before, after) {
            self.publish(object, &transition).await;
        }
    }

    /// One event and one log line.
    pub async fn publish<K>(&self, object: &K, transition: &Transition)
    where
        K: Resource<DynamicType = ()>,
    {
        let kind = K::kind(&()).into_owned();
        let name = object.name_any();
        let Transition {
            weight,
            reason,
            note,
        } = transition;
        match weight {
            Weight::Normal => info!(kind, name, reason, note, "status changed"),
            Weight::Warning => warn!(kind, name, reason, note, "status changed"),
        }
        self.metrics.told(&kind, reason);
        let event = Event {
            type_: match weight {
                Weight::Normal => EventType::Normal,
                Weight::Warning => EventType::Warning,
            },
            reason: reason.clone(),
            note: Some(shortened(note)),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        // An event that is lost is a pity, not a failure: the status says the same.
        let regarding = object.object_ref(&());
        let recorder = self.recorder(&regarding, reason, note);
        if let Err(error) = recorder.publish(&event, &regarding).await {
            warn!(
                kind,
                name,
                reason,
                error = chain(&error),
                "cannot publish the event"
            );
        }
    }
}

fn shortened(note: &str) -> String {
    if note.len() <= NOTE_LIMIT_BYTES {
        return note.to_owned();
    }
    let mut end = NOTE_LIMIT_BYTES - "…".len();
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", note.get(..end).unwrap_or_default())
}

/// A JSON merge patch that turns the status `old` into `new`: fields that `new` lacks are set to null.
pub fn status_patch<S: Serialize>(old: Option<&S>, new: &S) -> Value {
    let fields = |status: Option<&S>| match status.map(serde_json::to_value) {
        Some(Ok(Value::Object(fields))) => fields,
        _ => Map::new(),
    };
    let (old, mut new) = (fields(old), fields(Some(new)));
    for key in old.keys() {
        new.entry(key.clone()).or_insert(Value::Null);
    }
    // Objects are merged member by member, so a member that went away needs its null, too.
    for (key, value) in &mut new {
        if let (Some(Value::Object(before)), Value::Object(after)) = (old.get(key), value) {
            clear_removed(before, after);
        }
    }
    json!({ "status": new })
}

fn clear_removed(before: &Map<String, Value>, after: &mut Map<String, Value>) {
    for (key, old) in before {
        match (old, after.get_mut(key)) {
            (_, None) => {
                after.insert(key.clone(), Value::Null);
            }
            (Value::Object(old), Some(Value::Object(new))) => clear_removed(old, new),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ClusterObjectSet;
    use crate::testing::api_server::ApiServer;

    #[test]
    fn what_went_away_is_set_to_null() {
        let old = json!({"a": 1, "b": {"c": 1, "d": {"e": 1}}, "f": [1]});
        let new = json!({"a": 2, "b": {"d": {}}, "g": 3});
        assert_eq!(
            status_patch(Some(&old), &new),
            json!({"status": {"a": 2, "b": {"c": null, "d": {"e": null}}, "f": null, "g": 3}})
        );
        assert_eq!(status_patch(None, &new), json!({"status": new}));
    }

    #[tokio::test]
    async fn an_event_is_counted_up_only_by_the_same_note() {
        let server = ApiServer::new();
        server.add(
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}),
        );
        let reporter = Reporter::new(server.client(), "test");
        let object: ClusterObjectSet = serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
            "metadata": {"name": "x-1", "uid": "1"},
            "spec": {"revision": 1, "lifecycleState": "Active", "collisionProtection": "Prevent", "phases": []},
        }))
        .unwrap();
        for note in [
            "1.0.0 is installed",
            "1.0.0 is installed",
            "1.1.0 is installed",
        ] {
            let transition = Transition {
                weight: Weight::Normal,
                reason: "Upgraded".to_owned(),
                note: note.to_owned(),
            };
            reporter.publish(&object, &transition).await;
        }
        let events = server.paths("/events/");
        let mut told: Vec<(String, i64)> = events
            .iter()
            .map(|path| {
                let event = server.object(path).unwrap();
                let count = event["series"]["count"].as_i64().unwrap_or(1);
                (event["note"].as_str().unwrap().to_owned(), count)
            })
            .collect();
        told.sort();
        let expected = [("1.0.0 is installed", 2), ("1.1.0 is installed", 1)];
        assert_eq!(told, expected.map(|(note, count)| (note.to_owned(), count)));
    }

    #[test]
    fn long_notes_are_cut_on_a_character_boundary() {
        let note = shortened(&"ä".repeat(NOTE_LIMIT_BYTES));
        assert!(note.len() <= NOTE_LIMIT_BYTES && note.ends_with('…'));
        assert_eq!(shortened("short"), "short");
    }
}

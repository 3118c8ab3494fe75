//! Writing what a pass found: a status patch, and one event, one log line and one count per transition.

#![expect(
    clippy::disallowed_types,
    reason = "events are written to the API server"
)]

mod series;

use std::sync::Arc;

use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tracing::{info, warn};

use self::series::{Series, Source, Told};
use crate::controller::metrics::Metrics;
use crate::controller::next::Next;
use crate::error::chain;
use crate::status::transition::{Transition, Weight};

/// The controller's name in events.
const CONTROLLER: &str = "oxolm";

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

/// Publishes events about objects of our kinds.
///
/// The same event again counts up; one of the same reason with another note is an event of its own.
#[derive(Clone)]
pub struct Reporter {
    client: Client,
    source: Arc<Source>,
    series: Arc<Series>,
    metrics: Metrics,
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reporter").finish_non_exhaustive()
    }
}

impl Reporter {
    /// Publishes through `client`, as `instance` (the Pod's name).
    pub fn new(client: Client, instance: &str) -> Self {
        let source = Source {
            controller: CONTROLLER,
            instance: instance.to_owned(),
        };
        Self {
            client,
            source: Arc::new(source),
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

    /// One event and one log line for each.
    pub async fn publish_all<K>(&self, object: &K, transitions: &[Transition])
    where
        K: Resource<DynamicType = ()>,
    {
        for transition in transitions {
            self.publish(object, transition).await;
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
        // An event that is lost is a pity, not a failure: the status says the same.
        let regarding = object.object_ref(&());
        let told = Told {
            weight: *weight,
            reason,
            note,
        };
        let written = (self.series).publish(&self.client, &self.source, &regarding, told);
        if let Err(error) = written.await {
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
    use crate::status::news::News;
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
                reason: News::Upgraded.as_str().to_owned(),
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
}

//! What watches of the fake API server are told, and what selectors take.

use axum::body::Body;
use futures::channel::mpsc::UnboundedSender;
use http::Response;
use serde_json::{Value, json};

use super::State;
use crate::testing::api_server::{Call, Target, stream};

/// Something that happened to an object.
#[derive(Debug, Clone)]
pub(in crate::testing::api_server) struct Event {
    pub(in crate::testing::api_server) kind: &'static str,
    pub(in crate::testing::api_server) object: Value,
    version: u64,
    path: String,
}

pub(in crate::testing::api_server) struct Watch {
    target: Target,
    selector: String,
    fields: String,
    is_metadata_only: bool,
    events: UnboundedSender<Event>,
}

impl State {
    pub(super) fn watch(&mut self, call: &Call) -> Response<Body> {
        let (sender, receiver) = futures::channel::mpsc::unbounded();
        let from = call
            .query
            .get("resourceVersion")
            .and_then(|version| version.parse().ok())
            .unwrap_or(0);
        let watch = Watch {
            target: call.target.clone(),
            selector: call.query.get("labelSelector").cloned().unwrap_or_default(),
            fields: call.field_selector().to_owned(),
            is_metadata_only: call.is_metadata_only,
            events: sender,
        };
        if call.wants_list_first() {
            self.send_list(&watch);
        } else {
            for event in self.events.iter().filter(|event| event.version > from) {
                watch.send(event);
            }
        }
        self.watches.push(watch);
        stream(receiver)
    }

    /// Everything that there is, and a bookmark that says so.
    fn send_list(&self, watch: &Watch) {
        for (path, object) in &self.objects {
            watch.send(&Event {
                kind: "ADDED",
                object: object.clone(),
                version: self.version,
                path: path.clone(),
            });
        }
        let mut bookmark = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"});
        bookmark["metadata"] = json!({
            "resourceVersion": self.version.to_string(), "annotations": {"k8s.io/initial-events-end": "true"},
        });
        let end = Event {
            kind: "BOOKMARK",
            object: bookmark,
            version: self.version,
            path: String::new(),
        };
        // Whoever stopped watching needs no end.
        _ = watch.events.unbounded_send(end);
    }

    pub(super) fn announce(&mut self, kind: &'static str, path: &str, mut object: Value) {
        if kind == "DELETED" {
            self.version += 1;
            object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        }
        let event = Event {
            kind,
            object,
            version: self.version,
            path: path.to_owned(),
        };
        for watch in &self.watches {
            watch.send(&event);
        }
        self.events.push(event);
    }
}

impl Watch {
    fn send(&self, event: &Event) {
        if self.target.contains(&event.path)
            && selects(&self.selector, &event.object)
            && has_fields(&self.fields, &event.object)
        {
            let object = shown(&event.object, self.is_metadata_only);
            // Whoever stopped watching needs no events.
            _ = self.events.unbounded_send(Event {
                object,
                ..event.clone()
            });
        }
    }
}

/// Whether a field selector takes an object; `metadata.name=NAME` is the only one that the fake knows.
pub(super) fn has_fields(selector: &str, object: &Value) -> bool {
    match selector.strip_prefix("metadata.name=") {
        Some(name) => object["metadata"]["name"] == name,
        None => true,
    }
}

pub(super) fn selects(selector: &str, object: &Value) -> bool {
    let label = |key: &str| {
        object["metadata"]["labels"][key]
            .as_str()
            .map(str::to_owned)
    };
    selector
        .split(',')
        .filter(|part| !part.is_empty())
        .all(|part| {
            if let Some((key, value)) = part.split_once("!=") {
                label(key).as_deref() != Some(value)
            } else {
                let (key, value) = part.split_once('=').unwrap();
                label(key).as_deref() == Some(value.trim_start_matches('='))
            }
        })
}

pub(super) fn shown(object: &Value, is_metadata_only: bool) -> Value {
    if is_metadata_only {
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"]})
    } else {
        object.clone()
    }
}

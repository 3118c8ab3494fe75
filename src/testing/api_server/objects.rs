//! The objects of the fake API server and what requests do to them.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use http::{Method, Response};
use serde_json::{Value, json};

use super::chance::Faults;
use super::kinds::Kind;
use super::{Call, Logged, Refusal, Target, ok};
pub(super) use watch::Event;
use watch::{Watch, has_fields, selects, shown};

mod watch;
mod write;

/// A request that is to fail.
pub(super) struct Failure {
    pub(super) line: String,
    /// How many of these requests are answered before.
    pub(super) passes: usize,
    pub(super) code: u16,
    pub(super) message: String,
}

/// Everything that the server knows.
pub(super) struct State {
    pub(super) kinds: Vec<Kind>,
    /// By path.
    pub(super) objects: BTreeMap<String, Value>,
    pub(super) log: Vec<Logged>,
    pub(super) drained: usize,
    pub(super) failures: Vec<Failure>,
    /// How many writes there are before the one that fails.
    pub(super) failing_write: Option<usize>,
    pub(super) forbidden: Vec<(String, String)>,
    pub(super) rules: BTreeMap<String, Vec<(String, Value)>>,
    pub(super) incomplete: Option<BTreeSet<String>>,
    pub(super) server_version: String,
    /// What admission merges into each write of an object, by path.
    pub(super) admission: BTreeMap<String, Value>,
    pub(super) faults: Option<Faults>,
    pub(super) seconds_ahead: i64,
    version: u64,
    events: Vec<Event>,
    pub(super) watches: Vec<Watch>,
    /// Whether a watch may begin with a list.
    pub(super) streams_lists: bool,
}

type Answer = Result<Response<Body>, Refusal>;

impl State {
    pub(super) fn new() -> Self {
        Self {
            kinds: Kind::at_first(),
            objects: BTreeMap::new(),
            log: Vec::new(),
            drained: 0,
            failures: Vec::new(),
            failing_write: None,
            forbidden: Vec::new(),
            rules: BTreeMap::new(),
            incomplete: None,
            server_version: "v1.33.1".to_owned(),
            admission: BTreeMap::new(),
            faults: None,
            seconds_ahead: 0,
            version: 100,
            events: Vec::new(),
            watches: Vec::new(),
            streams_lists: false,
        }
    }

    pub(super) fn call(&mut self, call: &Call) -> Answer {
        let target = &call.target;
        match target.plural.as_str() {
            "" => return self.discovery(target).map(|list| ok(&list)),
            "version" => {
                let numbers = self.server_version.trim_start_matches('v');
                let mut numbers = numbers.split('.');
                let (major, minor) = (numbers.next(), numbers.next());
                return Ok(ok(
                    &json!({"gitVersion": self.server_version, "major": major, "minor": minor}),
                ));
            }
            "selfsubjectrulesreviews" => return Ok(ok(&self.rules_review(call))),
            "subjectaccessreviews" => return Ok(ok(&self.access_review(call))),
            _ => {}
        }
        let is_kind = |kind: &Kind| {
            kind.group == target.group
                && kind.version == target.version
                && kind.plural == target.plural
        };
        let Some(kind) = self.kinds.iter().find(|kind| is_kind(kind)).cloned() else {
            return Err(Refusal::new(404, "NotFound", "404 page not found"));
        };
        match (call.method.clone(), &target.name) {
            (Method::GET, None) if call.wants_list_first() && !self.streams_lists => {
                let message = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
                Err(Refusal::new(422, "Invalid", message))
            }
            (Method::GET, None) if call.is_watch() => Ok(self.watch(call)),
            (Method::GET, None) => Ok(ok(&self.list(call, &kind))),
            (Method::GET, Some(_)) => self.read(target).map(|object| ok(&object)),
            (Method::POST, None) => self.create(call, &kind).map(|object| ok(&object)),
            (Method::PUT, Some(_)) => self.put(call).map(|object| ok(&object)),
            (Method::PATCH, Some(_)) => self.patch(call).map(|object| ok(&object)),
            (Method::DELETE, Some(_)) => self.delete(call).map(|object| ok(&object)),
            _ => Err(Refusal::new(
                405,
                "MethodNotAllowed",
                "not implemented by the fake",
            )),
        }
    }

    fn read(&self, target: &Target) -> Result<Value, Refusal> {
        let found = self.objects.get(&target.object()).cloned();
        found.ok_or_else(|| {
            let name = target.name.as_deref().unwrap_or_default();
            Refusal::new(
                404,
                "NotFound",
                format!("{} {name:?} not found", target.plural),
            )
        })
    }

    fn list(&self, call: &Call, kind: &Kind) -> Value {
        let selector = call.query.get("labelSelector").map_or("", String::as_str);
        let mut items: Vec<Value> = self
            .objects
            .iter()
            .filter(|(path, object)| call.target.contains(path) && selects(selector, object))
            .filter(|(_, object)| has_fields(call.field_selector(), object))
            .map(|(_, object)| shown(object, call.is_metadata_only))
            .collect();
        let mut metadata = json!({"resourceVersion": self.version.to_string()});
        // The token is how many were given already.
        let number = |name: &str| {
            call.query
                .get(name)
                .and_then(|text| text.parse::<usize>().ok())
        };
        let (from, limit) = (
            number("continue").unwrap_or(0),
            number("limit").unwrap_or(0),
        );
        items.drain(..from.min(items.len()));
        if limit > 0 && items.len() > limit {
            items.truncate(limit);
            metadata["continue"] = json!((from + limit).to_string());
        }
        let (api_version, list) = if call.is_metadata_only {
            (
                "meta.k8s.io/v1".to_owned(),
                "PartialObjectMetadataList".to_owned(),
            )
        } else {
            (call.target.api_version(), format!("{}List", kind.name))
        };
        json!({"apiVersion": api_version, "kind": list, "metadata": metadata, "items": items})
    }

    /// A time that moves with every change.
    fn time(&self) -> String {
        format!(
            "2026-01-01T00:{:02}:{:02}Z",
            self.version / 60 % 60,
            self.version % 60
        )
    }
}

impl Target {
    fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether the collection contains the object at `path`; one without namespace contains all namespaces.
    fn contains(&self, path: &str) -> bool {
        let object = Self::of(path);
        object.group == self.group
            && object.version == self.version
            && object.plural == self.plural
            && (self.namespace.is_none() || self.namespace == object.namespace)
    }
}

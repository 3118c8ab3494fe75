//! The objects of the fake API server and what requests do to them.

#![expect(
    clippy::disallowed_methods,
    reason = "a deletion happens now: deadlines count from it"
)]

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use futures::channel::mpsc::UnboundedSender;
use http::{Method, Response};
use serde_json::{Value, json};

use super::faults::Faults;
use super::{Call, Logged, Refusal, Target, fields, ok, stream};
use crate::api::object::Gvk;

/// A kind that is served.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) name: String,
    pub(super) plural: String,
    pub(super) is_namespaced: bool,
}

/// Something that happened to an object.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) kind: &'static str,
    pub(super) object: Value,
    version: u64,
    path: String,
}

pub(super) struct Watch {
    target: Target,
    selector: String,
    fields: String,
    is_metadata_only: bool,
    events: UnboundedSender<Event>,
}

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
    pub(super) faults: Option<Faults>,
    pub(super) seconds_ahead: i64,
    version: u64,
    events: Vec<Event>,
    pub(super) watches: Vec<Watch>,
    /// Whether a watch may begin with a list.
    pub(super) streams_lists: bool,
}

type Answer = Result<Response<Body>, Refusal>;

/// Group, version, kind, plural, namespaced.
const KINDS: &[(&str, &str, &str, &str, bool)] = &[
    ("", "v1", "Namespace", "namespaces", false),
    ("", "v1", "ServiceAccount", "serviceaccounts", true),
    ("", "v1", "Secret", "secrets", true),
    ("", "v1", "ConfigMap", "configmaps", true),
    ("", "v1", "Service", "services", true),
    (
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        true,
    ),
    ("apps", "v1", "Deployment", "deployments", true),
    (
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        "endpointslices",
        true,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        false,
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        false,
    ),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", true),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "RoleBinding",
        "rolebindings",
        true,
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRole",
        "clusterroles",
        false,
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        false,
    ),
    ("events.k8s.io", "v1", "Event", "events", true),
    ("coordination.k8s.io", "v1", "Lease", "leases", true),
    (
        "authorization.k8s.io",
        "v1",
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        false,
    ),
    (
        "authorization.k8s.io",
        "v1",
        "SubjectAccessReview",
        "subjectaccessreviews",
        false,
    ),
    (
        "olm.operatorframework.io",
        "v1",
        "ClusterExtension",
        "clusterextensions",
        false,
    ),
    (
        "olm.operatorframework.io",
        "v1",
        "ClusterObjectSet",
        "clusterobjectsets",
        false,
    ),
    (
        "olm.operatorframework.io",
        "v1",
        "ClusterCatalog",
        "clustercatalogs",
        false,
    ),
];

impl State {
    pub(super) fn new() -> Self {
        let kinds = KINDS
            .iter()
            .map(|(group, version, kind, plural, is_namespaced)| Kind {
                group: (*group).to_owned(),
                version: (*version).to_owned(),
                name: (*kind).to_owned(),
                plural: (*plural).to_owned(),
                is_namespaced: *is_namespaced,
            });
        Self {
            kinds: kinds.collect(),
            objects: BTreeMap::new(),
            log: Vec::new(),
            drained: 0,
            failures: Vec::new(),
            failing_write: None,
            forbidden: Vec::new(),
            rules: BTreeMap::new(),
            incomplete: None,
            server_version: "v1.33.1".to_owned(),
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
            "version" => return Ok(ok(&json!({"gitVersion": self.server_version}))),
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

    fn watch(&mut self, call: &Call) -> Response<Body> {
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

    fn create(&mut self, call: &Call, kind: &Kind) -> Result<Value, Refusal> {
        let mut object = call.json();
        object["apiVersion"] = json!(call.target.api_version());
        object["kind"] = json!(kind.name);
        let name = match object["metadata"]["name"].as_str() {
            Some(name) => name.to_owned(),
            None => format!(
                "{}{}",
                object["metadata"]["generateName"].as_str().unwrap_or("x-"),
                self.version
            ),
        };
        object["metadata"]["name"] = json!(name);
        if let Some(namespace) = &call.target.namespace {
            object["metadata"]["namespace"] = json!(namespace);
            if !self
                .objects
                .contains_key(&format!("/api/v1/namespaces/{namespace}"))
            {
                return Err(Refusal::new(
                    404,
                    "NotFound",
                    format!("namespaces {namespace:?} not found"),
                ));
            }
        }
        let path = format!("{}/{name}", call.target.collection());
        if self.objects.contains_key(&path) {
            let text = format!("{} {name:?} already exists", kind.plural);
            return Err(Refusal::new(409, "AlreadyExists", text));
        }
        let manager = call
            .query
            .get("fieldManager")
            .map_or("unknown", String::as_str);
        Ok(self.insert(&path, object, manager))
    }

    /// Puts an object there as somebody else would.
    pub(super) fn add(&mut self, object: &Value) -> Value {
        let path = self.path_of(object);
        self.insert(&path, object.clone(), "user")
    }

    pub(super) fn remove(&mut self, object: &Value) {
        let path = self.path_of(object);
        let object = self.objects.remove(&path).expect("the object is there");
        self.announce("DELETED", &path, object);
    }

    fn path_of(&self, object: &Value) -> String {
        let gvk = Gvk::new(
            object["apiVersion"].as_str().unwrap(),
            object["kind"].as_str().unwrap(),
        );
        let kind = self.kinds.iter().find(|kind| {
            kind.group == gvk.group && kind.version == gvk.version && kind.name == gvk.kind
        });
        let kind = kind.unwrap_or_else(|| panic!("{gvk} is not served"));
        let target = Target {
            group: gvk.group,
            version: gvk.version,
            namespace: kind
                .is_namespaced
                .then(|| object["metadata"]["namespace"].as_str().unwrap().to_owned()),
            plural: kind.plural.clone(),
            name: Some(object["metadata"]["name"].as_str().unwrap().to_owned()),
            subresource: None,
        };
        target.object()
    }

    fn insert(&mut self, path: &str, mut object: Value, manager: &str) -> Value {
        let time = self.time();
        let metadata = &mut object["metadata"];
        // A test may say which UID an object shall have; a request may not.
        if manager != "user" || !metadata["uid"].is_string() {
            metadata["uid"] = json!(format!("uid-{}", self.version));
        }
        if Target::of(path).namespace.is_none()
            && let Some(metadata) = metadata.as_object_mut()
        {
            metadata.remove("namespace");
        }
        metadata["creationTimestamp"] = json!(time);
        metadata["generation"] = json!(1);
        if object["kind"] == "Namespace" {
            object["status"] = json!({"phase": "Active"});
        }
        let is_crd = object["kind"] == "CustomResourceDefinition";
        if is_crd {
            self.serve(&object);
            object["status"] = json!({"conditions": [{"type": "Established", "status": "True"}]});
        }
        if object["metadata"].get("managedFields").is_none() {
            let owned = fields::owned(&object);
            object["metadata"]["managedFields"] =
                json!([fields::entry(manager, "Update", &owned, &time)]);
        }
        self.store(path, object, "ADDED")
    }

    fn serve(&mut self, crd: &Value) {
        let text = |pointer: &str| {
            crd.pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        self.kinds.push(Kind {
            group: text("/spec/group"),
            version: text("/spec/versions/0/name"),
            name: text("/spec/names/kind"),
            plural: text("/spec/names/plural"),
            is_namespaced: text("/spec/scope") == "Namespaced",
        });
    }

    fn put(&mut self, call: &Call) -> Result<Value, Refusal> {
        let before = self.read(&call.target)?;
        let mut object = call.json();
        check_version(object["metadata"]["resourceVersion"].as_str(), &before)?;
        for given in ["uid", "creationTimestamp", "generation", "managedFields"] {
            object["metadata"][given] = before["metadata"][given].clone();
        }
        Ok(self.replace(&call.target.object(), &before, object))
    }

    fn patch(&mut self, call: &Call) -> Result<Value, Refusal> {
        let path = call.target.object();
        let manager = call
            .query
            .get("fieldManager")
            .map_or("unknown", String::as_str);
        let patch = call.json();
        if call.content_type.contains("apply-patch") {
            return self.apply(call, &path, &patch, manager);
        }
        let before = self.read(&call.target)?;
        let mut object = before.clone();
        if call.content_type.contains("json-patch") {
            let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
            json_patch::patch(&mut object, &patch).map_err(|error| {
                Refusal::new(
                    422,
                    "Invalid",
                    format!("the server rejected our request: {error}"),
                )
            })?;
        } else {
            json_patch::merge(&mut object, &patch);
            if call.target.subresource.is_some() {
                let status = object["status"].take();
                object = before.clone();
                object["status"] = status;
            } else {
                object["status"] = before["status"].clone();
                fields::updated(&before, &mut object, manager, &self.time());
            }
        }
        check_version(patch_version(call).as_deref(), &before)?;
        Ok(self.replace(&path, &before, object))
    }

    fn apply(
        &mut self,
        call: &Call,
        path: &str,
        applied: &Value,
        manager: &str,
    ) -> Result<Value, Refusal> {
        let Ok(before) = self.read(&call.target) else {
            let mut object = applied.clone();
            let owned = fields::owned(&object);
            object["metadata"]["managedFields"] =
                json!([fields::entry(manager, "Apply", &owned, &self.time())]);
            return Ok(self.insert(path, object, manager));
        };
        let version = applied["metadata"]["resourceVersion"]
            .as_str()
            .map(str::to_owned);
        check_version(version.as_deref(), &before)?;
        let force = call.query.get("force").is_some_and(|force| force == "true");
        let object =
            fields::apply(&before, applied, manager, force, &self.time()).map_err(|field| {
                Refusal::new(
                    409,
                    "Conflict",
                    format!("Apply failed with 1 conflict: {field}"),
                )
            })?;
        let controllers = object["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten();
        if controllers
            .filter(|owner| owner["controller"] == true)
            .count()
            > 1
        {
            return Err(Refusal::new(
                422,
                "Invalid",
                "Only one reference can have Controller set to true",
            ));
        }
        Ok(self.replace(path, &before, object))
    }

    /// Stores a change; nothing happens when there is none.
    fn replace(&mut self, path: &str, before: &Value, mut object: Value) -> Value {
        if *before == object {
            return object;
        }
        let is_deleting = object["metadata"].get("deletionTimestamp").is_some();
        let finalizers = object["metadata"]["finalizers"]
            .as_array()
            .map_or(0, Vec::len);
        if is_deleting && finalizers == 0 {
            self.objects.remove(path);
            self.announce("DELETED", path, object.clone());
            return json!({"apiVersion": "v1", "kind": "Status", "status": "Success", "metadata": {}});
        }
        let content = |object: &Value| {
            let mut object = object.clone();
            object["metadata"] = Value::Null;
            object["status"] = Value::Null;
            object
        };
        if content(before) != content(&object) {
            object["metadata"]["generation"] =
                json!(before["metadata"]["generation"].as_i64().unwrap_or(1) + 1);
        }
        self.store(path, object, "MODIFIED")
    }

    fn delete(&mut self, call: &Call) -> Result<Value, Refusal> {
        let mut object = self.read(&call.target)?;
        let before = object.clone();
        for (wanted, field) in [("uid", "uid"), ("resourceVersion", "resourceVersion")] {
            let precondition = &call.json()["preconditions"][wanted];
            if !precondition.is_null() && *precondition != object["metadata"][field] {
                return Err(Refusal::new(
                    409,
                    "Conflict",
                    format!("Precondition failed: {wanted}"),
                ));
            }
        }
        if object["metadata"].get("deletionTimestamp").is_none() {
            let now = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(self.seconds_ahead);
            object["metadata"]["deletionTimestamp"] = json!(now.to_string());
        }
        if object["kind"] == "CustomResourceDefinition" {
            let plural = object["spec"]["names"]["plural"].clone();
            self.kinds.retain(|kind| plural != kind.plural.as_str());
        }
        Ok(self.replace(&call.target.object(), &before, object))
    }

    pub(super) fn edit(&mut self, path: &str, change: &Value, manager: &str) {
        let before = self.objects[path].clone();
        let mut object = before.clone();
        json_patch::merge(&mut object, change);
        fields::updated(&before, &mut object, manager, &self.time());
        self.replace(path, &before, object);
    }

    pub(super) fn set_status(&mut self, path: &str, status: &Value) {
        let before = self.objects[path].clone();
        let mut object = before.clone();
        object["status"] = status.clone();
        self.replace(path, &before, object);
    }

    fn store(&mut self, path: &str, mut object: Value, kind: &'static str) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if object["status"].is_null() {
            object.as_object_mut().unwrap().remove("status");
        }
        self.objects.insert(path.to_owned(), object.clone());
        self.announce(kind, path, object.clone());
        object
    }

    fn announce(&mut self, kind: &'static str, path: &str, mut object: Value) {
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

    /// A time that moves with every change.
    fn time(&self) -> String {
        format!(
            "2026-01-01T00:{:02}:{:02}Z",
            self.version / 60 % 60,
            self.version % 60
        )
    }
}

/// Whether a field selector takes an object; `metadata.name=NAME` is the only one that the fake knows.
fn has_fields(selector: &str, object: &Value) -> bool {
    match selector.strip_prefix("metadata.name=") {
        Some(name) => object["metadata"]["name"] == name,
        None => true,
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

fn check_version(version: Option<&str>, object: &Value) -> Result<(), Refusal> {
    match version {
        Some(version) if object["metadata"]["resourceVersion"] != version => Err(Refusal::new(
            409,
            "Conflict",
            "the object has been modified; please apply your changes to the latest version and try again",
        )),
        _ => Ok(()),
    }
}

fn patch_version(call: &Call) -> Option<String> {
    call.json()
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str)
        .map(str::to_owned)
}

fn selects(selector: &str, object: &Value) -> bool {
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

fn shown(object: &Value, is_metadata_only: bool) -> Value {
    if is_metadata_only {
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"]})
    } else {
        object.clone()
    }
}

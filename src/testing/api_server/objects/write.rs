//! What requests, and whoever else writes, do to the objects of the fake API server.

#![expect(
    clippy::disallowed_methods,
    reason = "a deletion happens now: deadlines count from it"
)]

use serde_json::{Value, json};

use super::State;
use crate::api::object::Gvk;
use crate::testing::api_server::kinds::Kind;
use crate::testing::api_server::{Call, Refusal, Target, fields};

impl State {
    pub(super) fn create(&mut self, call: &Call, kind: &Kind) -> Result<Value, Refusal> {
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
    pub(in crate::testing::api_server) fn add(&mut self, object: &Value) -> Value {
        let path = self.path_of(object);
        self.insert(&path, object.clone(), "user")
    }

    pub(in crate::testing::api_server) fn remove(&mut self, object: &Value) {
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
        self.admit(path, &mut object);
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
            self.kinds.push(Kind::of(&object));
            object["status"] = json!({"conditions": [{"type": "Established", "status": "True"}]});
        }
        if object["metadata"].get("managedFields").is_none() {
            let owned = fields::owned(&object);
            object["metadata"]["managedFields"] =
                json!([fields::entry(manager, "Update", &owned, &time)]);
        }
        self.store(path, object, "ADDED")
    }

    pub(super) fn put(&mut self, call: &Call) -> Result<Value, Refusal> {
        let before = self.read(&call.target)?;
        let mut object = call.json();
        check_version(object["metadata"]["resourceVersion"].as_str(), &before)?;
        for given in ["uid", "creationTimestamp", "generation", "managedFields"] {
            object["metadata"][given] = before["metadata"][given].clone();
        }
        Ok(self.replace(&call.target.object(), &before, object))
    }

    pub(super) fn patch(&mut self, call: &Call) -> Result<Value, Refusal> {
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

    fn admit(&self, path: &str, object: &mut Value) {
        if let Some(change) = self.admission.get(path) {
            json_patch::merge(object, change);
        }
    }

    /// Stores a change; nothing happens when there is none.
    fn replace(&mut self, path: &str, before: &Value, mut object: Value) -> Value {
        self.admit(path, &mut object);
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
            return object;
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

    pub(super) fn delete(&mut self, call: &Call) -> Result<Value, Refusal> {
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
        let path = call.target.object();
        let marked = self.replace(&path, &before, object);
        if self.objects.contains_key(&path) {
            return Ok(marked);
        }
        Ok(json!({"apiVersion": "v1", "kind": "Status", "status": "Success", "metadata": {}}))
    }

    pub(in crate::testing::api_server) fn edit(
        &mut self,
        path: &str,
        change: &Value,
        manager: &str,
    ) {
        let before = self.objects[path].clone();
        let mut object = before.clone();
        json_patch::merge(&mut object, change);
        fields::updated(&before, &mut object, manager, &self.time());
        self.replace(path, &before, object);
    }

    pub(in crate::testing::api_server) fn set_status(&mut self, path: &str, status: &Value) {
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

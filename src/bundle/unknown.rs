//! Fields of manifests that no type has: misspelt, or in the wrong place.
//!
//! Whoever installs drops them in silence: those of the `ClusterServiceVersion` and of `CustomResourceDefinition`s here, as
//! Go's decoder does, all others the API server. So each manifest is read as its type and written again; what is missing
//! then is no field. Nobody can say that of resources of kinds that are not Kubernetes' own.

use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::registry_v1::{Files, manifests};
use super::{manifest, typed};
use crate::api::object::Gvk;

/// The fields of one object that its type does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownFields {
    /// The file below `manifests/`.
    pub file: String,
    /// Kind and name of the object.
    pub object: String,
    /// Where the fields are, as `spec.a[0].b`.
    pub paths: Vec<String>,
}

/// The fields of all manifests that no type has. What cannot be read is passed over: reading the bundle reports it.
pub fn unknown_fields(files: &Files) -> Vec<UnknownFields> {
    let mut found = Vec::new();
    for (file, bytes) in manifests(files) {
        let mut accept = |object: Value| {
            let paths = unknown(&object);
            if !paths.is_empty() {
                let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
                let label = [text("/kind"), text("/metadata/name")];
                let label: Vec<&str> = label.into_iter().flatten().collect();
                found.push(UnknownFields {
                    file: file.to_owned(),
                    object: label.join(" "),
                    paths,
                });
            }
            Ok(())
        };
        _ = manifest::read(file, bytes, &mut accept);
    }
    found
}

/// The fields of one object that its type does not have.
fn unknown(object: &Value) -> Vec<String> {
    let Some(again) = written_again(object) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    lost("", "", object, &again, &mut found);
    let mut tries = TRIES;
    let is_unknown = |lost: &Lost| {
        !lost.is_empty || {
            let is_asked = tries > 0;
            tries = tries.saturating_sub(1);
            is_asked && !is_known(object, &lost.pointer)
        }
    };
    let unknown = found.into_iter().filter(is_unknown);
    unknown.map(|lost| lost.path).collect()
}

/// For how many empty fields of one object it is found out whether its type has them: each takes as long as reading it.
const TRIES: usize = 30;

/// A field that is gone once an object was read as its type.
struct Lost {
    /// As `spec.a[0].b`.
    path: String,
    /// As a JSON pointer.
    pointer: String,
    /// Whether nothing was in it: then its type may have it all the same, and leave it out.
    is_empty: bool,
}

/// Whether the type of an object has a field: then it keeps a text that is put there, or says that it cannot be one.
fn is_known(object: &Value, pointer: &str) -> bool {
    let mut object = object.clone();
    let Some(field) = object.pointer_mut(pointer) else {
        return true;
    };
    *field = Value::String("x".to_owned());
    written_again(&object).is_none_or(|again| again.pointer(pointer).is_some())
}

/// The object read as its type, and written; none where it is of a type that nobody knows here, or none of it.
fn written_again(object: &Value) -> Option<Value> {
    let text = |member: &str| object.get(member).and_then(Value::as_str);
    let kind = text("kind")?;
    match kind {
        "ClusterServiceVersion" | "CustomResourceDefinition" => {
            let name = match kind {
                "ClusterServiceVersion" => "csv.ClusterServiceVersion",
                _ => "crd.CustomResourceDefinition",
            };
            return typed::reencode(name, object.clone()).ok(); // Reading the bundle reports it.
        }
        _ => {}
    }
    let gvk = Gvk::new(text("apiVersion")?, kind);
    let rbac = "rbac.authorization.k8s.io";
    let again = match (gvk.group.as_str(), gvk.version.as_str(), kind) {
        ("", "v1", "ConfigMap") => again::<ConfigMap>,
        ("", "v1", "PersistentVolumeClaim") => again::<PersistentVolumeClaim>,
        ("", "v1", "Secret") => again::<Secret>,
        ("", "v1", "Service") => again::<Service>,
        ("", "v1", "ServiceAccount") => again::<ServiceAccount>,
        ("networking.k8s.io", "v1", "NetworkPolicy") => again::<NetworkPolicy>,
        ("policy", "v1", "PodDisruptionBudget") => again::<PodDisruptionBudget>,
        ("scheduling.k8s.io", "v1", "PriorityClass") => again::<PriorityClass>,
        (group, "v1", "ClusterRole") if group == rbac => again::<ClusterRole>,
        (group, "v1", "ClusterRoleBinding") if group == rbac => again::<ClusterRoleBinding>,
        (group, "v1", "Role") if group == rbac => again::<Role>,
        (group, "v1", "RoleBinding") if group == rbac => again::<RoleBinding>,
        _ => return None,
    };
    again(object)
}

fn again<T: DeserializeOwned + Serialize>(object: &Value) -> Option<Value> {
    let typed: T = serde_json::from_value(object.clone()).ok()?; // The API server says what does not fit.
    serde_json::to_value(typed).ok()
}

/// Adds what is in `before` and not in `after`.
fn lost(path: &str, pointer: &str, before: &Value, after: &Value, found: &mut Vec<Lost>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, value) in before {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                let token = name.replace('~', "~0").replace('/', "~1");
                let pointer = format!("{pointer}/{token}");
                match after.get(name) {
                    Some(after) => lost(&path, &pointer, value, after, found),
                    None => found.push(Lost {
                        path,
                        pointer,
                        is_empty: is_empty(value),
                    }),
                }
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                let (path, pointer) = (format!("{path}[{index}]"), format!("{pointer}/{index}"));
                lost(&path, &pointer, before, after, found);
            }
        }
        _ => {}
    }
}

/// What types leave out when they are written.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(is_empty),
        Value::Object(members) => members.values().all(is_empty),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_misspelt_is_found() {
        for (object, expected) in [
            (
                json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "lables": {"a": "b"}},
                    "spec": {"slector": {"a": "b"}, "ports": [{"port": 80}, {"port": 81, "prot": "TCP"}]}}),
                vec!["metadata.lables", "spec.ports[1].prot", "spec.slector"],
            ),
            (
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"},
                    "rules": [{"apiGroups": [""], "resources": ["pods"], "verb": ["get"], "verbs": ["get"]}]}),
                vec!["rules[0].verb"],
            ),
            (
                json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "c"},
                    "spec": {"displayname": "x", "install": {"strategy": "deployment", "spec": {"deployments": [
                        {"name": "d", "spec": {"template": {"spec": {"containers": [{"name": "c", "env": [{"name": "A", "valu": "b"}]}]}}}}]}}}}),
                vec![
                    "spec.displayname",
                    "spec.install.spec.deployments[0].spec.template.spec.containers[0].env[0].valu",
                ],
            ),
            (
                json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "c"},
                    "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "requird": ["a"],
                        "properties": {"anything": {"type": "string", "default": "x"}}}}}]}}),
                vec!["spec.versions[0].schema.openAPIV3Schema.requird"],
            ),
            // Whose type nobody knows here, or which is none.
            (
                json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "spec": {"x": 1}}),
                vec![],
            ),
            (
                json!({"apiVersion": "v1", "kind": "Service", "spec": 1, "x": 1}),
                vec![],
            ),
            (json!({"kind": "Service", "x": 1}), vec![]),
            // What is empty may be left out where the type has it.
            (
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "creationTimestamp": null,
                    "annotations": {}, "finalizers": [], "ownrs": []}, "immutable": false, "data": {"any": ""},
                    "binaryData": {}, "status": {}, "x": {"y": [""]}}),
                vec!["metadata.ownrs", "status", "x"],
            ),
            (
                json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {}, "clusterIP": "",
                    "ports": [{"port": 0, "targetPort": "", "prot": ""}]}, "status": {"loadBalancer": {}}}),
                vec!["spec.ports[0].prot"],
            ),
            (
                json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                    "metadata": {"name": "c", "creationTimestamp": null},
                    "spec": {"preserveUnknownFields": false, "versions": [{"name": "v1", "additonalPrinterColumns": [],
                        "additionalPrinterColumns": [], "served": false, "schema": {"openAPIV3Schema": {"description": "",
                        "type": "object", "requird": [], "required": [], "properties": {"a/b": {"nullabel": false, "nullable": false}}}}}]},
                    "status": {"acceptedNames": {"kind": "", "plural": ""}, "conditions": [], "storedVersions": []}, "statuss": {}}),
                vec![
                    "spec.versions[0].additonalPrinterColumns",
                    "spec.versions[0].schema.openAPIV3Schema.properties.a/b.nullabel",
                    "spec.versions[0].schema.openAPIV3Schema.requird",
                    "statuss",
                ],
            ),
        ] {
            let mut paths = unknown(&object);
            paths.sort();
            assert_eq!(paths, expected, "{object}");
        }
    }
}

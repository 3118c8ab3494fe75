//! Objects that a bundle ships besides its CSV and custom resource definitions.

use serde_json::{Map, Value};

use super::Context;

/// Kinds that live in a namespace and are moved to that of the installation. The group is not looked at.
const NAMESPACED: [&str; 11] = [
    "ConfigMap",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "PodMonitor",
    "PrometheusRule",
    "Role",
    "RoleBinding",
    "Secret",
    "Service",
    "ServiceAccount",
    "ServiceMonitor",
];

/// Kinds that are left as they are. `VerticalPodAutoscaler` lives in a namespace, but is among these in the reference.
const UNTOUCHED: [&str; 9] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
    "ConsoleQuickStart",
    "ConsoleYAMLSample",
    "PriorityClass",
    "VerticalPodAutoscaler",
];

/// The kind of an object, empty when it has none.
pub(super) fn kind(object: &Value) -> &str {
    object
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Whether a bundle may ship objects of this kind.
pub(super) fn is_supported(kind: &str) -> bool {
    NAMESPACED.contains(&kind) || UNTOUCHED.contains(&kind)
}

/// The additional objects, as they are but for their namespace.
pub(super) fn objects(ctx: &Context<'_>) -> Vec<Value> {
    ctx.bundle
        .others
        .iter()
        .map(|object| {
            let mut object = object.clone();
            if NAMESPACED.contains(&kind(&object)) {
                set_namespace(&mut object, ctx.install_namespace);
            }
            object
        })
        .collect()
}

fn set_namespace(object: &mut Value, namespace: &str) {
    let Some(members) = object.as_object_mut() else {
        return;
    };
    let metadata = members
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("namespace".to_owned(), Value::from(namespace));
    }
}

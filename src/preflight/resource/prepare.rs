//! What the API server does to a resource before it looks at it: nulls, defaults, unknown fields.
//!
//! After `schema/defaulting/prunenulls.go`, `defaulting/algorithm.go` and `pruning/algorithm.go` of
//! apiextensions-apiserver.

use std::fmt::Write as _;

use serde_json::Value;

use super::node::{Additional, Node};

/// The members that every resource has, whatever its schema says.
const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Prepares a whole resource.
pub(super) fn prepare(resource: &mut Value, root: &Node, preserves_unknown_fields: bool) {
    drop_nulls(resource, Some(root));
    set_defaults(resource, root);
    if !preserves_unknown_fields {
        prune(resource, Some(root), true);
    }
}

/// The schema of a member as far as nulls and unknown fields go.
fn member<'a>(node: Option<&'a Node>, name: &str) -> Option<&'a Node> {
    node?.member(name)
}

/// Removes members that are null where null is not allowed and no default takes its place.
fn drop_nulls(value: &mut Value, node: Option<&Node>) {
    match value {
        Value::Object(members) => {
            members.retain(|name, value| {
                let child = member(node, name);
                let is_dropped = value.is_null()
                    && child.is_some_and(|child| !child.nullable && child.default.is_none());
                if !is_dropped {
                    drop_nulls(value, child);
                }
                !is_dropped
            });
        }
        Value::Array(items) => {
            let child = node.and_then(|node| node.items.as_deref());
            for item in items {
                drop_nulls(item, child);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn set_defaults(value: &mut Value, node: &Node) {
    match value {
        Value::Object(members) => {
            for (name, child) in &node.properties {
                let Some(default) = &child.default else {
                    continue;
                };
                let is_missing = members
                    .get(name)
                    .is_none_or(|value| value.is_null() && !child.nullable);
                if is_missing {
                    members.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in members.iter_mut() {
                if let Some(child) = node.properties.get(name) {
                    set_defaults(value, child);
                } else if let Some(Additional::Schema(child)) = &node.additional {
                    replace_null(value, child);
                    set_defaults(value, child);
                }
            }
        }
        Value::Array(items) => {
            if let Some(child) = node.items.as_deref() {
                for item in items {
                    replace_null(item, child);
                    set_defaults(item, child);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn replace_null(value: &mut Value, node: &Node) {
    if value.is_null()
        && !node.nullable
        && let Some(default) = &node.default
    {
        *value = default.clone();
    }
}

/// Removes what the schema does not know.
fn prune(value: &mut Value, node: Option<&Node>, is_root: bool) {
    if let Some(node) = node.filter(|node| node.preserves_unknown_fields) {
        return prune_known(value, node, is_root);
    }
    match value {
        Value::Object(members) => {
            let Some(node) = node else {
                return members.clear();
            };
            members.retain(|name, value| {
                if (is_root || node.is_embedded_resource) && META.contains(&name.as_str()) {
                    return true;
                }
                match (node.properties.get(name), &node.additional) {
                    (Some(child), _) => prune(value, Some(child), false),
                    (None, Some(Additional::Schema(child))) => prune(value, Some(child), false),
                    (None, Some(Additional::Allowed(_))) => prune(value, None, false),
                    (None, None) => return false,
                }
                true
            });
        }
        Value::Array(items) => {
            for item in items {
                prune(item, node.and_then(|node| node.items.as_deref()), false);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Below a node that keeps unknown fields only what is specified is pruned.
fn prune_known(value: &mut Value, node: &Node, is_root: bool) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                if (is_root || node.is_embedded_resource) && META.contains(&name.as_str()) {
                    continue;
                }
                match (node.properties.get(name), &node.additional) {
                    (Some(child), _) => prune(value, Some(child), false),
                    (None, Some(Additional::Schema(child))) => prune(value, Some(child), false),
                    (None, Some(Additional::Allowed(_))) => prune(value, None, false),
                    (None, None) => {}
                }
            }
        }
        Value::Array(items) => {
            if let Some(child) = node.items.as_deref() {
                for item in items {
                    prune_known(item, child, false);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether `before` has a value that `after` lacks; then `path` leads to the first.
pub(super) fn lost(before: &Value, after: &Value, path: &mut String) -> bool {
    let length = path.len();
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, value) in before.iter().filter(|(_, value)| !value.is_null()) {
                path.push('.');
                path.push_str(name);
                if after.get(name).is_none_or(|other| lost(value, other, path)) {
                    return true;
                }
                path.truncate(length);
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for (index, (value, other)) in before.iter().zip(after).enumerate() {
                // Writing to a string cannot fail.
                _ = write!(path, "[{index}]");
                if lost(value, other, path) {
                    return true;
                }
                path.truncate(length);
            }
        }
        _ => {}
    }
    false
}

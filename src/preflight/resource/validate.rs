//! The form of a prepared resource: everything but the CEL rules.
//!
//! After `kube-openapi/pkg/validation/validate` and `schema/listtype` of apiextensions-apiserver.

mod embedded;
mod found;
mod number;

use serde_json::{Map, Value};

use self::embedded::check_embedded;
use self::found::{Found, below};
use self::number::check_number;
use super::finding::Violation;
use super::kind::Type;
use super::node::{Additional, Bounds, ListType, Node};

/// All that is wrong with `value`, in the order of the schema.
pub(super) fn violations(value: &Value, root: &Node) -> Vec<Violation> {
    let mut found = Found::default();
    check(value, root, &mut String::new(), &mut found);
    check_lists(value, root, &mut String::new(), &mut found);
    found.violations
}

fn is_valid(value: &Value, node: &Node) -> bool {
    let mut found = Found::default();
    check(value, node, &mut String::new(), &mut found);
    found.violations.is_empty()
}

fn check(value: &Value, node: &Node, path: &mut String, found: &mut Found) {
    if value.is_null() {
        if let Some(kind) = node.kind.filter(|_| !node.nullable) {
            found.add(path, format!("must be of type {}, is null", kind.as_str()));
        }
        // The API server finds null in no list of allowed values, and asks nothing else about it.
        if node
            .allowed
            .as_ref()
            .is_some_and(|allowed| !allowed.is_empty())
        {
            found.add(path, "is null, which is none of the allowed values");
        }
        return;
    }
    if let Some(kind) = node.kind
        && !has_type(value, kind)
    {
        found.add(
            path,
            format!("must be of type {}, is {}", kind.as_str(), type_of(value)),
        );
    }
    check_enum(value, node, path, found);
    match value {
        Value::String(text) => check_text(text, node, path, found),
        Value::Number(_) => check_number(value, node, path, found),
        Value::Array(items) => check_array(items, node, path, found),
        Value::Object(members) => check_object(members, node, path, found),
        Value::Null | Value::Bool(_) => {}
    }
    check_combinations(value, node, path, found);
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn has_type(value: &Value, kind: Type) -> bool {
    match kind {
        Type::Object => value.is_object(),
        Type::Array => value.is_array(),
        Type::String => value.is_string(),
        Type::Boolean => value.is_boolean(),
        Type::Number => value.is_number(),
        Type::Integer => is_integer(value),
        Type::IntOrString => value.is_string() || is_integer(value),
    }
}

/// A whole number, also one that is written as a fraction.
fn is_integer(value: &Value) -> bool {
    value.is_i64()
        || value
            .as_f64()
            .is_some_and(|number| number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_991.0)
}

fn check_enum(value: &Value, node: &Node, path: &str, found: &mut Found) {
    if let Some(allowed) = node.allowed.as_ref().filter(|allowed| !allowed.is_empty())
        && !allowed.iter().any(|one| is_allowed(value, one))
    {
        let shown: Vec<String> = allowed.iter().map(Value::to_string).collect();
        found.add(
            path,
            format!("is {value}, which is none of {}", shown.join(", ")),
        );
    }
}

/// Whether `value` is the allowed `one`. A whole number admits every fraction that is cut to it, as for the API server.
fn is_allowed(value: &Value, one: &Value) -> bool {
    match (value.as_f64(), one.as_i64()) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the API server compares so"
        )]
        (Some(number), Some(whole)) if value.is_f64() => number as i64 == whole,
        _ => is_equal(value, one),
    }
}

/// Equality of JSON in which 1 and 1.0 are the same.
pub(super) fn is_equal(x: &Value, y: &Value) -> bool {
    match (x, y) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| is_equal(x, y))
        }
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len()
                && x.iter()
                    .all(|(name, x)| y.get(name).is_some_and(|y| is_equal(x, y)))
        }
        _ => x == y,
    }
}

fn check_bounds(size: usize, bounds: Bounds, what: &str, path: &str, found: &mut Found) {
    if let Some(least) = bounds.least.filter(|least| size < *least) {
        found.add(
            path,
            format!("must have at least {least} {what}, has {size}"),
        );
    }
    if let Some(most) = bounds.most.filter(|most| size > *most) {
        found.add(path, format!("must have at most {most} {what}, has {size}"));
    }
}

fn check_text(text: &str, node: &Node, path: &str, found: &mut Found) {
    let length = node.length;
    if length.least.is_some() || length.most.is_some() {
        check_bounds(text.chars().count(), length, "characters", path, found);
    }
    if let Some((pattern, regex)) = &node.pattern
        && !regex.is_match(text)
    {
        found.add(path, format!("must match {pattern}"));
    }
    if let Some(format) = node.format
        && !format.admits(text)
    {
        found.add(path, format!("must be of format {}", format.as_str()));
    }
}

fn check_array(items: &[Value], node: &Node, path: &mut String, found: &mut Found) {
    if let Some(child) = &node.items {
        for (index, item) in items.iter().enumerate() {
            below(path, &format!("[{index}]"), |path| {
                check(item, child, path, found);
            });
        }
    }
    check_bounds(items.len(), node.items_count, "items", path, found);
    if node.has_unique_items && has_double(items) {
        found.add(path, "must not have an item twice");
    }
}

fn has_double(items: &[Value]) -> bool {
    items
        .iter()
        .enumerate()
        .any(|(index, item)| items.iter().take(index).any(|other| is_equal(item, other)))
}

fn check_object(members: &Map<String, Value>, node: &Node, path: &mut String, found: &mut Found) {
    check_bounds(
        members.len(),
        node.properties_count,
        "properties",
        path,
        found,
    );
    for (name, child) in &node.properties {
        if let Some(value) = members.get(name) {
            below(path, &format!(".{name}"), |path| {
                check(value, child, path, found);
            });
        }
    }
    match &node.additional {
        Some(Additional::Schema(child)) => {
            for (name, value) in members {
                if !node.properties.contains_key(name) {
                    below(path, &format!(".{name}"), |path| {
                        check(value, child, path, found);
                    });
                }
            }
        }
        Some(Additional::Allowed(false)) => {
            for name in members
                .keys()
                .filter(|name| !node.properties.contains_key(*name))
            {
                found.add(path, format!("must not have field {name}"));
            }
        }
        Some(Additional::Allowed(true)) | None => {}
    }
    for name in &node.required {
        if !members.contains_key(name) {
            below(path, &format!(".{name}"), |path| {
                found.add(path, "is required");
            });
        }
    }
    if node.is_embedded_resource {
        check_embedded(members, path, found);
    }
}

fn check_combinations(value: &Value, node: &Node, path: &mut String, found: &mut Found) {
    for part in &node.all_of {
        check(value, part, path, found);
    }
    if !node.any_of.is_empty() && !node.any_of.iter().any(|part| is_valid(value, part)) {
        found.add(path, "must match one of the schemas of anyOf");
    }
    if !node.one_of.is_empty() {
        match node
            .one_of
            .iter()
            .filter(|part| is_valid(value, part))
            .count()
        {
            1 => {}
            0 => found.add(path, "must match one of the schemas of oneOf"),
            _ => found.add(path, "must match only one of the schemas of oneOf"),
        }
    }
    if let Some(not) = &node.not
        && is_valid(value, not)
    {
        found.add(path, "must not match the schema of not");
    }
}

/// Sets and maps that are written as lists.
fn check_lists(value: &Value, node: &Node, path: &mut String, found: &mut Found) {
    match value {
        Value::Array(items) => {
            match &node.list_type {
                ListType::Atomic => {}
                ListType::Set => check_set(items, path, found),
                ListType::Map(keys) => check_map(items, keys, node, path, found),
            }
            if let Some(child) = &node.items {
                for (index, item) in items.iter().enumerate() {
                    below(path, &format!("[{index}]"), |path| {
                        check_lists(item, child, path, found);
                    });
                }
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                if let Some(child) = node.member(name) {
                    below(path, &format!(".{name}"), |path| {
                        check_lists(value, child, path, found);
                    });
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check_set(items: &[Value], path: &str, found: &mut Found) {
    for (index, item) in items.iter().enumerate() {
        if items.iter().take(index).any(|other| is_same(item, other)) {
            found.add(
                &format!("{path}[{index}]"),
                format!("{item} is there twice"),
            );
        }
    }
}

/// Equality of the elements of a set: a whole number is none that is written as a fraction, unless that is inside.
fn is_same(x: &Value, y: &Value) -> bool {
    match (x, y) {
        (Value::Number(x), Value::Number(y)) => {
            x.as_i64().is_some() == y.as_i64().is_some() && (x == y || x.as_f64() == y.as_f64())
        }
        _ => is_equal(x, y),
    }
}

fn check_map(items: &[Value], keys: &[String], node: &Node, path: &str, found: &mut Found) {
    let key_of = |item: &Value| Key::of(item, keys, node);
    let mut seen: Vec<Key> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        // Two that are null have no key, which is one, too.
        if !item.is_object() && !item.is_null() {
            continue;
        }
        let key = key_of(item);
        if seen.iter().any(|other| key.is(other)) {
            found.add(
                &format!("{path}[{index}]"),
                format!("a second element with the same {}", keys.join(", ")),
            );
        }
        seen.push(key);
    }
}

/// What tells the elements of a map apart.
struct Key(Vec<Option<Value>>);

impl Key {
    fn of(item: &Value, keys: &[String], node: &Node) -> Self {
        // An absent key stands for its default.
        let value = |key: &String| {
            let default = || {
                let child = node.items.as_deref()?.properties.get(key)?;
                child.default.clone()
            };
            item.get(key).cloned().or_else(default)
        };
        Self(keys.iter().map(value).collect())
    }

    /// One value is compared as that of a set, several are compared as they are written.
    fn is(&self, other: &Self) -> bool {
        let equal = if self.0.len() == 1 { is_same } else { is_equal };
        self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|pair| match pair {
                (Some(x), Some(y)) => equal(x, y),
                (x, y) => x.is_none() && y.is_none(),
            })
    }
}

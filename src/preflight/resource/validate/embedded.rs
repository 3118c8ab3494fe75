//! A resource inside a resource: its type, and its metadata.
//!
//! After `schema/objectmeta` of apiextensions-apiserver, which looks at what every embedded object has: `apiVersion` and
//! `kind` must be there and be a version and a kind; `metadata` may be missing, but what is in it has the types of
//! `ObjectMeta`, and names, labels and annotations are checked as those of any object.

use serde_json::{Map, Value};

use super::found::{Found, below};

/// The longest name, and the longest prefix of a key.
const NAME_LIMIT: usize = 253;
/// The longest part of a name, a kind, a key without its prefix, and a label's value.
const LABEL_LIMIT: usize = 63;

pub(super) fn check_embedded(members: &Map<String, Value>, path: &mut String, found: &mut Found) {
    let text = |name: &str| {
        members
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    for (name, is_right, wanted) in [
        (
            "apiVersion",
            is_version(text("apiVersion")),
            "a group and a version",
        ),
        ("kind", is_kind(text("kind")), "a kind"),
    ] {
        if text(name).is_empty() {
            below(path, &format!(".{name}"), |path| {
                found.add(path, "must be a text that is not empty");
            });
        } else if !is_right {
            let problem = format!("must be {wanted}, is {:?}", text(name));
            below(path, &format!(".{name}"), |path| found.add(path, problem));
        }
    }
    let Some(metadata) = members.get("metadata") else {
        return;
    };
    below(path, ".metadata", |path| match metadata {
        Value::Object(metadata) => check_metadata(metadata, path, found),
        _ => found.add(path, "must be an object"),
    });
}

fn check_metadata(metadata: &Map<String, Value>, path: &mut String, found: &mut Found) {
    for name in ["name", "generateName", "namespace"] {
        let problem = match metadata.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => name_problem(name, text),
            Some(_) => Some("must be a text"),
        };
        if let Some(problem) = problem {
            below(path, &format!(".{name}"), |path| found.add(path, problem));
        }
    }
    for name in ["labels", "annotations"] {
        let problem = match metadata.get(name) {
            None | Some(Value::Null) => continue,
            Some(Value::Object(entries)) if !entries.values().all(Value::is_string) => {
                "must have texts as values"
            }
            Some(Value::Object(entries)) => {
                let is_right = |(key, value): (&String, &Value)| {
                    let value = value.as_str().unwrap_or_default();
                    match name {
                        "labels" => is_key(key) && is_label_value(value),
                        // Of annotations the case does not matter.
                        _ => is_key(&key.to_lowercase()),
                    }
                };
                if entries.iter().all(is_right) {
                    continue;
                }
                "has a key or a value that is none"
            }
            Some(_) => "must be an object",
        };
        below(path, &format!(".{name}"), |path| found.add(path, problem));
    }
}

fn name_problem(field: &str, name: &str) -> Option<&'static str> {
    let (is_right, wanted) = match field {
        "namespace" => (is_label(name), "must be the name of a namespace"),
        _ => (is_segment(name), "must be a name that a path can hold"),
    };
    (!name.is_empty() && !is_right).then_some(wanted)
}

/// `VERSION` or `GROUP/VERSION`.
fn is_version(text: &str) -> bool {
    text.split('/').count() <= 2
}

/// A name as of a host, whatever its case.
fn is_kind(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    is_label(&text) && text.starts_with(|first: char| first.is_ascii_lowercase())
}

/// What can stand in a path.
fn is_segment(text: &str) -> bool {
    !matches!(text, "." | "..") && !text.contains(['/', '%'])
}

fn is_name(text: &str) -> bool {
    text.len() <= NAME_LIMIT && text.split('.').all(|part| is_part(part, is_lower))
}

fn is_label(text: &str) -> bool {
    text.len() <= LABEL_LIMIT && is_part(text, is_lower)
}

fn is_lower(one: char) -> bool {
    one.is_ascii_lowercase() || one.is_ascii_digit()
}

/// Such characters, and between them hyphens.
fn is_part(text: &str, is_inner: fn(char) -> bool) -> bool {
    text.starts_with(is_inner)
        && text.ends_with(is_inner)
        && text.chars().all(|one| one == '-' || is_inner(one))
}

fn is_key(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    prefix.is_none_or(is_name) && !name.is_empty() && is_label_value(name)
}

fn is_label_value(text: &str) -> bool {
    let is_outer = |one: char| one.is_ascii_alphanumeric();
    let is_inner = |one: char| is_outer(one) || matches!(one, '-' | '_' | '.');
    text.is_empty()
        || text.len() <= LABEL_LIMIT
            && text.starts_with(is_outer)
            && text.ends_with(is_outer)
            && text.chars().all(is_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Each row is what an API server said.
    #[test]
    fn metadata_is_that_of_any_object() {
        let check = |object: &Value| {
            let mut found = Found::default();
            check_embedded(object.as_object().unwrap(), &mut String::new(), &mut found);
            found.violations.is_empty()
        };
        let with =
            |metadata: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
        for (object, expected) in [
            (json!({}), false),
            (json!({"apiVersion": "v1", "kind": "Pod"}), true),
            (json!({"apiVersion": "a/b/c", "kind": "Pod"}), false),
            (json!({"apiVersion": "v1", "kind": "po d"}), false),
            (json!({"apiVersion": "v1", "kind": ""}), false),
            (with(json!({})), true),
            (with(json!(1)), false),
            (with(json!({"name": "X_y"})), true),
            (with(json!({"name": "a/b"})), false),
            (with(json!({"labels": {"a b": "c"}})), false),
            (with(json!({"labels": {"a": 1}})), false),
            (with(json!({"labels": {"example.com/a": "b_c"}})), true),
            (with(json!({"annotations": {"A/B": "any thing"}})), true),
            (with(json!({"namespace": "N"})), false),
            (with(json!({"unknown": 1})), true),
        ] {
            assert_eq!(check(&object), expected, "{object}");
        }
    }
}

//! One manifest file: a stream of objects, lists flattened.
//!
//! Rules: the local, unstructured builder of `k8s.io/cli-runtime/pkg/resource`, which checks the metadata of every
//! object that stands on its own and the apiVersion of every item of a list.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use crate::fbc::yaml;

use super::compact::go_text;
use super::typed::{self, TypeMismatch, kind_of};

/// Why one manifest file cannot be read. The texts are those of the reference; the file is named around them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Neither YAML nor JSON.
    #[error("error parsing {path}: error converting YAML to JSON: yaml: {problem}")]
    Syntax {
        /// The file.
        path: String,
        /// Where and what, without quoting the document.
        problem: String,
    },
    /// A document that is no object, has no kind, or has metadata of wrong types.
    #[error("unable to decode {path:?}: {problem}")]
    Decode {
        /// The file.
        path: String,
        /// What is wrong with the document.
        problem: String,
    },
    /// An object whose kind is decoded into a type, and does not fit it.
    #[error(transparent)]
    Type(#[from] TypeMismatch),
    /// Items of a list that cannot be used, each reported once.
    #[error("{}", aggregated(.0))]
    Items(Vec<String>),
}

/// Go's text for several errors at once.
fn aggregated(problems: &[String]) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    for problem in problems {
        if !distinct.contains(&problem.as_str()) {
            distinct.push(problem);
        }
    }
    match distinct.as_slice() {
        [one] => (*one).to_owned(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Reads the objects of one file and gives each to `accept`, in order.
///
/// # Errors
/// The first defect; for the items of a list, all of them together.
pub(super) fn read(
    path: &str,
    bytes: &[u8],
    accept: &mut impl FnMut(Value) -> Result<(), TypeMismatch>,
) -> Result<(), ManifestError> {
    for document in yaml::documents(bytes) {
        let document = document.map_err(|error| ManifestError::Syntax {
            path: path.to_owned(),
            problem: error.to_string(),
        })?;
        if document.is_null() {
            continue;
        }
        let members = checked(document).map_err(|problem| ManifestError::Decode {
            path: path.to_owned(),
            problem,
        })?;
        if members.get("items").is_some_and(|items| !items.is_null()) {
            let problems = read_items(path, members, accept)?;
            if !problems.is_empty() {
                return Err(ManifestError::Items(problems));
            }
        } else {
            accept(Value::Object(members))?;
        }
    }
    Ok(())
}

/// A document that stands on its own: an object with a kind and sound metadata.
fn checked(document: Value) -> Result<Map<String, Value>, String> {
    let Value::Object(members) = document else {
        return Err(format!(
            "json: cannot unmarshal {} into Go value of type unstructured.detector",
            kind_of(&document)
        ));
    };
    match members.get("kind") {
        Some(Value::String(kind)) if !kind.is_empty() => {}
        _ => {
            return Err(format!(
                "Object 'Kind' is missing in '{}'",
                go_text(&members)
            ));
        }
    }
    let header: Map<String, Value> = ["apiVersion", "kind", "metadata"]
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), members.get(*key)?.clone())))
        .collect();
    typed::check_json("bundle.MetadataOnly", &Value::Object(header))?;
    Ok(members)
}

/// The items of a list, nested lists after their siblings.
fn read_items(
    path: &str,
    list: Map<String, Value>,
    accept: &mut impl FnMut(Value) -> Result<(), TypeMismatch>,
) -> Result<Vec<String>, ManifestError> {
    let mut problems = Vec::new();
    let mut pending = VecDeque::from(items_of(path, list)?);
    while let Some(item) = pending.pop_front() {
        if item.get("items").is_some_and(Value::is_array) {
            pending.extend(items_of(path, item)?);
            continue;
        }
        let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default();
        let missing = if text("kind").is_empty() {
            Some("Object 'Kind' is missing in 'object has no kind field '")
        } else if text("apiVersion").is_empty() {
            Some("Object 'apiVersion' is missing in 'object has no apiVersion field'")
        } else {
            None
        };
        if let Some(missing) = missing {
            problems.push(format!(
                "unable to get type info from the object \"*unstructured.Unstructured\": {missing}"
            ));
        } else if let Err(mismatch) = accept(Value::Object(item)) {
            problems.push(mismatch.to_string());
        }
    }
    Ok(problems)
}

/// The items of one list; those without kind and apiVersion take them from a typed list.
fn items_of(
    path: &str,
    mut list: Map<String, Value>,
) -> Result<Vec<Map<String, Value>>, ManifestError> {
    let decode = |problem: String| ManifestError::Decode {
        path: path.to_owned(),
        problem,
    };
    let Some(Value::Array(items)) = list.remove("items") else {
        return Err(decode(
            "json: cannot unmarshal object into Go struct field decodeList.items of type []json.RawMessage"
                .to_owned(),
        ));
    };
    let text = |key: &str| list.get(key).and_then(Value::as_str).unwrap_or_default();
    let list_kind = text("kind");
    let kind = list_kind.strip_suffix("List").unwrap_or(list_kind);
    let api_version = text("apiVersion");
    items
        .into_iter()
        .map(|item| match item {
            Value::Object(mut members) => {
                if !has_text(&members, "kind") && !has_text(&members, "apiVersion") {
                    members.insert("kind".to_owned(), Value::from(kind));
                    members.insert("apiVersion".to_owned(), Value::from(api_version));
                }
                Ok(members)
            }
            Value::Null => Ok(Map::from_iter([
                ("kind".to_owned(), Value::from(kind)),
                ("apiVersion".to_owned(), Value::from(api_version)),
            ])),
            other => Err(decode(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                kind_of(&other)
            ))),
        })
        .collect()
}

fn has_text(members: &Map<String, Value>, key: &str) -> bool {
    members
        .get(key)
        .and_then(Value::as_str)
        .is_some_and(|text| !text.is_empty())
}

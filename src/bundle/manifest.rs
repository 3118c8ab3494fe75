//! One manifest file: a stream of objects, lists flattened.
//!
//! Rules: the local, unstructured builder of `k8s.io/cli-runtime/pkg/resource`, which checks the metadata of every
//! object that stands on its own and the apiVersion of every item of a list.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::fbc::stream;

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
    /// A list among the items of a list.
    #[error("*unstructured.Unstructured is not a list: no Items field in this object")]
    NestedList,
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
    let decode = |problem: String| ManifestError::Decode {
        path: path.to_owned(),
        problem,
    };
    for (index, document) in stream::documents(bytes).enumerate() {
        let document = document.map_err(|error| ManifestError::Syntax {
            path: path.to_owned(),
            problem: error.to_string(),
        })?;
        let members = match document {
            Value::Null => continue,
            Value::Object(members) => members,
            other => {
                return Err(decode(format!(
                    "json: cannot unmarshal {} into Go value of type unstructured.detector",
                    kind_of(&other)
                )));
            }
        };
        let items = match members.get("items") {
            Some(items) => Some(items_of(&members, items).map_err(decode)?),
            None => None,
        };
        check_header(&members, || raw(bytes, index, &members)).map_err(decode)?;
        match items {
            None => accept(Value::Object(members))?,
            Some(items) => {
                accept_items(items, accept)?;
            }
        }
    }
    Ok(())
}

/// A document that stands on its own has a kind and sound metadata; `raw` is its JSON text.
fn check_header(members: &Map<String, Value>, raw: impl FnOnce() -> String) -> Result<(), String> {
    if !has_text(members, "kind") {
        return Err(format!("Object 'Kind' is missing in '{}'", raw()));
    }
    typed::check_metadata(members)
}

/// The JSON text of a document: as written where the file is JSON, else as Go prints it.
fn raw(bytes: &[u8], index: usize, document: &Map<String, Value>) -> String {
    let text = bytes.trim_ascii_start();
    if text.first() == Some(&b'{') {
        let mut documents = serde_json::Deserializer::from_slice(text).into_iter::<&RawValue>();
        if let Some(Ok(raw)) = documents.nth(index) {
            return raw.get().to_owned();
        }
    }
    go_text(document)
}

/// The items of a list. A list among them is an error.
fn accept_items(
    items: Vec<Map<String, Value>>,
    accept: &mut impl FnMut(Value) -> Result<(), TypeMismatch>,
) -> Result<(), ManifestError> {
    let is_list = |item: &Map<String, Value>| item.get("items").is_some_and(Value::is_array);
    if items.iter().any(is_list) {
        return Err(ManifestError::NestedList);
    }
    let mut problems = Vec::new();
    for item in items {
        let missing = if !has_text(&item, "kind") {
            Some("Object 'Kind' is missing in 'object has no kind field '")
        } else if !has_text(&item, "apiVersion") {
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
    if problems.is_empty() {
        Ok(())
    } else {
        Err(ManifestError::Items(problems))
    }
}

/// The items of one list; those without kind and apiVersion take them from a typed list.
fn items_of(list: &Map<String, Value>, items: &Value) -> Result<Vec<Map<String, Value>>, String> {
    let items = match items {
        Value::Null => return Ok(Vec::new()),
        Value::Array(items) => items,
        other => {
            return Err(format!(
                "json: cannot unmarshal {} into Go struct field decodeList.items of type []json.RawMessage",
                kind_of(other)
            ));
        }
    };
    let text = |key: &str| list.get(key).and_then(Value::as_str).unwrap_or_default();
    let list_kind = text("kind");
    let kind = list_kind.strip_suffix("List").unwrap_or(list_kind);
    let api_version = text("apiVersion");
    items
        .iter()
        .map(|item| {
            let mut members = match item {
                Value::Null => Map::new(),
                Value::Object(members) => members.clone(),
                other => {
                    return Err(format!(
                        "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                        kind_of(other)
                    ));
                }
            };
            if !has_text(&members, "kind") && !has_text(&members, "apiVersion") {
                members.insert("kind".to_owned(), Value::from(kind));
                members.insert("apiVersion".to_owned(), Value::from(api_version));
            }
            Ok(members)
        })
        .collect()
}

fn has_text(members: &Map<String, Value>, key: &str) -> bool {
    members
        .get(key)
        .and_then(Value::as_str)
        .is_some_and(|text| !text.is_empty())
}

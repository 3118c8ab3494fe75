//! Bundle properties: those in the annotation of the CSV, and those in `metadata/properties.yaml`, merged into one
//! annotation text.

mod scalar;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::fbc::yaml;

use super::compact::{compacted, go_text};
use super::typed::kind_of;

/// The annotation that holds the properties of a bundle.
pub(super) const PROPERTIES_ANNOTATION: &str = "olm.properties";

/// The property whose value is an `OpenShift` version, which YAML takes for a number when it is not quoted.
const MAX_OPENSHIFT_VERSION: &str = "olm.maxOpenShiftVersion";

/// Why properties cannot be read. The texts are those of the reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PropertyError {
    /// The annotation is no JSON array of properties.
    #[error("failed to unmarshal csv.metadata.annotations['olm.properties']: {0}")]
    Annotation(String),
    /// The file is no list of properties.
    #[error("failed to unmarshal metadata/properties.yaml: {0}")]
    File(String),
}

/// A property as the annotation prints it. The value is JSON text.
struct Printed {
    r#type: String,
    value: Box<RawValue>,
}

/// A property as written; both members may be missing.
#[derive(Default, serde::Deserialize)]
struct Written {
    r#type: Option<String>,
    value: Option<Box<RawValue>>,
}

/// The annotation's text with the properties of `file` appended; `None` when there is neither.
///
/// Without a file, or with an empty one, the text stays as authored, but it must be readable.
///
/// # Errors
/// When one of both cannot be read.
pub(super) fn merged(
    annotation: Option<&str>,
    file: Option<&[u8]>,
) -> Result<Option<String>, PropertyError> {
    let mut properties = match annotation {
        Some(text) => from_annotation(text)?,
        None => Vec::new(),
    };
    let Some(file) = file.filter(|bytes| !bytes.is_empty()) else {
        return Ok(annotation.map(str::to_owned));
    };
    properties.extend(from_file(file)?);
    if properties.is_empty() && annotation.is_none() {
        // Go prints a list that was never made as null.
        return Ok(Some("null".to_owned()));
    }
    let printed: Vec<String> = properties
        .iter()
        .map(|property| {
            format!(
                "{{\"type\":{},\"value\":{}}}",
                go_text(&property.r#type),
                compacted(property.value.get())
            )
        })
        .collect();
    Ok(Some(format!("[{}]", printed.join(","))))
}

fn from_annotation(text: &str) -> Result<Vec<Printed>, PropertyError> {
    if text.trim().is_empty() {
        return Err(PropertyError::Annotation(
            "unexpected end of JSON input".to_owned(),
        ));
    }
    let written: Option<Vec<Option<Written>>> =
        serde_json::from_str(text).map_err(|error| PropertyError::Annotation(error.to_string()))?;
    written
        .unwrap_or_default()
        .into_iter()
        .map(|property| {
            let property = property.unwrap_or_default();
            Ok(Printed {
                r#type: property.r#type.unwrap_or_default(),
                value: property.value.map_or_else(null, Ok)?,
            })
        })
        .collect::<Result<_, serde_json::Error>>()
        .map_err(|error| PropertyError::Annotation(error.to_string()))
}

fn null() -> Result<Box<RawValue>, serde_json::Error> {
    RawValue::from_string("null".to_owned())
}

fn from_file(bytes: &[u8]) -> Result<Vec<Printed>, PropertyError> {
    let document = yaml::value(bytes).map_err(|error| PropertyError::File(error.to_string()))?;
    let Some(mut members) = object(document, "value of type bundle.properties")? else {
        return Ok(Vec::new());
    };
    let items = match members.remove("properties") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(misfit(&other, "struct field properties.properties")),
    };
    let texts = scalar::texts(bytes);
    items
        .into_iter()
        .enumerate()
        .map(|(index, item)| property(item, texts.get(&index)))
        .collect()
}

/// One property of the file; `text` is its value as written, if that is a scalar.
fn property(item: Value, text: Option<&String>) -> Result<Printed, PropertyError> {
    let mut members = object(item, "struct field properties.properties")?.unwrap_or_default();
    let r#type = match members.remove("type") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text,
        // sigs.k8s.io/yaml turns scalars into text where text is wanted.
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Bool(value)) => value.to_string(),
        Some(other) => {
            return Err(misfit(
                &other,
                "struct field properties.properties.type of type string",
            ));
        }
    };
    let mut value = members.remove("value").unwrap_or(Value::Null);
    // Differs from the reference: 4.20 without quotes is the text 4.20, not the number 4.2.
    if r#type == MAX_OPENSHIFT_VERSION
        && value.is_number()
        && let Some(text) = text
    {
        value = Value::from(text.as_str());
    }
    let value = RawValue::from_string(value.to_string())
        .map_err(|error| PropertyError::File(error.to_string()))?;
    Ok(Printed { r#type, value })
}

/// The members of an object, `None` for null.
fn object(value: Value, place: &str) -> Result<Option<Map<String, Value>>, PropertyError> {
    match value {
        Value::Null => Ok(None),
        Value::Object(members) => Ok(Some(members)),
        other => Err(misfit(&other, place)),
    }
}

fn misfit(found: &Value, place: &str) -> PropertyError {
    PropertyError::File(format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go {place}",
        kind_of(found)
    ))
}

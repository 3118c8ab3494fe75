//! The texts of Go's JSON decoder, for what the reference has it decode: the metadata of every manifest, and schemas
//! in schemas.
//!
//! The decoder names the struct that holds the field, and the path to it: `json: cannot unmarshal number into Go
//! struct field ObjectMeta.metadata.labels of type string`. Keys of maps and places in lists are not on the path.
//! Where several values are wrong, the first one in order of keys is told; the decoder goes by the text's order.

use serde_json::{Map, Value};

use super::table::{Shape, TABLE};
use super::{TypeMismatch, encode_time, kind_of};

/// The fields that lead to a value.
type Path = Vec<&'static str>;

/// Checks `apiVersion` and `metadata` of a manifest.
pub(super) fn check_metadata(manifest: &Map<String, Value>) -> Result<(), String> {
    const HOLDER: &str = "json: cannot unmarshal {} into Go struct field metadataOnlyObject";
    let head = |found: &Value| HOLDER.replace("{}", kind_of(found));
    match manifest.get("apiVersion") {
        None | Some(Value::Null | Value::String(_)) => {}
        Some(other) => {
            return Err(format!(
                "{}.TypeMeta.apiVersion of type string",
                head(other)
            ));
        }
    }
    match manifest.get("metadata") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Object(metadata)) => {
            let index = TABLE
                .index_of("meta.ObjectMeta")
                .expect("the table has the type of all metadata");
            check_struct(index, &mut vec!["metadata"], metadata)
        }
        Some(other) => Err(format!("{}.metadata of type v1.ObjectMeta", head(other))),
    }
}

/// Checks what stands in place of a schema in a schema.
pub(super) fn check_schema(shape: &Shape, value: &Value) -> Result<(), String> {
    check(TABLE.json_schema(), shape, &mut Path::new(), value)
}

fn check_struct(index: usize, path: &mut Path, members: &Map<String, Value>) -> Result<(), String> {
    for (key, member) in members {
        let field = TABLE.fields(index).iter().find(|field| field.key == key);
        if let Some(field) = field {
            path.push(field.key);
            check(index, &field.shape, path, member)?;
            path.pop();
        }
    }
    Ok(())
}

/// Checks a value of the struct at `holder`.
fn check(holder: usize, shape: &Shape, path: &mut Path, value: &Value) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    let fits = match shape {
        Shape::String { .. } | Shape::Bytes => value.is_string(),
        Shape::Bool => value.is_boolean(),
        Shape::Int32 { .. } | Shape::Int64 { .. } => value.is_i64(),
        Shape::Float => value.is_number(),
        Shape::Pointer(inner) => return check(holder, inner, path, value),
        Shape::List(item) => match value {
            Value::Array(items) => {
                return items.iter().try_for_each(|i| check(holder, item, path, i));
            }
            _ => false,
        },
        Shape::Map(item) => match value {
            Value::Object(members) => {
                return members
                    .values()
                    .try_for_each(|member| check(holder, item, path, member));
            }
            _ => false,
        },
        Shape::Struct(index) => match value {
            Value::Object(members) => return check_struct(*index, path, members),
            _ => false,
        },
        Shape::Time | Shape::MicroTime => match encode_time(Some(value.clone())) {
            Err(TypeMismatch::Json { .. }) => false,
            Err(other) => return Err(other.to_string()),
            Ok(_) => true,
        },
        Shape::SchemaOrBool | Shape::SchemaOrArray | Shape::SchemaOrStrings => {
            return check_nested(shape, path, value);
        }
        Shape::Quantity
        | Shape::Duration
        | Shape::Json
        | Shape::IntOrString
        | Shape::Version
        | Shape::Release => true,
    };
    if fits {
        Ok(())
    } else {
        Err(misfit(holder, shape, path, value))
    }
}

/// A schema, or what may stand in its place.
fn check_nested(shape: &Shape, path: &mut Path, value: &Value) -> Result<(), String> {
    let schema = TABLE.json_schema();
    match (shape, value) {
        (_, Value::Object(members)) => check_struct(schema, path, members),
        (Shape::SchemaOrBool, Value::Bool(_)) => Ok(()),
        (Shape::SchemaOrBool, _) => Err("boolean or JSON schema expected".to_owned()),
        (Shape::SchemaOrArray, Value::Array(items)) => items
            .iter()
            .try_for_each(|item| check(schema, &Shape::Struct(schema), path, item)),
        (Shape::SchemaOrStrings, Value::Array(items)) => items
            .iter()
            .try_for_each(|item| check(schema, &Shape::String { name: "string" }, path, item)),
        // Whatever else is there is taken for nothing.
        _ => Ok(()),
    }
}

fn misfit(holder: usize, shape: &Shape, path: &Path, value: &Value) -> String {
    let found = match (shape, value) {
        (Shape::Int32 { .. } | Shape::Int64 { .. }, Value::Number(number)) => {
            format!("number {number}")
        }
        (_, other) => kind_of(other).to_owned(),
    };
    let place = if path.is_empty() {
        "value".to_owned()
    } else {
        format!(
            "struct field {}.{}",
            TABLE.short_name(holder),
            path.join(".")
        )
    };
    format!(
        "json: cannot unmarshal {found} into Go {place} of type {}",
        TABLE.go_name(shape)
    )
}

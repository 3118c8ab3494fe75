//! The texts of Go's JSON decoder, for the metadata that every manifest must fit.
//!
//! The decoder names the struct that holds the field, and the path to it: `json: cannot unmarshal number into Go
//! struct field ObjectMeta.metadata.labels of type string`.

use serde_json::Value;

use super::table::{Shape, TABLE};
use super::{encode, kind_of};

/// Checks an object against the struct at `index`; `path` holds the keys that led here.
pub(super) fn check_struct(
    index: usize,
    path: &mut Vec<&'static str>,
    value: &Value,
) -> Result<(), String> {
    let Some(members) = value.as_object() else {
        return Ok(());
    };
    for field in TABLE.fields(index) {
        let Some(member) = members.get(field.key).filter(|m| !m.is_null()) else {
            continue;
        };
        path.push(field.key);
        check(index, &field.shape, path, member)?;
        path.pop();
    }
    Ok(())
}

fn check(
    holder: usize,
    shape: &Shape,
    path: &mut Vec<&'static str>,
    value: &Value,
) -> Result<(), String> {
    let misfit = |path: &[&str], wanted: &str| {
        let found = match value {
            Value::Number(number) if wanted.starts_with("int") => format!("number {number}"),
            other => kind_of(other).to_owned(),
        };
        Err(format!(
            "json: cannot unmarshal {found} into Go struct field {}.{} of type {wanted}",
            TABLE.short_name(holder),
            path.join(".")
        ))
    };
    if value.is_null() {
        return Ok(());
    }
    match shape {
        Shape::String { name } if !value.is_string() => misfit(path, name),
        Shape::Bool if !value.is_boolean() => misfit(path, "bool"),
        Shape::Int32 { name } | Shape::Int64 { name } if !value.is_i64() => misfit(path, name),
        Shape::Pointer(inner) => check(holder, inner, path, value),
        Shape::List(item) => match value.as_array() {
            Some(items) => items.iter().try_for_each(|i| check(holder, item, path, i)),
            None => misfit(path, &format!("[]{}", TABLE.go_name(item))),
        },
        Shape::Map(item) => match value.as_object() {
            Some(members) => members
                .values()
                .try_for_each(|member| check(holder, item, path, member)),
            None => misfit(path, &format!("map[string]{}", TABLE.go_name(item))),
        },
        Shape::Struct(index) => match value {
            Value::Object(_) => check_struct(*index, path, value),
            _ => misfit(path, &TABLE.go_name(shape)),
        },
        Shape::Time | Shape::MicroTime => encode(shape, Some(value.clone()))
            .map(|_time| ())
            .map_err(|error| error.to_string()),
        _ => Ok(()),
    }
}

//! A struct as its generated Go method `String` prints it.
//!
//! After `apiextensions-apiserver/pkg/apis/apiextensions/v1/generated.pb.go`. Where the reference prints the address
//! of a nested value, which differs from run to run, its content is printed here.

use std::fmt::Write as _;

use super::canonical::go_float;
use super::record::{Data, Record};
use super::shape::{SCHEMA, Shape, Struct};

/// `&Name{Field:value,…}`.
pub(super) fn of_pointer(of: &Struct, record: &Record) -> String {
    let mut out = format!("&{}{{", of.name);
    for (index, field) in of.fields.iter().enumerate() {
        out.push_str(field.name);
        out.push(':');
        out.push_str(&of_field(field.shape, record.at(index)));
        out.push(',');
    }
    out.push('}');
    out
}

fn of_field(shape: Shape, data: Option<&Data>) -> String {
    match (shape, data) {
        (Shape::Text(_), Some(Data::Text(text))) => text.to_string(),
        (Shape::Bool, data) => matches!(data, Some(Data::Bool(true))).to_string(),
        (Shape::Pointer(_) | Shape::Bytes, None) => "nil".to_owned(),
        (Shape::Pointer(Shape::Struct(of)), Some(Data::Struct(record))) => of_pointer(of, record),
        (Shape::Pointer(target), data) => format!("*{}", of_field(*target, data)),
        (Shape::Bytes, Some(Data::Bytes(bytes))) => {
            let bytes: Vec<String> = bytes.bytes().map(|byte| byte.to_string()).collect();
            format!("*[{}]", bytes.join(" "))
        }
        (Shape::List(_, Shape::Struct(of)), data) => {
            let mut out = format!("[]{}{{", of.name);
            for element in list(data) {
                let text = match element {
                    Data::Struct(record) => of_pointer(of, record),
                    _ => String::new(),
                };
                out.push_str(text.strip_prefix('&').unwrap_or(&text));
                out.push(',');
            }
            out.push('}');
            out
        }
        (Shape::List(_, element), data) => {
            let elements: Vec<String> = list(data)
                .iter()
                .map(|data| of_field(*element, Some(data)))
                .collect();
            format!("[{}]", elements.join(" "))
        }
        (Shape::Map(name, element), data) => of_map(name, *element, data),
        (_, Some(Data::Integer(number))) => number.to_string(),
        (_, Some(Data::Float(number))) => go_float(*number),
        _ => String::new(),
    }
}

fn of_map(name: Option<&str>, element: Shape, data: Option<&Data>) -> String {
    let mut out = match (name, element) {
        (Some(name), _) => name.to_owned(),
        (None, Shape::Struct(of)) => format!("map[string]{}", of.name),
        (None, _) => String::new(),
    };
    out.push('{');
    if let Some(Data::Map(map)) = data {
        for (key, data) in map.iter() {
            let text = match (element, data) {
                (Shape::Struct(of), Data::Struct(record)) => of_pointer(of, record),
                _ => String::new(),
            };
            // Writing to a string cannot fail.
            _ = write!(out, "{key}: {text},");
        }
    }
    out.push('}');
    out
}

fn list(data: Option<&Data>) -> &[Data] {
    match data {
        Some(Data::List(list)) => list,
        _ => &[],
    }
}

/// A schema as [`of_pointer`] prints it.
pub(super) fn of_schema(schema: &Record) -> String {
    match SCHEMA {
        Shape::Struct(of) => of_pointer(of, schema),
        _ => String::new(),
    }
}

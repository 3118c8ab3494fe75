//! A schema as JSON, as an API server would hand it out.

use serde_json::{Map, Value};

use super::record::{Data, Record};
use super::shape::{Form, SCHEMA, Shape};

/// The JSON of a schema, without what was dropped when it was read.
pub(super) fn of_schema(schema: &Record) -> Value {
    of(&SCHEMA, &Data::Struct(schema.clone()))
}

fn of(shape: &Shape, data: &Data) -> Value {
    match (shape, data) {
        (Shape::Pointer(target), data) => of(target, data),
        (Shape::Struct(of_struct), Data::Struct(record)) => match of_struct.form {
            Form::Json => match record.at(0) {
                // It was printed from JSON.
                Some(Data::Bytes(text)) => serde_json::from_str(text).unwrap_or_default(),
                _ => Value::Null,
            },
            Form::Object => {
                let fields = record.fields().filter_map(|(index, data)| {
                    let field = of_struct.fields.get(index)?;
                    Some((field.json.to_owned(), of(&field.shape, data)))
                });
                Value::Object(fields.collect())
            }
            Form::SchemaOrBool => match record.at(1) {
                Some(schema) => of(&SCHEMA, schema),
                None => Value::Bool(!record.is_empty()),
            },
            Form::SchemaOrList => {
                let either = record
                    .fields()
                    .next()
                    .and_then(|(index, data)| Some(of(&of_struct.fields.get(index)?.shape, data)));
                // Neither was written, but something.
                either.unwrap_or(Value::Bool(true))
            }
        },
        (Shape::List(_, element), Data::List(items)) => {
            items.iter().map(|item| of(element, item)).collect()
        }
        (Shape::Map(_, element), Data::Map(entries)) => entries
            .iter()
            .map(|(name, data)| (name.to_owned(), of(element, data)))
            .collect::<Map<_, _>>()
            .into(),
        (_, Data::Text(text)) => Value::from(&**text),
        (_, Data::Bool(value)) => Value::from(*value),
        (_, Data::Integer(number)) => Value::from(*number),
        (_, Data::Float(number)) => Value::from(*number),
        _ => Value::Null,
    }
}

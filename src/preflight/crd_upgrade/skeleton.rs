//! Reading a CRD with its schemas apart: they are nearly all of it, and are read as they come.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::read::{SchemaSeed, WrongType};
use super::record::{Pool, Record};

/// The way to a schema: members' names, and a list's elements.
const WAY: [&str; 5] = ["spec", "versions", ELEMENT, "schema", "openAPIV3Schema"];

/// Any element of a list.
const ELEMENT: &str = "*";

/// The schemas of a CRD.
pub(super) type Schemas = Vec<Result<Record, WrongType>>;

/// Reads a CRD. In place of each schema stands its index among the schemas.
pub(super) fn read<'de, D: Deserializer<'de>>(
    deserializer: D,
    pool: &mut Pool,
) -> Result<(Value, Schemas), D::Error> {
    let mut schemas = Vec::new();
    let seed = Seed {
        pool,
        schemas: &mut schemas,
        way: &WAY,
    };
    let skeleton = seed.deserialize(deserializer)?;
    Ok((skeleton, schemas))
}

struct Seed<'p> {
    pool: &'p mut Pool,
    schemas: &'p mut Schemas,
    /// What is left of the way; with none left, this is a schema.
    way: &'static [&'static str],
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if !self.way.is_empty() {
            return deserializer.deserialize_any(self);
        }
        let schema = SchemaSeed { pool: self.pool }.deserialize(deserializer)?;
        Ok(schema.map_or(Value::Null, |schema| {
            self.schemas.push(schema);
            Value::from(self.schemas.len() - 1)
        }))
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        if let Some((&ELEMENT, way)) = self.way.split_first() {
            while let Some(item) = items.next_element_seed(Seed {
                pool: &mut *self.pool,
                schemas: &mut *self.schemas,
                way,
            })? {
                list.push(item);
            }
        } else {
            while let Some(item) = items.next_element()? {
                list.push(item);
            }
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = match self.way.split_first() {
                Some((step, way)) if *step == name => members.next_value_seed(Seed {
                    pool: &mut *self.pool,
                    schemas: &mut *self.schemas,
                    way,
                })?,
                _ => members.next_value()?,
            };
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

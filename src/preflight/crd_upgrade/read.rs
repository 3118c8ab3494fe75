//! Reading a schema, member by member as it comes, so that its JSON is never a tree in memory.
//!
//! Follows `apiextensions-apiserver/pkg/apis/apiextensions/v1/marshal.go` (v0.36). Descriptions of fields are dropped
//! where no check looks at them: everywhere but inside a schema that counts as part of another, such as that of a map's
//! values.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::canonical::{self, json_text};
use super::record::{Data, Entries, Pool, Record};
use super::shape::{At, Form, SCHEMA_POINTER, SCHEMA_PROPS, Shape, Struct};

/// JSON of another type than a field wants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field {field:?} of the schema is {found}, which is no {wanted}")]
pub struct WrongType {
    field: &'static str,
    found: &'static str,
    wanted: &'static str,
}

/// Whether what a schema says of itself to people counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Descriptions {
    Dropped,
    Kept,
}

/// Reads a schema; `None` for null.
pub(super) struct SchemaSeed<'p> {
    pub(super) pool: &'p mut Pool,
}

impl<'de> DeserializeSeed<'de> for SchemaSeed<'_> {
    type Value = Option<Result<Record, WrongType>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let mut wrong = None;
        let reader = Reader {
            pool: self.pool,
            wrong: &mut wrong,
            shape: &SCHEMA_POINTER,
            field: "openAPIV3Schema",
            descriptions: Descriptions::Dropped,
        };
        let data = reader.deserialize(deserializer)?;
        Ok(match (wrong, data) {
            (Some(wrong), _) => Some(Err(wrong)),
            (None, Some(Data::Struct(record))) => Some(Ok(record)),
            (None, _) => None,
        })
    }
}

/// What stands in a place.
enum Found {
    Null,
    /// The zero value, or one that does not fit.
    Zero,
    Data(Data),
}

impl From<Option<Data>> for Found {
    fn from(data: Option<Data>) -> Self {
        data.map_or(Self::Zero, Self::Data)
    }
}

/// Reads one value as `shape`; `None` is the zero value. What does not fit is noted, and passed over.
struct Reader<'p> {
    pool: &'p mut Pool,
    /// What did not fit first.
    wrong: &'p mut Option<WrongType>,
    shape: &'static Shape,
    field: &'static str,
    descriptions: Descriptions,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Option<Data>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Data>, D::Error> {
        let mut target = self.shape;
        let mut is_pointer = false;
        while let Shape::Pointer(inner) = target {
            (target, is_pointer) = (inner, true);
        }
        let reader = Reader {
            pool: &mut *self.pool,
            shape: target,
            ..self
        };
        let found = match target {
            Shape::Struct(of) if of.form == Form::Json => reader.json(deserializer)?,
            _ => deserializer.deserialize_any(reader)?,
        };
        Ok(match found {
            Found::Data(data) => Some(data),
            Found::Zero if is_pointer => Some(self.pool.zero(target)),
            Found::Zero | Found::Null => None,
        })
    }
}

impl Reader<'_> {
    /// Any JSON, kept as its text.
    fn json<'de, D: Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if value.is_null() {
            return Ok(Found::Null);
        }
        let text = Data::Bytes(self.pool.text(&json_text(&value)));
        Ok(Found::Data(Data::Struct(self.pool.record(vec![(0, text)]))))
    }

    /// Notes that the value is of a wrong type.
    fn refuse(&mut self, found: &'static str) -> Option<Data> {
        let wanted = match self.shape {
            Shape::Text(_) => "string",
            Shape::Bool => "boolean",
            Shape::Integer => "integer",
            Shape::Float => "number",
            Shape::List(..) => "array",
            Shape::Struct(of) if of.form == Form::SchemaOrBool => "boolean or JSON schema",
            // The reference passes over what is neither.
            Shape::Struct(of) if of.form == Form::SchemaOrList => return None,
            Shape::Struct(_) | Shape::Map(..) => "object",
            Shape::Bytes | Shape::Byte | Shape::Pointer(_) => return None,
        };
        let field = self.field;
        self.wrong.get_or_insert(WrongType {
            field,
            found,
            wanted,
        });
        None
    }

    fn number(mut self, value: &Value) -> Option<Data> {
        match self.shape {
            Shape::Integer => match canonical::integer(value) {
                Some(number) => Some(number)
                    .filter(|number| *number != 0)
                    .map(Data::Integer),
                None => self.refuse(canonical::kind(value)),
            },
            Shape::Float => {
                let number = value.as_f64().filter(|number| *number != 0.0);
                number.map(Data::Float)
            }
            _ => self.refuse(canonical::kind(value)),
        }
    }

    /// A reader of something below.
    fn below(
        &mut self,
        shape: &'static Shape,
        field: &'static str,
        descriptions: Descriptions,
    ) -> Reader<'_> {
        Reader {
            pool: &mut *self.pool,
            wrong: &mut *self.wrong,
            shape,
            field,
            descriptions,
        }
    }

    /// The fields of a struct.
    fn members<'de, A: MapAccess<'de>>(
        &mut self,
        of: &'static Struct,
        mut members: A,
    ) -> Result<Vec<(u8, Data)>, A::Error> {
        let is_schema = *of == SCHEMA_PROPS;
        let mut fields: Vec<(u8, Data)> = Vec::new();
        while let Some(index) = members.next_key_seed(Member(of))? {
            let Some((index, field)) =
                index.and_then(|index| Some((index, of.fields.get(usize::from(index))?)))
            else {
                members.next_value::<IgnoredAny>()?;
                continue;
            };
            let is_dropped = is_schema
                && index == At::Description as u8
                && self.descriptions == Descriptions::Dropped;
            let goes_on = is_schema && (index == At::Properties as u8 || index == At::Items as u8);
            let descriptions = match self.descriptions {
                Descriptions::Dropped if goes_on || is_dropped => Descriptions::Dropped,
                _ => Descriptions::Kept,
            };
            let data =
                members.next_value_seed(self.below(&field.shape, field.name, descriptions))?;
            // Of two members of one name the last counts.
            fields.retain(|(known, _)| *known != index);
            if let Some(data) = data.filter(|_| !is_dropped) {
                fields.push((index, data));
            }
        }
        Ok(fields)
    }

    fn schema<'de, A: MapAccess<'de>>(&mut self, members: A) -> Result<Data, A::Error> {
        let fields = self.members(&SCHEMA_PROPS, members)?;
        Ok(Data::Struct(self.pool.record(fields)))
    }

    fn record(&mut self, fields: Vec<(u8, Data)>) -> Option<Data> {
        (!fields.is_empty()).then(|| Data::Struct(self.pool.record(fields)))
    }

    fn elements<'de, A: SeqAccess<'de>>(
        &mut self,
        element: &'static Shape,
        mut items: A,
    ) -> Result<Data, A::Error> {
        let mut list = Vec::new();
        let field = self.field;
        while let Some(data) =
            items.next_element_seed(self.below(element, field, Descriptions::Kept))?
        {
            list.push(data.unwrap_or_else(|| self.pool.zero(element)));
        }
        Ok(Data::List(list.into()))
    }

    fn entries<'de, A: MapAccess<'de>>(
        &mut self,
        element: &'static Shape,
        mut members: A,
    ) -> Result<Data, A::Error> {
        let mut entries = Vec::new();
        let (field, descriptions) = (self.field, self.descriptions);
        while let Some(name) = members.next_key_seed(Name(self.pool))? {
            let data = members.next_value_seed(self.below(element, field, descriptions))?;
            entries.push((name, data.unwrap_or_else(|| self.pool.zero(element))));
        }
        Ok(Data::Map(Entries::new(entries)))
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Found, E> {
        Ok(Found::Null)
    }

    fn visit_bool<E>(mut self, value: bool) -> Result<Found, E> {
        let data = match self.shape {
            Shape::Bool => value.then_some(Data::Bool(true)),
            Shape::Struct(of) if of.form == Form::SchemaOrBool => {
                let fields = value.then_some((0, Data::Bool(true)));
                self.record(fields.into_iter().collect())
            }
            _ => self.refuse("a boolean"),
        };
        Ok(data.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Found, E> {
        Ok(self.number(&Value::from(value)).into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Found, E> {
        Ok(self.number(&Value::from(value)).into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Found, E> {
        Ok(self.number(&Value::from(value)).into())
    }

    fn visit_str<E>(mut self, value: &str) -> Result<Found, E> {
        let data = match self.shape {
            Shape::Text(_) if value.is_empty() => None,
            // It is dropped anyway: the pool need not know it.
            Shape::Text(_)
                if self.field == "Description" && self.descriptions == Descriptions::Dropped =>
            {
                None
            }
            Shape::Text(_) => Some(Data::Text(self.pool.text(value))),
            _ => self.refuse("a string"),
        };
        Ok(data.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Found, A::Error> {
        let data = match self.shape {
            Shape::List(_, element) => Some(self.elements(element, items)?),
            Shape::Struct(of) if of.form == Form::SchemaOrList => match of.fields {
                [_, list] => {
                    let Shape::List(_, element) = list.shape else {
                        return Ok(Found::Zero);
                    };
                    let list = self.elements(element, items)?;
                    self.record(vec![(1, list)])
                }
                _ => None,
            },
            _ => {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                self.refuse("an array")
            }
        };
        Ok(data.into())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Found, A::Error> {
        let form = match self.shape {
            Shape::Struct(of) => Some((of, of.form)),
            _ => None,
        };
        let data = match (self.shape, form) {
            (Shape::Map(_, element), _) => Some(self.entries(element, members)?),
            (_, Some((of, Form::Object))) => {
                let fields = self.members(of, members)?;
                self.record(fields)
            }
            (_, Some((_, Form::SchemaOrBool))) => {
                let schema = self.schema(members)?;
                self.record(vec![(0, Data::Bool(true)), (1, schema)])
            }
            (_, Some((_, Form::SchemaOrList))) => {
                let schema = self.schema(members)?;
                self.record(vec![(0, schema)])
            }
            _ => {
                while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                self.refuse("an object")
            }
        };
        Ok(data.into())
    }
}

/// Reads a member's name as the index of its field.
struct Member(&'static Struct);

impl<'de> DeserializeSeed<'de> for Member {
    type Value = Option<u8>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<u8>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Member {
    type Value = Option<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Option<u8>, E> {
        Ok((self.0.index_of)(name))
    }
}

/// Reads a member's name into the pool.
struct Name<'p>(&'p mut Pool);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Arc<str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Arc<str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.text(name))
    }
}

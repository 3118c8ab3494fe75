//! The shape of a CRD's schema as the reference holds it in memory, and reading JSON into it.
//!
//! The reference compares Go structs, and the text of an `unhandled` finding is a print of their fields. So a schema
//! is held here as a tree of [`Data`] beside a [`Shape`]: the fields of the `apiextensions.k8s.io/v1` types in their
//! order, with their names in Go and in JSON. Zero values are absent, as `omitempty` has it, while an empty list that
//! was written stays, since the printed difference tells the two apart.
//!
//! Follows `apiextensions-apiserver/pkg/apis/apiextensions/v1/types_jsonschema.go` and its `marshal.go` (v0.36).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::canonical::{self, json_text};

/// What a value of a field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A string; the name of its type where it is not Go's own.
    Text(Option<&'static str>),
    Bool,
    Integer,
    Float,
    /// Raw JSON, which the Go struct holds as bytes.
    Bytes,
    /// One element of [`Shape::Bytes`].
    Byte,
    Pointer(&'static Self),
    Struct(&'static Struct),
    List(Option<&'static str>, &'static Self),
    Map(Option<&'static str>, &'static Self),
}

/// A Go struct.
#[derive(Debug)]
pub(super) struct Struct {
    /// The name without its package, which is `v1` for all.
    pub(super) name: &'static str,
    /// The fields in Go's order.
    pub(super) fields: &'static [Field],
    /// How JSON is read into it.
    form: Form,
}

impl PartialEq for Struct {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Struct {}

/// How a struct is written in JSON.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// An object with a member per field.
    Object,
    /// Any JSON, kept as its text.
    Json,
    /// A schema or `true` or `false`.
    SchemaOrBool,
    /// A schema or a list: of schemas, or of names.
    SchemaOrList,
}

/// A field of a [`Struct`].
#[derive(Debug)]
pub(super) struct Field {
    /// The name in Go, which findings print.
    pub(super) name: &'static str,
    /// The member's name in JSON.
    pub(super) json: &'static str,
    /// What it holds.
    pub(super) shape: Shape,
}

const fn field(name: &'static str, json: &'static str, shape: Shape) -> Field {
    Field { name, json, shape }
}

const TEXT: Shape = Shape::Text(None);
const TEXTS: Shape = Shape::List(None, &TEXT);
const INTEGER_POINTER: Shape = Shape::Pointer(&Shape::Integer);
const FLOAT_POINTER: Shape = Shape::Pointer(&Shape::Float);
const BOOL_POINTER: Shape = Shape::Pointer(&Shape::Bool);
const TEXT_POINTER: Shape = Shape::Pointer(&TEXT);
const JSON_POINTER: Shape = Shape::Pointer(&JSON);
const DOCUMENTATION_POINTER: Shape = Shape::Pointer(&DOCUMENTATION);
const RULES: Shape = Shape::List(Some("ValidationRules"), &RULE);

// Schemas hold schemas: statics may refer to each other, constants may not refer to themselves.

/// A schema.
pub(super) static SCHEMA: Shape = Shape::Struct(&SCHEMA_PROPS);
static JSON: Shape = Shape::Struct(&JSON_VALUE);
static SCHEMA_OR_BOOL: Shape = Shape::Struct(&SCHEMA_PROPS_OR_BOOL);
static SCHEMA_OR_LIST: Shape = Shape::Struct(&SCHEMA_PROPS_OR_ARRAY);
static SCHEMA_OR_NAMES: Shape = Shape::Struct(&SCHEMA_PROPS_OR_STRING_ARRAY);
static DOCUMENTATION: Shape = Shape::Struct(&EXTERNAL_DOCUMENTATION);
static RULE: Shape = Shape::Struct(&VALIDATION_RULE);

/// A pointer to a schema: what the reference compares.
pub(super) static SCHEMA_POINTER: Shape = Shape::Pointer(&SCHEMA);

static JSON_VALUE: Struct = Struct {
    name: "JSON",
    fields: &[field("Raw", "", Shape::Bytes)],
    form: Form::Json,
};

static EXTERNAL_DOCUMENTATION: Struct = Struct {
    name: "ExternalDocumentation",
    fields: &[
        field("Description", "description", TEXT),
        field("URL", "url", TEXT),
    ],
    form: Form::Object,
};

static VALIDATION_RULE: Struct = Struct {
    name: "ValidationRule",
    fields: &[
        field("Rule", "rule", TEXT),
        field("Message", "message", TEXT),
        field("MessageExpression", "messageExpression", TEXT),
        field(
            "Reason",
            "reason",
            Shape::Pointer(&Shape::Text(Some("FieldValueErrorReason"))),
        ),
        field("FieldPath", "fieldPath", TEXT),
        field("OptionalOldSelf", "optionalOldSelf", BOOL_POINTER),
    ],
    form: Form::Object,
};

static SCHEMA_PROPS_OR_ARRAY: Struct = Struct {
    name: "JSONSchemaPropsOrArray",
    fields: &[
        field("Schema", "", Shape::Pointer(&SCHEMA)),
        field("JSONSchemas", "", Shape::List(None, &SCHEMA)),
    ],
    form: Form::SchemaOrList,
};

static SCHEMA_PROPS_OR_BOOL: Struct = Struct {
    name: "JSONSchemaPropsOrBool",
    fields: &[
        field("Allows", "", Shape::Bool),
        field("Schema", "", Shape::Pointer(&SCHEMA)),
    ],
    form: Form::SchemaOrBool,
};

static SCHEMA_PROPS_OR_STRING_ARRAY: Struct = Struct {
    name: "JSONSchemaPropsOrStringArray",
    fields: &[
        field("Schema", "", Shape::Pointer(&SCHEMA)),
        field("Property", "", TEXTS),
    ],
    form: Form::SchemaOrList,
};

/// Declares the fields of a schema once: a constant index for each, and the table.
macro_rules! schema_fields {
    ($($index:ident $name:literal $json:literal $shape:expr;)*) => {
        /// The index of each field of a schema.
        #[expect(dead_code, reason = "the order of all fields makes the indices")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub(super) enum At { $($index),* }

        static SCHEMA_PROPS: Struct = Struct {
            name: "JSONSchemaProps",
            fields: &[$(field($name, $json, $shape)),*],
            form: Form::Object,
        };
    };
}

schema_fields! {
    Id "ID" "id" TEXT;
    Schema "Schema" "$schema" Shape::Text(Some("JSONSchemaURL"));
    Ref "Ref" "$ref" TEXT_POINTER;
    Description "Description" "description" TEXT;
    Type "Type" "type" TEXT;
    Format "Format" "format" TEXT;
    Title "Title" "title" TEXT;
    Default "Default" "default" JSON_POINTER;
    Maximum "Maximum" "maximum" FLOAT_POINTER;
    ExclusiveMaximum "ExclusiveMaximum" "exclusiveMaximum" Shape::Bool;
    Minimum "Minimum" "minimum" FLOAT_POINTER;
    ExclusiveMinimum "ExclusiveMinimum" "exclusiveMinimum" Shape::Bool;
    MaxLength "MaxLength" "maxLength" INTEGER_POINTER;
    MinLength "MinLength" "minLength" INTEGER_POINTER;
    Pattern "Pattern" "pattern" TEXT;
    MaxItems "MaxItems" "maxItems" INTEGER_POINTER;
    MinItems "MinItems" "minItems" INTEGER_POINTER;
    UniqueItems "UniqueItems" "uniqueItems" Shape::Bool;
    MultipleOf "MultipleOf" "multipleOf" FLOAT_POINTER;
    Enum "Enum" "enum" Shape::List(None, &JSON);
    MaxProperties "MaxProperties" "maxProperties" INTEGER_POINTER;
    MinProperties "MinProperties" "minProperties" INTEGER_POINTER;
    Required "Required" "required" TEXTS;
    Items "Items" "items" Shape::Pointer(&SCHEMA_OR_LIST);
    AllOf "AllOf" "allOf" Shape::List(None, &SCHEMA);
    OneOf "OneOf" "oneOf" Shape::List(None, &SCHEMA);
    AnyOf "AnyOf" "anyOf" Shape::List(None, &SCHEMA);
    Not "Not" "not" Shape::Pointer(&SCHEMA);
    Properties "Properties" "properties" Shape::Map(None, &SCHEMA);
    AdditionalProperties "AdditionalProperties" "additionalProperties" Shape::Pointer(&SCHEMA_OR_BOOL);
    PatternProperties "PatternProperties" "patternProperties" Shape::Map(None, &SCHEMA);
    Dependencies "Dependencies" "dependencies" Shape::Map(Some("JSONSchemaDependencies"), &SCHEMA_OR_NAMES);
    AdditionalItems "AdditionalItems" "additionalItems" Shape::Pointer(&SCHEMA_OR_BOOL);
    Definitions "Definitions" "definitions" Shape::Map(Some("JSONSchemaDefinitions"), &SCHEMA);
    ExternalDocs "ExternalDocs" "externalDocs" DOCUMENTATION_POINTER;
    Example "Example" "example" JSON_POINTER;
    Nullable "Nullable" "nullable" Shape::Bool;
    XPreserveUnknownFields "XPreserveUnknownFields" "x-kubernetes-preserve-unknown-fields" BOOL_POINTER;
    XEmbeddedResource "XEmbeddedResource" "x-kubernetes-embedded-resource" Shape::Bool;
    XIntOrString "XIntOrString" "x-kubernetes-int-or-string" Shape::Bool;
    XListMapKeys "XListMapKeys" "x-kubernetes-list-map-keys" TEXTS;
    XListType "XListType" "x-kubernetes-list-type" TEXT_POINTER;
    XMapType "XMapType" "x-kubernetes-map-type" TEXT_POINTER;
    XValidations "XValidations" "x-kubernetes-validations" RULES;
}

/// The value of a field. A pointer is its target, or absent.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Data {
    Text(String),
    Bool(bool),
    Integer(i64),
    Float(f64),
    Bytes(Vec<u8>),
    Struct(Record),
    List(Vec<Self>),
    Map(BTreeMap<String, Self>),
}

/// The fields of a struct that are not zero, by their index in [`Struct::fields`].
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Record(Vec<(u8, Data)>);

impl Record {
    /// The field at `index`, unless it is zero.
    pub(super) fn at(&self, index: usize) -> Option<&Data> {
        self.0
            .iter()
            .find(|(at, _)| usize::from(*at) == index)
            .map(|(_, data)| data)
    }

    /// The schema's field.
    pub(super) fn get(&self, at: At) -> Option<&Data> {
        self.at(at as usize)
    }

    /// A copy without some fields.
    pub(super) fn without(&self, dropped: &[At]) -> Self {
        Self(
            self.0
                .iter()
                .filter(|(index, _)| !dropped.iter().any(|at| *at as u8 == *index))
                .cloned()
                .collect(),
        )
    }

    /// A string field; empty where it is absent.
    pub(super) fn text(&self, at: At) -> &str {
        match self.get(at) {
            Some(Data::Text(text)) => text,
            _ => "",
        }
    }

    /// A boolean field.
    pub(super) fn is(&self, at: At) -> bool {
        matches!(self.get(at), Some(Data::Bool(true)))
    }

    /// The elements of a list field.
    pub(super) fn list(&self, at: At) -> &[Data] {
        match self.get(at) {
            Some(Data::List(list)) => list,
            _ => &[],
        }
    }

    /// The schema below a field that holds one, `items` and `additionalProperties` included.
    pub(super) fn schema(&self, at: At) -> Option<&Self> {
        match (at, self.get(at)?) {
            (At::Items, Data::Struct(either)) => as_record(either.at(0)?),
            (At::AdditionalProperties | At::AdditionalItems, Data::Struct(either)) => {
                as_record(either.at(1)?)
            }
            (_, Data::Struct(schema)) => Some(schema),
            _ => None,
        }
    }

    /// The schemas below a field that holds them by name.
    pub(super) fn schemas(&self, at: At) -> impl Iterator<Item = (&str, &Self)> {
        let map = match self.get(at) {
            Some(Data::Map(map)) => Some(map),
            _ => None,
        };
        map.into_iter()
            .flatten()
            .filter_map(|(name, data)| Some((name.as_str(), as_record(data)?)))
    }
}

/// The record that `data` is.
pub(super) fn as_record(data: &Data) -> Option<&Record> {
    match data {
        Data::Struct(record) => Some(record),
        _ => None,
    }
}

/// JSON of another type than a field wants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field {field:?} of the schema is {found}, which is no {wanted}")]
pub struct WrongType {
    field: &'static str,
    found: &'static str,
    wanted: &'static str,
}

/// Reads a schema.
pub(super) fn read_schema(value: &Value) -> Result<Record, WrongType> {
    match read(&SCHEMA, value, "openAPIV3Schema")? {
        Some(Data::Struct(record)) => Ok(record),
        _ => Ok(Record::default()),
    }
}

/// Reads `value` as `shape`; `None` is the zero value.
fn read(shape: &Shape, value: &Value, field: &'static str) -> Result<Option<Data>, WrongType> {
    let wrong = |wanted| WrongType {
        field,
        found: canonical::kind(value),
        wanted,
    };
    if value.is_null() {
        return Ok(None);
    }
    Ok(match shape {
        Shape::Pointer(target) => read(target, value, field)?.or_else(|| Some(zero(target))),
        Shape::Text(_) => {
            let text = value.as_str().ok_or_else(|| wrong("string"))?;
            (!text.is_empty()).then(|| Data::Text(text.to_owned()))
        }
        Shape::Bool => value
            .as_bool()
            .ok_or_else(|| wrong("boolean"))?
            .then_some(Data::Bool(true)),
        Shape::Integer => Some(Data::Integer(
            canonical::integer(value).ok_or_else(|| wrong("integer"))?,
        ))
        .filter(|data| *data != Data::Integer(0)),
        Shape::Float => Some(Data::Float(value.as_f64().ok_or_else(|| wrong("number"))?))
            .filter(|data| *data != Data::Float(0.0)),
        Shape::Bytes | Shape::Byte => Some(Data::Bytes(json_text(value).into_bytes())),
        Shape::Struct(of) => read_struct(of, value, field)?,
        Shape::List(_, element) => {
            let items = value.as_array().ok_or_else(|| wrong("array"))?;
            Some(Data::List(
                items
                    .iter()
                    .map(|item| Ok(read(element, item, field)?.unwrap_or_else(|| zero(element))))
                    .collect::<Result<_, _>>()?,
            ))
        }
        Shape::Map(_, element) => {
            let members = value.as_object().ok_or_else(|| wrong("object"))?;
            Some(Data::Map(
                members
                    .iter()
                    .map(|(name, item)| {
                        let data = read(element, item, field)?.unwrap_or_else(|| zero(element));
                        Ok((name.clone(), data))
                    })
                    .collect::<Result<_, _>>()?,
            ))
        }
    })
}

fn read_struct(
    of: &'static Struct,
    value: &Value,
    name: &'static str,
) -> Result<Option<Data>, WrongType> {
    let wrong = |wanted| WrongType {
        field: name,
        found: canonical::kind(value),
        wanted,
    };
    let mut fields = Vec::new();
    match of.form {
        Form::Json => fields.push((0, Data::Bytes(json_text(value).into_bytes()))),
        Form::Object => {
            let members = value.as_object().ok_or_else(|| wrong("object"))?;
            for (index, field, member) in present(of, members) {
                if let Some(data) = read(&field.shape, member, field.name)? {
                    fields.push((index, data));
                }
            }
        }
        Form::SchemaOrBool => {
            if value.is_object() {
                fields.push((0, Data::Bool(true)));
                fields.push((1, Data::Struct(read_schema(value)?)));
            } else if value
                .as_bool()
                .ok_or_else(|| wrong("boolean or JSON schema"))?
            {
                fields.push((0, Data::Bool(true)));
            }
        }
        Form::SchemaOrList => {
            if value.is_object() {
                fields.push((0, Data::Struct(read_schema(value)?)));
            } else if let (Value::Array(_), Some(list)) = (value, of.fields.get(1))
                && let Some(data) = read(&list.shape, value, name)?
            {
                fields.push((1, data));
            }
        }
    }
    Ok((!fields.is_empty()).then_some(Data::Struct(Record(fields))))
}

/// The fields that an object has, in Go's order. Objects have few of the many fields, so these are looked for, not those.
fn present<'v>(
    of: &'static Struct,
    members: &'v Map<String, Value>,
) -> Vec<(u8, &'static Field, &'v Value)> {
    let mut present: Vec<_> = members
        .iter()
        .filter_map(|(name, member)| {
            let (index, field) = (0u8..)
                .zip(of.fields)
                .find(|(_, field)| field.json == name)?;
            Some((index, field, member))
        })
        .collect();
    present.sort_unstable_by_key(|(index, ..)| *index);
    present
}

/// The zero value that a list, a map or a pointer holds.
fn zero(shape: &Shape) -> Data {
    match shape {
        Shape::Text(_) => Data::Text(String::new()),
        Shape::Bool => Data::Bool(false),
        Shape::Integer | Shape::Byte => Data::Integer(0),
        Shape::Float => Data::Float(0.0),
        Shape::Bytes => Data::Bytes(Vec::new()),
        Shape::Struct(_) | Shape::Pointer(_) => Data::Struct(Record::default()),
        Shape::List(..) => Data::List(Vec::new()),
        Shape::Map(..) => Data::Map(BTreeMap::new()),
    }
}

/// Whether two values mean the same to the reference's first look: an empty list or map equals an absent one.
pub(super) fn is_same(x: Option<&Data>, y: Option<&Data>) -> bool {
    match (x, y) {
        (None, None) => true,
        (Some(data), None) | (None, Some(data)) => match data {
            Data::List(list) => list.is_empty(),
            Data::Map(map) => map.is_empty(),
            _ => false,
        },
        (Some(Data::Struct(x)), Some(Data::Struct(y))) => is_same_record(x, y),
        (Some(Data::List(x)), Some(Data::List(y))) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| is_same(Some(x), Some(y)))
        }
        (Some(Data::Map(x)), Some(Data::Map(y))) => {
            x.len() == y.len()
                && x.iter()
                    .zip(y)
                    .all(|((a, x), (b, y))| a == b && is_same(Some(x), Some(y)))
        }
        (Some(x), Some(y)) => x == y,
    }
}

/// [`is_same`] of two structs of one type.
pub(super) fn is_same_record(x: &Record, y: &Record) -> bool {
    is_same_without(x, y, &[])
}

/// [`is_same_record`] without some fields.
pub(super) fn is_same_without(x: &Record, y: &Record, dropped: &[At]) -> bool {
    let counts = |index: u8| !dropped.iter().any(|at| *at as u8 == index);
    let covers = |x: &Record, y: &Record| {
        x.0.iter()
            .filter(|(index, _)| counts(*index))
            .all(|(index, data)| is_same(Some(data), y.at(usize::from(*index))))
    };
    // What only the second has must be as good as absent.
    let has_more =
        y.0.iter()
            .filter(|(index, _)| counts(*index) && x.at(usize::from(*index)).is_none())
            .any(|(_, data)| !is_same(Some(data), None));
    !has_more && covers(x, y)
}

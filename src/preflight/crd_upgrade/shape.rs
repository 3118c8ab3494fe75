//! The shape of a CRD's schema as the reference holds it in memory.
//!
//! The reference compares Go structs, and the text of an `unhandled` finding is a print of their fields. So a schema
//! is held as a tree of [`super::record::Data`] beside a [`Shape`]: the fields of the `apiextensions.k8s.io/v1` types in
//! their order, with their names in Go and in JSON.
//!
//! Follows `apiextensions-apiserver/pkg/apis/apiextensions/v1/types_jsonschema.go` and its `marshal.go` (v0.36).

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
    pub(super) form: Form,
    /// The index of the field of a JSON name.
    pub(super) index_of: fn(&str) -> Option<u8>,
}

impl PartialEq for Struct {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Struct {}

/// How a struct is written in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
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

/// The index of the field that is named so in JSON.
fn find(fields: &[Field], name: &str) -> Option<u8> {
    let mut indices = (0u8..).zip(fields);
    indices.find_map(|(index, field)| (field.json == name).then_some(index))
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
    index_of: |_| None,
};

static EXTERNAL_DOCUMENTATION: Struct = Struct {
    name: "ExternalDocumentation",
    fields: &[
        field("Description", "description", TEXT),
        field("URL", "url", TEXT),
    ],
    form: Form::Object,
    index_of: |name| find(EXTERNAL_DOCUMENTATION.fields, name),
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
    index_of: |name| find(VALIDATION_RULE.fields, name),
};

static SCHEMA_PROPS_OR_ARRAY: Struct = Struct {
    name: "JSONSchemaPropsOrArray",
    fields: &[
        field("Schema", "", Shape::Pointer(&SCHEMA)),
        field("JSONSchemas", "", Shape::List(None, &SCHEMA)),
    ],
    form: Form::SchemaOrList,
    index_of: |_| None,
};

static SCHEMA_PROPS_OR_BOOL: Struct = Struct {
    name: "JSONSchemaPropsOrBool",
    fields: &[
        field("Allows", "", Shape::Bool),
        field("Schema", "", Shape::Pointer(&SCHEMA)),
    ],
    form: Form::SchemaOrBool,
    index_of: |_| None,
};

static SCHEMA_PROPS_OR_STRING_ARRAY: Struct = Struct {
    name: "JSONSchemaPropsOrStringArray",
    fields: &[
        field("Schema", "", Shape::Pointer(&SCHEMA)),
        field("Property", "", TEXTS),
    ],
    form: Form::SchemaOrList,
    index_of: |_| None,
};

/// Declares the fields of a schema once: a constant index for each, and the table.
macro_rules! schema_fields {
    ($($index:ident $name:literal $json:literal $shape:expr;)*) => {
        /// The index of each field of a schema.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub(super) enum At { $($index),* }

        /// A schema's fields.
        pub(super) static SCHEMA_PROPS: Struct = Struct {
            name: "JSONSchemaProps",
            fields: &[$(field($name, $json, $shape)),*],
            form: Form::Object,
            index_of: |name| match name {
                $($json => Some(At::$index as u8),)*
                _ => None,
            },
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

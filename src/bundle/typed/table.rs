//! The table of Go types, read once from the text beside this file.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// One type per paragraph; see the module above.
const TEXT: &str = include_str!("types.txt");

/// The table. It is part of the binary, so a defect in it is a defect of the build, and a test reads it.
pub(crate) static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(TEXT));

/// How a Go type is written in JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// `string`, or a named string type.
    String {
        /// Go's name of the type, as errors print it.
        name: &'static str,
    },
    /// `bool`.
    Bool,
    /// `int32`.
    Int32 {
        /// Go's name of the type, as errors print it.
        name: &'static str,
    },
    /// `int64` and `int`.
    Int64 {
        /// Go's name of the type, as errors print it.
        name: &'static str,
    },
    /// `float64`.
    Float,
    /// `[]byte`, base64 in JSON.
    Bytes,
    /// `[]T`.
    List(Box<Self>),
    /// `map[string]T`.
    Map(Box<Self>),
    /// `*T`.
    Pointer(Box<Self>),
    /// A struct, by its place in the table.
    Struct(usize),
    /// `resource.Quantity`.
    Quantity,
    /// `metav1.Time`.
    Time,
    /// `metav1.MicroTime`.
    MicroTime,
    /// `metav1.Duration`.
    Duration,
    /// Any JSON, kept as it is.
    Json,
    /// `intstr.IntOrString`.
    IntOrString,
    /// `apiextensions.JSONSchemaPropsOrBool`.
    SchemaOrBool,
    /// `apiextensions.JSONSchemaPropsOrArray`.
    SchemaOrArray,
    /// `apiextensions.JSONSchemaPropsOrStringArray`.
    SchemaOrStrings,
    /// `version.OperatorVersion`, a semantic version read tolerantly.
    Version,
    /// `release.OperatorRelease`, dot-separated identifiers.
    Release,
}

/// One JSON field of a Go struct.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) key: &'static str,
    pub(crate) shape: Shape,
    /// Left out when empty: `""`, `false`, `0`, nil, an empty list or map.
    pub(crate) omit_empty: bool,
    /// Left out when zero, structs too.
    pub(crate) omit_zero: bool,
    /// Required by the `OpenAPI` document.
    pub(crate) required: bool,
}

/// All types by name and place.
#[derive(Debug)]
pub(crate) struct Table {
    places: BTreeMap<&'static str, usize>,
    structs: Vec<Vec<Field>>,
    json_schema: usize,
}

impl Table {
    fn read(text: &'static str) -> Self {
        let lines = || {
            text.lines()
                .filter(|l| !l.is_empty() && !l.starts_with('#'))
        };
        let places: BTreeMap<&'static str, usize> = lines()
            .filter(|line| !line.starts_with(' '))
            .enumerate()
            .map(|(place, name)| (name, place))
            .collect();
        let mut structs: Vec<Vec<Field>> = Vec::with_capacity(places.len());
        for line in lines() {
            let Some(field) = line.strip_prefix("  ") else {
                structs.push(Vec::new());
                continue;
            };
            structs
                .last_mut()
                .expect("the table begins with the name of a type")
                .push(Field::read(field, &places));
        }
        let json_schema = places
            .get("crd.JSONSchemaProps")
            .copied()
            .expect("the table has the schema of custom resources");
        Self {
            places,
            structs,
            json_schema,
        }
    }

    pub(crate) fn index_of(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    pub(crate) fn fields(&self, index: usize) -> &[Field] {
        self.structs.get(index).map_or(&[], Vec::as_slice)
    }

    /// The name of the struct at `index` without its package.
    pub(crate) fn short_name(&self, index: usize) -> &'static str {
        let name = self.places.iter().find(|(_, place)| **place == index);
        name.and_then(|(name, _)| name.split('.').next_back())
            .unwrap_or_default()
    }

    /// The Go type as errors print it.
    pub(crate) fn go_name(&self, shape: &Shape) -> String {
        match shape {
            Shape::String { name } | Shape::Int32 { name } | Shape::Int64 { name } => {
                (*name).to_owned()
            }
            Shape::Bool => "bool".to_owned(),
            Shape::Float => "float64".to_owned(),
            Shape::Struct(index) => format!("v1.{}", self.short_name(*index)),
            Shape::List(item) => format!("[]{}", self.go_name(item)),
            Shape::Map(item) => format!("map[string]{}", self.go_name(item)),
            Shape::Pointer(inner) => self.go_name(inner),
            Shape::Json => "v1.JSON".to_owned(),
            // The others have decoders of their own, which want a string.
            _ => "string".to_owned(),
        }
    }

    /// The place of `JSONSchemaProps`, which some shapes name without saying so.
    pub(crate) fn json_schema(&self) -> usize {
        self.json_schema
    }
}

impl Field {
    fn read(line: &'static str, places: &BTreeMap<&'static str, usize>) -> Self {
        let mut words = line.split(' ');
        let key = words.next().unwrap_or_default();
        let shape = Shape::read(words.next().unwrap_or_default(), places);
        let mut field = Self {
            key,
            shape,
            omit_empty: false,
            omit_zero: false,
            required: false,
        };
        for word in words {
            match word {
                "omitempty" => field.omit_empty = true,
                "omitzero" => field.omit_zero = true,
                "required" => field.required = true,
                _ => {}
            }
        }
        field
    }
}

impl Shape {
    fn read(text: &'static str, places: &BTreeMap<&'static str, usize>) -> Self {
        if let Some(item) = text.strip_prefix("[]") {
            return Self::List(Box::new(Self::read(item, places)));
        }
        if let Some(item) = text.strip_prefix("{}") {
            return Self::Map(Box::new(Self::read(item, places)));
        }
        if let Some(inner) = text.strip_prefix('*') {
            return Self::Pointer(Box::new(Self::read(inner, places)));
        }
        let (kind, name) = text.split_once('=').unwrap_or((text, text));
        match kind {
            "string" => Self::String { name },
            "bool" => Self::Bool,
            "int32" => Self::Int32 { name },
            "int" | "int64" => Self::Int64 { name },
            "float64" => Self::Float,
            "bytes" => Self::Bytes,
            "quantity" => Self::Quantity,
            "time" => Self::Time,
            "microtime" => Self::MicroTime,
            "duration" => Self::Duration,
            "json" => Self::Json,
            "int-or-string" => Self::IntOrString,
            "schema-or-bool" => Self::SchemaOrBool,
            "schema-or-array" => Self::SchemaOrArray,
            "schema-or-strings" => Self::SchemaOrStrings,
            "version" => Self::Version,
            "release" => Self::Release,
            _ => Self::Struct(
                places
                    .get(kind)
                    .copied()
                    .expect("the generator writes every type it names"),
            ),
        }
    }
}

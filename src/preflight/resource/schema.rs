//! Reads structural schemas.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};

use super::cel::syntax::Rule;
use super::finding::Gap;
use super::format::Format;
use super::kind::Type;
use super::node::{Additional, Bounds, ListType, Node, NumberBounds};
use super::{cel, pattern};
use crate::preflight::crd_upgrade::canonical::integer;

/// A field of a schema that has a wrong type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the schema at {path}: {field} is of a wrong type")]
pub struct SchemaError {
    path: String,
    field: &'static str,
}

impl Node {
    /// Reads a schema; what cannot be judged is added to `gaps`.
    pub(super) fn read(schema: &Value, gaps: &mut Vec<Gap>) -> Result<Self, SchemaError> {
        Reader {
            path: "^".to_owned(),
            gaps,
            patterns: BTreeMap::new(),
        }
        .node(schema)
    }
}

struct Reader<'a> {
    path: String,
    gaps: &'a mut Vec<Gap>,
    /// What was compiled already: the pattern of a quantity stands in a Pod template hundreds of times.
    patterns: BTreeMap<String, Option<Regex>>,
}

type Members = Map<String, Value>;

impl Reader<'_> {
    fn node(&mut self, schema: &Value) -> Result<Node, SchemaError> {
        let Value::Object(members) = schema else {
            return Err(self.wrong("the schema"));
        };
        let kind = self.kind(members)?;
        let format = self.text(members, "format")?;
        Ok(Node {
            kind,
            nullable: self.is(members, "nullable")?,
            default: members
                .get("default")
                .filter(|value| !value.is_null())
                .cloned(),
            preserves_unknown_fields: self.is(members, "x-kubernetes-preserve-unknown-fields")?,
            is_embedded_resource: self.is(members, "x-kubernetes-embedded-resource")?,
            format: format.and_then(|name| self.format(name, kind)),
            allowed: self.list(members, "enum")?.map(<[Value]>::to_vec),
            number: NumberBounds {
                minimum: self.number(members, "minimum")?,
                is_minimum_exclusive: self.is(members, "exclusiveMinimum")?,
                maximum: self.number(members, "maximum")?,
                is_maximum_exclusive: self.is(members, "exclusiveMaximum")?,
                multiple_of: self.number(members, "multipleOf")?,
            },
            length: self.bounds(members, "minLength", "maxLength")?,
            items_count: self.bounds(members, "minItems", "maxItems")?,
            properties_count: self.bounds(members, "minProperties", "maxProperties")?,
            has_unique_items: self.is(members, "uniqueItems")?,
            pattern: self.pattern(members)?,
            required: self.texts(members, "required")?,
            properties: self.properties(members)?,
            additional: self.additional(members)?,
            items: self.child(members, "items", ".items")?,
            all_of: self.children(members, "allOf")?,
            any_of: self.children(members, "anyOf")?,
            one_of: self.children(members, "oneOf")?,
            not: self.child(members, "not", ".not")?,
            list_type: self.list_type(members)?,
            rules: self.rules(members)?,
        })
    }

    fn wrong(&self, field: &'static str) -> SchemaError {
        SchemaError {
            path: self.path.clone(),
            field,
        }
    }

    fn gap(&mut self, what: String) {
        self.gaps.push(Gap {
            path: self.path.clone(),
            what,
        });
    }

    fn at(&mut self, step: &str, schema: &Value) -> Result<Node, SchemaError> {
        let length = self.path.len();
        self.path.push_str(step);
        let node = self.node(schema);
        self.path.truncate(length);
        node
    }

    fn kind(&mut self, members: &Members) -> Result<Option<Type>, SchemaError> {
        if self.is(members, "x-kubernetes-int-or-string")? {
            return Ok(Some(Type::IntOrString));
        }
        Ok(Some(match self.text(members, "type")? {
            None | Some("") => return Ok(None),
            Some("object") => Type::Object,
            Some("array") => Type::Array,
            Some("string") => Type::String,
            Some("integer") => Type::Integer,
            Some("number") => Type::Number,
            Some("boolean") => Type::Boolean,
            Some(other) => {
                let what = format!("type {other:?}");
                self.gap(what);
                return Ok(None);
            }
        }))
    }

    fn format(&mut self, name: &str, kind: Option<Type>) -> Option<Format> {
        match Format::of(name, kind) {
            Ok(format) => format,
            Err(name) => {
                self.gap(format!("format {name:?}"));
                None
            }
        }
    }

    fn pattern(&mut self, members: &Members) -> Result<Option<(String, Regex)>, SchemaError> {
        let Some(text) = self
            .text(members, "pattern")?
            .filter(|text| !text.is_empty())
        else {
            return Ok(None);
        };
        let known = self.patterns.get(text).cloned();
        let regex = known.unwrap_or_else(|| {
            let regex = pattern::compile(text);
            self.patterns.insert(text.to_owned(), regex.clone());
            regex
        });
        let Some(regex) = regex else {
            self.gap(format!("pattern {text:?}"));
            return Ok(None);
        };
        Ok(Some((text.to_owned(), regex)))
    }

    fn properties(&mut self, members: &Members) -> Result<BTreeMap<String, Node>, SchemaError> {
        if members
            .get("patternProperties")
            .is_some_and(|value| !value.is_null())
        {
            self.gap("patternProperties".to_owned());
        }
        let mut properties = BTreeMap::new();
        match members.get("properties") {
            None | Some(Value::Null) => {}
            Some(Value::Object(schemas)) => {
                for (name, schema) in schemas {
                    properties.insert(name.clone(), self.at(&format!(".{name}"), schema)?);
                }
            }
            Some(_) => return Err(self.wrong("properties")),
        }
        Ok(properties)
    }

    fn additional(&mut self, members: &Members) -> Result<Option<Additional>, SchemaError> {
        Ok(match members.get("additionalProperties") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(allowed)) => Some(Additional::Allowed(*allowed)),
            Some(schema) => {
                let node = self.at(".additionalProperties", schema)?;
                Some(Additional::Schema(Box::new(node)))
            }
        })
    }

    fn child(
        &mut self,
        members: &Members,
        field: &str,
        step: &str,
    ) -> Result<Option<Box<Node>>, SchemaError> {
        match members.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(schema) => Ok(Some(Box::new(self.at(step, schema)?))),
        }
    }

    fn children(
        &mut self,
        members: &Members,
        field: &'static str,
    ) -> Result<Vec<Node>, SchemaError> {
        let schemas = self.list(members, field)?.unwrap_or_default();
        schemas
            .iter()
            .enumerate()
            .map(|(index, schema)| self.at(&format!(".{field}[{index}]"), schema))
            .collect()
    }

    fn list_type(&mut self, members: &Members) -> Result<ListType, SchemaError> {
        Ok(match self.text(members, "x-kubernetes-list-type")? {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(self.texts(members, "x-kubernetes-list-map-keys")?),
            Some(_) | None => ListType::Atomic,
        })
    }

    fn rules(&mut self, members: &Members) -> Result<Vec<Rule>, SchemaError> {
        let mut rules = Vec::new();
        for rule in self
            .list(members, "x-kubernetes-validations")?
            .unwrap_or_default()
        {
            let Value::Object(rule) = rule else {
                return Err(self.wrong("x-kubernetes-validations"));
            };
            let text = self.text(rule, "rule")?.unwrap_or_default();
            let message = self.text(rule, "message")?.unwrap_or_default();
            let optional_old = self.is(rule, "optionalOldSelf")?;
            match cel::compile(text, message, optional_old) {
                Ok(rule) => rules.extend(rule),
                Err(problem) => self.gap(format!("rule {text:?}: {problem}")),
            }
        }
        Ok(rules)
    }

    fn is(&self, members: &Members, field: &'static str) -> Result<bool, SchemaError> {
        match members.get(field) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(_) => Err(self.wrong(field)),
        }
    }

    fn text<'m>(
        &self,
        members: &'m Members,
        field: &'static str,
    ) -> Result<Option<&'m str>, SchemaError> {
        match members.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(field)),
        }
    }

    fn list<'m>(
        &self,
        members: &'m Members,
        field: &'static str,
    ) -> Result<Option<&'m [Value]>, SchemaError> {
        match members.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(_) => Err(self.wrong(field)),
        }
    }

    fn texts(&self, members: &Members, field: &'static str) -> Result<Vec<String>, SchemaError> {
        let list = self.list(members, field)?.unwrap_or_default();
        list.iter()
            .map(|value| match value {
                Value::String(text) => Ok(text.clone()),
                _ => Err(self.wrong(field)),
            })
            .collect()
    }

    fn number(&self, members: &Members, field: &'static str) -> Result<Option<f64>, SchemaError> {
        match members.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(field)),
            },
        }
    }

    fn bounds(
        &self,
        members: &Members,
        least: &'static str,
        most: &'static str,
    ) -> Result<Bounds, SchemaError> {
        let size = |field: &'static str| match members.get(field) {
            None | Some(Value::Null) => Ok(None),
            // A size below zero is as good as zero; one that is no whole number is none.
            Some(value) => match integer(value) {
                Some(number) => Ok(Some(usize::try_from(number).unwrap_or(0))),
                None => Err(self.wrong(field)),
            },
        };
        Ok(Bounds {
            least: size(least)?,
            most: size(most)?,
        })
    }
}

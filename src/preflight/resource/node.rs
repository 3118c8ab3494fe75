//! A structural schema, as it was read.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::cel::syntax::Rule;
use super::format::Format;
use super::kind::Type;

/// What a list means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListType {
    /// Its order counts.
    Atomic,
    /// No element twice.
    Set,
    /// No two elements with the same values of these fields.
    Map(Vec<String>),
}

/// What may stand beside the properties.
#[derive(Debug)]
pub(super) enum Additional {
    /// `true` or `false`.
    Allowed(bool),
    Schema(Box<Node>),
}

/// The bounds of one kind of size.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) least: Option<usize>,
    pub(super) most: Option<usize>,
}

/// The bounds of a number.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct NumberBounds {
    pub(super) minimum: Option<f64>,
    pub(super) is_minimum_exclusive: bool,
    pub(super) maximum: Option<f64>,
    pub(super) is_maximum_exclusive: bool,
    pub(super) multiple_of: Option<f64>,
}

/// One node of a schema.
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are the switches of a schema, each on its own"
)]
#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: Option<Type>,
    pub(super) nullable: bool,
    pub(super) default: Option<Value>,
    pub(super) preserves_unknown_fields: bool,
    pub(super) is_embedded_resource: bool,
    pub(super) format: Option<Format>,
    pub(super) allowed: Option<Vec<Value>>,
    pub(super) number: NumberBounds,
    pub(super) length: Bounds,
    pub(super) items_count: Bounds,
    pub(super) properties_count: Bounds,
    pub(super) has_unique_items: bool,
    pub(super) pattern: Option<(String, Regex)>,
    pub(super) required: Vec<String>,
    pub(super) properties: BTreeMap<String, Self>,
    pub(super) additional: Option<Additional>,
    pub(super) items: Option<Box<Self>>,
    pub(super) all_of: Vec<Self>,
    pub(super) any_of: Vec<Self>,
    pub(super) one_of: Vec<Self>,
    pub(super) not: Option<Box<Self>>,
    pub(super) list_type: ListType,
    pub(super) rules: Vec<Rule>,
}

impl Node {
    /// The schema of a member of an object, if any.
    pub(super) fn member(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(match &self.additional {
            Some(Additional::Schema(node)) => Some(node),
            Some(Additional::Allowed(_)) | None => None,
        })
    }
}

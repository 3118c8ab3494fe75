//! The values of CEL: what is written in a rule, and what a resource holds, as its schema has it.

use core::net::IpAddr;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

use super::duration::duration;
use super::network::Network;
use crate::bundle::typed::Amount;
use crate::preflight::resource::format::{Format, Uri};
use crate::preflight::resource::kind::Type;
use crate::preflight::resource::node::{ListType, Node};

/// Why there is no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// CEL says so; the texts are those of cel-go where they are short.
    Error(String),
    /// The budget is used up.
    OutOfSteps,
}

impl Failure {
    pub(super) fn of(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    pub(super) fn overload() -> Self {
        Self::of("no such overload")
    }
}

/// A value. Durations are in nanoseconds.
#[derive(Debug, Clone)]
pub(super) enum Cel<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Cow<'a, str>),
    Bytes(Rc<Vec<u8>>),
    Timestamp(Timestamp),
    Duration(i64),
    List(Rc<Vec<Self>>),
    Map(Rc<Vec<(Self, Self)>>),
    /// A list or an object of the resource.
    Json(Json<'a>),
    Optional(Option<Rc<Self>>),
    Quantity(Amount),
    Url(Rc<Uri>),
    Ip(IpAddr),
    Network(Network),
    /// A value that its schema cannot hold.
    Broken(&'static str),
}

/// A list or an object of a resource, and its schema if it has one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Json<'a> {
    value: &'a Value,
    node: Option<&'a Node>,
    is_resource: bool,
}

impl<'a> Cel<'a> {
    /// A value of a resource; `is_resource` for the whole of one.
    pub(super) fn of(value: &'a Value, node: &'a Node, is_resource: bool) -> Self {
        Self::of_json(value, Some(node), is_resource || node.is_embedded_resource)
    }

    fn of_json(value: &'a Value, node: Option<&'a Node>, is_resource: bool) -> Self {
        let kind = node.and_then(|node| node.kind);
        match value {
            Value::Null => Self::Null,
            Value::Bool(bool) => Self::Bool(*bool),
            Value::Number(number) => match (kind, number.as_i64(), number.as_f64()) {
                (Some(Type::Number), _, Some(number)) => Self::Double(number),
                (_, Some(number), _) => Self::Int(number),
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "a whole number within the bounds of exact ones"
                )]
                (Some(Type::Integer | Type::IntOrString), None, Some(number)) => {
                    Self::Int(number as i64)
                }
                (_, None, Some(number)) => Self::Double(number),
                (_, None, None) => Self::Broken("a number"),
            },
            Value::String(text) => Self::of_text(text, node),
            Value::Array(_) | Value::Object(_) => Self::Json(Json {
                value,
                node,
                is_resource,
            }),
        }
    }

    fn of_text(text: &'a str, node: Option<&'a Node>) -> Self {
        let format = node
            .filter(|node| node.kind == Some(Type::String))
            .and_then(|node| node.format);
        match format {
            Some(Format::Byte) => match STANDARD.decode(text) {
                Ok(bytes) => Self::Bytes(Rc::new(bytes)),
                Err(_) => Self::Broken("bytes"),
            },
            Some(Format::Date) => match format!("{text}T00:00:00Z").parse() {
                Ok(time) => Self::Timestamp(time),
                Err(_) => Self::Broken("a date"),
            },
            Some(Format::DateTime) => match text.to_uppercase().parse() {
                Ok(time) => Self::Timestamp(time),
                Err(_) => Self::Broken("a time"),
            },
            Some(Format::Duration) => match duration(text) {
                Some(nanoseconds) => Self::Duration(nanoseconds),
                None => Self::Broken("a duration"),
            },
            _ => Self::Text(Cow::Borrowed(text)),
        }
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(Cow::Owned(text.into()))
    }

    pub(super) fn list(items: Vec<Self>) -> Self {
        Self::List(Rc::new(items))
    }

    pub(super) fn some(value: Self) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    /// The elements of a list.
    pub(super) fn items(&self) -> Option<Vec<Self>> {
        match self {
            Self::List(items) => Some(items.as_ref().clone()),
            Self::Json(json) => {
                let node = json.node.and_then(|node| node.items.as_deref());
                let items = json.value.as_array()?.iter();
                Some(items.map(|item| element(item, node)).collect())
            }
            _ => None,
        }
    }

    /// The entries of a map or the fields of an object.
    pub(super) fn entries(&self) -> Option<Vec<(Self, Self)>> {
        match self {
            Self::Map(entries) => Some(entries.as_ref().clone()),
            Self::Json(json) => {
                let members = json.value.as_object()?;
                let entries = members.iter().map(|(name, value)| {
                    let node = json.node.and_then(|node| node.member(name));
                    (Self::Text(Cow::Borrowed(name)), element(value, node))
                });
                Some(entries.collect())
            }
            _ => None,
        }
    }

    /// The number of elements, entries, characters or bytes.
    pub(super) fn size(&self) -> Option<usize> {
        match self {
            Self::Text(text) => Some(text.chars().count()),
            Self::Bytes(bytes) => Some(bytes.len()),
            Self::List(items) => Some(items.len()),
            Self::Map(entries) => Some(entries.len()),
            Self::Json(json) => match json.value {
                Value::Array(items) => Some(items.len()),
                Value::Object(members) => Some(members.len()),
                _ => None,
            },
            _ => None,
        }
    }

    /// The field of an object or the entry of a map; the failure where it cannot have one.
    pub(super) fn field(&self, name: &str) -> Result<Option<Self>, Failure> {
        match self {
            Self::Json(json) if json.value.is_object() => Ok(json.field(name)),
            Self::Map(entries) => Ok(entries
                .iter()
                .find(|(key, _)| matches!(key, Self::Text(key) if key == name))
                .map(|(_, value)| value.clone())),
            Self::Broken(what) => Err(Failure::of(format!("invalid {what}"))),
            _ => Err(Failure::overload()),
        }
    }

    /// The element of a list or the entry of a map.
    pub(super) fn index(&self, index: &Self) -> Result<Option<Self>, Failure> {
        if let Some(size) = self.size().filter(|_| self.is_list()) {
            let at = match index {
                Self::Int(at) => usize::try_from(*at).ok(),
                Self::Uint(at) => usize::try_from(*at).ok(),
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "only whole numbers, which fit or lead beyond the end"
                )]
                Self::Double(at) if at.fract() == 0.0 => usize::try_from(*at as i64).ok(),
                _ => return Err(Failure::overload()),
            };
            return Ok(at.filter(|at| *at < size).and_then(|at| self.at(at)));
        }
        match (self, index) {
            (Self::Json(json), Self::Text(name)) => Ok(json.entry(name)),
            (Self::Map(entries), key) => Ok(entries
                .iter()
                .find(|(own, _)| own.is_equal(key))
                .map(|(_, value)| value.clone())),
            _ => Err(Failure::overload()),
        }
    }

    pub(super) fn is_list(&self) -> bool {
        match self {
            Self::List(_) => true,
            Self::Json(json) => json.value.is_array(),
            _ => false,
        }
    }

    fn at(&self, index: usize) -> Option<Self> {
        match self {
            Self::List(items) => items.get(index).cloned(),
            Self::Json(json) => {
                let item = json.value.as_array()?.get(index)?;
                Some(element(
                    item,
                    json.node.and_then(|node| node.items.as_deref()),
                ))
            }
            _ => None,
        }
    }

    /// Equality; values of different kinds are different, numbers of different kinds are compared by value.
    pub(super) fn is_equal(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(x), Self::Bool(y)) => x == y,
            (Self::Text(x), Self::Text(y)) => x == y,
            (Self::Bytes(x), Self::Bytes(y)) => x == y,
            (Self::Timestamp(x), Self::Timestamp(y)) => x == y,
            (Self::Duration(x), Self::Duration(y)) => x == y,
            (Self::Quantity(x), Self::Quantity(y)) => x == y,
            (Self::Url(x), Self::Url(y)) => x == y,
            (Self::Ip(x), Self::Ip(y)) => x == y,
            (Self::Network(x), Self::Network(y)) => x == y,
            (Self::Optional(x), Self::Optional(y)) => match (x, y) {
                (Some(x), Some(y)) => x.is_equal(y),
                (None, None) => true,
                _ => false,
            },
            _ if self.is_number() && other.is_number() => {
                self.compare(other) == Some(Ordering::Equal)
            }
            _ => match (self.items(), other.items()) {
                (Some(x), Some(y)) => self.is_equal_list(other, &x, &y),
                (None, None) => match (self.entries(), other.entries()) {
                    (Some(x), Some(y)) => is_equal_map(&x, &y),
                    _ => false,
                },
                _ => false,
            },
        }
    }

    fn is_equal_list(&self, other: &Self, x: &[Self], y: &[Self]) -> bool {
        if x.len() != y.len() {
            return false;
        }
        match self.list_type().or(other.list_type()) {
            Some(ListType::Set) => x.iter().all(|x| y.iter().any(|y| x.is_equal(y))),
            Some(ListType::Map(keys)) => x
                .iter()
                .all(|x| y.iter().any(|y| x.has_same_keys(y, keys) && x.is_equal(y))),
            Some(ListType::Atomic) | None => x.iter().zip(y).all(|(x, y)| x.is_equal(y)),
        }
    }

    fn has_same_keys(&self, other: &Self, keys: &[String]) -> bool {
        keys.iter()
            .all(|key| match (self.field(key), other.field(key)) {
                (Ok(Some(x)), Ok(Some(y))) => x.is_equal(&y),
                (Ok(None), Ok(None)) => true,
                _ => false,
            })
    }

    /// The elements of two lists together. To a set, only what is new is added; in a map, an element takes the place of
    /// that with the same keys.
    pub(super) fn joined(&self, other: &Self) -> Option<Vec<Self>> {
        let (mut joined, more) = (self.items()?, other.items()?);
        for item in more {
            let known = match self.list_type() {
                Some(ListType::Set) => joined.iter().position(|own| own.is_equal(&item)),
                Some(ListType::Map(keys)) => {
                    joined.iter().position(|own| own.has_same_keys(&item, keys))
                }
                Some(ListType::Atomic) | None => None,
            };
            match known.and_then(|at| joined.get_mut(at)) {
                Some(own) => *own = item,
                None => joined.push(item),
            }
        }
        Some(joined)
    }

    fn list_type(&self) -> Option<&'a ListType> {
        match self {
            Self::Json(json) => json.node.map(|node| &node.list_type),
            _ => None,
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::Uint(_) | Self::Double(_))
    }

    /// The order of two values that have one.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(x), Self::Bool(y)) => Some(x.cmp(y)),
            (Self::Text(x), Self::Text(y)) => Some(x.cmp(y)),
            (Self::Bytes(x), Self::Bytes(y)) => Some(x.cmp(y)),
            (Self::Timestamp(x), Self::Timestamp(y)) => Some(x.cmp(y)),
            (Self::Duration(x), Self::Duration(y)) => Some(x.cmp(y)),
            (Self::Double(x), Self::Double(y)) => x.partial_cmp(y),
            (Self::Double(x), y) => x.partial_cmp(&y.approximate()?),
            (x, Self::Double(y)) => x.approximate()?.partial_cmp(y),
            (x, y) => Some(x.wide()?.cmp(&y.wide()?)),
        }
    }

    fn wide(&self) -> Option<i128> {
        match self {
            Self::Int(number) => Some(i128::from(*number)),
            Self::Uint(number) => Some(i128::from(*number)),
            _ => None,
        }
    }

    /// The number as a double.
    #[expect(clippy::cast_precision_loss, reason = "CEL compares and converts so")]
    pub(super) fn approximate(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Uint(number) => Some(*number as f64),
            Self::Double(number) => Some(*number),
            _ => None,
        }
    }
}

fn element<'a>(value: &'a Value, node: Option<&'a Node>) -> Cel<'a> {
    let is_resource = node.is_some_and(|node| node.is_embedded_resource);
    Cel::of_json(value, node, is_resource)
}

fn is_equal_map(x: &[(Cel<'_>, Cel<'_>)], y: &[(Cel<'_>, Cel<'_>)]) -> bool {
    x.len() == y.len()
        && x.iter().all(|(key, x)| {
            y.iter()
                .any(|(other, y)| key.is_equal(other) && x.is_equal(y))
        })
}

impl<'a> Json<'a> {
    /// A field as rules write it: names that are no identifiers are escaped.
    fn field(&self, name: &str) -> Option<Cel<'a>> {
        let is_property = |name: &str| {
            self.node
                .is_some_and(|node| node.properties.contains_key(name))
        };
        if self.is_resource && matches!(name, "apiVersion" | "kind" | "metadata") {
            return self.entry(name);
        }
        let unescaped = unescape(name);
        if is_property(&unescaped) {
            return self.entry(&unescaped);
        }
        self.entry(name)
    }

    fn entry(&self, name: &str) -> Option<Cel<'a>> {
        let (_, value) = self.value.as_object()?.get_key_value(name)?;
        Some(element(value, self.node.and_then(|node| node.member(name))))
    }
}

/// The words of CEL that cannot be names.
const KEYWORDS: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The name of a property of which `name` is the escaped form.
fn unescape(name: &str) -> Cow<'_, str> {
    if !name.contains("__") {
        return Cow::Borrowed(name);
    }
    if let Some(word) = name
        .strip_prefix("__")
        .and_then(|name| name.strip_suffix("__"))
        && KEYWORDS.contains(&word)
    {
        return Cow::Owned(word.to_owned());
    }
    let mut out = String::new();
    let mut rest = name;
    'text: while let Some(c) = rest.chars().next() {
        for (escaped, plain) in [
            ("__underscores__", "__"),
            ("__dot__", "."),
            ("__dash__", "-"),
            ("__slash__", "/"),
        ] {
            if let Some(after) = rest.strip_prefix(escaped) {
                out.push_str(plain);
                rest = after;
                continue 'text;
            }
        }
        out.push(c);
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    Cow::Owned(out)
}

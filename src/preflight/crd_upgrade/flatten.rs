//! The nodes of a version's schema by their path.
//!
//! A path is `^` for the root and then `.name` for a property, `.items`, `.items[i]`, `.allOf[i]`, `.anyOf[i]`,
//! `.oneOf[i]`, `.not`, `.additionalProperties`, `.patternProperties[p]`, `.additionalItems`, `.definitions[d]` and
//! `.dependencies[d]`. Of two nodes with one path (a property named `items`) the property counts.

use std::fmt::Write as _;

use super::shape::{At, Data, Record, as_record};

/// The deepest schema that is walked; what lies below counts as part of its parent. An API server's own limit on the
/// nesting of JSON is far lower.
const DEEPEST: usize = 256;

/// The root's path.
pub(super) const ROOT: &str = "^";

/// The nodes of a schema, in the order of their paths, which are all different.
#[derive(Debug, Default)]
pub(super) struct Nodes<'a>(Vec<(String, &'a Record)>);

impl<'a> Nodes<'a> {
    /// The node at a path.
    pub(super) fn get(&self, path: &str) -> Option<&'a Record> {
        let at = self.0.binary_search_by(|(own, _)| own.as_str().cmp(path));
        self.0.get(at.ok()?).map(|(_, node)| *node)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All nodes with their paths.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &'a Record)> {
        self.0.iter().map(|(path, node)| (path.as_str(), *node))
    }

    /// All nodes, each with the node that `other` has at its path.
    pub(super) fn beside<'b>(
        &self,
        other: &Nodes<'b>,
    ) -> impl Iterator<Item = (&str, &'a Record, Option<&'b Record>)> {
        // Both are in order: one walk through the other is enough.
        let mut others = other.iter().peekable();
        self.iter().map(move |(path, node)| {
            while others.next_if(|(other, _)| *other < path).is_some() {}
            let found = others.next_if(|(other, _)| *other == path);
            (path, node, found.map(|(_, node)| node))
        })
    }
}

/// All nodes of a schema; none where there is no schema.
pub(super) fn flatten(schema: Option<&Record>) -> Nodes<'_> {
    let mut nodes = Vec::new();
    if let Some(schema) = schema {
        walk(schema, &mut ROOT.to_owned(), 0, &mut nodes);
    }
    // Almost in order already; of one path the last counts.
    nodes.sort_by(|(a, _), (b, _)| a.cmp(b));
    nodes.dedup_by(|(path, later), (other, earlier)| {
        let is_same = path == other;
        if is_same {
            *earlier = *later;
        }
        is_same
    });
    Nodes(nodes)
}

fn walk<'a>(
    schema: &'a Record,
    path: &mut String,
    depth: usize,
    nodes: &mut Vec<(String, &'a Record)>,
) {
    // A child's path is longer than its parent's: no child can take its parent's place.
    nodes.push((path.clone(), schema));
    if depth < DEEPEST {
        let length = path.len();
        for (step, child) in children(schema) {
            step.add_to(path);
            walk(child, path, depth + 1, nodes);
            path.truncate(length);
        }
    }
}

/// From a schema to one directly below.
enum Step<'a> {
    Keyword(&'static str),
    Property(&'a str),
    Numbered(&'static str, usize),
    Named(&'static str, &'a str),
}

impl Step<'_> {
    fn add_to(&self, path: &mut String) {
        // Writing to a text cannot fail.
        _ = match self {
            Self::Keyword(keyword) => write!(path, ".{keyword}"),
            Self::Property(name) => write!(path, ".{name}"),
            Self::Numbered(keyword, index) => write!(path, ".{keyword}[{index}]"),
            Self::Named(keyword, name) => write!(path, ".{keyword}[{name}]"),
        };
    }
}

/// The schemas directly below, each with its step of the path; a later one replaces an earlier one of the same step.
fn children(schema: &Record) -> Vec<(Step<'_>, &Record)> {
    let mut children = Vec::new();
    if let Some(items) = schema.schema(At::Items) {
        children.push((Step::Keyword("items"), items));
    }
    if let Some(Data::Struct(either)) = schema.get(At::Items)
        && let Some(Data::List(schemas)) = either.at(1)
    {
        children.extend(numbered("items", schemas));
    }
    for (at, name) in [
        (At::AllOf, "allOf"),
        (At::AnyOf, "anyOf"),
        (At::OneOf, "oneOf"),
    ] {
        children.extend(numbered(name, schema.list(at)));
    }
    if let Some(not) = schema.schema(At::Not) {
        children.push((Step::Keyword("not"), not));
    }
    for (name, property) in schema.schemas(At::Properties) {
        children.push((Step::Property(name), property));
    }
    if let Some(values) = schema.schema(At::AdditionalProperties) {
        children.push((Step::Keyword("additionalProperties"), values));
    }
    children.extend(named("patternProperties", schema, At::PatternProperties));
    if let Some(items) = schema.schema(At::AdditionalItems) {
        children.push((Step::Keyword("additionalItems"), items));
    }
    children.extend(named("definitions", schema, At::Definitions));
    for (name, either) in schema.schemas(At::Dependencies) {
        if let Some(dependency) = either.at(0).and_then(as_record) {
            children.push((Step::Named("dependencies", name), dependency));
        }
    }
    children
}

fn numbered<'a>(
    keyword: &'static str,
    schemas: &'a [Data],
) -> impl Iterator<Item = (Step<'a>, &'a Record)> {
    schemas
        .iter()
        .enumerate()
        .filter_map(move |(index, data)| Some((Step::Numbered(keyword, index), as_record(data)?)))
}

fn named<'a>(
    keyword: &'static str,
    schema: &'a Record,
    at: At,
) -> impl Iterator<Item = (Step<'a>, &'a Record)> {
    schema
        .schemas(at)
        .map(move |(name, child)| (Step::Named(keyword, name), child))
}

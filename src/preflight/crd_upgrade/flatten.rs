//! The nodes of a version's schema by their path.
//!
//! A path is `^` for the root and then `.name` for a property, `.items`, `.items[i]`, `.allOf[i]`, `.anyOf[i]`,
//! `.oneOf[i]`, `.not`, `.additionalProperties`, `.patternProperties[p]`, `.additionalItems`, `.definitions[d]` and
//! `.dependencies[d]`. Of two nodes with one path (a property named `items`) the property counts.

use std::collections::BTreeMap;

use super::shape::{At, Data, Record, as_record};

/// The deepest schema that is walked; what lies below counts as part of its parent. An API server's own limit on the
/// nesting of JSON is far lower.
const DEEPEST: usize = 256;

/// The root's path.
pub(super) const ROOT: &str = "^";

/// All nodes of a schema; none where there is no schema.
pub(super) fn flatten(schema: Option<&Record>) -> BTreeMap<String, &Record> {
    let mut nodes = BTreeMap::new();
    if let Some(schema) = schema {
        walk(schema, ROOT.to_owned(), 0, &mut nodes);
    }
    nodes
}

fn walk<'a>(
    schema: &'a Record,
    path: String,
    depth: usize,
    nodes: &mut BTreeMap<String, &'a Record>,
) {
    if depth < DEEPEST {
        for (step, child) in children(schema) {
            walk(child, format!("{path}{step}"), depth + 1, nodes);
        }
    }
    // After the children, whose paths are all longer: no child can take its parent's place.
    nodes.insert(path, schema);
}

/// The schemas directly below, each with its step of the path; a later one replaces an earlier one of the same step.
fn children(schema: &Record) -> Vec<(String, &Record)> {
    let mut children = Vec::new();
    if let Some(items) = schema.schema(At::Items) {
        children.push((".items".to_owned(), items));
    }
    if let Some(Data::Struct(either)) = schema.get(At::Items)
        && let Some(Data::List(schemas)) = either.at(1)
    {
        children.extend(indexed(".items", schemas));
    }
    for (at, name) in [
        (At::AllOf, ".allOf"),
        (At::AnyOf, ".anyOf"),
        (At::OneOf, ".oneOf"),
    ] {
        children.extend(indexed(name, schema.list(at)));
    }
    if let Some(not) = schema.schema(At::Not) {
        children.push((".not".to_owned(), not));
    }
    for (name, property) in schema.schemas(At::Properties) {
        children.push((format!(".{name}"), property));
    }
    if let Some(values) = schema.schema(At::AdditionalProperties) {
        children.push((".additionalProperties".to_owned(), values));
    }
    children.extend(keyed(".patternProperties", schema, At::PatternProperties));
    if let Some(items) = schema.schema(At::AdditionalItems) {
        children.push((".additionalItems".to_owned(), items));
    }
    children.extend(keyed(".definitions", schema, At::Definitions));
    for (name, either) in schema.schemas(At::Dependencies) {
        if let Some(dependency) = either.at(0).and_then(as_record) {
            children.push((format!(".dependencies[{name}]"), dependency));
        }
    }
    children
}

fn indexed<'a>(name: &str, schemas: &'a [Data]) -> impl Iterator<Item = (String, &'a Record)> {
    schemas
        .iter()
        .enumerate()
        .filter_map(move |(index, data)| Some((format!("{name}[{index}]"), as_record(data)?)))
}

fn keyed<'a>(name: &str, schema: &'a Record, at: At) -> impl Iterator<Item = (String, &'a Record)> {
    schema
        .schemas(at)
        .map(move |(key, child)| (format!("{name}[{key}]"), child))
}

//! The nodes of a version's schema by their path.
//!
//! A path is `^` for the root and then `.name` for a property, `.items`, `.items[i]`, `.allOf[i]`, `.anyOf[i]`,
//! `.oneOf[i]`, `.not`, `.additionalProperties`, `.patternProperties[p]`, `.additionalItems`, `.definitions[d]` and
//! `.dependencies[d]`. Of two nodes with one path (a property named `items`) the property counts.

use std::fmt::Write as _;

use super::record::{Data, Record, as_record};
use super::shape::At;

/// The deepest schema that is walked; what lies below counts as part of its parent. An API server's own limit on the
/// nesting of JSON is far lower.
const DEEPEST: usize = 256;

/// The root's path.
pub(super) const ROOT: &str = "^";

/// The nodes of a schema, in the order of their paths, which are all different.
#[derive(Debug, Default)]
pub(super) struct Nodes<'a>(Vec<(String, &'a Record)>);

impl<'a> Nodes<'a> {
    /// Of nodes in the order of a walk; of one path the last counts.
    fn of_walk(mut nodes: Vec<(String, &'a Record)>) -> Self {
        // Almost in order already.
        nodes.sort_by(|(a, _), (b, _)| a.cmp(b));
        nodes.dedup_by(|(path, later), (other, earlier)| {
            let is_same = path == other;
            if is_same {
                *earlier = *later;
            }
            is_same
        });
        Self(nodes)
    }

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
}

/// All nodes of a schema; none where there is no schema.
pub(super) fn flatten(schema: Option<&Record>) -> Nodes<'_> {
    Pair::new(schema, None).old
}

/// The nodes of two schemas that are to be compared. A part that is the very same in both is left out, with all its
/// nodes on both sides: there is nothing to be said about it.
#[derive(Debug, Default)]
pub(super) struct Pair<'a> {
    pub(super) old: Nodes<'a>,
    pub(super) new: Nodes<'a>,
}

impl<'a> Pair<'a> {
    pub(super) fn new(old: Option<&'a Record>, new: Option<&'a Record>) -> Self {
        let mut walk = Walk::default();
        walk.pair(old, new, 0, MayShare::Yes);
        Self {
            old: Nodes::of_walk(walk.old),
            new: Nodes::of_walk(walk.new),
        }
    }

    /// The old node at a path, and the new one.
    pub(super) fn at(&self, path: &str) -> Option<(&'a Record, Option<&'a Record>)> {
        Some((self.old.get(path)?, self.new.get(path)))
    }

    /// The old nodes, each with the new node at its path.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &'a Record, Option<&'a Record>)> {
        // Both are in order: one walk through the other is enough.
        let mut others = self.new.iter().peekable();
        self.old.iter().map(move |(path, node)| {
            while others.next_if(|(other, _)| *other < path).is_some() {}
            let found = others.next_if(|(other, _)| *other == path);
            (path, node, found.map(|(_, node)| node))
        })
    }
}

/// Whether parts may be left out that are the same in both schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MayShare {
    Yes,
    /// Names are such that another node may have the path of one of this part.
    No,
}

#[derive(Debug, Default)]
struct Walk<'a> {
    path: String,
    old: Vec<(String, &'a Record)>,
    new: Vec<(String, &'a Record)>,
}

impl<'a> Walk<'a> {
    /// Walks through what is at one path of both schemas.
    fn pair(
        &mut self,
        old: Option<&'a Record>,
        new: Option<&'a Record>,
        depth: usize,
        may_share: MayShare,
    ) {
        if let (Some(old), Some(new), MayShare::Yes) = (old, new, may_share)
            && old.is_one_with(new)
        {
            return;
        }
        if depth == 0 {
            ROOT.clone_into(&mut self.path);
        }
        // A child's path is longer than its parent's: no child can take its parent's place.
        self.old.extend(old.map(|node| (self.path.clone(), node)));
        self.new.extend(new.map(|node| (self.path.clone(), node)));
        if depth == DEEPEST {
            return;
        }
        let below = |node: Option<&'a Record>| node.map(children).unwrap_or_default();
        let (old, new) = (below(old), below(new));
        let may_share = if are_distinct(&old) && are_distinct(&new) {
            may_share
        } else {
            MayShare::No
        };
        let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
        loop {
            let step = match (old.peek(), new.peek()) {
                (Some((x, _)), Some((y, _))) => *x.min(y),
                (Some((step, _)), None) | (None, Some((step, _))) => *step,
                (None, None) => return,
            };
            let x = old.next_if(|(own, _)| *own == step).map(|(_, node)| node);
            let y = new.next_if(|(own, _)| *own == step).map(|(_, node)| node);
            let length = self.path.len();
            step.add_to(&mut self.path);
            self.pair(x, y, depth + 1, may_share);
            self.path.truncate(length);
        }
    }
}

/// From a schema to one directly below; in the order in which a later one replaces an earlier one of the same path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Step<'a> {
    keyword: Keyword,
    index: usize,
    name: &'a str,
}

/// The field that a schema is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Keyword {
    Items,
    ItemsList,
    AllOf,
    AnyOf,
    OneOf,
    Not,
    Properties,
    AdditionalProperties,
    PatternProperties,
    AdditionalItems,
    Definitions,
    Dependencies,
}

impl Keyword {
    fn as_str(self) -> &'static str {
        match self {
            Self::Items | Self::ItemsList => "items",
            Self::AllOf => "allOf",
            Self::AnyOf => "anyOf",
            Self::OneOf => "oneOf",
            Self::Not => "not",
            Self::Properties => "properties",
            Self::AdditionalProperties => "additionalProperties",
            Self::PatternProperties => "patternProperties",
            Self::AdditionalItems => "additionalItems",
            Self::Definitions => "definitions",
            Self::Dependencies => "dependencies",
        }
    }
}

impl Step<'_> {
    fn add_to(&self, path: &mut String) {
        let Self {
            keyword,
            index,
            name,
        } = self;
        let word = keyword.as_str();
        // Writing to a text cannot fail.
        _ = match keyword {
            Keyword::Properties => write!(path, ".{name}"),
            Keyword::Items
            | Keyword::Not
            | Keyword::AdditionalProperties
            | Keyword::AdditionalItems => write!(path, ".{word}"),
            Keyword::ItemsList | Keyword::AllOf | Keyword::AnyOf | Keyword::OneOf => {
                write!(path, ".{word}[{index}]")
            }
            Keyword::PatternProperties | Keyword::Definitions | Keyword::Dependencies => {
                write!(path, ".{word}[{name}]")
            }
        };
    }

    /// Whether the name could be read as a way through several schemas.
    fn is_ambiguous(&self) -> bool {
        self.name.contains(['.', '['])
    }
}

/// Whether the paths of what lies below tell which child it is in.
fn are_distinct(children: &[(Step<'_>, &Record)]) -> bool {
    let is_taken = |property: &str| {
        children.iter().any(|(step, _)| {
            step.keyword != Keyword::Properties && step.keyword.as_str() == property
        })
    };
    children.iter().all(|(step, _)| {
        let is_doubled = step.keyword == Keyword::Properties && is_taken(step.name);
        !step.is_ambiguous() && !is_doubled
    })
}

/// The schemas directly below, in the order of their steps.
fn children(schema: &Record) -> Vec<(Step<'_>, &Record)> {
    let mut children = Vec::new();
    one(&mut children, schema, At::Items, Keyword::Items);
    if let Some(Data::Struct(either)) = schema.get(At::Items)
        && let Some(Data::List(schemas)) = either.at(1)
    {
        numbered(&mut children, schemas, Keyword::ItemsList);
    }
    numbered(&mut children, schema.list(At::AllOf), Keyword::AllOf);
    numbered(&mut children, schema.list(At::AnyOf), Keyword::AnyOf);
    numbered(&mut children, schema.list(At::OneOf), Keyword::OneOf);
    one(&mut children, schema, At::Not, Keyword::Not);
    named(&mut children, schema, At::Properties, Keyword::Properties);
    one(
        &mut children,
        schema,
        At::AdditionalProperties,
        Keyword::AdditionalProperties,
    );
    named(
        &mut children,
        schema,
        At::PatternProperties,
        Keyword::PatternProperties,
    );
    one(
        &mut children,
        schema,
        At::AdditionalItems,
        Keyword::AdditionalItems,
    );
    named(&mut children, schema, At::Definitions, Keyword::Definitions);
    for (name, either) in schema.schemas(At::Dependencies) {
        if let Some(dependency) = either.at(0).and_then(as_record) {
            let step = Step {
                keyword: Keyword::Dependencies,
                index: 0,
                name,
            };
            children.push((step, dependency));
        }
    }
    children
}

type Children<'a> = Vec<(Step<'a>, &'a Record)>;

fn one<'a>(children: &mut Children<'a>, schema: &'a Record, at: At, keyword: Keyword) {
    let step = Step {
        keyword,
        index: 0,
        name: "",
    };
    children.extend(schema.schema(at).map(|child| (step, child)));
}

fn numbered<'a>(children: &mut Children<'a>, schemas: &'a [Data], keyword: Keyword) {
    let numbered = schemas.iter().enumerate();
    children.extend(numbered.filter_map(|(index, data)| {
        let name = "";
        let step = Step {
            keyword,
            index,
            name,
        };
        Some((step, as_record(data)?))
    }));
}

fn named<'a>(children: &mut Children<'a>, schema: &'a Record, at: At, keyword: Keyword) {
    let index = 0;
    children.extend(schema.schemas(at).map(|(name, child)| {
        let step = Step {
            keyword,
            index,
            name,
        };
        (step, child)
    }));
}

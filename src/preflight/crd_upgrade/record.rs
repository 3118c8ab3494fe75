//! A schema in memory: the values of its fields, and the pool in which equal parts are one.
//!
//! Most of a CRD says the same over and over: its versions are nearly alike, and so are the old one and the new one. What
//! is read with one [`Pool`] shares every equal record, so a large CRD takes little memory, and whoever compares two
//! schemas can pass over what is the very same record in both.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use indexmap::{Equivalent, IndexSet};

use super::shape::{At, Shape};

/// The value of a field. A pointer is its target, or absent. Zero values are absent, as `omitempty` has it, while an
/// empty list that was written stays, since the printed difference tells the two apart.
#[derive(Debug, Clone)]
pub(super) enum Data {
    Text(Arc<str>),
    Bool(bool),
    Integer(i64),
    Float(f64),
    Bytes(Arc<str>),
    Struct(Record),
    List(Arc<[Self]>),
    Map(Entries),
}

/// Named values, in the order of their names, which are all different.
#[derive(Debug, Clone)]
pub(super) struct Entries(Arc<[(Arc<str>, Data)]>);

impl Entries {
    /// Of two entries of one name the later counts.
    pub(super) fn new(mut entries: Vec<(Arc<str>, Data)>) -> Self {
        if !entries.is_sorted_by(|(a, _), (b, _)| a < b) {
            // Equal names keep their order.
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            entries.dedup_by(|(name, later), (other, earlier)| {
                let is_same = name == other;
                if is_same {
                    std::mem::swap(earlier, later);
                }
                is_same
            });
        }
        Self(entries.into())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Data)> {
        self.0.iter().map(|(name, data)| (&**name, data))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Data> {
        let at = self.0.binary_search_by(|(own, _)| (**own).cmp(name));
        self.0.get(at.ok()?).map(|(_, data)| data)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The fields of a struct that are not zero, by their index in [`super::shape::Struct::fields`].
#[derive(Debug, Clone)]
pub(super) struct Record(Arc<[(u8, Data)]>);

impl Default for Record {
    fn default() -> Self {
        Self(Arc::from([]))
    }
}

impl Record {
    /// The field at `index`, unless it is zero.
    pub(super) fn at(&self, index: usize) -> Option<&Data> {
        self.0
            .iter()
            .find(|(at, _)| usize::from(*at) == index)
            .map(|(_, data)| data)
    }

    /// The fields with their indices, in order.
    pub(super) fn fields(&self) -> impl Iterator<Item = (usize, &Data)> {
        let fields = self.0.iter();
        fields.map(|(index, data)| (usize::from(*index), data))
    }

    /// Whether it has no field that is not zero.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether both are one record of a pool; then all below is equal.
    pub(super) fn is_one_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The schema's field.
    pub(super) fn get(&self, at: At) -> Option<&Data> {
        self.at(at as usize)
    }

    /// A copy without some fields.
    pub(super) fn without(&self, dropped: &[At]) -> Self {
        let kept = self.0.iter();
        Self(
            kept.filter(|(index, _)| !dropped.iter().any(|at| *at as u8 == *index))
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
            .flat_map(Entries::iter)
            .filter_map(|(name, data)| Some((name, as_record(data)?)))
    }
}

/// The record that `data` is.
pub(super) fn as_record(data: &Data) -> Option<&Record> {
    match data {
        Data::Struct(record) => Some(record),
        _ => None,
    }
}

/// Whether two values mean the same to the reference's first look: an empty list or map equals an absent one.
pub(super) fn is_same(x: Option<&Data>, y: Option<&Data>) -> bool {
    match (x, y) {
        (None, None) => true,
        (Some(data), None) | (None, Some(data)) => match data {
            Data::List(list) => list.is_empty(),
            Data::Map(map) => map.len() == 0,
            _ => false,
        },
        (Some(x), Some(y)) => match (x, y) {
            (Data::Struct(x), Data::Struct(y)) => is_same_record(x, y),
            (Data::List(x), Data::List(y)) => {
                x.len() == y.len() && x.iter().zip(&**y).all(|(x, y)| is_same(Some(x), Some(y)))
            }
            (Data::Map(x), Data::Map(y)) => {
                let mut pairs = x.iter().zip(y.iter());
                x.len() == y.len()
                    && pairs.all(|((a, x), (b, y))| a == b && is_same(Some(x), Some(y)))
            }
            (Data::Text(x), Data::Text(y)) | (Data::Bytes(x), Data::Bytes(y)) => x == y,
            (Data::Bool(x), Data::Bool(y)) => x == y,
            (Data::Integer(x), Data::Integer(y)) => x == y,
            (Data::Float(x), Data::Float(y)) => is_equal(*x, *y),
            _ => false,
        },
    }
}

#[expect(clippy::float_cmp, reason = "they were written, not reckoned")]
fn is_equal(x: f64, y: f64) -> bool {
    x == y
}

/// [`is_same`] of two structs of one type.
pub(super) fn is_same_record(x: &Record, y: &Record) -> bool {
    x.is_one_with(y) || is_same_without(x, y, &[])
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

/// Equal records and texts, each once.
#[derive(Debug, Default)]
pub struct Pool {
    texts: IndexSet<Arc<str>>,
    records: IndexSet<Pooled>,
}

impl Pool {
    /// The one text that is equal to this.
    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let text: Arc<str> = text.into();
        self.texts.insert(text.clone());
        text
    }

    /// The zero value that a list, a map or a pointer holds.
    pub(super) fn zero(&mut self, shape: &Shape) -> Data {
        match shape {
            Shape::Text(_) => Data::Text(self.text("")),
            Shape::Bool => Data::Bool(false),
            Shape::Integer | Shape::Byte => Data::Integer(0),
            Shape::Float => Data::Float(0.0),
            Shape::Bytes => Data::Bytes(self.text("")),
            Shape::Struct(_) | Shape::Pointer(_) => Data::Struct(self.record(Vec::new())),
            Shape::List(..) => Data::List(Arc::from([])),
            Shape::Map(..) => Data::Map(Entries::new(Vec::new())),
        }
    }

    /// The one record of these fields, all of which are of this pool.
    pub(super) fn record(&mut self, mut fields: Vec<(u8, Data)>) -> Record {
        fields.sort_unstable_by_key(|(index, _)| *index);
        if let Some(known) = self.records.get(&Candidate(&fields)) {
            return Record(known.0.clone());
        }
        let fields: Arc<[(u8, Data)]> = fields.into();
        self.records.insert(Pooled(fields.clone()));
        Record(fields)
    }
}

/// A record of the pool. Everything below it is of the pool, too, so where that lies in memory tells whether it is equal.
#[derive(Debug)]
struct Pooled(Arc<[(u8, Data)]>);

/// Fields that may be in the pool already.
#[derive(Debug)]
struct Candidate<'a>(&'a [(u8, Data)]);

impl PartialEq for Pooled {
    fn eq(&self, other: &Self) -> bool {
        are_one(&self.0, &other.0)
    }
}

impl Eq for Pooled {}

impl Hash for Pooled {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Candidate(&self.0).hash(state);
    }
}

impl Hash for Candidate<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for (index, data) in self.0 {
            state.write_u8(*index);
            hash(data, state);
        }
    }
}

impl Equivalent<Pooled> for Candidate<'_> {
    fn equivalent(&self, pooled: &Pooled) -> bool {
        are_one(self.0, &pooled.0)
    }
}

fn hash<H: Hasher>(data: &Data, state: &mut H) {
    match data {
        Data::Text(text) | Data::Bytes(text) => text.as_ptr().hash(state),
        Data::Bool(bool) => bool.hash(state),
        Data::Integer(number) => number.hash(state),
        Data::Float(number) => number.to_bits().hash(state),
        Data::Struct(record) => record.0.as_ptr().hash(state),
        Data::List(list) => list.iter().for_each(|data| hash(data, state)),
        Data::Map(map) => map.0.iter().for_each(|(name, data)| {
            name.as_ptr().hash(state);
            hash(data, state);
        }),
    }
}

fn are_one(x: &[(u8, Data)], y: &[(u8, Data)]) -> bool {
    x.len() == y.len()
        && x.iter()
            .zip(y)
            .all(|((a, x), (b, y))| a == b && is_one(x, y))
}

fn is_one(x: &Data, y: &Data) -> bool {
    match (x, y) {
        (Data::Text(x), Data::Text(y)) | (Data::Bytes(x), Data::Bytes(y)) => Arc::ptr_eq(x, y),
        (Data::Bool(x), Data::Bool(y)) => x == y,
        (Data::Integer(x), Data::Integer(y)) => x == y,
        (Data::Float(x), Data::Float(y)) => x.to_bits() == y.to_bits(),
        (Data::Struct(x), Data::Struct(y)) => x.is_one_with(y),
        (Data::List(x), Data::List(y)) => {
            x.len() == y.len() && x.iter().zip(&**y).all(|(x, y)| is_one(x, y))
        }
        (Data::Map(x), Data::Map(y)) => {
            let mut pairs = x.0.iter().zip(&*y.0);
            x.len() == y.len() && pairs.all(|((a, x), (b, y))| Arc::ptr_eq(a, b) && is_one(x, y))
        }
        _ => false,
    }
}

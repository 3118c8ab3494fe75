//! Two values side by side, and how much of them is equal: the tree that a printed difference is made from.
//!
//! After `go-cmp/cmp/compare.go` and `report_value.go`, for the shapes that a schema is made of.

use super::edits::{self, Edit, Likeness};
use super::record::{Data, Entries, is_same};
use super::shape::Shape;

/// A value, or one byte of one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Slot<'a> {
    /// `None` is the zero value.
    Data(Option<&'a Data>),
    Byte(u8),
}

impl<'a> Slot<'a> {
    /// What a field of a struct holds.
    pub(super) fn field(self, index: usize) -> Self {
        match self {
            Self::Data(Some(Data::Struct(record))) => Self::Data(record.at(index)),
            _ => Self::Data(None),
        }
    }

    /// How many elements a list, a map or bytes hold, or how many bytes a text has.
    pub(super) fn len(self) -> usize {
        match self {
            Self::Data(Some(Data::List(list))) => list.len(),
            Self::Data(Some(Data::Map(map))) => map.len(),
            Self::Data(Some(Data::Bytes(bytes))) => bytes.len(),
            Self::Data(Some(Data::Text(text))) => text.len(),
            _ => 0,
        }
    }

    /// The element at `index` of a list or of bytes.
    pub(super) fn element(self, index: usize) -> Self {
        match self {
            Self::Data(Some(Data::List(list))) => Self::Data(list.get(index)),
            Self::Data(Some(Data::Bytes(bytes))) => {
                Self::Byte(bytes.as_bytes().get(index).copied().unwrap_or_default())
            }
            _ => Self::Data(None),
        }
    }

    /// Whether it is absent: nil or zero.
    pub(super) fn is_nil(self) -> bool {
        matches!(self, Self::Data(None))
    }

    /// The bytes of a text or of raw JSON.
    pub(super) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Data(Some(Data::Bytes(text) | Data::Text(text))) => text.as_bytes(),
            _ => &[],
        }
    }

    fn keys(self) -> impl Iterator<Item = &'a str> {
        let map = match self {
            Self::Data(Some(Data::Map(map))) => Some(map),
            _ => None,
        };
        map.into_iter().flat_map(Entries::iter).map(|(key, _)| key)
    }

    fn entry(self, key: &str) -> Option<Self> {
        match self {
            Self::Data(Some(Data::Map(map))) => map.get(key).map(|data| Self::Data(Some(data))),
            _ => None,
        }
    }
}

/// A pair of values and what lies below it.
#[derive(Debug)]
pub(super) struct Node<'a> {
    pub(super) shape: Shape,
    /// The old value; `None` where the element is new.
    pub(super) x: Option<Slot<'a>>,
    /// The new value; `None` where the element is gone.
    pub(super) y: Option<Slot<'a>>,
    /// Equal leaves below, itself included.
    pub(super) same: usize,
    /// Different leaves below, itself included.
    pub(super) different: usize,
    /// All nodes below.
    pub(super) descendants: usize,
    /// Levels below.
    pub(super) depth: usize,
    /// Fields, elements or entries, with their key.
    pub(super) children: Vec<(&'a str, Self)>,
}

/// Compares two values of a shape.
pub(super) fn compare<'a>(shape: Shape, x: Slot<'a>, y: Slot<'a>) -> Node<'a> {
    pair(shape, Some(x), Some(y))
}

fn pair<'a>(shape: Shape, x: Option<Slot<'a>>, y: Option<Slot<'a>>) -> Node<'a> {
    let mut node = Node {
        shape,
        x,
        y,
        same: 0,
        different: 0,
        descendants: 0,
        depth: 0,
        children: Vec::new(),
    };
    let (Some(x), Some(y)) = (x, y) else {
        node.different = 1;
        return node;
    };
    let has_nil = x.is_nil() || y.is_nil();
    match shape {
        Shape::Pointer(_) | Shape::List(..) | Shape::Map(..) | Shape::Bytes if has_nil => {
            node.leaf(x.is_nil() && y.is_nil());
        }
        Shape::Pointer(target) => node.push("", pair(*target, Some(x), Some(y))),
        Shape::Struct(of) => {
            node.children.reserve_exact(of.fields.len());
            for (index, field) in of.fields.iter().enumerate() {
                let child = pair(field.shape, Some(x.field(index)), Some(y.field(index)));
                node.push(field.name, child);
            }
        }
        Shape::List(_, element) => node.elements(*element, x, y),
        Shape::Bytes => node.elements(Shape::Byte, x, y),
        Shape::Map(_, element) => {
            let mut keys: Vec<&str> = x.keys().chain(y.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let child = pair(*element, x.entry(key), y.entry(key));
                node.push(key, child);
            }
        }
        Shape::Text(_) | Shape::Bool | Shape::Integer | Shape::Float | Shape::Byte => {
            node.leaf(is_equal_leaf(x, y));
        }
    }
    node
}

fn is_equal_leaf(x: Slot<'_>, y: Slot<'_>) -> bool {
    match (x, y) {
        (Slot::Byte(x), Slot::Byte(y)) => x == y,
        (Slot::Data(x), Slot::Data(y)) => is_same(leaf_or_zero(x), leaf_or_zero(y)),
        _ => false,
    }
}

/// A zero that is written, as below a pointer, equals one that is absent.
fn leaf_or_zero(data: Option<&Data>) -> Option<&Data> {
    data.filter(|data| match data {
        Data::Text(text) => !text.is_empty(),
        Data::Bool(bool) => *bool,
        Data::Integer(number) => *number != 0,
        Data::Float(number) => *number != 0.0,
        Data::Bytes(_) | Data::Struct(_) | Data::List(_) | Data::Map(_) => true,
    })
}

impl<'a> Node<'a> {
    fn leaf(&mut self, is_equal: bool) {
        self.same = usize::from(is_equal);
        self.different = usize::from(!is_equal);
    }

    fn push(&mut self, key: &'a str, child: Self) {
        self.same += child.same;
        self.different += child.different;
        self.descendants += child.descendants + 1;
        self.depth = self.depth.max(child.depth + 1);
        self.children.push((key, child));
    }

    fn elements(&mut self, element: Shape, x: Slot<'a>, y: Slot<'a>) {
        let edits = edits::script(x.len(), y.len(), |ix, iy| {
            let node = pair(element, Some(x.element(ix)), Some(y.element(iy)));
            Likeness {
                same: node.same,
                different: node.different,
            }
        });
        let (mut ix, mut iy) = (0, 0);
        for edit in edits {
            let old = (edit != Edit::Inserted).then(|| x.element(ix));
            let new = (edit != Edit::Removed).then(|| y.element(iy));
            ix += usize::from(old.is_some());
            iy += usize::from(new.is_some());
            self.push("", pair(element, old, new));
        }
    }
}

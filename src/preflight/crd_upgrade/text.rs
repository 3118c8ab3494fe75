//! Text that is laid out on one line where it fits, else over several, with a mark on removed and inserted lines.
//!
//! After `go-cmp/cmp/report_text.go`: where a line breaks decides which parts of a difference begin a line of their
//! own, and only those become part of a finding. Columns are not aligned, since nothing reads them.

use std::fmt::Write as _;

/// The longest text of a removed or inserted node that stays on one line.
const WIDEST_LINE: usize = 80;

/// What a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Mark {
    /// Both sides, or nothing in particular.
    #[default]
    None,
    /// Both sides, printed as equal.
    Same,
    Removed,
    Inserted,
}

impl Mark {
    fn or(self, other: Self) -> Self {
        if other == Self::None { self } else { other }
    }

    fn is_change(self) -> bool {
        matches!(self, Self::Removed | Self::Inserted)
    }
}

/// A piece of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Text {
    Line(String),
    /// Text before and after a piece.
    Wrap(String, Box<Self>, String),
    List(Vec<Part>),
}

/// An element of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) mark: Mark,
    /// Empty for none.
    pub(super) key: String,
    pub(super) value: Text,
    pub(super) has_comma: bool,
    /// What the ellipsis leaves out.
    pub(super) left_out: Option<Count>,
}

impl Part {
    pub(super) fn new(mark: Mark, key: String, value: Text) -> Self {
        Self {
            mark,
            key,
            value,
            has_comma: true,
            left_out: None,
        }
    }

    pub(super) fn without_comma(mark: Mark, value: Text) -> Self {
        Self {
            has_comma: false,
            ..Self::new(mark, String::new(), value)
        }
    }
}

/// How many elements of each kind stand side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Count {
    pub(super) same: usize,
    pub(super) removed: usize,
    pub(super) inserted: usize,
    pub(super) changed: usize,
}

impl Count {
    pub(super) fn different(self) -> usize {
        self.removed + self.inserted + self.changed
    }

    pub(super) fn is_zero(self) -> bool {
        self == Self::default()
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            same: self.same + other.same,
            removed: self.removed + other.removed,
            inserted: self.inserted + other.inserted,
            changed: self.changed + other.changed,
        }
    }
}

pub(super) const ELLIPSIS: &str = "...";

/// A line.
pub(super) fn line(text: impl Into<String>) -> Text {
    Text::Line(text.into())
}

/// Appends an ellipsis, or adds to the one at the end.
pub(super) fn push_ellipsis(list: &mut Vec<Part>, count: Count) {
    let count = (!count.is_zero()).then_some(count);
    match list.last_mut() {
        Some(last) if last.value == line(ELLIPSIS) => {
            if let Some(count) = count {
                last.left_out = Some(last.left_out.unwrap_or_default().plus(count));
            }
        }
        _ => list.push(Part {
            left_out: count,
            ..Part::without_comma(Mark::None, line(ELLIPSIS))
        }),
    }
}

impl Text {
    pub(super) fn wrap(before: impl Into<String>, value: Self, after: impl Into<String>) -> Self {
        Self::Wrap(before.into(), Box::new(value), after.into())
    }

    /// The length on one line, in bytes.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Line(text) => text.len(),
            Self::Wrap(before, value, after) => before.len() + value.len() + after.len(),
            Self::List(parts) => {
                let separators = parts.len().saturating_sub(1) * 2;
                let keys = parts.iter().map(|part| match part.key.len() {
                    0 => 0,
                    length => length + 2,
                });
                separators
                    + keys.sum::<usize>()
                    + parts.iter().map(|p| p.value.len()).sum::<usize>()
            }
        }
    }

    /// All lines.
    pub(super) fn lay_out(self) -> String {
        let folded = self.fold(Mark::None).1;
        let mut out = String::new();
        indent(&mut out, Mark::None, 0);
        folded.print(&mut out, Mark::None, 0);
        out.push('\n');
        out
    }

    /// The text on one line, and the piece with whatever may stand on one line made a line.
    fn fold(self, mark: Mark) -> (String, Self) {
        match self {
            Self::Line(text) => (text.clone(), Self::Line(text)),
            Self::Wrap(before, value, after) => {
                let (inner, value) = value.fold(mark);
                let text = format!("{before}{inner}{after}");
                if matches!(value, Self::Line(_)) {
                    (text.clone(), Self::Line(text))
                } else {
                    (text, Self::Wrap(before, Box::new(value), after))
                }
            }
            Self::List(parts) => fold_list(parts, mark),
        }
    }

    fn print(&self, out: &mut String, mark: Mark, depth: usize) {
        match self {
            Self::Line(text) => out.push_str(text),
            Self::Wrap(before, value, after) => {
                out.push_str(before);
                value.print(out, mark, depth);
                out.push_str(after);
            }
            Self::List(parts) => print_list(parts, out, mark, depth),
        }
    }
}

fn fold_list(mut parts: Vec<Part>, mark: Mark) -> (String, Text) {
    let mut is_tall = false;
    let mut text = String::new();
    let count = parts.len();
    for (index, part) in parts.iter_mut().enumerate() {
        is_tall |= part.mark.is_change() || part.left_out.is_some();
        if !part.key.is_empty() {
            text.push_str(&part.key);
            text.push_str(": ");
        }
        let value = std::mem::replace(&mut part.value, Text::List(Vec::new()));
        let (inner, value) = value.fold(mark.or(part.mark));
        text.push_str(&inner);
        is_tall |= !matches!(value, Text::Line(_));
        part.value = value;
        if index + 1 < count {
            text.push_str(", ");
        }
    }
    if mark.is_change() && text.len() > WIDEST_LINE {
        is_tall = true;
    }
    if is_tall {
        (text, Text::List(parts))
    } else {
        (text.clone(), Text::Line(text))
    }
}

fn print_list(parts: &[Part], out: &mut String, mark: Mark, depth: usize) {
    let is_simple = |part: &Part| {
        part.mark == Mark::None
            && part.key.is_empty()
            && matches!(part.value, Text::Line(_))
            && part.left_out.is_none()
    };
    if !parts.is_empty() && parts.iter().all(is_simple) {
        print_simple(parts, out, mark, depth + 1);
    } else {
        for part in parts {
            out.push('\n');
            let mark = mark.or(part.mark);
            indent(out, mark, depth + 1);
            if !part.key.is_empty() {
                out.push_str(&part.key);
                out.push_str(": ");
            }
            part.value.print(out, mark, depth + 1);
            if part.has_comma {
                out.push(',');
            }
            if let Some(count) = part.left_out {
                // Writing to a string cannot fail.
                _ = write!(
                    out,
                    " // {} equal, {} removed, {} inserted, {} changed",
                    count.same, count.removed, count.inserted, count.changed
                );
            }
        }
    }
    out.push('\n');
    indent(out, mark, depth);
}

/// Several lines in one, as many as fit.
fn print_simple(parts: &[Part], out: &mut String, mark: Mark, depth: usize) {
    let mut batch = String::new();
    let mut emit = |batch: &mut String| {
        if !batch.is_empty() {
            out.push('\n');
            indent(out, mark, depth);
            out.push_str(batch.trim_end_matches(' '));
            batch.clear();
        }
    };
    for part in parts {
        let Text::Line(text) = &part.value else {
            continue;
        };
        if batch.len() + text.len() + 2 > WIDEST_LINE {
            emit(&mut batch);
        }
        batch.push_str(text);
        batch.push_str(", ");
    }
    emit(&mut batch);
}

fn indent(out: &mut String, mark: Mark, depth: usize) {
    out.push_str(match mark {
        Mark::None | Mark::Same => "  ",
        Mark::Removed => "- ",
        Mark::Inserted => "+ ",
    });
    out.extend(std::iter::repeat_n('\t', depth));
}

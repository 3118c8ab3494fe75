//! The difference inside two texts, in lines or in pieces of a fixed size.
//!
//! After `go-cmp/cmp/report_slices.go`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::edits::{self, Edit, Likeness};
use super::report_style::{Style, Types};
use super::shape::Shape;
use super::text::{Count, ELLIPSIS, Mark, Part, Text, line, push_ellipsis};
use crate::error::{is_printable, quoted};

/// A text in double quotes, or in back quotes where that saves escapes.
pub(super) fn quote(bytes: &[u8]) -> String {
    let double = double_quote(bytes);
    if double.len() == bytes.len() + 2 {
        return double;
    }
    match std::str::from_utf8(bytes) {
        Ok(text)
            if text
                .chars()
                .all(|c| c != '`' && (is_printable(c) || c == '\t')) =>
        {
            format!("`{text}`")
        }
        _ => double,
    }
}

fn double_quote(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        let text = quoted(chunk.valid()).to_string();
        out.push_str(
            text.strip_prefix('"')
                .and_then(|text| text.strip_suffix('"'))
                .unwrap_or(&text),
        );
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
    out
}

/// Whether bytes are printed as a text.
pub(super) fn is_shown_as_text(bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && std::str::from_utf8(bytes)
            .is_ok_and(|text| text.chars().all(|c| is_printable(c) || c.is_whitespace()))
}

/// A line without the carriage returns around it.
pub(super) fn without_return(text: &str) -> &str {
    let text = text.strip_suffix('\r').unwrap_or(text);
    text.strip_prefix('\r').unwrap_or(text)
}

/// Whether a line can stand between triple quotes.
pub(super) fn is_plain_line(text: &str) -> bool {
    !text.starts_with(ELLIPSIS) && is_printable_text(text)
}

/// As the reference looks: only at what is left after printable characters are trimmed off both ends.
fn is_printable_text(text: &str) -> bool {
    text.trim_matches(|c| is_printable(c) || c == '\t')
        .is_empty()
}

/// The difference, and with which types it is to be wrapped, if at all.
pub(super) fn differing_text(
    style: Style,
    shape: Shape,
    old: &[u8],
    new: &[u8],
) -> (Text, Option<Types>) {
    let both = [old, new].concat();
    let look = Look::at(&both);
    if look.is_lined && is_better_by_line(old, new, &both) {
        let (old, new): (Vec<&[u8]>, Vec<&[u8]>) = (split_lines(old), split_lines(new));
        let parts = pieces(style, &old, &new, 1, &|line_of, mark| {
            let bytes = line_of.first().copied().unwrap_or_default();
            Part::new(mark, String::new(), line(quote(bytes)))
        });
        if let Some(tall) = triple_quoted(&parts, &old, &new, style) {
            let types = match shape {
                Shape::Text(None) => None,
                Shape::Text(Some(_)) => Some(style.types),
                _ => Some(Types::Always),
            };
            return (tall, types);
        }
        return joined(shape, style, parts, "\\n");
    }
    if look.is_text {
        let parts = pieces(style, old, new, 64, &|bytes, mark| {
            Part::new(mark, String::new(), line(quote(bytes)))
        });
        return joined(shape, style, parts, "");
    }
    let parts = pieces(style, old, new, 16, &|bytes, mark| {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
        Part::new(mark, String::new(), line(hex.join(", ")))
    });
    let types = match shape {
        Shape::Text(_) => Types::Always,
        _ => style.types,
    };
    (Text::wrap("{", Text::List(parts), "}"), Some(types))
}

/// The pieces as an expression that joins them.
fn joined(shape: Shape, style: Style, parts: Vec<Part>, between: &str) -> (Text, Option<Types>) {
    let package = match shape {
        Shape::Text(_) => "strings",
        _ => "bytes",
    };
    let inner = Text::wrap("{", Text::List(parts), "}");
    let text = Text::wrap(
        format!("{package}.Join("),
        inner,
        format!(", \"{between}\")"),
    );
    let types = matches!(shape, Shape::Text(Some(_))).then_some(style.types);
    (text, types)
}

/// What the texts look like.
struct Look {
    is_text: bool,
    is_lined: bool,
}

impl Look {
    fn at(both: &[u8]) -> Self {
        const LONGEST_LINE: usize = 1024;
        let text = String::from_utf8_lossy(both);
        let (mut total, mut valid, mut lines, mut start, mut longest) = (0_usize, 0_usize, 0, 0, 0);
        let mut at = 0;
        for c in text.chars() {
            total += 1;
            if (is_printable(c) || c.is_whitespace()) && c != char::REPLACEMENT_CHARACTER {
                valid += 1;
            }
            if c == '\n' {
                longest = longest.max(at - start);
                start = at + 1;
                lines += 1;
            }
            at += c.len_utf8();
        }
        Self {
            is_text: valid > total * 9 / 10,
            is_lined: valid == total && lines >= 4 && longest <= LONGEST_LINE,
        }
    }
}

fn split_lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split(|byte| *byte == b'\n').collect()
}

/// Whether lines show the difference without a much longer script than bytes would.
#[expect(
    clippy::cast_precision_loss,
    reason = "ratios of lengths, compared coarsely"
)]
fn is_better_by_line(old: &[u8], new: &[u8], both: &[u8]) -> bool {
    fn cost<T: PartialEq>(old: &[T], new: &[T]) -> f64 {
        let edits = equality_script(old, new);
        let changes = edits.iter().filter(|edit| **edit != Edit::Same).count();
        changes as f64 / edits.len() as f64
    }
    let by_line = cost(&split_lines(old), &split_lines(new));
    let by_byte = cost(old, new);
    let expansion = double_quote(both).len() as f64 / both.len() as f64;
    by_line < 4.0 * by_byte || expansion > 1.1
}

fn equality_script<T: PartialEq>(old: &[T], new: &[T]) -> Vec<Edit> {
    edits::script(old.len(), new.len(), |x, y| {
        Likeness::of_equality(old.get(x) == new.get(y))
    })
}

/// The lines between triple quotes, unless they would hide a part of the difference.
fn triple_quoted(parts: &[Part], old: &[&[u8]], new: &[&[u8]], style: Style) -> Option<Text> {
    // The quoted lines, back in their own form.
    let plain = pieces(style, old, new, 1, &|line_of, mark| {
        let bytes = line_of.first().copied().unwrap_or_default();
        let text = String::from_utf8_lossy(bytes);
        Part::without_comma(mark, line(without_return(&text)))
    });
    let (mut removed, mut inserted) = (BTreeSet::new(), BTreeSet::new());
    let quotes = || Part::without_comma(Mark::None, line("\"\"\""));
    let mut list = vec![quotes()];
    for (part, quoted) in plain.into_iter().zip(parts) {
        if let (Text::Line(text), false) = (&part.value, quoted.value == line(ELLIPSIS)) {
            if text.starts_with("\"\"\"") || !is_plain_line(text) {
                return None;
            }
            let squeezed: String = text.chars().filter(|c| !c.is_whitespace()).collect();
            match part.mark {
                Mark::Removed if inserted.contains(&squeezed) => return None,
                Mark::Inserted if removed.contains(&squeezed) => return None,
                Mark::Removed => _ = removed.insert(squeezed),
                Mark::Inserted => _ = inserted.insert(squeezed),
                Mark::None | Mark::Same => {}
            }
        }
        if matches!(part.mark, Mark::None | Mark::Same) {
            removed.clear();
            inserted.clear();
        }
        list.push(part);
    }
    if list
        .last()
        .is_some_and(|last| last.mark == Mark::Same && last.value == line(""))
    {
        list.pop();
    }
    list.push(quotes());
    Some(Text::wrap("(", Text::List(list), ")"))
}

/// The edits in pieces of `size` elements.
fn pieces<T: PartialEq>(
    style: Style,
    old: &[T],
    new: &[T],
    size: usize,
    part_of: &impl Fn(&[T], Mark) -> Part,
) -> Vec<Part> {
    const CONTEXT: usize = 2;
    let most = if style.is_limited() {
        (1_usize << style.level()) << 2
    } else {
        usize::MAX
    };
    let groups = clean_ends(
        join_close(group(&equality_script(old, new)), size / 4),
        old,
        new,
    );
    let mut parts = Vec::new();
    let push = |list: &[T], mark: Mark, parts: &mut Vec<Part>| {
        parts.extend(list.chunks(size).map(|chunk| part_of(chunk, mark)));
    };
    let (mut old, mut new) = (old, new);
    let last = groups.len().saturating_sub(1);
    let mut shown = 0;
    let mut left_out = Count::default();
    for (index, count) in groups.into_iter().enumerate() {
        if shown >= most {
            left_out = left_out.plus(count);
            continue;
        }
        if count.different() == 0 {
            let total = count.same.min(old.len());
            let first = if index == 0 {
                0
            } else {
                (size * CONTEXT).min(total)
            };
            let mut end = if index == last {
                0
            } else {
                (size * CONTEXT).min(total - first)
            };
            if total - (first + end) <= size {
                end = total - first;
            }
            let (equal, rest) = old.split_at(total);
            let (before, after) = equal.split_at(first);
            let (hidden, after) = after.split_at(total - first - end);
            push(before, Mark::Same, &mut parts);
            if !hidden.is_empty() {
                let hidden = Count {
                    same: hidden.len(),
                    ..Count::default()
                };
                push_ellipsis(&mut parts, hidden);
            }
            push(after, Mark::Same, &mut parts);
            old = rest;
            new = new.get(total..).unwrap_or_default();
            continue;
        }
        let before = parts.len();
        let (gone, rest) =
            old.split_at((count.same + count.removed + count.changed).min(old.len()));
        push(gone, Mark::Removed, &mut parts);
        old = rest;
        let (come, rest) =
            new.split_at((count.same + count.inserted + count.changed).min(new.len()));
        push(come, Mark::Inserted, &mut parts);
        new = rest;
        shown += parts.len() - before;
    }
    if !left_out.is_zero() {
        push_ellipsis(&mut parts, left_out);
    }
    parts
}

fn group(edits: &[Edit]) -> Vec<Count> {
    let mut groups: Vec<Count> = Vec::new();
    for edit in edits {
        let is_same = *edit == Edit::Same;
        if groups
            .last()
            .is_none_or(|last| (last.different() == 0) != is_same)
        {
            groups.push(Count::default());
        }
        if let Some(count) = groups.last_mut() {
            match edit {
                Edit::Same => count.same += 1,
                Edit::Removed => count.removed += 1,
                Edit::Inserted => count.inserted += 1,
                Edit::Changed => count.changed += 1,
            }
        }
    }
    groups
}

/// Takes short equal runs between changes into the changes.
fn join_close(groups: Vec<Count>, window: usize) -> Vec<Count> {
    let mut out: Vec<Count> = Vec::new();
    for count in groups {
        if let [.., before, between] = out.as_mut_slice()
            && count.different() > 0
        {
            let has_old = before.removed > 0 || count.removed > 0;
            let has_new = before.inserted > 0 || count.inserted > 0;
            if has_old && has_new && between.same <= window {
                *before = before.plus(*between).plus(count);
                out.pop();
                continue;
            }
        }
        out.push(count);
    }
    out
}

/// Gives equal elements at the ends of a change back to the equal runs beside it.
fn clean_ends<T: PartialEq>(mut groups: Vec<Count>, old: &[T], new: &[T]) -> Vec<Count> {
    let (mut ix, mut iy) = (0, 0);
    let (mut before_all, mut after_all) = (0, 0);
    for index in 0..groups.len() {
        let Some(count) = groups.get(index).copied() else {
            break;
        };
        if count.different() == 0 {
            ix += count.same;
            iy += count.same;
            continue;
        }
        let mut nx = count.same + count.removed + count.changed;
        let mut ny = count.same + count.inserted + count.changed;
        let shorter = nx.min(ny);
        let leading = (0..shorter)
            .take_while(|j| old.get(ix + j) == new.get(iy + j))
            .count();
        let trailing = (0..shorter)
            .take_while(|j| old.get(ix + nx - 1 - j) == new.get(iy + ny - 1 - j))
            .count();
        if leading + trailing > 0 {
            match index.checked_sub(1).and_then(|at| groups.get_mut(at)) {
                Some(previous) => previous.same += leading,
                None => before_all += leading,
            }
            ix += leading;
            iy += leading;
            match groups.get_mut(index + 1) {
                Some(next) => next.same += trailing,
                None => after_all += trailing,
            }
            nx = nx.saturating_sub(leading + trailing);
            ny = ny.saturating_sub(leading + trailing);
            if let Some(group) = groups.get_mut(index) {
                *group = Count {
                    removed: nx,
                    inserted: ny,
                    ..Count::default()
                };
            }
        }
        ix += nx;
        iy += ny;
    }
    let equal = |same| Count {
        same,
        ..Count::default()
    };
    if before_all > 0 {
        groups.insert(0, equal(before_all));
    }
    if after_all > 0 {
        groups.push(equal(after_all));
    }
    groups
}

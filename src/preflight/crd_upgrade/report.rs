//! A difference of two schemas as text, as the reference prints it before it condenses it.
//!
//! After `go-cmp/cmp/report_compare.go` and `report_reflect.go`. Not taken over: addresses of pointers, which differ
//! from run to run, and references of values to themselves, which JSON cannot have.

use super::compare::{Node, Slot, compare};
use super::record::{Data, Record};
use super::report_style::{Mode, PRESETS, Style, Types};
use super::report_text::differing_text;
use super::report_value::{map_key, typed, value};
use super::shape::{SCHEMA_POINTER, Shape};
use super::text::{Count, Mark, Part, Text, push_ellipsis};

/// Equal records that are shown before and after a change.
const CONTEXT: usize = 2;

/// The difference between two schemas.
pub(super) fn difference(old: Record, new: Record) -> String {
    let (old, new) = (Data::Struct(old), Data::Struct(new));
    let node = compare(
        SCHEMA_POINTER,
        Slot::Data(Some(&old)),
        Slot::Data(Some(&new)),
    );
    if node.different == 0 {
        return String::new();
    }
    pair(Style::FIRST, &node)
        .map(Text::lay_out)
        .unwrap_or_default()
}

/// A pair; `None` where the side that is asked for has none.
fn pair(style: Style, node: &Node<'_>) -> Option<Text> {
    let style = if style.mode == Mode::Same {
        style.with_verbosity(1)
    } else if style.level() < 3 {
        style.with_verbosity(3)
    } else {
        style
    };
    if is_text_difference(style, node) {
        return Some(text_difference(style, node));
    }
    let is_equal_bytes = node.shape == Shape::Bytes && node.different == 0;
    if node.depth == 0 || is_equal_bytes {
        return leaf(style, node);
    }
    let inner = match node.shape {
        Shape::Pointer(_) => {
            let (_, target) = node.children.first()?;
            return Some(Text::wrap("&", pair(style, target)?, ""));
        }
        _ => list(style, node),
    };
    Some(typed(style, node.shape, inner))
}

fn leaf(style: Style, node: &Node<'_>) -> Option<Text> {
    let of = |style: Style, slot: Option<Slot<'_>>| Some(value(style, node.shape, slot?));
    match style.mode {
        Mode::Difference | Mode::Same => {
            if node.different == 0 {
                let (x, y) = (of(style, node.x), of(style, node.y));
                return match (x, y) {
                    (Some(x), Some(y)) if x.len() < y.len() => Some(x),
                    (_, y) => y,
                };
            }
            let (x, y) = distinct(style.with_types(Types::Never), |style| {
                (of(style, node.x), of(style, node.y))
            });
            let parts = [(Mark::Removed, x), (Mark::Inserted, y)]
                .into_iter()
                .filter_map(|(mark, text)| Some(Part::new(mark, String::new(), text?)))
                .collect();
            Some(typed(
                style.with_types(Types::Always),
                node.shape,
                Text::List(parts),
            ))
        }
        Mode::Removed => of(style, node.x),
        Mode::Inserted => of(style, node.y),
    }
}

/// Both sides, ever more verbose until they differ.
fn distinct(
    style: Style,
    print: impl Fn(Style) -> (Option<Text>, Option<Text>),
) -> (Option<Text>, Option<Text>) {
    let (mut x, mut y) = print(style);
    for index in 0..=PRESETS {
        if x.is_none() || y.is_none() || x != y {
            break;
        }
        (x, y) = print(style.preset(index));
    }
    (x, y)
}

/// Whether the pair is two texts whose difference is shown inside.
fn is_text_difference(style: Style, node: &Node<'_>) -> bool {
    const SHORTEST: usize = 32;
    let (Some(x), Some(y)) = (node.x, node.y) else {
        return false;
    };
    if style.mode != Mode::Difference || node.different == 0 {
        return false;
    }
    let is_long = x.len() >= SHORTEST && y.len() >= SHORTEST;
    match node.shape {
        Shape::Text(_) => is_long,
        Shape::Bytes => x.len() > 0 && y.len() > 0 && (node.different > node.same || is_long),
        _ => false,
    }
}

fn text_difference(style: Style, node: &Node<'_>) -> Text {
    let bytes = |slot: Option<Slot<'_>>| slot.map(|slot| slot.bytes().to_vec()).unwrap_or_default();
    let (inner, types) = differing_text(style, node.shape, &bytes(node.x), &bytes(node.y));
    match types {
        Some(types) => typed(style.with_types(types), node.shape, inner),
        None => inner,
    }
}

/// The fields, elements or entries of a pair.
fn list(style: Style, node: &Node<'_>) -> Text {
    let style = style.with_types(match node.shape {
        Shape::Struct(_) => Types::Composite,
        _ => Types::Never,
    });
    let key_of = |key: &str| match node.shape {
        Shape::Map(..) => map_key(key),
        _ => key.to_owned(),
    };
    let parts = if style.mode == Mode::Difference {
        differences(style, node, &key_of)
    } else {
        one_side(style, node, &key_of)
    };
    Text::wrap("{", Text::List(parts), "}")
}

fn one_side(style: Style, node: &Node<'_>, key_of: &impl Fn(&str) -> String) -> Vec<Part> {
    let most = if !style.is_limited() {
        usize::MAX
    } else if style.mode == Mode::Same {
        style.shown()
    } else {
        (1 << style.level()) << 1
    };
    let style = style.less_verbose();
    let mut parts = Vec::new();
    for (key, child) in &node.children {
        if parts.len() == most {
            push_ellipsis(&mut parts, Count::default());
            break;
        }
        if matches!(node.shape, Shape::Struct(_)) {
            let is_zero = |slot: Option<Slot<'_>>| slot.is_none_or(Slot::is_nil);
            let is_left_out = match style.mode {
                Mode::Same | Mode::Difference => is_zero(child.x) || is_zero(child.y),
                Mode::Removed => is_zero(child.x),
                Mode::Inserted => is_zero(child.y),
            };
            if is_left_out {
                continue;
            }
        }
        if let Some(text) = pair(style, child) {
            parts.push(Part::new(Mark::None, key_of(key), text));
        }
    }
    parts
}

fn differences(style: Style, node: &Node<'_>, key_of: &impl Fn(&str) -> String) -> Vec<Part> {
    let most = if style.is_limited() {
        (1 << style.level()) << 1
    } else {
        usize::MAX
    };
    let style = style.less_verbose();
    let mut parts = Vec::new();
    let mut records = node.children.as_slice();
    let groups = group(records);
    let last = groups.len().saturating_sub(1);
    let mut shown = 0;
    let mut left_out = Count::default();
    for (index, count) in groups.into_iter().enumerate() {
        if shown >= most {
            left_out = left_out.plus(count);
            continue;
        }
        let length = count.same + count.different();
        let (these, rest) = records.split_at(length.min(records.len()));
        records = rest;
        if count.different() == 0 {
            equal_records(
                style,
                these,
                (index != 0, index != last),
                key_of,
                &mut parts,
            );
        } else {
            for (key, child) in these {
                different_record(style, &key_of(key), child, &mut parts);
            }
            shown += count.different();
        }
    }
    if !left_out.is_zero() {
        push_ellipsis(&mut parts, left_out);
    }
    parts
}

/// Runs of equal and of different records.
fn group(records: &[(&str, Node<'_>)]) -> Vec<Count> {
    let mut groups: Vec<Count> = Vec::new();
    for (_, node) in records {
        let is_same = node.different == 0;
        if groups
            .last()
            .is_none_or(|last| (last.different() == 0) != is_same)
        {
            groups.push(Count::default());
        }
        if let Some(count) = groups.last_mut() {
            match (is_same, node.x.is_some(), node.y.is_some()) {
                (true, ..) => count.same += 1,
                (false, _, false) => count.removed += 1,
                (false, false, true) => count.inserted += 1,
                (false, true, true) => count.changed += 1,
            }
        }
    }
    groups
}

fn equal_records(
    style: Style,
    records: &[(&str, Node<'_>)],
    (has_before, has_after): (bool, bool),
    key_of: &impl Fn(&str) -> String,
    parts: &mut Vec<Part>,
) {
    let total = records.len();
    let first = if has_before { CONTEXT.min(total) } else { 0 };
    let mut end = if has_after {
        CONTEXT.min(total - first)
    } else {
        0
    };
    if total - (first + end) == 1 {
        end += 1;
    }
    let (before, rest) = records.split_at(first);
    let (hidden, after) = rest.split_at(total - first - end);
    let show = |records: &[(&str, Node<'_>)], parts: &mut Vec<Part>| {
        for (key, child) in records {
            if let Some(text) = pair(style.with_mode(Mode::Same), child) {
                parts.push(Part::new(Mark::None, key_of(key), text));
            }
        }
    };
    show(before, parts);
    if !hidden.is_empty() {
        let count = Count {
            same: hidden.len(),
            ..Count::default()
        };
        push_ellipsis(parts, count);
    }
    show(after, parts);
}

fn different_record(style: Style, key: &str, node: &Node<'_>, parts: &mut Vec<Part>) {
    if is_text_difference(style, node) {
        let text = text_difference(style, node);
        parts.push(Part::new(Mark::None, key.to_owned(), text));
    } else if node.descendants == node.depth {
        let (x, y) = distinct(style, |style| {
            (
                pair(style.with_mode(Mode::Removed), node),
                pair(style.with_mode(Mode::Inserted), node),
            )
        });
        for (mark, text) in [(Mark::Removed, x), (Mark::Inserted, y)] {
            if let Some(text) = text {
                parts.push(Part::new(mark, key.to_owned(), text));
            }
        }
    } else if let Some(text) = pair(style, node) {
        parts.push(Part::new(Mark::None, key.to_owned(), text));
    }
}

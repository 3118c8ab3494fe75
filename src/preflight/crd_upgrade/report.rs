//! A difference of two schemas as text, as the reference prints it before it condenses it.
//!
//! After `go-cmp/cmp/report_compare.go` and `report_reflect.go`. Not taken over: addresses of pointers, which differ
//! from run to run, and references of values to themselves, which JSON cannot have.

use super::canonical::go_float;
use super::compare::{Node, Slot, compare};
use super::record::{Data, Record};
use super::report_text::{differing_text, is_shown_as_text, quote};
use super::shape::{SCHEMA_POINTER, Shape};
use super::string_form;
use super::text::{Count, ELLIPSIS, Mark, Part, Text, line, push_ellipsis};

/// Equal records that are shown before and after a change.
const CONTEXT: usize = 2;

/// How often a text that does not show the difference is made more verbose.
const PRESETS: u32 = 6;

/// What is printed of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Difference,
    Same,
    Removed,
    Inserted,
}

impl Mode {
    pub(super) fn mark(self) -> Mark {
        match self {
            Self::Difference => Mark::None,
            Self::Same => Mark::Same,
            Self::Removed => Mark::Removed,
            Self::Inserted => Mark::Inserted,
        }
    }
}

/// Whether the type is printed before the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Types {
    Always,
    Never,
    /// Of structs, lists and maps.
    Composite,
}

/// How a value is printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub(super) mode: Mode,
    pub(super) types: Types,
    /// Print structs by their fields, where they could print themselves.
    plain: bool,
    qualified: bool,
    verbosity: i32,
    limited: bool,
}

impl Style {
    fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    pub(super) fn with_types(self, types: Types) -> Self {
        Self { types, ..self }
    }

    fn with_verbosity(self, verbosity: i32) -> Self {
        Self {
            verbosity,
            limited: true,
            ..self
        }
    }

    fn preset(self, index: u32) -> Self {
        Self {
            verbosity: self.level().cast_signed() + 2 * index.cast_signed(),
            plain: self.plain || index > 0,
            qualified: self.qualified || index >= PRESETS,
            ..self
        }
    }

    /// The verbosity within its bounds.
    pub(super) fn level(self) -> u32 {
        self.verbosity.clamp(0, 16).cast_unsigned()
    }

    pub(super) fn is_limited(self) -> bool {
        self.limited
    }

    /// Half of the elements that a list of equal ones may show, times eight: 0, 4, 8, 16, …
    fn shown(self) -> usize {
        if self.limited {
            ((1 << self.level()) >> 1) << 2
        } else {
            usize::MAX
        }
    }

    fn less_verbose(self) -> Self {
        Self {
            verbosity: self.verbosity - i32::from(self.limited),
            ..self
        }
    }
}

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
    let style = Style {
        mode: Mode::Difference,
        types: Types::Always,
        plain: false,
        qualified: false,
        verbosity: 0,
        limited: false,
    };
    pair(style, &node).map(Text::lay_out).unwrap_or_default()
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
    let most = if !style.limited {
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
    let most = if style.limited {
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

/// Puts the type before the text where the style wants it.
fn typed(style: Style, shape: Shape, text: Text) -> Text {
    match style.types {
        Types::Never => return text,
        Types::Composite => {
            let is_composite = matches!(
                shape,
                Shape::Struct(_) | Shape::List(..) | Shape::Map(..) | Shape::Bytes
            );
            if !is_composite || text == line("nil") || style.mode == Mode::Same {
                return text;
            }
        }
        Types::Always => {}
    }
    let name = type_name(shape, style.qualified);
    let name = match shape {
        Shape::Pointer(_) => format!("({name})"),
        _ => name,
    };
    let has_brackets = matches!(&text, Text::Wrap(before, _, after)
        if (before.starts_with('(') && after.ends_with(')')) || (before.starts_with('{') && after.ends_with('}')));
    let text = if has_brackets {
        text
    } else {
        Text::wrap("(", text, ")")
    };
    Text::wrap(name, text, "")
}

fn type_name(shape: Shape, qualified: bool) -> String {
    let named = |name: &str| {
        if qualified {
            format!("\"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1\".{name}")
        } else {
            format!("v1.{name}")
        }
    };
    match shape {
        Shape::Text(Some(name)) | Shape::List(Some(name), _) | Shape::Map(Some(name), _) => {
            named(name)
        }
        Shape::Struct(of) => named(of.name),
        Shape::Text(None) => "string".to_owned(),
        Shape::Bool => "bool".to_owned(),
        Shape::Integer => "int64".to_owned(),
        Shape::Float => "float64".to_owned(),
        Shape::Byte => "uint8".to_owned(),
        Shape::Bytes => "[]uint8".to_owned(),
        Shape::Pointer(target) => format!("*{}", type_name(*target, qualified)),
        Shape::List(None, element) => format!("[]{}", type_name(*element, qualified)),
        Shape::Map(None, element) => format!("map[string]{}", type_name(*element, qualified)),
    }
}

/// One value.
fn value(style: Style, shape: Shape, slot: Slot<'_>) -> Text {
    let data = match slot {
        Slot::Byte(byte) => return typed(style, shape, line(format!("0x{byte:02x}"))),
        Slot::Data(data) => data,
    };
    let text = match (shape, data) {
        (Shape::Pointer(_) | Shape::List(..) | Shape::Map(..) | Shape::Bytes, None) => line("nil"),
        (Shape::Pointer(target), Some(data)) => {
            if let (Shape::Struct(of), Data::Struct(record), false) = (target, data, style.plain) {
                return quoted_text(style, "s", string_form::of_pointer(of, record).as_bytes());
            }
            return Text::wrap("&", value(style, *target, slot), "");
        }
        (Shape::Struct(of), _) => {
            let most = style.shown();
            let inner = style.less_verbose().with_types(Types::Composite);
            let mut parts = Vec::new();
            for (index, field) in of.fields.iter().enumerate() {
                let child = slot.field(index);
                if child.is_nil() {
                    continue;
                }
                if parts.len() == most {
                    push_ellipsis(&mut parts, Count::default());
                    break;
                }
                let text = value(inner, field.shape, child);
                parts.push(Part::new(Mark::None, field.name.to_owned(), text));
            }
            Text::wrap("{", Text::List(parts), "}")
        }
        (Shape::Bytes, Some(Data::Bytes(bytes))) if is_shown_as_text(bytes.as_bytes()) => {
            quoted_text(style, "", bytes.as_bytes())
        }
        (Shape::List(_, element), Some(_)) => elements(style, *element, slot),
        (Shape::Bytes, Some(_)) => elements(style, Shape::Byte, slot),
        (Shape::Map(_, element), Some(Data::Map(map))) => {
            let most = style.shown();
            let inner = style.less_verbose().with_types(Types::Never);
            let mut parts = Vec::new();
            for (key, data) in map.iter() {
                if parts.len() == most {
                    push_ellipsis(&mut parts, Count::default());
                    break;
                }
                let text = value(inner, *element, Slot::Data(Some(data)));
                parts.push(Part::new(Mark::None, map_key(key), text));
            }
            Text::wrap("{", Text::List(parts), "}")
        }
        (Shape::Text(_), Some(Data::Text(text))) => quoted_text(style, "", text.as_bytes()),
        (Shape::Text(_), _) => line("\"\""),
        (Shape::Float, Some(Data::Float(number))) => line(go_float(*number)),
        (_, Some(Data::Bool(bool))) => line(bool.to_string()),
        (_, Some(Data::Integer(number))) => line(number.to_string()),
        (Shape::Bool, _) => line("false"),
        _ => line("0"),
    };
    typed(style, shape, text)
}

fn elements(style: Style, element: Shape, slot: Slot<'_>) -> Text {
    let most = style.shown();
    let inner = style.less_verbose().with_types(Types::Never);
    let mut parts = Vec::new();
    for index in 0..slot.len() {
        if parts.len() == most {
            push_ellipsis(&mut parts, Count::default());
            break;
        }
        let text = value(inner, element, slot.element(index));
        parts.push(Part::new(Mark::None, String::new(), text));
    }
    Text::wrap("{", Text::List(parts), "}")
}

/// A key of a map: a quoted text, cut where it is very long.
fn map_key(key: &str) -> String {
    const LONGEST: usize = (1 << PRESETS) << 5;
    cut_and_quote("", key.as_bytes(), LONGEST)
}

/// A text in quotes, over several lines where it has several and is removed or inserted.
fn quoted_text(style: Style, prefix: &str, bytes: &[u8]) -> Text {
    let (longest, most_lines) = if style.limited {
        (
            (1_usize << style.level()) << 5,
            (1_usize << style.level()) << 2,
        )
    } else {
        (bytes.len(), usize::MAX)
    };
    let mark = style.mode.mark();
    let whole = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = whole
        .strip_suffix('\n')
        .unwrap_or(&whole)
        .split('\n')
        .map(super::report_text::without_return)
        .collect();
    let is_tall = lines.len() >= 4
        && matches!(style.mode, Mode::Removed | Mode::Inserted)
        && lines.iter().all(|text| {
            !text
                .strip_prefix(prefix)
                .unwrap_or(text)
                .starts_with("\"\"\"")
                && super::report_text::is_plain_line(text)
                && text.len() <= longest
        });
    if !is_tall {
        return line(cut_and_quote(prefix, bytes, longest));
    }
    let quotes = || Part::without_comma(mark, line(format!("{prefix}\"\"\"")));
    let mut parts = vec![quotes()];
    for (index, text) in lines.iter().enumerate() {
        if index + 1 == most_lines && lines.len() - index > 1 {
            parts.push(Part {
                left_out: Some(Count {
                    same: lines.len() - index,
                    ..Count::default()
                }),
                ..Part::without_comma(mark, line(ELLIPSIS))
            });
            break;
        }
        parts.push(Part::without_comma(mark, line(*text)));
    }
    parts.push(quotes());
    Text::wrap("(", Text::List(parts), ")")
}

fn cut_and_quote(prefix: &str, bytes: &[u8], longest: usize) -> String {
    match bytes.get(..longest) {
        Some(head) if bytes.len() > longest + ELLIPSIS.len() => {
            format!("{prefix}{}{ELLIPSIS}", quote(head))
        }
        _ => format!("{prefix}{}", quote(bytes)),
    }
}

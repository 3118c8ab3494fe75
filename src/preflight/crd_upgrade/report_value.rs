//! One value as text, with its type where that is asked for.
//!
//! After `go-cmp/cmp/report_reflect.go`.

use super::canonical::go_float;
use super::compare::Slot;
use super::record::Data;
use super::report_style::{Mode, PRESETS, Style, Types};
use super::report_text::{is_plain_line, is_shown_as_text, quote, without_return};
use super::shape::Shape;
use super::string_form;
use super::text::{Count, ELLIPSIS, Mark, Part, Text, line, push_ellipsis};

/// Puts the type before the text where the style wants it.
pub(super) fn typed(style: Style, shape: Shape, text: Text) -> Text {
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
pub(super) fn value(style: Style, shape: Shape, slot: Slot<'_>) -> Text {
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
pub(super) fn map_key(key: &str) -> String {
    const LONGEST: usize = (1 << PRESETS) << 5;
    cut_and_quote("", key.as_bytes(), LONGEST)
}

/// A text in quotes, over several lines where it has several and is removed or inserted.
fn quoted_text(style: Style, prefix: &str, bytes: &[u8]) -> Text {
    let (longest, most_lines) = if style.is_limited() {
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
        .map(without_return)
        .collect();
    let is_tall = lines.len() >= 4
        && matches!(style.mode, Mode::Removed | Mode::Inserted)
        && lines.iter().all(|text| {
            !text
                .strip_prefix(prefix)
                .unwrap_or(text)
                .starts_with("\"\"\"")
                && is_plain_line(text)
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

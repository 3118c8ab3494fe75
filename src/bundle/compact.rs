//! JSON text as Go's `encoding/json` writes it: compact, keys sorted, `<`, `>`, `&` and two separators escaped.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

/// The text of `value`.
///
/// Fields of structs come in the order of their declaration, members of JSON objects sorted.
pub fn go_text<T: Serialize>(value: &T) -> String {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, GoFormatter);
    // Strings, numbers, lists and maps with string keys always have a JSON form, and a vector takes all bytes.
    if value.serialize(&mut serializer).is_err() {
        bytes.clear();
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// How Go differs from `serde_json`: escapes, and the form of floats.
struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        CompactFormatter.write_string_fragment(writer, &escaped(fragment))
    }

    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float_text(value).as_bytes())
    }
}

/// A float as Go prints it: the shortest form, with an exponent below 1e-6 and from 1e21 on.
fn float_text(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return format!("{value}");
    }
    let text = format!("{value:e}");
    if text.contains("e-") {
        text
    } else {
        text.replace('e', "e+")
    }
}

/// Escapes what Go escapes and `serde_json` does not. Such characters occur only inside of strings.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    out
}

/// JSON text without white space between its tokens, escaped as Go does; the order of members stays.
pub(super) fn compacted(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut in_string, mut after_backslash) = (false, false);
    for character in json.chars() {
        if in_string {
            out.push(character);
            in_string = after_backslash || character != '"';
            after_backslash = character == '\\' && !after_backslash;
        } else if !character.is_ascii_whitespace() {
            out.push(character);
            in_string = character == '"';
        }
    }
    escaped(&out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_as_go_writes_it() {
        assert_eq!(
            go_text(&serde_json::json!({"b": "<&>\u{2028}", "a": [1, true, null, "\u{8}\u{1}é"]})),
            r#"{"a":[1,true,null,"\b\u0001é"],"b":"\u003c\u0026\u003e\u2028"}"#
        );
        assert_eq!(
            go_text(&[1.5, 1e20, 1e21, 1e-6, 1e-7, -2.0, 0.0]),
            "[1.5,100000000000000000000,1e+21,0.000001,1e-7,-2,0]"
        );
    }

    #[test]
    fn white_space_goes_and_order_stays() {
        assert_eq!(
            compacted("{ \"z\" : \"a \\\" b\\\\\" ,\n \"a\":[ 1.50 ] }"),
            r#"{"z":"a \" b\\","a":[1.50]}"#
        );
    }
}

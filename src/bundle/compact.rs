//! JSON text as Go's `encoding/json` writes it: compact, keys sorted, `<`, `>`, `&` and two separators escaped.

use serde::Serialize;

/// The text of `value`.
///
/// Fields of structs come in the order of their declaration, members of JSON objects sorted.
pub fn go_text<T: Serialize>(value: &T) -> String {
    // Strings, numbers, lists and maps with string keys always have a JSON form.
    escaped(&serde_json::to_string(value).unwrap_or_default())
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
    }

    #[test]
    fn white_space_goes_and_order_stays() {
        assert_eq!(
            compacted("{ \"z\" : \"a \\\" b\\\\\" ,\n \"a\":[ 1.50 ] }"),
            r#"{"z":"a \" b\\","a":[1.50]}"#
        );
    }
}

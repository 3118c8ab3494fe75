//! JSON as Go reads it (`encoding/json`), from a stream of values.
//!
//! Half a surrogate pair and bytes that are not UTF-8 become U+FFFD; integers keep every digit; a number
//! that is no finite float is refused. Nothing recurses.

use super::document::DEPTH_LIMIT;
use super::normal::{self, Normalizer};
use super::scalar::format_float;

/// Why there is no JSON value at the start of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonError {
    /// Only white space is left.
    End,
    /// More bytes are needed to tell.
    Incomplete,
    /// The byte at `offset` cannot stand there.
    Syntax {
        /// Counted from the start of the text.
        offset: usize,
        /// What was expected.
        problem: &'static str,
    },
}

/// Writes the first JSON value of `bytes` in normal form; returns how many bytes it takes, white space
/// before it included. `is_whole` says that no bytes follow `bytes`.
///
/// # Errors
/// See [`JsonError`].
pub(crate) fn normalize(
    bytes: &[u8],
    is_whole: bool,
    normalizer: &mut Normalizer,
) -> Result<usize, JsonError> {
    normalizer.clear();
    let mut reader = Reader {
        bytes,
        at: 0,
        is_whole,
        text: Vec::new(),
    };
    reader.skip_space();
    if reader.peek().is_none() {
        return Err(if is_whole {
            JsonError::End
        } else {
            JsonError::Incomplete
        });
    }
    let mut next = Next::Value;
    loop {
        next = reader.step(next, normalizer)?;
        if next == Next::AfterValue && normalizer.depth() == 0 {
            return Ok(reader.at);
        }
    }
}

/// What may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    AfterValue,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    is_whole: bool,
    /// Memory for strings with escapes.
    text: Vec<u8>,
}

/// A string literal in normal form, with its quotes.
struct Literal<'a> {
    text: &'a [u8],
    is_escaped: bool,
}

impl<'a> Reader<'a> {
    fn step(&mut self, next: Next, writer: &mut Normalizer) -> Result<Next, JsonError> {
        self.skip_space();
        let byte = self.peek_or_end()?;
        match (next, byte) {
            (Next::ValueOrEnd, b']') | (Next::KeyOrEnd, b'}') => self.close(writer),
            (Next::Value | Next::ValueOrEnd, _) => self.value(byte, writer),
            (Next::Key | Next::KeyOrEnd, b'"') => self.key(writer),
            (Next::Key, _) => Err(self.syntax("expected a key in double quotes")),
            (Next::KeyOrEnd, _) => Err(self.syntax("expected a key in double quotes or `}`")),
            (Next::AfterValue, _) => self.after_value(byte, writer),
        }
    }

    fn value(&mut self, byte: u8, writer: &mut Normalizer) -> Result<Next, JsonError> {
        match byte {
            b'{' | b'[' if writer.depth() >= DEPTH_LIMIT => {
                return Err(self.syntax("the document is nested too deeply"));
            }
            b'{' => {
                self.at += 1;
                writer.begin_object();
                return Ok(Next::KeyOrEnd);
            }
            b'[' => {
                self.at += 1;
                writer.begin_array();
                return Ok(Next::ValueOrEnd);
            }
            b'"' => self.text(writer)?,
            b't' => self.literal(b"true", writer)?,
            b'f' => self.literal(b"false", writer)?,
            b'n' => self.literal(b"null", writer)?,
            b'-' | b'0'..=b'9' => self.number(writer)?,
            _ => return Err(self.syntax("expected a value")),
        }
        Ok(Next::AfterValue)
    }

    fn key(&mut self, writer: &mut Normalizer) -> Result<Next, JsonError> {
        match self.normal_literal() {
            Some(literal) => {
                writer.raw_key(literal.text, literal.is_escaped);
                self.at += literal.text.len();
            }
            None => self.string(|key| writer.key(key))?,
        }
        self.skip_space();
        if self.peek_or_end()? != b':' {
            return Err(self.syntax("expected `:` after a key"));
        }
        self.at += 1;
        Ok(Next::Value)
    }

    fn after_value(&mut self, byte: u8, writer: &mut Normalizer) -> Result<Next, JsonError> {
        match (byte, writer.is_in_object()) {
            (b',', true) => {
                self.at += 1;
                Ok(Next::Key)
            }
            (b',', false) => {
                self.at += 1;
                Ok(Next::Value)
            }
            (b'}', true) | (b']', false) => self.close(writer),
            (_, true) => Err(self.syntax("expected `,` or `}`")),
            (_, false) => Err(self.syntax("expected `,` or `]`")),
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "a step like the others")]
    fn close(&mut self, writer: &mut Normalizer) -> Result<Next, JsonError> {
        self.at += 1;
        writer.end();
        Ok(Next::AfterValue)
    }

    fn literal(&mut self, literal: &[u8], writer: &mut Normalizer) -> Result<(), JsonError> {
        for expected in literal {
            if self.peek_or_end()? != *expected {
                return Err(self.syntax("expected a value"));
            }
            self.at += 1;
        }
        writer.raw(literal);
        Ok(())
    }

    fn number(&mut self, writer: &mut Normalizer) -> Result<(), JsonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        let mut is_integer = true;
        if self.peek() == Some(b'.') {
            is_integer = false;
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            is_integer = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        if self.peek().is_none() && !self.is_whole {
            return Err(JsonError::Incomplete);
        }
        let text = self.bytes.get(start..self.at).unwrap_or_default();
        let value: f64 = std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(f64::INFINITY);
        if value.is_infinite() {
            self.at = start;
            return Err(self.syntax("the number is too large"));
        }
        if is_integer {
            writer.raw(text);
        } else {
            writer.raw(format_float(value).as_bytes());
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        if !self.peek_or_end()?.is_ascii_digit() {
            return Err(self.syntax("expected a digit"));
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    /// Reads a string as a value. One that stands in normal form already is copied as it is: nearly every string of a
    /// catalog that was written by a program.
    fn text(&mut self, writer: &mut Normalizer) -> Result<(), JsonError> {
        if let Some(literal) = self.normal_literal() {
            writer.raw(literal.text);
            self.at += literal.text.len();
            return Ok(());
        }
        self.string(|string| writer.string(string))
    }

    /// The string literal that begins here, if it is whole and in normal form.
    fn normal_literal(&self) -> Option<Literal<'a>> {
        let literal = self.bytes.get(self.at..)?;
        let mut length = 1;
        let mut is_escaped = false;
        loop {
            length += normal::plain_length::<b'"'>(literal.get(length..)?);
            match literal.get(length..)? {
                [b'"', ..] => break,
                [b'\\', b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't', ..] => length += 2,
                _ => return None,
            }
            is_escaped = true;
        }
        let text = literal.get(..=length)?;
        normal::is_normal_literal(text).then_some(Literal { text, is_escaped })
    }

    /// Reads a string, which begins here with its quote.
    fn string(&mut self, take: impl FnOnce(&str)) -> Result<(), JsonError> {
        self.at += 1;
        let start = self.at;
        let end = self.plain_end();
        if self.peek() == Some(b'"') {
            let plain = self.bytes.get(start..end).unwrap_or_default();
            take(&normal::lossy(plain));
            self.at += 1;
            return Ok(());
        }
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        text.extend_from_slice(self.bytes.get(start..end).unwrap_or_default());
        let result = self.rest_of_string(&mut text);
        if result.is_ok() {
            take(&normal::lossy(&text));
        }
        self.text = text;
        result
    }

    fn rest_of_string(&mut self, text: &mut Vec<u8>) -> Result<(), JsonError> {
        loop {
            match self.peek_or_end()? {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => self.escape(text)?,
                0..0x20 => return Err(self.syntax("control characters must be escaped")),
                _ => {
                    let start = self.at;
                    let end = self.plain_end();
                    text.extend_from_slice(self.bytes.get(start..end).unwrap_or_default());
                }
            }
        }
    }

    /// Moves to the next quote, backslash or control character and says where that is.
    fn plain_end(&mut self) -> usize {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = normal::plain_length::<b'"'>(rest);
        self.at += length;
        self.at
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), JsonError> {
        self.at += 1;
        let plain = match self.peek_or_end()? {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => return self.unicode_escape(text),
            _ => return Err(self.syntax("unknown escape in a string")),
        };
        self.at += 1;
        text.push(plain);
        Ok(())
    }

    /// `\u1234`, or two of them as a surrogate pair. Half a pair is U+FFFD.
    fn unicode_escape(&mut self, text: &mut Vec<u8>) -> Result<(), JsonError> {
        self.at += 1;
        let first = self.hex4()?;
        let mut character = char::from_u32(first);
        if (0xd800..0xdc00).contains(&first) {
            let after = self.at;
            if self.second_half()?
                && let second @ 0xdc00..0xe000 = self.hex4()?
            {
                character = char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00));
            } else {
                self.at = after;
            }
        }
        let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    /// Whether `\u` follows, which is then skipped.
    fn second_half(&mut self) -> Result<bool, JsonError> {
        for expected in *b"\\u" {
            if self.peek_or_end()? != expected {
                return Ok(false);
            }
            self.at += 1;
        }
        Ok(true)
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = char::from(self.peek_or_end()?).to_digit(16);
            let digit = digit.ok_or_else(|| self.syntax("expected four hexadecimal digits"))?;
            value = value * 16 + digit;
            self.at += 1;
        }
        Ok(value)
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn peek_or_end(&self) -> Result<u8, JsonError> {
        self.peek().ok_or(if self.is_whole {
            self.syntax("the document ends too early")
        } else {
            JsonError::Incomplete
        })
    }

    fn syntax(&self, problem: &'static str) -> JsonError {
        JsonError::Syntax {
            offset: self.at,
            problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(json: &[u8]) -> Result<(String, usize), JsonError> {
        let mut normalizer = Normalizer::default();
        let length = normalize(json, true, &mut normalizer)?;
        Ok((
            String::from_utf8(normalizer.text().to_vec()).unwrap(),
            length,
        ))
    }

    #[track_caller]
    fn check(json: &str, expected: &str) {
        let (text, length) = read(json.as_bytes()).unwrap();
        assert_eq!(
            (text.as_str(), length),
            (expected, json.len()),
            "for {json}"
        );
    }

    #[track_caller]
    fn refuse(json: &str, offset: usize, problem: &'static str) {
        let error = read(json.as_bytes()).unwrap_err();
        assert_eq!(error, JsonError::Syntax { offset, problem }, "for {json}");
    }

    #[test]
    fn values_are_written_in_normal_form() {
        check(
            r#" {"b":[1,{"x":null}],"a":{}}"#,
            r#"{"a":{},"b":[1,{"x":null}]}"#,
        );
        check(r#"{"a":{"x":1},"a":[],"\u0061":2}"#, r#"{"a":2}"#);
        check(r#""\u0041\/\b\f\n\r\t\"\\""#, r#""A/\b\f\n\r\t\"\\""#);
        check(r#""\ud83d\ude00""#, "\"😀\"");
        check(
            r#""\ud83d\ud83d\ude00\udc00x\ud83dx""#,
            "\"\u{fffd}😀\u{fffd}x\u{fffd}x\"",
        );
        check("[true, false ,null]", "[true,false,null]");
    }

    #[test]
    fn numbers_are_written_as_go_writes_them_and_integers_keep_their_digits() {
        for (json, expected) in [
            ("1.0", "1"),
            ("-0", "-0"),
            ("-0.0", "-0"),
            ("1e2", "100"),
            ("1E+21", "1e+21"),
            ("1e-7", "1e-7"),
            ("0.1e1", "1"),
            ("9007199254740993", "9007199254740993"),
            ("9007199254740993.0", "9007199254740992"),
            (
                "123456789012345678901234567890",
                "123456789012345678901234567890",
            ),
        ] {
            check(json, expected);
        }
        refuse("[1e999]", 1, "the number is too large");
    }

    proptest! {
        #[test]
        fn a_string_is_written_the_same_whatever_its_escapes(
            parts in prop::collection::vec(prop::sample::select(vec![
                "a", "catalog of operators", "\\n", "\\\"", "\\\\", "\\/", "\\b", "\\f", "\\t", "\\r", "\\u0041", "\\u001f",
                "\\u2028", "\u{2028}", "\u{2029}", "\u{2026}", "\u{e9}", "\u{7f}", "\u{1f600}",
            ]), 0..20)
        ) {
            let literal = format!("\"{}\"", parts.concat());
            let said: String = serde_json::from_str(&literal).unwrap();
            let mut expected = Vec::new();
            normal::write_string(&mut expected, &said);
            let (text, length) = read(literal.as_bytes()).unwrap();
            prop_assert_eq!(text.as_bytes(), expected);
            prop_assert_eq!(length, literal.len());
            let (again, _) = read(text.as_bytes()).unwrap();
            prop_assert_eq!(again, text);
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_replaced_one_by_one() {
        let (text, _) = read(b"\"a\xe2\x80z\xff\"").unwrap();
        assert_eq!(text, "\"a\u{fffd}\u{fffd}z\u{fffd}\"");
    }

    #[test]
    fn only_the_first_value_is_read() {
        assert_eq!(read(b"{}{}").unwrap(), ("{}".to_owned(), 2));
        assert_eq!(read(b"1 2").unwrap(), ("1".to_owned(), 1));
        assert_eq!(read(b" \n"), Err(JsonError::End));
    }

    #[test]
    fn errors_say_where_and_what_was_expected() {
        refuse("{'a':1}", 1, "expected a key in double quotes or `}`");
        refuse("{\"a\":1,}", 7, "expected a key in double quotes");
        refuse("{\"a\" 1}", 5, "expected `:` after a key");
        refuse("{\"a\":1 2}", 7, "expected `,` or `}`");
        refuse("[1 2]", 3, "expected `,` or `]`");
        refuse("[1,]", 3, "expected a value");
        refuse("[01]", 2, "expected `,` or `]`");
        refuse("[-]", 2, "expected a digit");
        refuse("[1.]", 3, "expected a digit");
        refuse("nul", 3, "the document ends too early");
        refuse("nulL", 3, "expected a value");
        refuse("\"a\nb\"", 2, "control characters must be escaped");
        refuse("\"\\x\"", 2, "unknown escape in a string");
        refuse("\"\\u00g0\"", 5, "expected four hexadecimal digits");
        refuse("{\"a\":", 5, "the document ends too early");
    }

    #[test]
    fn a_value_that_may_go_on_is_incomplete() {
        let json = r#"{"a":["\ud83d\ude00",-1.5e3,true]} "#.as_bytes();
        let mut normalizer = Normalizer::default();
        for end in 0..json.len() - 1 {
            assert_eq!(
                normalize(&json[..end], false, &mut normalizer),
                Err(JsonError::Incomplete),
                "after {end} bytes"
            );
        }
        assert_eq!(normalize(json, false, &mut normalizer), Ok(json.len() - 1));
        assert_eq!(
            normalize(b"12", false, &mut normalizer),
            Err(JsonError::Incomplete)
        );
    }

    #[test]
    fn nesting_is_limited_and_costs_no_stack() {
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        check(&deep(DEPTH_LIMIT), &deep(DEPTH_LIMIT));
        refuse(
            &deep(DEPTH_LIMIT + 1),
            DEPTH_LIMIT,
            "the document is nested too deeply",
        );
    }
}

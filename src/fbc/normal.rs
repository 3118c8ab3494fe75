//! The normal form of a blob: compact JSON with sorted keys, as Go's `encoding/json` writes a map.
//!
//! [`Normalizer`] is a writer: a parser calls it value by value, and it builds the text directly, without a
//! tree. An object's entries are put in order when it closes; of equal keys the last one stays. Nothing
//! recurses, so depth costs memory, not stack.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use serde_json::Value;

/// Writes one value in normal form.
#[derive(Debug, Default)]
pub(crate) struct Normalizer {
    text: Vec<u8>,
    open: Vec<Container>,
    /// The entries of all open objects, the innermost ones last.
    entries: Vec<Entry>,
    /// The entries of the object that closed last at the outermost level.
    root: Vec<Entry>,
    scratch: Vec<u8>,
}

#[derive(Debug)]
enum Container {
    Array { is_empty: bool },
    Object { start: usize, first_entry: usize },
}

/// One entry of an object in the text.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The key as written, with its quotes.
    key: Range<usize>,
    /// Where the value ends; it begins one byte after the key.
    end: usize,
    is_escaped: bool,
}

impl Normalizer {
    /// How many containers are open.
    pub(crate) fn depth(&self) -> usize {
        self.open.len()
    }

    /// The bytes written so far.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// The text between two positions that [`Normalizer::len`] gave while the same containers were open.
    pub(crate) fn slice(&self, range: Range<usize>) -> &[u8] {
        self.text.get(range).unwrap_or_default()
    }

    /// Whether the innermost container is an object.
    pub(crate) fn is_in_object(&self) -> bool {
        matches!(self.open.last(), Some(Container::Object { .. }))
    }

    /// Whether a comma will stand before the next value of the innermost container.
    pub(crate) fn needs_comma(&self) -> bool {
        matches!(self.open.last(), Some(Container::Array { is_empty: false }))
    }

    /// Forgets the value, keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.open.clear();
        self.entries.clear();
        self.root.clear();
    }

    /// Writes a value that is already in normal form: a number, `null`, `true`, or a whole container.
    pub(crate) fn raw(&mut self, text: &[u8]) {
        self.begin_value();
        self.text.extend_from_slice(text);
        self.end_value();
    }

    /// Writes a string.
    pub(crate) fn string(&mut self, text: &str) {
        self.begin_value();
        write_string(&mut self.text, text);
        self.end_value();
    }

    /// Begins a key of the innermost object; exactly one value follows.
    pub(crate) fn key(&mut self, key: &str) {
        self.write_key(|text| write_string(text, key));
    }

    /// The same with a key that is in normal form already, quotes included.
    pub(crate) fn raw_key(&mut self, key: &[u8], is_escaped: bool) {
        self.write_key(|text| {
            text.extend_from_slice(key);
            is_escaped
        });
    }

    fn write_key(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let Some(Container::Object { start, .. }) = self.open.last() else {
            return;
        };
        if self.text.len() > start.saturating_add(1) {
            self.text.push(b',');
        }
        let begin = self.text.len();
        let is_escaped = write(&mut self.text);
        let end = self.text.len();
        self.text.push(b':');
        self.entries.push(Entry {
            key: begin..end,
            end,
            is_escaped,
        });
    }

    /// Begins an object.
    pub(crate) fn begin_object(&mut self) {
        self.begin_value();
        self.open.push(Container::Object {
            start: self.text.len(),
            first_entry: self.entries.len(),
        });
        self.text.push(b'{');
    }

    /// Begins an array.
    pub(crate) fn begin_array(&mut self) {
        self.begin_value();
        self.open.push(Container::Array { is_empty: true });
        self.text.push(b'[');
    }

    /// Ends the innermost container.
    pub(crate) fn end(&mut self) {
        match self.open.pop() {
            Some(Container::Object { start, first_entry }) => self.close_object(start, first_entry),
            Some(Container::Array { .. }) => self.text.push(b']'),
            None => {}
        }
        self.end_value();
    }

    fn begin_value(&mut self) {
        if let Some(Container::Array { is_empty }) = self.open.last_mut()
            && !std::mem::replace(is_empty, false)
        {
            self.text.push(b',');
        }
    }

    fn end_value(&mut self) {
        let end = self.text.len();
        if let Some(Container::Object { first_entry, .. }) = self.open.last()
            && let Some(entries) = self.entries.get_mut(*first_entry..)
            && let Some(entry) = entries.last_mut()
        {
            entry.end = end;
        }
    }

    /// Sorts the entries of the object that begins at `start` and drops all but the last of equal keys.
    fn close_object(&mut self, start: usize, first_entry: usize) {
        let all = self.entries.get(first_entry..).unwrap_or_default();
        let mut entries = Vec::new();
        if is_sorted(&self.text, all) {
            if self.open.is_empty() {
                entries = all.to_vec();
            }
        } else {
            // The sort is stable: of equal keys the later one comes later, and only it is kept.
            let mut sorted = all.to_vec();
            sorted.sort_by(|a, b| compare(&self.text, a, b));
            for entry in sorted {
                match entries.last_mut() {
                    Some(last) if compare(&self.text, last, &entry).is_eq() => *last = entry,
                    _ => entries.push(entry),
                }
            }
            self.rewrite(start, &mut entries);
        }
        self.entries.truncate(first_entry);
        self.text.push(b'}');
        if self.open.is_empty() {
            self.root = entries;
        }
    }

    /// Writes the entries again in their new order.
    fn rewrite(&mut self, start: usize, entries: &mut [Entry]) {
        self.scratch.clear();
        self.scratch.push(b'{');
        for entry in entries {
            if self.scratch.len() > 1 {
                self.scratch.push(b',');
            }
            let begin = start + self.scratch.len();
            let moved = self.text.get(entry.key.start..entry.end);
            self.scratch.extend_from_slice(moved.unwrap_or_default());
            entry.end = start + self.scratch.len();
            entry.key = begin..begin + entry.key.len();
        }
        if start == 0 {
            std::mem::swap(&mut self.text, &mut self.scratch);
        } else {
            self.text.truncate(start);
            self.text.extend_from_slice(&self.scratch);
        }
    }

    /// The value in normal form, without a line break. Empty when nothing was written.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The entries of the value when it is an object: where key and value stand in the text, both in normal form.
    pub(crate) fn root_entries(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        self.root.iter().map(|entry| {
            (
                entry.key.clone(),
                entry.key.end.saturating_add(1)..entry.end,
            )
        })
    }
}

fn is_sorted(text: &[u8], entries: &[Entry]) -> bool {
    entries.is_sorted_by(|a, b| compare(text, a, b).is_lt())
}

/// Compares keys by the bytes of what they say, not of how that is escaped.
fn compare(text: &[u8], a: &Entry, b: &Entry) -> Ordering {
    let raw = |entry: &Entry| text.get(entry.key.clone()).unwrap_or_default();
    if a.is_escaped || b.is_escaped {
        decode_string(raw(a)).cmp(&decode_string(raw(b)))
    } else {
        let bare = |quoted: &'_ [u8]| quoted.len().saturating_sub(1);
        let (left, right) = (raw(a), raw(b));
        left.get(..bare(left)).cmp(&right.get(..bare(right)))
    }
}

/// The bytes as text; each byte that is not UTF-8 becomes U+FFFD, as in Go.
pub(crate) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(
            bytes
                .utf8_chunks()
                .flat_map(|chunk| {
                    let replaced = chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER);
                    chunk.valid().chars().chain(replaced)
                })
                .collect(),
        ),
    }
}

/// What a string in normal form says; empty for anything else.
pub(crate) fn decode_string(text: &[u8]) -> String {
    serde_json::from_slice(text).unwrap_or_default()
}

/// The value that a text in normal form stands for.
///
/// # Errors
/// When it is nested more than 128 deep.
pub(crate) fn decode(text: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice(text)
}

/// How many bytes come before the first that is a quote, a backslash, a control character, or `FURTHER`.
///
/// Most strings are short, so their first bytes are looked at word by word; in long ones, which hold most of the bytes, the
/// compiler looks at as many bytes at once as the processor can.
pub(crate) fn plain_length<const FURTHER: u8>(text: &[u8]) -> usize {
    const SHORT: usize = 16;
    const AT_ONCE: usize = 32;
    let (start, rest) = text.split_at_checked(SHORT).unwrap_or((text, &[]));
    let length = plain_length_by_word::<FURTHER>(start);
    if length < start.len() || rest.is_empty() {
        return length;
    }
    let is_plain = |chunk: &&[u8; AT_ONCE]| {
        let special = chunk.iter().fold(0, |found, byte| {
            found | u8::from(is_special(*byte, FURTHER))
        });
        special == 0
    };
    let (chunks, _) = rest.as_chunks::<AT_ONCE>();
    let skipped = AT_ONCE * chunks.iter().take_while(is_plain).count();
    length + skipped + plain_length_by_word::<FURTHER>(rest.get(skipped..).unwrap_or_default())
}

fn plain_length_by_word<const FURTHER: u8>(text: &[u8]) -> usize {
    let (words, rest) = text.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let found = special_bytes(u64::from_le_bytes(*word), FURTHER);
        if found != 0 {
            let before = usize::try_from(found.trailing_zeros() / 8);
            return 8 * at + before.unwrap_or_default();
        }
    }
    let special = rest.iter().position(|byte| is_special(*byte, FURTHER));
    text.len() - rest.len() + special.unwrap_or(rest.len())
}

#[expect(
    clippy::needless_bitwise_bool,
    reason = "without branches, many bytes are compared at once"
)]
fn is_special(byte: u8, further: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < 0x20) | (byte == further)
}

/// Marks the bytes of a word that are a quote, a backslash, a control character, or `further`, with their highest bit. Of
/// the marks above the lowest one some may be wrong: subtracting borrows upwards.
fn special_bytes(word: u64, further: u8) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHEST: u64 = u64::from_le_bytes([0x80; 8]);
    let is_control = word.wrapping_sub(ONES * 0x20) & !word & HIGHEST;
    let is = |byte: u8| {
        let difference = word ^ (ONES * u64::from(byte));
        difference.wrapping_sub(ONES) & !difference & HIGHEST
    };
    is_control | is(b'"') | is(b'\\') | is(further)
}

/// Whether a string literal stands in normal form already: valid UTF-8 without a bare U+2028 or U+2029. That its escapes
/// are the short ones is for whoever found its end to see.
pub(crate) fn is_normal_literal(literal: &[u8]) -> bool {
    literal.is_ascii()
        || std::str::from_utf8(literal).is_ok()
            && !memchr::memchr_iter(0xe2, literal)
                .any(|at| is_separator(literal.get(at..).unwrap_or_default()))
}

/// Whether U+2028 or U+2029 comes next.
fn is_separator(text: &[u8]) -> bool {
    matches!(text, [0xe2, 0x80, 0xa8 | 0xa9, ..])
}

/// Writes a string as Go's `encoding/json` does without HTML escaping; tells whether anything was escaped.
pub(crate) fn write_string(text: &mut Vec<u8>, string: &str) -> bool {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut rest = string.as_bytes();
    let mut is_escaped = false;
    text.push(b'"');
    loop {
        let length = plain_length::<0xe2>(rest);
        let (plain, special) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        text.extend_from_slice(plain);
        let Some((&byte, after)) = special.split_first() else {
            break;
        };
        rest = after;
        if byte == 0xe2 && !is_separator(special) {
            text.push(byte);
            continue;
        }
        is_escaped = true;
        match byte {
            b'"' | b'\\' => text.extend_from_slice(&[b'\\', byte]),
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\r' => text.extend_from_slice(b"\\r"),
            b'\t' => text.extend_from_slice(b"\\t"),
            0x08 => text.extend_from_slice(b"\\b"),
            0x0c => text.extend_from_slice(b"\\f"),
            0xe2 => {
                let is_first = special.get(2) == Some(&0xa8);
                text.extend_from_slice(if is_first { b"\\u2028" } else { b"\\u2029" });
                rest = special.get(3..).unwrap_or_default();
            }
            _ => {
                text.extend_from_slice(b"\\u00");
                text.extend(HEX.get(usize::from(byte >> 4)));
                text.extend(HEX.get(usize::from(byte & 15)));
            }
        }
    }
    text.push(b'"');
    is_escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Normalizer)) -> String {
        let mut normalizer = Normalizer::default();
        write(&mut normalizer);
        String::from_utf8(normalizer.text().to_vec()).unwrap()
    }

    #[test]
    fn keys_are_sorted_by_what_they_say_and_the_last_of_equals_stays() {
        let text = written(|w| {
            w.begin_object();
            w.key("b");
            w.begin_object();
            w.key("z");
            w.raw(b"1");
            w.key("\n");
            w.raw(b"2");
            w.end();
            w.key("a");
            w.begin_array();
            w.string("x");
            w.begin_array();
            w.end();
            w.end();
            w.key("b");
            w.raw(b"null");
            w.key("\u{1}");
            w.begin_object();
            w.end();
            w.end();
        });
        assert_eq!(text, r#"{"\u0001":{},"a":["x",[]],"b":null}"#);
    }

    #[test]
    fn root_entries_are_those_of_the_outermost_object() {
        let mut w = Normalizer::default();
        w.begin_object();
        w.key("schema");
        w.string("s");
        w.key("name");
        w.begin_object();
        w.key("inner");
        w.raw(b"1");
        w.end();
        w.end();
        let entries: Vec<_> = w
            .root_entries()
            .map(|(key, value)| {
                (
                    decode_string(w.slice(key)),
                    String::from_utf8_lossy(w.slice(value)).into_owned(),
                )
            })
            .collect();
        assert_eq!(
            entries,
            [
                ("name".to_owned(), "{\"inner\":1}".to_owned()),
                ("schema".to_owned(), "\"s\"".to_owned())
            ]
        );
    }

    #[test]
    fn strings_are_escaped_as_go_escapes_them() {
        let text =
            written(|w| w.string("<&>\"\\\u{8}\u{c}\n\r\t\u{1f}\u{7f}\u{2028}\u{2029}ä\u{a8}"));
        assert_eq!(
            text,
            "\"<&>\\\"\\\\\\b\\f\\n\\r\\t\\u001f\u{7f}\\u2028\\u2029ä\u{a8}\""
        );
    }

    #[test]
    fn special_bytes_are_found_wherever_they_stand() {
        for length in 0..20 {
            let plain = vec![b'a'; length];
            assert_eq!(plain_length::<0xe2>(&plain), length);
            for at in 0..length {
                for byte in 0..=255_u8 {
                    let mut text = plain.clone();
                    text[at] = byte;
                    let is_special = matches!(byte, b'"' | b'\\' | 0xe2 | 0..0x20);
                    let expected = if is_special { at } else { length };
                    assert_eq!(
                        plain_length::<0xe2>(&text),
                        expected,
                        "{byte:#x} at {at} of {length}"
                    );
                    // A mark that borrowing put above another one does not count.
                    text[at..].fill(byte);
                    assert_eq!(
                        plain_length::<0xe2>(&text),
                        expected,
                        "{byte:#x} from {at} of {length}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_special_is_found_wherever_it_stands() {
        for length in 0..120 {
            for special in [b'"', b'\\', b'\n', 0, 0x1f, 0xe2] {
                let mut text = vec![b' '; length];
                text.extend([special, b'a', b'"']);
                assert_eq!(plain_length::<0xe2>(&text), length);
                let later = if special == 0xe2 { length + 2 } else { length };
                assert_eq!(plain_length::<b'"'>(&text), later);
            }
            let plain: Vec<u8> = (0x80..0xe2).cycle().take(length).collect();
            assert_eq!(plain_length::<b'"'>(&plain), length);
        }
    }
}

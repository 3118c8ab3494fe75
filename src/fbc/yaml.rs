//! YAML as Go reads it (`sigs.k8s.io/yaml`): YAML 1.1 scalars, merge keys, aliases with a guard, the last of
//! equal keys, keys that are not text turned into text.
//!
//! The scanner and the parser below read YAML 1.1 as libyaml does, since Go's reader is a port of it; readers
//! of YAML 1.2 differ in what they refuse and in what tabs, line breaks and escapes mean. What the events
//! mean is decided here and in [`super::scalar`]. The result is the document in normal form
//! ([`super::normal`]), or a [`Value`].

mod collections;
mod composer;
mod cursor;
mod parser;
mod scalars;
mod scanner;

use serde_json::Value;

use self::composer::Composer;

use super::document::{DocumentError, Position};
use super::normal::{self, Normalizer};
use super::stream::{Documents, LIMIT_BYTES, StreamError};

/// The namespace of YAML's own tags.
const CORE_NAMESPACE: &str = "tag:yaml.org,2002:";

/// Reads one YAML document. What follows a document end marker is ignored.
///
/// An empty document is [`Value::Null`]. Integers beyond 64 bits become floats in a [`Value`].
///
/// # Errors
/// When the text is not YAML, or means something that JSON cannot say.
pub fn value(bytes: &[u8]) -> Result<Value, DocumentError> {
    let mut normalizer = Normalizer::default();
    normalize(bytes, 1, &mut normalizer)?;
    let start = Position { line: 1, column: 1 };
    to_value(&normalizer).map_err(|problem| DocumentError::new(start, problem))
}

/// The value that was normalised.
fn to_value(normalizer: &Normalizer) -> Result<Value, &'static str> {
    if normalizer.len() == 0 {
        return Ok(Value::Null);
    }
    normal::decode(normalizer.text()).map_err(|_too_deep| "the document is nested too deeply")
}

/// Writes one YAML document in normal form; nothing is written for one without content.
///
/// `first_line` is the number of its first line in the file, for errors.
///
/// # Errors
/// As [`value`].
pub(crate) fn normalize(
    bytes: &[u8],
    first_line: usize,
    normalizer: &mut Normalizer,
) -> Result<(), DocumentError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let position = Position::of(bytes, error.valid_up_to(), first_line);
        DocumentError::new(position, "the text is not valid UTF-8")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some(offset) = control_character(text) {
        let position = Position::of(text.as_bytes(), offset, first_line);
        return Err(DocumentError::new(
            position,
            "control characters are not allowed",
        ));
    }
    Composer::compose(text, first_line, normalizer)
}

/// Where a character stands that YAML does not allow.
fn control_character(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().position(|(at, byte)| match byte {
        b'\t' | b'\n' | b'\r' => false,
        0..0x20 | 0x7f => true,
        // U+0080 to U+009F but for the line break U+0085.
        0xc2 => matches!(bytes.get(at + 1), Some(0x80..=0x84 | 0x86..=0x9f)),
        // U+FFFE and U+FFFF.
        0xef => matches!(
            (bytes.get(at + 1), bytes.get(at + 2)),
            (Some(0xbf), Some(0xbe | 0xbf))
        ),
        _ => false,
    })
}

/// The documents of a YAML text, as Go's `YAMLReader` tells them apart: at lines that begin with `---`.
#[derive(Debug, Clone)]
pub(crate) struct Chunk<'a> {
    /// The document's text, a leading separator line included.
    pub(crate) bytes: &'a [u8],
    /// How many bytes it takes, the separator line after it included.
    pub(crate) consumed: usize,
}

/// The first document of `bytes`, absent when nothing follows. `is_whole` says that no bytes follow `bytes`;
/// otherwise a document that might go on beyond them is [`ChunkError::Incomplete`].
pub(crate) fn first_chunk(bytes: &[u8], is_whole: bool) -> Result<Option<Chunk<'_>>, ChunkError> {
    let mut at = 0;
    while at < bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        let length = match memchr::memchr(b'\n', rest) {
            Some(newline) => newline + 1,
            None if is_whole => rest.len(),
            None => return Err(ChunkError::Incomplete),
        };
        if let Some(after) = rest
            .get(..length)
            .and_then(|line| line.strip_prefix(b"---"))
        {
            let after = String::from_utf8_lossy(after);
            let comment = after.trim_start();
            if !(comment.is_empty() || comment.starts_with('#')) {
                return Err(ChunkError::Separator { offset: at });
            }
            if at > 0 {
                return Ok(Some(Chunk {
                    bytes: bytes.get(..at).unwrap_or_default(),
                    consumed: at + length,
                }));
            }
        }
        at += length;
    }
    if !is_whole {
        return Err(ChunkError::Incomplete);
    }
    let chunk = Chunk {
        bytes,
        consumed: bytes.len(),
    };
    Ok(Some(chunk).filter(|chunk| !chunk.bytes.is_empty()))
}

/// Why there is no first document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkError {
    /// More bytes are needed.
    Incomplete,
    /// Something other than a comment stands behind `---`.
    Separator { offset: usize },
}

/// The problem with a separator line.
pub(crate) const SEPARATOR_PROBLEM: &str =
    "only a comment may follow the document separator `---` on its line";

/// The documents of `bytes`, YAML or JSON, in order; it ends after the first error.
///
/// Documents without content are [`Value::Null`]. No document may be larger than 16 MiB.
pub fn documents(bytes: &[u8]) -> impl Iterator<Item = Result<Value, StreamError>> {
    let mut documents = Documents::new(bytes, LIMIT_BYTES);
    std::iter::from_fn(move || {
        documents
            .next(|normalizer, _| to_value(normalizer))
            .transpose()
    })
}

#[cfg(test)]
mod tests;

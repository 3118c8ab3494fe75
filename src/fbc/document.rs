//! Where and why a document cannot be read. Never what stands in it.

use std::borrow::Cow;

use crate::error::{Classify, Disposition};

/// The largest document that is read, in bytes. A whole document is held in memory; the biggest real ones
/// (bundles that embed their manifests) are below 4 MiB.
pub const DOCUMENT_LIMIT_BYTES: usize = 16 << 20;

/// How large a document may become when its aliases are expanded and its characters are escaped, in bytes.
pub const EXPANDED_LIMIT_BYTES: usize = 4 * DOCUMENT_LIMIT_BYTES;

/// How deep arrays and objects may be nested, as in Go's decoders.
pub(crate) const DEPTH_LIMIT: usize = 10_000;

/// A place in a file: line and column, both from 1. The column counts characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Position {
    /// The place of byte `offset` of `bytes`, whose first line has the number `first_line`.
    pub(crate) fn of(bytes: &[u8], offset: usize, first_line: usize) -> Self {
        let before = bytes.get(..offset).unwrap_or(bytes);
        let line_start = before
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |newline| newline + 1);
        let on_line = before.get(line_start..).unwrap_or_default();
        Self {
            line: first_line + count_lines(before),
            column: 1 + on_line.iter().filter(|byte| **byte & 0xc0 != 0x80).count(),
        }
    }
}

/// The number of line breaks in `bytes`.
pub(crate) fn count_lines(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

/// A document that cannot be read. The text says where and what was expected, and quotes nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {}, column {}: {problem}", position.line, position.column)]
pub struct DocumentError {
    /// Where.
    pub position: Position,
    /// What was expected or is not allowed.
    pub problem: Cow<'static, str>,
}

impl DocumentError {
    pub(crate) fn new(position: Position, problem: impl Into<Cow<'static, str>>) -> Self {
        Self {
            position,
            problem: problem.into(),
        }
    }
}

impl Classify for DocumentError {
    /// Content can be replaced under the same tag; who knows that it is pinned by digest decides otherwise.
    fn disposition(&self) -> Disposition {
        Disposition::Retry
    }
}

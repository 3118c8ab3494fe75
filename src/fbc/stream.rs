//! A file as a stream of documents, JSON or YAML, in bounded memory.
//!
//! As Go's `YAMLOrJSONDecoder`: a file that begins with `{` is read as JSON values, one after the other. If
//! the first or the second cannot be read, what is left is tried as YAML, so that a trailing comma or a
//! `---` between JSON objects does no harm. Once switched to YAML there is no way back.

use std::io::Read;

use serde_json::Value;

use super::document::{DOCUMENT_LIMIT_BYTES, DocumentError, Position, count_lines};
use super::json::{self, JsonError};
use super::normal::Normalizer;
use super::yaml::chunk::{self, ChunkError};
use super::yaml::{self, to_value};

/// How much of a file decides whether it is JSON, as in the reference.
const GUESS_BYTES: usize = 4096;

/// How much is read at once. Documents are mostly smaller, so few are read twice.
const READ_BYTES: usize = 256 << 10;

/// The limit that holds where nobody says otherwise.
pub(crate) const LIMIT_BYTES: usize = DOCUMENT_LIMIT_BYTES;

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The bytes do not come.
    #[error("cannot read the file")]
    Read(#[source] std::io::Error),
    /// A document is no JSON and no YAML, or not what the caller wants.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// A document does not fit into memory.
    #[error("line {line}: the document is larger than {limit_bytes} bytes")]
    TooLarge {
        /// Where the document begins.
        line: usize,
        /// The limit.
        limit_bytes: usize,
    },
}

impl StreamError {
    /// The line of the mistake, if it has one.
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::Read(_) => None,
            Self::Document(error) => Some(error.position.line),
            Self::TooLarge { line, .. } => Some(*line),
        }
    }
}

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

/// [`documents`] as JSON in normal form, of which the larger ones need not be a tree in memory; those without content
/// are empty.
pub(crate) fn texts(bytes: &[u8]) -> impl Iterator<Item = Result<Vec<u8>, StreamError>> {
    let mut documents = Documents::new(bytes, LIMIT_BYTES);
    std::iter::from_fn(move || {
        documents
            .next(|normalizer, _| Ok(normalizer.text().to_vec()))
            .transpose()
    })
}

/// The documents of one file, one after the other.
#[derive(Debug)]
pub(crate) struct Documents<R> {
    input: Window<R>,
    format: Format,
    /// How many documents were read.
    count: usize,
    limit_bytes: usize,
    normalizer: Normalizer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Unknown,
    Json,
    Yaml,
    /// The end, or an error, was reached.
    Done,
}

impl<R: Read> Documents<R> {
    /// The documents of `input`, none larger than `limit_bytes`.
    pub(crate) fn new(input: R, limit_bytes: usize) -> Self {
        Self {
            input: Window::new(input),
            format: Format::Unknown,
            count: 0,
            limit_bytes,
            normalizer: Normalizer::default(),
        }
    }

    /// The next document, as `accept` makes it of the normal form (empty for a document without content) and
    /// the line of its first content; `None` at the end.
    ///
    /// # Errors
    /// A [`StreamError`], after which there are no further documents. `accept` refuses by saying why.
    pub(crate) fn next<T>(
        &mut self,
        mut accept: impl FnMut(&Normalizer, usize) -> Result<T, &'static str>,
    ) -> Result<Option<T>, StreamError> {
        if self.format == Format::Unknown {
            self.format = self.guess()?;
        }
        let result = match self.format {
            Format::Json => self.next_json_or_yaml(&mut accept),
            Format::Yaml => self.next_yaml(&mut accept),
            Format::Unknown | Format::Done => Ok(None),
        };
        match result {
            Ok(Some(_)) => self.count += 1,
            Ok(None) | Err(_) => self.format = Format::Done,
        }
        result
    }

    fn guess(&mut self) -> Result<Format, StreamError> {
        while self.input.bytes().len() < GUESS_BYTES && self.input.read_more()? {}
        let head = self.input.bytes();
        let head = head.get(..GUESS_BYTES).unwrap_or(head);
        let text = String::from_utf8_lossy(head);
        Ok(if text.trim_start().starts_with('{') {
            Format::Json
        } else {
            Format::Yaml
        })
    }

    fn next_json_or_yaml<T>(
        &mut self,
        accept: &mut impl FnMut(&Normalizer, usize) -> Result<T, &'static str>,
    ) -> Result<Option<T>, StreamError> {
        match self.next_json(accept) {
            Err(StreamError::Document(error)) if self.count <= 1 => {
                self.skip_to_next_line();
                self.format = Format::Yaml;
                // When it is no YAML either, the first error says more.
                self.next_yaml(accept)
                    .map_err(|yaml_error| match yaml_error {
                        StreamError::Document(_) => StreamError::Document(error),
                        other => other,
                    })
            }
            result => result,
        }
    }

    fn next_json<T>(
        &mut self,
        accept: &mut impl FnMut(&Normalizer, usize) -> Result<T, &'static str>,
    ) -> Result<Option<T>, StreamError> {
        loop {
            let window = self.input.bytes();
            match json::normalize(window, self.input.is_whole, &mut self.normalizer) {
                Ok(length) => {
                    self.refuse_above_limit(length)?;
                    let document = self.input.bytes().get(..length).unwrap_or_default();
                    let start = document.len() - document.trim_ascii_start().len();
                    let position = Position::of(document, start, self.input.line);
                    let accepted = self.accept(accept, position)?;
                    self.input.consume(length);
                    return Ok(Some(accepted));
                }
                Err(JsonError::End) => return Ok(None),
                Err(JsonError::Incomplete) => {
                    self.refuse_above_limit(self.input.bytes().len())?;
                    self.input.read_more()?;
                }
                Err(JsonError::Syntax { offset, problem }) => {
                    let position = Position::of(window, offset, self.input.line);
                    return Err(DocumentError::new(position, problem).into());
                }
            }
        }
    }

    fn next_yaml<T>(
        &mut self,
        accept: &mut impl FnMut(&Normalizer, usize) -> Result<T, &'static str>,
    ) -> Result<Option<T>, StreamError> {
        let consumed = loop {
            let window = self.input.bytes();
            match chunk::first_chunk(window, self.input.is_whole) {
                Ok(None) => return Ok(None),
                Ok(Some(chunk)) => {
                    self.refuse_above_limit(chunk.bytes.len())?;
                    yaml::normalize(chunk.bytes, self.input.line, &mut self.normalizer)?;
                    let position = content_position(chunk.bytes, self.input.line);
                    let consumed = chunk.consumed;
                    let accepted = self.accept(accept, position)?;
                    self.input.consume(consumed);
                    break accepted;
                }
                Err(ChunkError::Incomplete) => {
                    self.refuse_above_limit(window.len())?;
                    self.input.read_more()?;
                }
                Err(ChunkError::Separator { offset }) => {
                    let position = Position::of(window, offset, self.input.line);
                    return Err(DocumentError::new(position, chunk::SEPARATOR_PROBLEM).into());
                }
            }
        };
        Ok(Some(consumed))
    }

    fn accept<T>(
        &mut self,
        accept: &mut impl FnMut(&Normalizer, usize) -> Result<T, &'static str>,
        position: Position,
    ) -> Result<T, StreamError> {
        if self.normalizer.text() == b"null" {
            self.normalizer.clear();
        }
        accept(&self.normalizer, position.line)
            .map_err(|problem| DocumentError::new(position, problem).into())
    }

    fn refuse_above_limit(&self, length: usize) -> Result<(), StreamError> {
        if length <= self.limit_bytes {
            return Ok(());
        }
        Err(StreamError::TooLarge {
            line: self.input.line,
            limit_bytes: self.limit_bytes,
        })
    }

    /// Skips white space up to the next character or to the end of the line.
    fn skip_to_next_line(&mut self) {
        let window = self.input.bytes();
        let text = String::from_utf8_lossy(window.get(..GUESS_BYTES).unwrap_or(window));
        let mut length = 0;
        for character in text.chars().take_while(|c| c.is_whitespace()) {
            length += character.len_utf8();
            if character == '\n' {
                break;
            }
        }
        self.input.consume(length);
    }
}

/// Where the content of a YAML document begins: behind separator, comments and empty lines.
fn content_position(chunk: &[u8], first_line: usize) -> Position {
    let mut offset = 0;
    for line in chunk.split_inclusive(|byte| *byte == b'\n') {
        let content = line.trim_ascii();
        if !(content.is_empty() || content.starts_with(b"#") || line.starts_with(b"---")) {
            break;
        }
        offset += line.len();
    }
    Position::of(chunk, offset, first_line)
}

/// The part of a file that is in memory.
#[derive(Debug)]
struct Window<R> {
    input: R,
    buffer: Vec<u8>,
    consumed: usize,
    /// Nothing follows the buffer.
    is_whole: bool,
    /// The number of the line on which the window begins.
    line: usize,
}

impl<R: Read> Window<R> {
    fn new(input: R) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            consumed: 0,
            is_whole: false,
            line: 1,
        }
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.get(self.consumed..).unwrap_or_default()
    }

    fn consume(&mut self, length: usize) {
        let consumed = self.bytes().get(..length).unwrap_or_default();
        self.line += count_lines(consumed);
        self.consumed += length;
    }

    /// Reads on, as much again as there is; false at the end.
    fn read_more(&mut self) -> Result<bool, StreamError> {
        self.buffer.drain(..self.consumed.min(self.buffer.len()));
        self.consumed = 0;
        let wanted = self.buffer.len().max(READ_BYTES);
        let before = self.buffer.len();
        let mut part = (&mut self.input).take(u64::try_from(wanted).unwrap_or(u64::MAX));
        part.read_to_end(&mut self.buffer)
            .map_err(StreamError::Read)?;
        let grown = self.buffer.len() - before;
        self.is_whole = grown < wanted;
        Ok(grown > 0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_told_apart_by_separator_lines() {
        let all = |text: &str| -> Vec<Result<Value, String>> {
            documents(text.as_bytes())
                .map(|document| document.map_err(|error| error.to_string()))
                .collect()
        };
        assert_eq!(all(""), []);
        assert_eq!(
            all("a: 1\n---\nb: 2\n"),
            [Ok(json!({"a": 1})), Ok(json!({"b": 2}))]
        );
        assert_eq!(
            all("---\na: 1\n--- # c\n---  \n---\nb: 2\n---"),
            [Ok(json!({"a": 1})), Ok(Value::Null), Ok(json!({"b": 2})),]
        );
        assert_eq!(
            all("v: |\n  a\r\n  b\r\n---\r\nb: 2\r\n"),
            [Ok(json!({"v": "a\nb\n"})), Ok(json!({"b": 2}))]
        );
        assert_eq!(
            all("a: 1\n--- {b: 2}\nc: 3\n"),
            [Err(format!(
                "line 2, column 1: {}",
                chunk::SEPARATOR_PROBLEM
            ))]
        );
        assert_eq!(
            all("a: 1\n---\n\nb: [\n---\nc: 3\n"),
            [
                Ok(json!({"a": 1})),
                Err("line 4, column 4: unclosed bracket '['".to_owned()),
            ]
        );
    }
}

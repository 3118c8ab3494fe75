//! YAML as Go reads it (`sigs.k8s.io/yaml`): YAML 1.1 scalars, merge keys, aliases with a guard, the last of
//! equal keys, keys that are not text turned into text.
//!
//! The events come from `granit-parser`; what they mean is decided here and in [`super::scalar`]. The result
//! is the document in normal form ([`super::normal`]), or a [`Value`].

use std::collections::BTreeMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, Tag};
use serde_json::Value;

use super::document::{DEPTH_LIMIT, DocumentError, EXPANDED_LIMIT_BYTES, Position};
use super::normal::{self, Normalizer};
use super::parts;
use super::scalar::{self, Scalar, ScalarTag};

pub(crate) mod chunk;

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
pub(super) fn to_value(normalizer: &Normalizer) -> Result<Value, &'static str> {
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
    normalizer.clear();
    let mut composer = Composer {
        first_line,
        keeps_anchors: text.contains('*'),
        writer: std::mem::take(normalizer),
        frames: Vec::new(),
        merges: Vec::new(),
        anchors: BTreeMap::new(),
        anchored_bytes: 0,
        decoded: 1,
        aliased: 0,
    };
    let result = composer.run(text);
    *normalizer = composer.writer;
    result
}

/// A container that is open.
#[derive(Debug)]
struct Frame {
    kind: FrameKind,
    anchor: usize,
    /// Where its text begins.
    start: usize,
    /// The count of decoded nodes when it began.
    decoded: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameKind {
    Sequence,
    /// A mapping; what comes next in it.
    Mapping(Next),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Key,
    Value,
    /// The value of a merge key: its entries become entries of this mapping.
    Merged,
}

/// A merge value that is being written apart.
#[derive(Debug)]
struct Merge {
    outer: Normalizer,
    /// How many frames were open outside.
    depth: usize,
    is_sequence: bool,
}

/// A node that an alias may name.
#[derive(Debug)]
struct Anchored {
    text: Vec<u8>,
    /// What it is as a key; containers and null cannot be one.
    key: Option<String>,
    is_mapping: bool,
    /// How many nodes it stands for, aliases inside expanded.
    weight: usize,
}

#[derive(Debug)]
struct Composer {
    first_line: usize,
    keeps_anchors: bool,
    writer: Normalizer,
    frames: Vec<Frame>,
    merges: Vec<Merge>,
    anchors: BTreeMap<usize, Anchored>,
    anchored_bytes: usize,
    /// How many nodes were read, aliases expanded.
    decoded: usize,
    /// How many of them came through aliases.
    aliased: usize,
}

impl Composer {
    fn run(&mut self, text: &str) -> Result<(), DocumentError> {
        let options = granit_parser::options! {
            emit_comments: false,
            flow_nesting_limit: DEPTH_LIMIT,
            block_nesting_limit: DEPTH_LIMIT,
        };
        let mut parser = Parser::new_from_str_with_options(text, options);
        while let Some(next) = parser.next_event() {
            let (event, span) = next.map_err(|error| self.syntax(&error))?;
            if matches!(event, Event::DocumentEnd | Event::StreamEnd) {
                break;
            }
            self.take(event, span)?;
            if self.writer.len() > EXPANDED_LIMIT_BYTES {
                return Err(self.error(span, "the document is too large with its aliases expanded"));
            }
        }
        if self.writer.text() == b"null" {
            self.writer.clear();
        }
        Ok(())
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), DocumentError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tag = scalar_tag(style, tag.as_deref());
                self.scalar(&text, &tag, anchor, span)
            }
            Event::SequenceStart(_, anchor, _) => self.begin(FrameKind::Sequence, anchor, span),
            Event::MappingStart(_, anchor, _) => {
                self.begin(FrameKind::Mapping(Next::Key), anchor, span)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            Event::Alias(anchor) => self.alias(anchor, span),
            _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        tag: &Tagged<'_>,
        anchor: usize,
        span: Span,
    ) -> Result<(), DocumentError> {
        if self.expects(Next::Key) && text == "<<" && tag.may_merge {
            self.expect(Next::Merged);
            return Ok(());
        }
        self.decoded += 1;
        let scalar = scalar::resolve(tag.resolved(), text)
            .map_err(|scalar::Misfit| self.error(span, "the value does not fit its tag"))?;
        if self.keeps_anchors && anchor != 0 {
            let kept = Anchored {
                text: json_of(&scalar, text).unwrap_or_default(),
                key: key_of(&scalar, text),
                is_mapping: false,
                weight: 1,
            };
            self.keep(anchor, kept, span)?;
        }
        if self.expects(Next::Key) {
            let key =
                key_of(&scalar, text).ok_or_else(|| self.error(span, "a key must not be null"))?;
            self.writer.key(&key);
            self.expect(Next::Value);
            return Ok(());
        }
        self.refuse_unless_mapping(false, span)?;
        match scalar {
            Scalar::Text => self.writer.string(text),
            scalar => {
                let json = json_of(&scalar, text)
                    .ok_or_else(|| self.error(span, "the number must be finite"))?;
                self.writer.raw(&json);
            }
        }
        self.after_value();
        Ok(())
    }

    fn begin(&mut self, kind: FrameKind, anchor: usize, span: Span) -> Result<(), DocumentError> {
        if self.expects(Next::Key) {
            return Err(self.error(span, "a key must not be a sequence or a mapping"));
        }
        let decoded = self.decoded;
        let is_sequence = kind == FrameKind::Sequence;
        if self.expects(Next::Merged) {
            self.merges.push(Merge {
                outer: std::mem::take(&mut self.writer),
                depth: self.frames.len(),
                is_sequence,
            });
        } else {
            self.refuse_unless_mapping(!is_sequence, span)?;
        }
        if !(is_sequence && self.is_merge_top()) {
            self.decoded += 1;
        }
        let start = self.value_start();
        match kind {
            FrameKind::Sequence => self.writer.begin_array(),
            FrameKind::Mapping(_) => self.writer.begin_object(),
        }
        self.frames.push(Frame {
            kind,
            anchor,
            start,
            decoded,
        });
        Ok(())
    }

    fn end(&mut self, span: Span) -> Result<(), DocumentError> {
        let Some(frame) = self.frames.pop() else {
            return Ok(());
        };
        self.writer.end();
        if self.keeps_anchors && frame.anchor != 0 {
            let kept = Anchored {
                text: self.writer.slice(frame.start..self.writer.len()).to_vec(),
                key: None,
                is_mapping: frame.kind != FrameKind::Sequence,
                weight: self.decoded - frame.decoded,
            };
            self.keep(frame.anchor, kept, span)?;
        }
        if self.is_merge_top() {
            self.merge_written();
        }
        self.after_value();
        Ok(())
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<(), DocumentError> {
        let Some(target) = self.anchors.remove(&anchor) else {
            return Err(self.error(span, "an anchor's value must not contain itself"));
        };
        self.decoded = self.decoded.saturating_add(1 + target.weight);
        self.aliased = self.aliased.saturating_add(target.weight);
        let result = self.expand(&target, span);
        self.anchors.insert(anchor, target);
        result
    }

    fn expand(&mut self, target: &Anchored, span: Span) -> Result<(), DocumentError> {
        if self.is_excessive() {
            return Err(self.error(span, "the document uses aliases excessively"));
        }
        if self.expects(Next::Key) {
            let key = target.key.as_deref();
            let key = key.ok_or_else(|| self.error(span, "a key must be a scalar and not null"))?;
            self.writer.key(key);
            self.expect(Next::Value);
            return Ok(());
        }
        self.refuse_unless_mapping(target.is_mapping, span)?;
        if self.expects(Next::Merged) {
            merge_entries(&mut self.writer, &target.text);
        } else if target.text.is_empty() {
            return Err(self.error(span, "the number must be finite"));
        } else {
            self.writer.raw(&target.text);
        }
        self.after_value();
        Ok(())
    }

    /// The guard of Go's YAML reader: small documents may consist of aliases, large ones may not.
    fn is_excessive(&self) -> bool {
        const LOW: f64 = 400_000.0;
        const HIGH: f64 = 4_000_000.0;
        #[expect(clippy::cast_precision_loss, reason = "a ratio needs no more")]
        let (decoded, aliased) = (self.decoded as f64, self.aliased as f64);
        let allowed = 0.99 - 0.89 * ((decoded - LOW) / (HIGH - LOW)).clamp(0.0, 1.0);
        self.aliased > 100 && self.decoded > 1000 && aliased / decoded > allowed
    }

    /// The value of a merge key is complete: its entries go into the mapping around it.
    fn merge_written(&mut self) {
        let Some(merge) = self.merges.pop() else {
            return;
        };
        let merged = std::mem::replace(&mut self.writer, merge.outer);
        if merge.is_sequence {
            // Earlier mappings take precedence, so they are written last.
            for element in parts::elements(merged.text()).into_iter().rev() {
                merge_entries(&mut self.writer, element);
            }
        } else {
            merge_entries(&mut self.writer, merged.text());
        }
    }

    /// Whether the innermost open container is the value of a merge key, or such a value just closed.
    fn is_merge_top(&self) -> bool {
        self.merges
            .last()
            .is_some_and(|merge| merge.depth == self.frames.len())
    }

    /// Only mappings can be merged: as the value of a merge key, or as an element of its sequence.
    fn refuse_unless_mapping(&self, is_mapping: bool, span: Span) -> Result<(), DocumentError> {
        let in_merge_sequence = self
            .merges
            .last()
            .is_some_and(|merge| merge.is_sequence && merge.depth + 1 == self.frames.len());
        if !is_mapping && (in_merge_sequence || self.expects(Next::Merged)) {
            let problem = "a merge key needs a mapping or a sequence of mappings as its value";
            return Err(self.error(span, problem));
        }
        Ok(())
    }

    /// Where the text of the next value will begin: a comma may come before it.
    fn value_start(&self) -> usize {
        self.writer.len() + usize::from(self.writer.needs_comma())
    }

    fn expects(&self, next: Next) -> bool {
        self.frames
            .last()
            .is_some_and(|frame| frame.kind == FrameKind::Mapping(next))
    }

    fn expect(&mut self, next: Next) {
        if let Some(frame) = self.frames.last_mut() {
            frame.kind = FrameKind::Mapping(next);
        }
    }

    fn after_value(&mut self) {
        if self.expects(Next::Value) || self.expects(Next::Merged) {
            self.expect(Next::Key);
        }
    }

    fn keep(&mut self, anchor: usize, kept: Anchored, span: Span) -> Result<(), DocumentError> {
        self.anchored_bytes += kept.text.len();
        if self.anchored_bytes > EXPANDED_LIMIT_BYTES {
            return Err(self.error(span, "the document has too much content below anchors"));
        }
        self.anchors.insert(anchor, kept);
        Ok(())
    }

    fn error(&self, span: Span, problem: &'static str) -> DocumentError {
        DocumentError::new(self.position(span.start.line(), span.start.col()), problem)
    }

    fn syntax(&self, error: &ScanError) -> DocumentError {
        let position = self.position(error.marker().line(), error.marker().col());
        match error.kind() {
            ErrorKind::UnexpectedCharacter { .. } => {
                DocumentError::new(position, "unexpected character")
            }
            kind => DocumentError::new(position, kind.to_string()),
        }
    }

    fn position(&self, line: usize, column: usize) -> Position {
        Position {
            line: self.first_line + line.saturating_sub(1),
            column: column + 1,
        }
    }
}

/// Writes the entries of an object in normal form as entries of the innermost open object.
fn merge_entries(writer: &mut Normalizer, object: &[u8]) {
    for (key, value) in parts::entries(object) {
        writer.key(&normal::decode_string(key));
        writer.raw(value);
    }
}

/// The tag of a scalar, with what it says about merging.
#[derive(Debug, Clone)]
struct Tagged<'a> {
    kind: TagKind<'a>,
    may_merge: bool,
}

#[derive(Debug, Clone)]
enum TagKind<'a> {
    Plain,
    Quoted,
    Core(std::borrow::Cow<'a, str>),
    Foreign,
}

impl Tagged<'_> {
    fn resolved(&self) -> ScalarTag<'_> {
        match &self.kind {
            TagKind::Plain => ScalarTag::Plain,
            TagKind::Quoted => ScalarTag::Quoted,
            TagKind::Core(name) => ScalarTag::Core(name),
            TagKind::Foreign => ScalarTag::Foreign,
        }
    }
}

fn scalar_tag(style: ScalarStyle, tag: Option<&Tag>) -> Tagged<'_> {
    let kind = match tag {
        None if style == ScalarStyle::Plain => TagKind::Plain,
        None => TagKind::Quoted,
        Some(tag) => match tag.suffix_in_namespace(CORE_NAMESPACE) {
            Some(name) => TagKind::Core(name),
            None => TagKind::Foreign,
        },
    };
    let may_merge = match &kind {
        TagKind::Plain => true,
        TagKind::Core(name) => name == "merge",
        TagKind::Quoted | TagKind::Foreign => false,
    };
    Tagged { kind, may_merge }
}

/// The scalar in normal form; absent for a number that is not finite.
fn json_of(scalar: &Scalar, text: &str) -> Option<Vec<u8>> {
    let quoted = |text: &str| {
        let mut json = Vec::with_capacity(text.len() + 2);
        normal::write_string(&mut json, text);
        json
    };
    Some(match scalar {
        Scalar::Null => b"null".to_vec(),
        Scalar::Bool(true) => b"true".to_vec(),
        Scalar::Bool(false) => b"false".to_vec(),
        Scalar::Integer(digits) => digits.clone().into_bytes(),
        Scalar::Float(value) if value.is_finite() => scalar::format_float(*value).into_bytes(),
        Scalar::Float(_) => return None,
        Scalar::Text => quoted(text),
        Scalar::Decoded(decoded) => quoted(decoded),
    })
}

/// The scalar as a key; absent for null.
fn key_of(scalar: &Scalar, text: &str) -> Option<String> {
    Some(match scalar {
        Scalar::Null => return None,
        Scalar::Bool(value) => value.to_string(),
        Scalar::Integer(digits) => digits.clone(),
        Scalar::Float(value) => scalar::format_float_key(*value),
        Scalar::Text => text.to_owned(),
        Scalar::Decoded(decoded) => decoded.clone(),
    })
}

#[cfg(test)]
mod tests;

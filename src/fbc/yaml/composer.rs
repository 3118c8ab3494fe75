//! What the events of a document mean to Go's reader: aliases stand for what they name, merge keys merge in
//! their place, keys become text.

use std::collections::BTreeMap;

use super::CORE_NAMESPACE;
use super::cursor::{Mark, Problem};
use super::parser::{Event, Parser};
use crate::fbc::document::{DocumentError, EXPANDED_LIMIT_BYTES, Position};
use crate::fbc::normal::{self, Normalizer};
use crate::fbc::scalar::{self, Scalar, ScalarTag};

/// A container that is open.
#[derive(Debug)]
struct Frame {
    kind: FrameKind,
    anchor: Option<usize>,
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

/// Writes a document in normal form, event by event.
#[derive(Debug)]
pub(super) struct Composer<'a> {
    first_line: usize,
    keeps_anchors: bool,
    writer: Normalizer,
    frames: Vec<Frame>,
    merges: Vec<Merge>,
    /// The latest node of each anchor, as its place in `anchored`.
    anchors: BTreeMap<&'a str, usize>,
    /// Nodes with an anchor; absent while they are open.
    anchored: Vec<Option<Anchored>>,
    anchored_bytes: usize,
    /// How many nodes were read, aliases expanded.
    decoded: usize,
    /// How many of them came through aliases.
    aliased: usize,
}

impl<'a> Composer<'a> {
    /// Writes the first document of `text` with `writer`; nothing for one without content.
    pub(super) fn compose(
        text: &'a str,
        first_line: usize,
        writer: &mut Normalizer,
    ) -> Result<(), DocumentError> {
        writer.clear();
        let mut composer = Self {
            first_line,
            // Without a `*` there is no alias.
            keeps_anchors: text.contains('*'),
            writer: std::mem::take(writer),
            frames: Vec::new(),
            merges: Vec::new(),
            anchors: BTreeMap::new(),
            anchored: Vec::new(),
            anchored_bytes: 0,
            // The document counts as one.
            decoded: 1,
            aliased: 0,
        };
        let result = composer.run(text);
        *writer = composer.writer;
        result
    }

    fn run(&mut self, text: &'a str) -> Result<(), DocumentError> {
        let mut parser = Parser::new(text);
        loop {
            let (event, mark) = parser
                .next()
                .map_err(|Problem { mark, text }| self.error(mark, text))?;
            match event {
                Event::Scalar {
                    text,
                    anchor,
                    tag,
                    is_implicit,
                } => {
                    let anchor = self.open_anchor(anchor);
                    let tag = Tagged {
                        tag: tag.as_deref(),
                        is_implicit,
                    };
                    self.scalar(&text, tag, anchor, mark)?;
                }
                Event::SequenceStart(anchor) => self.begin(FrameKind::Sequence, anchor, mark)?,
                Event::MappingStart(anchor) => {
                    self.begin(FrameKind::Mapping(Next::Key), anchor, mark)?;
                }
                Event::End => self.end(mark)?,
                Event::Alias(name) => self.alias(name, mark)?,
                Event::DocumentEnd => break,
            }
            if self.writer.len() > EXPANDED_LIMIT_BYTES {
                return Err(self.error(mark, "the document is too large with its aliases expanded"));
            }
        }
        if self.writer.text() == b"null" {
            self.writer.clear();
        }
        Ok(())
    }

    /// A node with an anchor begins: from now on aliases mean it.
    fn open_anchor(&mut self, anchor: Option<&'a str>) -> Option<usize> {
        let name = anchor.filter(|_| self.keeps_anchors)?;
        let place = self.anchored.len();
        self.anchored.push(None);
        self.anchors.insert(name, place);
        Some(place)
    }

    fn scalar(
        &mut self,
        text: &str,
        tag: Tagged<'_>,
        anchor: Option<usize>,
        mark: Mark,
    ) -> Result<(), DocumentError> {
        if self.expects(Next::Key) && text == "<<" && tag.may_merge() {
            self.expect(Next::Merged);
            return Ok(());
        }
        self.decoded += 1;
        let scalar = scalar::resolve(tag.resolved(), text)
            .map_err(|scalar::Misfit| self.error(mark, "the value does not fit its tag"))?;
        if let Some(anchor) = anchor {
            let kept = Anchored {
                text: json_of(&scalar, text).unwrap_or_default(),
                key: key_of(&scalar, text),
                is_mapping: false,
                weight: 1,
            };
            self.keep(anchor, kept, mark)?;
        }
        if self.expects(Next::Key) {
            let key =
                key_of(&scalar, text).ok_or_else(|| self.error(mark, "a key must not be null"))?;
            self.writer.key(&key);
            self.expect(Next::Value);
            return Ok(());
        }
        self.refuse_unless_mapping(false, mark)?;
        match scalar {
            Scalar::Text => self.writer.string(text),
            scalar => {
                let json = json_of(&scalar, text)
                    .ok_or_else(|| self.error(mark, "the number must be finite"))?;
                self.writer.raw(&json);
            }
        }
        self.after_value();
        Ok(())
    }

    fn begin(
        &mut self,
        kind: FrameKind,
        anchor: Option<&'a str>,
        mark: Mark,
    ) -> Result<(), DocumentError> {
        let anchor = self.open_anchor(anchor);
        if self.expects(Next::Key) {
            return Err(self.error(mark, "a key must not be a sequence or a mapping"));
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
            self.refuse_unless_mapping(!is_sequence, mark)?;
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

    fn end(&mut self, mark: Mark) -> Result<(), DocumentError> {
        let Some(frame) = self.frames.pop() else {
            return Ok(());
        };
        self.writer.end();
        if let Some(anchor) = frame.anchor {
            let kept = Anchored {
                text: self.writer.slice(frame.start..self.writer.len()).to_vec(),
                key: None,
                is_mapping: frame.kind != FrameKind::Sequence,
                weight: self.decoded - frame.decoded,
            };
            self.keep(anchor, kept, mark)?;
        }
        if self.is_merge_top() {
            self.merge_written();
        }
        self.after_value();
        Ok(())
    }

    fn alias(&mut self, name: &str, mark: Mark) -> Result<(), DocumentError> {
        let Some(&place) = self.anchors.get(name) else {
            return Err(self.error(mark, "there is no anchor of this name before the alias"));
        };
        let Some(target) = self.anchored.get_mut(place).and_then(Option::take) else {
            return Err(self.error(mark, "an anchor's value must not contain itself"));
        };
        self.decoded = self.decoded.saturating_add(1 + target.weight);
        self.aliased = self.aliased.saturating_add(target.weight);
        let result = self.expand(&target, mark);
        if let Some(slot) = self.anchored.get_mut(place) {
            *slot = Some(target);
        }
        result
    }

    fn expand(&mut self, target: &Anchored, mark: Mark) -> Result<(), DocumentError> {
        if self.is_excessive() {
            return Err(self.error(mark, "the document uses aliases excessively"));
        }
        if self.expects(Next::Key) {
            let key = target.key.as_deref();
            let key = key.ok_or_else(|| self.error(mark, "a key must be a scalar and not null"))?;
            self.writer.key(key);
            self.expect(Next::Value);
            return Ok(());
        }
        self.refuse_unless_mapping(target.is_mapping, mark)?;
        if self.expects(Next::Merged) {
            merge_entries(&mut self.writer, &target.text);
        } else if target.text.is_empty() {
            return Err(self.error(mark, "the number must be finite"));
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
            for element in normal::elements(merged.text()).into_iter().rev() {
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
    fn refuse_unless_mapping(&self, is_mapping: bool, mark: Mark) -> Result<(), DocumentError> {
        let in_merge_sequence = self
            .merges
            .last()
            .is_some_and(|merge| merge.is_sequence && merge.depth + 1 == self.frames.len());
        if !is_mapping && (in_merge_sequence || self.expects(Next::Merged)) {
            let problem = "a merge key needs a mapping or a sequence of mappings as its value";
            return Err(self.error(mark, problem));
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

    fn keep(&mut self, place: usize, kept: Anchored, mark: Mark) -> Result<(), DocumentError> {
        self.anchored_bytes += kept.text.len();
        if self.anchored_bytes > EXPANDED_LIMIT_BYTES {
            return Err(self.error(mark, "the document has too much content below anchors"));
        }
        if let Some(slot) = self.anchored.get_mut(place) {
            *slot = Some(kept);
        }
        Ok(())
    }

    fn error(&self, mark: Mark, problem: &'static str) -> DocumentError {
        let position = Position {
            line: self.first_line + mark.line,
            column: mark.column + 1,
        };
        DocumentError::new(position, problem)
    }
}

/// Writes the entries of an object in normal form as entries of the innermost open object.
fn merge_entries(writer: &mut Normalizer, object: &[u8]) {
    for (key, value) in normal::entries(object) {
        writer.key(&normal::decode_string(key));
        writer.raw(value);
    }
}

/// The tag of a scalar.
#[derive(Debug, Clone, Copy)]
struct Tagged<'a> {
    tag: Option<&'a str>,
    /// Plain without a tag, or with the tag `!`.
    is_implicit: bool,
}

impl<'a> Tagged<'a> {
    fn core(self) -> Option<&'a str> {
        self.tag?.strip_prefix(CORE_NAMESPACE)
    }

    fn resolved(self) -> ScalarTag<'a> {
        match (self.core(), self.tag) {
            (Some(name), _) => ScalarTag::Core(name),
            (None, Some(_)) => ScalarTag::Foreign,
            (None, None) if self.is_implicit => ScalarTag::Plain,
            (None, None) => ScalarTag::Quoted,
        }
    }

    /// Whether `<<` with this tag is a merge key.
    fn may_merge(self) -> bool {
        self.is_implicit || self.core() == Some("merge")
    }
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

//! YAML 1.1 events: nodes with their anchors and tags, and where collections begin and end. The grammar is
//! libyaml's. Only the first document is read.

use std::borrow::Cow;

use super::cursor::{Mark, Problem};
use super::scanner::{Scanner, Token};

/// An event of the first document.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    Alias(&'a str),
    Scalar {
        text: Cow<'a, str>,
        anchor: Option<&'a str>,
        /// The complete tag.
        tag: Option<String>,
        /// Plain without a tag, or with the tag `!`.
        is_implicit: bool,
    },
    SequenceStart(Option<&'a str>),
    MappingStart(Option<&'a str>),
    /// The end of a sequence or a mapping.
    End,
    /// The end of the document, or of a text without one.
    DocumentEnd,
}

/// What is expected next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    DocumentStart,
    DocumentEnd,
    BlockSequenceFirst,
    BlockSequenceEntry,
    IndentlessSequenceEntry,
    BlockMappingFirst,
    BlockMappingKey,
    BlockMappingValue,
    FlowSequenceFirst,
    FlowSequenceEntry,
    FlowPairKey,
    FlowPairValue,
    FlowPairEnd,
    FlowMappingFirst,
    FlowMappingKey,
    FlowMappingValue,
    FlowMappingEmptyValue,
}

/// Where a node may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Block,
    /// In a block mapping, where a sequence needs no indentation of its own.
    BlockOrIndentless,
    Flow,
}

/// The problem with a collection that has no end.
pub(super) const UNCLOSED: &str = "the document ends before `[` or `{` is closed";

pub(super) type Parsed<'a> = Result<(Event<'a>, Mark), Problem>;

/// The events of the first document of a text.
#[derive(Debug)]
pub(super) struct Parser<'a> {
    pub(super) scanner: Scanner<'a>,
    pub(super) state: State,
    states: Vec<State>,
    /// Handles and prefixes of tags.
    prefixes: Vec<(Cow<'a, str>, String)>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            scanner: Scanner::new(text),
            state: State::DocumentStart,
            states: Vec::new(),
            prefixes: Vec::new(),
        }
    }

    /// The next event. There is none behind [`Event::DocumentEnd`].
    pub(super) fn next(&mut self) -> Parsed<'a> {
        match self.state {
            State::DocumentStart => self.document_start(),
            State::DocumentEnd => self.document_end(),
            State::BlockSequenceFirst | State::BlockSequenceEntry => self.block_sequence_entry(),
            State::IndentlessSequenceEntry => self.indentless_sequence_entry(),
            State::BlockMappingFirst | State::BlockMappingKey => self.block_mapping_key(),
            State::BlockMappingValue => self.block_mapping_value(),
            State::FlowSequenceFirst | State::FlowSequenceEntry => self.flow_sequence_entry(),
            State::FlowPairKey => self.flow_pair_key(),
            State::FlowPairValue => self.flow_pair_value(),
            State::FlowPairEnd => {
                self.state = State::FlowSequenceEntry;
                let (_, mark) = self.scanner.peek()?;
                Ok((Event::End, mark))
            }
            State::FlowMappingFirst | State::FlowMappingKey => self.flow_mapping_key(),
            State::FlowMappingValue => self.flow_mapping_value(),
            State::FlowMappingEmptyValue => self.empty(State::FlowMappingKey),
        }
    }

    fn document_start(&mut self) -> Parsed<'a> {
        let (token, mark) = self.scanner.peek()?;
        let is_explicit = matches!(
            token,
            Token::Version { .. } | Token::TagPrefix { .. } | Token::DocumentStart
        );
        if *token == Token::StreamEnd {
            return Ok((Event::DocumentEnd, mark));
        }
        self.directives()?;
        self.states.push(State::DocumentEnd);
        if !is_explicit {
            return self.node(Place::Block);
        }
        match self.scanner.next()? {
            (Token::DocumentStart, _) => self.document_content(),
            (_, mark) => Err(Problem {
                mark,
                text: "expected `---` behind the directives",
            }),
        }
    }

    fn directives(&mut self) -> Result<(), Problem> {
        let mut has_version = false;
        while let (Token::Version { .. } | Token::TagPrefix { .. }, _) = self.scanner.peek()? {
            let (token, mark) = self.scanner.next()?;
            let problem = match token {
                Token::Version { .. } if has_version => "there is a %YAML directive already",
                Token::Version {
                    is_supported: false,
                } => "only YAML 1.1 is read",
                Token::TagPrefix { handle, .. } if self.prefix(handle).is_some() => {
                    "there is a %TAG directive for this handle already"
                }
                Token::TagPrefix { handle, prefix } => {
                    self.prefixes.push((Cow::Borrowed(handle), prefix));
                    continue;
                }
                _ => {
                    has_version = true;
                    continue;
                }
            };
            return Err(Problem {
                mark,
                text: problem,
            });
        }
        for (handle, prefix) in [("!", "!"), ("!!", super::CORE_NAMESPACE)] {
            if self.prefix(handle).is_none() {
                self.prefixes
                    .push((Cow::Borrowed(handle), prefix.to_owned()));
            }
        }
        Ok(())
    }

    fn prefix(&self, handle: &str) -> Option<&str> {
        let found = self.prefixes.iter().find(|(known, _)| known == handle);
        found.map(|(_, prefix)| prefix.as_str())
    }

    fn document_content(&mut self) -> Parsed<'a> {
        match self.scanner.peek()? {
            (
                Token::Version { .. }
                | Token::TagPrefix { .. }
                | Token::DocumentStart
                | Token::DocumentEnd
                | Token::StreamEnd,
                mark,
            ) => {
                self.pop();
                Ok((nothing(), mark))
            }
            _ => self.node(Place::Block),
        }
    }

    fn document_end(&mut self) -> Parsed<'a> {
        let (_, mark) = self.scanner.peek()?;
        Ok((Event::DocumentEnd, mark))
    }

    pub(super) fn pop(&mut self) {
        self.state = self.states.pop().unwrap_or(State::DocumentEnd);
    }

    /// A node that is not written. What follows is in `then`.
    pub(super) fn empty(&mut self, then: State) -> Parsed<'a> {
        let (_, mark) = self.scanner.peek()?;
        self.state = then;
        Ok((nothing(), mark))
    }

    /// A node, behind which `then` goes on.
    pub(super) fn node_then(&mut self, place: Place, then: State) -> Parsed<'a> {
        self.states.push(then);
        self.node(place)
    }

    fn node(&mut self, place: Place) -> Parsed<'a> {
        let (token, start) = self.scanner.peek()?;
        if let Token::Alias(name) = token {
            let name = *name;
            self.scanner.next()?;
            self.pop();
            return Ok((Event::Alias(name), start));
        }
        let (anchor, tag) = self.properties()?;
        let (token, mark) = self.scanner.peek()?;
        let in_block = place != Place::Flow;
        match token {
            Token::BlockEntry if place == Place::BlockOrIndentless => {
                self.state = State::IndentlessSequenceEntry;
                Ok((Event::SequenceStart(anchor), start))
            }
            Token::Scalar { .. } => {
                let event = self.scalar(anchor, tag)?;
                Ok((event, start))
            }
            Token::FlowSequenceStart => {
                self.state = State::FlowSequenceFirst;
                Ok((Event::SequenceStart(anchor), start))
            }
            Token::FlowMappingStart => {
                self.state = State::FlowMappingFirst;
                Ok((Event::MappingStart(anchor), start))
            }
            Token::BlockSequenceStart if in_block => {
                self.state = State::BlockSequenceFirst;
                Ok((Event::SequenceStart(anchor), start))
            }
            Token::BlockMappingStart if in_block => {
                self.state = State::BlockMappingFirst;
                Ok((Event::MappingStart(anchor), start))
            }
            _ if anchor.is_some() || tag.is_some() => {
                self.pop();
                let is_implicit = tag.is_none();
                let event = Event::Scalar {
                    text: Cow::Borrowed(""),
                    anchor,
                    tag,
                    is_implicit,
                };
                Ok((event, start))
            }
            Token::StreamEnd if !in_block => Err(Problem {
                mark,
                text: UNCLOSED,
            }),
            _ => Err(Problem {
                mark,
                text: "expected a value",
            }),
        }
    }

    /// The scalar that is the next token.
    fn scalar(
        &mut self,
        anchor: Option<&'a str>,
        tag: Option<String>,
    ) -> Result<Event<'a>, Problem> {
        self.pop();
        let (text, is_plain) = match self.scanner.next()?.0 {
            Token::Scalar { text, is_plain } => (text, is_plain),
            _ => (Cow::Borrowed(""), true),
        };
        let is_implicit = match tag.as_deref() {
            None => is_plain,
            Some(tag) => tag == "!",
        };
        Ok(Event::Scalar {
            text,
            anchor,
            tag,
            is_implicit,
        })
    }

    /// Anchor and tag of the next node, in any order.
    fn properties(&mut self) -> Result<(Option<&'a str>, Option<String>), Problem> {
        let (mut anchor, mut tag) = (None, None);
        loop {
            let (token, mark) = self.scanner.peek()?;
            match token {
                Token::Anchor(name) if anchor.is_none() => anchor = Some(*name),
                Token::Tag { handle, suffix } if tag.is_none() => {
                    let (handle, suffix) = (*handle, suffix.clone());
                    tag = Some(self.resolve_tag(handle, suffix, mark)?);
                }
                _ => return Ok((anchor, tag)),
            }
            self.scanner.next()?;
        }
    }

    fn resolve_tag(&self, handle: &str, suffix: String, mark: Mark) -> Result<String, Problem> {
        let tag = match (handle, self.prefix(handle)) {
            ("", _) => suffix,
            (_, Some(prefix)) => format!("{prefix}{suffix}"),
            (_, None) => String::new(),
        };
        if tag.is_empty() {
            return Err(Problem {
                mark,
                text: "there is no %TAG directive for the handle of this tag",
            });
        }
        Ok(tag)
    }
}

/// A node that is not written.
fn nothing<'a>() -> Event<'a> {
    Event::Scalar {
        text: Cow::Borrowed(""),
        anchor: None,
        tag: None,
        is_implicit: true,
    }
}

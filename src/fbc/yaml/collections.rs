//! The entries of sequences and mappings, in blocks and in `[` `]` and `{` `}`.

use super::cursor::{Mark, Problem};
use super::parser::{Event, Parsed, Parser, Place, State, UNCLOSED};
use super::scanner::Token;

impl<'a> Parser<'a> {
    pub(super) fn block_sequence_entry(&mut self) -> Parsed<'a> {
        if self.state == State::BlockSequenceFirst {
            self.scanner.next()?;
        }
        match self.scanner.peek()? {
            (Token::BlockEntry, _) => {
                self.scanner.next()?;
                let then = State::BlockSequenceEntry;
                match self.scanner.peek()?.0 {
                    Token::BlockEntry | Token::BlockEnd => self.empty(then),
                    _ => self.node_then(Place::Block, then),
                }
            }
            (Token::BlockEnd, mark) => self.end(mark),
            (_, mark) => refuse(mark, "expected `-`, as of the entries before"),
        }
    }

    pub(super) fn indentless_sequence_entry(&mut self) -> Parsed<'a> {
        let (token, mark) = self.scanner.peek()?;
        if *token != Token::BlockEntry {
            self.pop();
            return Ok((Event::End, mark));
        }
        self.scanner.next()?;
        let then = State::IndentlessSequenceEntry;
        match self.scanner.peek()?.0 {
            Token::BlockEntry | Token::Key | Token::Value | Token::BlockEnd => self.empty(then),
            _ => self.node_then(Place::Block, then),
        }
    }

    pub(super) fn block_mapping_key(&mut self) -> Parsed<'a> {
        if self.state == State::BlockMappingFirst {
            self.scanner.next()?;
        }
        match self.scanner.peek()? {
            (Token::Key, _) => {
                self.scanner.next()?;
                self.block_key_or_value(State::BlockMappingValue)
            }
            (Token::BlockEnd, mark) => self.end(mark),
            (_, mark) => refuse(mark, "expected a key, as indented as those before"),
        }
    }

    pub(super) fn block_mapping_value(&mut self) -> Parsed<'a> {
        let then = State::BlockMappingKey;
        if *self.scanner.peek()?.0 != Token::Value {
            return self.empty(then);
        }
        self.scanner.next()?;
        self.block_key_or_value(then)
    }

    fn block_key_or_value(&mut self, then: State) -> Parsed<'a> {
        match self.scanner.peek()?.0 {
            Token::Key | Token::Value | Token::BlockEnd => self.empty(then),
            _ => self.node_then(Place::BlockOrIndentless, then),
        }
    }

    pub(super) fn flow_sequence_entry(&mut self) -> Parsed<'a> {
        let is_first = self.state == State::FlowSequenceFirst;
        let end = Token::FlowSequenceEnd;
        self.flow_separator(is_first, &end, "expected `,` or `]`")?;
        let (token, mark) = self.scanner.peek()?;
        if *token == end {
            return self.end(mark);
        }
        if *token == Token::Key {
            self.scanner.next()?;
            self.state = State::FlowPairKey;
            return Ok((Event::MappingStart(None), mark));
        }
        self.node_then(Place::Flow, State::FlowSequenceEntry)
    }

    pub(super) fn flow_pair_key(&mut self) -> Parsed<'a> {
        match self.scanner.peek()?.0 {
            Token::Value | Token::FlowEntry | Token::FlowSequenceEnd => {
                // libyaml takes the token away here, even if it is the `:` of the pair.
                self.scanner.next()?;
                self.empty(State::FlowPairValue)
            }
            _ => self.node_then(Place::Flow, State::FlowPairValue),
        }
    }

    pub(super) fn flow_pair_value(&mut self) -> Parsed<'a> {
        self.flow_value(&Token::FlowSequenceEnd, State::FlowPairEnd)
    }

    pub(super) fn flow_mapping_key(&mut self) -> Parsed<'a> {
        let is_first = self.state == State::FlowMappingFirst;
        let end = Token::FlowMappingEnd;
        self.flow_separator(is_first, &end, "expected `,` or `}`")?;
        let (token, mark) = self.scanner.peek()?;
        if *token == end {
            return self.end(mark);
        }
        if *token != Token::Key {
            return self.node_then(Place::Flow, State::FlowMappingEmptyValue);
        }
        self.scanner.next()?;
        match self.scanner.peek()?.0 {
            Token::Value | Token::FlowEntry | Token::FlowMappingEnd => {
                self.empty(State::FlowMappingValue)
            }
            _ => self.node_then(Place::Flow, State::FlowMappingValue),
        }
    }

    pub(super) fn flow_mapping_value(&mut self) -> Parsed<'a> {
        self.flow_value(&Token::FlowMappingEnd, State::FlowMappingKey)
    }

    /// The value behind `:`, if there is one.
    fn flow_value(&mut self, end: &Token<'_>, then: State) -> Parsed<'a> {
        if *self.scanner.peek()?.0 == Token::Value {
            self.scanner.next()?;
            let (token, _) = self.scanner.peek()?;
            if *token != Token::FlowEntry && token != end {
                return self.node_then(Place::Flow, then);
            }
        }
        self.empty(then)
    }

    /// Takes the comma that must stand before all entries but the first.
    fn flow_separator(
        &mut self,
        is_first: bool,
        end: &Token<'_>,
        problem: &'static str,
    ) -> Result<(), Problem> {
        if is_first {
            // The bracket that opened the collection.
            self.scanner.next()?;
            return Ok(());
        }
        match self.scanner.peek()? {
            (token, _) if token == end => Ok(()),
            (Token::FlowEntry, _) => self.scanner.next().map(drop),
            (Token::StreamEnd, mark) => Err(Problem {
                mark,
                text: UNCLOSED,
            }),
            (_, mark) => Err(Problem {
                mark,
                text: problem,
            }),
        }
    }

    /// The end of a collection, whose last token is taken.
    fn end(&mut self, mark: Mark) -> Parsed<'a> {
        self.pop();
        self.scanner.next()?;
        Ok((Event::End, mark))
    }
}

fn refuse<'a>(mark: Mark, text: &'static str) -> Parsed<'a> {
    Err(Problem { mark, text })
}

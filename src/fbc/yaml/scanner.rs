//! YAML 1.1 tokens. The rules are those of libyaml, which Go's reader follows: what counts as a key, where
//! indentation opens and closes blocks, what may start a scalar.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::cursor::{Cursor, Mark, Problem};
use crate::fbc::document::DEPTH_LIMIT;

/// A key without `?` must be seen as one within so many characters, and on one line.
const KEY_LIMIT: usize = 1024;

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'a> {
    StreamEnd,
    /// `%YAML 1.1`
    Version {
        is_supported: bool,
    },
    /// `%TAG handle prefix`
    TagPrefix {
        handle: &'a str,
        prefix: String,
    },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(&'a str),
    Anchor(&'a str),
    Tag {
        /// `!`, `!!`, `!name!`, or empty for a tag that is complete.
        handle: &'a str,
        suffix: String,
    },
    Scalar {
        text: Cow<'a, str>,
        is_plain: bool,
    },
}

/// A place where a key may have begun.
#[derive(Debug, Clone, Copy)]
struct SimpleKey {
    is_required: bool,
    /// The number of the token that begins it.
    token: usize,
    mark: Mark,
}

/// The tokens of one document text.
#[derive(Debug)]
pub(super) struct Scanner<'a> {
    pub(super) cursor: Cursor<'a>,
    queue: VecDeque<(Token<'a>, Mark)>,
    /// How many tokens left the queue.
    taken: usize,
    /// The column of the innermost block, -1 outside of all.
    pub(super) indent: isize,
    indents: Vec<isize>,
    /// The possible key of the block context and of each flow collection that is open.
    keys: Vec<Option<SimpleKey>>,
    /// Which of `keys` there are, outermost first.
    possible: VecDeque<usize>,
    pub(super) allows_key: bool,
    is_done: bool,
}

type Scanned<T> = Result<T, Problem>;

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            cursor: Cursor::new(text),
            queue: VecDeque::new(),
            taken: 0,
            indent: -1,
            indents: Vec::new(),
            keys: vec![None],
            possible: VecDeque::new(),
            allows_key: true,
            is_done: false,
        }
    }

    /// The next token, which stays the next one, and where it begins.
    pub(super) fn peek(&mut self) -> Scanned<(&Token<'a>, Mark)> {
        self.fill()?;
        match self.queue.front() {
            Some((token, mark)) => Ok((token, *mark)),
            None => Ok((&Token::StreamEnd, self.cursor.mark)),
        }
    }

    /// The next token, and where it begins.
    pub(super) fn next(&mut self) -> Scanned<(Token<'a>, Mark)> {
        self.fill()?;
        let end = (Token::StreamEnd, self.cursor.mark);
        let next = self.queue.pop_front();
        self.taken += usize::from(next.is_some());
        Ok(next.unwrap_or(end))
    }

    /// Whether the scanner is inside `[` or `{`.
    pub(super) fn is_in_flow(&self) -> bool {
        self.keys.len() > 1
    }

    pub(super) fn problem<T>(&self, text: &'static str) -> Scanned<T> {
        Err(Problem {
            mark: self.cursor.mark,
            text,
        })
    }

    /// Scans until the first token of the queue is final: a key may still turn out to begin before it.
    fn fill(&mut self) -> Scanned<()> {
        while !self.is_done && (self.queue.is_empty() || self.awaits_key()?) {
            self.scan_token()?;
        }
        Ok(())
    }

    fn awaits_key(&mut self) -> Scanned<bool> {
        let Some(&level) = self.possible.front() else {
            return Ok(false);
        };
        let begins_next = self.key(level).is_some_and(|key| key.token == self.taken);
        Ok(begins_next && self.is_valid_key(level)?)
    }

    fn key(&self, level: usize) -> Option<SimpleKey> {
        self.keys.get(level).copied().flatten()
    }

    /// Whether a key can still begin where one was possible.
    fn is_valid_key(&mut self, level: usize) -> Scanned<bool> {
        let Some(key) = self.key(level) else {
            return Ok(false);
        };
        let mark = self.cursor.mark;
        if key.mark.line >= mark.line && key.mark.index + KEY_LIMIT >= mark.index {
            return Ok(true);
        }
        self.forget_key(level)?;
        Ok(false)
    }

    /// No key begins where one was possible.
    fn forget_key(&mut self, level: usize) -> Scanned<()> {
        let Some(key) = self.keys.get_mut(level).and_then(Option::take) else {
            return Ok(());
        };
        if self.possible.back() == Some(&level) {
            self.possible.pop_back();
        } else if self.possible.front() == Some(&level) {
            self.possible.pop_front();
        }
        if key.is_required {
            return self.problem("expected `:` after the key that begins before this");
        }
        Ok(())
    }

    fn level(&self) -> usize {
        self.keys.len() - 1
    }

    fn column(&self) -> isize {
        isize::try_from(self.cursor.mark.column).unwrap_or(isize::MAX)
    }

    /// A key may begin here.
    fn save_key(&mut self) -> Scanned<()> {
        if !self.allows_key {
            return Ok(());
        }
        let key = SimpleKey {
            is_required: !self.is_in_flow() && self.indent == self.column(),
            token: self.taken + self.queue.len(),
            mark: self.cursor.mark,
        };
        let level = self.level();
        self.forget_key(level)?;
        self.possible.push_back(level);
        if let Some(slot) = self.keys.last_mut() {
            *slot = Some(key);
        }
        Ok(())
    }

    fn push(&mut self, token: Token<'a>, mark: Mark) {
        self.queue.push_back((token, mark));
    }

    /// Opens a block at `column` if it is deeper than the one that is open.
    fn indent_to(
        &mut self,
        column: isize,
        token: Token<'a>,
        place: Option<usize>,
        mark: Mark,
    ) -> Scanned<()> {
        if self.is_in_flow() || self.indent >= column {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column;
        if self.indents.len() > DEPTH_LIMIT {
            return self.problem("the document is nested too deeply");
        }
        let place = place.map_or(self.queue.len(), |token| token.saturating_sub(self.taken));
        self.queue
            .insert(place.min(self.queue.len()), (token, mark));
        Ok(())
    }

    /// Closes the blocks that are deeper than `column`.
    fn unindent_to(&mut self, column: isize) {
        if self.is_in_flow() {
            return;
        }
        while self.indent > column {
            self.push(Token::BlockEnd, self.cursor.mark);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn scan_token(&mut self) -> Scanned<()> {
        self.skip_to_token();
        self.unindent_to(self.column());
        let (first, second) = (self.cursor.peek(0), self.cursor.peek(1));
        let ends_indicator = self.cursor.is_blank_or_end(1);
        let in_flow = self.is_in_flow();
        match first {
            0 => self.stream_end(),
            b'%' if self.cursor.mark.column == 0 => self.directive(),
            b'-' | b'.' if self.cursor.is_document_indicator() => self.document_indicator(),
            b'[' => self.flow_start(Token::FlowSequenceStart),
            b'{' => self.flow_start(Token::FlowMappingStart),
            b']' => self.flow_end(Token::FlowSequenceEnd),
            b'}' => self.flow_end(Token::FlowMappingEnd),
            b',' => self.flow_entry(),
            b'-' if ends_indicator => self.block_entry(),
            b'?' if in_flow || ends_indicator => self.explicit_key(),
            b':' if in_flow || ends_indicator => self.value(),
            b'*' | b'&' => self.anchor_or_alias(),
            b'!' => self.tag(),
            b'|' | b'>' if !in_flow => self.block_scalar(),
            b'\'' | b'"' => self.quoted_scalar(),
            b'-' if !matches!(second, b' ' | b'\t') => self.plain_scalar(),
            b'?' | b':' if !in_flow => self.plain_scalar(),
            b'-' | b'?' | b':' | b'#' | b'|' | b'>' | b'%' | b'@' | b'`' | b'\t' => {
                self.problem("this character cannot begin a value or a key")
            }
            _ => self.plain_scalar(),
        }
    }

    /// Skips white space and comments. Tabs do not indent.
    fn skip_to_token(&mut self) {
        loop {
            let allows_tabs = self.is_in_flow() || !self.allows_key;
            self.cursor.skip_while(|cursor| match cursor.peek(0) {
                b' ' => true,
                b'\t' => allows_tabs,
                _ => false,
            });
            self.cursor.skip_comment();
            if self.cursor.skip_break().is_empty() {
                return;
            }
            if !self.is_in_flow() {
                self.allows_key = true;
            }
        }
    }

    fn stream_end(&mut self) -> Scanned<()> {
        if self.cursor.mark.column != 0 {
            self.cursor.mark.column = 0;
            self.cursor.mark.line += 1;
        }
        self.unindent_to(-1);
        self.forget_key(self.level())?;
        self.allows_key = false;
        self.push(Token::StreamEnd, self.cursor.mark);
        self.is_done = true;
        Ok(())
    }

    fn document_indicator(&mut self) -> Scanned<()> {
        self.unindent_to(-1);
        self.forget_key(self.level())?;
        self.allows_key = false;
        let token = if self.cursor.peek(0) == b'-' {
            Token::DocumentStart
        } else {
            Token::DocumentEnd
        };
        self.indicator(token, 3);
        Ok(())
    }

    /// A token that is `length` characters long.
    fn indicator(&mut self, token: Token<'a>, length: usize) {
        let mark = self.cursor.mark;
        self.cursor.skip_ascii(length);
        self.push(token, mark);
    }

    fn flow_start(&mut self, token: Token<'a>) -> Scanned<()> {
        self.save_key()?;
        self.keys.push(None);
        if self.keys.len() > DEPTH_LIMIT + 1 {
            return self.problem("the document is nested too deeply");
        }
        self.allows_key = true;
        self.indicator(token, 1);
        Ok(())
    }

    fn flow_end(&mut self, token: Token<'a>) -> Scanned<()> {
        self.forget_key(self.level())?;
        if self.is_in_flow() {
            self.keys.pop();
        }
        self.allows_key = false;
        self.indicator(token, 1);
        Ok(())
    }

    fn flow_entry(&mut self) -> Scanned<()> {
        self.forget_key(self.level())?;
        self.allows_key = true;
        self.indicator(Token::FlowEntry, 1);
        Ok(())
    }

    fn block_entry(&mut self) -> Scanned<()> {
        if !self.is_in_flow() {
            if !self.allows_key {
                return self.problem("`-` cannot begin an entry of a sequence here");
            }
            let (column, mark) = (self.column(), self.cursor.mark);
            self.indent_to(column, Token::BlockSequenceStart, None, mark)?;
        }
        self.forget_key(self.level())?;
        self.allows_key = true;
        self.indicator(Token::BlockEntry, 1);
        Ok(())
    }

    fn explicit_key(&mut self) -> Scanned<()> {
        if !self.is_in_flow() {
            if !self.allows_key {
                return self.problem("`?` cannot begin a key here");
            }
            let (column, mark) = (self.column(), self.cursor.mark);
            self.indent_to(column, Token::BlockMappingStart, None, mark)?;
        }
        self.forget_key(self.level())?;
        self.allows_key = !self.is_in_flow();
        self.indicator(Token::Key, 1);
        Ok(())
    }

    fn value(&mut self) -> Scanned<()> {
        let level = self.level();
        if self.is_valid_key(level)?
            && let Some(key) = self.key(level)
        {
            let place = key.token.saturating_sub(self.taken).min(self.queue.len());
            self.queue.insert(place, (Token::Key, key.mark));
            let column = isize::try_from(key.mark.column).unwrap_or(isize::MAX);
            self.indent_to(column, Token::BlockMappingStart, Some(key.token), key.mark)?;
            self.keys.pop();
            self.keys.push(None);
            self.possible.pop_back();
            // A key cannot follow a key.
            self.allows_key = false;
        } else {
            if !self.is_in_flow() {
                if !self.allows_key {
                    return self.problem("`:` cannot follow here: there is no key before it");
                }
                let (column, mark) = (self.column(), self.cursor.mark);
                self.indent_to(column, Token::BlockMappingStart, None, mark)?;
            }
            self.allows_key = !self.is_in_flow();
        }
        self.indicator(Token::Value, 1);
        Ok(())
    }

    fn anchor_or_alias(&mut self) -> Scanned<()> {
        self.save_key()?;
        self.allows_key = false;
        let mark = self.cursor.mark;
        let is_alias = self.cursor.peek(0) == b'*';
        self.cursor.skip();
        let name = self.cursor.skip_word();
        let ends = matches!(
            self.cursor.peek(0),
            b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`'
        );
        if name.is_empty() || !(ends || self.cursor.is_blank_or_end(0)) {
            return self.problem("the name of an anchor consists of letters, digits, `_` and `-`");
        }
        let token = if is_alias {
            Token::Alias(name)
        } else {
            Token::Anchor(name)
        };
        self.push(token, mark);
        Ok(())
    }

    fn tag(&mut self) -> Scanned<()> {
        self.save_key()?;
        self.allows_key = false;
        let mark = self.cursor.mark;
        let token = self.scan_tag()?;
        self.push(token, mark);
        Ok(())
    }

    fn directive(&mut self) -> Scanned<()> {
        self.unindent_to(-1);
        self.forget_key(self.level())?;
        self.allows_key = false;
        let mark = self.cursor.mark;
        let token = self.scan_directive()?;
        self.push(token, mark);
        Ok(())
    }

    fn block_scalar(&mut self) -> Scanned<()> {
        self.forget_key(self.level())?;
        self.allows_key = true;
        let mark = self.cursor.mark;
        let text = self.scan_block_scalar()?;
        self.scalar(text, false, mark);
        Ok(())
    }

    fn quoted_scalar(&mut self) -> Scanned<()> {
        self.save_key()?;
        self.allows_key = false;
        let mark = self.cursor.mark;
        let text = self.scan_quoted_scalar()?;
        self.scalar(text, false, mark);
        Ok(())
    }

    fn plain_scalar(&mut self) -> Scanned<()> {
        self.save_key()?;
        self.allows_key = false;
        let mark = self.cursor.mark;
        let text = self.scan_plain_scalar()?;
        self.scalar(text, true, mark);
        Ok(())
    }

    fn scalar(&mut self, text: Cow<'a, str>, is_plain: bool, mark: Mark) {
        self.push(Token::Scalar { text, is_plain }, mark);
    }
}

//! The characters of a document, one after the other, as YAML 1.1 tells them apart.

use std::borrow::Cow;

/// A place in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark {
    /// From 0, in characters.
    pub(super) index: usize,
    /// From 0.
    pub(super) line: usize,
    /// From 0, in characters.
    pub(super) column: usize,
}

/// A document that cannot be scanned or parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) mark: Mark,
    /// What was expected or is not allowed.
    pub(super) text: &'static str,
}

/// Where reading is. Behind the end there are only NUL characters, which a document cannot hold.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    pub(super) mark: Mark,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            mark: Mark::default(),
        }
    }

    /// The byte that is `ahead` bytes away.
    pub(super) fn peek(&self, ahead: usize) -> u8 {
        self.rest().get(ahead).copied().unwrap_or_default()
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// What lies between `start` and here.
    pub(super) fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    pub(super) fn is_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// How many bytes a line break takes that begins `ahead` bytes away; 0 when there is none.
    pub(super) fn break_length(&self, ahead: usize) -> usize {
        match (self.peek(ahead), self.peek(ahead + 1), self.peek(ahead + 2)) {
            (b'\r', b'\n', _) | (0xc2, 0x85, _) => 2,
            (b'\r' | b'\n', _, _) => 1,
            (0xe2, 0x80, 0xa8 | 0xa9) => 3,
            _ => 0,
        }
    }

    pub(super) fn is_break(&self) -> bool {
        self.break_length(0) > 0
    }

    /// Space or tab.
    pub(super) fn is_blank(&self) -> bool {
        matches!(self.peek(0), b' ' | b'\t')
    }

    /// Blank, line break or end, `ahead` bytes away.
    pub(super) fn is_blank_or_end(&self, ahead: usize) -> bool {
        matches!(self.peek(ahead), b' ' | b'\t' | 0) || self.break_length(ahead) > 0
    }

    pub(super) fn is_break_or_end(&self) -> bool {
        self.peek(0) == 0 || self.is_break()
    }

    /// Skips one character that is no line break.
    pub(super) fn skip(&mut self) {
        let width = match self.peek(0) {
            0 => return,
            1..0x80 => 1,
            0x80..0xe0 => 2,
            0xe0..0xf0 => 3,
            _ => 4,
        };
        self.at += width;
        self.mark.index += 1;
        self.mark.column += 1;
    }

    /// Skips `count` characters of one byte each.
    pub(super) fn skip_ascii(&mut self, count: usize) {
        self.at += count;
        self.mark.index += count;
        self.mark.column += count;
    }

    pub(super) fn skip_while(&mut self, mut holds: impl FnMut(&Self) -> bool) {
        while holds(self) {
            self.skip();
        }
    }

    /// Skips a line break, if there is one; says what it counts as in a scalar.
    pub(super) fn skip_break(&mut self) -> &'static str {
        let length = self.break_length(0);
        if length == 0 {
            return "";
        }
        let text = match (self.peek(0), self.peek(2)) {
            (0xe2, 0xa8) => "\u{2028}",
            (0xe2, _) => "\u{2029}",
            _ => "\n",
        };
        self.mark.index += if self.peek(0) == b'\r' { length } else { 1 };
        self.mark.line += 1;
        self.mark.column = 0;
        self.at += length;
        text
    }

    /// Skips blanks and a comment, up to the end of the line.
    pub(super) fn skip_blanks_and_comment(&mut self) {
        self.skip_while(Self::is_blank);
        self.skip_comment();
    }

    pub(super) fn skip_comment(&mut self) {
        if self.peek(0) == b'#' {
            self.skip_while(|cursor| !cursor.is_break_or_end());
        }
    }

    /// Skips letters, digits, `_` and `-`.
    pub(super) fn skip_word(&mut self) -> &'a str {
        let start = self.at;
        self.skip_while(|cursor| {
            let byte = cursor.peek(0);
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
        });
        self.since(start)
    }

    /// Whether a line begins here with `---` or `...` and a blank.
    pub(super) fn is_document_indicator(&self) -> bool {
        self.mark.column == 0
            && (self.rest().starts_with(b"---") || self.rest().starts_with(b"..."))
            && self.is_blank_or_end(3)
    }
}

/// Text that grows: borrowed as long as it is one piece of the document.
#[derive(Debug)]
pub(super) struct Gathered<'a> {
    text: Cow<'a, str>,
}

impl<'a> Gathered<'a> {
    pub(super) fn new() -> Self {
        Self {
            text: Cow::Borrowed(""),
        }
    }

    pub(super) fn push(&mut self, piece: &'a str) {
        if self.text.is_empty() {
            self.text = Cow::Borrowed(piece);
        } else {
            self.text.to_mut().push_str(piece);
        }
    }

    pub(super) fn push_char(&mut self, character: char) {
        self.text.to_mut().push(character);
    }

    pub(super) fn finish(self) -> Cow<'a, str> {
        self.text
    }
}

/// Line breaks inside a scalar of several lines, until it is known whether they are folded.
#[derive(Debug, Default)]
pub(super) struct Breaks {
    /// The first break.
    leading: &'static str,
    /// Those after it.
    trailing: String,
    pub(super) has_any: bool,
}

impl Breaks {
    pub(super) fn push(&mut self, text: &'static str) {
        if self.has_any {
            self.trailing.push_str(text);
        } else {
            self.leading = text;
            self.has_any = true;
        }
    }

    /// Adds them to `text` as they are.
    pub(super) fn keep_into(&mut self, text: &mut Gathered<'_>) {
        for character in self.leading.chars().chain(self.trailing.chars()) {
            text.push_char(character);
        }
        *self = Self::default();
    }

    /// Adds them to `text`: one line feed becomes a space, of several the first one vanishes.
    pub(super) fn fold_into(&mut self, text: &mut Gathered<'_>) {
        if self.leading == "\n" {
            self.leading = if self.trailing.is_empty() { " " } else { "" };
        }
        self.keep_into(text);
    }
}

//! What takes more than one character to scan: scalars, tags, directives.

use std::borrow::Cow;

use super::cursor::{Breaks, Cursor, Gathered, Problem};
use super::scanner::{Scanner, Token};

type Scanned<T> = Result<T, Problem>;

/// What happens to the line breaks at the end of a block scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chomping {
    Strip,
    Clip,
    Keep,
}

impl<'a> Scanner<'a> {
    pub(super) fn scan_plain_scalar(&mut self) -> Scanned<Cow<'a, str>> {
        let mut text = Gathered::new();
        let mut breaks = Breaks::default();
        let indent = self.indent + 1;
        loop {
            if self.cursor.is_document_indicator() || self.cursor.peek(0) == b'#' {
                break;
            }
            let start = self.cursor.offset();
            self.skip_plain();
            let piece = self.cursor.since(start);
            if !piece.is_empty() {
                if breaks.has_any {
                    breaks.fold_into(&mut text);
                }
                text.push(piece);
            }
            if !(self.cursor.is_blank() || self.cursor.is_break()) {
                break;
            }
            if !self.skip_blanks_in_plain(&mut breaks, indent)? {
                break;
            }
        }
        if breaks.has_any {
            self.allows_key = true;
        }
        Ok(text.finish())
    }

    /// Skips characters of a plain scalar on one line, blanks between them included, blanks behind them not.
    fn skip_plain(&mut self) {
        let in_flow = self.is_in_flow();
        loop {
            self.cursor.skip_while(|cursor| match cursor.peek(0) {
                b':' => !cursor.is_blank_or_end(1),
                b',' | b'?' | b'[' | b']' | b'{' | b'}' => !in_flow,
                _ => !cursor.is_blank_or_end(0),
            });
            let mut ahead = self.cursor.clone();
            ahead.skip_while(Cursor::is_blank);
            let goes_on = match ahead.peek(0) {
                b'#' | 0 => false,
                b':' => !ahead.is_blank_or_end(1),
                b',' | b'?' | b'[' | b']' | b'{' | b'}' => !in_flow,
                _ => !ahead.is_break(),
            };
            if ahead.offset() == self.cursor.offset() || !goes_on {
                return;
            }
            self.cursor = ahead;
        }
    }

    /// Skips blanks and line breaks behind a piece of a plain scalar; whether the scalar may go on there.
    fn skip_blanks_in_plain(&mut self, breaks: &mut Breaks, indent: isize) -> Scanned<bool> {
        let column =
            |scanner: &Self| isize::try_from(scanner.cursor.mark.column).unwrap_or(isize::MAX);
        loop {
            if self.cursor.is_blank() {
                if breaks.has_any && column(self) < indent && self.cursor.peek(0) == b'\t' {
                    return self.problem("a tab cannot indent");
                }
                self.cursor.skip();
            } else if self.cursor.is_break() {
                breaks.push(self.cursor.skip_break());
            } else {
                return Ok(self.is_in_flow() || column(self) >= indent);
            }
        }
    }

    pub(super) fn scan_quoted_scalar(&mut self) -> Scanned<Cow<'a, str>> {
        let quote = self.cursor.peek(0);
        self.cursor.skip();
        let mut text = Gathered::new();
        loop {
            if self.cursor.is_document_indicator() {
                return self.problem("a document cannot end inside quotes");
            }
            if self.cursor.is_end() {
                return self.problem("expected the closing quote");
            }
            let mut breaks = Breaks::default();
            let is_continued = self.quoted_line(quote, &mut text)?;
            if self.cursor.peek(0) == quote {
                break;
            }
            let start = self.cursor.offset();
            self.cursor.skip_while(Cursor::is_blank);
            let blanks = self.cursor.since(start);
            while self.cursor.is_break() {
                breaks.push(self.cursor.skip_break());
                self.cursor.skip_while(Cursor::is_blank);
            }
            if breaks.has_any {
                // Behind an escaped line break all further ones count.
                if is_continued {
                    breaks.keep_into(&mut text);
                } else {
                    breaks.fold_into(&mut text);
                }
            } else if !is_continued {
                text.push(blanks);
            }
        }
        self.cursor.skip();
        Ok(text.finish())
    }

    /// Scans up to a blank, a line break or the closing quote; whether the line break was escaped.
    fn quoted_line(&mut self, quote: u8, text: &mut Gathered<'a>) -> Scanned<bool> {
        loop {
            let start = self.cursor.offset();
            self.cursor.skip_while(|cursor| {
                let byte = cursor.peek(0);
                byte != quote && !(byte == b'\\' && quote == b'"') && !cursor.is_blank_or_end(0)
            });
            text.push(self.cursor.since(start));
            match self.cursor.peek(0) {
                b'\'' if quote == b'\'' && self.cursor.peek(1) == b'\'' => {
                    self.cursor.skip_ascii(2);
                    text.push_char('\'');
                }
                b'\\' if quote == b'"' && self.cursor.break_length(1) > 0 => {
                    self.cursor.skip();
                    self.cursor.skip_break();
                    return Ok(true);
                }
                b'\\' if quote == b'"' => {
                    let character = self.escape()?;
                    text.push_char(character);
                }
                _ => return Ok(false),
            }
        }
    }

    fn escape(&mut self) -> Scanned<char> {
        let (character, digits) = match self.cursor.peek(1) {
            b'0' => ('\0', 0),
            b'a' => ('\u{7}', 0),
            b'b' => ('\u{8}', 0),
            b't' | b'\t' => ('\t', 0),
            b'n' => ('\n', 0),
            b'v' => ('\u{b}', 0),
            b'f' => ('\u{c}', 0),
            b'r' => ('\r', 0),
            b'e' => ('\u{1b}', 0),
            byte @ (b' ' | b'"' | b'\'' | b'\\') => (char::from(byte), 0),
            b'N' => ('\u{85}', 0),
            b'_' => ('\u{a0}', 0),
            b'L' => ('\u{2028}', 0),
            b'P' => ('\u{2029}', 0),
            b'x' => ('\0', 2),
            b'u' => ('\0', 4),
            b'U' => ('\0', 8),
            _ => return self.problem("unknown escape in double quotes"),
        };
        self.cursor.skip_ascii(2);
        if digits == 0 {
            return Ok(character);
        }
        let mut value = 0_u32;
        for _ in 0..digits {
            let Some(digit) = char::from(self.cursor.peek(0)).to_digit(16) else {
                return self.problem("expected hexadecimal digits");
            };
            value = value << 4 | digit;
            self.cursor.skip_ascii(1);
        }
        match char::from_u32(value) {
            Some(character) => Ok(character),
            None => self.problem("the escape stands for no character"),
        }
    }

    pub(super) fn scan_block_scalar(&mut self) -> Scanned<Cow<'a, str>> {
        let is_folded = self.cursor.peek(0) == b'>';
        self.cursor.skip();
        let (chomping, increment) = self.block_header()?;
        let mut indent = match increment {
            0 => 0,
            increment => usize::try_from(self.indent.max(0)).unwrap_or_default() + increment,
        };
        let mut text = String::new();
        let mut trailing = String::new();
        self.block_breaks(&mut indent, &mut trailing)?;
        let mut leading = "";
        let mut follows_blank = false;
        while self.cursor.mark.column == indent && !self.cursor.is_end() {
            let begins_blank = self.cursor.is_blank();
            if is_folded && !follows_blank && !begins_blank && leading == "\n" {
                if trailing.is_empty() {
                    text.push(' ');
                }
            } else {
                text.push_str(leading);
            }
            text.push_str(&trailing);
            trailing.clear();
            follows_blank = begins_blank;
            let start = self.cursor.offset();
            self.cursor.skip_while(|cursor| !cursor.is_break_or_end());
            text.push_str(self.cursor.since(start));
            leading = self.cursor.skip_break();
            self.block_breaks(&mut indent, &mut trailing)?;
        }
        if chomping != Chomping::Strip {
            text.push_str(leading);
        }
        if chomping == Chomping::Keep {
            text.push_str(&trailing);
        }
        Ok(Cow::Owned(text))
    }

    /// What may stand behind `|` and `>`: chomping and indentation in any order, and a comment.
    fn block_header(&mut self) -> Scanned<(Chomping, usize)> {
        let mut chomping = self.chomping();
        let mut increment = 0;
        let digit = self.cursor.peek(0);
        if digit == b'0' {
            return self.problem("the indentation of a block is at least 1");
        }
        if digit.is_ascii_digit() {
            increment = usize::from(digit - b'0');
            self.cursor.skip();
            chomping = chomping.or_else(|| self.chomping());
        }
        self.cursor.skip_blanks_and_comment();
        if !self.cursor.is_break_or_end() {
            return self.problem("expected a comment or the end of the line");
        }
        self.cursor.skip_break();
        Ok((chomping.unwrap_or(Chomping::Clip), increment))
    }

    fn chomping(&mut self) -> Option<Chomping> {
        let chomping = match self.cursor.peek(0) {
            b'+' => Chomping::Keep,
            b'-' => Chomping::Strip,
            _ => return None,
        };
        self.cursor.skip();
        Some(chomping)
    }

    /// Skips the indentation of a line, and lines that have nothing else. The first line with more sets the
    /// indentation if that is 0.
    fn block_breaks(&mut self, indent: &mut usize, breaks: &mut String) -> Scanned<()> {
        let mut widest = 0;
        loop {
            let limit = if *indent == 0 { usize::MAX } else { *indent };
            self.cursor
                .skip_while(|cursor| cursor.mark.column < limit && cursor.peek(0) == b' ');
            let column = self.cursor.mark.column;
            widest = widest.max(column);
            if column < limit && self.cursor.peek(0) == b'\t' {
                return self.problem("a tab cannot indent");
            }
            if !self.cursor.is_break() {
                break;
            }
            breaks.push_str(self.cursor.skip_break());
        }
        if *indent == 0 {
            let least = usize::try_from(self.indent + 1).unwrap_or_default();
            *indent = widest.max(least).max(1);
        }
        Ok(())
    }

    pub(super) fn scan_tag(&mut self) -> Scanned<Token<'a>> {
        let (handle, suffix);
        if self.cursor.peek(1) == b'<' {
            self.cursor.skip_ascii(2);
            handle = "";
            suffix = self.uri("")?;
            if self.cursor.peek(0) != b'>' {
                return self.problem("expected `>` at the end of the tag");
            }
            self.cursor.skip();
        } else {
            let head = self.tag_handle();
            if head.len() > 1 && head.ends_with('!') {
                handle = head;
                suffix = self.uri("")?;
            } else {
                let rest = self.uri(head)?;
                // The tag `!` alone has no handle.
                (handle, suffix) = match rest.as_str() {
                    "" => ("", "!".to_owned()),
                    _ => ("!", rest),
                };
            }
        }
        if !self.cursor.is_blank_or_end(0) {
            return self.problem("expected a blank or the end of the line behind the tag");
        }
        Ok(Token::Tag { handle, suffix })
    }

    /// `!`, `!word`, or `!word!`.
    fn tag_handle(&mut self) -> &'a str {
        let start = self.cursor.offset();
        self.cursor.skip();
        self.cursor.skip_word();
        if self.cursor.peek(0) == b'!' {
            self.cursor.skip();
        }
        self.cursor.since(start)
    }

    /// A tag's text; `head` was read already and begins with `!`, which is not part of it.
    fn uri(&mut self, head: &str) -> Scanned<String> {
        let mut uri: Vec<u8> = head.bytes().skip(1).collect();
        let mut is_there = !head.is_empty();
        loop {
            let byte = self.cursor.peek(0);
            if byte == b'%' {
                uri.push(self.uri_escape()?);
            } else if byte.is_ascii_alphanumeric() || b"_-;/?:@&=+$,.!~*'()[]".contains(&byte) {
                uri.push(byte);
                self.cursor.skip();
            } else {
                break;
            }
            is_there = true;
        }
        if !is_there {
            return self.problem("expected a tag");
        }
        match String::from_utf8(uri) {
            Ok(uri) => Ok(uri),
            Err(_not_utf8) => self.problem("the escapes of the tag are not UTF-8"),
        }
    }

    fn uri_escape(&mut self) -> Scanned<u8> {
        let digit = |ahead: usize| char::from(self.cursor.peek(ahead)).to_digit(16);
        let (Some(high), Some(low)) = (digit(1), digit(2)) else {
            return self.problem("expected two hexadecimal digits behind `%`");
        };
        self.cursor.skip_ascii(3);
        Ok(u8::try_from(high * 16 + low).unwrap_or_default())
    }

    pub(super) fn scan_directive(&mut self) -> Scanned<Token<'a>> {
        self.cursor.skip();
        let name = self.cursor.skip_word();
        if !self.cursor.is_blank_or_end(0) {
            return self.problem("expected the name of a directive");
        }
        self.cursor.skip_while(Cursor::is_blank);
        let token = match name {
            "YAML" => self.version()?,
            "TAG" => self.tag_prefix()?,
            _ => return self.problem("there is no such directive"),
        };
        self.cursor.skip_blanks_and_comment();
        if !self.cursor.is_break_or_end() {
            return self.problem("expected a comment or the end of the line");
        }
        self.cursor.skip_break();
        Ok(token)
    }

    fn version(&mut self) -> Scanned<Token<'a>> {
        let major = self.version_number()?;
        if self.cursor.peek(0) != b'.' {
            return self.problem("expected `.` in the version");
        }
        self.cursor.skip();
        let minor = self.version_number()?;
        Ok(Token::Version {
            is_supported: (major, minor) == (1, 1),
        })
    }

    fn version_number(&mut self) -> Scanned<u32> {
        let start = self.cursor.offset();
        self.cursor
            .skip_while(|cursor| cursor.peek(0).is_ascii_digit());
        let digits = self.cursor.since(start);
        if !(1..=2).contains(&digits.len()) {
            return self.problem("expected one or two digits");
        }
        Ok(digits.parse().unwrap_or_default())
    }

    fn tag_prefix(&mut self) -> Scanned<Token<'a>> {
        if self.cursor.peek(0) != b'!' {
            return self.problem("expected `!` at the start of the handle");
        }
        let handle = self.tag_handle();
        if handle != "!" && !handle.ends_with('!') {
            return self.problem("expected `!` at the end of the handle");
        }
        if !self.cursor.is_blank() {
            return self.problem("expected a blank behind the handle");
        }
        self.cursor.skip_while(Cursor::is_blank);
        let prefix = self.uri("")?;
        if !self.cursor.is_blank_or_end(0) {
            return self.problem("expected a blank or the end of the line behind the prefix");
        }
        Ok(Token::TagPrefix { handle, prefix })
    }
}

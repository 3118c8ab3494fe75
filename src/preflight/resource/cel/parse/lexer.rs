//! CEL text to tokens.

use std::fmt;

use crate::preflight::resource::cel::syntax::{Literal, ParseError};

/// The signs, longer ones first. `in` is a word, but an operator.
const SIGNS: [&str; 25] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",",
    "(", ")", "[", "]", "{", "}", "in",
];

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Name(String),
    Literal(Literal),
    /// 9223372036854775808, which is a number only behind a minus.
    LeastInt,
    Sign(&'static str),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Literal(Literal::Int(number)) => number.fmt(f),
            Self::Literal(Literal::Text(text)) => write!(f, "{text:?}"),
            Self::Literal(_) | Self::LeastInt => f.write_str("a value"),
            Self::Sign(sign) => f.write_str(sign),
        }
    }
}

/// Reads tokens from the front of a text.
pub(super) struct Lexer<'a> {
    rest: &'a str,
}

fn syntax<T>(problem: &str) -> Result<T, ParseError> {
    Err(ParseError::Syntax(problem.to_owned()))
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    pub(super) fn tokens(mut self) -> Result<Vec<Token>, ParseError> {
        let mut tokens = Vec::new();
        loop {
            self.rest = self.rest.trim_start();
            if self.rest.is_empty() {
                return Ok(tokens);
            }
            if self.rest.starts_with("//") {
                self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
                continue;
            }
            tokens.push(self.token()?);
        }
    }

    fn advance(&mut self, bytes: usize) -> &'a str {
        let (head, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        head
    }

    fn token(&mut self) -> Result<Token, ParseError> {
        if let Some(text) = self.quoted()? {
            return Ok(Token::Literal(text));
        }
        let mut characters = self.rest.chars();
        let (first, second) = (characters.next(), characters.next());
        let is_number = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        if is_number(first) || (first == Some('.') && is_number(second)) {
            return self.number();
        }
        if first == Some('`') {
            let Some((name, rest)) = self.rest.get(1..).and_then(|rest| rest.split_once('`'))
            else {
                return syntax("a quoted name does not end");
            };
            self.rest = rest;
            return Ok(Token::Name(name.to_owned()));
        }
        let length = self
            .rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(self.rest.len());
        if length > 0 {
            return Ok(match self.advance(length) {
                "in" => Token::Sign("in"),
                name => Token::Name(name.to_owned()),
            });
        }
        match SIGNS.iter().find(|sign| self.rest.starts_with(**sign)) {
            Some(sign) => {
                self.advance(sign.len());
                Ok(Token::Sign(sign))
            }
            None => syntax(&format!("unexpected {:?}", first.unwrap_or_default())),
        }
    }

    fn number(&mut self) -> Result<Token, ParseError> {
        let bytes = self.rest.as_bytes();
        if let Some(digits) = self
            .rest
            .strip_prefix("0x")
            .or(self.rest.strip_prefix("0X"))
        {
            let length = digits
                .find(|c: char| !c.is_ascii_hexdigit())
                .unwrap_or(digits.len());
            let text = self.advance(length + 2).get(2..).unwrap_or_default();
            let number = u64::from_str_radix(text, 16);
            return self.whole(number.ok());
        }
        let digits = |from: usize| {
            bytes
                .iter()
                .skip(from)
                .take_while(|b| b.is_ascii_digit())
                .count()
        };
        let mut length = digits(0);
        let mut is_whole = true;
        if bytes.get(length) == Some(&b'.') && digits(length + 1) > 0 {
            length += 1 + digits(length + 1);
            is_whole = false;
        }
        if matches!(bytes.get(length), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
            if digits(length + 1 + sign) > 0 {
                length += 1 + sign + digits(length + 1 + sign);
                is_whole = false;
            }
        }
        let text = self.advance(length);
        if is_whole {
            return self.whole(text.parse().ok());
        }
        match text.parse() {
            Ok(number) => Ok(Token::Literal(Literal::Double(number))),
            Err(_) => syntax(&format!("{text} is no number")),
        }
    }

    fn whole(&mut self, number: Option<u64>) -> Result<Token, ParseError> {
        let Some(number) = number else {
            return syntax("a number is too large");
        };
        if self.rest.starts_with(['u', 'U']) {
            self.advance(1);
            return Ok(Token::Literal(Literal::Uint(number)));
        }
        match i64::try_from(number) {
            Ok(number) => Ok(Token::Literal(Literal::Int(number))),
            Err(_) if number == i64::MIN.unsigned_abs() => Ok(Token::LeastInt),
            Err(_) => syntax("a number is too large"),
        }
    }

    /// A text or bytes, if one comes next.
    fn quoted(&mut self) -> Result<Option<Literal>, ParseError> {
        let (mut is_raw, mut is_bytes) = (false, false);
        let mut body = self.rest;
        for _ in 0..2 {
            if let Some(rest) = body.strip_prefix(['r', 'R']).filter(|_| !is_raw) {
                (is_raw, body) = (true, rest);
            } else if let Some(rest) = body.strip_prefix(['b', 'B']).filter(|_| !is_bytes) {
                (is_bytes, body) = (true, rest);
            }
        }
        let Some(quotes) = ["\"\"\"", "'''", "\"", "'"]
            .into_iter()
            .find(|quotes| body.starts_with(quotes))
        else {
            return Ok(None);
        };
        let mut body = body.get(quotes.len()..).unwrap_or_default();
        let mut bytes = Vec::new();
        loop {
            if let Some(rest) = body.strip_prefix(quotes) {
                self.rest = rest;
                break;
            }
            let Some(c) = body
                .chars()
                .next()
                .filter(|c| *c != '\n' || quotes.len() == 3)
            else {
                return syntax("a text does not end");
            };
            body = body.get(c.len_utf8()..).unwrap_or_default();
            if c == '\\' && !is_raw {
                body = escape(body, is_bytes, &mut bytes)?;
            } else {
                bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        if is_bytes {
            return Ok(Some(Literal::Bytes(bytes)));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(Literal::Text(text))),
            Err(_) => syntax("a text is not UTF-8"),
        }
    }
}

/// Reads what follows a backslash, and gives back what follows that.
fn escape<'a>(body: &'a str, is_bytes: bool, out: &mut Vec<u8>) -> Result<&'a str, ParseError> {
    let Some(c) = body.chars().next() else {
        return syntax("a text does not end");
    };
    let rest = body.get(c.len_utf8()..).unwrap_or_default();
    let simple = match c {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' | '\'' | '"' | '`' | '?' => c,
        _ => '\0',
    };
    if simple != '\0' {
        out.extend_from_slice(simple.encode_utf8(&mut [0; 4]).as_bytes());
        return Ok(rest);
    }
    let (digits, radix, from) = match c {
        'x' | 'X' => (2, 16, rest),
        'u' => (4, 16, rest),
        'U' => (8, 16, rest),
        '0'..='3' => (3, 8, body),
        _ => return syntax(&format!("unknown escape \\{c}")),
    };
    let code = from
        .get(..digits)
        .and_then(|digits| u32::from_str_radix(digits, radix).ok());
    let Some(code) = code else {
        return syntax(&format!("incomplete escape \\{c}"));
    };
    if is_bytes && digits < 4 {
        // Two hexadecimal or three octal digits from 0 to 3 are a byte.
        out.push(u8::try_from(code).unwrap_or_default());
    } else if let Some(c) = char::from_u32(code) {
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        return syntax("an escape is no character");
    }
    Ok(from.get(digits..).unwrap_or_default())
}

//! Text to [`Range`].
//!
//! ```text
//! range    = group { "||" group }                 after hyphen ranges were rewritten
//! group    = ws compar { sep compar } ws          sep = ws1 | ws "," ws
//! compar   = op ws literal
//! literal  = [ "v" ] comp [ "." comp [ "." comp ] ] [ "-" ids ] [ "+" ids ]
//! comp     = one or more of 0-9 x X * |           ids = id { "." id }, id = one or more of 0-9 A-Z a-z -
//! hyphen   = ws literal ws1 "-" ws1 literal ws    becomes ">= A, <= B "
//! ```
//!
//! `ws` is blank, tab, line feed, form feed and carriage return. A bar belongs to the characters of a component: an
//! oddity of the language that decides how hyphen ranges beside `||` are read.

use super::super::loose::{MAX_VERSION_BYTES, loose_identifiers};
use super::super::{Identifier, Version, VersionError, number};
use super::{
    Comparator, Expected, Group, LiteralFault, MAX_GROUPS, MAX_RANGE_BYTES, Operator, Position,
    Precision, Range, RangeError,
};

/// Parses a whole range.
pub(super) fn range(text: &str) -> Result<Range, RangeError> {
    if text.len() > MAX_RANGE_BYTES {
        return Err(RangeError::TooLong);
    }
    let rewritten = rewrite_hyphens(text);
    let source = Source {
        text: rewritten.as_deref().unwrap_or(text),
        rewritten: rewritten.is_some(),
    };
    if source.text.split("||").count() > MAX_GROUPS {
        return Err(RangeError::TooManyGroups);
    }
    let mut groups = Vec::new();
    let mut start = 0;
    for text in source.text.split("||") {
        groups.push(group(&source, start, text)?);
        start += text.len() + "||".len();
    }
    Ok(Range { groups })
}

/// What is being parsed, for positions.
struct Source<'a> {
    text: &'a str,
    rewritten: bool,
}

impl Source<'_> {
    fn at(&self, byte: usize) -> Position {
        Position {
            byte,
            text: self.text.to_owned(),
            rewritten: self.rewritten,
        }
    }
}

/// Reads a text from the front.
#[derive(Clone, Copy)]
struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    /// Takes the longest run of bytes that satisfy `wanted`, which must hold for ASCII only.
    fn run(&mut self, wanted: impl Fn(u8) -> bool) -> &'a str {
        let end = self
            .rest
            .bytes()
            .position(|byte| !wanted(byte))
            .unwrap_or(self.rest.len());
        let (run, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        run
    }

    fn blanks(&mut self) -> &'a str {
        self.run(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\x0c' | b'\r'))
    }

    fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// `lead` followed by a non-empty run, or nothing.
    fn led_run(&mut self, lead: &str, wanted: impl Fn(u8) -> bool) -> Option<&'a str> {
        let mut ahead = *self;
        if !ahead.take(lead) {
            return None;
        }
        let run = ahead.run(wanted);
        if run.is_empty() {
            return None;
        }
        *self = ahead;
        Some(run)
    }

    /// `lead` followed by dot-separated identifiers, or nothing.
    fn identifiers(&mut self, lead: &str) -> Option<&'a str> {
        let is_id = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let before = self.rest.strip_prefix(lead)?;
        self.led_run(lead, is_id)?;
        while self.led_run(".", is_id).is_some() {}
        before.get(..before.len() - self.rest.len())
    }

    fn literal(&mut self) -> Option<Literal<'a>> {
        let is_component = |byte: u8| byte.is_ascii_digit() || b"xX*|".contains(&byte);
        let mut ahead = *self;
        ahead.take("v");
        let first = ahead.run(is_component);
        if first.is_empty() {
            return None;
        }
        let second = ahead.led_run(".", is_component);
        let third = second.and_then(|_| ahead.led_run(".", is_component));
        let prerelease = ahead.identifiers("-");
        ahead.identifiers("+");
        let written = self
            .rest
            .get(..self.rest.len() - ahead.rest.len())
            .unwrap_or_default();
        *self = ahead;
        Some(Literal {
            written,
            components: [Some(first), second, third],
            prerelease,
        })
    }
}

/// A literal as the grammar reads it.
struct Literal<'a> {
    written: &'a str,
    components: [Option<&'a str>; 3],
    prerelease: Option<&'a str>,
}

/// The text with its hyphen ranges written as comparators, if it has any.
///
/// All are found first; then each one's text is replaced where it first occurs.
fn rewrite_hyphens(text: &str) -> Option<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut scanner = Scanner { rest };
        if let Some((from, to)) = hyphen(&mut scanner) {
            let matched = rest.get(..rest.len() - scanner.rest.len())?;
            found.push((matched, format!(">= {from}, <= {to} ")));
            rest = scanner.rest;
        } else {
            let mut characters = rest.chars();
            characters.next();
            rest = characters.as_str();
        }
    }
    if found.is_empty() {
        return None;
    }
    let mut working = text.to_owned();
    for (matched, replacement) in found {
        working = working.replacen(matched, &replacement, 1);
    }
    Some(working)
}

fn hyphen<'a>(scanner: &mut Scanner<'a>) -> Option<(&'a str, &'a str)> {
    scanner.blanks();
    let from = scanner.literal()?;
    let before = scanner.blanks();
    let dash = scanner.take("-");
    let after = scanner.blanks();
    if before.is_empty() || !dash || after.is_empty() {
        return None;
    }
    let to = scanner.literal()?;
    scanner.blanks();
    Some((from.written, to.written))
}

/// Parses the group `text`, which begins at byte `start` of the source.
fn group(source: &Source<'_>, start: usize, text: &str) -> Result<Group, RangeError> {
    let position = |rest: &str| start + text.len() - rest.len();
    let wrong = |rest: &str, expected: Expected| RangeError::Grammar {
        group: text.to_owned(),
        at: source.at(position(rest)),
        expected,
    };
    let mut scanned = Vec::new();
    let mut scanner = Scanner { rest: text };
    scanner.blanks();
    loop {
        if scanner.rest.is_empty() || scanner.rest.starts_with(',') {
            return Err(wrong(scanner.rest, Expected::Comparator));
        }
        let before_operator = scanner.rest;
        let symbols = scanner.run(|byte| b"=!<>~^".contains(&byte));
        let operator =
            operator(symbols).ok_or_else(|| wrong(before_operator, Expected::Operator))?;
        scanner.blanks();
        let at = position(scanner.rest);
        let Some(literal) = scanner.literal() else {
            return Err(wrong(scanner.rest, Expected::Version));
        };
        scanned.push((symbols, operator, at, literal));
        let blanks = scanner.blanks();
        if scanner.rest.is_empty() {
            break;
        }
        if scanner.take(",") {
            scanner.blanks();
        } else if blanks.is_empty() {
            return Err(wrong(scanner.rest, Expected::Separator));
        }
    }
    // The grammar of the whole group comes before the meaning of its literals.
    let comparators = scanned
        .into_iter()
        .map(|(symbols, operator, at, literal)| {
            comparator(symbols, operator, &literal).map_err(|fault| RangeError::Literal {
                literal: literal.written.to_owned(),
                at: source.at(at),
                fault,
            })
        })
        .collect::<Result<_, _>>()?;
    Ok(Group { comparators })
}

fn operator(symbols: &str) -> Option<Operator> {
    Some(match symbols {
        "" | "=" => Operator::Equal,
        "!=" => Operator::NotEqual,
        ">" => Operator::Greater,
        "<" => Operator::Less,
        ">=" | "=>" => Operator::GreaterOrEqual,
        "<=" | "=<" => Operator::LessOrEqual,
        "~" | "~>" => Operator::Tilde,
        "^" => Operator::Caret,
        _ => return None,
    })
}

fn comparator(
    symbols: &str,
    operator: Operator,
    literal: &Literal<'_>,
) -> Result<Comparator, LiteralFault> {
    let [first, second, third] = literal.components;
    let fixed = |component: Option<&str>| match component {
        None | Some("x" | "X" | "*") => None,
        Some(digits) => Some(component_number(digits)),
    };
    let (precision, numbers) = match fixed(first) {
        None => (Precision::Any, [0, 0, 0]),
        Some(major) => {
            let major = major?;
            match fixed(second) {
                None => (Precision::Major, [major, 0, 0]),
                Some(minor) => {
                    let minor = minor?;
                    match fixed(third) {
                        None => (Precision::Minor, [major, minor, 0]),
                        Some(patch) => (Precision::Full, [major, minor, patch?]),
                    }
                }
            }
        }
    };
    let prerelease = prerelease_of(literal)?;
    if measured_length(literal, precision) > MAX_VERSION_BYTES {
        return Err(LiteralFault::TooLong);
    }
    let [major, minor, patch] = numbers;
    Ok(Comparator {
        operator,
        written: format!("{symbols}{}", literal.written),
        floor: Version {
            major,
            minor,
            patch,
            prerelease,
            build: String::new(),
        },
        precision,
    })
}

fn component_number(digits: &str) -> Result<u64, LiteralFault> {
    if !super::super::is_digits(digits) {
        return Err(LiteralFault::Component(digits.to_owned()));
    }
    number(digits).map_err(|error| match error {
        VersionError::OutOfRange(digits) => LiteralFault::NumberTooLarge(digits),
        _ => LiteralFault::Component(digits.to_owned()),
    })
}

fn prerelease_of(literal: &Literal<'_>) -> Result<Vec<Identifier>, LiteralFault> {
    match literal.prerelease {
        None => Ok(Vec::new()),
        Some(text) => loose_identifiers(text).map_err(LiteralFault::Prerelease),
    }
}

/// The length that the limit is about: of the literal itself when all numbers are fixed, else of `c1.c2.0[-pre]`.
fn measured_length(literal: &Literal<'_>, precision: Precision) -> usize {
    let length = |component: Option<&str>| component.map_or(0, str::len);
    let [first, second, _] = literal.components;
    let numbers = match precision {
        Precision::Full => return literal.written.len(),
        Precision::Any => "0.0.0".len(),
        Precision::Major => length(first) + ".0.0".len(),
        Precision::Minor => length(first) + length(second) + "..0".len(),
    };
    numbers + literal.prerelease.map_or(0, |text| text.len() + 1)
}

//! The range language of `skipRange` (the spec calls it B).
//!
//! Terms joined by blanks must all hold; `||`, a word of its own, joins alternatives. A term is an operator and a
//! whole version, or one that ends in `x`. There is no gate for pre-releases: precedence decides.
//!
//! The language is that of blang/semver v4.0.0, bit for bit, because catalogs are full of such ranges: a lone one-byte
//! word is dropped, `x` anywhere makes a term a wildcard. One difference: an alternative that is left empty is an error
//! here (the reference's library would call a missing function). Resolution reads an error as "no edge".

use std::sync::LazyLock;

use regex::Regex;

use super::{Version, VersionError};
use crate::error::quoted;

/// A parsed range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkipRange {
    alternatives: Vec<Vec<Term>>,
}

/// An operator and a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    comparison: Comparison,
    version: Version,
}

/// How a term compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// none, `=`, `==`
    Equal,
    /// `!`, `!=`
    NotEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
}

/// Why a text is not such a range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkipRangeError {
    /// No term at all.
    #[error("empty range: expected a term such as \">=1.0.0\"")]
    Empty,
    /// `||` with no term before or after it.
    #[error("expected a term such as \">=1.0.0\" {0} \"||\"")]
    EmptyAlternative(Side),
    /// A term without a digit.
    #[error("term {} at position {at}: expected a version", quoted(.term))]
    NoVersion {
        /// The term, its blanks left out.
        term: String,
        /// Bytes from the start of the range, counted from 1.
        at: usize,
    },
    /// A term whose operator is none.
    #[error(
        "term {} at position {at}: {} is no operator: expected one of = == ! != > >= < <=",
        quoted(.term),
        quoted(.operator)
    )]
    Operator {
        /// The term, its blanks left out.
        term: String,
        /// What stands before its first digit.
        operator: String,
        /// Bytes from the start of the range, counted from 1.
        at: usize,
    },
    /// A term whose version is none.
    #[error("term {} at position {at}: expected a version: {fault}", quoted(.term))]
    Version {
        /// The term, its blanks left out.
        term: String,
        /// Bytes from the start of the range, counted from 1.
        at: usize,
        /// What is wrong with the version.
        fault: VersionError,
    },
}

/// Where a term is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Before the first `||`.
    Before,
    /// After the last `||`.
    After,
    /// Between two `||`.
    Between,
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Before => "before the first",
            Self::After => "after the last",
            Self::Between => "between each two",
        })
    }
}

/// A word of the range.
struct Token {
    text: String,
    /// Bytes from the start of the range, counted from 1.
    at: usize,
}

impl SkipRange {
    /// Parses a range.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn parse(text: &str) -> Result<Self, SkipRangeError> {
        let tokens = tokens(text);
        let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else {
            return Err(SkipRangeError::Empty);
        };
        if first.text == "||" {
            return Err(SkipRangeError::EmptyAlternative(Side::Before));
        }
        if last.text == "||" {
            return Err(SkipRangeError::EmptyAlternative(Side::After));
        }
        let mut alternatives = Vec::new();
        for words in tokens.split(|token| token.text == "||") {
            if words.is_empty() {
                return Err(SkipRangeError::EmptyAlternative(Side::Between));
            }
            let mut terms = Vec::new();
            for token in words {
                for plain in expand(token)? {
                    terms.push(term(&plain, token)?);
                }
            }
            alternatives.push(terms);
        }
        Ok(Self { alternatives })
    }

    /// Whether `version` is in the range. Its build metadata plays no part.
    pub fn contains(&self, version: &Version) -> bool {
        self.alternatives
            .iter()
            .any(|terms| terms.iter().all(|term| term.holds(version)))
    }

    /// The alternatives, each with the terms that must all hold, wildcards already expanded.
    pub fn alternatives(&self) -> &[Vec<Term>] {
        &self.alternatives
    }
}

impl Term {
    /// How it compares.
    pub fn comparison(&self) -> Comparison {
        self.comparison
    }

    /// With what.
    pub fn version(&self) -> &Version {
        &self.version
    }

    fn holds(&self, version: &Version) -> bool {
        match self.comparison {
            Comparison::Equal => version == &self.version,
            Comparison::NotEqual => version != &self.version,
            Comparison::Greater => version > &self.version,
            Comparison::GreaterOrEqual => version >= &self.version,
            Comparison::Less => version < &self.version,
            Comparison::LessOrEqual => version <= &self.version,
        }
    }
}

/// The words: a blank ends one unless the last other byte is `>`, `<` or `=`; one-byte words are dropped; blanks
/// inside a word vanish.
fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut last_byte = 0;
    let mut keep = |start: usize, end: usize| {
        let raw = text.get(start..end).unwrap_or_default();
        if raw.len() > 1 {
            found.push(Token {
                text: raw.replace(' ', ""),
                at: start + 1,
            });
        }
    };
    for (index, byte) in text.bytes().enumerate() {
        if byte != b' ' {
            last_byte = byte;
        } else if !matches!(last_byte, b'>' | b'<' | b'=') {
            keep(start, index);
            start = index + 1;
        }
    }
    keep(start, text.len());
    found
}

/// A token's operator, trimmed, and what begins with its first decimal digit.
fn split_operator(text: &str) -> Option<(&str, &str)> {
    static DIGIT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\p{Nd}").expect("a constant pattern"));
    let at = DIGIT.find(text)?.start();
    let (operator, rest) = text.split_at_checked(at)?;
    Some((operator.trim(), rest))
}

/// The plain terms that a token with an `x` stands for; any other token stands for itself.
fn expand(token: &Token) -> Result<Vec<String>, SkipRangeError> {
    if !token.text.contains('x') {
        return Ok(vec![token.text.clone()]);
    }
    let (operator, rest) =
        split_operator(&token.text).ok_or_else(|| SkipRangeError::NoVersion {
            term: token.text.clone(),
            at: token.at,
        })?;
    let wildcard = (rest.rsplit('.').next() == Some("x")).then(|| rest.split('.').count());
    let mut flat = rest.replacen(".x.x", ".x", 1).replacen(".x", ".0", 1);
    if flat.split('.').count() == 2 {
        flat.push_str(".0");
    }
    let bumped = match wildcard {
        Some(3) => bump(&flat, 1),
        Some(2) => bump(&flat, 0),
        Some(_) | None => String::new(),
    };
    Ok(match operator {
        ">" => vec![format!(">={bumped}")],
        ">=" => vec![format!(">={flat}")],
        "<" => vec![format!("<{flat}")],
        "<=" => vec![format!("<{bumped}")],
        "" | "=" | "==" => vec![format!(">={flat}"), format!("<{bumped}")],
        // Both must hold, so nothing ever does: an oddity of the language, kept.
        "!" | "!=" => vec![format!("<{flat}"), format!(">={bumped}")],
        _ => vec![flat],
    })
}

/// `version` with one more in part `index`; empty when that part is no number.
fn bump(version: &str, index: usize) -> String {
    let mut parts: Vec<String> = version.split('.').map(str::to_owned).collect();
    let Some(part) = parts.get_mut(index) else {
        return String::new();
    };
    let Ok(number) = part.parse::<i64>() else {
        return String::new();
    };
    *part = number.wrapping_add(1).to_string();
    parts.join(".")
}

fn term(plain: &str, token: &Token) -> Result<Term, SkipRangeError> {
    let (operator, version) = split_operator(plain).ok_or_else(|| SkipRangeError::NoVersion {
        term: token.text.clone(),
        at: token.at,
    })?;
    let comparison = match operator {
        "" | "=" | "==" => Comparison::Equal,
        "!" | "!=" => Comparison::NotEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        other => {
            return Err(SkipRangeError::Operator {
                term: token.text.clone(),
                operator: other.to_owned(),
                at: token.at,
            });
        }
    };
    let version = Version::parse(version).map_err(|fault| SkipRangeError::Version {
        term: token.text.clone(),
        at: token.at,
        fault,
    })?;
    Ok(Term {
        comparison,
        version,
    })
}

//! The range language of `spec.source.catalog.version` (the spec calls it M).
//!
//! A range is groups joined by `||`; a group is comparators joined by blanks or commas, all of which must hold; a
//! comparator is an operator and a literal, in which trailing numbers may be missing or wild. Hyphen ranges are
//! rewritten to comparators before anything else. See [`parse`] for the grammar.
//!
//! The language is that of Masterminds/semver v3.5.0, oddities included: existing manifests mean what they meant.
//! Pre-releases match only a group in which some literal carries one.

pub mod admission;
pub mod explain;
mod parse;

use std::fmt;

use super::{IdentifierError, Version};
use crate::error::quoted;

pub use admission::{ADMISSION_PATTERN, MAX_ADMITTED_CHARACTERS};

/// The longest range, in bytes.
pub const MAX_RANGE_BYTES: usize = 512;

/// The most groups of a range.
pub const MAX_GROUPS: usize = 32;

/// A parsed range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    groups: Vec<Group>,
}

/// Comparators that must all hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    comparators: Vec<Comparator>,
}

/// An operator and a literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparator {
    operator: Operator,
    /// Operator and literal as written, the blanks between them left out.
    written: String,
    /// The lowest version that the literal stands for, its pre-release included.
    floor: Version,
    precision: Precision,
}

/// The operators; aliases are already told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// none, `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `>`
    Greater,
    /// `<`
    Less,
    /// `>=`, `=>`
    GreaterOrEqual,
    /// `<=`, `=<`
    LessOrEqual,
    /// `~`, `~>`
    Tilde,
    /// `^`
    Caret,
}

/// How many numbers a literal fixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// None: `*`, `x`, `X`, whatever follows.
    Any,
    /// The first: `1`, `1.x`.
    Major,
    /// The first two: `1.2`, `1.2.x`.
    Minor,
    /// All three.
    Full,
}

/// What a pre-release needs to match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prereleases {
    /// A literal of the group that carries one. This is what resolution uses.
    Gated,
    /// Nothing.
    Included,
}

/// Why a text is not a range.
///
/// The text is what reaches `Progressing`; [`RangeError::hint`] says where and what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// More than [`MAX_RANGE_BYTES`].
    #[error("constraint string is too long (max {MAX_RANGE_BYTES} bytes)")]
    TooLong,
    /// More than [`MAX_GROUPS`].
    #[error("too many constraint groups (max {MAX_GROUPS})")]
    TooManyGroups,
    /// A group does not fit the grammar.
    #[error("improper constraint: {}", quoted(.group))]
    Grammar {
        /// The group, after hyphen ranges were rewritten.
        group: String,
        /// Where.
        at: Position,
        /// What was expected there.
        expected: Expected,
    },
    /// A literal fits the grammar, but its numbers or its pre-release do not.
    #[error("constraint parser error")]
    Literal {
        /// The literal.
        literal: String,
        /// Where it stands.
        at: Position,
        /// What is wrong with it.
        fault: LiteralFault,
    },
}

/// A place in a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// Bytes from the start of `text`.
    pub byte: usize,
    /// The range, or what it became when its hyphen ranges were rewritten.
    pub text: String,
    /// Whether `text` is the rewritten form.
    pub rewritten: bool,
}

/// What the grammar wants at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// A comparator, where there is nothing.
    Comparator,
    /// A version after an operator.
    Version,
    /// One of the operators.
    Operator,
    /// A blank, a comma, `||` or the end.
    Separator,
}

/// What is wrong with a literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiteralFault {
    /// A component is neither a number nor one wildcard character.
    Component(String),
    /// A number is above `u64`.
    NumberTooLarge(String),
    /// The pre-release is wrong.
    Prerelease(IdentifierError),
    /// It is longer than a version may be.
    TooLong,
}

impl RangeError {
    /// Where the fault is and what was expected there, for people.
    pub fn hint(&self) -> String {
        match self {
            Self::TooLong => format!("shorten it to {MAX_RANGE_BYTES} bytes or fewer"),
            Self::TooManyGroups => format!("use at most {MAX_GROUPS} groups joined by ||"),
            Self::Grammar { at, expected, .. } => format!("{at}: expected {expected}"),
            Self::Literal { literal, at, fault } => {
                format!("{at}: {} {fault}", quoted(literal))
            }
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at position {}", self.byte + 1)?;
        if self.rewritten {
            write!(
                f,
                " of {} (hyphen ranges written as comparators)",
                quoted(&self.text)
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Comparator => "a comparator such as \">=1.2.3\"",
            Self::Version => "a version such as \"1.2.3\", \"1.2\" or \"1.x\"",
            Self::Operator => "one of the operators = != > < >= <= ~ ^",
            Self::Separator => "a blank, a comma, \"||\" or the end",
        })
    }
}

impl fmt::Display for LiteralFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Component(part) => {
                write!(
                    f,
                    "holds {}, which is neither a number nor one of x, X, *",
                    quoted(part)
                )
            }
            Self::NumberTooLarge(part) => write!(f, "holds the number {part}, which is too large"),
            Self::Prerelease(error) => write!(f, "has a wrong pre-release: {error}"),
            Self::TooLong => f.write_str("is too long"),
        }
    }
}

impl Range {
    /// Parses a range.
    ///
    /// # Errors
    /// Which of its rules the text breaks first, and where. The empty text is no range.
    pub fn parse(text: &str) -> Result<Self, RangeError> {
        parse::range(text)
    }

    /// Whether `version` is in the range. Its build metadata plays no part.
    pub fn contains(&self, version: &Version) -> bool {
        self.contains_with(version, Prereleases::Gated)
    }

    /// [`Self::contains`], with a say in pre-releases.
    pub fn contains_with(&self, version: &Version, prereleases: Prereleases) -> bool {
        self.groups
            .iter()
            .any(|group| group.contains(version, prereleases))
    }

    /// The groups; one of them must hold.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }
}

/// The range in its normalised form: comparators as written, one blank between them, groups joined by ` || `.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, group) in self.groups.iter().enumerate() {
            if index > 0 {
                f.write_str(" || ")?;
            }
            write!(f, "{group}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, comparator) in self.comparators.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            f.write_str(&comparator.written)?;
        }
        Ok(())
    }
}

impl Group {
    /// The comparators; all must hold.
    pub fn comparators(&self) -> &[Comparator] {
        &self.comparators
    }

    /// Whether a literal of the group carries a pre-release.
    pub fn admits_prereleases(&self) -> bool {
        self.comparators
            .iter()
            .any(|comparator| comparator.floor.is_prerelease())
    }

    fn contains(&self, version: &Version, prereleases: Prereleases) -> bool {
        if version.is_prerelease()
            && prereleases == Prereleases::Gated
            && !self.admits_prereleases()
        {
            return false;
        }
        self.comparators
            .iter()
            .all(|comparator| comparator.holds(version))
    }
}

impl Comparator {
    /// The operator.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// Operator and literal as written.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// The lowest version of the literal.
    pub fn floor(&self) -> &Version {
        &self.floor
    }

    /// How many numbers the literal fixes.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Whether the comparator alone holds, the gate for pre-releases apart.
    pub fn holds(&self, version: &Version) -> bool {
        let floor = &self.floor;
        let same_major = version.major == floor.major;
        let same_line = same_major && version.minor == floor.minor;
        let line = (version.major, version.minor);
        let floor_line = (floor.major, floor.minor);
        match (self.operator, self.precision) {
            (Operator::GreaterOrEqual, _) | (Operator::Equal | Operator::Tilde, Precision::Any) => {
                version >= floor
            }
            (Operator::Less, _) => version < floor,

            (Operator::Greater, Precision::Full | Precision::Any) => version > floor,
            (Operator::Greater, Precision::Minor) => line > floor_line,
            (Operator::Greater, Precision::Major) => version.major > floor.major,

            (Operator::LessOrEqual, Precision::Full) => version <= floor,
            (Operator::LessOrEqual, Precision::Minor | Precision::Any) => line <= floor_line,
            (Operator::LessOrEqual, Precision::Major) => version.major <= floor.major,

            (Operator::Equal, Precision::Full) => version == floor,
            (Operator::Equal | Operator::Tilde | Operator::Caret, Precision::Major) => {
                version >= floor && same_major
            }
            (Operator::Equal | Operator::Tilde, Precision::Minor) => version >= floor && same_line,
            // `~0.0.0` has no upper end: an oddity of the language, kept.
            (Operator::Tilde, Precision::Full) => {
                version >= floor && (same_line || floor.core() == (0, 0, 0))
            }

            (Operator::Caret, Precision::Full) => {
                version >= floor
                    && if floor.major > 0 {
                        same_major
                    } else if floor.minor > 0 {
                        same_line
                    } else {
                        version.core() == floor.core()
                    }
            }
            (Operator::Caret, Precision::Minor) => {
                version >= floor
                    && if floor.major > 0 {
                        same_major
                    } else {
                        same_line
                    }
            }
            (Operator::Caret, Precision::Any) => version >= floor && version.core() == (0, 0, 0),

            (Operator::NotEqual, Precision::Full | Precision::Any) => version != floor,
            (Operator::NotEqual, Precision::Major) => !same_major,
            // Within the excluded line only a pre-release other than the literal's own escapes.
            (Operator::NotEqual, Precision::Minor) => {
                !same_line || version.prerelease != floor.prerelease
            }
        }
    }
}

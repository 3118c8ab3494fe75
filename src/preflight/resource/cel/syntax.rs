//! Expressions of CEL, as they were read.

use regex::Regex;

/// Why a text is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::preflight::resource) enum ParseError {
    /// It is no CEL.
    #[error("it is not CEL: {0}")]
    Syntax(String),
    /// It is more of CEL than is understood.
    #[error("{0} is not evaluated here")]
    Unsupported(String),
}

/// An operator between two operands, `&&` and `||` aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

/// A value that is written down.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// What a comprehension makes of its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Macro {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    OptMap,
    OptFlatMap,
}

/// An expression.
#[derive(Debug)]
pub(super) enum Expression {
    Literal(Literal),
    Name(String),
    Select {
        of: Box<Self>,
        field: String,
        is_optional: bool,
    },
    Index {
        of: Box<Self>,
        index: Box<Self>,
        is_optional: bool,
    },
    Has {
        of: Box<Self>,
        field: String,
    },
    Call {
        function: String,
        of: Option<Box<Self>>,
        arguments: Vec<Self>,
    },
    /// `matches` with an expression that is written down.
    Matches {
        of: Box<Self>,
        regex: Regex,
    },
    Comprehension {
        what: Macro,
        over: Box<Self>,
        names: Vec<String>,
        /// The condition or what is made, and for `map` perhaps both.
        parts: Vec<Self>,
    },
    List(Vec<(bool, Self)>),
    Map(Vec<(bool, Self, Self)>),
    Not(Box<Self>),
    Negate(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
    Choice(Box<Self>, Box<Self>, Box<Self>),
    Binary(Operator, Box<Self>, Box<Self>),
}

impl Expression {
    /// Whether a name occurs anywhere.
    pub(super) fn names(&self, name: &str) -> bool {
        match self {
            Self::Literal(_) => false,
            Self::Name(own) => own == name,
            Self::Select { of, .. } | Self::Has { of, .. } | Self::Matches { of, .. } => {
                of.names(name)
            }
            Self::Index { of, index, .. } => of.names(name) || index.names(name),
            Self::Call { of, arguments, .. } => {
                of.as_ref().is_some_and(|of| of.names(name))
                    || arguments.iter().any(|argument| argument.names(name))
            }
            Self::Comprehension { over, parts, .. } => {
                over.names(name) || parts.iter().any(|part| part.names(name))
            }
            Self::List(items) => items.iter().any(|(_, item)| item.names(name)),
            Self::Map(entries) => entries
                .iter()
                .any(|(_, key, value)| key.names(name) || value.names(name)),
            Self::Not(of) | Self::Negate(of) => of.names(name),
            Self::And(a, b) | Self::Or(a, b) | Self::Binary(_, a, b) => {
                a.names(name) || b.names(name)
            }
            Self::Choice(a, b, c) => a.names(name) || b.names(name) || c.names(name),
        }
    }
}

/// A compiled rule.
#[derive(Debug)]
pub(in crate::preflight::resource) struct Rule {
    pub(super) expression: Expression,
    /// What is said of a resource that breaks it.
    pub(super) message: String,
}

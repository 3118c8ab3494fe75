//! What an error means for the next attempt, and how a chain of causes becomes one line.
//!
//! Every room has its own error enum (thiserror). Each implements [`Classify`]; policy looks at the
//! [`Disposition`], never at text. [`Failure`] is the one place where a chain is printed.

use std::error::Error;

/// What to do after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// Time or somebody else can heal it: try again with back-off (`Progressing` True, reason `Retrying`).
    Retry,
    /// Only a change of spec or catalog can heal it (`Progressing` False with this reason).
    Terminal(Reason),
}

/// Why a terminal failure is terminal. The names are condition reasons of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// `Blocked`
    Blocked,
    /// `InvalidConfiguration`
    InvalidConfiguration,
}

/// Each error says what to do about it.
pub trait Classify: Error {
    /// Whether another attempt can help.
    fn disposition(&self) -> Disposition;
}

/// A failure at the end of its journey: the whole chain as one line, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The chain of messages, outermost first, joined by `: `.
    pub message: String,
    /// Whether another attempt can help.
    pub disposition: Disposition,
}

impl Failure {
    /// Prints the chain of `error`, outermost first.
    pub fn of<E: Classify>(error: &E) -> Self {
        Self {
            message: chain(error),
            disposition: error.disposition(),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// The messages of `error` and its sources, outermost first, joined by `: `.
///
/// A source whose text the message before it already ends with is left out, since some foreign errors
/// print their source themselves.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut last = text.clone();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !cause_text.is_empty() && !last.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        last = cause_text;
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open the door")]
    struct Outer(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("no key")]
    struct Inner;

    impl Classify for Outer {
        fn disposition(&self) -> Disposition {
            Disposition::Retry
        }
    }

    #[test]
    fn a_chain_is_printed_outermost_first() {
        assert_eq!(
            Failure::of(&Outer(Inner)).message,
            "cannot open the door: no key"
        );
    }
}

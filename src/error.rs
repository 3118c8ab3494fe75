//! What an error means for the next attempt, and how a chain of causes becomes one line.
//!
//! Every room has its own error enum (thiserror). Each implements [`Classify`]; policy looks at the
//! [`Disposition`], never at text. [`Failure`] is the one place where a chain is printed.

use std::error::Error;
use std::sync::LazyLock;

use regex::Regex;

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

/// What the API server says to whom may not act as an account, whatever the request was.
pub const UNIMPERSONATED: &str = " cannot impersonate ";

/// What the API server says where a webhook of admission does not answer; its name and a quote follow.
pub const DEAD_WEBHOOK: &str = "failed calling webhook \"";

/// What helps where the controller itself may not.
const IMPERSONATE: &str = "oxolm may not act as this account: add its namespace to the chart's impersonation.namespaces, or set \
     impersonation.scope to cluster";

impl Failure {
    /// Prints the chain of `error`, outermost first, and once, at its end, what helps against a refusal that the API
    /// server cannot know the cause of.
    pub fn of<E: Classify + 'static>(error: &E) -> Self {
        let mut message = chain(error);
        if message.contains(UNIMPERSONATED) {
            message = format!("{message}: {IMPERSONATE}");
        }
        Self {
            message,
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
/// print their source themselves. Of an answer of the API server its message is taken.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = own_text(error);
    let mut last = text.clone();
    let mut source = error.source().filter(|_| !is_answer(error));
    while let Some(cause) = source {
        let cause_text = own_text(cause);
        if !cause_text.is_empty() && !last.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        last = cause_text;
        source = cause.source().filter(|_| !is_answer(cause));
    }
    text
}

/// Whether the API server said so: what kube wraps around its words says nothing more.
fn is_answer(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(_)))
}

fn own_text(error: &(dyn Error + 'static)) -> String {
    if let Some(kube::Error::Api(status)) = error.downcast_ref() {
        return status.message.clone();
    }
    let text = error.to_string();
    // kube names its own type before what happened.
    match text.strip_prefix("ServiceError: ") {
        Some(what) => what.to_owned(),
        None => text,
    }
}

/// `text` in double quotes as Go's `%q` prints it: the messages that we share with the reference are made so.
pub fn quoted(text: &str) -> Quoted<'_> {
    Quoted(text)
}

/// Prints as [`quoted`] says.
#[derive(Debug, Clone, Copy)]
pub struct Quoted<'a>(&'a str);

impl std::fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::fmt::Write as _;
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\u{7}' => f.write_str("\\a")?,
                '\u{8}' => f.write_str("\\b")?,
                '\u{b}' => f.write_str("\\v")?,
                '\u{c}' => f.write_str("\\f")?,
                ' '..='~' => f.write_char(c)?,
                '\0'..='\u{7f}' => write!(f, "\\x{:02x}", u32::from(c))?,
                _ if is_printable(c) => f.write_char(c)?,
                _ if u32::from(c) < 0x1_0000 => write!(f, "\\u{:04x}", u32::from(c))?,
                _ => write!(f, "\\U{:08x}", u32::from(c))?,
            }
        }
        f.write_char('"')
    }
}

/// The categories that Go's `unicode.IsPrint` counts as printable, the space excepted.
static PRINTABLE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[\p{L}\p{M}\p{N}\p{P}\p{S}]$")
        .expect("the expression is a constant: checked by the tests")
});

/// Whether a character is a letter, mark, number, punctuation, symbol or the ASCII space: Go's `unicode.IsPrint`.
pub(crate) fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    PRINTABLE.is_match(c.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_as_go_does() {
        for (text, expected) in [
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\t\n\r\u{7}\u{0}\u{7f}", r#""\t\n\r\a\x00\x7f""#),
            ("é\u{301}世", "\"é\u{301}世\""),
            ("\u{a0}\u{feff}\u{10ffff}", r#""\u00a0\ufeff\U0010ffff""#),
        ] {
            assert_eq!(quoted(text).to_string(), expected);
        }
    }

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

    #[derive(Debug, thiserror::Error)]
    #[error("cannot write the door")]
    struct Unwritten(#[source] kube::Error);

    #[test]
    fn of_an_answer_of_the_api_server_the_message_is_said() {
        let status = kube::core::Status::failure("door \"a\" not found", "NotFound");
        let error = Unwritten(kube::Error::Api(status.with_code(404).boxed()));
        assert_eq!(chain(&error), "cannot write the door: door \"a\" not found");
    }
}

//! The page of errors: every message that oxolm's errors have, with cause and remedy, and nothing that they do not have.
#![expect(clippy::disallowed_methods, reason = "the test reads the sources")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

/// Subjects (`## …`), each with entries: a cause, a remedy, and the messages, each after the file that it is from.
const ENTRIES: &str = include_str!("generated/errors.txt");

/// The attribute that gives an error its message, in a source file.
static MESSAGE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"(?s)#\[error\(\s*"((?:[^"\\]|\\.)*)""#).unwrap());

/// Where a string literal goes on in the next line.
static CONTINUED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\\n\s*").unwrap());

/// What is put into a message.
static PLACE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{[^{}]*\}").unwrap());

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// `file: message` of every error in the sources, but not of those that only repeat another's text.
fn told() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut told = BTreeSet::new();
    for path in files {
        let file = path.strip_prefix(&root).unwrap().display().to_string();
        if file.starts_with("testing") || file.ends_with("tests.rs") || file.contains("/tests/") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        for found in MESSAGE.captures_iter(code) {
            let message = CONTINUED.replace_all(&found[1], "");
            if !PLACE.replace_all(&message, "").is_empty() {
                told.insert(format!("{file}: {message}"));
            }
        }
    }
    told
}

/// The entries as a page.
pub(super) fn page() -> String {
    let mut page = "# Errors\n\n\
        What the messages in conditions, events, logs and answers of oxolm mean, and what to do. A message is a chain, the most\n\
        general part first: look up its last part that is here. What stands for `…` is named in the message itself. What a\n\
        condition's reason means is in [conditions.md](conditions.md).\n"
        .to_owned();
    for line in ENTRIES.lines() {
        if let Some(subject) = line.strip_prefix("## ") {
            _ = write!(page, "\n## {subject}\n");
        } else if let Some(cause) = line.strip_prefix("why: ") {
            _ = write!(page, "\n{cause}\n\n");
        } else if let Some(remedy) = line.strip_prefix("do: ") {
            _ = write!(page, "**What to do:** {remedy}\n\n");
        } else if let Some((_, message)) = line.split_once(".rs: ") {
            let message = PLACE.replace_all(message, "…").replace("\\\"", "\"");
            let fence = if message.contains('`') { "``" } else { "`" };
            let entry = format!("- {fence}{message}{fence}\n");
            // The same words in two places have one meaning.
            if !page.ends_with(&entry) {
                page.push_str(&entry);
            }
        }
    }
    page
}

#[test]
fn every_error_has_a_cause_and_a_remedy() {
    let told = told();
    let mut listed = BTreeSet::new();
    let (mut causes, mut remedies) = (0, 0);
    for line in ENTRIES.lines().filter(|line| !line.is_empty()) {
        if line.starts_with("why: ") {
            causes += 1;
        } else if line.starts_with("do: ") {
            remedies += 1;
            assert_eq!(causes, remedies, "a remedy follows its cause: {line}");
        } else if !line.starts_with("## ") {
            assert_eq!(causes, remedies, "a message follows its remedy: {line}");
            assert!(listed.insert(line.to_owned()), "listed twice: {line}");
        }
    }
    assert!(causes > 30 && told.len() > 200, "{causes} {}", told.len());
    let missing: Vec<&String> = told.difference(&listed).collect();
    assert!(
        missing.is_empty(),
        "tell cause and remedy of these in src/testing/generated/errors.txt: {missing:#?}"
    );
    let gone: Vec<&String> = listed.difference(&told).collect();
    assert!(gone.is_empty(), "no error says this any more: {gone:#?}");
}

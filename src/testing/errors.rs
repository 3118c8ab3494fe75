//! The page of errors: every message that oxolm's errors have, with cause and remedy, and nothing that they do not have.
#![expect(clippy::disallowed_methods, reason = "the test reads the sources")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

/// Subjects (`## …`), each with entries: a cause, a remedy, and the messages, each after the file that it is from: `FILE: ` and
/// the whole message of an error, or `FILE ~ ` and words of a message that is put together there.
const ENTRIES: &str = include_str!("generated/errors.txt");

/// The attribute that gives an error its message, in a source file.
static MESSAGE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"(?s)#\[error\(\s*"((?:[^"\\]|\\.)*)""#).unwrap());

/// Files with errors that only pass on what others say, and who that is.
const PASSED_ON: &[(&str, &str)] = &[
    ("apply/crd_upgrade.rs", "preflight/crd_upgrade.rs"),
    ("apply/phases.rs", "revision/rollout.rs"),
    ("apply/secrets/error.rs", "apply/secrets.rs"),
    (
        "bundle/manifest.rs",
        "several problems of the objects of a list, each in the words of `bundle/typed.rs`",
    ),
    ("bundle/typed.rs", "what Go's decoder says of a schema"),
    (
        "controller/cluster_object_set/step.rs",
        "revision/validate.rs",
    ),
    ("identity/request.rs", "the API server"),
    ("render.rs", "render/validator.rs"),
    ("store/catalog/error.rs", "fbc/package.rs"),
];

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

/// The sources, without tests: the path below `src`, and the code.
fn code() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut code = Vec::new();
    for path in files {
        let file = path.strip_prefix(&root).unwrap().display().to_string();
        if file.starts_with("testing") || file.ends_with("tests.rs") || file.contains("/tests/") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        code.push((file, text.to_owned()));
    }
    code
}

/// Where the command line, whose errors have no types, gives one its words.
static TOLD_BY_CLI: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b(?:anyhow!|bail!|(ensure!)|context|with_context)\(").unwrap());

/// A text in quotes, a character in quotes, a comment, or one character.
static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?s)"((?:[^"\\]|\\.)*)"|'(?:\\[^']*|[^\\'])'|//[^\n]*|."#).unwrap()
});

/// The messages that a file of the command line gives to errors: the first text of each call, and of an `ensure!` the first
/// one after its condition.
fn told_by_cli(text: &str) -> BTreeSet<String> {
    let calls = TOLD_BY_CLI.captures_iter(text);
    let messages = calls.filter_map(|call| {
        let mut depth = 1;
        let mut is_message = call.get(1).is_none();
        let (_, rest) = text.split_at(call.get(0).unwrap().end());
        for token in TOKEN.captures_iter(rest) {
            match &token[0] {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                "," if depth == 1 => is_message = true,
                _ => {}
            }
            match token.get(1) {
                Some(words) if is_message => return Some(words.as_str()),
                _ if depth == 0 => return None,
                _ => {}
            }
        }
        None
    });
    let messages = messages.map(|message| CONTINUED.replace_all(message, "").into_owned());
    messages
        .filter(|message| !PLACE.replace_all(message, "").is_empty())
        .collect()
}

/// `file: message` of every error, and the files with errors that have no words of their own. Those of the command line are
/// all of `cli.rs`.
fn told(code: &[(String, String)]) -> (BTreeSet<String>, BTreeSet<&str>) {
    let (mut told, mut wordless) = (BTreeSet::new(), BTreeSet::new());
    for (file, text) in code {
        for found in MESSAGE.captures_iter(text) {
            let message = CONTINUED.replace_all(&found[1], "");
            if PLACE.replace_all(&message, "").is_empty() {
                wordless.insert(file.as_str());
            } else {
                told.insert(format!("{file}: {message}"));
            }
        }
        if file.starts_with("cli") {
            let messages = told_by_cli(text).into_iter();
            told.extend(messages.map(|message| format!("cli.rs: {message}")));
        }
    }
    (told, wordless)
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
        } else if let Some((_, words)) = line.split_once(".rs ~ ") {
            _ = writeln!(page, "- `{}`", PLACE.replace_all(words, "…"));
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
fn messages_of_the_command_line_are_found() {
    let text = r#"
        let file = open(path).with_context(|| format!("cannot open {}", shown("x")))?;
        ensure!(name != "a", "{name:?} is no \"a\", \
            but {}", other('"'));
        let value = found.context("nothing was found")?;
        read().with_context(failed)?;
        bail!("{why}");
    "#;
    let found = [
        "cannot open {}",
        "nothing was found",
        r#"{name:?} is no \"a\", but {}"#,
    ];
    assert_eq!(told_by_cli(text), found.map(str::to_owned).into());
}

#[test]
fn every_error_has_a_cause_and_a_remedy() {
    let code = code();
    let (told, wordless) = told(&code);
    let mut said = BTreeSet::new();
    let mut listed = BTreeSet::new();
    let (mut causes, mut remedies) = (0, 0);
    for line in ENTRIES.lines().filter(|line| !line.is_empty()) {
        if line.starts_with("why: ") {
            causes += 1;
        } else if line.starts_with("do: ") {
            remedies += 1;
            assert_eq!(causes, remedies, "a remedy follows its cause: {line}");
        } else if let Some((file, words)) = line.split_once(" ~ ") {
            let source = code.iter().find(|(found, _)| found == file);
            let (file, source) = source.unwrap_or_else(|| panic!("there is no {file}"));
            assert!(
                source.contains(words),
                "{file} does not say this any more: {words}"
            );
            said.insert(file.as_str());
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
    let is_explained = |file: &&&str| {
        said.contains(*file) || PASSED_ON.iter().any(|(passing, _)| passing == *file)
    };
    let unexplained: Vec<&&str> = wordless.iter().filter(|file| !is_explained(file)).collect();
    assert!(
        unexplained.is_empty(),
        "errors of these pass on other words: whose? (`FILE ~ WORDS` in errors.txt, or PASSED_ON) {unexplained:?}"
    );
    for (passing, by) in PASSED_ON {
        assert!(
            wordless.contains(passing),
            "{passing} passes nothing on any more"
        );
        assert!(
            by.contains(' ') || code.iter().any(|(file, _)| file == by),
            "{by}"
        );
    }
    let gone: Vec<&String> = listed.difference(&told).collect();
    assert!(gone.is_empty(), "no error says this any more: {gone:#?}");
}

//! The page of the chart: every value with its default and its comment in `values.yaml`.
#![expect(clippy::disallowed_methods, reason = "the test reads the chart")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// What the page begins with.
const INTRODUCTION: &str = include_str!("generated/chart-before.md");

/// A longer default is to be looked up.
const LONGEST_DEFAULT: usize = 60;

/// A key of the values, and the comment before it.
struct Entry {
    path: Vec<String>,
    comment: String,
}

fn values() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(root.join("charts/oxolm/values.yaml")).unwrap()
}

/// The keys of nested maps in block style, in the order of the file. (Lists are values, not keys.)
fn entries(text: &str) -> Vec<Entry> {
    let mut path: Vec<String> = Vec::new();
    let mut comment = String::new();
    let mut entries = Vec::new();
    for line in text.lines() {
        let content = line.trim_start();
        let depth = (line.len() - content.len()) / 2;
        if let Some(words) = content.strip_prefix('#') {
            let separator = if comment.is_empty() { "" } else { " " };
            _ = write!(comment, "{separator}{}", words.trim());
            continue;
        }
        let comment = std::mem::take(&mut comment);
        let Some((key, _)) = content.split_once(':') else {
            continue;
        };
        if content.starts_with('-') || depth > path.len() {
            continue;
        }
        path.truncate(depth);
        path.push(key.to_owned());
        entries.push(Entry {
            path: path.clone(),
            comment,
        });
    }
    entries
}

/// Whether the comments are about the keys in this one, not about it as a whole.
fn has_parts(entries: &[Entry], of: &Entry) -> bool {
    let is_part =
        |entry: &&Entry| entry.path.len() > of.path.len() && entry.path.starts_with(&of.path);
    entries
        .iter()
        .filter(is_part)
        .any(|entry| !entry.comment.is_empty())
}

fn default<'a>(values: &'a Value, path: &[String]) -> &'a Value {
    path.iter().fold(values, |value, key| &value[key])
}

/// All values for people.
pub(super) fn page() -> String {
    let text = values();
    let values: Value = serde_saphyr::from_str(&text).unwrap();
    let entries = entries(&text);
    let mut page = INTRODUCTION.to_owned();
    page.push_str("## Values\n\n| value | default | what it is for |\n|---|---|---|\n");
    for entry in entries.iter().filter(|entry| !entry.comment.is_empty()) {
        let name = entry.path.join(".");
        let comment = entry.comment.replace('|', "\\|").replace('<', "\\<");
        if has_parts(&entries, entry) {
            _ = writeln!(page, "| **`{name}`** | | {comment} |");
            continue;
        }
        let default = default(&values, &entry.path).to_string();
        let default = match default.len() {
            0..=LONGEST_DEFAULT => format!("`{default}`"),
            _ => "see `values.yaml`".to_owned(),
        };
        _ = writeln!(page, "| `{name}` | {default} | {comment} |");
    }
    page
}

#[test]
fn every_value_of_the_chart_has_a_comment() {
    let text = values();
    let values: Value = serde_saphyr::from_str(&text).unwrap();
    let entries = entries(&text);
    let mut explained: BTreeSet<&[String]> = BTreeSet::new();
    for entry in &entries {
        let has_value = !default(&values, &entry.path).is_null();
        assert!(has_value, "{:?} is no value", entry.path);
        let is_told = (1..=entry.path.len()).any(|depth| explained.contains(&entry.path[..depth]));
        if has_parts(&entries, entry) {
            continue;
        }
        assert!(
            is_told || !entry.comment.is_empty(),
            "say in values.yaml what {} is for",
            entry.path.join(".")
        );
        explained.insert(&entry.path);
    }
    assert!(entries.len() > 80, "{}", entries.len());
}

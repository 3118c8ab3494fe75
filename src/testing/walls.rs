//! The walls of the house, checked: no module names one above it, and shell rooms side by side do not name each other.
#![expect(clippy::disallowed_methods, reason = "the test reads the sources")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Rooms from the ground up. A room may name rooms of lower storeys; on the ground floor also its neighbours.
const STOREYS: &[&[&str]] = &[
    &["error", "metrics", "oci", "version", "api"],
    &["fbc"],
    &["resolve", "bundle"],
    &["render", "preflight", "upgradeable"],
    &["revision"],
    &["status"],
    &["registry", "store", "identity"],
    &["fetch", "serve", "apply"],
    &["controller"],
    &["runtime"],
    &["cli"],
];

/// The number of storeys that are core: they name neither kube's client nor anything that does I/O.
const CORE_STOREYS: usize = 6;

/// Names that mean I/O, a clock or the environment, for what clippy's lists cannot express.
const FORBIDDEN_IN_CORE: &[&str] = &[
    "std::fs",
    "std::env",
    "std::net",
    "std::process",
    "tokio::",
    "reqwest::",
    "kube::Client",
    "kube::Api",
    "kube::client",
    "kube::runtime",
    "tracing::",
    "SystemTime",
    "Instant::now",
    "async fn",
];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The room that a source file belongs to: the first part of its path below `src`.
fn room_of(relative: &Path) -> String {
    relative
        .iter()
        .next()
        .unwrap()
        .to_string_lossy()
        .trim_end_matches(".rs")
        .to_owned()
}

/// The file without comments and without everything from its test module on.
fn code_of(text: &str) -> String {
    let code = text
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default();
    code.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The top-level modules that `code` names through `crate::`, also inside `use crate::{a, b::c}`.
fn named_rooms(code: &str) -> Vec<String> {
    let mut rooms = Vec::new();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for (at, _) in code.match_indices("crate::") {
        let rest = code.get(at + "crate::".len()..).unwrap_or_default();
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 1;
            let mut word = String::new();
            let mut fresh = true;
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    c if is_word(c) && depth == 1 && fresh => word.push(c),
                    _ => {}
                }
                if !is_word(c) {
                    if !word.is_empty() {
                        rooms.push(std::mem::take(&mut word));
                    }
                    fresh = depth == 1 && (c == ',' || c.is_whitespace() && fresh || c == '{');
                }
                if depth == 0 {
                    break;
                }
            }
        } else {
            rooms.push(rest.chars().take_while(|c| is_word(*c)).collect());
        }
    }
    rooms
}

/// Every breach of the walls among `files` (path below `src`, text).
fn breaches(files: &[(PathBuf, String)]) -> Vec<String> {
    let storey_of: BTreeMap<&str, usize> = STOREYS
        .iter()
        .enumerate()
        .flat_map(|(level, rooms)| rooms.iter().map(move |room| (*room, level)))
        .collect();
    let mut found = Vec::new();
    for (path, text) in files {
        let room = room_of(path);
        if ["lib", "main", "testing"].contains(&room.as_str()) {
            continue;
        }
        let Some(level) = storey_of.get(room.as_str()).copied() else {
            found.push(format!(
                "{}: room {room} has no storey: add it to STOREYS",
                path.display()
            ));
            continue;
        };
        let code = code_of(text);
        for named in named_rooms(&code) {
            let Some(named_level) = storey_of.get(named.as_str()).copied() else {
                continue;
            };
            let neighbour = named_level == level && level != 0 && named != room;
            if named_level > level || neighbour {
                found.push(format!("{}: {room} names {named}", path.display()));
            }
        }
        if level < CORE_STOREYS {
            for word in FORBIDDEN_IN_CORE {
                if code.contains(word) {
                    found.push(format!("{}: core names {word}", path.display()));
                }
            }
        }
    }
    found
}

#[test]
fn no_module_names_one_above_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    sources(&root, &mut paths);
    let files: Vec<_> = paths
        .iter()
        .map(|path| {
            (
                path.strip_prefix(&root).unwrap().to_owned(),
                fs::read_to_string(path).unwrap(),
            )
        })
        .collect();
    assert!(files.len() > 10, "the sources were not found");
    let found = breaches(&files);
    assert!(
        found.is_empty(),
        "walls are breached:\n{}",
        found.join("\n")
    );
}

#[test]
fn a_breach_is_seen() {
    let file = |path: &str, text: &str| (PathBuf::from(path), text.to_owned());
    for (path, text) in [
        ("resolve.rs", "use crate::store::ContentStore;"),
        ("resolve/report.rs", "use crate::{error::Failure, status};"),
        ("apply/engine.rs", "fn f() { crate::fetch::now() }"),
        ("fbc/read.rs", "fn f() { std::fs::read(\"x\"); }"),
        ("attic.rs", ""),
    ] {
        assert_eq!(breaches(&[file(path, text)]).len(), 1, "{path}: {text}");
    }
    for (path, text) in [
        (
            "status.rs",
            "use crate::{error::{chain, status}, revision};",
        ),
        ("store.rs", "use crate::oci::digest::Digest; use std::fs;"),
        ("fbc.rs", "#[cfg(test)]\nmod tests { use crate::store; }"),
        ("api.rs", "// crate::status is above"),
    ] {
        assert_eq!(
            breaches(&[file(path, text)]),
            Vec::<String>::new(),
            "{path}: {text}"
        );
    }
}

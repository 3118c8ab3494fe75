//! The tables of `e2e/catalogs.md` and `e2e/revisions.md` name tests that exist.
#![expect(clippy::disallowed_methods, reason = "the test reads the sources")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The names of all functions below `directory`.
fn functions(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            for rest in text.split("fn ").skip(1) {
                let end = rest.find(['(', '<']).unwrap_or_default();
                found.insert(rest.get(..end).unwrap_or_default().to_owned());
            }
        }
    }
}

/// The tables, and how many rows they have at least.
const TABLES: [(&str, usize); 2] = [("e2e/catalogs.md", 50), ("e2e/revisions.md", 50)];

#[test]
fn the_tables_name_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut known = BTreeSet::new();
    functions(&root.join("src"), &mut known);
    functions(&root.join("e2e"), &mut known);
    for (table, least) in TABLES {
        let text = fs::read_to_string(root.join(table)).unwrap();
        let rows = text.lines().filter(|line| line.starts_with("| "));
        let judged = rows.filter(|row| judge(row, &known)).count();
        assert!(judged > least, "{table}: {judged} rows");
    }
}

/// Fails if a row names a test that is none, or neither a test nor a difference; false for a head.
fn judge(row: &str, known: &BTreeSet<String>) -> bool {
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let [_, id, _, tests, differs, _] = cells.as_slice() else {
        panic!("not a row of four cells: {row}");
    };
    if *id == "row" {
        return false;
    }
    assert!(!tests.is_empty() || !differs.is_empty(), "{id}");
    for name in tests.split('`').skip(1).step_by(2) {
        assert!(
            name.contains('/') || known.contains(name),
            "{id}: there is no {name}"
        );
    }
    true
}

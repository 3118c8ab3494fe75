//! The table of `e2e/catalogs.md` names tests that exist.
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

#[test]
fn the_table_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut known = BTreeSet::new();
    functions(&root.join("src"), &mut known);
    functions(&root.join("e2e"), &mut known);
    let table = fs::read_to_string(root.join("e2e/catalogs.md")).unwrap();
    let mut rows = 0;
    for row in table.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, id, _, tests, differs, _] = cells.as_slice() else {
            panic!("not a row of four cells: {row}");
        };
        if *id == "row" {
            continue;
        }
        rows += 1;
        assert!(!tests.is_empty() || !differs.is_empty(), "{id}");
        for name in tests.split('`').skip(1).step_by(2) {
            assert!(
                name.contains('/') || known.contains(name),
                "{id}: there is no {name}"
            );
        }
    }
    assert!(rows > 50, "{rows} rows");
}

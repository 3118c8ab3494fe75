#![expect(clippy::disallowed_methods, reason = "tests write and read files")]

use std::fs;
use std::path::Path;

use clap::Parser;
use serde_json::{Value, json};

use super::*;
use crate::error::chain;
use crate::oci::digest::Digest;
use crate::store::catalog::conformance::{lay_out, without_precision};
use crate::testing::conformance::{Row, Score, Set};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    catalog: Catalog,
}

/// What a command line says: exit code, standard output, standard error.
fn answer(arguments: &[&str]) -> (u8, String, String) {
    let line = Line::try_parse_from(std::iter::once(&"catalog").chain(arguments)).unwrap();
    let (mut out, mut complaints) = (Vec::new(), Vec::new());
    let mut streams = Streams {
        out: &mut out,
        complaints: &mut complaints,
    };
    let code = match dispatch(&line.catalog, &mut streams) {
        Ok(Answer::Yes) => 0,
        Ok(Answer::No) => 1,
        Err(error) => {
            complaints.extend(chain(error.as_ref()).into_bytes());
            2
        }
    };
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (code, text(out), text(complaints))
}

/// A catalog of these files.
fn catalog(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn validated(path: &Path) -> (u8, Value) {
    let (code, out, complaints) = answer(&["validate", text(path), "-o", "json"]);
    assert!(code < 2, "{complaints}");
    (code, serde_json::from_str(&out).unwrap())
}

fn judge_read(row: &Row, root: &Path) -> Result<(), String> {
    let (code, out, complaints) = answer(&["read", text(root)]);
    let store = &row.value["store"];
    let Some(expected) = store["catalog_jsonl_sha256"].as_str() else {
        return match (code, out.as_str()) {
            (1, "") => Ok(()),
            _ => Err(format!("expected a refusal, got {code} {out:?}")),
        };
    };
    let sum = |text: &str| Digest::of(text.as_bytes()).hex().to_owned();
    if code == 0 && (sum(&out) == expected || sum(&without_precision(&out)) == expected) {
        Ok(())
    } else {
        Err(format!("expected {store}, got {code} {out:?} {complaints}"))
    }
}

fn judge_validate(row: &Row, root: &Path) -> Result<(), String> {
    let (code, document) = validated(root);
    let passed = document["passed"].as_bool().unwrap();
    let has_error = document["findings"]
        .as_array()
        .unwrap()
        .iter()
        .any(|finding| finding["severity"] == "error");
    if passed == has_error || passed != (code == 0) {
        return Err(format!("contradicts itself: {code} {document}"));
    }
    if Some(passed) == row.value["valid"].as_bool() {
        Ok(())
    } else {
        let expected = (&row.value["load_error"], &row.value["convert_error"]);
        Err(format!("expected {expected:?}, got {document}"))
    }
}

#[test]
fn catalogs_are_read_and_judged_as_the_reference_does() {
    let Some(set) = Set::open("oracle/fbc") else {
        return;
    };
    let mut read = Score::new("oracle/fbc catalog read", &set);
    let mut judged = Score::new("oracle/fbc catalog validate", &set);
    for row in &set.rows {
        let directory = tempfile::tempdir().unwrap();
        lay_out(row, directory.path());
        read.count(row.id(), judge_read(row, directory.path()));
        judged.count(row.id(), judge_validate(row, directory.path()));
    }
    read.finish();
    judged.finish();
}

const SOUND: &str = r"schema: olm.package
name: p
defaultChannel: stable
---
schema: olm.channel
package: p
name: stable
entries:
- {name: p.v2, replaces: p.v1}
- {name: p.v1}
---
schema: olm.bundle
package: p
name: p.v1
image: quay.io/p/p@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
properties: [{type: olm.package, value: {packageName: p, version: 1.0.0}}]
---
schema: olm.bundle
package: p
name: p.v2
image: quay.io/p/p:v2
properties: [{type: olm.package, value: {packageName: p, version: 2.0.0}}]
";

#[test]
fn a_sound_catalog_passes_and_a_missing_one_is_no_input() {
    let directory = catalog(&[("p/catalog.yaml", SOUND)]);
    let (code, document) = validated(directory.path());
    assert_eq!(
        (code, document),
        (0, json!({"passed": true, "findings": []}))
    );
    let (code, out, _) = answer(&["validate", text(directory.path())]);
    assert_eq!((code, out.as_str()), (0, "0 errors, 0 warnings\n"));
    let missing = directory.path().join("missing");
    for command in ["read", "validate"] {
        let (code, out, complaints) = answer(&[command, text(&missing)]);
        assert_eq!((code, out.as_str()), (2, ""), "{complaints}");
        assert!(
            complaints.starts_with("there is no file or directory"),
            "{complaints}"
        );
    }
}

#[test]
fn all_findings_are_told_at_once_with_their_places() {
    let directory = catalog(&[
        (
            "a.yaml",
            "schema: olm.package\nname: Bad_Name\n---\n# nothing\n---\nschema: olm.custom\n",
        ),
        (
            "b.json",
            "{\"schema\":\"olm.bundle\",\"name\":\"b\"}\n{\"name\":\"x\"}",
        ),
        ("c.yaml", "- secret: [\n"),
        (
            "d.yaml",
            "schema: olm.channel\npackage: p\nname: c\nentries: 5\n",
        ),
    ]);
    let (code, out, _) = answer(&["validate", text(directory.path())]);
    assert_eq!(code, 1);
    insta::assert_snapshot!(out, @r#"
    The server refuses this catalog:
      c.yaml:1: column 11: unclosed bracket '['
    Its authors should fix:
      a.yaml:1: olm.package "Bad_Name": a package's name must have at most 63 lower-case letters, digits and -, and begin and end with a letter or digit
      a.yaml:1: olm.package "Bad_Name": the package has no `defaultChannel`
      a.yaml:5: the document has no content
      b.json:1: olm.bundle "b": the bundle has no `image`
      b.json:1: olm.bundle "b": the bundle has no `package`
      b.json:1: olm.bundle "b": the bundle must have one property olm.package, and has 0
      b.json:2: the blob has no `schema`
      d.yaml:1: olm.channel "c" of package "p": `entries` must be a list
    Its authors may want to look at:
      a.yaml:6: olm.custom: schemas that begin with olm. are reserved, and this one is not known
    9 errors, 1 warning
    "#);
    let (_, document) = validated(directory.path());
    let refused: Vec<&Value> = document["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| {
            one["message"]
                .as_str()
                .unwrap()
                .starts_with("the server refuses this: ")
        })
        .map(|one| &one["file"])
        .collect();
    assert_eq!(refused, ["c.yaml"]);
    let (code, out, complaints) = answer(&["read", text(directory.path())]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(
        complaints.starts_with("error walking FBC root: c.yaml: line "),
        "{complaints}"
    );
    assert!(!complaints.contains("secret"), "{complaints}");
}

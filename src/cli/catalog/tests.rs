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
    let empty = tempfile::tempdir().unwrap();
    let (code, out, _) = answer(&["validate", text(empty.path())]);
    assert_eq!(
        (code, out.as_str()),
        (
            0,
            "Its authors may want to look at:\n  the catalog is empty: there is no file with content that `.indexignore` does \
             not name\n0 errors, 1 warning\n"
        )
    );
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

/// Three versions in two channels, one deprecated, with an image that is related.
const SEVERAL: &str = r"schema: olm.package
name: p
defaultChannel: stable
description: It does things.
---
schema: olm.channel
package: p
name: stable
entries:
- {name: p.v3, replaces: p.v2, skipRange: '>=0.9.0 <3.0.0'}
- {name: p.v2, replaces: p.v1}
- {name: p.v1}
---
schema: olm.channel
package: p
name: old
entries: [{name: p.v1}]
---
schema: olm.bundle
package: p
name: p.v1
image: quay.io/p/p@sha256:1111111111111111111111111111111111111111111111111111111111111111
properties: [{type: olm.package, value: {packageName: p, version: 1.0.0}}]
relatedImages: [{name: db, image: 'quay.io/p/db:1@sha256:4444444444444444444444444444444444444444444444444444444444444444'}]
---
schema: olm.bundle
package: p
name: p.v2
image: quay.io/p/p@sha256:2222222222222222222222222222222222222222222222222222222222222222
properties: [{type: olm.package, value: {packageName: p, version: 2.0.0}}]
---
schema: olm.bundle
package: p
name: p.v3
image: quay.io/p/p@sha256:3333333333333333333333333333333333333333333333333333333333333333
properties:
- {type: olm.package, value: {packageName: p, version: 3.0.0}}
- {type: olm.gvk, value: {group: g.io, kind: K, version: v1}}
---
schema: olm.deprecations
package: p
entries:
- {reference: {schema: olm.channel, name: old}, message: take stable}
- {reference: {schema: olm.bundle, name: p.v2}, message: broken}
";

fn json_of(arguments: &[&str], expected_code: u8) -> Value {
    let (code, out, complaints) = answer(&[arguments, &["-o", "json"]].concat());
    assert_eq!(code, expected_code, "{complaints}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn packages_channels_and_bundles_are_listed() {
    let directory = catalog(&[
        ("p.yaml", SEVERAL),
        (
            "q.yaml",
            "schema: olm.channel\npackage: q\nname: c\nentries: 5\n",
        ),
    ]);
    let source = text(directory.path());
    let (code, out, _) = answer(&["list", source]);
    assert_eq!(code, 0);
    insta::assert_snapshot!(out, @r#"
    PACKAGE  DEFAULT CHANNEL                                           CHANNELS  BUNDLES
    p        stable                                                    2         3
    q        olm.channel "c" of package "q": `entries` must be a list  0         0
    "#);
    let (code, out, _) = answer(&["list", source, "p"]);
    assert_eq!(code, 0);
    insta::assert_snapshot!(out, @r"
    CHANNEL           HEAD  ENTRIES  DEPRECATED
    stable (default)  p.v3  3
    old               p.v1  1        take stable

    CHANNEL  BUNDLE  VERSION  REPLACES  SKIPS  SKIP RANGE      DEPRECATED
    stable   p.v3    3.0.0    p.v2             >=0.9.0 <3.0.0
    stable   p.v2    2.0.0    p.v1                             yes
    stable   p.v1    1.0.0
    old      p.v1    1.0.0
    ");
    let listed = json_of(&["list", source], 0);
    assert_eq!(
        listed[0],
        json!({"name": "p", "defaultChannel": "stable", "channels": 2, "bundles": 3})
    );
    let package = json_of(&["list", source, "p"], 0);
    assert_eq!(package["channels"][0]["heads"], json!(["p.v3"]));
    assert_eq!(package["bundles"][0]["version"], "1.0.0");
    assert_eq!(package["bundles"][0]["channels"], json!(["stable", "old"]));
    for (name, expected) in [
        ("r", "the catalog has no package \"r\"\n"),
        (
            "q",
            "olm.channel \"c\" of package \"q\": `entries` must be a list\n",
        ),
    ] {
        let (code, out, complaints) = answer(&["list", source, name]);
        assert_eq!((code, out.as_str(), complaints.as_str()), (1, "", expected));
    }
}

#[test]
fn a_package_and_a_bundle_are_shown() {
    let directory = catalog(&[("p.yaml", SEVERAL)]);
    let source = text(directory.path());
    let (_, out, _) = answer(&["show", source, "p"]);
    insta::assert_snapshot!(out, @r"
    Package:         p
    Description:     It does things.
    Default channel: stable
    Bundles:         3
    Channel:         stable head p.v3
    Channel:         old head p.v1 (deprecated: take stable)
    Deprecated:      olm.channel old: take stable
    Deprecated:      olm.bundle p.v2: broken
    ");
    let (_, out, _) = answer(&["show", source, "p", "3.0.0"]);
    insta::assert_snapshot!(out, @r"
    Package:         p
    Bundle:          p.v3
    Version:         3.0.0
    Image:           quay.io/p/p@sha256:3333333333333333333333333333333333333333333333333333333333333333
    Channel:         stable replaces p.v2 skipRange >=0.9.0 <3.0.0
    Provides:        g.io/v1 K
    ");
    let bundle = json_of(&["show", source, "p", "p.v1"], 0);
    assert_eq!(bundle["relatedImages"][0]["name"], "db");
    assert_eq!(bundle["channels"].as_array().unwrap().len(), 2);
    let (code, _, complaints) = answer(&["show", source, "p", "4.0.0"]);
    assert_eq!(
        (code, complaints.as_str()),
        (1, "package \"p\" has no bundle \"4.0.0\"\n")
    );
}

#[test]
fn what_changed_is_told_with_who_is_stuck() {
    let old = catalog(&[("p.yaml", SEVERAL)]);
    let changed = SEVERAL
        .replace(
            "- {name: p.v3, replaces: p.v2, skipRange: '>=0.9.0 <3.0.0'}\n",
            "- {name: p.v3, replaces: p.v2}\n",
        )
        .replace("- {name: p.v2, replaces: p.v1}\n", "- {name: p.v2}\n")
        .replace("- {name: p.v1}\n---", "---")
        .replace("sha256:33", "sha256:35");
    let new = catalog(&[
        ("p.yaml", &changed),
        ("x.yaml", "schema: olm.package\nname: x\n"),
    ]);
    let (code, out, _) = answer(&["diff", text(old.path()), text(new.path())]);
    assert_eq!(code, 1);
    insta::assert_snapshot!(out, @r"
    + package x
      package p
        ! bundle p.v3 has another image: quay.io/p/p@sha256:3333333333333333333333333333333333333333333333333333333333333333 -> quay.io/p/p@sha256:3533333333333333333333333333333333333333333333333333333333333333
        - edge in stable: >=0.9.0 <3.0.0 -> p.v3 (skipRange)
        - edge in stable: p.v1 -> p.v2 (replaces)
        ! p.v1 lost its way up
    ");
    let document = json_of(&["diff", text(old.path()), text(new.path())], 1);
    assert_eq!(document["added"], json!(["x"]));
    assert_eq!(document["changed"][0]["stuck"], json!(["p.v1"]));
    let (code, out, _) = answer(&["diff", text(old.path()), text(old.path())]);
    assert_eq!((code, out.as_str()), (0, "no differences\n"));
    let (code, _, _) = answer(&["diff", text(old.path()), text(new.path()), "--package", "y"]);
    assert_eq!(code, 0);
}

#[test]
fn graphs_are_drawn() {
    let directory = catalog(&[("p.yaml", SEVERAL)]);
    let source = text(directory.path());
    let (code, out, _) = answer(&["graph", source, "p", "--channel", "stable"]);
    assert_eq!(code, 0);
    insta::assert_snapshot!(out, @r#"
    graph LR
      classDef deprecated fill:#fdd,stroke:#c00;
      classDef head stroke-width:3px;
      classDef absent stroke-dasharray:4;
      subgraph c0["p stable"]
        c0n0["p.v1"]
        c0n1["p.v2"]:::deprecated
        c0n2["p.v3"]:::head
        c0n0 -->|replaces| c0n1
        c0n0 -.->|skipRange| c0n2
        c0n1 -->|replaces| c0n2
        c0n1 -.->|skipRange| c0n2
      end
    "#);
    let document = json_of(&["graph", source, "p"], 0);
    assert_eq!(
        document["channels"][0]["edges"],
        json!([
            {"from": "p.v1", "to": "p.v2", "type": "replaces"},
            {"from": "p.v1", "to": "p.v3", "type": "skipRange"},
            {"from": "p.v2", "to": "p.v3", "type": "replaces"},
            {"from": "p.v2", "to": "p.v3", "type": "skipRange"},
        ])
    );
    let (code, _, complaints) = answer(&["graph", source, "p", "--channel", "x"]);
    assert_eq!(
        (code, complaints.as_str()),
        (1, "package \"p\" has no channel \"x\"\n")
    );
}

#[test]
fn images_are_listed_by_digest() {
    let directory = catalog(&[("p.yaml", SEVERAL)]);
    let source = text(directory.path());
    let (code, out, _) = answer(&["mirror-list", source, "p@<2"]);
    let expected = "quay.io/p/db:1@sha256:4444444444444444444444444444444444444444444444444444444444444444\n\
        quay.io/p/p@sha256:1111111111111111111111111111111111111111111111111111111111111111\n";
    assert_eq!((code, out.as_str()), (0, expected));
    let all = json_of(&["mirror-list", source], 0);
    assert_eq!(all.as_array().unwrap().len(), 4);
    for (selection, expected) in [
        ("p@>9", "package \"p\" has no bundle in range \">9\"\n"),
        ("q", "the catalog has no package \"q\"\n"),
    ] {
        let (code, out, complaints) = answer(&["mirror-list", source, selection]);
        assert_eq!((code, out.as_str(), complaints.as_str()), (1, "", expected));
    }
}

#[tokio::test]
async fn an_image_by_tag_is_looked_up_and_so_is_the_catalog_itself() {
    use crate::store::CONFIGS_LABEL;
    use crate::testing::registry::{FakeRegistry, layer};
    let registry = FakeRegistry::start().await;
    let bundle = registry.put_image("b", "v1", &[], &[]);
    let here = registry.authority.clone();
    let content = format!(
        "schema: olm.bundle\npackage: p\nname: p.v1\nimage: {here}/b:v1\nrelatedImages: [{{image: '{here}/gone:v1'}}]\n\
         properties: [{{type: olm.package, value: {{packageName: p, version: 1.0.0}}}}]\n"
    );
    let files = [("configs/c.yaml", content.as_str())];
    let digest = registry.put_image("c", "v1", &[(CONFIGS_LABEL, "/configs")], &[layer(&files)]);
    let source = format!("{here}/c:v1");
    let listed = tokio::task::spawn_blocking(move || answer(&["mirror-list", &source]));
    let (code, out, complaints) = listed.await.unwrap();
    assert_eq!(out, format!("{here}/b@{bundle}\n{here}/c@{digest}\n"));
    assert_eq!(code, 1);
    let expected = format!("cannot read manifest of {here}/gone:v1: ");
    assert!(complaints.starts_with(&expected), "{complaints}");
}

#[test]
fn a_smaller_catalog_is_sound() {
    let directory = catalog(&[
        ("p.yaml", SEVERAL),
        ("q.yaml", "schema: olm.package\nname: q\n"),
    ]);
    let target = tempfile::tempdir().unwrap();
    let small = target.path().join("small");
    let (code, out, complaints) = answer(&[
        "prune",
        text(directory.path()),
        "p@2.x || 3.x",
        "-d",
        text(&small),
    ]);
    assert_eq!((code, out.as_str(), complaints.as_str()), (0, "", ""));
    let (code, document) = validated(&small);
    assert_eq!(
        (code, document),
        (0, json!({"passed": true, "findings": []}))
    );
    let package = json_of(&["list", text(&small), "p"], 0);
    assert_eq!(
        package["channels"],
        json!([{"name": "stable", "heads": ["p.v3"], "entries": [
            {"name": "p.v3", "replaces": "p.v2", "skips": [], "skipRange": ">=0.9.0 <3.0.0"},
            {"name": "p.v2", "replaces": "p.v1", "skips": [], "skipRange": ""},
        ]}])
    );
    assert_eq!(package["deprecations"].as_array().unwrap().len(), 1);
    assert_eq!(
        json_of(&["list", text(&small)], 0)
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let file = small.join("p/catalog.jsonl");
    for (target, expected) in [
        (&small, "is not empty: name a new or an empty one"),
        (&file, "catalog.jsonl: Not a directory (os error 20)"),
    ] {
        let (code, _, complaints) =
            answer(&["prune", text(directory.path()), "p", "-d", text(target)]);
        assert_eq!(code, 2);
        assert!(complaints.ends_with(expected), "{complaints}");
    }
}

#[test]
fn a_catalog_of_the_cluster_has_a_name() {
    let (code, out, complaints) = answer(&["list", "cluster:"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert_eq!(complaints, "cluster: names no catalog: write cluster:NAME");
}

#[test]
fn real_catalogs_survive_every_command() {
    let Some(set) = Set::open("catalogs") else {
        return;
    };
    for archive in &set.archives {
        let directory = tempfile::tempdir().unwrap();
        archive.extract("", directory.path());
        let source = text(directory.path());
        let document = validated(directory.path()).1;
        assert_eq!(document["passed"], true, "{}: {document}", archive.name);
        let packages = json_of(&["list", source], 0);
        for package in packages.as_array().unwrap().iter().step_by(150) {
            let name = package["name"].as_str().unwrap();
            assert_eq!(answer(&["graph", source, name]).0, 0, "{name}");
            let target = tempfile::tempdir().unwrap();
            let (code, _, complaints) = answer(&["prune", source, name, "-d", text(target.path())]);
            assert_eq!(code, 0, "{name}: {complaints}");
        }
        assert_eq!(answer(&["diff", source, source]).0, 0);
        assert_eq!(answer(&["mirror-list", source, "--tags"]).0, 0);
    }
}

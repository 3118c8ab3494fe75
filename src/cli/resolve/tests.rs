#![expect(clippy::disallowed_methods, reason = "writes a catalog to read")]

use serde_json::{Value, json};

use super::*;
use crate::resolve::{Availability, Catalog, Content};
use crate::store::catalog;

const CATALOG: &str = r#"
schema: olm.package
name: p
---
schema: olm.channel
package: p
name: stable
entries:
- name: p.v1.0.0
- {name: p.v1.1.0, replaces: p.v1.0.0}
- {name: p.v2.0.0, replaces: p.v1.1.0}
---
schema: olm.bundle
package: p
name: p.v1.0.0
image: example.com/p:1.0.0
properties: [{type: olm.package, value: {packageName: p, version: 1.0.0}}]
---
schema: olm.bundle
package: p
name: p.v1.1.0
image: example.com/p:1.1.0
properties: [{type: olm.package, value: {packageName: p, version: 1.1.0, release: "7"}}]
---
schema: olm.bundle
package: p
name: p.v2.0.0
image: example.com/p:2.0.0
properties: [{type: olm.package, value: {packageName: p, version: 2.0.0}}]
---
schema: olm.deprecations
package: p
entries:
- {reference: {schema: olm.channel, name: stable}, message: use fast}
- {reference: {schema: olm.bundle, name: p.v1.0.0}, message: it is old}
"#;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("catalog.yaml"), CATALOG).unwrap();
    folder
}

#[track_caller]
fn check(shelf: &mut batch::Shelf, question: Value, expected: &Value) {
    let question = serde_json::from_value(question).unwrap();
    let answered = shelf.answer(question, MajorUpgrades::Edges).unwrap();
    assert_eq!(serde_json::to_value(answered).unwrap(), *expected);
}

#[test]
fn each_question_of_a_batch_has_its_answer() {
    let folder = folder();
    let shelf = &mut batch::Shelf::default();
    let a =
        json!({"name": "a", "path": folder.path(), "availability": "", "labels": {"env": "prod"}});
    check(
        shelf,
        json!({
            "id": "1", "package": "p", "version": "", "channels": [], "policy": "", "selector": null,
            "installed": {"name": "p.v1.0.0", "version": "1.0.0"}, "catalogs": [a],
        }),
        &json!({
            "id": "1", "bundle": "p.v1.1.0", "version": "1.1.0", "release": "7", "catalog": "a",
            "deprecation": [{"schema": "olm.channel", "name": "stable", "message": "use fast"}],
        }),
    );
    check(
        shelf,
        json!({"id": 2, "package": "q", "selector": {"matchLabels": {"env": "dev"}}, "catalogs": [a]}),
        &json!({"id": 2, "error": {"reason": "NoCatalogSelected", "message": "no bundles found for package \"q\""}}),
    );
    check(
        shelf,
        json!({"id": 3, "package": "p", "catalogs": [{"name": "b", "path": "absent", "cached": false}]}),
        &json!({"id": 3, "error": {
            "reason": "CatalogUnavailable",
            "message": "error walking catalogs: error getting package \"p\" from catalog \"b\": cache for catalog \"b\" not found",
        }}),
    );
    check(
        shelf,
        json!({"id": 4, "package": "p", "catalogs": [{"name": "b", "path": folder.path(), "serving": false}]}),
        &json!({"id": 4, "error": {
            "reason": "CatalogUnavailable",
            "message": "error walking catalogs: error getting package \"p\" from catalog \"b\": catalog \"b\" is not being served",
        }}),
    );
    let wrong = json!({"package": "p", "policy": "Any", "catalogs": []});
    let wrong = serde_json::from_value(wrong).unwrap();
    assert!(shelf.answer(wrong, MajorUpgrades::Edges).is_err());
}

fn source(folder: &tempfile::TempDir) -> Source {
    let read = catalog::packages(folder.path())
        .unwrap()
        .remove("p")
        .transpose();
    Source {
        catalog: Catalog {
            name: "a".into(),
            labels: BTreeMap::new(),
            priority: 0,
            availability: Availability::Available,
            serving: true,
            content: Content::NoSuchPackage,
        },
        package: Package::of("p", read),
    }
}

fn asked(folder: &tempfile::TempDir, version: &str) -> String {
    let source = source(folder);
    let catalogs = [Catalog {
        content: source.package.content("a"),
        ..source.catalog.clone()
    }];
    let query = Query {
        package: "p".into(),
        version: version.into(),
        installed: Some(Installed {
            name: "p.v1.0.0".into(),
            version: "1.0.0".into(),
            ..Installed::default()
        }),
        ..Query::default()
    };
    let mut out = anstream::StripStream::new(Vec::new());
    print::write_text(&mut out, &query, &report::explain(&query, &catalogs), false).unwrap();
    String::from_utf8(out.into_inner()).unwrap()
}

#[test]
fn the_answer_comes_first() {
    let folder = folder();
    insta::assert_snapshot!(asked(&folder, ""), @r#"
    resolved: chose "p.v1.1.0" (1.1.0 release 7) from catalog "a"
    image example.com/p:1.1.0

     VERSION          BUNDLE    CHANNELS  CATALOG  VERDICT
     2.0.0            p.v2.0.0  stable    a        no edge from the installed bundle, but 2 hops lead there, the first to 1.1.0
     1.1.0 release 7  p.v1.1.0  stable    a        chosen
     1.0.0            p.v1.0.0  stable    a        deprecated, and there is one that is not; deprecated: it is old

    path: 1.0.0 → 1.1.0 → 2.0.0

    deprecated channel stable: use fast
    "#);
    insta::assert_snapshot!(asked(&folder, "2.x"), @r#"
    not resolved (NoUpgradePath): "p.v2.0.0" (2.0.0) in catalog "a" exists and is in the range, but no edge leads to it from installed bundle "p.v1.0.0"; 2 hops do: 1.1.0 → 2.0.0; first set version: "1.1.0"
    condition Progressing would say: error upgrading from currently installed version "1.0.0": no bundles found for package "p" matching version "2.x"
    available: p.v1.1.0 (1.1.0) is kept away by the range alone

     VERSION          BUNDLE    CHANNELS  CATALOG  VERDICT
     2.0.0            p.v2.0.0  stable    a        no edge from the installed bundle, but 2 hops lead there, the first to 1.1.0
     1.1.0 release 7  p.v1.1.0  stable    a        version outside the range
     1.0.0            p.v1.0.0  stable    a        version outside the range; deprecated: it is old

    path: 1.0.0 → 1.1.0 → 2.0.0
    "#);
}

#[test]
fn what_is_installed_is_found_in_the_catalogs() {
    let folder = folder();
    let sources = [source(&folder)];
    assert_eq!(recorded_version(&sources, "p.v1.1.0").unwrap(), "1.1.0");
    assert!(recorded_version(&sources, "p.v9").is_err());
}

#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    resolve: Resolve,
}

#[test]
fn a_range_that_is_none_is_not_asked() {
    let line = [
        "resolve",
        "p",
        "--catalog",
        "x",
        "--version",
        ">=1 || bogus",
    ];
    let line = <Line as clap::Parser>::try_parse_from(line).unwrap();
    let error = line.resolve.amend(Query::default()).unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        r#"--version: ">=1 || bogus" is no range: improper constraint: " bogus": at position 8: expected a version such as "1.2.3", "1.2" or "1.x""#
    );
}

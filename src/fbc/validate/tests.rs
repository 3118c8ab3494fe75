use super::*;
use crate::fbc::read::Metas;

const SOUND: &str = r"schema: olm.package
name: p
defaultChannel: c
---
schema: olm.channel
package: p
name: c
entries: [{name: p.v1}]
---
schema: olm.bundle
package: p
name: p.v1
image: quay.io/p/p:v1
properties: [{type: olm.package, value: {packageName: p, version: 1.0.0}}]
";

/// The findings on a file, `SEVERITY LINE MESSAGE` each.
fn findings(text: &str) -> Vec<String> {
    let mut validator = Validator::default();
    let file: Arc<str> = Arc::from("f");
    let mut metas = Metas::new(text.as_bytes());
    while let Some(document) = metas.next_document() {
        match document {
            Ok((meta, line)) => validator.add(&file, line, meta.as_ref()),
            Err(error) => validator.refuse("f", error.line(), error.to_string()),
        }
    }
    let all = validator.finish().into_iter();
    all.map(|one| {
        let line = one.line.unwrap_or_default();
        let severity = match one.severity {
            Severity::Error => 'E',
            Severity::Warning => 'W',
        };
        format!("{severity}{line} {}", one.message)
    })
    .collect()
}

/// The sound catalog with `from` replaced by `to`, and the findings.
#[track_caller]
fn check(from: &str, to: &str, expected: &[&str]) {
    assert!(SOUND.contains(from), "{from}");
    assert_eq!(
        findings(&SOUND.replacen(from, to, 1)),
        expected,
        "{from} -> {to}"
    );
}

#[test]
fn a_sound_catalog_has_no_findings() {
    check("p", "p", &[]);
}

#[test]
fn an_empty_catalog_is_sound_and_hardly_meant() {
    let expected =
        "W0 the catalog is empty: there is no file with content that `.indexignore` does not name";
    assert_eq!(findings(""), [expected]);
    // What cannot be read would have been something.
    assert_eq!(findings("{").len(), 1);
    assert_eq!(
        findings("schema: example.com/custom\n"),
        Vec::<String>::new()
    );
}

#[test]
fn packages_are_checked() {
    check(
        "name: p\ndef",
        "name: P_p\ndef",
        &[
            "E1 a package's name must have at most 63 lower-case letters, digits and -, and begin and end with a letter or digit",
            "E1 the default channel \"c\" is not there",
            "E1 the package has no channel",
            "E5 there is no package \"p\"",
            "E10 there is no package \"p\"",
        ],
    );
    check(
        "defaultChannel: c",
        "x: 1",
        &["E1 the package has no `defaultChannel`"],
    );
    check(
        "defaultChannel: c",
        "defaultChannel: d",
        &["E1 the default channel \"d\" is not there"],
    );
    check(
        "name: p\ndef",
        "name: p\nicon: {base64data: '!'}\ndef",
        &["E1 `base64data` must be base64"],
    );
    check(
        "---",
        "---\nschema: olm.package\nname: p\ndefaultChannel: c\n---",
        &["E5 there is a package of this name already"],
    );
    check(
        "schema: olm.package\nname: p",
        "schema: olm.package",
        &[
            "E1 the default channel \"c\" is not there",
            "E1 the package has no channel",
            "E1 the package has no name",
            "E4 there is no package \"p\"",
            "E9 there is no package \"p\"",
        ],
    );
}

#[test]
fn channels_are_checked() {
    check(
        "entries: [{name: p.v1}]",
        "entries: []",
        &[
            "E5 the channel has no entries",
            "E10 no channel has an entry for the bundle",
        ],
    );
    check(
        "[{name: p.v1}]",
        "[{name: p.v1}, {name: p.v0, replaces: p.v1}]",
        &["E5 there is no bundle for entry \"p.v0\""],
    );
    check(
        "[{name: p.v1}]",
        "[{name: p.v1}, {name: p.v1}]",
        &["E5 there are two entries \"p.v1\""],
    );
    check(
        "[{name: p.v1}]",
        "[{name: p.v1, skips: ['']}]",
        &["E5 entry \"p.v1\" has an empty `skips`"],
    );
    check(
        "[{name: p.v1}]",
        "[{name: p.v1, skipRange: '<v1.0.0'}]",
        &[
            "E5 `skipRange` of entry \"p.v1\": term \"<v1.0.0\" at position 1: \"<v\" is no operator: expected one of = == ! != \
         > >= < <=",
        ],
    );
    check("[{name: p.v1}]", "[{name: p.v1, skipRange: '<1.0.0'}]", &[]);
    check(
        "name: c\nentries: [{name: p.v1}]\n",
        "name: c\nentries: [{name: p.v1}]\n---\nschema: olm.channel\npackage: p\nname: c\nentries: [{name: p.v1}]\n",
        &["E10 the package has a channel of this name already"],
    );
    check(
        "name: c\nentries",
        "name: ''\nentries",
        &[
            "E1 the default channel \"c\" is not there",
            "E5 the channel has no name",
        ],
    );
    check("[{name: p.v1}]", "5", &["E5 `entries` must be a list"]);
}

#[test]
fn bundles_are_checked() {
    let double = SOUND.split("---\n").nth(2).unwrap();
    check(
        double,
        &format!("{double}---\n{double}"),
        &["E16 the package has a bundle of this name already"],
    );
    check(
        "image: quay.io/p/p:v1\n",
        "",
        &["E10 the bundle has no `image`"],
    );
    check(
        "quay.io/p/p:v1",
        "Quay/p",
        &["E10 `image` \"Quay/p\": invalid reference format: repository name must be lowercase"],
    );
    check(
        "image:",
        "relatedImages: [{image: 'a@md5:0123456789abcdef0123456789abcdef'}, {name: x}]\nimage:",
        &[
            "E10 `relatedImages[0].image` \"a@md5:0123456789abcdef0123456789abcdef\": invalid digest \
         \"md5:0123456789abcdef0123456789abcdef\": expected sha256: and 64 lower-case hexadecimal digits",
            "W10 `relatedImages[1].image` is empty",
        ],
    );
    check(
        "properties: [",
        "properties: [{type: olm.package, value: {}}, ",
        &["E10 the bundle must have one property olm.package, and has 2"],
    );
    check(
        "packageName: p",
        "packageName: q",
        &["E10 property olm.package is of package \"q\""],
    );
    check(
        "version: 1.0.0",
        "version: v1.0.0",
        &["E10 version \"v1.0.0\": Invalid character(s) found in major number \"v1\""],
    );
    check(
        "version: 1.0.0",
        "version: 1.0.0, release: '1'",
        &["E10 a bundle with a release must be called \"p-v1.0.0-1\""],
    );
    check(
        "properties: [",
        "properties: [{type: olm.gvk, value: {kind: 5}}, ",
        &["E10 property \"olm.gvk\": `properties[0].value.kind` must be a string"],
    );
    check(
        "properties: [",
        "properties: [{type: olm.gvk, value: {kind: K}}, ",
        &["W10 `properties[0].value` must have `kind` and `version`"],
    );
    check(
        "properties: [",
        "properties: [{type: olm.package.required, value: {packageName: q, versionRange: x}}, ",
        &[
            "W10 `properties[0].value.versionRange` \"x\": empty range: expected a term such as \">=1.0.0\"",
        ],
    );
    check(
        "properties: [",
        "properties: [{type: olm.csv.metadata, value: {crdDescriptions: {owned: [{resources: {}}]}}}, ",
        &[
            "E10 property \"olm.csv.metadata\": `properties[0].value.crdDescriptions.owned[0].resources` must be a list",
        ],
    );
    check(
        "properties: [",
        "properties: [{type: olm.bundle.object, value: {data: e30=}}, ",
        &["W10 property olm.bundle.object makes catalogs large: use olm.csv.metadata"],
    );
    check(
        "properties: [",
        "properties: [{type: olm.bundle.object, value: {data: Ww==}}, ",
        &[
            "E10 `properties[0].value.data`: must hold JSON or YAML: line 1, column 1: unclosed bracket '['",
            "W10 property olm.bundle.object makes catalogs large: use olm.csv.metadata",
        ],
    );
    check(
        "properties: [",
        "properties: [{type: '', value: 5}, ",
        &["W10 properties[0] has no `type`"],
    );
    check(
        "properties: [",
        "properties: [{type: x}, ",
        &["E10 `properties` must be a list of types with values"],
    );
}

#[test]
fn versions_are_unique_with_their_release() {
    let bundle = |name: &str, version: &str| {
        format!(
            "---\nschema: olm.bundle\npackage: p\nname: {name}\nimage: i\n\
             properties: [{{type: olm.package, value: {{packageName: p, version: {version}}}}}]\n"
        )
    };
    let with = |other: &str, version: &str| {
        let entries = format!("[{{name: {other}, replaces: p.v1}}, {{name: p.v1}}]");
        findings(&(SOUND.replace("[{name: p.v1}]", &entries) + &bundle(other, version)))
    };
    assert_eq!(
        with("p.v2", "1.0.0"),
        [
            "E10 version 1.0.0 is also that of p.v2",
            "E16 version 1.0.0 is also that of p.v1"
        ]
    );
    assert_eq!(with("p.v2", "1.0.0+1"), Vec::<String>::new());
    assert_eq!(
        with("p-v1.0.0-2", "1.0.0, release: '2'"),
        Vec::<String>::new()
    );
    assert_eq!(
        with("p-v1.0.0+b-2", "1.0.0+b, release: '2'"),
        ["E16 a version with a release must have no build metadata"]
    );
}

#[test]
fn deprecations_are_checked() {
    let with = |text: &str| findings(&format!("{SOUND}---\nschema: olm.deprecations\n{text}"));
    assert_eq!(
        with(
            "package: p\nentries:\n- {reference: {schema: olm.bundle, name: p.v1}, message: m}\n- {reference: {schema: olm.channel, name: c}, message: m}\n- {reference: {schema: olm.package}, message: m}"
        ),
        Vec::<String>::new()
    );
    assert_eq!(
        with("entries: []"),
        ["E16 the deprecations have no `package`"]
    );
    assert_eq!(with("package: q"), ["E16 there is no package \"q\""]);
    assert_eq!(
        with("package: p\n---\nschema: olm.deprecations\npackage: p"),
        ["E19 the package has deprecations already"]
    );
    for (entry, expected) in [
        (
            "{reference: {schema: olm.bundle, name: x}, message: m}",
            "there is no bundle \"x\"",
        ),
        (
            "{reference: {schema: olm.channel, name: x}, message: m}",
            "there is no channel \"x\"",
        ),
        (
            "{reference: {schema: olm.package, name: p}, message: m}",
            "a reference to the package must have no `name`",
        ),
        (
            "{reference: {name: p}, message: m}",
            "its reference has no `schema`",
        ),
        (
            "{reference: {schema: x}, message: m}",
            "its reference must have schema olm.package, olm.channel or olm.bundle",
        ),
    ] {
        assert_eq!(
            with(&format!("package: p\nentries: [{entry}]")),
            [format!("E16 entry 0: {expected}")]
        );
    }
    assert_eq!(
        with(
            "package: p\nentries: [{reference: {schema: olm.package}}, {reference: {schema: olm.package}, message: m}]"
        ),
        [
            "E16 entry 0 has no `message`",
            "E16 entry 1 is about the same as an earlier one"
        ]
    );
}

#[test]
fn documents_of_no_known_schema_are_told() {
    assert_eq!(findings("a: 1\n"), ["E1 the blob has no `schema`"]);
    assert_eq!(
        findings("--- # x\n\n---\nschema: a\n"),
        ["E3 the document has no content"]
    );
    assert_eq!(
        findings("schema: a\n---\nschema: a\n"),
        ["W3 there is a blob of this schema, package and name already"]
    );
    assert_eq!(
        findings("schema: olm.new\npackage: q\n"),
        [
            "W1 schemas that begin with olm. are reserved, and this one is not known",
            "W1 there is no package of this name"
        ]
    );
}

#[test]
fn what_a_broken_file_would_have_held_is_not_missed() {
    let text = "schema: olm.channel\npackage: p\nname: c\nentries: [{name: p.v1}]\n---\nx: [\n";
    let found = findings(text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("E6 ") || found[0].starts_with("E7 "),
        "{found:?}"
    );
}

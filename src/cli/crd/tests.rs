#![expect(clippy::disallowed_methods, reason = "the tests write files")]

use std::fs;
use std::path::Path;

use clap::Parser;

use super::*;

const CSV: &str = "
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: a.v1.0.0}
spec:
  version: 1.0.0
  webhookdefinitions:
  - {type: ConversionWebhook, generateName: c, deploymentName: d, conversionCRDs: [as.example.com], sideEffects: None}
";

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    check: Check,
}

fn crd(name: &str, schema: &str) -> String {
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: {name}\nspec:\n  \
         scope: Namespaced\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n      \
         openAPIV3Schema: {schema}\nstatus:\n  storedVersions: [v1]\n"
    )
}

const WIDE: &str =
    "{type: object, properties: {a: {type: string, enum: [p, q]}, b: {type: string}}}";
const NARROW: &str = "{type: object, properties: {a: {type: string, enum: [p], default: p}}}";

fn checked(directory: &Path, old: &str, new: &str) -> anyhow::Result<(Report, Vec<String>)> {
    let path = |name: &str| directory.join(name).display().to_string();
    check(&Line::parse_from(["check", &path(old), &path(new)]).check)
}

fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    directory
}

#[test]
fn a_text_says_what_can_be_done() {
    let directory = directory(&[
        ("old/a.yaml", &crd("as.example.com", WIDE)),
        ("old/b.yaml", &crd("bs.example.com", WIDE)),
        ("old/c.yml", &crd("cs.example.com", WIDE)),
        ("old/README.md", "not looked at: ["),
        (
            "new.yaml",
            &format!(
                "{}---\n{}",
                crd("as.example.com", NARROW),
                crd("bs.example.com", WIDE)
            ),
        ),
    ]);
    let (report, notes) = checked(directory.path(), "old", "new.yaml").unwrap();
    assert!(notes.is_empty());
    let text = anstream::adapter::strip_str(&print::text(&report)).to_string();
    insta::assert_snapshot!(text);
    insta::assert_snapshot!(print::json(&report));
}

#[test]
fn null_as_old_means_that_there_is_no_crd_yet() {
    let directory = directory(&[
        ("null.json", "null\n"),
        ("new.yaml", &crd("as.example.com", NARROW)),
    ]);
    let (report, _) = checked(directory.path(), "null.json", "new.yaml").unwrap();
    assert!(report.is_passed());
    assert_eq!(report.crds["as.example.com"], []);
}

#[test]
fn lists_and_other_objects_are_read_over() {
    let list = format!(
        "{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{}]}}",
        serde_json::to_string(
            &crate::fbc::yaml::value(crd("as.example.com", WIDE).as_bytes()).unwrap()
        )
        .unwrap()
    );
    let old = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: x}}\n---\n{}",
        crd("as.example.com", WIDE)
    );
    let directory = directory(&[("old.yaml", &old), ("new.json", &list)]);
    let (report, _) = checked(directory.path(), "old.yaml", "new.json").unwrap();
    assert_eq!(report.crds["as.example.com"], []);
}

#[test]
fn the_crds_of_a_bundle_are_those_that_would_be_applied() {
    let annotations = "annotations: {operators.operatorframework.io.bundle.package.v1: a}";
    let directory = directory(&[
        ("old.yaml", &crd("as.example.com", WIDE)),
        ("new/metadata/annotations.yaml", annotations),
        ("new/manifests/csv.yaml", CSV),
        ("new/manifests/crd.yaml", &crd("as.example.com", WIDE)),
    ]);
    let (report, _) = checked(directory.path(), "old.yaml", "new").unwrap();
    let messages: Vec<_> = report.crds["as.example.com"]
        .iter()
        .map(|found| &found.message)
        .collect();
    assert_eq!(
        messages,
        ["conversion: conversion strategy changed from None to Webhook"]
    );
    assert!(report.is_passed());
}

#[track_caller]
fn unusable(files: &[(&str, &str)], expected: &str) {
    let directory = directory(files);
    let error = checked(directory.path(), "old.yaml", "new.yaml").unwrap_err();
    let shown = directory.path().display().to_string();
    let text = format!("{error:#}").replace(&shown, "DIR");
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn input_that_cannot_be_used_is_named() {
    let good = crd("as.example.com", WIDE);
    unusable(
        &[("new.yaml", &good)],
        "there is no file or directory DIR/old.yaml",
    );
    unusable(
        &[("old.yaml", &good), ("new.yaml", "kind: Pod")],
        "DIR/new.yaml holds no CustomResourceDefinition",
    );
    unusable(
        &[("old.yaml", &good), ("new.yaml", "null")],
        "DIR/new.yaml holds null: there is nothing to upgrade to",
    );
    unusable(
        &[("old.yaml", "a: ["), ("new.yaml", &good)],
        "cannot read DIR/old.yaml: ",
    );
    unusable(
        &[("old.yaml", "- 1"), ("new.yaml", &good)],
        "DIR/old.yaml holds a document that is no object",
    );
    unusable(
        &[
            ("old.yaml", &crd("as.example.com", "{type: 1}")),
            ("new.yaml", &good),
        ],
        "cannot use DIR/old.yaml: cannot read CRD \"as.example.com\", version \"v1\": field \"Type\"",
    );
    unusable(
        &[
            ("old.yaml", &format!("{good}---\n{good}")),
            ("new.yaml", &good),
        ],
        "DIR/old.yaml holds CRD as.example.com a second time",
    );
    let line = Line::parse_from(["check", "-", "-"]);
    assert!(check(&line.check).is_err());
}

#[test]
fn an_old_api_version_is_noted() {
    let old = crd("as.example.com", WIDE).replace("k8s.io/v1", "k8s.io/v1beta1");
    let directory = directory(&[
        (
            "old.yaml",
            &format!("{old}---\n{}", crd("bs.example.com", WIDE)),
        ),
        ("new.yaml", &crd("as.example.com", WIDE)),
    ]);
    let (_, notes) = checked(directory.path(), "old.yaml", "new.yaml").unwrap();
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("apiextensions.k8s.io/v1beta1"));
}

#[test]
fn resources_in_files_decide() {
    let wide = "{type: object, properties: {a: {type: string, enum: [p, q]}, b: {type: string}}}";
    let narrow = "{type: object, properties: {a: {type: string, enum: [p]}, b: {type: string}}}";
    let of = |schema: &str| {
        let names = "spec:\n  group: example.com\n  names: {kind: A, plural: as}\n";
        crd("as.example.com", schema).replace("spec:\n", names)
    };
    let resource = |name: &str, fields: &str| {
        format!("apiVersion: example.com/v1\nkind: A\nmetadata: {{name: {name}}}\n{fields}\n")
    };
    let directory = directory(&[
        ("old.yaml", &of(wide)),
        ("new.yaml", &of(narrow)),
        (
            "good/a.yaml",
            &format!("{}---\n{}", resource("x", "a: p"), resource("y", "b: z")),
        ),
        ("bad.yaml", &resource("z", "a: q")),
        ("today.yaml", &resource("z", "a: r")),
        (
            "other.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: z}\n",
        ),
    ]);
    let path = |name: &str| directory.path().join(name).display().to_string();
    let report = |resources: &str| {
        let (old, new, resources) = (path("old.yaml"), path("new.yaml"), path(resources));
        let arguments = ["check", &old, &new, "--resources", &resources];
        check(&Line::parse_from(arguments).check)
    };
    let (found, _) = report("good").unwrap();
    assert!(found.is_passed(), "{found:?}");
    assert_eq!(found.crds["as.example.com"].len(), 1);
    // What is not valid today does not count.
    let (found, _) = report("today.yaml").unwrap();
    assert!(found.is_passed());
    let message = &found.crds["as.example.com"][0].message;
    assert!(
        message.starts_with("storedResources: 1 of 1 not counted, being invalid today already: "),
        "{message}"
    );
    let (found, _) = report("bad.yaml").unwrap();
    assert!(!found.is_passed());
    assert_eq!(
        found.crds["as.example.com"][1].message,
        "storedResources: 1 of 1 would not be valid or lose data: A z: a: is \"q\", which is none of \"p\""
    );
    let (_, notes) = report("other.yaml").unwrap();
    assert_eq!(
        notes,
        [
            "none of the resources is of CRD as.example.com: the answer is that for a cluster that has none"
        ]
    );
    let error = report("none").unwrap_err().to_string();
    assert!(
        error.starts_with("there is no file or directory"),
        "{error}"
    );
}

#[test]
fn one_side_is_the_cluster_or_a_file() {
    let both = "with --cluster only NEW is named: what is there now is in the cluster";
    for (arguments, expected) in [
        (vec!["check", "a.yaml"], "name OLD and NEW, or --cluster"),
        (vec!["check", "a.yaml", "b.yaml", "--cluster"], both),
    ] {
        let error = check(&Line::parse_from(arguments).check).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

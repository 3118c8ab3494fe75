#![expect(clippy::disallowed_methods, reason = "tests write catalogs")]

use clap::Parser;
use serde_json::json;

use super::*;
use crate::testing::bundle::TestBundle;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    bundle: Bundle,
}

fn answer_to(line: &[&str]) -> anyhow::Result<Answer> {
    let line = ["bundle"].iter().chain(line);
    run(&Line::try_parse_from(line).unwrap().bundle)
}

fn validated(line: &[&str]) -> Vec<String> {
    let line = ["bundle", "validate"].iter().chain(line);
    let Command::Validate(arguments) = Line::try_parse_from(line).unwrap().bundle.command else {
        panic!("not what was asked")
    };
    let examination = arguments.examine().unwrap();
    let findings = examination.findings.iter();
    findings
        .filter(|finding| finding.severity < crate::render::examine::Severity::Note)
        .map(|finding| format!("{}: {}", finding.check.as_str(), finding.message))
        .collect()
}

#[test]
fn exit_codes_tell_yes_from_no_from_unusable() {
    let sound = TestBundle::new().directory();
    let sound = sound.path().to_str().unwrap();
    let broken = TestBundle::new()
        .file("metadata/annotations.yaml", "")
        .directory();
    let broken = broken.path().to_str().unwrap();
    for output in ["text", "json"] {
        for command in ["show", "validate"] {
            assert_eq!(
                answer_to(&[command, sound, "-o", output]).unwrap(),
                Answer::Yes
            );
            assert!(answer_to(&[command, "/no/where", "-o", output]).is_err());
        }
        assert_eq!(
            answer_to(&["validate", broken, "-o", output]).unwrap(),
            Answer::No
        );
        let empty = tempfile::tempdir().unwrap();
        let empty = empty.path().to_str().unwrap();
        for command in ["show", "validate"] {
            assert_eq!(
                answer_to(&[command, empty, "-o", output]).unwrap(),
                Answer::No
            );
        }
    }
    assert_eq!(validated(&[broken]), ["rules: package name is empty"]);
}

#[test]
fn a_bundle_for_newer_clusters_is_refused() {
    let bundle = TestBundle::new().with("/spec/minKubeVersion", json!("1.30.0"));
    let directory = bundle.directory();
    let source = directory.path().to_str().unwrap();
    assert_eq!(
        validated(&[source, "--kubernetes", "1.30"]),
        Vec::<String>::new()
    );
    assert_eq!(
        validated(&[source, "--kubernetes", "v1.29.4"]),
        ["cluster-version: bundle needs Kubernetes 1.30.0 or newer, and the cluster runs 1.29.4"]
    );
}

#[test]
fn objects_that_fit_no_revision_are_refused() {
    let account = r#"{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}}"#;
    let directory = TestBundle::new()
        .file("manifests/s.yaml", account)
        .directory();
    let found = validated(&[directory.path().to_str().unwrap()]);
    assert_eq!(
        found,
        ["install-modes: duplicate object found: ServiceAccount.v1 operators/s"]
    );
}

#[test]
fn dependencies_are_held_against_the_catalog() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.json");
    let catalog = path.to_str().unwrap();
    let property = |version: &str| json!({"type": "olm.package.required", "value": {"packageName": "q", "versionRange": version}});
    let write = |properties: &[serde_json::Value]| {
        let bundle = json!({"schema": "olm.bundle", "package": "p", "name": "p.v1.0.0", "properties": properties});
        std::fs::write(&path, bundle.to_string()).unwrap();
    };
    let text = "dependencies: [{type: olm.package, value: {packageName: q, version: '>=1.0.0'}}]";
    let depends = TestBundle::new()
        .file("metadata/dependencies.yaml", text)
        .directory();
    let depends = depends.path().to_str().unwrap();
    let plain = TestBundle::new().directory();
    let plain = plain.path().to_str().unwrap();
    let own = "dependencies: needs package q >=1.0.0: bundles with dependencies (olm.package.required) are not supported";

    write(&[property(">=1.0.0")]);
    assert_eq!(validated(&[depends, "--catalog", catalog]), [own]);
    let of_catalog = r#"dependencies: catalog c asks for olm.package.required {"packageName":"q","versionRange":">=1.0.0"}, which the bundle does not: bundles with dependencies are not supported"#;
    assert_eq!(validated(&[plain, "--catalog", catalog]), [of_catalog]);

    write(&[]);
    let ignored = r#"dependencies: metadata/dependencies.yaml asks for olm.package.required {"packageName":"q","versionRange":">=1.0.0"}, and catalog c does not: it is not looked at"#;
    assert_eq!(validated(&[depends, "--catalog", catalog]), [own, ignored]);
    assert_eq!(
        validated(&[plain, "--catalog", catalog]),
        Vec::<String>::new()
    );
    std::fs::write(&path, "{").unwrap();
    assert!(answer_to(&["validate", plain, "--catalog", catalog]).is_err());
}

#[test]
fn what_a_bundle_is_is_said_the_dangerous_first() {
    let rules = json!([
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]},
    ]);
    let constraint = "properties:
- type: olm.constraint
  value: {failureMessage: m, all: {constraints: [{package: {name: q, versionRange: '>=1.0.0'}}]}}
- {type: olm.maxOpenShiftVersion, value: 4.20}
";
    let directory = TestBundle::new()
        .webhook()
        .with("/spec/minKubeVersion", json!("1.30.0"))
        .with(
            "/spec/relatedImages",
            json!([{"name": "extra", "image": "example.com/extra:v1"}]),
        )
        .with("/spec/install/spec/clusterPermissions/0/rules", rules)
        .with(
            "/metadata/annotations/operatorframework.io~1suggested-namespace",
            json!("mine"),
        )
        .file("metadata/properties.yaml", constraint)
        .directory();
    let line = ["bundle", "show", directory.path().to_str().unwrap()];
    let Command::Show(arguments) = Line::try_parse_from(line).unwrap().bundle.command else {
        panic!("not what was asked")
    };
    let facts = arguments.facts().unwrap();
    insta::assert_snapshot!(anstream::adapter::strip_str(&facts.text()));
    insta::assert_yaml_snapshot!(facts.document());
}

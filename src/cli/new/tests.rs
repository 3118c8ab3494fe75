#![expect(clippy::disallowed_methods, reason = "tests write catalogs")]

use std::fs;

use clap::Parser;

use super::super::objects::refusal;
use super::*;
use crate::testing::bundle::TestBundle;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    new: New,
}

/// A catalog of package `p` with this bundle, in a directory with it.
fn catalog(bundle: &TestBundle) -> [tempfile::TempDir; 2] {
    let files = bundle.directory();
    let property =
        json!({"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}});
    let metas = [
        json!({"schema": "olm.package", "name": "p"}),
        json!({"schema": "olm.channel", "package": "p", "name": "stable", "entries": [{"name": "p.v1.0.0"}]}),
        json!({"schema": "olm.bundle", "package": "p", "name": "p.v1.0.0", "image": files.path(), "properties": [property]}),
    ];
    let directory = tempfile::tempdir().unwrap();
    let lines: Vec<String> = metas.iter().map(Value::to_string).collect();
    fs::write(directory.path().join("catalog.json"), lines.join("\n")).unwrap();
    [files, directory]
}

fn printed(bundle: &TestBundle, line: &[&str]) -> anyhow::Result<String> {
    printed_of("p", bundle, line)
}

fn printed_of(package: &str, bundle: &TestBundle, line: &[&str]) -> anyhow::Result<String> {
    let [_files, catalog] = catalog(bundle);
    let catalog = catalog.path().to_str().unwrap();
    let start = ["new", package, "--catalog", catalog, "-n", "mine"];
    Line::try_parse_from(start.iter().chain(line))
        .unwrap()
        .new
        .text()
}

#[test]
fn everything_for_a_first_install_is_printed() {
    let template = json!({"metadata": {"name": "x", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let modes =
        ["AllNamespaces", "SingleNamespace"].map(|mode| json!({"type": mode, "supported": true}));
    let bundle = TestBundle::new()
        .with("/spec/installModes", json!(modes))
        .with(
            "/metadata/annotations/operatorframework.io~1suggested-namespace-template",
            json!(template.to_string()),
        );
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(config.path(), "watchNamespace: other\n").unwrap();
    let config = config.path().to_str().unwrap();
    let line = [
        "--version",
        "1.x",
        "--channel",
        "stable",
        "--config",
        config,
    ];
    insta::assert_snapshot!(printed(&bundle, &line).unwrap());
}

#[test]
fn names_may_be_given_and_json_is_one_list() {
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(config.path(), "{}").unwrap();
    let config = config.path().to_str().unwrap();
    let line = [
        "--name",
        "e",
        "--service-account",
        "a",
        "-o",
        "json",
        "--config",
        config,
    ];
    let list: Value = serde_json::from_str(&printed(&TestBundle::new(), &line).unwrap()).unwrap();
    let items = list["items"].as_array().unwrap();
    assert_eq!(
        items[0],
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}})
    );
    assert_eq!(items[1]["metadata"]["name"], "a");
    let extension = items.last().unwrap();
    assert_eq!(extension["metadata"]["name"], "e");
    assert_eq!(
        extension["spec"],
        json!({"namespace": "mine", "serviceAccount": {"name": "a"},
            "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}})
    );
    // What is printed is what the API takes.
    serde_json::from_value::<crate::api::ClusterExtension>(extension.clone()).unwrap();
}

#[test]
fn what_cannot_be_installed_is_not_printed() {
    let error = printed(&TestBundle::new(), &["--version", "2.x"]).unwrap_err();
    let expected = r#"no bundles found for package "p" matching version "2.x""#;
    assert_eq!(refusal(&error).unwrap(), expected);
    let text = error.to_string();
    assert!(
        text.starts_with(expected)
            && text.contains("1.0.0")
            && text.contains("oxolm resolve p --catalog "),
        "{text}"
    );
    let text = printed(&TestBundle::new(), &["--channel", "nope"]).unwrap_err();
    assert!(text.to_string().contains("[stable]"), "{text}");
    let error = printed(&TestBundle::new(), &["--version", "1.*]"]).unwrap_err();
    assert_eq!(refusal(&error), None, "that is no range: {error:#}");
    let broken = TestBundle::new().with("/spec/installModes", json!([]));
    assert!(refusal(&printed(&broken, &[]).unwrap_err()).is_some());
    let error = printed(&TestBundle::new(), &["--name", "A_b"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#""A_b" cannot be the name of a ClusterExtension: give one with --name"#
    );
    let error = printed(&TestBundle::new(), &["--service-account", "A b"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#""A b" cannot be the name of a service account: up to 253 lower case letters, digits, '-' and '.' can"#
    );
    let parsed = Line::try_parse_from(["new", "p", "-n", "A.b"]).unwrap();
    assert_eq!(
        parsed.new.text().unwrap_err().to_string(),
        r#""A.b" cannot be the name of a namespace: up to 63 lower case letters, digits and '-' can"#
    );
    let modes = json!([{"type": "SingleNamespace", "supported": true}]);
    let single = TestBundle::new().with("/spec/installModes", modes);
    let error = printed(&single, &[]).unwrap_err().to_string();
    assert!(error.ends_with(" without --config"), "{error}");
}

#[test]
fn a_package_may_be_named_with_its_version() {
    let bundle = TestBundle::new();
    let flag = printed(&bundle, &["--version", "1.x"]).unwrap();
    assert_eq!(printed_of("p@1.x", &bundle, &[]).unwrap(), flag);
    let error = printed_of("p@1.x", &bundle, &["--version", "1.x"]).unwrap_err();
    let expected = "p@1.x names a version already: leave out --version";
    assert_eq!(error.to_string(), expected);
    let error = printed_of("./p", &bundle, &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "./p is a bundle by itself, and an extension takes a package of a catalog: name that, with --catalog or --cluster"
    );
    let error = printed_of("nope", &bundle, &[]).unwrap_err().to_string();
    assert!(
        error.contains("; to see what there is: oxolm catalog list "),
        "{error}"
    );
}

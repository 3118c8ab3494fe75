use clap::Parser;
use serde_json::json;

use super::*;
use crate::bundle::Files;
use crate::render::conformance;
use crate::testing::conformance::Row;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    render: Render,
}

fn arguments(line: &[&str]) -> Render {
    let line = ["render"].iter().chain(line);
    Line::try_parse_from(line).unwrap().render
}

fn put(directory: &Path, files: &Files) {
    for (path, bytes) in files {
        let path = directory.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// A bundle of one Deployment whose CSV has `annotations`.
fn bundle(annotations: &Value) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let pod = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}});
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "p.v1", "annotations": annotations},
        "spec": {
            "installModes": [
                {"type": "AllNamespaces", "supported": true}, {"type": "OwnNamespace", "supported": true},
            ],
            "install": {"spec": {
                "deployments": [{"name": "d", "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pod}}],
                "clusterPermissions": [{"serviceAccountName": "s", "rules": []}],
            }},
        },
    });
    let config_map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a:b/c"}});
    let name = json!({"annotations": {"operators.operatorframework.io.bundle.package.v1": "p"}});
    let files = [
        ("manifests/csv.yaml", csv),
        ("manifests/more.yaml", config_map),
        ("metadata/annotations.yaml", name),
    ];
    let files = files.map(|(path, value)| (path.to_owned(), value.to_string().into_bytes()));
    put(directory.path(), &files.into());
    directory
}

fn kinds(objects: &[Value]) -> Vec<&str> {
    objects
        .iter()
        .map(|object| object["kind"].as_str().unwrap())
        .collect()
}

/// The case as a user would ask it: files in a directory, the configuration in a file.
fn by_command(row: &Row, files: &Files) -> Result<Vec<Value>, String> {
    let directory = tempfile::tempdir().unwrap();
    let bundle = directory.path().join("bundle");
    fs::create_dir(&bundle).unwrap();
    put(&bundle, files);
    let config = directory.path().join("config.json");
    let mut line = vec![
        bundle.to_str().unwrap(),
        "--namespace",
        row.text("install_namespace"),
        "--certificates",
        row.text("cert_provider"),
        "-o",
        "json",
    ];
    if !row.value["config"].is_null() {
        fs::write(&config, row.value["config"].to_string()).unwrap();
        line.extend(["--config", config.to_str().unwrap()]);
    }
    let arguments = arguments(&line);
    match arguments.objects() {
        Ok(objects) => {
            assert_eq!(arguments.objects().unwrap(), objects);
            Ok(serde_json::from_str(&arguments.print(&objects).unwrap()).unwrap())
        }
        Err(error) => Err(refusal(&error).unwrap_or_else(|| panic!("no refusal: {error:#}"))),
    }
}

/// What is applied first comes first.
fn in_apply_order(_: &Row, objects: &[Value]) -> Result<(), String> {
    let mut sorted = objects.to_vec();
    phase::sort(&mut sorted);
    let place = |kind| kinds(objects).into_iter().position(|found| found == kind);
    if sorted != objects {
        return Err("not in the order in which objects are applied".to_owned());
    }
    match (place("ServiceAccount"), place("Deployment")) {
        (Some(account), Some(deployment)) if deployment < account => {
            Err("the Deployment comes before its account".to_owned())
        }
        _ => Ok(()),
    }
}

#[test]
fn every_case_of_the_reference_comes_out_of_the_command() {
    let names = [
        "oracle/render command real",
        "oracle/render command synthetic",
    ];
    conformance::score(names, &by_command, in_apply_order);
}

#[test]
fn a_bundle_may_suggest_its_namespace() {
    let template = json!({"metadata": {"name": "of-template", "labels": {"a": "b"}}}).to_string();
    let suggested = "operatorframework.io/suggested-namespace";
    let with_template = "operatorframework.io/suggested-namespace-template";
    for (annotations, flag, expected) in [
        (json!({suggested: "suggested"}), None, "suggested"),
        (json!({suggested: "suggested"}), Some("given"), "given"),
        (
            json!({with_template: template, suggested: "x"}),
            None,
            "of-template",
        ),
        (json!({with_template: "no JSON", suggested: "x"}), None, "x"),
        (json!({with_template: "[]", suggested: "x"}), None, "x"),
    ] {
        let directory = bundle(&annotations);
        let mut line = vec![directory.path().to_str().unwrap()];
        line.extend(flag.iter().flat_map(|flag| ["-n", flag]));
        let objects = arguments(&line).objects().unwrap();
        let account = objects
            .iter()
            .find(|object| object["kind"] == "ServiceAccount");
        assert_eq!(account.unwrap()["metadata"]["namespace"], expected);
    }
    for annotations in [json!({}), json!({suggested: ""})] {
        let directory = bundle(&annotations);
        let error = arguments(&[directory.path().to_str().unwrap()]).objects();
        let error = error.unwrap_err();
        assert_eq!(refusal(&error), None);
        assert!(error.to_string().ends_with("name one with --namespace"));
    }
}

#[test]
fn objects_are_printed_in_apply_order_or_written_to_files() {
    let directory = bundle(&json!({}));
    let source = directory.path().to_str().unwrap();
    let order = [
        "ServiceAccount",
        "ConfigMap",
        "ClusterRole",
        "ClusterRoleBinding",
        "Deployment",
    ];
    // Targets are all namespaces: the CSV has no permissions that would be lifted.
    let objects = arguments(&[source, "-n", "n"]).objects().unwrap();
    assert_eq!(kinds(&objects), order);
    for (form, ending) in [("yaml", "yaml"), ("json", "json")] {
        let out = directory.path().join(form).join("new");
        let line = [
            source,
            "-n",
            "n",
            "-o",
            form,
            "--split",
            out.to_str().unwrap(),
        ];
        assert_eq!(run(&arguments(&line)).unwrap(), Answer::Yes);
        let mut names: Vec<_> = fs::read_dir(&out)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names[0], format!("01-serviceaccount-s.{ending}"));
        assert_eq!(names[1], format!("02-configmap-a_b_c.{ending}"));
        assert_eq!(names.len(), order.len());
        let text = fs::read(out.join(&names[4])).unwrap();
        assert_eq!(
            crate::fbc::stream::documents(&text)
                .next()
                .unwrap()
                .unwrap(),
            objects[4]
        );
        let again = run(&arguments(&line)).unwrap_err();
        assert!(again.to_string().contains("is not empty"));
    }
}

#[test]
fn a_refusal_is_an_answer_and_what_cannot_be_used_is_not() {
    let directory = bundle(&json!({}));
    let source = directory.path().to_str().unwrap();
    let config = directory.path().join("config");
    let config_path = config.to_str().unwrap();
    for (written, expected) in [
        ("true", "invalid type: got boolean, want object"),
        ("{unknown: 1}", "unknown field \"unknown\""),
    ] {
        fs::write(&config, written).unwrap();
        let arguments = arguments(&[source, "-n", "n", "--config", config_path]);
        let message = refusal(&arguments.objects().unwrap_err()).unwrap();
        let start = "invalid ClusterExtension configuration: invalid configuration: ";
        assert_eq!(message, format!("{start}{expected}"));
        assert_eq!(run(&arguments).unwrap(), Answer::No);
    }
    let twice = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}});
    let second = directory.path().join("manifests/account.yaml");
    fs::write(&second, twice.to_string()).unwrap();
    let blocked = arguments(&[source, "-n", "n"]);
    let message = refusal(&blocked.installable().unwrap_err()).unwrap();
    assert_eq!(message, "duplicate object found: ServiceAccount.v1 n/s");
    assert_eq!(run(&blocked).unwrap(), Answer::No);
    fs::remove_file(second).unwrap();
    fs::write(&config, "{").unwrap();
    let unusable = arguments(&[source, "-n", "n", "--config", config_path]);
    assert!(run(&unusable).is_err());
    assert!(run(&arguments(&["/no/where", "-n", "n"])).is_err());
    let empty = tempfile::tempdir().unwrap();
    let empty = arguments(&[empty.path().to_str().unwrap(), "-n", "n"]);
    let message = refusal(&empty.objects().unwrap_err()).unwrap();
    assert_eq!(
        message,
        "open metadata/annotations.yaml: no such file or directory"
    );
    let escaping = directory.path().join("manifests/out");
    std::os::unix::fs::symlink("/etc/hostname", escaping).unwrap();
    let message = refusal(&arguments(&[source, "-n", "n"]).objects().unwrap_err()).unwrap();
    assert_eq!(message, "manifests/out leads out of the bundle");
}

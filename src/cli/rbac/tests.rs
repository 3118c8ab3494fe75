#![expect(clippy::disallowed_methods, reason = "tests write bundles")]

use std::fs;

use super::*;

/// The samples are bundles that everybody has.
fn sample(version: &str) -> String {
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/config/samples/bundles");
    format!("{samples}/hello-operator/{version}")
}

fn arguments(sources: &[&str]) -> Generate {
    Generate {
        sources: sources.iter().map(|source| (*source).to_owned()).collect(),
        namespace: "hello".into(),
        service_account: "installer".into(),
        config: None,
        certificates: Certificates::SelfSigned,
        output: Form::Yaml,
        images: Sources::default(),
    }
}

/// A bundle that gives its account `rules` in its own namespace, and ships a definition.
fn bundle(mode: &str, rules: &Value) -> tempfile::TempDir {
    bundle_with(mode, rules, &json!([]))
}

fn bundle_with(mode: &str, rules: &Value, webhooks: &Value) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let put = |path: &str, content: String| {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    let annotations = json!({"operators.operatorframework.io.bundle.package.v1": "things"});
    put(
        "metadata/annotations.yaml",
        json!({"annotations": annotations}).to_string(),
    );
    let account = "things";
    let pod = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"serviceAccountName": account, "containers": []}});
    let modes = [
        "AllNamespaces",
        "OwnNamespace",
        "SingleNamespace",
        "MultiNamespace",
    ];
    let modes = modes.map(|name| json!({"type": name, "supported": name == mode}));
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "things.v1"},
        "spec": {"version": "1.0.0", "installModes": modes, "webhookdefinitions": webhooks,
            "customresourcedefinitions": {"owned": [{"name": "things.g", "kind": "Thing", "version": "v1"}]},
            "install": {"strategy": "deployment", "spec": {
                "permissions": [{"serviceAccountName": account, "rules": rules}],
                "deployments": [{"name": "things", "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pod}}],
            }},
        },
    });
    put("manifests/csv.yaml", csv.to_string());
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]);
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.g"},
        "spec": {"group": "g", "scope": "Namespaced", "versions": versions,
            "names": {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"}},
    });
    put("manifests/crd.yaml", crd.to_string());
    directory
}

#[test]
fn the_roles_of_a_sample_are_those_that_it_takes() {
    insta::assert_snapshot!(generate(&arguments(&[&sample("1.0.0")])).unwrap());
}

#[test]
fn a_bundle_in_one_namespace_takes_roles_there_and_its_definitions_stay() {
    let rules =
        json!([{"apiGroups": ["g"], "resources": ["things", "things/status"], "verbs": ["*"]}]);
    let directory = bundle("OwnNamespace", &rules);
    let source = directory.path().display().to_string();
    let mut arguments = arguments(&[&source]);
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(config.path(), "watchNamespace: hello\n").unwrap();
    arguments.config = Some(config.path().to_owned());
    insta::assert_snapshot!(generate(&arguments).unwrap());
}

#[test]
fn who_makes_certificates_decides_what_is_taken() {
    let webhook = json!({
        "type": "ValidatingAdmissionWebhook", "generateName": "things.g", "deploymentName": "things",
        "admissionReviewVersions": ["v1"], "sideEffects": "None", "rules": [],
    });
    let directory = bundle_with("AllNamespaces", &json!([]), &json!([webhook]));
    let source = directory.path().display().to_string();
    let mut arguments = arguments(&[&source]);
    for (certificates, expected) in [
        (Certificates::SelfSigned, vec!["secrets"]),
        (Certificates::ServiceCa, vec![]),
        (Certificates::CertManager, vec!["certificates", "issuers"]),
    ] {
        arguments.certificates = certificates;
        let text = generate(&arguments).unwrap();
        let found: Vec<_> = ["secrets", "certificates", "issuers"]
            .into_iter()
            .filter(|resource| {
                text.contains(&format!("{resource}]")) || text.contains(&format!("{resource},"))
            })
            .collect();
        assert_eq!(found, expected, "{certificates:?}\n{text}");
        assert!(text.contains("validatingwebhookconfigurations"), "{text}");
    }
}

#[test]
fn several_versions_are_joined_and_json_is_one_list() {
    let mut both = arguments(&[&sample("1.0.0"), &sample("1.1.0")]);
    both.output = Form::Json;
    let list: Value = serde_json::from_str(&generate(&both).unwrap()).unwrap();
    let kinds: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
    );
    both.sources.reverse();
    assert_eq!(
        list.to_string(),
        serde_json::from_str::<Value>(&generate(&both).unwrap())
            .unwrap()
            .to_string()
    );
}

#[test]
fn what_cannot_be_used_is_said() {
    let things = bundle("MultiNamespace", &json!([]));
    let things = things.path().display().to_string();
    let failure = |arguments: &Generate| format!("{:#}", generate(arguments).unwrap_err());
    let refused = arguments(&[&things]);
    assert!(failure(&refused).ends_with(
        ": unsupported bundle: bundle must support at least one of [AllNamespaces SingleNamespace OwnNamespace] install modes"
    ));
    assert!(refusal(&generate(&refused).unwrap_err()).is_some());
    let answer = run(&Rbac {
        command: Command::Generate(refused),
    });
    assert_eq!(answer.unwrap(), Answer::No);
    let mut unreadable = arguments(&[&sample("1.0.0")]);
    unreadable.config = Some("/no/where".into());
    assert!(failure(&unreadable).starts_with("cannot read /no/where: "));
    let mut misconfigured = arguments(&[&sample("1.0.0")]);
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(config.path(), "[").unwrap();
    misconfigured.config = Some(config.path().to_owned());
    assert!(failure(&misconfigured).contains(" is neither YAML nor JSON: "));
    let other = bundle("AllNamespaces", &json!([]));
    let two = arguments(&[&sample("1.0.0"), &other.path().display().to_string()]);
    assert_eq!(
        failure(&two),
        "these are bundles of several packages: hello-operator, things"
    );
}

use super::*;
use crate::testing::bundle::TestBundle;

fn said(bundle: &TestBundle, severity: Severity) -> Vec<String> {
    Examination::of(&bundle.files())
        .findings
        .iter()
        .filter(|finding| finding.severity == severity)
        .map(|finding| format!("{}: {}", finding.check.as_str(), finding.message))
        .collect()
}

#[track_caller]
fn says(bundle: &TestBundle, severity: Severity, expected: &[&str]) {
    assert_eq!(said(bundle, severity), expected);
}

#[test]
fn a_sound_bundle_gets_notes_only() {
    let bundle = TestBundle::new();
    let examination = Examination::of(&bundle.files());
    assert!(examination.is_installable());
    says(&bundle, Severity::Error, &[]);
    says(&bundle, Severity::Warning, &[]);
    let notes = said(&bundle, Severity::Note);
    assert_eq!(
        notes[..3],
        [
            "install-modes: AllNamespaces is supported: 4 objects",
            "install-modes: OwnNamespace is not supported",
            "install-modes: SingleNamespace is not supported",
        ]
    );
    assert!(notes[3].starts_with("size: 2 files, "), "{}", notes[3]);
    assert!(notes[4].starts_with("size: the largest object is Deployment d with "));
}

#[test]
fn what_is_refused_is_an_error_once() {
    let missing = json!({"owned": [{"name": "x", "kind": "X", "version": "v1"}]});
    let modes = ["AllNamespaces", "OwnNamespace", "SingleNamespace"]
        .map(|mode| json!({"type": mode, "supported": true}));
    let broken = TestBundle::new()
        .with("/spec/customresourcedefinitions", missing)
        .with("/spec/installModes", json!(modes));
    says(
        &broken,
        Severity::Error,
        &[
            "rules: cluster service definition references owned custom resource definition 'x' not found in bundle",
        ],
    );
    let unsupported = TestBundle::new().with("/spec/installModes", json!([]));
    says(
        &unsupported,
        Severity::Error,
        &[
            "rules: unsupported bundle: bundle must support at least one of [AllNamespaces SingleNamespace OwnNamespace] install modes",
        ],
    );
    let unreadable = TestBundle::new().file("manifests/x.yaml", "a: b");
    assert!(said(&unreadable, Severity::Error)[0].starts_with("layout: error parsing objects in "));
    let unconvertible = TestBundle::new()
        .webhook()
        .with("/spec/webhookdefinitions/0/type", json!("ConversionWebhook"))
        .with("/spec/webhookdefinitions/0/conversionCRDs", json!(["things.g"]))
        .with("/spec/customresourcedefinitions", json!({"owned": [{"name": "things.g", "kind": "Thing", "version": "v1"}]}))
        .file("manifests/crd.yaml", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.g}\nspec: {group: g, preserveUnknownFields: true}");
    assert!(said(&unconvertible, Severity::Error)[0].starts_with(
        "install-modes: AllNamespaces: custom resource definition 'things.g' must have"
    ));
}

#[test]
fn properties_that_say_nothing_are_warned_of() {
    let properties = "properties:
- property: {type: color, value: red}
- value: red
- {type: color}
- {type: color, value: red}
- {type: olm.gvk, value: {group: g}}
";
    let bundle = TestBundle::new().file("metadata/properties.yaml", properties);
    says(
        &bundle,
        Severity::Warning,
        &[
            "properties: property 1 has neither type nor value: it says nothing (are they nested in another member?)",
            "properties: property 2 has no type: it says nothing",
            "properties: property 3 (color) has no value",
            "properties: olm.gvk: version is missing",
        ],
    );
    says(&bundle, Severity::Error, &[]);
}

#[test]
fn dependencies_are_refused_wherever_they_stand() {
    let property = "properties: [{type: olm.package.required, value: {packageName: q, versionRange: '>=1.0.0'}}]";
    let dependency =
        "dependencies: [{type: olm.package, value: {packageName: q, version: '>=1.0.0'}}]";
    let error = "dependencies: needs package q >=1.0.0: bundles with dependencies (olm.package.required) are not supported";
    for (file, text) in [
        ("metadata/properties.yaml", property),
        ("metadata/dependencies.yaml", dependency),
    ] {
        says(
            &TestBundle::new().file(file, text),
            Severity::Error,
            &[error],
        );
    }
    let unreadable = TestBundle::new().file("metadata/dependencies.yaml", "[]");
    says(
        &unreadable,
        Severity::Error,
        &["dependencies: metadata/dependencies.yaml: the document is no list of dependencies"],
    );
    let large = format!(
        "properties: [{{type: olm.constraint, value: {{failureMessage: {}}}}}]",
        "x".repeat(64 << 10)
    );
    let large = TestBundle::new().file("metadata/properties.yaml", &large);
    assert!(said(&large, Severity::Error)[0].starts_with("dependencies: olm.constraint has 655"));
}

#[test]
fn what_it_needs_is_noted() {
    let bundle = TestBundle::new()
        .webhook()
        .with("/spec/minKubeVersion", json!("1.30"));
    let notes = said(&bundle, Severity::Note);
    for expected in [
        "certificates: webhooks need certificates (1): of cert-manager, of OpenShift's service CA, or of oxolm itself",
        "cluster-version: needs Kubernetes 1.30.0 or newer",
    ] {
        assert!(notes.iter().any(|note| note == expected), "{notes:?}");
    }
    let wrong = TestBundle::new().with("/spec/minKubeVersion", json!("new"));
    assert!(
        said(&wrong, Severity::Warning)[0]
            .starts_with("cluster-version: minKubeVersion \"new\" is no version")
    );
}

#[test]
fn annotations_that_are_not_looked_at_are_warned_of() {
    let text = "annotations:
  operators.operatorframework.io.bundle.package.v1: p
  operators.operatorframework.io.bundle.mediatype.v1: helm
  operators.operatorframework.io.bundle.manifests.v1: other/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
";
    says(
        &TestBundle::new().file("metadata/annotations.yaml", text),
        Severity::Warning,
        &[
            "layout: media type \"helm\" is ignored: every bundle is read as registry+v1",
            "layout: annotation operators.operatorframework.io.bundle.manifests.v1 names directory \"other/\" and is ignored: it is always manifests/",
        ],
    );
}

#[test]
fn an_object_that_no_cluster_keeps_is_warned_of() {
    let large = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "l"}, "data": {"a": "x".repeat(LARGEST_OBJECT_BYTES)}});
    let bundle = TestBundle::new().file("manifests/l.yaml", &large.to_string());
    let warnings = said(&bundle, Severity::Warning);
    assert!(
        warnings[0].starts_with("size: ConfigMap l has 15"),
        "{warnings:?}"
    );
}

#[test]
fn a_cluster_may_lack_what_it_needs() {
    let bundle = TestBundle::new()
        .webhook()
        .with("/spec/minKubeVersion", json!("1.31.0"));
    let on = |version: &str, certificates| {
        let mut examination = Examination::of(&bundle.files());
        let before = examination.findings.len();
        examination.on_cluster(&Version::parse_tolerant(version).unwrap(), certificates);
        let added = examination.findings.into_iter().skip(before);
        added
            .map(|finding| format!("{:?} {}", finding.severity, finding.message))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        on("1.31.2", Provider::CertManager),
        ["Note in this cluster, cert-manager makes the certificates of webhooks"]
    );
    assert_eq!(
        on("1.30.9", Provider::None),
        [
            "Error bundle needs Kubernetes 1.31.0 or newer, and the cluster runs 1.30.9",
            "Error webhooks need certificates, and nobody makes them in this cluster: install cert-manager",
        ]
    );
}

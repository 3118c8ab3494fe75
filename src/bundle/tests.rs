//! Loading: every defect and its words. The texts about objects were checked against the Go libraries.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::error::{Classify, Disposition, Reason};

const ANNOTATIONS: &str = "annotations:\n  operators.operatorframework.io.bundle.package.v1: syn\n";

const CSV: &str =
    "kind: ClusterServiceVersion\nmetadata: {name: syn.v1.0.0}\nspec: {version: 1.0.0}\n";

/// The files of a bundle with `more`; an empty text removes a file.
fn files(more: &[(&str, &str)]) -> Files {
    let mut files = Files::from([
        (
            "metadata/annotations.yaml".to_owned(),
            ANNOTATIONS.as_bytes().to_vec(),
        ),
        ("manifests/csv.yaml".to_owned(), CSV.as_bytes().to_vec()),
    ]);
    for (path, text) in more {
        if text.is_empty() {
            files.remove(*path);
        } else {
            files.insert((*path).to_owned(), text.as_bytes().to_vec());
        }
    }
    files
}

#[track_caller]
fn refused(more: &[(&str, &str)], expected: &str) {
    let error = RegistryV1::load(&files(more)).unwrap_err();
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.disposition(), Disposition::Terminal(Reason::Blocked));
}

#[test]
fn what_is_missing_is_told() {
    refused(
        &[("metadata/annotations.yaml", "")],
        "open metadata/annotations.yaml: no such file or directory",
    );
    refused(
        &[("manifests/csv.yaml", "")],
        "stat manifests: no such file or directory",
    );
    refused(
        &[("manifests/csv.yaml", "# nothing")],
        "no ClusterServiceVersion found in \"manifests\"",
    );
    refused(
        &[("manifests/more/x.yaml", "kind: A")],
        "subdirectories are not allowed within the \"manifests\" directory of the bundle image filesystem: found \"manifests/more\"",
    );
    refused(
        &[("metadata/annotations.yaml", "annotations: 5")],
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal number into Go struct field AnnotationsFile.annotations of type bundle.Annotations",
    );
}

#[test]
fn defects_of_objects_are_told_in_the_words_of_go() {
    const MISSING: &str =
        "unable to get type info from the object \"*unstructured.Unstructured\": Object";
    for (text, cause) in [
        (
            "not yaml!",
            "unable to decode \"manifests/x\": json: cannot unmarshal string into Go value of type unstructured.detector",
        ),
        (
            "b: <\na: 1.0",
            r#"unable to decode "manifests/x": Object 'Kind' is missing in '{"a":1,"b":"\u003c"}'"#,
        ),
        (
            "{\"kind\": \"A\"} {\"b\": 1, \"a\": 2}",
            r#"unable to decode "manifests/x": Object 'Kind' is missing in '{"b": 1, "a": 2}'"#,
        ),
        (
            "kind: A\nmetadata: {labels: {a: 1}}",
            "unable to decode \"manifests/x\": json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            "kind: A\nmetadata: 5",
            "unable to decode \"manifests/x\": json: cannot unmarshal number into Go struct field metadataOnlyObject.metadata of type v1.ObjectMeta",
        ),
        (
            "kind: A\napiVersion: []",
            "unable to decode \"manifests/x\": json: cannot unmarshal array into Go struct field metadataOnlyObject.TypeMeta.apiVersion of type string",
        ),
        (
            "kind: A\nmetadata: {creationTimestamp: yesterday}",
            "unable to decode \"manifests/x\": parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"yesterday\" as \"2006\"",
        ),
        (
            "kind: A\nmetadata: {ownerReferences: [{name: 5}]}",
            "unable to decode \"manifests/x\": json: cannot unmarshal number into Go struct field OwnerReference.metadata.ownerReferences.name of type string",
        ),
        (
            "kind: List\nitems: {}",
            "unable to decode \"manifests/x\": json: cannot unmarshal object into Go struct field decodeList.items of type []json.RawMessage",
        ),
        (
            "kind: List\nitems: [5]",
            "unable to decode \"manifests/x\": json: cannot unmarshal number into Go value of type map[string]interface {}",
        ),
        (
            "kind: List\nitems: [{kind: List, items: []}]",
            "*unstructured.Unstructured is not a list: no Items field in this object",
        ),
        (
            "kind: List\napiVersion: v1\nitems: [{kind: X}, {kind: Y}, {apiVersion: v1}, {kind: ClusterServiceVersion, apiVersion: v, metadata: 1}]",
            &format!(
                "[{MISSING} 'apiVersion' is missing in 'object has no apiVersion field', {MISSING} 'Kind' is missing in 'object has no kind field ', cannot restore struct from: int64]"
            ),
        ),
        (
            "kind: ClusterServiceVersion\nspec: {version: 1-rc}",
            "Short version cannot contain PreRelease/Build meta data",
        ),
        (
            "kind: ClusterServiceVersion\nspec: {displayName: 5}",
            "cannot convert int64 to string",
        ),
        (
            "kind: ClusterServiceVersion\nspec: {installModes: [{supported: x}]}",
            "unrecognized type: bool",
        ),
        (
            "kind: ClusterServiceVersion\nspec: {labels: []}",
            "cannot restore map from slice",
        ),
        (
            "kind: ClusterServiceVersion\nspec: {skips: x}",
            "cannot restore slice from string",
        ),
        (
            "kind: ClusterServiceVersion\nspec: {webhookdefinitions: [{containerPort: 1.5}]}",
            "cannot convert float64 to int32",
        ),
        (
            "kind: ClusterServiceVersion\nspec: {webhookdefinitions: [{targetPort: true}]}",
            "json: cannot unmarshal bool into Go value of type int32",
        ),
        (
            "kind: CustomResourceDefinition\nspec: {conversion: {webhook: {clientConfig: {caBundle: '*'}}}}",
            "error decoding from json: illegal base64 data at input byte 0",
        ),
        (
            "kind: CustomResourceDefinition\nspec: {versions: [{schema: {openAPIV3Schema: {items: {properties: {a: {type: 5}}}}}}]}",
            "json: cannot unmarshal number into Go struct field JSONSchemaProps.properties.type of type string",
        ),
        (
            "kind: CustomResourceDefinition\nspec: {versions: [{schema: {openAPIV3Schema: {additionalProperties: 5}}}]}",
            "boolean or JSON schema expected",
        ),
    ] {
        refused(
            &[("manifests/x", text)],
            &format!("error parsing objects in \"manifests/x\": {cause}"),
        );
    }
}

#[test]
fn a_text_that_is_no_yaml_is_told_with_its_place() {
    let error = RegistryV1::load(&files(&[("manifests/x", "a: [")])).unwrap_err();
    assert!(
        error.to_string().starts_with(
            "error parsing objects in \"manifests/x\": error parsing manifests/x: error converting YAML to JSON: yaml: line 1"
        ),
        "{error}"
    );
}

#[test]
fn kinds_alone_decide_and_lists_are_flattened() {
    let bundle = RegistryV1::load(&files(&[
        ("manifests/README.md", "# only a comment"),
        (
            "manifests/a.json",
            r#"{"kind":"ConfigMapList","apiVersion":"v1","items":[{"metadata":{"name":"a"}},null]}{"kind":"X","y":null}"#,
        ),
        ("manifests/l.yaml", "items: null\nkind: List"),
        (
            "manifests/z.yaml",
            "kind: ClusterServiceVersion\nmetadata: {name: last}\n---\nkind: CustomResourceDefinition\napiVersion: apiextensions.k8s.io/v1beta1\nspec: {version: v1, preserveUnknownFields: false}\nstatus: {}\n",
        ),
        ("tests/x/y.yaml", "kind: 5"),
    ]))
    .unwrap();
    assert_eq!(bundle.package, "syn");
    assert_eq!(bundle.csv.metadata.name, "last");
    assert_eq!(
        bundle.crds,
        [json!({
            "kind": "CustomResourceDefinition",
            "apiVersion": "apiextensions.k8s.io/v1beta1",
            "metadata": {},
            "spec": {"group": "", "names": {"plural": "", "kind": ""}, "scope": ""},
        })]
    );
    assert_eq!(
        bundle.others,
        [
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}}),
            json!({"kind": "ConfigMap", "apiVersion": "v1"}),
            json!({"kind": "X", "y": null}),
        ]
    );
}

#[test]
fn a_missing_package_name_is_no_load_error() {
    for text in [
        "null",
        "annotations:",
        "annotations: {}",
        "annotations: {operators.operatorframework.io.bundle.package.v1: null}",
    ] {
        let bundle = RegistryV1::load(&files(&[("metadata/annotations.yaml", text)]));
        assert_eq!(bundle.unwrap().package, "", "{text}");
    }
    let text = "annotations: {operators.operatorframework.io.bundle.package.v1: 7}";
    let bundle = RegistryV1::load(&files(&[("metadata/annotations.yaml", text)]));
    assert_eq!(bundle.unwrap().package, "7");
}

#[track_caller]
fn merged(annotation: Option<&str>, file: Option<&str>, expected: Option<&str>) {
    let csv = match annotation {
        Some(text) => format!(
            "kind: ClusterServiceVersion\nmetadata: {{annotations: {{olm.properties: '{text}'}}}}"
        ),
        None => CSV.to_owned(),
    };
    let mut files = files(&[("manifests/csv.yaml", &csv)]);
    if let Some(text) = file {
        files.insert(
            "metadata/properties.yaml".to_owned(),
            text.as_bytes().to_vec(),
        );
    }
    let bundle = RegistryV1::load(&files).unwrap();
    assert_eq!(bundle.properties(), expected);
}

#[test]
fn properties_of_both_sources_are_merged() {
    merged(None, None, None);
    merged(None, Some(""), None);
    merged(None, Some("properties: []"), Some("null"));
    merged(None, Some("# nothing"), Some("null"));
    merged(Some("[ ]"), Some(""), Some("[ ]"));
    merged(Some("[ ]"), Some("properties: []"), Some("[]"));
    merged(
        Some(r#"[{"type":"from-csv", "value":{"z": 1.50, "a": "<"}}, null]"#),
        Some("properties:\n- type: from-file\n  value: {z: 1, a: '&'}\n"),
        Some(
            r#"[{"type":"from-csv","value":{"z":1.50,"a":"\u003c"}},{"type":"","value":null},{"type":"from-file","value":{"a":"\u0026","z":1}}]"#,
        ),
    );
    merged(
        None,
        Some("properties:\n- property: {type: color, value: red}\n- type: 5\n"),
        Some(r#"[{"type":"","value":null},{"type":"5","value":null}]"#),
    );
}

#[test]
fn an_openshift_version_without_quotes_keeps_its_text() {
    merged(
        None,
        Some(
            "properties:\n- type: olm.maxOpenShiftVersion\n  value: 4.20\n- {type: other, value: 4.20}\n",
        ),
        Some(r#"[{"type":"olm.maxOpenShiftVersion","value":"4.20"},{"type":"other","value":4.2}]"#),
    );
}

#[test]
fn properties_that_cannot_be_read_are_told() {
    for (annotation, cause) in [
        ("", "unexpected end of JSON input"),
        (
            "{}",
            "invalid type: map, expected a sequence at line 1 column 0",
        ),
    ] {
        refused(
            &[(
                "manifests/csv.yaml",
                &format!(
                    "kind: ClusterServiceVersion\nmetadata: {{annotations: {{olm.properties: '{annotation}'}}}}"
                ),
            )],
            &format!("failed to unmarshal csv.metadata.annotations['olm.properties']: {cause}"),
        );
    }
    for text in [
        "5",
        "properties: {}",
        "properties: [a]",
        "properties: [{type: []}]",
        "a: [",
    ] {
        let error = RegistryV1::load(&files(&[("metadata/properties.yaml", text)])).unwrap_err();
        let head = "failed to unmarshal metadata/properties.yaml: ";
        assert!(error.to_string().starts_with(head), "{error}");
    }
}

#[test]
fn typed_values_are_printed_as_go_prints_them() {
    let deployment = json!({
        "replicas": null,
        "unknown": 1,
        "strategy": {"rollingUpdate": {"maxSurge": "25%"}},
        "template": {"metadata": {"creationTimestamp": null}, "spec": {"containers": [{
            "name": "c",
            "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}},
            "livenessProbe": {"httpGet": {"port": 8080}},
            "tty": false,
            "env": [],
        }, null]}},
    });
    assert_eq!(
        typed::reencode("apps.DeploymentSpec", deployment).unwrap(),
        json!({
            "strategy": {"rollingUpdate": {"maxSurge": "25%"}},
            "template": {"metadata": {}, "spec": {"containers": [
                {
                    "name": "c",
                    "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
                    "livenessProbe": {"httpGet": {"port": 8080}},
                },
                {"name": "", "resources": {}},
            ]}},
        })
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_files_never_panic(
        paths in proptest::collection::vec(
            prop_oneof![
                Just("metadata/annotations.yaml".to_owned()),
                Just("metadata/properties.yaml".to_owned()),
                "manifests/[a-z/.]{0,6}",
            ],
            0..5,
        ),
        content in proptest::collection::vec(any::<u8>(), 0..200),
        text in "(kind|items|metadata|spec|: |\\n| |\\[|\\]|\\{|\\}|-|a|1|\"|'|null|CustomResourceDefinition|ClusterServiceVersion){0,40}",
    ) {
        let mut files = files(&[]);
        for path in paths {
            files.insert(path.clone(), content.clone());
            files.insert(format!("{path}x"), text.clone().into_bytes());
        }
        drop(RegistryV1::load(&files));
    }

    #[test]
    fn reencoding_is_idempotent(replicas in any::<i32>(), quantity in "[0-9]{1,4}(\\.[0-9]{1,4})?(m|k|Ki|Mi|Gi|e[0-9])?") {
        let spec = json!({
            "replicas": replicas,
            "template": {"spec": {"containers": [{"resources": {"limits": {"cpu": quantity}}}]}},
        });
        let once = typed::reencode("apps.DeploymentSpec", spec).unwrap();
        prop_assert_eq!(typed::reencode("apps.DeploymentSpec", once.clone()).unwrap(), once);
    }
}

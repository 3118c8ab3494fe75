//! Rendering, whatever comes: laws that hold for every bundle, and bundles that somebody has broken.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree as _;
use serde_json::{Value, json};

use super::examine::Examination;
use super::*;
use crate::bundle::Files;
use crate::fbc::yaml;
use crate::testing::bundle::TestBundle;
use crate::testing::conformance::Set;

const PROVIDERS: [Provider; 4] = [
    Provider::CertManager,
    Provider::ServiceCa,
    Provider::SelfSigned,
    Provider::None,
];

/// A bundle that has some of everything.
fn rich() -> TestBundle {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.g"},
        "spec": {"group": "g", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    });
    let conversion = json!({
        "type": "ConversionWebhook", "generateName": "c.example.com", "deploymentName": "d", "containerPort": 9443,
        "targetPort": "https", "admissionReviewVersions": ["v1"], "conversionCRDs": ["things.g"],
    });
    let mutating = json!({
        "type": "MutatingAdmissionWebhook", "generateName": "m.example.com", "deploymentName": "d",
        "admissionReviewVersions": ["v1"], "sideEffects": "None", "reinvocationPolicy": "Never", "timeoutSeconds": 5,
    });
    let owned = json!({"owned": [{"name": "things.g", "kind": "Thing", "version": "v1"}]});
    let permission = json!([{"serviceAccountName": "", "rules": [{"verbs": ["*"], "apiGroups": ["g"], "resources": ["*"]}]}]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": []},
    ]});
    TestBundle::new()
        .with("/spec/webhookdefinitions", json!([mutating, conversion]))
        .with("/spec/customresourcedefinitions", owned)
        .with("/spec/install/spec/permissions", permission)
        .file("manifests/crd.yaml", &crd.to_string())
        .file("manifests/list.yaml", &list.to_string())
        .file(
            "manifests/service.yaml",
            "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n",
        )
        .file(
            "metadata/properties.yaml",
            "properties: [{type: t, value: 1}]",
        )
}

/// Everything that is done with the files of a bundle.
fn try_all(files: &Files, config: Option<&Value>) -> Vec<Result<Manifests, String>> {
    drop(Examination::of(files));
    let bundle = match RegistryV1::load(files) {
        Ok(bundle) => bundle,
        Err(error) => return vec![Err(error.to_string())],
    };
    let rendered = PROVIDERS.map(|certificates| {
        let options = RenderOptions {
            install_namespace: "n",
            config,
            certificates,
        };
        render(&bundle, &options).map_err(|error| error.to_string())
    });
    rendered.into()
}

/// Every place in a value.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                places(member, &format!("{at}/{}", escaped(key)), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                places(item, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// What somebody may put where something else belongs.
fn any_junk() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|float| json!(float)),
        "[a-zA-Z0-9.:/*_-]{0,70}".prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([null, 1, "a", {}])),
        Just(json!({"name": null, "items": [], "kind": 1})),
    ]
}

#[derive(Debug, Clone)]
enum Mutation {
    /// Something else at one place of one document.
    Replace(Index, Index, Value),
    /// Bytes of one file.
    Bytes(Index, Index, Vec<u8>),
    /// A file that is not there.
    Remove(Index),
    /// A file under another name.
    Rename(Index, String),
}

fn any_mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        6 => (any::<Index>(), any::<Index>(), any_junk()).prop_map(|(file, at, junk)| Mutation::Replace(file, at, junk)),
        2 => (any::<Index>(), any::<Index>(), prop::collection::vec(any::<u8>(), 0..4))
            .prop_map(|(file, at, bytes)| Mutation::Bytes(file, at, bytes)),
        1 => any::<Index>().prop_map(Mutation::Remove),
        1 => (any::<Index>(), "(manifests|metadata)/[a-z./]{0,8}").prop_map(|(file, name)| Mutation::Rename(file, name)),
    ]
}

fn mutate(files: &mut Files, mutation: Mutation) {
    let names: Vec<String> = files.keys().cloned().collect();
    if names.is_empty() {
        return;
    }
    match mutation {
        Mutation::Replace(file, at, junk) => {
            let bytes = files.get_mut(file.get::<String>(&names)).unwrap();
            let Ok(mut document) = yaml::value(bytes) else {
                return;
            };
            let mut found = Vec::new();
            places(&document, "", &mut found);
            *document.pointer_mut(at.get::<String>(&found)).unwrap() = junk;
            *bytes = document.to_string().into_bytes();
        }
        Mutation::Bytes(file, at, new) => {
            let bytes = files.get_mut(file.get::<String>(&names)).unwrap();
            let at = at.index(bytes.len() + 1);
            let until = (at + 2).min(bytes.len());
            bytes.splice(at..until, new);
        }
        Mutation::Remove(file) => _ = files.remove(file.get::<String>(&names)),
        Mutation::Rename(file, name) => {
            let bytes = files.remove(file.get::<String>(&names)).unwrap();
            files.insert(name, bytes);
        }
    }
}

/// The objects of the first provider, in an order of their own.
fn sorted(files: &Files) -> Vec<String> {
    let rendered = try_all(files, None).swap_remove(0).unwrap();
    let mut objects: Vec<String> = rendered.objects.iter().map(Value::to_string).collect();
    objects.sort();
    objects
}

proptest! {
    #[test]
    fn a_broken_bundle_is_refused_or_rendered_and_twice_the_same(
        mutations in prop::collection::vec(any_mutation(), 1..6),
        config in prop::option::of(any_junk()),
    ) {
        let mut files = rich().files();
        for mutation in mutations {
            mutate(&mut files, mutation);
        }
        let first = try_all(&files, config.as_ref());
        prop_assert_eq!(first, try_all(&files, config.as_ref()));
    }

    #[test]
    fn any_configuration_is_refused_or_rendered(
        changes in prop::collection::vec((any::<Index>(), any_junk()), 1..4),
    ) {
        let mut config = json!({"deploymentConfig": {
            "nodeSelector": {"a": "b"}, "tolerations": [{"key": "k"}], "resources": {"limits": {"cpu": "1"}},
            "envFrom": [{"configMapRef": {"name": "c"}}], "env": [{"name": "e", "value": "v"}],
            "volumes": [{"name": "v", "emptyDir": {}}], "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "affinity": {"nodeAffinity": {}}, "annotations": {"a": "b"},
        }});
        for (at, junk) in changes {
            let mut found = Vec::new();
            places(&config, "", &mut found);
            *config.pointer_mut(at.get::<String>(&found)).unwrap() = junk;
        }
        drop(try_all(&rich().files(), Some(&config)));
    }

    #[test]
    fn the_names_of_the_files_do_not_matter(names in prop::collection::btree_set("[a-z]{1,6}(\\.yaml|\\.json)?", 4)) {
        let files = rich().files();
        let expected = sorted(&files);
        let mut renamed: Files = files.clone();
        renamed.retain(|path, _| !path.starts_with("manifests/"));
        let manifests = files.iter().filter(|(path, _)| path.starts_with("manifests/"));
        for ((_, bytes), name) in manifests.zip(names) {
            renamed.insert(format!("manifests/{name}"), bytes.clone());
        }
        prop_assert_eq!(renamed.len(), files.len());
        prop_assert_eq!(sorted(&renamed), expected);
    }
}

/// Real bundles, broken at many places; which places follows from the bundle alone.
#[test]
fn real_bundles_may_be_broken_anywhere() {
    let Some(set) = Set::open("oracle/render") else {
        return;
    };
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = std::collections::BTreeSet::new();
    for (row, files, _) in conformance::real_cases(&set) {
        let bundle = (
            row.text("package").to_owned(),
            row.text("version").to_owned(),
        );
        let bytes: usize = files.values().map(Vec::len).sum();
        // The largest ones take too long for a test, and are no different.
        if bytes > 200_000 || !seen.insert(bundle) {
            continue;
        }
        for _ in 0..8 {
            let mutation = any_mutation().new_tree(&mut runner).unwrap().current();
            let mut files = files.clone();
            mutate(&mut files, mutation);
            drop(try_all(&files, None));
        }
    }
    assert!(!seen.is_empty());
}

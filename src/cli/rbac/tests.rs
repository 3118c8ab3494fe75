#![expect(clippy::disallowed_methods, reason = "tests write bundles")]

use std::collections::BTreeSet;
use std::fs;
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::super::catalogs::Catalogs;
use super::super::cluster::{Cluster, ClusterOptions};
use super::super::installer::{Bundle, Known, Made};
use super::super::objects::{Certificates, Maker, refusal};
use super::super::source::Sources;
use super::*;
use crate::api::{keys, policy};
use crate::bundle::RegistryV1;
use crate::preflight::permissions::{HeldRules, LiveRoles, Rule, built_in, live_rules, needs};
use crate::render::{Provider, RenderOptions, conformance, render};
use crate::revision::Account;
use crate::testing::api_server::ApiServer;
use crate::testing::conformance::{Score, Set};

/// The samples are bundles that everybody has.
fn sample(version: &str) -> String {
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/config/samples/bundles");
    format!("{samples}/hello-operator/{version}")
}

/// The account that [`arguments`] name, in a cluster or without one.
fn target(cluster: Option<&Cluster>) -> Target<'_> {
    static ACCOUNT: LazyLock<Account> = LazyLock::new(|| Account {
        namespace: "hello".into(),
        name: "installer".into(),
    });
    Target {
        cluster,
        account: &ACCOUNT,
    }
}

fn arguments(sources: &[&str]) -> Generate {
    Generate {
        bundles: sources.iter().map(|source| (*source).to_owned()).collect(),
        extension: None,
        system_namespace: "olmv1-system".into(),
        service_account: "installer".into(),
        output: Form::Yaml,
        installation: Installation {
            namespace: "hello".into(),
            config: None,
            certificates: Maker::Auto,
            catalogs: Catalogs::default(),
            sources: Sources::default(),
        },
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
    arguments.installation.config = Some(config.path().to_owned());
    insta::assert_snapshot!(generate(&arguments).unwrap());
}

/// A bundle with a webhook.
fn hooked() -> tempfile::TempDir {
    let webhook = json!({
        "type": "ValidatingAdmissionWebhook", "generateName": "things.g", "deploymentName": "things",
        "admissionReviewVersions": ["v1"], "sideEffects": "None", "rules": [],
    });
    bundle_with("AllNamespaces", &json!([]), &json!([webhook]))
}

#[test]
fn the_cluster_that_is_asked_says_who_makes_certificates() {
    let directory = hooked();
    let source = directory.path().display().to_string();
    let mut arguments = arguments(&[&source]);
    let server = ApiServer::new();
    let cluster = Cluster::of_test(|| server.client());
    let mut made = |makers: Maker, cluster: Option<&Cluster>| {
        arguments.installation.certificates = makers;
        arguments
            .installation
            .bundle(&source, target(cluster))
            .unwrap()
    };
    let by = |by: Provider, known: Known| Some(Made { by, known });
    let certificates = made(Maker::Auto, None).certificates;
    assert_eq!(certificates, by(Provider::SelfSigned, Known::Unasked));
    let certificates = made(Maker::Auto, Some(&cluster)).certificates;
    assert_eq!(certificates, by(Provider::SelfSigned, Known::Discovered));
    server.add(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "certificates.cert-manager.io"},
        "spec": {"group": "cert-manager.io", "scope": "Namespaced",
            "names": {"kind": "Certificate", "plural": "certificates"},
            "versions": [{"name": "v1", "served": true, "storage": true}]},
    }));
    let bundle = made(Maker::Auto, Some(&cluster));
    assert_eq!(
        bundle.certificates,
        by(Provider::CertManager, Known::Discovered)
    );
    assert!(
        (bundle.objects.iter()).any(|object| object["kind"] == "Issuer"),
        "{:?}",
        bundle.objects
    );
    let known = Maker::Known(Certificates::SelfSigned);
    let certificates = made(known, Some(&cluster)).certificates;
    assert_eq!(certificates, by(Provider::SelfSigned, Known::Named));
    server.requests();
    let plain = arguments
        .installation
        .bundle(&sample("1.0.0"), target(Some(&cluster)));
    assert_eq!(plain.unwrap().certificates, None);
    assert_eq!(server.requests(), Vec::<String>::new());
}

/// An extension of package `things` that `account` installs in namespace `hello`, with a revision of that version.
fn installed(server: &ApiServer, account: Option<&str>, version: &str) {
    server.add(&json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": "mine", "uid": "1"},
        "spec": {"namespace": "hello", "serviceAccount": account.map(|name| json!({"name": name})),
            "source": {"sourceType": "Catalog", "catalog": {"packageName": "things"}}},
    }));
    let succeeded = json!({"type": "Succeeded", "status": "True", "reason": "Succeeded", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let annotations = json!({
        keys::WEBHOOK_CERTIFICATES: "self", keys::BUNDLE_VERSION: version, keys::PACKAGE_NAME: "things",
        keys::SERVICE_ACCOUNT_NAME: "installer", keys::SERVICE_ACCOUNT_NAMESPACE: "hello",
    });
    server.add(&json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
        "metadata": {"name": "mine-1", "uid": "2", "annotations": annotations,
            "ownerReferences": [{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "mine",
                "uid": "1", "controller": true}]},
        "spec": {"revision": 1, "lifecycleState": "Active", "collisionProtection": "Prevent", "phases": []},
        "status": {"conditions": [succeeded]},
    }));
}

/// A cluster with cert-manager.
fn with_cert_manager() -> ApiServer {
    let server = ApiServer::new();
    server.add(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "certificates.cert-manager.io"},
        "spec": {"group": "cert-manager.io", "scope": "Namespaced",
            "names": {"kind": "Certificate", "plural": "certificates"},
            "versions": [{"name": "v1", "served": true, "storage": true}]},
    }));
    server
}

#[test]
fn who_made_certificates_at_the_first_install_still_makes_them() {
    let directory = hooked();
    let source = directory.path().display().to_string();
    let recorded = Known::Recorded {
        extension: "mine".into(),
        revision: "mine-1".into(),
    };
    for (account, expected) in [
        (Some("installer"), (Provider::SelfSigned, recorded.clone())),
        // The default account of the controller, which the revision names.
        (None, (Provider::SelfSigned, recorded)),
        // That of somebody else.
        (Some("another"), (Provider::CertManager, Known::Discovered)),
    ] {
        let server = with_cert_manager();
        installed(&server, account, "0.9.0");
        let cluster = Cluster::of_test(|| server.client());
        let asked = target(Some(&cluster));
        let arguments = arguments(&[&source]);
        let bundle = arguments.installation.bundle(&source, asked).unwrap();
        let made = bundle.certificates.clone().unwrap();
        assert_eq!((made.by, made.known), expected);
        let comment = Roles::of(&[bundle], None, asked.account).unwrap().comment;
        let says = "as revision mine-1 of ClusterExtension mine has recorded.\n";
        let is_recorded = made.by == Provider::SelfSigned;
        assert_eq!(comment.contains(says), is_recorded, "{comment}");
    }
}

#[test]
fn an_upgrade_is_told_with_the_command_for_both_versions() {
    let directory = hooked();
    let source = directory.path().display().to_string();
    let arguments = arguments(&[&source]);
    let installation = &arguments.installation;
    for (version, expected) in [
        ("1.0.0", None),
        (
            "0.9.0",
            Some(format!(
                "ClusterExtension mine has 0.9.0 installed; its upgrade takes the rights for both:\n  \
                 oxolm rbac generate things@0.9.0 {source} --cluster --namespace hello --service-account installer"
            )),
        ),
    ] {
        let server = with_cert_manager();
        installed(&server, Some("installer"), version);
        let cluster = Cluster::of_test(|| server.client());
        let target = target(Some(&cluster));
        let texts = &arguments.bundles;
        let bundles = installation.bundles(texts, target).unwrap();
        let told = installation.upgrade("generate", texts, &bundles, target);
        assert_eq!(told, expected);
        let mut roles = Roles::of(&bundles, None, target.account).unwrap();
        roles.say(told.as_deref());
        let lines = || roles.comment.lines();
        assert!(lines().all(|line| line.starts_with('#')), "{roles:?}");
    }
    // Where nobody shows extensions, there is nothing to tell.
    let server = ApiServer::new();
    let cluster = Cluster::of_test(|| server.client());
    let target = target(Some(&cluster));
    let bundles = installation.bundles(&arguments.bundles, target).unwrap();
    let told = installation.upgrade("check", &arguments.bundles, &bundles, target);
    assert_eq!(told, None);
}

#[test]
fn another_namespace_that_must_exist_is_named() {
    let rules = json!([{"apiGroups": ["g"], "resources": ["things"], "verbs": ["*"]}]);
    let directory = bundle("SingleNamespace", &rules);
    let mut arguments = arguments(&[&directory.path().display().to_string()]);
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(config.path(), "watchNamespace: watched\n").unwrap();
    arguments.installation.config = Some(config.path().to_owned());
    let text = generate(&arguments).unwrap();
    let line =
        "\n# Namespace watched is used, too, and must exist: kubectl create namespace watched\n";
    assert!(text.contains(line), "{text}");
    assert_eq!(text.matches(" must exist").count(), 1, "{text}");
}

#[test]
fn a_bundle_that_no_revision_can_hold_is_refused() {
    let directory = bundle("AllNamespaces", &json!([]));
    let twice =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "twice"}});
    for name in ["a.yaml", "b.yaml"] {
        let path = directory.path().join("manifests").join(name);
        fs::write(path, twice.to_string()).unwrap();
    }
    let arguments = arguments(&[&directory.path().display().to_string()]);
    let error = generate(&arguments).unwrap_err();
    let expected = "duplicate object found: ServiceAccount.v1 hello/twice";
    assert_eq!(refusal(&error).unwrap(), expected);
}

#[test]
fn who_makes_certificates_decides_what_is_taken() {
    let directory = hooked();
    let source = directory.path().display().to_string();
    let mut arguments = arguments(&[&source]);
    for (certificates, expected) in [
        (Certificates::SelfSigned, vec!["secrets"]),
        (Certificates::ServiceCa, vec![]),
        (Certificates::CertManager, vec!["certificates", "issuers"]),
    ] {
        arguments.installation.certificates = Maker::Known(certificates);
        let text = generate(&arguments).unwrap();
        let found: Vec<_> = ["secrets", "certificates", "issuers"]
            .into_iter()
            .filter(|resource| {
                text.contains(&format!("{resource}]")) || text.contains(&format!("{resource},"))
            })
            .collect();
        assert_eq!(found, expected, "{certificates:?}\n{text}");
        let maker = Provider::from(certificates);
        let comment = format!(
            "# The certificates of webhooks are taken to be made as with --certificates {maker}.\n"
        );
        assert!(text.contains(&comment), "{text}");
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
    both.bundles.reverse();
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
    unreadable.installation.config = Some("/no/where".into());
    assert!(failure(&unreadable).starts_with("cannot read /no/where: "));
    let mut misconfigured = arguments(&[&sample("1.0.0")]);
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(config.path(), "[").unwrap();
    misconfigured.installation.config = Some(config.path().to_owned());
    assert!(failure(&misconfigured).contains(" is neither YAML nor JSON: "));
    let other = bundle("AllNamespaces", &json!([]));
    let two = arguments(&[&sample("1.0.0"), &other.path().display().to_string()]);
    assert_eq!(
        failure(&two),
        "these are bundles of several packages: hello-operator, things"
    );
}

/// The rules that roles give: everywhere, or in their namespace.
fn held(roles: &[Value]) -> HeldRules {
    let mut held = HeldRules::default();
    for role in roles.iter().filter(|role| role.get("rules").is_some()) {
        match role.pointer("/metadata/namespace").and_then(Value::as_str) {
            None => held.cluster.extend(live_rules(role)),
            Some(namespace) => {
                let here = held.namespaces.entry(namespace.to_owned()).or_default();
                here.extend(live_rules(role));
            }
        }
    }
    held
}

/// Every way to leave out one rule.
fn without_one(held: &HeldRules) -> Vec<(Rule, HeldRules)> {
    let mut fewer = Vec::new();
    for index in 0..held.cluster.len() {
        let mut less = held.clone();
        fewer.push((less.cluster.remove(index), less));
    }
    for (namespace, rules) in &held.namespaces {
        for index in 0..rules.len() {
            let mut less = held.clone();
            let rule = less.namespaces.get_mut(namespace).unwrap().remove(index);
            fewer.push((rule, less));
        }
    }
    fewer
}

/// What the preflight says about the generated roles of a bundle: nothing, and something when any rule is missing.
fn judge(bundle: Bundle) -> Result<(), String> {
    let account = Account {
        namespace: "ns".into(),
        name: "installer".into(),
    };
    let needs = needs(&bundle.manifests(), &built_in).map_err(|error| error.to_string())?;
    let roles = Roles::of(&[bundle], None, &account).map_err(|error| error.to_string())?;
    let held = held(&roles.manifests);
    // Roles of the cluster are not known when roles are generated: those that a binding refers to must be bound by name.
    let missing = |held: &HeldRules| needs.missing(held, &LiveRoles::new(), &BTreeSet::new());
    if !missing(&held).is_empty() {
        return Err(missing(&held).to_string());
    }
    for (rule, less) in without_one(&held) {
        if missing(&less).is_empty() {
            return Err(format!("not needed: {}", rule.manifest()));
        }
    }
    Ok(())
}

#[test]
fn generated_roles_are_enough_and_none_of_their_rules_can_go() {
    for version in ["1.0.0", "1.1.0", "2.0.0"] {
        let arguments = arguments(&[&sample(version)]);
        let bundle = &arguments.bundles[0];
        let bundle = arguments.installation.bundle(bundle, target(None));
        judge(bundle.unwrap()).unwrap();
    }
    let Some(set) = Set::open("oracle/render") else {
        return;
    };
    let mut score = Score::new("oracle/render least roles", &set);
    let modes = ["default", "own", "single"];
    for (row, files, expected) in conformance::real_cases(&set) {
        let mode = row.id().rsplit('#').next().unwrap_or_default();
        if expected.is_none() || !modes.contains(&mode) {
            continue;
        }
        for certificates in [Provider::CertManager, Provider::SelfSigned] {
            let loaded = RegistryV1::load(&files).unwrap();
            let config = Some(&row.value["config"]).filter(|config| !config.is_null());
            let options = RenderOptions {
                install_namespace: row.text("install_namespace"),
                config,
                certificates,
            };
            let rendered = render(&loaded, &options).unwrap();
            score.count(
                row.id(),
                judge(Bundle {
                    loaded,
                    certificates: None,
                    objects: rendered.objects,
                    secrets: rendered.secrets,
                }),
            );
        }
    }
    score.finish();
}

#[test]
fn a_package_is_looked_up_in_the_catalogs() {
    let directory = tempfile::tempdir().unwrap();
    let bundle = |version: &str| {
        let property = json!({"type": "olm.package", "value": {"packageName": "hello-operator", "version": version}});
        json!({
            "schema": "olm.bundle", "package": "hello-operator", "name": format!("hello-operator.v{version}"),
            "image": sample(version), "properties": [property],
        })
    };
    let channel = json!({
        "schema": "olm.channel", "package": "hello-operator", "name": "stable",
        "entries": [{"name": "hello-operator.v1.0.0"}, {"name": "hello-operator.v1.1.0"}],
    });
    let package = json!({"schema": "olm.package", "name": "hello-operator"});
    let metas = [package, channel, bundle("1.0.0"), bundle("1.1.0")];
    let lines: Vec<String> = metas.iter().map(Value::to_string).collect();
    fs::write(directory.path().join("catalog.json"), lines.join("\n")).unwrap();
    let with_catalog = |text: &str| {
        let mut arguments = arguments(&[text]);
        let catalog = directory.path().display().to_string();
        arguments.installation.catalogs.files = vec![catalog];
        generate(&arguments)
    };
    for (text, version) in [
        ("hello-operator", "1.1.0"),
        ("hello-operator@1.0.0", "1.0.0"),
        ("hello-operator@<1.1", "1.0.0"),
    ] {
        let direct = generate(&arguments(&[&sample(version)])).unwrap();
        assert_eq!(with_catalog(text).unwrap(), direct, "{text}");
    }
    let error = with_catalog("hello-operator@9.x").unwrap_err();
    let expected = r#"no bundles found for package "hello-operator" matching version "9.x""#;
    assert_eq!(refusal(&error).unwrap(), expected);
    let error = generate(&arguments(&["hello-operator"])).unwrap_err();
    let expected = "hello-operator is no file, directory or image, and to look it up as a package takes --catalog or --cluster";
    assert_eq!(error.to_string(), expected);
    // A context alone says that a cluster is asked: here there is none of that name.
    let mut elsewhere = arguments(&["hello-operator"]);
    elsewhere.installation.catalogs.live = ClusterOptions::of_context(Some("nowhere"));
    let error = generate(&elsewhere).unwrap_err();
    assert_ne!(error.to_string(), expected);
}

#[test]
fn an_account_that_the_cluster_excludes_is_refused() {
    let usable = |namespace: &str, cluster: &Cluster| {
        let account = Account {
            namespace: namespace.to_owned(),
            name: "installer".to_owned(),
        };
        Target::new(Some(cluster), &account).map(|_target| ())
    };
    let server = ApiServer::new();
    let cluster = Cluster::of_test(|| server.client());
    // Nobody tells: the usual ones are taken.
    usable("openshift-etcd", &cluster).unwrap();
    usable("kube-system", &cluster).unwrap_err();
    let settings = policy::Settings {
        excluded_namespaces: "openshift-*".to_owned(),
        ..policy::Settings::default()
    };
    for policy in policy::policies(&settings) {
        let mut object = serde_json::to_value(&policy.policy).unwrap();
        object["apiVersion"] = json!("admissionregistration.k8s.io/v1");
        object["kind"] = json!("ValidatingAdmissionPolicy");
        server.add(&object);
    }
    usable("kube-system", &cluster).unwrap();
    let error = usable("openshift-etcd", &cluster).unwrap_err();
    assert_eq!(error.to_string(), "choose another namespace");
}

/// Its roles would take the name of another package's.
#[test]
fn an_extension_of_another_package_is_refused() {
    let (_folder, bundle) = {
        let folder = bundle("AllNamespaces", &json!([]));
        let path = folder.path().to_str().unwrap().to_owned();
        let asked = target(None);
        let read = arguments(&[]).installation.bundle(&path, asked).unwrap();
        (folder, read)
    };
    let held = |package: &str| Held {
        package: package.to_owned(),
        revisions: vec![(
            "x-1".to_owned(),
            vec![
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old", "namespace": "hello"}}),
            ],
        )],
    };
    let account = target(None).account;
    let package = bundle.loaded.package.clone();
    let bundles = [bundle];
    let roles = Roles::of(&bundles, Some(&held(&package)), account).unwrap();
    let rules = yaml_stream(&roles.manifests).unwrap();
    assert!(rules.contains("[old]"), "{rules}");
    assert!(roles.comment.contains("and x-1"), "{}", roles.comment);
    let refused = Roles::of(&bundles, Some(&held("other")), account).unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!("the extension is of package other, the bundles are of {package}")
    );
}

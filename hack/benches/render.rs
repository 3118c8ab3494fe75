//! Loading and rendering the shared real bundles, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::hint::black_box;
use std::io::Read as _;
use std::time::Instant;

use criterion::Criterion;
use oxolm::bundle::{Files, RegistryV1};
use oxolm::render::{Provider, RenderOptions, render};
use serde_json::{Value, json};

use crate::{crd, figure, support};

/// What a bundle of a package may take, warm, in milliseconds. The data has no bundle as large as the largest that are
/// published; one is made here.
const GOALS: [(&str, f64); 2] = [("argocd-operator", 20.0), (LARGE, 40.0)];
const LARGE: &str = "generated";
/// Definitions of the generated bundle, each of two versions.
const DEFINITIONS: usize = 5;
/// Memory that rendering may take, in MiB.
const GOAL_MIB: f64 = 25.0;
const ROUNDS: usize = 50;

/// The files of every bundle of the data, by package and version.
fn bundles() -> BTreeMap<(String, String), Files> {
    let mut bundles: BTreeMap<(String, String), Files> = BTreeMap::new();
    let folder = support::data("oracle/render");
    let entries = folder.and_then(|folder| std::fs::read_dir(folder).ok());
    for entry in entries.into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().ends_with(".tar.gz") {
            continue;
        }
        let file = File::open(entry.path()).expect("the archive can be opened");
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
        for file in archive.entries().expect("the archive is whole") {
            let mut file = file.expect("the archive is whole");
            let path = file.path().expect("the archive has paths").into_owned();
            let parts: Vec<String> = path
                .iter()
                .map(|part| part.to_string_lossy().into_owned())
                .collect();
            // PART/bundles/PACKAGE/VERSION/…
            let [_, bundles_folder, package, version, rest @ ..] = parts.as_slice() else {
                continue;
            };
            if bundles_folder != "bundles" || !file.header().entry_type().is_file() {
                continue;
            }
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).expect("the archive is whole");
            let key = (package.clone(), version.clone());
            bundles
                .entry(key)
                .or_default()
                .insert(rest.join("/"), bytes);
        }
    }
    bundles
}

/// A bundle of many definitions, as YAML.
fn large() -> Files {
    let yaml = |value: &Value| serde_saphyr::to_string(value).expect("it can be written");
    let mut files = Files::new();
    let mut owned = Vec::new();
    for index in 0..DEFINITIONS {
        let kind = format!("Thing{index}");
        let name = format!("thing{index}s.example.com");
        let crd = crd::crd(&kind, 2, 5, 0);
        owned.push(json!({"name": name, "kind": kind, "version": "v1"}));
        files.insert(format!("manifests/{name}.yaml"), yaml(&crd).into_bytes());
    }
    let rules: Vec<Value> = (0..60)
        .map(|index| json!({"apiGroups": [format!("g{index}.example.com")], "resources": ["*"], "verbs": ["get", "list", "watch"]}))
        .collect();
    let pod = json!({"serviceAccountName": "operator", "containers": [{"name": "manager", "image": "example.com/operator:1"}]});
    let deployment = json!({"selector": {"matchLabels": {"app": "operator"}},
        "template": {"metadata": {"labels": {"app": "operator"}}, "spec": pod}});
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "generated.v1.0.0"},
        "spec": {
            "displayName": "generated", "version": "1.0.0",
            "installModes": [{"type": "AllNamespaces", "supported": true}],
            "customresourcedefinitions": {"owned": owned},
            "install": {"strategy": "deployment", "spec": {
                "deployments": [{"name": "operator", "spec": deployment}],
                "clusterPermissions": [{"serviceAccountName": "operator", "rules": rules}],
            }},
        },
    });
    files.insert("manifests/csv.yaml".to_owned(), yaml(&csv).into_bytes());
    let annotations =
        json!({"annotations": {"operators.operatorframework.io.bundle.package.v1": LARGE}});
    files.insert(
        "metadata/annotations.yaml".to_owned(),
        yaml(&annotations).into_bytes(),
    );
    files
}

/// Loads and renders in whatever mode the bundle supports; the number of objects.
fn objects(files: &Files) -> Option<usize> {
    let bundle = RegistryV1::load(files).ok()?;
    let own = serde_json::json!({"watchNamespace": "n"});
    let other = serde_json::json!({"watchNamespace": "m"});
    [None, Some(&own), Some(&other)]
        .into_iter()
        .find_map(|config| {
            let options = RenderOptions {
                install_namespace: "n",
                config,
                certificates: Provider::SelfSigned,
            };
            Some(render(&bundle, &options).ok()?.objects.len())
        })
}

pub(crate) fn rendering(criterion: &mut Criterion) {
    let mut bundles = bundles();
    if bundles.is_empty() {
        println!("skipped: there are no real bundles (OXOLM_CONFORMANCE)");
    }
    let large = large();
    let bytes = large.values().map(Vec::len).sum::<usize>();
    bundles.insert((LARGE.to_owned(), format!("of {bytes} bytes")), large);
    let largest = bundles
        .iter()
        .max_by_key(|(_, files)| files.values().map(Vec::len).sum::<usize>());
    let largest = largest.map(|(key, _)| key.clone());
    let mut measured = BTreeSet::new();
    for (key, files) in &bundles {
        let (package, version) = key;
        let goal = GOALS.iter().find(|(name, _)| name == package);
        if goal.is_none() && Some(key) != largest.as_ref() || objects(files).is_none() {
            continue;
        }
        let (_, peak) = support::peak(|| objects(files));
        let mut times = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let started = Instant::now();
            black_box(objects(black_box(files)));
            times.push(started.elapsed());
        }
        let name = format!("load and render {package} {version}, median");
        let goal = goal.map(|(_, goal)| *goal);
        figure::figure(&name, support::percentile(&mut times, 50), "ms", goal);
        let name = format!("load and render {package} {version}, peak memory over idle");
        figure::figure(&name, peak, "MiB", Some(GOAL_MIB));
        if measured.insert(package) {
            criterion.bench_function(&format!("render {package} {version}"), |bencher| {
                bencher.iter(|| objects(black_box(files)));
            });
        }
    }
}

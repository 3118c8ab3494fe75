//! CRD upgrades: comparing large CRDs, and judging stored resources.
//!
//! The CRDs are made here, in the shape of the largest that are published: versions side by side, each with the Pod
//! templates of several workloads, deep and wide. Sizes stand in the names of the figures.

use std::collections::BTreeMap;
use std::fs::File;
use std::hint::black_box;
use std::io::Read as _;
use std::time::{Duration, Instant};

use criterion::Criterion;
use oxolm::preflight::crd_upgrade::stored::{Tally, questions};
use oxolm::preflight::crd_upgrade::{Definition, Finding, check};
use serde_json::{Map, Value, json};

use crate::support;

/// Comparing a CRD of the size of the largest, and one of the usual large ones, at most, in milliseconds.
const GOAL_HUGE: f64 = 50.0;
const GOAL_LARGE: f64 = 10.0;
/// Memory that comparing the largest may take, texts and all, in MiB (40 MB).
const GOAL_COMPARE_MIB: f64 = 38.0;
/// Stored resources that are judged in a second, at least.
const GOAL_RESOURCES: f64 = 5_000.0;
/// Memory that judging any number of them may take, in MiB.
const GOAL_RESOURCES_MIB: f64 = 64.0;
const ROUNDS: usize = 20;
/// As they are read: so many pages of so many resources.
const PAGES: usize = 1_000;
const PAGE: usize = 100;

pub(crate) fn crd_upgrades(criterion: &mut Criterion) {
    for (what, versions, width, goal) in [("huge", 6, 10, GOAL_HUGE), ("large", 2, 6, GOAL_LARGE)] {
        let old = crd("Thing", versions, width, 0).to_string();
        let new = crd("Thing", versions, width, 9).to_string();
        let name = format!(
            "compare {what} CRDs ({versions} versions, {} bytes)",
            old.len()
        );
        measure(criterion, &name, (&old, &new), goal);
    }
    if let Some((name, old, new)) = largest_real() {
        let name = format!("compare {name} ({} bytes)", new.len());
        measure(criterion, &name, (&old, &new), GOAL_LARGE);
    }
    judge_resources();
}

/// Both CRDs as JSON, and what is to be said of them.
fn measure(criterion: &mut Criterion, name: &str, texts: (&str, &str), goal: f64) {
    let read = |text: &str| -> Value { serde_json::from_str(text).expect("it is JSON") };
    let compare = |old: &Value, new: &Value| -> Vec<Finding> {
        let old = Definition::read(black_box(old)).expect("it is a CRD");
        let new = Definition::read(black_box(new)).expect("it is a CRD");
        check(Some(&old), &new)
    };
    let (_, peak) = support::peak(|| compare(&read(texts.0), &read(texts.1)));
    let (old, new) = (read(texts.0), read(texts.1));
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            black_box(compare(&old, &new));
            started.elapsed()
        })
        .collect();
    support::figure(name, support::percentile(&mut times, 50), "ms", Some(goal));
    let title = format!("{name}: peak memory over idle");
    support::figure(&title, peak, "MiB", Some(GOAL_COMPARE_MIB));
    criterion.bench_function(name, |bencher| bencher.iter(|| compare(&old, &new)));
}

/// The largest recorded upgrade: its name, and both CRDs.
fn largest_real() -> Option<(String, String, String)> {
    let archive = File::open(support::data("oracle/crdsafety")?.join("dev.tar.gz")).ok()?;
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(archive));
    let mut pairs: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for entry in archive.entries().ok()? {
        let mut entry = entry.expect("the archive is whole");
        let path = entry.path().expect("the archive has paths").into_owned();
        let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
        if let [_, folder, file] = parts.as_slice() {
            let (folder, file) = (folder.to_string(), file.to_string());
            let mut text = String::new();
            entry.read_to_string(&mut text).expect("it is text");
            pairs.entry(folder).or_default().insert(file, text);
        }
    }
    let size = |pair: &BTreeMap<String, String>| pair.values().map(String::len).sum::<usize>();
    let (name, mut pair) = pairs.into_iter().max_by_key(|(_, pair)| size(pair))?;
    Some((name, pair.remove("old.json")?, pair.remove("new.json")?))
}

/// A schema of objects in objects and in lists, `width` fields each, with maps of texts and of quantities as Pod
/// templates have them; every `changed`th bound differs.
fn schema(depth: usize, width: usize, changed: usize) -> Value {
    let description =
        "What the field means, in about as many words as people write about fields in CRDs.";
    let mut properties = Map::new();
    for index in 0..width {
        let minimum = usize::from(changed > 0 && index % changed.max(1) == 0);
        let leaf = match index % 5 {
            0 => json!({"type": "integer", "minimum": minimum, "description": description}),
            1 => json!({"type": "object", "additionalProperties": {"type": "string"}}),
            2 => {
                json!({"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true,
                "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+(m|Gi|Mi)?$"}})
            }
            _ => json!({"type": "string", "description": description}),
        };
        properties.insert(format!("field{index}"), leaf);
    }
    if depth > 0 {
        for index in 0..width.min(6) {
            let below = schema(depth - 1, width, changed);
            let value = match index % 2 {
                0 => below,
                _ => json!({"type": "array", "items": below, "x-kubernetes-list-type": "atomic"}),
            };
            properties.insert(format!("below{index}"), value);
        }
    }
    json!({"type": "object", "properties": properties, "required": ["field0"]})
}

pub(crate) fn crd(kind: &str, versions: usize, width: usize, changed: usize) -> Value {
    let versions: Vec<Value> = (1..=versions)
        .map(|number| {
            let spec = schema(3, width, changed);
            json!({"name": format!("v{number}"), "served": true, "storage": number == 1,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})
        })
        .collect();
    of_kind(kind, &versions)
}

fn of_kind(kind: &str, versions: &[Value]) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": kind, "plural": plural}, "versions": versions},
        "status": {"storedVersions": ["v1"]},
    })
}

/// Resources of some KiB, with defaults, formats, patterns and CEL rules, read page by page as from an API server.
fn judge_resources() {
    let (old, new) = (ported(65535), ported(60000));
    let (before, after) = (
        Definition::read(&old).expect("it is a CRD"),
        Definition::read(&new).expect("it is a CRD"),
    );
    let findings = check(Some(&before), &after);
    let questions = questions((&before, &old), (&after, &new), &findings)
        .expect("the schema has nothing unknown")
        .expect("resources decide");
    let read = questions.reads.first().expect("they are read as v1");
    let resource = resource();
    let page = Value::from(vec![resource.clone(); PAGE]).to_string();
    let started = Instant::now();
    let (tally, peak) = support::peak(|| {
        let mut tally = Tally::default();
        for _ in 0..PAGES {
            let items: Vec<Value> = serde_json::from_str(black_box(&page)).expect("it is JSON");
            for item in &items {
                tally.look(&questions.kind, read, item);
            }
        }
        tally
    });
    let seconds = started.elapsed().as_secs_f64();
    assert!(!tally.is_empty() && !tally.is_decided());
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let rate = (PAGES * PAGE) as f64 / seconds;
    let (count, bytes) = (PAGES * PAGE, resource.to_string().len());
    let name = format!("{count} stored resources of {bytes} bytes read and judged");
    support::figure(
        &format!("{name}: per second, at least"),
        rate,
        "1/s",
        Some(GOAL_RESOURCES),
    );
    support::figure(
        &format!("{name}: peak memory over idle"),
        peak,
        "MiB",
        Some(GOAL_RESOURCES_MIB),
    );
}

/// A CRD of things with ports up to `highest`.
fn ported(highest: u32) -> Value {
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9-]+$", "maxLength": 63},
        "port": {"type": "integer", "minimum": 1, "maximum": highest, "default": 80},
        "protocol": {"type": "string", "enum": ["TCP", "UDP"], "default": "TCP"},
        "since": {"type": "string", "format": "date-time"},
    }, "x-kubernetes-validations": [{"rule": "self.port < 1024 ? self.protocol == 'TCP' : true"}]});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "replicas": {"type": "integer", "minimum": 0},
        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "maxItems": 64, "items": item},
    }, "x-kubernetes-validations": [{"rule": "!has(self.ports) || self.ports.all(p, p.name.size() < 30)"}]}}});
    of_kind(
        "Thing",
        &[
            json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}),
        ],
    )
}

fn resource() -> Value {
    let ports: Vec<Value> = (0..20)
        .map(|index| json!({"name": format!("port-{index}"), "port": 1000 + index, "since": "2024-01-01T00:00:00Z"}))
        .collect();
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"},
        "spec": {"replicas": 3, "ports": ports}})
}

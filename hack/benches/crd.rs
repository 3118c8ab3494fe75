//! CRD upgrades: comparing large CRDs, and judging stored resources.
//!
//! The CRDs are made here, in the shape of the largest that are published: versions side by side, each with the Pod
//! templates of several workloads, deep and wide, every field with a description of its own. Of the huge ones, one pair
//! has the few changes that a release makes, the other changes something everywhere. Sizes stand in the names of the
//! figures. What is measured begins with JSON and ends with findings; memory is that of a process which does nothing
//! else.

use std::collections::BTreeMap;
use std::fs::File;
use std::hint::black_box;
use std::io::Read as _;
use std::time::{Duration, Instant};

use criterion::Criterion;
use oxolm::preflight::crd_upgrade::stored::{Questions, Tally, questions};
use oxolm::preflight::crd_upgrade::{Definition, Finding, Pool, check};
use serde_json::{Map, Value, json};

use crate::{figure, support};

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

/// Pairs of CRDs: a name, the goal, and what makes them.
type Pairs = [(&'static str, f64, fn() -> (String, String))];
const PAIRS: &Pairs = &[
    ("huge CRDs, few changes", GOAL_HUGE, || released(6, 1, 9)),
    ("huge CRDs, changes everywhere", GOAL_HUGE, || {
        changed_all_over(6, 10)
    }),
    ("large CRDs, few changes", GOAL_LARGE, || released(2, 1, 6)),
    ("large CRDs, changes everywhere", GOAL_LARGE, || {
        changed_all_over(2, 6)
    }),
];

pub(crate) fn crd_upgrades(criterion: &mut Criterion) {
    for (name, goal, make) in PAIRS {
        let (old, new) = make();
        let title = format!("compare {name} ({} bytes)", old.len());
        measure(criterion, &title, (&old, &new), *goal);
        let peak = support::peak_elsewhere(&format!("crd/{name}"));
        let title = format!("{title}: peak memory over idle");
        figure::figure(&title, peak, "MiB", Some(GOAL_COMPARE_MIB));
    }
    if let Some((name, old, new)) = largest_real() {
        let name = format!("compare {name} ({} bytes)", new.len());
        measure(criterion, &name, (&old, &new), GOAL_LARGE);
    }
    judge_resources();
    let peak = support::peak_elsewhere("crd/resources");
    figure::figure(
        "stored resources read and judged: peak memory over idle",
        peak,
        "MiB",
        Some(GOAL_RESOURCES_MIB),
    );
}

/// What takes memory, by the name that [`support::peak_elsewhere`] gives.
pub(crate) fn memory(what: &str) -> Option<f64> {
    let what = what.strip_prefix("crd/")?;
    if what == "resources" {
        return Some(judged(&mut judging()).1);
    }
    PAIRS.iter().find(|(name, ..)| *name == what)?;
    // Made by somebody else, who leaves nothing behind.
    let folder = tempfile::tempdir().expect("there is a temporary directory");
    let paths = [folder.path().join("old"), folder.path().join("new")];
    let made = std::process::Command::new(std::env::current_exe().expect("this is a program"))
        .env(support::MEMORY, format!("write/{what}"))
        .args(&paths)
        .status();
    assert!(made.expect("it runs").success());
    let (findings, peak) = support::peak(|| {
        let [old, new] = paths.map(|path| std::fs::read(path).expect("it was written"));
        compare(&old, &new)
    });
    assert!(!findings.is_empty());
    Some(peak)
}

/// Writes a pair to the two files that are named in the arguments.
pub(crate) fn write(what: &str) -> Option<()> {
    let what = what.strip_prefix("write/")?;
    let (_, _, make) = PAIRS.iter().find(|(name, ..)| *name == what)?;
    let (old, new) = make();
    for (path, text) in std::env::args().skip(1).zip([old, new]) {
        std::fs::write(path, text).expect("it can be written");
    }
    Some(())
}

fn compare(old: &[u8], new: &[u8]) -> Vec<Finding> {
    let mut pool = Pool::default();
    let old = Definition::parse(&mut pool, black_box(old)).expect("it is a CRD");
    let new = Definition::parse(&mut pool, black_box(new)).expect("it is a CRD");
    check(Some(&old), &new)
}

/// Both CRDs as JSON, and what is to be said of them.
fn measure(criterion: &mut Criterion, name: &str, texts: (&str, &str), goal: f64) {
    let compare = || compare(texts.0.as_bytes(), texts.1.as_bytes());
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            black_box(compare());
            started.elapsed()
        })
        .collect();
    figure::figure(name, support::percentile(&mut times, 50), "ms", Some(goal));
    criterion.bench_function(name, |bencher| bencher.iter(compare));
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

/// Two releases of a CRD with this many served versions: each version is a little more than the one before, and the
/// newer release has a few fields more, a few other words, and one bound less.
fn released(versions: usize, workloads: usize, width: usize) -> (String, String) {
    let release = |is_new: bool| {
        let versions: Vec<Value> = (1..=versions)
            .map(|number| {
                let mut spec = Map::new();
                for workload in 0..workloads {
                    let path = format!("workload{workload}");
                    spec.insert(path.clone(), pod_like(&path, 3, width + number / 3));
                }
                if is_new {
                    let leaf = json!({"type": "string", "description": "It is new in this release."});
                    spec.insert("isNew".to_owned(), leaf);
                    spec["workload0"]["description"] = json!("It says so in other words.");
                    spec["workload0"]["properties"]["field1"]["maxLength"] = json!(253);
                }
                let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}});
                json!({"name": format!("v{number}"), "served": true, "storage": number == 1,
                    "schema": {"openAPIV3Schema": schema}})
            })
            .collect();
        of_kind("Thing", &versions).to_string()
    };
    (release(false), release(true))
}

/// A schema like that of a Pod template: objects in lists in objects, maps of quantities, a description for every field.
fn pod_like(path: &str, depth: usize, width: usize) -> Value {
    let mut properties = Map::new();
    let description = |name: &str| {
        format!(
            "{name} of {path} says what is to become of it, in about as many words as people write about a field."
        )
    };
    for index in 0..width {
        let name = format!("field{index}");
        let description = description(&name);
        let leaf = match index % 4 {
            0 => json!({"type": "integer", "format": "int32", "description": description}),
            1 => json!({"type": "string", "description": description}),
            2 => json!({"type": "object", "description": description, "additionalProperties": {
                "anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true,
                "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE])?$"}}),
            _ => json!({"type": "boolean", "description": description}),
        };
        properties.insert(name, leaf);
    }
    if depth > 0 {
        for index in 0..width.min(5) {
            let name = format!("below{index}");
            let mut below = pod_like(&format!("{path}.{name}"), depth - 1, width);
            below["description"] = json!(description(&name));
            let value = match index % 2 {
                0 => below,
                _ => json!({"type": "array", "items": below, "x-kubernetes-list-type": "atomic"}),
            };
            properties.insert(name, value);
        }
    }
    json!({"type": "object", "properties": properties, "required": ["field0"]})
}

/// Two CRDs of which every ninth bound differs.
fn changed_all_over(versions: usize, width: usize) -> (String, String) {
    let [old, new] = [0, 9].map(|changed| crd("Thing", versions, width, changed).to_string());
    (old, new)
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

fn of_kind(kind: &str, versions: &[Value]) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": kind, "plural": plural}, "versions": versions},
        "status": {"storedVersions": ["v1"]},
    })
}

/// What resources are judged by, and a page of them.
fn judging() -> (Questions, String) {
    let mut pool = Pool::default();
    let mut read = |crd| Definition::read(&mut pool, &crd).expect("it is a CRD");
    let (before, after) = (read(ported(65535)), read(ported(60000)));
    let findings = check(Some(&before), &after);
    let questions = questions(&before, &after, &findings)
        .expect("the schema has nothing unknown")
        .expect("resources decide");
    let page = Value::from(vec![resource(); PAGE]).to_string();
    (questions, page)
}

/// Reads and judges resources page by page as from an API server; also the memory that took, in MiB.
fn judged((questions, page): &mut (Questions, String)) -> (Tally, f64) {
    let read = questions.reads.first().expect("they are read as v1");
    support::peak(|| {
        let mut tally = Tally::default();
        for _ in 0..PAGES {
            let items: Vec<Value> = serde_json::from_str(black_box(page)).expect("it is JSON");
            for item in &items {
                tally.look(&questions.kind, read, item);
            }
        }
        tally
    })
}

/// Resources of some KiB, with defaults, formats, patterns and CEL rules.
fn judge_resources() {
    let mut judging = judging();
    let started = figure::cpu();
    let (tally, _) = judged(&mut judging);
    let seconds = figure::cpu().saturating_sub(started).as_secs_f64();
    assert!(!tally.is_empty() && !tally.is_decided());
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let rate = (PAGES * PAGE) as f64 / seconds;
    let (count, bytes) = (PAGES * PAGE, resource().to_string().len());
    let name = format!(
        "{count} stored resources of {bytes} bytes read and judged, per second of CPU, at least"
    );
    figure::figure(&name, rate, "1/s", Some(GOAL_RESOURCES));
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

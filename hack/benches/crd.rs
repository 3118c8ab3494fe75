//! CRD upgrades: comparing large CRDs, and judging stored resources.
//!
//! The CRDs are made here, in the shape of the largest that are published: versions side by side, each with the Pod
//! templates of several workloads, deep and wide. Sizes stand in the names of the figures.

use std::hint::black_box;
use std::time::Instant;

use criterion::Criterion;
use oxolm::preflight::crd_upgrade::{Definition, check};
use oxolm::preflight::resource::{Validator, Verdict};
use serde_json::{Map, Value, json};

use crate::support;

/// Comparing a CRD of the size of the largest, and one of the usual large ones, at most, in milliseconds.
const GOAL_HUGE: f64 = 50.0;
const GOAL_LARGE: f64 = 10.0;
/// Stored resources that are judged in a second, at least.
const GOAL_RESOURCES: f64 = 5_000.0;
const ROUNDS: usize = 20;
const RESOURCES: usize = 20_000;

pub(crate) fn crd_upgrades(criterion: &mut Criterion) {
    for (what, versions, width, goal) in [("huge", 6, 9, GOAL_HUGE), ("large", 2, 5, GOAL_LARGE)] {
        let (old, new) = (
            crd(versions, width, "integer", 0),
            crd(versions, width, "integer", 3),
        );
        let bytes = old.to_string().len();
        let compare = || {
            let old = Definition::read(black_box(&old)).expect("it is a CRD");
            let new = Definition::read(black_box(&new)).expect("it is a CRD");
            check(Some(&old), &new)
        };
        assert!(!compare().is_empty());
        let mut times: Vec<_> = (0..ROUNDS)
            .map(|_| {
                let started = Instant::now();
                black_box(compare());
                started.elapsed()
            })
            .collect();
        let name = format!("compare {what} CRDs ({versions} versions, {bytes} bytes)");
        support::figure(&name, support::percentile(&mut times, 50), "ms", Some(goal));
        criterion.bench_function(&name, |bencher| bencher.iter(compare));
    }
    judge_resources();
}

/// A schema of objects in objects, `width` fields each; every `changed`th bound differs.
fn schema(depth: usize, width: usize, kind: &str, changed: usize) -> Value {
    let mut properties = Map::new();
    for index in 0..width {
        let description =
            "What the field means, in about as many words as people write about fields in CRDs.";
        let leaf = json!({"type": kind, "minimum": usize::from(changed > 0 && index % changed.max(1) == 0), "description": description});
        properties.insert(format!("field{index}"), leaf);
    }
    if depth > 0 {
        for index in 0..width.min(6) {
            let below = schema(depth - 1, width, kind, changed);
            let value = match index % 3 {
                0 => below,
                1 => json!({"type": "array", "items": below, "x-kubernetes-list-type": "atomic"}),
                _ => json!({"type": "object", "additionalProperties": below}),
            };
            properties.insert(format!("below{index}"), value);
        }
    }
    json!({"type": "object", "properties": properties, "required": ["field0"]})
}

fn crd(versions: usize, width: usize, kind: &str, changed: usize) -> Value {
    let versions: Vec<Value> = (1..=versions)
        .map(|number| {
            let spec = schema(3, width, kind, changed);
            json!({"name": format!("v{number}"), "served": true, "storage": number == 1,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"}, "versions": versions},
        "status": {"storedVersions": ["v1"]},
    })
}

/// Resources of some KiB, with defaults, formats, patterns and CEL rules.
fn judge_resources() {
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9-]+$", "maxLength": 63},
        "port": {"type": "integer", "minimum": 1, "maximum": 65535, "default": 80},
        "protocol": {"type": "string", "enum": ["TCP", "UDP"], "default": "TCP"},
        "since": {"type": "string", "format": "date-time"},
    }, "x-kubernetes-validations": [{"rule": "self.port < 1024 ? self.protocol == 'TCP' : true"}]});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "replicas": {"type": "integer", "minimum": 0},
        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "maxItems": 64, "items": item},
    }, "x-kubernetes-validations": [{"rule": "!has(self.ports) || self.ports.all(p, p.name.size() < 30)"}]}}});
    let validator = Validator::new(&schema, false).expect("it is a schema");
    let ports: Vec<Value> = (0..20)
        .map(|index| json!({"name": format!("port-{index}"), "port": 1000 + index, "since": "2024-01-01T00:00:00Z"}))
        .collect();
    let resource = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"},
        "spec": {"replicas": 3, "ports": ports}});
    let bytes = resource.to_string().len();
    let started = Instant::now();
    for _ in 0..RESOURCES {
        assert_eq!(
            black_box(validator.judge(black_box(&resource))),
            Verdict::Valid
        );
    }
    let seconds = started.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let rate = RESOURCES as f64 / seconds;
    support::figure(
        &format!("stored resources of {bytes} bytes judged per second, at least"),
        rate,
        "1/s",
        Some(GOAL_RESOURCES),
    );
}

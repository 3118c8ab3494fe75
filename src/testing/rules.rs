//! The chart's rules for Prometheus ask for metrics, labels and words that there are. What they answer is tested by
//! promtool (`hack/test rules`).
#![expect(clippy::disallowed_methods, reason = "the test reads the rules")]

use std::fs;
use std::path::Path;

use regex::Regex;

use crate::api::condition::{ConditionType, Reason};
use crate::controller::metrics::Controller;
use crate::metrics::{self, Metric};

/// Labels that Prometheus itself adds, and that of buckets.
const ADDED: &[&str] = &["job", "pod", "le"];

/// The reference has this one; nothing of oxolm could tell it.
const NOT_OURS: &str = "controller_runtime_webhook_panics_total";

fn metric(name: &str) -> Option<&'static Metric> {
    let whole = ["_bucket", "_sum", "_count"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix));
    let mut all = metrics::ALL.iter();
    all.find(|metric| metric.name == name || Some(metric.name) == whole)
}

/// What is wrong with a matcher such as `type="Installed"`, if anything.
fn fault(metric: &Metric, label: &str, value: &str) -> Option<String> {
    if ADDED.contains(&label) {
        return None;
    }
    if !metric.labels.contains(&label) {
        return Some(format!("{} has no label {label}", metric.name));
    }
    let is_known = match label {
        "type" => ConditionType::parse(value).is_some(),
        "reason" if metric.name.ends_with("_condition") => Reason::parse(value).is_some(),
        "controller" => Controller::ALL.iter().any(|one| one.label() == value),
        _ => true,
    };
    (!is_known).then(|| format!("{} never has {label}={value:?}", metric.name))
}

#[test]
fn rules_ask_for_what_there_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts");
    let asked = Regex::new(
        r"\b((?:olm|controller_runtime|workqueue|rest_client|catalogd|process|leader_election)_[a-z_]+)\b(?:\{([^}]*)\})?",
    )
    .unwrap();
    let matcher = Regex::new(r#"([a-z_]+)\s*(?:=~|!~|!=|=)\s*"([^"]*)""#).unwrap();
    let mut seen = 0;
    for file in [
        "oxolm/rules/alerts.yaml",
        "oxolm/rules/recordings.yaml",
        "rules/budgets.yaml",
    ] {
        let text = fs::read_to_string(root.join(file)).unwrap();
        for found in asked.captures_iter(&text) {
            let name = &found[1];
            if name == NOT_OURS {
                continue;
            }
            let metric = metric(name).unwrap_or_else(|| panic!("{file}: there is no {name}"));
            seen += 1;
            let matchers = found.get(2).map_or("", |matchers| matchers.as_str());
            for one in matcher.captures_iter(matchers) {
                assert_eq!(fault(metric, &one[1], &one[2]), None, "{file}");
            }
        }
    }
    assert!(seen > 20, "{seen}");
}

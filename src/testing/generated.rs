//! The files that are generated from the types, and the test that they are current.
//!
//! `hack/generate` runs the test with `OXOLM_GENERATE` set: it then writes the files instead of comparing them.
#![expect(
    clippy::disallowed_methods,
    reason = "the test reads and writes the files of the repository"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::api::condition::Reason;
use crate::api::crd;
use crate::api::policy::{Settings, policies};
use crate::metrics::{self, Metric};
use crate::status::meaning::{Meaning, meaning};
use crate::status::news::News;
use crate::testing::{errors, values};

/// The variable that makes the test write.
const GENERATE: &str = "OXOLM_GENERATE";

/// What the page of metrics begins with.
const METRICS_INTRODUCTION: &str = include_str!("generated/metrics-before.md");

/// What it ends with.
const METRICS_OF_OLD: &str = include_str!("generated/metrics-after.md");

/// The labels that every object of the chart carries, as lines of a template.
const LABELS: &str = "metadata:\n  labels:\n    {{- include \"oxolm.labels\" . | nindent 4 }}\n";

/// The annotations of an object: its own (a template of a map), and those that every object of the chart carries.
const ANNOTATIONS: &str =
    "  {{- with include \"oxolm.annotations\" (list . OWN) }}{{ . | nindent 2 }}{{ end }}\n";

/// Every generated file: its path below the repository, and its content.
fn generated() -> Vec<(String, String)> {
    let mut files = vec![
        (
            "charts/oxolm/templates/policies.yaml".to_owned(),
            policy_template(),
        ),
        ("config/conditions.md".to_owned(), conditions()),
        ("config/metrics.md".to_owned(), metrics()),
        ("config/errors.md".to_owned(), errors::page()),
        ("charts/oxolm/README.md".to_owned(), values::page()),
    ];
    for manifest in crd::manifests().unwrap() {
        let name = manifest.file_name();
        files.push((
            format!("charts/oxolm/templates/crds/{name}"),
            crd_template(&manifest),
        ));
        files.push((format!("config/crd/{name}"), manifest.yaml));
    }
    files
}

/// The reasons of conditions for people, the ones that ask for something first.
fn conditions() -> String {
    let mut text = "# Conditions and Events\n\n\
        What the reasons of conditions and Events on ClusterCatalogs, ClusterExtensions and ClusterObjectSets mean. A condition's\n\
        message has the details; `oxolm status` shows what is wrong first, with the next thing to do.\n\n\
        ## Something to do\n\n| reason | cause | what to do |\n|---|---|---|\n"
        .to_owned();
    let by_name = || {
        let reasons = Reason::ALL.iter();
        let mut rows: Vec<(&str, Meaning)> = reasons
            .map(|reason| (reason.as_str(), meaning(*reason)))
            .collect();
        rows.sort_by_key(|(name, _)| *name);
        rows
    };
    for (name, Meaning { cause, remedy }) in by_name() {
        if let Some(remedy) = remedy {
            _ = writeln!(text, "| `{name}` | {cause} | {remedy} |");
        }
    }
    text.push_str("\n## Nothing to do\n\n| reason | meaning |\n|---|---|\n");
    for (name, Meaning { cause, remedy }) in by_name() {
        if remedy.is_none() {
            _ = writeln!(text, "| `{name}` | {cause} |");
        }
    }
    text.push_str(
        "\n## Events\n\n\
        A change of condition that somebody may wait for is an Event as well, with the condition's reason and message.\n\
        Events also tell what follows. Metric `olm_transitions_total` counts all of them, by kind and reason.\n\n\
        | reason | meaning | what to do |\n|---|---|---|\n",
    );
    for news in News::ALL {
        let Meaning { cause, remedy } = news.meaning();
        let remedy = remedy.unwrap_or_default();
        _ = writeln!(text, "| `{}` | {cause} | {remedy} |", news.as_str());
    }
    text
}

/// All metrics for people.
fn metrics() -> String {
    let mut text = METRICS_INTRODUCTION.to_owned();
    text.push_str("## Metrics\n\n| name | type | labels | unit | stability | what it tells |\n|---|---|---|---|---|---|\n");
    for metric in metrics::ALL {
        let Metric {
            name,
            kind,
            labels,
            unit,
            stability,
            help,
        } = metric;
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let (labels, help) = (labels.join(" "), help.replace('<', "\\<"));
        _ = writeln!(
            text,
            "| `{name}` | {kind} | {labels} | {unit} | {stability} | {help} |"
        );
    }
    text.push_str(METRICS_OF_OLD);
    text
}

/// A definition as a template: part of the release or not, kept or not when that goes.
fn crd_template(manifest: &crd::Manifest) -> String {
    assert!(
        !manifest.yaml.contains("{{"),
        "a definition must not look like a template"
    );
    let (before, after) = manifest
        .yaml
        .split_once("metadata:\n  annotations:\n")
        .expect("a definition begins with its annotations");
    let rest = after.trim_start_matches(|c| c != '\n').trim_start();
    let (own, _) = after.split_once('\n').unwrap();
    let (key, value) = own.trim().split_once(": ").unwrap();
    assert!(
        rest.starts_with("name: "),
        "a definition has one annotation: {rest:.40}"
    );
    let own = format!("  {{{{- $own := dict \"{key}\" \"{value}\" }}}}\n");
    let keep = "  {{- if .Values.crds.keep }}{{ $_ := set $own \"helm.sh/resource-policy\" \"keep\" }}{{ end }}\n";
    let annotations = ANNOTATIONS.replace("OWN", "$own");
    let yaml = format!("{before}{LABELS}{own}{keep}{annotations}  {rest}");
    format!(
        "{{{{- if include \"oxolm.ownsCrd\" (list . \"{}\") }}}}\n{yaml}{{{{- end }}}}\n",
        manifest.name
    )
}

/// The policies as a template: the settings are values of the chart.
fn policy_template() -> String {
    let settings = Settings {
        controller: "CONTROLLER".to_owned(),
        default_account: "DEFAULT-ACCOUNT".to_owned(),
        excluded_namespaces: "EXCLUDED-NAMESPACES".to_owned(),
    };
    let mut text = "{{- if .Values.accountPolicy.enabled }}\n".to_owned();
    for policy in policies(&settings) {
        for object in [
            serde_json::to_value(&policy.policy).unwrap(),
            serde_json::to_value(&policy.binding).unwrap(),
        ] {
            let yaml = serde_saphyr::to_string(&object).unwrap();
            assert!(
                !yaml.contains("{{"),
                "a policy must not look like a template"
            );
            text.push_str("---\n");
            let metadata = format!("{LABELS}{}", ANNOTATIONS.replace("OWN", "nil"));
            text.push_str(&yaml.replacen("metadata:\n", &metadata, 1));
        }
    }
    text.push_str("{{- end }}\n");
    for (placeholder, value) in [
        ("CONTROLLER", "{{ include \"oxolm.user\" . }}"),
        (
            "DEFAULT-ACCOUNT",
            r#"{{ include "oxolm.defaultServiceAccount" . }}"#,
        ),
        (
            "EXCLUDED-NAMESPACES",
            "{{ include \"oxolm.excludedNamespaces\" . }}",
        ),
    ] {
        assert!(text.contains(placeholder), "{placeholder} is not used");
        text = text.replace(placeholder, value);
    }
    text
}

#[test]
fn generated_files_are_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let generates = std::env::var_os(GENERATE).is_some();
    let mut stale = Vec::new();
    let files = generated();
    for (name, content) in &files {
        let path = root.join(name);
        if generates {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
        } else if fs::read_to_string(&path).unwrap_or_default() != *content {
            stale.push(name.as_str());
        }
    }
    assert!(
        stale.is_empty(),
        "not what the types say: {}: run hack/generate",
        stale.join(", ")
    );
    for directory in ["config/crd", "charts/oxolm/templates/crds"] {
        let found = fs::read_dir(root.join(directory)).unwrap().count();
        let expected = files
            .iter()
            .filter(|(name, _)| name.starts_with(directory))
            .count();
        assert_eq!(found, expected, "a file too many in {directory}");
    }
}

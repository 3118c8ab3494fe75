//! The answer of `oxolm crd check`.

use std::fmt::Write as _;

use owo_colors::OwoColorize as _;
use serde_json::json;

use super::Report;
use crate::preflight::crd_upgrade::Severity;

/// One JSON object and a line break.
pub(super) fn json(report: &Report) -> String {
    let findings: Vec<_> = report
        .crds
        .iter()
        .flat_map(|(crd, findings)| findings.iter().map(move |finding| (crd, finding)))
        .map(|(crd, finding)| {
            json!({"crd": crd, "severity": finding.severity.as_str(), "message": finding.message})
        })
        .collect();
    let answer = json!({"passed": report.is_passed(), "findings": findings});
    format!("{answer:#}\n")
}

/// Per CRD its findings, and below each what can be done.
pub(super) fn text(report: &Report) -> String {
    let mut out = String::new();
    for (crd, findings) in &report.crds {
        write_crd(&mut out, crd, findings);
    }
    let count = |severity| {
        let findings = report.crds.values().flatten();
        findings
            .filter(|finding| finding.severity == severity)
            .count()
    };
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let verdict = if report.is_passed() {
        "passed".green().to_string()
    } else {
        "refused".red().to_string()
    };
    line(
        &mut out,
        &format!(
            "{verdict}: {}, {}, {}",
            counted(report.crds.len(), "CRD"),
            counted(errors, "error"),
            counted(warnings, "warning")
        ),
    );
    if errors > 0 {
        line(
            &mut out,
            "An extension can skip these checks: spec.install.preflight.crdUpgradeSafety.enforcement: None",
        );
    }
    out
}

fn write_crd(out: &mut String, crd: &str, findings: &[super::Finding]) {
    if findings.is_empty() {
        line(out, &format!("{}: nothing found", crd.bold()));
    } else {
        line(out, &crd.bold().to_string());
    }
    for (index, finding) in findings.iter().enumerate() {
        let word = match finding.severity {
            Severity::Error => finding.severity.as_str().red().to_string(),
            Severity::Warning => finding.severity.as_str().yellow().to_string(),
        };
        line(out, &format!("  {word} {}", finding.message));
        // The same advice for a run of findings is given once, below the last of them.
        let advice = finding.advice();
        let next = findings.get(index + 1).map(super::Finding::advice);
        if next != Some(advice) {
            line(out, &format!("    {}", advice.dimmed()));
        }
    }
    line(out, "");
}

fn counted(number: usize, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {what}{ending}")
}

fn line(out: &mut String, text: &str) {
    // Writing to a string cannot fail.
    _ = writeln!(out, "{text}");
}

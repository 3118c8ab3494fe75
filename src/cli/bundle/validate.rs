//! `oxolm bundle validate`: everything that would be refused, and what is probably not meant so.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Context as _;
use clap::Args;
use owo_colors::OwoColorize as _;
use serde_json::json;

use super::super::Answer;
use super::super::cluster::ClusterOptions;
use super::super::objects::{json_text, refusal};
use super::super::source::{self, Sources};
use super::{Output, catalogued};
use crate::apply::discovery::Discovery;
use crate::error::chain;
use crate::render::examine::{Check, Examination, Severity};
use crate::revision::phase::{self, ObjectMarks};
use crate::version::Version;

/// Say whether a bundle can be installed, and what is probably not meant as it stands.
///
/// Layout, rules and rendering in every install mode are tried; misspelt fields, properties, dependencies, certificates,
/// the versions that it needs and its size are looked at.
///
/// Exit code 0: no errors; 1: errors; 2: SRC or a catalog cannot be read, or the cluster does not answer.
///
/// `-o json` prints {"installable","bundle","package","findings":[{"severity":"error"|"warning"|"note","check","message"}]}.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Example:\n  oxolm bundle validate ./my-bundle --catalog ./my-catalog --kubernetes 1.31"
)]
pub(super) struct Validate {
    /// The bundle: a directory, a tar archive, or an image
    #[arg(value_name = "SRC")]
    source: String,
    /// A catalog whose entry of this bundle is compared with it; may be repeated
    #[arg(long = "catalog", value_name = "[NAME=]PATH|IMAGE")]
    catalogs: Vec<String>,
    /// The Kubernetes version that it is to run on
    #[arg(long, value_name = "VERSION", value_parser = version)]
    kubernetes: Option<Version>,
    /// Look at the cluster of the kubeconfig: its version, and who makes certificates there
    #[arg(long, conflicts_with = "kubernetes")]
    cluster: bool,
    /// The context of the kubeconfig; it implies --cluster [default: the current one]
    #[arg(long, value_name = "NAME", conflicts_with = "kubernetes")]
    context: Option<String>,
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    sources: Sources,
}

fn version(text: &str) -> Result<Version, String> {
    Version::parse_tolerant(text).map_err(|error| error.to_string())
}

pub(super) fn run(arguments: &Validate) -> anyhow::Result<Answer> {
    let examination = arguments.examine()?;
    let text = match arguments.output {
        Output::Json => json_text(&document(&examination))?,
        Output::Text => text(&arguments.source, &examination),
    };
    anstream::stdout()
        .write_all(text.as_bytes())
        .context("cannot write to standard output")?;
    Ok(if examination.is_installable() {
        Answer::Yes
    } else {
        Answer::No
    })
}

impl Validate {
    pub(super) fn examine(&self) -> anyhow::Result<Examination> {
        let files = match self.sources.bundle_files(&self.source) {
            Ok(files) => files,
            Err(error) => {
                let message = refusal(&error).ok_or(error)?;
                let mut examination = Examination::default();
                examination.add(Severity::Error, Check::Layout, message);
                return Ok(examination);
            }
        };
        let mut examination = Examination::of(&files);
        add_phases(&mut examination);
        if let Some(version) = &self.kubernetes {
            examination.on_kubernetes(version);
        }
        if self.cluster || self.context.is_some() {
            let cluster = ClusterOptions::of_context(self.context.as_deref()).connect()?;
            let (version, certificates) = cluster.ask(async |client| {
                let discovery = Discovery::new(client);
                (
                    discovery.server_version().await,
                    discovery.certificates().await,
                )
            });
            examination.on_cluster(&version?, certificates?);
        }
        for text in &self.catalogs {
            let (name, source) = source::named(text)?;
            let catalog = self.sources.catalog(source)?;
            catalogued::compare(&mut examination, &files, &name, catalog.path())?;
        }
        Ok(examination)
    }
}

/// Objects that cannot be put into a revision, in whatever mode.
fn add_phases(examination: &mut Examination) {
    let errors: std::collections::BTreeSet<String> = examination
        .rendered
        .values()
        .filter_map(|manifests| phase::phases(&manifests.objects, &ObjectMarks::default()).err())
        .map(|error| chain(&error))
        .collect();
    for error in errors {
        examination.add(Severity::Error, Check::InstallModes, error);
    }
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

fn document(examination: &Examination) -> serde_json::Value {
    let findings: Vec<_> = examination
        .findings
        .iter()
        .map(|finding| {
            json!({"severity": word(finding.severity), "check": finding.check.as_str(), "message": finding.message})
        })
        .collect();
    let bundle = examination.bundle.as_ref();
    json!({
        "installable": examination.is_installable(),
        "bundle": bundle.map(|bundle| &bundle.csv.metadata.name),
        "package": bundle.map(|bundle| &bundle.package),
        "findings": findings,
    })
}

/// The findings, the worst first, and the verdict.
fn text(source: &str, examination: &Examination) -> String {
    let mut findings: Vec<_> = examination.findings.iter().collect();
    findings.sort_by_key(|finding| finding.severity);
    let mut out = String::new();
    for finding in findings {
        let word = word(finding.severity);
        let word = match finding.severity {
            Severity::Error => word.red().to_string(),
            Severity::Warning => word.yellow().to_string(),
            Severity::Note => word.to_owned(),
        };
        let message = finding.message.replace('\n', "\n  ");
        // Writing to a text cannot fail.
        _ = writeln!(out, "{word}: {}: {message}", finding.check.as_str());
    }
    let name = match &examination.bundle {
        Some(bundle) => &bundle.csv.metadata.name,
        None => source,
    };
    let verdict = if examination.is_installable() {
        format!("{name} {}", "can be installed".green())
    } else {
        format!("{name} {}", "cannot be installed".red())
    };
    _ = writeln!(out, "{verdict}");
    out
}

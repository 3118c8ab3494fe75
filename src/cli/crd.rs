//! `oxolm crd`: questions about `CustomResourceDefinition`s of bundles. The ones of this API are `oxolm crds`.

mod input;
mod print;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueEnum};

use super::Answer;
use super::source::Sources;
use crate::preflight::crd_upgrade::{self, Definition, Finding};

/// Check custom resource definitions (CRDs) of bundles.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(super) struct Crd {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(Check),
}

/// Say what an upgrade of CRDs would break.
///
/// CRDs are compared by name. Errors are what stops an upgrade of an extension; warnings do not.
///
/// OLD and NEW are files of CRDs (YAML or JSON, several documents allowed), directories of such files, or bundles:
/// a directory, a tar archive or an image. An OLD that holds null means that there is no CRD yet; - is standard input.
///
/// Exit code 0: no errors; 1: errors; 2: OLD or NEW cannot be read.
///
/// `-o json` prints {"passed","findings":[{"crd","severity":"error"|"warning","message"}]}; a message is the line that
/// the condition of the extension would have about that CRD.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:\n  \
        oxolm crd check ./bundle-1.0.0 ./bundle-1.1.0\n  \
        kubectl get crd foos.example.com -o yaml | oxolm crd check - new-crd.yaml -o json"
)]
struct Check {
    /// What is there now
    old: String,
    /// What is to take its place
    new: String,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    sources: Sources,
}

/// How the answer is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people, with what can be done
    #[default]
    Text,
    /// One JSON object
    Json,
}

/// The findings of all CRDs, by the CRD's name.
#[derive(Debug, Default)]
struct Report {
    crds: BTreeMap<String, Vec<Finding>>,
}

impl Report {
    /// Compares the CRDs of the two sides.
    fn of(old: &[Definition], new: &[Definition]) -> Self {
        let mut report = Self::default();
        for crd in new {
            let old = old.iter().find(|old| old.name == crd.name);
            let findings = crd_upgrade::check(old, crd);
            report.crds.insert(crd.name.clone(), findings);
        }
        for crd in old {
            let gone = || vec![crd_upgrade::removal()];
            report.crds.entry(crd.name.clone()).or_insert_with(gone);
        }
        report
    }

    fn is_passed(&self) -> bool {
        !self
            .crds
            .values()
            .any(|findings| crd_upgrade::is_refused(findings))
    }
}

/// Runs `oxolm crd`.
pub(super) fn run(arguments: &Crd) -> anyhow::Result<Answer> {
    let Command::Check(arguments) = &arguments.command;
    let (report, notes) = check(arguments)?;
    for note in notes {
        writeln!(anstream::stderr(), "oxolm: {note}")?;
    }
    let text = match arguments.output {
        Output::Text => print::text(&report),
        Output::Json => print::json(&report),
    };
    anstream::stdout()
        .write_all(text.as_bytes())
        .context("cannot write to standard output")?;
    Ok(if report.is_passed() {
        Answer::Yes
    } else {
        Answer::No
    })
}

/// The report, and what was passed over.
fn check(arguments: &Check) -> anyhow::Result<(Report, Vec<String>)> {
    anyhow::ensure!(
        arguments.old != "-" || arguments.new != "-",
        "only one of OLD and NEW can be standard input"
    );
    let old = input::read(&arguments.old, &arguments.sources)?;
    let new = input::read(&arguments.new, &arguments.sources)?;
    anyhow::ensure!(
        !new.is_nothing,
        "{} holds null: there is nothing to upgrade to",
        arguments.new
    );
    let report = Report::of(&old.crds, &new.crds);
    Ok((report, [old.notes, new.notes].concat()))
}

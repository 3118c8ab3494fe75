//! `oxolm crd`: questions about `CustomResourceDefinition`s of bundles. The ones of this API are `oxolm crds`.

mod input;
mod print;
mod resources;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;

use input::Side;

use super::Answer;
use super::cluster::ClusterOptions;
use super::source::Sources;
use crate::apply::crd_upgrade::{CrdUpgradeCheck, Resources};
use crate::preflight::crd_upgrade::stored::{self, Questions, Tally};
use crate::preflight::crd_upgrade::{self, Definition, Finding, Pool};

/// Check custom resource definitions (CRDs) of bundles.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        oxolm crd check --cluster quay.io/me/my-bundle:v1.1.0"
)]
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
/// Stored resources decide where the errors are only about what is allowed, or about fields that are gone: if all are
/// valid and lose nothing, these errors become warnings. Without --cluster and --resources no resource is looked at.
/// Not judged are the format creditcard, patternProperties, and rules with functions of the CEL libraries semver, format,
/// authorizer and strings.format, or with transforming comprehensions: then the schemas decide alone.
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
        oxolm crd check --cluster quay.io/me/my-bundle:v1.1.0\n  \
        kubectl get crd foos.example.com -o yaml | oxolm crd check - new-crd.yaml -o json"
)]
struct Check {
    /// What is there now, and what is to take its place; with --cluster only the latter
    #[arg(value_names = ["OLD", "NEW"], num_args = 1..=2, required = true)]
    crds: Vec<String>,
    /// Compare with the CRDs of the cluster, and look at the resources stored there where they can decide
    #[arg(long, conflicts_with = "resources")]
    cluster: bool,
    /// The context of the kubeconfig; it implies --cluster [default: the current one]
    #[arg(long, value_name = "NAME", conflicts_with = "resources")]
    context: Option<String>,
    /// Resources to look at where they can decide, as if they were stored: a file or a directory
    #[arg(long, value_name = "FILE|DIR")]
    resources: Option<PathBuf>,
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
    /// The CRDs that resources were to decide about, and none was found.
    unused: Vec<String>,
}

impl Report {
    /// Compares the CRDs of the two sides; resources, if there are any, decide where they can.
    fn of(
        old: &[Definition],
        new: &[Definition],
        resources: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let mut report = Self::default();
        let mut open = Vec::new();
        for crd in new {
            let before = old.iter().find(|old| old.name == crd.name);
            let findings = crd_upgrade::check(before, crd);
            if let (Some(before), Some(_)) = (before, resources) {
                open.push(Open {
                    old: before,
                    questions: stored::questions(before, crd, &findings),
                    tally: Tally::default(),
                });
            }
            report.crds.insert(crd.name.clone(), findings);
        }
        for crd in old {
            let gone = || vec![crd_upgrade::removal()];
            report.crds.entry(crd.name.clone()).or_insert_with(gone);
        }
        if let Some(path) = resources {
            resources::each(path, &mut |object| {
                for open in &mut open {
                    open.look(object);
                }
            })?;
        }
        for open in open {
            if open.is_in_vain() {
                report.unused.push(open.old.name.clone());
            }
            if let Some(findings) = report.crds.get_mut(&open.old.name) {
                *findings = open.conclude(std::mem::take(findings));
            }
        }
        Ok(report)
    }

    /// Compares CRDs with those of the cluster.
    fn of_cluster(context: Option<&str>, new: &Side) -> anyhow::Result<Self> {
        let cluster = ClusterOptions::of_context(context).connect()?;
        let crds = cluster.ask(async |client| {
            let check = CrdUpgradeCheck {
                own: &client,
                account: &client,
                user: "you",
                resources: Resources::Looked,
            };
            let mut crds = BTreeMap::new();
            for crd in &new.crds {
                let compared = check.compare(crd.json.clone()).await?;
                crds.insert(compared.name, compared.findings);
            }
            anyhow::Ok(crds)
        });
        Ok(Self {
            crds: crds?,
            unused: Vec::new(),
        })
    }

    fn is_passed(&self) -> bool {
        !self
            .crds
            .values()
            .any(|findings| crd_upgrade::is_refused(findings))
    }
}

/// A CRD of which resources may decide.
struct Open<'a> {
    old: &'a Definition,
    questions: Result<Option<Questions>, stored::Unanswerable>,
    tally: Tally,
}

impl Open<'_> {
    fn look(&mut self, object: &Value) {
        if let Ok(Some(questions)) = &self.questions
            && questions.is_about(object)
        {
            self.tally.look_as(questions, object);
        }
    }

    /// Whether resources could decide, but none was given.
    fn is_in_vain(&self) -> bool {
        matches!(self.questions, Ok(Some(_))) && self.tally.is_empty()
    }

    fn conclude(&self, findings: Vec<Finding>) -> Vec<Finding> {
        let old = self.old;
        match &self.questions {
            Ok(None) => findings,
            Ok(Some(_)) => stored::conclude(old, findings, Ok(&self.tally)),
            Err(why) => stored::conclude(old, findings, Err(&why.to_string())),
        }
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
    let is_live = arguments.cluster || arguments.context.is_some();
    let (old, new) = match (arguments.crds.as_slice(), is_live) {
        ([new], true) => (None, new),
        ([old, new], false) => (Some(old), new),
        (_, true) => bail!("with --cluster only NEW is named: what is there now is in the cluster"),
        (_, false) => bail!("name OLD and NEW, or --cluster"),
    };
    ensure!(
        old.is_none_or(|old| old != "-" || new != "-"),
        "only one of OLD and NEW can be standard input"
    );
    let old = old
        .map(|old| input::read(old, &arguments.sources))
        .transpose()?;
    let new_side = input::read(new, &arguments.sources)?;
    ensure!(
        !new_side.is_nothing,
        "{new} holds null: there is nothing to upgrade to"
    );
    let mut pool = Pool::default();
    let after = new_side.definitions(&mut pool)?;
    let report = match &old {
        Some(old) => {
            let before = old.definitions(&mut pool)?;
            Report::of(&before, &after, arguments.resources.as_deref())?
        }
        None => Report::of_cluster(arguments.context.as_deref(), &new_side)?,
    };
    let unused = report.unused.iter().map(|crd| {
        format!(
            "none of the resources is of CRD {crd}: the answer is that for a cluster that has none"
        )
    });
    let unused: Vec<String> = unused.collect();
    let notes = old.into_iter().flat_map(|old| old.notes);
    Ok((report, notes.chain(new_side.notes).chain(unused).collect()))
}

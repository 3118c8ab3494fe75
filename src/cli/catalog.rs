//! `oxolm catalog`: what is in a file-based catalog, for authors, administrators and CI.

mod diff;
mod graph;
mod list;
mod mirror_list;
mod open;
mod prune;
mod read;
mod select;
mod show;
mod validate;

use std::io::{self, BufWriter, Write};

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::Value;

use self::open::Packages;
use super::Answer;
use super::table::printable;
use crate::error::chain;
use crate::fbc::package::PackageContents;

/// Look into file-based catalogs, check and compare them.
///
/// SRC is a directory, a file of JSON or YAML, the reference of a catalog image, or cluster:NAME, a catalog of
/// the current context's cluster.
///
/// Exit codes of all: 0 yes or done; 1 no: the server would refuse the content, there is no such package, there are
/// findings or differences; 2 SRC cannot be used.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        oxolm catalog list quay.io/operatorhubio/catalog:latest\n  \
        oxolm catalog validate ./my-catalog"
)]
pub(super) struct Catalog {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Read(read::Read),
    Validate(validate::Validate),
    List(list::List),
    Show(show::Show),
    Diff(diff::Diff),
    Graph(graph::Graph),
    MirrorList(mirror_list::MirrorList),
    Prune(prune::Prune),
}

/// For people or for programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    #[default]
    Text,
    Json,
}

/// Where a subcommand writes: the answer, and why there is none.
struct Streams<'a> {
    out: &'a mut dyn Write,
    complaints: &'a mut dyn Write,
}

/// Runs `oxolm catalog`.
pub(super) fn run(arguments: &Catalog) -> anyhow::Result<Answer> {
    let mut out = BufWriter::new(anstream::stdout());
    let mut complaints = anstream::stderr();
    let mut streams = Streams {
        out: &mut out,
        complaints: &mut complaints,
    };
    let answer = dispatch(arguments, &mut streams)?;
    out.flush().context("cannot write the answer")?;
    Ok(answer)
}

fn dispatch(arguments: &Catalog, streams: &mut Streams<'_>) -> anyhow::Result<Answer> {
    let answered = match &arguments.command {
        Command::Read(arguments) => read::run(arguments, streams),
        Command::Validate(arguments) => validate::run(arguments, streams),
        Command::List(arguments) => list::run(arguments, streams),
        Command::Show(arguments) => show::run(arguments, streams),
        Command::Diff(arguments) => diff::run(arguments, streams),
        Command::Graph(arguments) => graph::run(arguments, streams),
        Command::MirrorList(arguments) => mirror_list::run(arguments, streams),
        Command::Prune(arguments) => prune::run(arguments, streams),
    };
    answered.or_else(|error| {
        // The server would refuse the content: that is an answer. Anything else is no usable input.
        let refusal = open::refusal(&error).ok_or(error)?;
        writeln!(streams.complaints, "{refusal}").context("cannot write the answer")?;
        Ok(Answer::No)
    })
}

/// The package of that name; complains when it is not there or cannot be read.
fn package<'a>(
    packages: &'a Packages,
    name: &str,
    streams: &mut Streams<'_>,
) -> anyhow::Result<Option<&'a PackageContents>> {
    let problem = match packages.get(name) {
        Some(Ok(package)) => return Ok(Some(package)),
        Some(Err(error)) => chain(error),
        None => format!("the catalog has no package {name:?}"),
    };
    writeln!(streams.complaints, "{problem}").context("cannot write the answer")?;
    Ok(None)
}

fn table<const N: usize>(
    header: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
    streams: &mut Streams<'_>,
) -> io::Result<()> {
    super::table::table(header, rows, streams.out)
}

/// A member of a JSON value; null where there is none.
trait Member {
    fn member(&self, name: &str) -> &Value;
}

impl Member for Value {
    fn member(&self, name: &str) -> &Value {
        self.get(name).unwrap_or(&Self::Null)
    }
}

fn print_json(value: &impl Serialize, streams: &mut Streams<'_>) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *streams.out, value)?;
    writeln!(streams.out)
}

#[cfg(test)]
mod tests;

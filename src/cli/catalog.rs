//! `oxolm catalog`: what is in a file-based catalog, for authors, administrators and CI.

mod open;
mod read;
mod validate;

use std::io::{self, BufWriter, Write};

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use super::Answer;

/// Look into file-based catalogs, check and compare them.
///
/// SRC is a directory, a file of JSON or YAML, the reference of a catalog image, or cluster:NAME, a catalog of
/// the current context's cluster.
///
/// Exit codes of all: 0 yes or done; 1 no: the server would refuse the content, there is no such package, there are
/// findings or differences; 2 SRC cannot be used.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(super) struct Catalog {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Read(read::Read),
    Validate(validate::Validate),
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
    };
    answered.or_else(|error| {
        // The server would refuse the content: that is an answer. Anything else is no usable input.
        let refusal = open::refusal(&error).ok_or(error)?;
        writeln!(streams.complaints, "{refusal}").context("cannot write the answer")?;
        Ok(Answer::No)
    })
}

fn print_json(value: &impl Serialize, streams: &mut Streams<'_>) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *streams.out, value)?;
    writeln!(streams.out)
}

/// Text of a catalog, fit for a terminal.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests;

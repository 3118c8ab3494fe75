//! `oxolm bundle`: what a bundle is, and whether it can be installed.

mod catalogued;
mod show;
mod validate;

use clap::{Args, Subcommand, ValueEnum};

use super::Answer;

/// Look into bundles, and check them.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        oxolm bundle show quay.io/me/my-bundle:v1.1.0\n  \
        oxolm bundle validate ./my-bundle"
)]
pub(super) struct Bundle {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(show::Show),
    Validate(validate::Validate),
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    #[default]
    Text,
    /// One JSON object
    Json,
}

/// Runs `oxolm bundle`.
pub(super) fn run(arguments: &Bundle) -> anyhow::Result<Answer> {
    match &arguments.command {
        Command::Show(arguments) => show::run(arguments),
        Command::Validate(arguments) => validate::run(arguments),
    }
}

#[cfg(test)]
mod tests;

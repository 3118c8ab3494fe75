//! The command line: one file per subcommand, no logic: read input, call core or shell, print.
//!
//! Exit codes of every companion command: 0 yes or done, 1 no (refused, not resolved, findings, differences),
//! 2 the input or the environment is not usable. clap uses 2 for wrong arguments, too.

mod batch;
mod bundle;
mod catalog;
mod catalogs;
mod check_install;
mod cluster;
mod completions;
mod crd;
mod crds;
mod directory;
mod image;
mod installed;
mod installer;
mod new;
mod objects;
mod range;
mod rbac;
mod render;
mod resolve;
mod run;
mod source;
mod status;
mod table;
mod uninstall_cleanup;
mod upgradeable;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::error::chain;
use crate::runtime::arguments::RunArguments;

/// A package manager for Kubernetes operators: the OLM v1 API in one binary.
#[derive(Debug, Parser)]
#[command(
    name = "oxolm",
    version,
    about,
    max_term_width = 100,
    after_help = "Examples:\n  oxolm status\n  \
        oxolm resolve my-operator --cluster\n  \
        oxolm new my-operator --cluster --namespace my-operator | kubectl apply -f -"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bundle(bundle::Bundle),
    Catalog(Box<catalog::Catalog>),
    CheckInstall(check_install::CheckInstall),
    Completions(completions::Completions),
    Crd(crd::Crd),
    Crds(crds::Crds),
    Image(image::Image),
    New(Box<new::New>),
    Range(range::Arguments),
    Rbac(rbac::Rbac),
    Render(Box<render::Render>),
    Resolve(Box<resolve::Resolve>),
    Run(Box<RunArguments>),
    Status(status::Status),
    UninstallCleanup(uninstall_cleanup::UninstallCleanup),
    Upgradeable(Box<upgradeable::Upgradeable>),
}

/// The answer of a companion command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Yes, or done: exit code 0.
    Yes,
    /// No: refused, not resolved, findings, differences: exit code 1.
    No,
}

/// Parses the arguments and runs the subcommand.
///
/// An error that a subcommand returns is printed on standard error with its chain and means exit code 2.
pub fn main() -> ExitCode {
    // An error only means that a provider is installed; HTTP clients need one.
    _ = rustls::crypto::ring::default_provider().install_default();
    let arguments = Arguments::parse();
    let answer: anyhow::Result<Answer> = match arguments.command {
        Command::Bundle(arguments) => bundle::run(&arguments),
        Command::Catalog(arguments) => catalog::run(&arguments),
        Command::CheckInstall(arguments) => check_install::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments, &mut Arguments::command()),
        Command::Crd(arguments) => crd::run(&arguments),
        Command::Crds(arguments) => crds::run(&arguments),
        Command::Image(arguments) => image::run(&arguments),
        Command::New(arguments) => new::run(&arguments),
        Command::Range(arguments) => range::run(&arguments),
        Command::Rbac(arguments) => rbac::run(&arguments),
        Command::Render(arguments) => render::run(&arguments),
        Command::Resolve(arguments) => resolve::run(&arguments),
        Command::Run(arguments) => run::run(*arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::UninstallCleanup(arguments) => uninstall_cleanup::run(&arguments),
        Command::Upgradeable(arguments) => upgradeable::run(&arguments),
    };
    match answer {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        Err(error) if is_unread(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed; there is nowhere else to say it.
            _ = writeln!(anstream::stderr(), "oxolm: {}", chain(error.as_ref()));
            ExitCode::from(2)
        }
    }
}

/// Whether whoever reads the answer has closed it, as `head` does: that is no failure. A connection that breaks is an error
/// of its own type; only an answer's is a bare one.
fn is_unread(error: &anyhow::Error) -> bool {
    let bare = error.downcast_ref::<io::Error>().map(io::Error::kind);
    let of_json = error.downcast_ref::<serde_json::Error>();
    let kind = bare.or_else(|| of_json.and_then(serde_json::Error::io_error_kind));
    kind == Some(io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests;

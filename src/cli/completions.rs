//! `oxolm completions`

use std::io::Write as _;

use anyhow::Context as _;
use clap::Args;
use clap_complete::Shell;

use super::Answer;

/// Print the completions of a shell.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  source <(oxolm completions bash)\n  \
        oxolm completions fish > ~/.config/fish/completions/oxolm.fish")]
pub(super) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(arguments: &Completions, command: &mut clap::Command) -> anyhow::Result<Answer> {
    std::io::stdout()
        .write_all(&script(arguments.shell, command))
        .context("cannot write to standard output")?;
    Ok(Answer::Yes)
}

fn script(shell: Shell, command: &mut clap::Command) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, command, "oxolm", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, ValueEnum as _};

    use super::*;
    use crate::cli::Arguments;

    #[test]
    fn every_shell_knows_the_commands() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell, &mut Arguments::command())).unwrap();
            assert!(script.contains("upgradeable"), "{shell}");
        }
    }
}

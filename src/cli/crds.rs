//! `oxolm crds`: the `CustomResourceDefinition`s of the three kinds.
#![expect(
    clippy::disallowed_methods,
    reason = "the command writes the files that it is asked for"
)]

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;

use super::Answer;
use crate::api::crd;

/// Print the definitions (CRDs) of the API, or write them to a directory.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  oxolm crds | kubectl apply --server-side -f -\n  oxolm crds --directory definitions"
)]
pub(super) struct Crds {
    /// Write one file per kind to this directory instead of printing them as one stream.
    #[arg(short, long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Runs `oxolm crds`.
pub(super) fn run(arguments: &Crds) -> anyhow::Result<Answer> {
    let manifests = crd::manifests()?;
    match &arguments.directory {
        Some(directory) => write(directory, &manifests)?,
        None => print(&manifests)?,
    }
    Ok(Answer::Yes)
}

fn write(directory: &Path, manifests: &[crd::Manifest]) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make directory {}", directory.display()))?;
    for manifest in manifests {
        let path = directory.join(manifest.file_name());
        std::fs::write(&path, &manifest.yaml)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn print(manifests: &[crd::Manifest]) -> anyhow::Result<()> {
    let mut out = anstream::stdout();
    for manifest in manifests {
        write!(out, "---\n{}", manifest.yaml).context("cannot write to standard output")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_made_and_filled() {
        let directory = tempfile::tempdir().unwrap();
        let wanted = directory.path().join("a/b");
        let answer = run(&Crds {
            directory: Some(wanted.clone()),
        });
        assert_eq!(answer.unwrap(), Answer::Yes);
        assert_eq!(std::fs::read_dir(wanted).unwrap().count(), 3);
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = run(&Crds {
            directory: Some(file.path().join("below")),
        })
        .unwrap_err();
        assert!(error.to_string().starts_with("cannot make directory"));
    }
}

#![expect(clippy::disallowed_methods, reason = "shell: looks at a directory")]
//! The directory that a command is to write to.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context as _, ensure};

/// Sees to it that nothing is mixed with what is written.
///
/// # Errors
/// When there is something in the directory, or it is none.
pub(super) fn check_new_or_empty(directory: &Path) -> anyhow::Result<()> {
    let shown = directory.display();
    let mut entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(|| format!("cannot write to directory {shown}"))?,
    };
    ensure!(
        entries.next().is_none(),
        "directory {shown} is not empty: name a new or an empty one"
    );
    Ok(())
}

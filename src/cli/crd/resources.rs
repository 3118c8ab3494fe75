//! Resources in files, one after the other.

use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::input::{files_below, read_file};
use crate::fbc::stream;

/// Gives every object of a file, or of the YAML and JSON files directly in a directory, to `accept`; the items of lists
/// one by one. One file at a time is in memory.
///
/// # Errors
/// When there is no such file, or it cannot be read.
pub(super) fn each(path: &Path, accept: &mut impl FnMut(&Value)) -> anyhow::Result<()> {
    let shown = path.display();
    ensure!(path.exists(), "there is no file or directory {shown}");
    let files = if path.is_dir() {
        files_below(path)?
    } else {
        vec![path.to_owned()]
    };
    for file in files {
        let bytes = read_file(&file)?;
        for document in stream::documents(&bytes) {
            let document = document.with_context(|| format!("cannot read {}", file.display()))?;
            match document.get("items").and_then(Value::as_array) {
                Some(items) => items.iter().for_each(&mut *accept),
                None => accept(&document),
            }
        }
    }
    Ok(())
}

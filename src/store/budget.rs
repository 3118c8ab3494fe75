#![expect(clippy::disallowed_methods, reason = "shell: measures what is on disk")]
//! How much the store may hold, and how much it does.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::place;

/// A bound on all files of a store together, in bytes.
#[derive(Debug)]
pub(super) struct Budget(AtomicU64);

impl Default for Budget {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl Budget {
    /// From now on this much is allowed.
    pub(super) fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Release);
    }

    /// What is allowed; `None` when there is no bound.
    pub(super) fn bytes(&self) -> Option<u64> {
        let bytes = self.0.load(Ordering::Acquire);
        (bytes != u64::MAX).then_some(bytes)
    }

    /// How much more fits below `root`.
    pub(super) fn room(&self, root: &Path) -> io::Result<u64> {
        match self.bytes() {
            None => Ok(u64::MAX),
            Some(bytes) => Ok(bytes.saturating_sub(used(root)?)),
        }
    }
}

/// The sizes of all files below `root`, added up, but for other stores' places. What vanishes meanwhile is not there.
pub(super) fn used(root: &Path) -> io::Result<u64> {
    let mut bytes = 0_u64;
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let is_others =
                directory == root && place::is_further(&entry.file_name().to_string_lossy());
            if metadata.is_dir() && is_others {
                continue;
            }
            if metadata.is_dir() {
                directories.push(entry.path());
            } else {
                bytes = bytes.saturating_add(metadata.len());
            }
        }
    }
    Ok(bytes)
}

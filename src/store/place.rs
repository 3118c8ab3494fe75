//! Which part of a directory is whose: a volume may be mounted by several Pods, and each keeps a store of its own in it.
//!
//! ```text
//! <root>/             the first one's store, held by a lock on
//!   lock
//!   replica-1/        the next one's, likewise
//!     lock
//! ```
//!
//! A lock ends with its process, however that ends. Who starts takes the first free place, and finds what was left there.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use tracing::warn;

/// The file that is locked.
const LOCK: &str = "lock";
/// What the names of places begin with, but for the first one's.
const PREFIX: &str = "replica-";
/// The most processes that share a directory: more replicas than anybody runs.
const PLACES: usize = 64;

/// A directory that nobody else uses while this lives.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) directory: PathBuf,
    /// Only its life counts. None where the file system knows no locks.
    _lock: Option<File>,
}

impl Place {
    /// Takes the first free place below `root`, making what is missing.
    pub(super) fn claim(root: &Path) -> io::Result<Self> {
        for number in 0..PLACES {
            let directory = match number {
                0 => root.to_owned(),
                _ => root.join(format!("{PREFIX}{number}")),
            };
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&directory)?;
            match lock(&directory) {
                Ok(lock) => {
                    return Ok(Self {
                        directory,
                        _lock: Some(lock),
                    });
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => {
                    // A disk that takes no changes can still be read from, which is what matters at a start.
                    warn!(path = %directory.display(), %error, "cannot lock the cache: nobody else may use it");
                    return Ok(Self {
                        directory,
                        _lock: None,
                    });
                }
            }
        }
        Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!("{PLACES} other processes use it"),
        ))
    }
}

/// Whether this is somebody else's place in the directory of the first one.
pub(super) fn is_further(name: &str) -> bool {
    name.strip_prefix(PREFIX)
        .is_some_and(|number| number.parse::<usize>().is_ok())
}

fn lock(directory: &Path) -> Result<File, TryLockError> {
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(directory.join(LOCK))
        .map_err(TryLockError::Error)?;
    file.try_lock()?;
    Ok(file)
}

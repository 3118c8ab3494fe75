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
/// `EBADF`: the file is not open for what is asked of it.
const BAD_FILE: i32 = 9;
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

/// Locks the file of a directory, made if it is missing. It is held open for reading, so that the disk can be made
/// read-only meanwhile; where that is not enough (NFS locks byte ranges for those who may write them), for writing.
fn lock(directory: &Path) -> Result<File, TryLockError> {
    let path = directory.join(LOCK);
    let written = || {
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(false);
        options.open(&path).map_err(TryLockError::Error)
    };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            written()?;
            File::open(&path).map_err(TryLockError::Error)?
        }
        Err(error) => return Err(TryLockError::Error(error)),
    };
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::Error(error)) if error.raw_os_error() == Some(BAD_FILE) => {
            let file = written()?;
            file.try_lock()?;
            Ok(file)
        }
        Err(error) => Err(error),
    }
}

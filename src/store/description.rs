#![expect(clippy::disallowed_methods, reason = "shell: reads what is on disk")]
//! `image.json`: what an image on disk must be to be the one that was unpacked.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::checksum::{Checksum, Summing};
use super::{DESCRIPTION, FORMAT, ROOTFS, StoreError, disk};
use crate::oci::digest::Digest;

/// `image.json`
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Description {
    pub(super) format: u32,
    pub(super) digest: Digest,
    pub(super) labels: BTreeMap<String, String>,
    /// By path below `rootfs`.
    pub(super) files: BTreeMap<String, FileDescription>,
}

/// What a file must be to be the one that was unpacked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileDescription {
    pub(crate) size: u64,
    pub(crate) checksum: Checksum,
}

/// Compares an image on disk with its description. `None` when they differ.
pub(super) fn verify(path: &Path, digest: &Digest) -> Result<Option<Description>, StoreError> {
    let file = path.join(DESCRIPTION);
    let bytes = match fs::read(&file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(disk("read", &file)(error)),
    };
    let Ok(description) = serde_json::from_slice::<Description>(&bytes) else {
        return Ok(None);
    };
    if description.format != FORMAT || description.digest != *digest {
        return Ok(None);
    }
    let root = path.join(ROOTFS);
    let mut found = 0;
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(disk("read directory", &directory)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(disk("read directory", &directory))?;
            let kind = entry.file_type().map_err(disk("read", &entry.path()))?;
            if kind.is_dir() {
                directories.push(entry.path());
            } else {
                found += 1;
                let relative = entry.path();
                let relative = relative.strip_prefix(&root).ok().and_then(Path::to_str);
                let expected = relative.and_then(|relative| description.files.get(relative));
                let same = match expected {
                    Some(expected) if kind.is_file() => is_file(&entry.path(), expected)?,
                    _ => false,
                };
                if !same {
                    return Ok(None);
                }
            }
        }
    }
    Ok((found == description.files.len()).then_some(description))
}

pub(super) fn is_file(path: &Path, expected: &FileDescription) -> Result<bool, StoreError> {
    let mut file = fs::File::open(path).map_err(disk("open", path))?;
    let mut summing = Summing::new();
    let mut size = 0;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = file.read(&mut buffer).map_err(disk("read", path))?;
        if count == 0 {
            break;
        }
        size += count as u64;
        summing.update(buffer.get(..count).unwrap_or_default());
    }
    Ok(size == expected.size && summing.finish() == expected.checksum)
}

pub(super) fn write_description(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(bytes)?;
    file.set_permissions(fs::Permissions::from_mode(0o400))?;
    file.sync_all()
}

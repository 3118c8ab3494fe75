//! The files of an unpacked bundle, read for [`crate::bundle`].
//!
//! Only `manifests` and `metadata` are read. A link is followed as long as it stays below the bundle's root; one that
//! leads out is refused.

#![expect(clippy::disallowed_methods, reason = "bundles are read from disk")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::bundle::Files;

/// The directories that a bundle is made of.
const DIRECTORIES: [&str; 2] = ["manifests", "metadata"];
/// The bound on all files of one bundle together, in bytes: the largest public bundles have 3 MB.
pub const MAX_BUNDLE_BYTES: u64 = 64 << 20;
/// The bound on directories below each other; the format itself knows none below `manifests`.
const MAX_DEPTH: usize = 8;

/// Why the files of a bundle cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadBundleError {
    /// The disk does not give them.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or directory, from the bundle's root.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A link leads out of the bundle.
    #[error("{} leads out of the bundle", .0.display())]
    Escapes(PathBuf),
    /// It is too large.
    #[error("the files of the bundle are larger than {MAX_BUNDLE_BYTES} bytes")]
    TooLarge,
    /// Directories stand too deep in each other.
    #[error("{} is more than {MAX_DEPTH} directories deep", .0.display())]
    TooDeep(PathBuf),
}

/// Reads the files of the bundle below `root`: path from `root`, with `/` between the parts, to content. A directory that
/// is not there has no files.
///
/// # Errors
/// When a file cannot be read, leads out of `root`, or all are larger than [`MAX_BUNDLE_BYTES`] together.
pub fn read_bundle_files(root: &Path) -> Result<Files, ReadBundleError> {
    let root = root
        .canonicalize()
        .map_err(|source| ReadBundleError::Read {
            path: root.to_owned(),
            source,
        })?;
    let mut reader = Reader {
        root: &root,
        files: Files::new(),
        bytes: 0,
    };
    for directory in DIRECTORIES {
        reader.directory(Path::new(directory), 0)?;
    }
    Ok(reader.files)
}

struct Reader<'a> {
    root: &'a Path,
    files: Files,
    bytes: u64,
}

impl Reader<'_> {
    fn directory(&mut self, path: &Path, depth: usize) -> Result<(), ReadBundleError> {
        if depth > MAX_DEPTH {
            return Err(ReadBundleError::TooDeep(path.to_owned()));
        }
        let failed = |source| ReadBundleError::Read {
            path: path.to_owned(),
            source,
        };
        let Some(real) = self.resolve(path)? else {
            return Ok(());
        };
        for entry in fs::read_dir(real).map_err(failed)? {
            let path = path.join(entry.map_err(failed)?.file_name());
            let Some(real) = self.resolve(&path)? else {
                let source = io::Error::new(io::ErrorKind::NotFound, "the link leads nowhere");
                return Err(ReadBundleError::Read { path, source });
            };
            if real.is_dir() {
                self.directory(&path, depth + 1)?;
            } else {
                self.file(&path, &real)?;
            }
        }
        Ok(())
    }

    /// Where `path` really is; `None` when nothing is there.
    fn resolve(&self, path: &Path) -> Result<Option<PathBuf>, ReadBundleError> {
        let real = match self.root.join(path).canonicalize() {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                return Err(ReadBundleError::Read {
                    path: path.to_owned(),
                    source,
                });
            }
        };
        if real.starts_with(self.root) {
            Ok(Some(real))
        } else {
            Err(ReadBundleError::Escapes(path.to_owned()))
        }
    }

    fn file(&mut self, path: &Path, real: &Path) -> Result<(), ReadBundleError> {
        let failed = |source| ReadBundleError::Read {
            path: path.to_owned(),
            source,
        };
        let metadata = fs::metadata(real).map_err(failed)?;
        if !metadata.is_file() {
            let source = io::Error::new(
                io::ErrorKind::InvalidInput,
                "neither a file nor a directory",
            );
            return Err(failed(source));
        }
        self.bytes = self.bytes.saturating_add(metadata.len());
        if self.bytes > MAX_BUNDLE_BYTES {
            return Err(ReadBundleError::TooLarge);
        }
        let name: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
        self.files
            .insert(name.join("/"), fs::read(real).map_err(failed)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn bundle() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for directory in ["manifests", "metadata", "tests"] {
            fs::create_dir(root.path().join(directory)).unwrap();
        }
        fs::write(root.path().join("manifests/a.yaml"), "a").unwrap();
        fs::write(root.path().join("metadata/annotations.yaml"), "b").unwrap();
        fs::write(root.path().join("tests/c.yaml"), "c").unwrap();
        root
    }

    fn names(root: &tempfile::TempDir) -> Vec<String> {
        read_bundle_files(root.path())
            .unwrap()
            .into_keys()
            .collect()
    }

    #[test]
    fn manifests_and_metadata_are_read_and_nothing_else() {
        assert_eq!(
            names(&bundle()),
            ["manifests/a.yaml", "metadata/annotations.yaml"]
        );
    }

    #[test]
    fn links_are_followed_inside_and_refused_outside() {
        let root = bundle();
        symlink("a.yaml", root.path().join("manifests/link.yaml")).unwrap();
        assert_eq!(
            names(&root),
            [
                "manifests/a.yaml",
                "manifests/link.yaml",
                "metadata/annotations.yaml"
            ]
        );
        symlink("/etc/hostname", root.path().join("manifests/out.yaml")).unwrap();
        assert!(matches!(
            read_bundle_files(root.path()),
            Err(ReadBundleError::Escapes(_))
        ));
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let root = bundle();
        symlink("nowhere", root.path().join("manifests/broken.yaml")).unwrap();
        assert!(matches!(
            read_bundle_files(root.path()),
            Err(ReadBundleError::Read { .. })
        ));
        let looped = bundle();
        symlink(".", looped.path().join("manifests/loop")).unwrap();
        assert!(matches!(
            read_bundle_files(looped.path()),
            Err(ReadBundleError::TooDeep(_))
        ));
        let large = bundle();
        fs::File::create(large.path().join("manifests/large"))
            .unwrap()
            .set_len(MAX_BUNDLE_BYTES)
            .unwrap();
        assert!(matches!(
            read_bundle_files(large.path()),
            Err(ReadBundleError::TooLarge)
        ));
        assert!(read_bundle_files(Path::new("/nowhere/at/all")).is_err());
    }
}

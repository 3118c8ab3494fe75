#![expect(clippy::disallowed_methods, reason = "shell: reads catalogs from disk")]
//! Reading a catalog that lies in files: all of them, in lexical order, but for what `.indexignore` names.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::{CatalogError, disk};
use crate::fbc::document::DOCUMENT_LIMIT_BYTES;
use crate::fbc::ignore::{self, Ignore};
use crate::fbc::meta::Meta;
use crate::fbc::package::{PackageContents, PackageError, Packages};
use crate::fbc::read::{Located, Metas, StreamError};

/// The largest `.indexignore` that is read, in bytes. Real ones have a few lines.
const IGNORE_LIMIT_BYTES: u64 = 1 << 20;

/// Hands every blob of the catalog at `path` (a directory, or a single file) to `take`, with the path of its
/// file in the catalog, in the order in which it would be served.
///
/// # Errors
/// When a file is no catalog content, or cannot be read. An error of `take` ends it.
pub fn read_directory_or_file(
    path: &Path,
    take: &mut dyn FnMut(&str, Located),
) -> Result<(), CatalogError> {
    let root = path.to_owned();
    fs::metadata(&root).map_err(disk("read", &root))?;
    for file in files(&root)? {
        read_file(&file, DOCUMENT_LIMIT_BYTES, &mut |located| {
            take(&file.name, located);
            Ok(())
        })?;
    }
    Ok(())
}

/// A document (`None` for one without content), and the line on which it begins.
type Document = (Option<Meta>, usize);

/// Hands every document of the catalog at `path` (a directory, or a single file) to `take` with the path of its file and
/// its line, also one without content. A file that is no catalog content is handed over as its error, and the others
/// follow.
///
/// # Errors
/// When the disk cannot be read.
pub fn examine(
    path: &Path,
    take: &mut dyn FnMut(&str, Result<Document, CatalogError>),
) -> Result<(), CatalogError> {
    fs::metadata(path).map_err(disk("read", path))?;
    let files = match files(path) {
        Ok(files) => files,
        Err(error) => {
            let file = match &error {
                CatalogError::NoFile { file } | CatalogError::IgnoreFile { file, .. } => {
                    file.clone()
                }
                _ => return Err(error),
            };
            take(&file, Err(error));
            return Ok(());
        }
    };
    for file in files {
        let opened = File::open(&file.path).map_err(disk("open", &file.path))?;
        let size_bytes = opened.metadata().map_err(disk("read", &file.path))?.len();
        let mut metas = Metas::new(opened);
        while let Some(document) = metas.next_document() {
            match document {
                Ok(document) => take(&file.name, Ok(document)),
                Err(source @ StreamError::Read(_)) => {
                    return Err(CatalogError::Content {
                        file: file.name,
                        source,
                    });
                }
                Err(source) => take(
                    &file.name,
                    Err(content_error(&file.name, size_bytes, source)),
                ),
            }
        }
    }
    Ok(())
}

/// The packages of the catalog at `path` (a directory, or a single file) by name, or why one cannot be used.
///
/// # Errors
/// As [`read_directory_or_file`].
pub fn packages(
    path: &Path,
) -> Result<BTreeMap<String, Result<PackageContents, PackageError>>, CatalogError> {
    let mut packages = Packages::default();
    read_directory_or_file(path, &mut |_, located| packages.add(&located.meta))?;
    Ok(packages.finish())
}

/// Hands every blob below `root` to `take`. A root that does not exist is an empty catalog.
pub(super) fn walk(
    root: &Path,
    limit_bytes: usize,
    take: &mut dyn FnMut(Located) -> Result<(), CatalogError>,
) -> Result<(), CatalogError> {
    if !root.exists() {
        return Ok(());
    }
    for file in files(root)? {
        read_file(&file, limit_bytes, take)?;
    }
    Ok(())
}

/// A file of the catalog.
#[derive(Debug)]
struct CatalogFile {
    /// Its path in the catalog, for people.
    name: String,
    path: PathBuf,
}

fn read_file(
    file: &CatalogFile,
    limit_bytes: usize,
    take: &mut dyn FnMut(Located) -> Result<(), CatalogError>,
) -> Result<(), CatalogError> {
    let opened = File::open(&file.path).map_err(disk("open", &file.path))?;
    let size_bytes = opened.metadata().map_err(disk("read", &file.path))?.len();
    for located in Metas::with_limit(opened, limit_bytes) {
        match located {
            Ok(located) => take(located)?,
            Err(source) => return Err(content_error(&file.name, size_bytes, source)),
        }
    }
    Ok(())
}

fn content_error(file: &str, size_bytes: u64, source: StreamError) -> CatalogError {
    let file = file.to_owned();
    match source {
        StreamError::TooLarge { .. } => CatalogError::TooLarge {
            file,
            size_bytes,
            source,
        },
        StreamError::Read(_) | StreamError::Document(_) => CatalogError::Content { file, source },
    }
}

/// The files below `root` that are to be read, in the order of Go's `fs.WalkDir`: the entries of each directory
/// by name, what lies in a directory in the place of its name.
fn files(root: &Path) -> Result<Vec<CatalogFile>, CatalogError> {
    let mut ignore = Ignore::default();
    let mut found = Vec::new();
    let mut ahead = vec![(root.to_owned(), String::new())];
    while let Some((path, name)) = ahead.pop() {
        let kind = fs::symlink_metadata(&path)
            .map_err(disk("read", &path))?
            .file_type();
        if kind.is_dir() || name.is_empty() && path.is_dir() {
            let mut entries = entries(&path)?;
            entries.sort_by(|a, b| b.0.as_bytes().cmp(a.0.as_bytes()));
            ahead.extend(entries.into_iter().map(|(entry, path)| {
                let entry = entry.to_string_lossy();
                let name = match name.as_str() {
                    "" => entry.into_owned(),
                    parent => format!("{parent}/{entry}"),
                };
                (path, name)
            }));
            continue;
        }
        let name = match name.as_str() {
            "" => root
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            _ => name,
        };
        if !(kind.is_file() || leads_to_file_within(&path, root)) {
            return Err(CatalogError::NoFile {
                file: printable(&name),
            });
        }
        if path
            .file_name()
            .is_some_and(|last| last == ignore::FILE_NAME)
        {
            let directory = name.rsplit_once('/').map_or("", |(directory, _)| directory);
            ignore.add(directory, &ignore_text(&path, &name)?);
        } else {
            found.push(CatalogFile { name, path });
        }
    }
    found.retain(|file| !ignore.is_ignored(&file.name));
    for file in &mut found {
        file.name = printable(&file.name);
    }
    Ok(found)
}

fn entries(directory: &Path) -> Result<Vec<(std::ffi::OsString, PathBuf)>, CatalogError> {
    fs::read_dir(directory)
        .map_err(disk("read directory", directory))?
        .map(|entry| {
            let entry = entry.map_err(disk("read directory", directory))?;
            Ok((entry.file_name(), entry.path()))
        })
        .collect()
}

/// Whether a link ends at a file below `root`. Links out of the catalog are never followed.
fn leads_to_file_within(path: &Path, root: &Path) -> bool {
    let within = |target: &Path| {
        root.canonicalize()
            .is_ok_and(|root| target.starts_with(&root) && target.is_file())
    };
    path.canonicalize().is_ok_and(|target| within(&target))
}

fn ignore_text(path: &Path, name: &str) -> Result<String, CatalogError> {
    let file = File::open(path).map_err(disk("open", path))?;
    let mut bytes = Vec::new();
    file.take(IGNORE_LIMIT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(disk("read", path))?;
    if bytes.len() as u64 > IGNORE_LIMIT_BYTES {
        return Err(CatalogError::IgnoreFile {
            file: printable(name),
            limit_bytes: IGNORE_LIMIT_BYTES,
        });
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A path that somebody else chose, fit for a message: no control characters, not too long.
fn printable(name: &str) -> String {
    const LONGEST: usize = 200;
    let count = name.chars().count();
    let start = if count > LONGEST { "…" } else { "" };
    let kept = name.chars().skip(count.saturating_sub(LONGEST));
    let shown = kept.map(|c| if c.is_control() { '\u{fffd}' } else { c });
    start.chars().chain(shown).collect()
}

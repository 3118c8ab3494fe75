#![expect(
    clippy::disallowed_methods,
    reason = "shell: reads the files that the command is given"
)]
//! The CRDs of a file, a directory or a bundle.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

use super::Sources;
use crate::bundle::RegistryV1;
use crate::fbc::{normal, parts, stream};
use crate::preflight::crd_upgrade::{Definition, Pool};
use crate::render;

/// The largest file of CRDs, in bytes: an API server takes objects of 3 MiB at most, and this is many of them.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// A namespace for the references of conversion webhooks, which nothing here looks at.
const ANY_NAMESPACE: &str = "default";

/// A CRD as JSON, and what it was read from.
#[derive(Debug)]
pub(super) struct LoadedCrd {
    origin: String,
    pub(super) json: Vec<u8>,
}

/// One side of the comparison.
#[derive(Debug, Default)]
pub(super) struct Side {
    /// The CRDs, in order.
    pub(super) crds: Vec<LoadedCrd>,
    /// The file says that there is no CRD.
    pub(super) is_nothing: bool,
    /// What was passed over.
    pub(super) notes: Vec<String>,
}

/// Reads what `source` names.
///
/// # Errors
/// When it cannot be read, holds no CRD at all, or holds two of one name.
pub(super) fn read(source: &str, sources: &Sources) -> anyhow::Result<Side> {
    let path = Path::new(source);
    let mut side = Side::default();
    if source == "-" {
        let mut bytes = Vec::new();
        let mut limited = io::stdin().lock().take(MAX_FILE_BYTES + 1);
        limited
            .read_to_end(&mut bytes)
            .context("cannot read standard input")?;
        side.add_file("standard input", &bytes)?;
    } else if path.is_dir() && !path.join("manifests").is_dir() {
        for file in files_below(path)? {
            side.add_file(&file.display().to_string(), &read_file(&file)?)?;
        }
    } else if path.is_file() && !is_archive(path)? {
        side.add_file(source, &read_file(path)?)?;
    } else {
        let files = sources.bundle_files(source)?;
        let bundle =
            RegistryV1::load(&files).with_context(|| format!("cannot read bundle {source}"))?;
        let crds = render::definitions(&bundle, ANY_NAMESPACE)
            .with_context(|| format!("cannot render the CRDs of bundle {source}"))?;
        for crd in crds {
            side.add(source, crd.to_string().as_bytes());
        }
        // A bundle without CRDs is a bundle; a file without any is a mistake.
        return Ok(side);
    }
    ensure!(
        side.is_nothing || !side.crds.is_empty(),
        "{source} holds no CustomResourceDefinition of apiextensions.k8s.io/v1"
    );
    Ok(side)
}

impl Side {
    fn add_file(&mut self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        ensure!(
            bytes.len() as u64 <= MAX_FILE_BYTES,
            "{name} is larger than {MAX_FILE_BYTES} bytes"
        );
        let mut has_content = false;
        for document in stream::texts(bytes) {
            let document = document.with_context(|| format!("cannot read {name}"))?;
            match document.first() {
                // Nothing, or null.
                None | Some(b'n') => {}
                Some(b'{') => self.add_document(name, &document),
                Some(_) => bail!("{name} holds a document that is no object"),
            }
            has_content |= !matches!(document.first(), None | Some(b'n'));
        }
        let has_text = !bytes.trim_ascii().is_empty();
        self.is_nothing |= has_text && !has_content;
        Ok(())
    }

    /// Adds an object, or the items of a list.
    fn add_document(&mut self, name: &str, document: &[u8]) {
        let members = parts::entries(document);
        let items = members.iter().find(|(name, _)| *name == b"\"items\"");
        match items {
            Some((_, items)) if items.starts_with(b"[") => {
                for item in parts::elements(items) {
                    self.add(name, item);
                }
            }
            _ => self.add(name, document),
        }
    }

    fn add(&mut self, name: &str, object: &[u8]) {
        let members = parts::entries(object);
        let text = |wanted: &[u8]| {
            let member = members.iter().find(|(name, _)| *name == wanted);
            let text = member.filter(|(_, value)| value.starts_with(b"\""));
            text.map(|(_, value)| normal::decode_string(value))
                .unwrap_or_default()
        };
        let (kind, version) = (text(b"\"kind\""), text(b"\"apiVersion\""));
        if kind == "CustomResourceDefinition" && version == "apiextensions.k8s.io/v1beta1" {
            self.notes.push(format!(
                "{name}: a CustomResourceDefinition of {version} is not looked at, as no API server since 1.22 has it"
            ));
        } else if Definition::is_named(&version, &kind) {
            self.crds.push(LoadedCrd {
                origin: name.to_owned(),
                json: object.to_vec(),
            });
        }
    }

    /// Reads the CRDs.
    ///
    /// # Errors
    /// When one cannot be used, or there are two of one name.
    pub(super) fn definitions(&self, pool: &mut Pool) -> anyhow::Result<Vec<Definition>> {
        let mut definitions: Vec<Definition> = Vec::new();
        for LoadedCrd { origin, json } in &self.crds {
            let crd =
                Definition::parse(pool, json).with_context(|| format!("cannot use {origin}"))?;
            ensure!(!crd.name.is_empty(), "{origin} holds a CRD without a name");
            ensure!(
                definitions.iter().all(|other| other.name != crd.name),
                "{origin} holds CRD {} a second time",
                crd.name
            );
            definitions.push(crd);
        }
        Ok(definitions)
    }
}

/// The YAML and JSON files directly in a directory, by name.
pub(super) fn files_below(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let failed = || format!("cannot read {}", directory.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        let is_wanted = path.extension().is_some_and(|ending| {
            ["yaml", "yml", "json"]
                .iter()
                .any(|wanted| ending == *wanted)
        });
        if is_wanted && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

pub(super) fn read_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    let failed = || format!("cannot read {}", path.display());
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .with_context(failed)?;
    Ok(bytes)
}

/// Whether a file is an archive, by its first bytes: gzip, zstd or tar.
fn is_archive(path: &Path) -> anyhow::Result<bool> {
    const TAR_MARK: std::ops::Range<usize> = 257..262;
    let mut head = Vec::new();
    File::open(path)
        .and_then(|file| file.take(512).read_to_end(&mut head))
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(head.starts_with(&[0x1f, 0x8b])
        || head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
        || head.get(TAR_MARK) == Some(b"ustar".as_slice()))
}

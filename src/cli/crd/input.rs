#![expect(
    clippy::disallowed_methods,
    reason = "shell: reads the files that the command is given"
)]
//! The CRDs of a file, a directory or a bundle.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use super::Sources;
use crate::bundle::RegistryV1;
use crate::fbc::yaml;
use crate::preflight::crd_upgrade::Definition;
use crate::render;

/// The largest file of CRDs, in bytes: an API server takes objects of 3 MiB at most, and this is many of them.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// A namespace for the references of conversion webhooks, which nothing here looks at.
const ANY_NAMESPACE: &str = "default";

/// A CRD, as it was read and as JSON.
#[derive(Debug)]
pub(super) struct LoadedCrd {
    pub(super) definition: Definition,
    pub(super) json: Value,
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
        for crd in &crds {
            side.add(source, crd)?;
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
        let mut documents = Vec::new();
        for document in yaml::documents(bytes) {
            documents.push(document.with_context(|| format!("cannot read {name}"))?);
        }
        let has_text = !bytes.trim_ascii().is_empty();
        if has_text && documents.iter().all(Value::is_null) {
            self.is_nothing = true;
        }
        for document in documents {
            match document {
                Value::Null => {}
                Value::Object(mut members) if members.get("items").is_some_and(Value::is_array) => {
                    let items = members.remove("items");
                    for item in items.iter().filter_map(Value::as_array).flatten() {
                        self.add(name, item)?;
                    }
                }
                Value::Object(members) => self.add(name, &Value::Object(members))?,
                _ => bail!("{name} holds a document that is no object"),
            }
        }
        Ok(())
    }

    fn add(&mut self, name: &str, object: &Value) -> anyhow::Result<()> {
        let text = |member: &str| {
            object
                .get(member)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (kind, version) = (text("kind"), text("apiVersion"));
        if kind == "CustomResourceDefinition" && version == "apiextensions.k8s.io/v1beta1" {
            self.notes.push(format!(
                "{name}: a CustomResourceDefinition of {version} is not looked at, as no API server since 1.22 has it"
            ));
            return Ok(());
        }
        if !Definition::is_crd(object) {
            return Ok(());
        }
        let crd = Definition::read(object).with_context(|| format!("cannot use {name}"))?;
        ensure!(!crd.name.is_empty(), "{name} holds a CRD without a name");
        ensure!(
            self.crds
                .iter()
                .all(|other| other.definition.name != crd.name),
            "{name} holds CRD {} a second time",
            crd.name
        );
        self.crds.push(LoadedCrd {
            definition: crd,
            json: object.clone(),
        });
        Ok(())
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

#![expect(
    clippy::disallowed_methods,
    reason = "shell: reads archives and the environment"
)]
//! SRC arguments: where a bundle or a catalog is taken from.
//!
//! | SRC | bundle | catalog |
//! |---|---|---|
//! | directory | that holds `manifests` and `metadata` | of JSON and YAML |
//! | file | tar archive of such a directory, plain or compressed as layers are | JSON or YAML |
//! | directory or tar archive that is an OCI layout | the image in it | the image in it |
//! | anything else | reference of an image | reference of an image |
//!
//! What is unpacked lies in a directory of its own, which is gone when the value is.

mod layout;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;

use self::layout::Archived;
use crate::bundle::Files;
use crate::fetch::{Fetcher, ImageKind};
use crate::oci::digest::Digest;
use crate::oci::reference::Reference;
use crate::registry::RegistryClient;
use crate::registry::build::BuiltImage;
use crate::registry::config::RegistryOptions;
use crate::registry::credential::{Credentials, PullSecret, PullSecretFormat};
use crate::store::bundle::read_bundle_files;
use crate::store::limits::Limits;
use crate::store::{Added, ContentStore, UnpackedImage, Wanted};

/// How an image is named.
const IMAGE: &str = "REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@DIGEST";

/// How registries are talked to: flags that are the same in every command.
///
/// `registries.conf` and `policy.json` are those of the user, else the system's.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Sources {
    /// Credentials, in the format of podman and docker [default: theirs, where they keep them]
    #[arg(long, value_name = "FILE", env = "REGISTRY_AUTH_FILE")]
    authfile: Option<PathBuf>,
    /// CA certificates (*.crt) to trust besides the system's, and client certificates (*.cert, *.key)
    #[arg(long, value_name = "DIR")]
    ca_dir: Option<PathBuf>,
}

/// A catalog on disk, for as long as the value lives.
#[derive(Debug)]
pub(super) struct CatalogSource {
    path: PathBuf,
    _unpacked: Option<Unpacked>,
}

impl CatalogSource {
    /// A directory or file, as the readers of [`crate::store::catalog`] take it.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Sources {
    /// The files of the bundle that `source` names.
    ///
    /// # Errors
    /// When there is no such directory, archive or image, or it cannot be read.
    pub(super) fn bundle_files(&self, source: &str) -> anyhow::Result<Files> {
        match local(source)? {
            Some(path) if path.is_dir() && !layout::is_layout(path) => read_bundle_files(path),
            Some(path) => {
                let (unpacked, below) = Unpacked::of_disk(path)
                    .with_context(|| format!("cannot unpack bundle {source}"))?;
                read_bundle_files(&unpacked.root()?.join(below))
            }
            None => read_bundle_files(&self.pull(source, ImageKind::Bundle)?.root()?),
        }
        .with_context(|| format!("cannot read bundle {source}"))
    }

    /// The catalog that `source` names.
    ///
    /// # Errors
    /// When there is no such directory, file or image, or the image is no catalog.
    pub(super) fn catalog(&self, source: &str) -> anyhow::Result<CatalogSource> {
        let unpacked = match local(source)? {
            Some(path) if !is_image(path).with_context(|| format!("cannot read {source}"))? => {
                return Ok(CatalogSource {
                    path: path.to_owned(),
                    _unpacked: None,
                });
            }
            Some(path) => {
                let unpacked = Unpacked::of_disk(path);
                let (unpacked, _) =
                    unpacked.with_context(|| format!("cannot unpack catalog {source}"))?;
                unpacked
            }
            None => self.pull(source, ImageKind::Catalog)?,
        };
        let path = unpacked.image()?.catalog_root();
        let path = path.with_context(|| format!("image {source} is no catalog"))?;
        Ok(CatalogSource {
            path,
            _unpacked: Some(unpacked),
        })
    }

    /// A client of registries with these flags.
    ///
    /// # Errors
    /// When a file that is named cannot be used.
    pub(super) fn client(&self) -> anyhow::Result<RegistryClient> {
        let home = env::var_os("HOME").map(PathBuf::from);
        let options = RegistryOptions {
            ca_directory: self.ca_dir.clone(),
            ..RegistryOptions::default()
        };
        let client = RegistryClient::new(options.with_system_files(home.as_deref()))?;
        if let Some(secret) = self.credentials()? {
            client.set_credentials(Credentials::parse(&[secret])?);
        }
        Ok(client)
    }

    /// The credentials of `--authfile`, or the first file that podman or docker would use.
    fn credentials(&self) -> anyhow::Result<Option<PullSecret>> {
        let below = |variable: &str, path: &str| {
            env::var_os(variable).map(|base| Path::new(&base).join(path))
        };
        let found = self.authfile.clone().or_else(|| {
            [
                below("XDG_RUNTIME_DIR", "containers/auth.json"),
                below("HOME", ".config/containers/auth.json"),
                below("DOCKER_CONFIG", "config.json"),
                below("HOME", ".docker/config.json"),
            ]
            .into_iter()
            .flatten()
            .find(|path| path.is_file())
        });
        let Some(path) = found else {
            return Ok(None);
        };
        let data = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Some(PullSecret {
            origin: path.display().to_string(),
            format: PullSecretFormat::DockerConfigJson,
            data,
        }))
    }

    fn pull(&self, source: &str, kind: ImageKind) -> anyhow::Result<Unpacked> {
        let reference = reference(source)?;
        self.pull_image(&reference, kind)
            .with_context(|| format!("{source} is no file or directory, and cannot be pulled"))
    }

    fn pull_image(&self, reference: &Reference, kind: ImageKind) -> anyhow::Result<Unpacked> {
        let client = self.client()?;
        Unpacked::make(|store| {
            let fetcher = Fetcher::new(client, store.clone());
            let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
            Ok(runtime.block_on(async {
                let canonical = fetcher.canonicalize(reference).await?;
                fetcher.fetch(&canonical, kind).await
            })?)
        })
    }
}

/// Name and SRC of `[NAME=]SRC`. Without a name it is that of the directory, or of the file without its ending, or the last part
/// of the image's repository.
///
/// # Errors
/// When there is no such file or directory, and it is no image reference either.
pub(super) fn named(text: &str) -> anyhow::Result<(String, &str)> {
    if !Path::new(text).exists()
        && let Some((name, source)) = text.split_once('=')
        && !name.is_empty()
        && !name.contains('/')
    {
        return Ok((name.to_owned(), source));
    }
    let name = if let Some(path) = local(text)? {
        let canonical = path
            .canonicalize()
            .with_context(|| format!("cannot read catalog {text}"))?;
        // The dots of a directory belong to its name: "v4.20" is no file of kind "20".
        let name = if canonical.is_dir() {
            canonical.file_name()
        } else {
            canonical.file_stem()
        };
        name.map(|name| name.to_string_lossy().into_owned())
    } else {
        let reference = reference(text)?;
        let path = reference.repository().path();
        path.rsplit('/').next().map(str::to_owned)
    };
    let name = name.with_context(|| format!("catalog {text} has no name: write NAME={text}"))?;
    Ok((name, text))
}

/// The image that is meant where nothing of that name exists on disk.
fn reference(source: &str) -> anyhow::Result<Reference> {
    Reference::parse(source).with_context(|| {
        format!("there is no file or directory {source}, and it names no image ({IMAGE})")
    })
}

/// What exists on disk; `None` for what can only be an image.
fn local(source: &str) -> anyhow::Result<Option<&Path>> {
    let path = Path::new(source);
    if path.exists() {
        return Ok(Some(path));
    }
    if source.starts_with(['.', '/', '~']) {
        bail!("there is no file or directory {source}");
    }
    if !source.contains('/') {
        bail!("there is no file or directory {source}, and an image would be {IMAGE}");
    }
    Ok(None)
}

/// Whether an image lies at `path`, and no files of a catalog.
fn is_image(path: &Path) -> std::io::Result<bool> {
    if path.is_dir() {
        Ok(layout::is_layout(path))
    } else {
        layout::is_archive(path)
    }
}

/// The image of the layout at `path`, whole, ready to be pushed; none if there is no layout.
///
/// # Errors
/// When it is damaged or cannot be read.
pub(super) fn image_on_disk(path: &Path) -> anyhow::Result<Option<BuiltImage>> {
    if path.is_dir() {
        return layout::is_layout(path)
            .then(|| layout::whole(path))
            .transpose();
    }
    let is_archive =
        layout::is_archive(path).with_context(|| format!("cannot read {}", path.display()))?;
    if !is_archive || layout::archived(path)? != Archived::Layout {
        return Ok(None);
    }
    let directory = tempfile::tempdir().context("cannot make a directory")?;
    layout::extract(path, directory.path())?;
    layout::whole(directory.path()).map(Some)
}

/// An image or archive that was unpacked; its files go with the value.
#[derive(Debug)]
struct Unpacked {
    image: Option<UnpackedImage>,
    store: ContentStore,
    _directory: tempfile::TempDir,
}

impl Unpacked {
    fn make(
        unpack: impl FnOnce(&ContentStore) -> anyhow::Result<UnpackedImage>,
    ) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir().context("cannot make a directory")?;
        let store = ContentStore::open(directory.path())?;
        // Made first: if unpacking fails, what it left goes, too.
        let mut unpacked = Self {
            image: None,
            store,
            _directory: directory,
        };
        unpacked.image = Some(unpack(&unpacked.store)?);
        Ok(unpacked)
    }

    /// Unpacks a layout, or an archive of one or of files; and below which directory of it the files lie.
    fn of_disk(path: &Path) -> anyhow::Result<(Self, String)> {
        if path.is_dir() {
            let unpacked = Self::make(|store| layout::unpack(path, store))?;
            return Ok((unpacked, String::new()));
        }
        match layout::archived(path)? {
            Archived::Layout => {
                let directory = tempfile::tempdir().context("cannot make a directory")?;
                layout::extract(path, directory.path())?;
                let unpacked = Self::make(|store| layout::unpack(directory.path(), store))?;
                Ok((unpacked, String::new()))
            }
            Archived::Files(below) => {
                let below = below.unwrap_or_default();
                Ok((Self::archive(path, &below)?, below))
            }
        }
    }

    /// Unpacks an archive as if it were the only layer of an image.
    fn archive(path: &Path, below: &str) -> anyhow::Result<Self> {
        Self::make(|store| {
            // The store holds nothing else, so any name does.
            let digest = Digest::of(path.as_os_str().as_encoded_bytes());
            let mut wanted = Wanted::bundle_below(below)?;
            loop {
                let file = File::open(path)?;
                match store.add(
                    &digest,
                    &BTreeMap::new(),
                    &wanted,
                    &Limits::default(),
                    [file],
                )? {
                    Added::Image(image) => return Ok(image),
                    Added::Elsewhere(more) => wanted = more,
                }
            }
        })
    }

    fn image(&self) -> anyhow::Result<&UnpackedImage> {
        self.image.as_ref().context("nothing was unpacked")
    }

    fn root(&self) -> anyhow::Result<PathBuf> {
        Ok(self.image()?.root.clone())
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        self.image = None;
        // What is unpacked is read-only, so the directory cannot go before the store has emptied it. What cannot be
        // removed stays among the system's temporary files.
        _ = self.store.collect_garbage(&BTreeSet::new(), Duration::ZERO);
    }
}

#[cfg(test)]
mod tests;

#![expect(
    clippy::disallowed_methods,
    reason = "shell: keeps what a cluster serves"
)]
//! Where a catalog is taken from, and what its refusal looks like.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;
use tokio::runtime::Runtime;

use crate::cli::cluster::ClusterOptions;
use crate::cli::source::{CatalogSource, Sources};
use crate::error::chain;
use crate::fbc::package::{PackageContents, PackageError};
use crate::fetch::FetchError;
use crate::oci::reference::Reference;
use crate::store::catalog::{self, CatalogError};

/// The beginning of a SRC that names a catalog of the cluster.
const CLUSTER: &str = "cluster:";

/// The packages of a catalog, or why one cannot be read.
pub(super) type Packages = BTreeMap<String, Result<PackageContents, PackageError>>;

/// Images, and the bundles that each is needed for.
pub(super) type Images<'a> = BTreeMap<String, BTreeSet<&'a str>>;

/// How a SRC is reached.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct From {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// A catalog on disk, for as long as the value lives.
#[derive(Debug)]
pub(super) enum Opened {
    /// A directory, a file, or an image that was unpacked.
    Source {
        source: CatalogSource,
        /// The image's reference, if it is one.
        image: Option<String>,
    },
    /// What a cluster serves.
    Served {
        path: PathBuf,
        _directory: tempfile::TempDir,
    },
}

impl Opened {
    /// A directory or file, as the readers of [`crate::store::catalog`] take it.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Source { source, .. } => source.path(),
            Self::Served { path, .. } => path,
        }
    }

    /// The reference of the image that it is, as it was given.
    pub(super) fn image(&self) -> Option<String> {
        match self {
            Self::Source { image, .. } => image.clone(),
            Self::Served { .. } => None,
        }
    }
}

impl From {
    /// The catalog that `source` names.
    ///
    /// # Errors
    /// When there is no such directory, file, image or catalog, or it cannot be had.
    pub(super) fn open(&self, source: &str) -> anyhow::Result<Opened> {
        let Some(name) = source.strip_prefix(CLUSTER) else {
            let is_image = !Path::new(source).exists() && source.contains('/');
            if is_image {
                say(&format!("pulling {source}"));
            }
            return Ok(Opened::Source {
                source: self.sources.catalog(source)?,
                image: is_image.then(|| source.to_owned()),
            });
        };
        ensure!(
            !name.is_empty(),
            "{source} names no catalog: write {CLUSTER}NAME"
        );
        say(&format!("reading clustercatalog {name}"));
        let directory = tempfile::tempdir().context("cannot make a directory")?;
        let path = directory.path().join("catalog.jsonl");
        let cluster = self.cluster.connect()?;
        let catalog = cluster.catalog(name)?;
        let file = File::create(&path).context("cannot make a file")?;
        let mut file = BufWriter::new(file);
        io::copy(&mut cluster.content(&catalog, "all")?, &mut file)
            .and_then(|_| file.flush())
            .with_context(|| format!("cannot read clustercatalog {name:?}"))?;
        Ok(Opened::Served {
            path,
            _directory: directory,
        })
    }
}

impl From {
    /// The packages of the catalog that `source` names.
    ///
    /// # Errors
    /// As [`Self::open`], and when the server would refuse the catalog.
    pub(super) fn packages(&self, source: &str) -> anyhow::Result<Packages> {
        let opened = self.open(source)?;
        Ok(catalog::packages(opened.path())?)
    }

    /// The same images by digest, what they are needed for brought together, and why some cannot be looked up.
    ///
    /// # Errors
    /// When there is no way to ask registries.
    pub(super) fn by_digest<'a>(
        &self,
        images: Images<'a>,
    ) -> anyhow::Result<(Images<'a>, Vec<String>)> {
        let mut found = Images::new();
        let mut problems = Vec::new();
        let mut asker = None;
        for (image, bundles) in images {
            // With a tag beside the digest, the digest is what counts.
            let by_digest = if image.contains('@') {
                Ok(image)
            } else {
                say(&format!("looking up {image}"));
                if asker.is_none() {
                    let runtime = Runtime::new().context("cannot start")?;
                    asker = Some((runtime, self.sources.client()?));
                }
                let (runtime, client) = asker.as_ref().context("made above")?;
                Reference::parse(&image)
                    .map_err(|error| chain(&error))
                    .and_then(|reference| {
                        let asked = runtime.block_on(client.canonicalize(&reference));
                        asked
                            .map(|canonical| canonical.to_string())
                            .map_err(|error| chain(&error))
                    })
            };
            match by_digest {
                Ok(image) => found.entry(image).or_default().extend(bundles),
                Err(problem) => problems.push(problem),
            }
        }
        Ok((found, problems))
    }
}

/// What takes a while is said to people, not to scripts.
fn say(what: &str) {
    let mut stderr = io::stderr();
    if stderr.is_terminal() {
        // There is nowhere else to say it.
        _ = writeln!(stderr, "{what} …");
    }
}

/// Why the server would refuse the content, if that is what `error` is about.
pub(super) fn refusal(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        if let Some(catalog) = cause.downcast_ref::<CatalogError>() {
            return catalog.is_content().then(|| chain(catalog));
        }
        match cause.downcast_ref::<FetchError>()? {
            error @ FetchError::MissingConfigsLabel => Some(chain(error)),
            FetchError::Unpack(source) if source.is_content() => Some(chain(source.as_ref())),
            FetchError::Unpack(_)
            | FetchError::Canonicalize(_)
            | FetchError::Pull(_)
            | FetchError::Deadline { .. }
            | FetchError::Interrupted { .. } => None,
        }
    })
}

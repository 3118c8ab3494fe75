#![expect(
    clippy::disallowed_methods,
    reason = "shell: keeps what a cluster serves"
)]
//! Where a catalog is taken from, and what its refusal looks like.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;

use crate::cli::cluster::ClusterOptions;
use crate::cli::source::{CatalogSource, Sources};
use crate::error::chain;
use crate::fetch::FetchError;
use crate::store::catalog::CatalogError;

/// The beginning of a SRC that names a catalog of the cluster.
const CLUSTER: &str = "cluster:";

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
    Source(CatalogSource),
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
            Self::Source(source) => source.path(),
            Self::Served { path, .. } => path,
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
            if !Path::new(source).exists() && source.contains('/') {
                say(&format!("pulling {source}"));
            }
            return self.sources.catalog(source).map(Opened::Source);
        };
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

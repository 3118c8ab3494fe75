//! `oxolm catalog read`

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek as _, Write as _};

use anyhow::Context as _;
use clap::Args;

use super::open::From;
use super::{Answer, Streams};
use crate::store::catalog;

/// Print what would be served of a catalog: every blob, one per line.
///
/// Of a catalog that the server would refuse nothing is printed but why, on standard error.
///
/// Exit code 0: done; 1: the server would refuse the catalog; 2: SRC cannot be used.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  oxolm catalog read ./catalog | jq -r 'select(.schema == \"olm.package\") | .name'\n  \
        oxolm catalog read quay.io/operatorhubio/catalog:latest > catalog.jsonl"
)]
pub(super) struct Read {
    /// The catalog: a directory, a file, an image, or cluster:NAME
    #[arg(value_name = "SRC")]
    pub(super) source: String,
    #[command(flatten)]
    pub(super) from: From,
}

pub(super) fn run(arguments: &Read, streams: &mut Streams<'_>) -> anyhow::Result<Answer> {
    let opened = arguments.from.open(&arguments.source)?;
    // Nothing may be printed of a catalog that is refused at its end.
    let mut spool = BufWriter::new(tempfile::tempfile().context("cannot make a temporary file")?);
    let mut written = Ok(());
    catalog::read_directory_or_file(opened.path(), &mut |_, located| {
        if written.is_ok() {
            written = spool
                .write_all(&located.meta.blob)
                .and_then(|()| spool.write_all(b"\n"));
        }
    })?;
    written.context("cannot write to a temporary file")?;
    copy(spool, streams).context("cannot write the answer")?;
    Ok(Answer::Yes)
}

fn copy(spool: BufWriter<File>, streams: &mut Streams<'_>) -> io::Result<()> {
    let mut file = spool.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.rewind()?;
    io::copy(&mut BufReader::new(file), streams.out).map(drop)
}

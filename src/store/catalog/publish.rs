//! Writing a catalog: one pass over its files, one document in memory at a time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use zstd::Encoder as ZstdEncoder;

use super::{
    BLOBS, CatalogError, DESCRIPTION, Description, FORMAT, FileDescription, GZIP, INDEX, Index,
    PACKAGES, PackageLine, ZSTD, disk, sync_directory, walk,
};
use crate::fbc::index::IndexBuilder;
use crate::fbc::meta::Meta;
use crate::fbc::package::Packages;
use crate::oci::digest::Digest;
use crate::store::checksum::Summing;

/// How hard gzip tries. Real catalogs shrink to a tenth at this level, at four times the speed of level 6.
const GZIP_LEVEL: u32 = 2;

/// How hard zstd tries. The fastest of its usual levels, and still far smaller than any gzip: it sees further back.
const ZSTD_LEVEL: i32 = 1;

/// What is published.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    /// The catalog's directory or file.
    pub(super) content: &'a Path,
    /// The largest document that is read, in bytes.
    pub(super) document_limit_bytes: usize,
    /// How many bytes there is room for.
    pub(super) room_bytes: u64,
}

/// Writes the catalog of `source` into the new directory `target`, complete and synced. `None` when there is no room.
pub(super) fn write(
    target: &Path,
    source: &Source<'_>,
    digest: &Digest,
    unpacked_at: Timestamp,
) -> Result<Option<()>, CatalogError> {
    fs::DirBuilder::new()
        .mode(0o700)
        .create(target)
        .map_err(disk("create", Path::new("a directory for the catalog")))?;
    let mut blobs = Blobs::create(target)?;
    let mut is_full = false;
    walk::walk(
        source.content,
        source.document_limit_bytes,
        &mut |located| {
            is_full |= blobs.written_bytes() > source.room_bytes;
            // The rest is only looked at: what is wrong with it is worth more than the lack of room.
            if is_full {
                Ok(())
            } else {
                blobs.add(&located.meta)
            }
        },
    )?;
    if is_full {
        return Ok(None);
    }
    let mut files = BTreeMap::new();
    let index = blobs.finish(target, &mut files)?;
    let index = serde_json::to_vec(&index).map_err(encoding)?;
    write_file(target, INDEX, &index, &mut files)?;
    let description = Description {
        format: FORMAT,
        digest: digest.clone(),
        unpacked_at_seconds: unpacked_at.as_second(),
        files: files.clone(),
    };
    let description = serde_json::to_vec_pretty(&description).map_err(encoding)?;
    write_file(target, DESCRIPTION, &description, &mut files)?;
    sync_directory(target)?;
    let written: u64 = files.values().map(|file| file.size).sum();
    Ok((written <= source.room_bytes).then_some(()))
}

/// The blobs on their way to disk.
struct Blobs {
    plain: Summed,
    gzip: GzEncoder<Summed>,
    zstd: ZstdEncoder<'static, Summed>,
    index: IndexBuilder,
    packages: Packages,
}

impl Blobs {
    fn create(target: &Path) -> Result<Self, CatalogError> {
        let plain = Summed::create(target, BLOBS)?;
        let gzip = Summed::create(target, GZIP)?;
        let zstd = ZstdEncoder::new(Summed::create(target, ZSTD)?, ZSTD_LEVEL);
        Ok(Self {
            plain,
            gzip: GzEncoder::new(gzip, Compression::new(GZIP_LEVEL)),
            zstd: zstd.map_err(disk("write", Path::new(ZSTD)))?,
            index: IndexBuilder::default(),
            packages: Packages::default(),
        })
    }

    fn written_bytes(&self) -> u64 {
        self.plain.size + self.gzip.get_ref().size + self.zstd.get_ref().size
    }

    fn add(&mut self, meta: &Meta) -> Result<(), CatalogError> {
        let length = meta.blob.len() + 1;
        for part in [meta.blob.as_slice(), b"\n"] {
            self.plain
                .write_all(part)
                .map_err(disk("write", Path::new(BLOBS)))?;
            self.gzip
                .write_all(part)
                .map_err(disk("write", Path::new(GZIP)))?;
            self.zstd
                .write_all(part)
                .map_err(disk("write", Path::new(ZSTD)))?;
        }
        // A blob is far smaller than 4 GiB: documents are limited.
        self.index
            .add(meta, u32::try_from(length).unwrap_or(u32::MAX));
        self.packages.add(meta);
        Ok(())
    }

    fn finish(
        self,
        target: &Path,
        files: &mut BTreeMap<String, FileDescription>,
    ) -> Result<Index, CatalogError> {
        let gzip = self.gzip.finish();
        let gzip = gzip.map_err(disk("write", Path::new(GZIP)))?;
        files.insert(GZIP.to_owned(), gzip.finish(GZIP)?);
        let zstd = self.zstd.finish();
        let zstd = zstd.map_err(disk("write", Path::new(ZSTD)))?;
        files.insert(ZSTD.to_owned(), zstd.finish(ZSTD)?);
        files.insert(BLOBS.to_owned(), self.plain.finish(BLOBS)?);
        let mut index = Index {
            blobs: self.index.finish(),
            packages: BTreeMap::new(),
        };
        let mut lines = Summed::create(target, PACKAGES)?;
        for (name, package) in self.packages.finish() {
            let line = match package {
                Ok(contents) => PackageLine::Contents(contents),
                Err(error) => PackageLine::Problem(error.to_string()),
            };
            let mut line = serde_json::to_vec(&line).map_err(encoding)?;
            index.packages.insert(name, (lines.size, line.len() as u64));
            line.push(b'\n');
            lines
                .write_all(&line)
                .map_err(disk("write", Path::new(PACKAGES)))?;
        }
        files.insert(PACKAGES.to_owned(), lines.finish(PACKAGES)?);
        Ok(index)
    }
}

fn write_file(
    target: &Path,
    name: &str,
    bytes: &[u8],
    files: &mut BTreeMap<String, FileDescription>,
) -> Result<(), CatalogError> {
    let mut file = Summed::create(target, name)?;
    file.write_all(bytes)
        .map_err(disk("write", Path::new(name)))?;
    files.insert(name.to_owned(), file.finish(name)?);
    Ok(())
}

fn encoding(error: serde_json::Error) -> CatalogError {
    disk("encode", Path::new(INDEX))(error.into())
}

/// A new file that knows its size and checksum.
struct Summed {
    file: BufWriter<File>,
    sum: Summing,
    size: u64,
}

impl Summed {
    /// Errors name the file alone: the directory has a random name, and messages must not vary.
    fn create(target: &Path, name: &str) -> Result<Self, CatalogError> {
        let file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o400)
            .open(target.join(name))
            .map_err(disk("create", Path::new(name)))?;
        Ok(Self {
            file: BufWriter::with_capacity(64 << 10, file),
            sum: Summing::new(),
            size: 0,
        })
    }

    fn finish(self, name: &str) -> Result<FileDescription, CatalogError> {
        let path = Path::new(name);
        let file = self
            .file
            .into_inner()
            .map_err(|error| disk("write", path)(error.into_error()))?;
        file.sync_all().map_err(disk("write", path))?;
        Ok(FileDescription {
            size: self.size,
            checksum: self.sum.finish(),
        })
    }
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let length = self.file.write(bytes)?;
        self.sum.update(bytes.get(..length).unwrap_or_default());
        self.size += length as u64;
        Ok(length)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

#![expect(clippy::disallowed_methods, reason = "shell: reads layouts from disk")]
//! Images on disk: an [OCI layout](https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md), as
//! `oxolm image build`, skopeo and podman write it; a directory, or a tar archive of one.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use flate2::bufread::MultiGzDecoder;
use sha2::{Digest as _, Sha256};

use crate::oci::digest::Digest;
use crate::oci::manifest::{Descriptor, ImageManifest, Manifest, Platform, labels};
use crate::registry::build::BuiltImage;
use crate::store::limits::Limits;
use crate::store::{Added, ContentStore, UnpackedImage, Wanted};

/// The file that marks a layout.
const MARK: &str = "oci-layout";
const INDEX: &str = "index.json";
const BLOBS: &str = "blobs/sha256";
/// The largest document of a layout that is read, in bytes: what registries accept, too.
const LARGEST_DOCUMENT_BYTES: u64 = 4 << 20;
/// How often an index may lead to another one.
const DEPTH: usize = 3;

/// What a tar archive holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Archived {
    /// The layout of an image.
    Layout,
    /// Files, below this directory if all of them are below one.
    Files(Option<String>),
}

/// Whether a directory is a layout.
pub(super) fn is_layout(directory: &Path) -> bool {
    directory.join(MARK).is_file() && directory.join(INDEX).is_file()
}

/// What the archive at `path` holds, told by the names in it.
///
/// # Errors
/// When it is no archive.
pub(super) fn archived(path: &Path) -> anyhow::Result<Archived> {
    let mut archive = tar::Archive::new(opened(path)?);
    let (mut first, mut is_layout) = (BTreeSet::new(), false);
    for entry in archive.entries()? {
        let name = entry?.path()?.into_owned();
        is_layout |= name.ends_with(MARK) && name.iter().filter(|part| *part != ".").count() == 1;
        let mut parts = name.iter().filter(|part| *part != ".");
        if let Some(part) = parts.next() {
            first.insert(part.to_string_lossy().into_owned());
        }
    }
    if is_layout {
        return Ok(Archived::Layout);
    }
    let is_bundle = ["manifests", "metadata"]
        .iter()
        .any(|name| first.contains(*name));
    let only = first.pop_first().filter(|_| first.is_empty());
    // Unpacking refuses what leads out.
    let below = only.filter(|name| !is_bundle && name != "..");
    Ok(Archived::Files(below))
}

/// Whether a file begins as archives do; JSON and YAML do not.
pub(super) fn is_archive(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?.take(512).read_to_end(&mut start)?;
    Ok(start.starts_with(&[0x1f, 0x8b]) || start.get(257..262) == Some(b"ustar"))
}

/// The uncompressed bytes of an archive.
fn opened(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut file = File::open(path)?;
    let mut magic = [0; 2];
    let is_gzip = file.read(&mut magic)? == 2 && magic == [0x1f, 0x8b];
    file.rewind()?;
    let file = BufReader::new(file);
    Ok(if is_gzip {
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    })
}

/// Takes the layout in the archive at `path` out into `directory`; nothing else that is in the archive.
///
/// # Errors
/// When it cannot be read or written.
pub(super) fn extract(path: &Path, directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory.join(BLOBS)).context("cannot make a directory")?;
    let mut archive = tar::Archive::new(opened(path)?);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.to_string_lossy().into_owned();
        let name = name.trim_start_matches("./").to_owned();
        let is_blob = name
            .strip_prefix(BLOBS)
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(|hex| Digest::parse(&format!("sha256:{hex}")).is_ok());
        if entry.header().entry_type().is_file() && (is_blob || name == MARK || name == INDEX) {
            let target = directory.join(&name);
            let mut file = File::create(&target).context("cannot write the layout")?;
            io::copy(&mut entry, &mut file).context("cannot take the layout out")?;
        }
    }
    Ok(())
}

/// Unpacks the image of the layout in `directory`: the only one, or the one for this platform.
///
/// # Errors
/// When it is not whole, or has no such image.
pub(super) fn unpack(directory: &Path, store: &ContentStore) -> anyhow::Result<UnpackedImage> {
    let index = read(&directory.join(INDEX))?;
    let (digest, image) = image_of(directory, &index, DEPTH)?;
    let config = document(directory, &image.config)?;
    let labels = labels(&config)?;
    let layers: Vec<PathBuf> = image
        .layers
        .iter()
        .map(|layer| verified(directory, layer))
        .collect::<anyhow::Result<_>>()?;
    let mut wanted = Wanted::of(&labels)?;
    loop {
        let files = layers
            .iter()
            .map(File::open)
            .collect::<Result<Vec<_>, _>>()?;
        match store.add(&digest, &labels, &wanted, &Limits::default(), files)? {
            Added::Image(image) => return Ok(image),
            Added::Elsewhere(more) => wanted = more,
        }
    }
}

/// Everything of the layout in `directory`: its image, or its index with all images.
///
/// # Errors
/// When it is not whole, or holds several images that no index joins.
pub(super) fn whole(directory: &Path) -> anyhow::Result<BuiltImage> {
    let Manifest::Index(index) = Manifest::parse(&read(&directory.join(INDEX))?, None)? else {
        bail!("{INDEX} is no index");
    };
    let [only] = index.manifests.as_slice() else {
        let count = index.manifests.len();
        bail!(
            "the layout holds {count} images under no common index, so which one to push cannot be told"
        );
    };
    part(directory, only, DEPTH)
}

fn part(directory: &Path, descriptor: &Descriptor, depth: usize) -> anyhow::Result<BuiltImage> {
    let manifest = document(directory, descriptor)?;
    let (mut blobs, mut images) = (Vec::new(), Vec::new());
    match Manifest::parse(&manifest, Some(&descriptor.media_type))? {
        Manifest::Image(image) => {
            for blob in [&image.config].into_iter().chain(&image.layers) {
                let path = verified(directory, blob)?;
                let bytes =
                    fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
                blobs.push((blob.clone(), bytes.into()));
            }
        }
        Manifest::Index(_) if depth == 0 => bail!("the indexes of the layout lead nowhere"),
        Manifest::Index(index) => {
            for descriptor in &index.manifests {
                images.push(part(directory, descriptor, depth - 1)?);
            }
        }
    }
    Ok(BuiltImage {
        media_type: descriptor.media_type.clone(),
        manifest: manifest.into(),
        digest: descriptor.digest.clone(),
        blobs,
        images,
    })
}

fn image_of(
    directory: &Path,
    index: &[u8],
    depth: usize,
) -> anyhow::Result<(Digest, ImageManifest)> {
    let Manifest::Index(index) = Manifest::parse(index, None)? else {
        bail!("{INDEX} is no index");
    };
    let chosen = if let [only] = index.manifests.as_slice() {
        only.clone()
    } else {
        let here = Platform::of_rust(std::env::consts::OS, std::env::consts::ARCH);
        index.choose(&here)?.clone()
    };
    let bytes = document(directory, &chosen)?;
    match Manifest::parse(&bytes, Some(&chosen.media_type))? {
        Manifest::Image(image) => {
            image.check_is_image()?;
            Ok((chosen.digest, image))
        }
        Manifest::Index(_) if depth > 0 => image_of(directory, &bytes, depth - 1),
        Manifest::Index(_) => bail!("the indexes of the layout lead nowhere"),
    }
}

fn blob(directory: &Path, descriptor: &Descriptor) -> PathBuf {
    directory.join(BLOBS).join(descriptor.digest.hex())
}

/// The bytes of a document, if they are what they should be.
fn document(directory: &Path, descriptor: &Descriptor) -> anyhow::Result<Vec<u8>> {
    let bytes = read(&blob(directory, descriptor))?;
    ensure!(
        Digest::of(&bytes) == descriptor.digest,
        "blob {} of the layout is damaged",
        descriptor.digest
    );
    Ok(bytes)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("cannot open {shown}"))?;
    let mut bytes = Vec::new();
    file.take(LARGEST_DOCUMENT_BYTES + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {shown}"))?;
    ensure!(
        bytes.len() as u64 <= LARGEST_DOCUMENT_BYTES,
        "{shown} is larger than {LARGEST_DOCUMENT_BYTES} bytes"
    );
    Ok(bytes)
}

/// Where a layer lies, if its bytes are what they should be.
fn verified(directory: &Path, layer: &Descriptor) -> anyhow::Result<PathBuf> {
    let path = blob(directory, layer);
    let shown = path.display();
    let mut file = File::open(&path).with_context(|| format!("cannot open {shown}"))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = file
            .read(&mut buffer)
            .with_context(|| format!("cannot read {shown}"))?;
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
            break;
        };
        hash.update(bytes);
    }
    ensure!(
        Digest::from_sha256(hash.finalize().as_slice()) == layer.digest,
        "blob {} of the layout is damaged",
        layer.digest
    );
    Ok(path)
}

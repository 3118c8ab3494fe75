//! Images made from directories, without a container engine: the same files make the same bytes.
//!
//! One layer, entries sorted by name, no owner, no time, modes 0644 and 0755; so the digest tells the content. Content comes in as a
//! list of files, since reading directories is the caller's business.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};

use bytes::Bytes;
use flate2::{Compression, GzBuilder};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::{EntryType, Header};

use crate::oci::digest::Digest;
use crate::oci::manifest::{Descriptor, ImageManifest, IndexManifest, Platform, media_type};

/// The media type of the file that marks an OCI layout.
const LAYOUT_FILE: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;

/// The annotation that names an image in a layout.
const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// An image, or an index of images for several platforms, in memory, ready to be pushed or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltImage {
    /// What the manifest is: [`media_type::OCI_MANIFEST`], [`media_type::OCI_INDEX`] or what a layout says.
    pub media_type: String,
    /// The manifest as it will be served.
    pub manifest: Bytes,
    /// The digest of the manifest.
    pub digest: Digest,
    /// Configuration and layer, in the order of upload; none in an index.
    pub blobs: Vec<(Descriptor, Bytes)>,
    /// The images of an index, in its order; none in an image.
    pub images: Vec<Self>,
}

/// What an image runs: a static program, since there is nothing else in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its path from the root, without a leading slash; the one file that may be executed.
    pub path: String,
    /// The platform that it was made for.
    pub platform: Platform,
    /// As whom it runs: `UID:GID`, as numbers, since there is no `/etc/passwd`.
    pub user: String,
}

/// An image that cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The archive cannot be written.
    #[error("cannot add {path} to the layer")]
    Layer {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A document cannot be written.
    #[error("cannot write the {what} of the image")]
    Document {
        /// Manifest, configuration, index.
        what: &'static str,
        /// Why.
        source: serde_json::Error,
    },
}

impl BuiltImage {
    /// Builds an image of `files` (by path from the root, `/` between parts) with `labels`.
    ///
    /// # Errors
    /// When a path is too long for an archive.
    pub fn build(
        files: &BTreeMap<String, Vec<u8>>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Self, BuildError> {
        // Catalogs and bundles hold no programs, so the platform says nothing; this one every reader accepts.
        Self::make(
            files,
            None,
            &Platform::new("linux", "amd64"),
            &json!({"Labels": labels}),
        )
    }

    /// Builds an image that runs a program; `files` holds it, at its path.
    ///
    /// # Errors
    /// When a path is too long for an archive.
    pub fn program(
        files: &BTreeMap<String, Vec<u8>>,
        labels: &BTreeMap<String, String>,
        program: &Program,
    ) -> Result<Self, BuildError> {
        let config = json!({
            "User": program.user,
            "Entrypoint": [format!("/{}", program.path)],
            "WorkingDir": "/",
            "Labels": labels,
        });
        Self::make(files, Some(&program.path), &program.platform, &config)
    }

    fn make(
        files: &BTreeMap<String, Vec<u8>>,
        program: Option<&str>,
        platform: &Platform,
        config: &Value,
    ) -> Result<Self, BuildError> {
        let plain = layer(files, program)?;
        let diff_id = Digest::of(&plain);
        let layer = gzip(&plain).map_err(|source| BuildError::Layer {
            path: "the archive".to_owned(),
            source,
        })?;
        let config = json!({
            "architecture": platform.architecture,
            "os": platform.os,
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [diff_id]},
            "history": [{"created_by": "oxolm image build"}],
        });
        let config = Bytes::from(document("configuration", &config)?);
        let config_descriptor = describe(media_type::OCI_CONFIG, &config);
        let layer_descriptor = describe(media_type::OCI_LAYER_GZIP, &layer);
        let manifest = ImageManifest {
            schema_version: 2,
            media_type: Some(media_type::OCI_MANIFEST.to_owned()),
            config: config_descriptor.clone(),
            layers: vec![layer_descriptor.clone()],
        };
        let manifest = Bytes::from(document("manifest", &manifest)?);
        Ok(Self {
            media_type: media_type::OCI_MANIFEST.to_owned(),
            digest: Digest::of(&manifest),
            manifest,
            blobs: vec![(config_descriptor, config), (layer_descriptor, layer)],
            images: Vec::new(),
        })
    }

    /// An index of images, each for another platform.
    ///
    /// # Errors
    /// When the index cannot be written.
    pub fn index(images: Vec<(Platform, Self)>) -> Result<Self, BuildError> {
        let described = images.iter().map(|(platform, image)| Descriptor {
            platform: Some(platform.clone()),
            ..image.descriptor()
        });
        let manifest = index_document(described.collect())?;
        Ok(Self {
            media_type: media_type::OCI_INDEX.to_owned(),
            digest: Digest::of(&manifest),
            manifest,
            blobs: Vec::new(),
            images: images.into_iter().map(|(_, image)| image).collect(),
        })
    }

    /// The files of an [OCI layout](https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md) of this image,
    /// under `name` if there is one.
    ///
    /// # Errors
    /// When the index cannot be written.
    pub fn layout(&self, name: Option<&str>) -> Result<BTreeMap<String, Bytes>, BuildError> {
        let mut described = self.descriptor();
        if self.images.is_empty() {
            described.platform = Some(Platform::new("linux", "amd64"));
        }
        described.annotations =
            name.map(|name| BTreeMap::from([(REF_NAME.to_owned(), name.to_owned())]));
        let index = index_document(vec![described])?;
        let mark = Bytes::from_static(LAYOUT_FILE.as_bytes());
        let mut files = BTreeMap::from([
            ("oci-layout".to_owned(), mark),
            ("index.json".to_owned(), index),
        ]);
        self.put_blobs(&mut files);
        Ok(files)
    }

    fn put_blobs(&self, files: &mut BTreeMap<String, Bytes>) {
        let mut put = |digest: &Digest, bytes: &Bytes| {
            files.insert(format!("blobs/sha256/{}", digest.hex()), bytes.clone());
        };
        put(&self.digest, &self.manifest);
        for (descriptor, bytes) in &self.blobs {
            put(&descriptor.digest, bytes);
        }
        for image in &self.images {
            image.put_blobs(files);
        }
    }

    fn descriptor(&self) -> Descriptor {
        describe(&self.media_type, &self.manifest)
    }
}

fn index_document(manifests: Vec<Descriptor>) -> Result<Bytes, BuildError> {
    let index = IndexManifest {
        schema_version: 2,
        media_type: Some(media_type::OCI_INDEX.to_owned()),
        manifests,
    };
    Ok(Bytes::from(document("index", &index)?))
}

/// An uncompressed tar of `files` as bytes: sorted, without times and owners.
///
/// # Errors
/// When a path is too long for an archive.
pub fn archive(files: &BTreeMap<String, impl AsRef<[u8]>>) -> Result<Vec<u8>, BuildError> {
    layer(files, None)
}

/// The same; `program` is the one file that may be executed.
fn layer(
    files: &BTreeMap<String, impl AsRef<[u8]>>,
    program: Option<&str>,
) -> Result<Vec<u8>, BuildError> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut directories = BTreeSet::new();
    let failed = |path: &str| {
        let path = path.to_owned();
        move |source| BuildError::Layer { path, source }
    };
    for (path, content) in files {
        for (end, _) in path.match_indices('/') {
            let directory = path.get(..=end).unwrap_or_default();
            if directories.insert(directory) {
                let mut header = header(EntryType::Directory, 0o755, 0);
                archive
                    .append_data(&mut header, directory, io::empty())
                    .map_err(failed(directory))?;
            }
        }
        let content = content.as_ref();
        let mode = if Some(path.as_str()) == program {
            0o755
        } else {
            0o644
        };
        let mut header = header(EntryType::Regular, mode, content.len() as u64);
        archive
            .append_data(&mut header, path, content)
            .map_err(failed(path))?;
    }
    archive.into_inner().map_err(failed("the end"))
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    header
}

fn gzip(plain: &[u8]) -> io::Result<Bytes> {
    let mut encoder = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::default());
    encoder.write_all(plain)?;
    Ok(Bytes::from(encoder.finish()?))
}

fn describe(media_type: &str, bytes: &Bytes) -> Descriptor {
    Descriptor {
        media_type: media_type.to_owned(),
        digest: Digest::from_sha256(Sha256::digest(bytes).as_slice()),
        size: bytes.len() as u64,
        platform: None,
        annotations: None,
    }
}

fn document(what: &'static str, value: &impl Serialize) -> Result<Vec<u8>, BuildError> {
    serde_json::to_vec(value).map_err(|source| BuildError::Document { what, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> BTreeMap<String, Vec<u8>> {
        let long = format!("configs/{}/x.yaml", "d".repeat(120));
        [
            ("configs/b.yaml", "b"),
            ("configs/a/a.yaml", "a"),
            (long.as_str(), "l"),
        ]
        .map(|(path, content)| (path.to_owned(), content.as_bytes().to_vec()))
        .into()
    }

    #[test]
    fn the_same_files_make_the_same_image() {
        let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let image = BuiltImage::build(&files(), &labels).unwrap();
        assert_eq!(image, BuiltImage::build(&files(), &labels).unwrap());
        assert_ne!(
            image.digest,
            BuiltImage::build(&files(), &BTreeMap::new())
                .unwrap()
                .digest
        );
    }

    fn program() -> BuiltImage {
        let files = BTreeMap::from([
            ("etc/ssl/ca.crt".to_owned(), b"ca".to_vec()),
            ("app".to_owned(), b"program".to_vec()),
        ]);
        let program = Program {
            path: "app".to_owned(),
            platform: Platform::new("linux", "arm64"),
            user: "65532:65532".to_owned(),
        };
        BuiltImage::program(&files, &BTreeMap::new(), &program).unwrap()
    }

    #[test]
    fn a_program_may_be_executed_and_is_for_its_platform() {
        let image = program();
        let config: Value = serde_json::from_slice(&image.blobs[0].1).unwrap();
        assert_eq!(config["architecture"], "arm64");
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Entrypoint"], json!(["/app"]));
        let plain = flate2::read::GzDecoder::new(&image.blobs[1].1[..]);
        let mut archive = tar::Archive::new(plain);
        let mut modes = BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            modes.insert(path, entry.header().mode().unwrap());
        }
        assert_eq!((modes["app"], modes["etc/ssl/ca.crt"]), (0o755, 0o644));
    }

    #[test]
    fn an_index_names_its_images_by_platform() {
        let image = program();
        let platform = Platform::new("linux", "arm64");
        let index = BuiltImage::index(vec![(platform.clone(), image.clone())]).unwrap();
        let read: IndexManifest = serde_json::from_slice(&index.manifest).unwrap();
        assert_eq!(read.manifests[0].platform, Some(platform));
        assert_eq!(read.manifests[0].digest, image.digest);
        let layout = index.layout(None).unwrap();
        // Its mark, its index, the index of platforms, a manifest, a configuration, a layer.
        assert_eq!(layout.len(), 6);
        let top: IndexManifest = serde_json::from_slice(&layout["index.json"]).unwrap();
        assert_eq!(top.manifests[0].media_type, media_type::OCI_INDEX);
        assert_eq!(top.manifests[0].digest, index.digest);
    }

    #[test]
    fn entries_are_sorted_and_bare() {
        let bytes = archive(&files()).unwrap();
        let mut archive = tar::Archive::new(&bytes[..]);
        let mut names = Vec::new();
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            let owner = (
                header.uid().unwrap(),
                header.gid().unwrap(),
                header.mtime().unwrap(),
            );
            assert_eq!(owner, (0, 0, 0));
            names.push(entry.path().unwrap().display().to_string());
        }
        let long = format!("configs/{}/", "d".repeat(120));
        let expected = [
            "configs/",
            "configs/a/",
            "configs/a/a.yaml",
            "configs/b.yaml",
            &long,
            &format!("{long}x.yaml"),
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_layout_names_the_image_by_digest() {
        let image = BuiltImage::build(&files(), &BTreeMap::new()).unwrap();
        let layout = image.layout(Some("v1")).unwrap();
        assert_eq!(layout.len(), 5);
        let index: IndexManifest = serde_json::from_slice(&layout["index.json"]).unwrap();
        let described = &index.manifests[0];
        assert_eq!(described.digest, image.digest);
        assert_eq!(described.annotations.as_ref().unwrap()[REF_NAME], "v1");
        assert_eq!(
            layout[&format!("blobs/sha256/{}", image.digest.hex())],
            image.manifest
        );
    }
}

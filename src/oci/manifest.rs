//! Manifests as registries serve them: OCI and Docker schema 2, images and indexes, and the choice of a platform.
//!
//! Follows the [OCI image spec 1.1](https://github.com/opencontainers/image-spec/blob/v1.1.0/manifest.md). Docker's schema 1
//! is refused: it has no digest of its configuration, so nothing in it can be verified the same way.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::digest::Digest;

/// Media types of manifests and of what they name.
pub mod media_type {
    /// An image of the OCI.
    pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    /// Images of the OCI for several platforms.
    pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
    /// An image of Docker, schema 2.
    pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
    /// Images of Docker for several platforms.
    pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
    /// The configuration of an OCI image.
    pub const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
    /// The configuration of a Docker image.
    pub const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
    /// A gzipped layer of the OCI.
    pub const OCI_LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
    /// What to accept when a manifest is asked for.
    pub const MANIFESTS: [&str; 4] = [OCI_MANIFEST, OCI_INDEX, DOCKER_MANIFEST, DOCKER_LIST];
    /// The beginning of Docker's schema 1 types, plain and signed.
    pub const DOCKER_SCHEMA_1: &str = "application/vnd.docker.distribution.manifest.v1+";
}

/// A blob or a manifest, by digest and size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What the bytes are.
    pub media_type: String,
    /// The digest of the bytes.
    pub digest: Digest,
    /// The number of bytes.
    pub size: u64,
    /// For which platform, in an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Free text about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// An operating system and a processor, in the words of Go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// `linux`, …
    pub os: String,
    /// `amd64`, `arm64`, …
    pub architecture: String,
    /// A variant of the architecture: `v8`, …
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
}

/// A manifest of either kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Manifest {
    /// One image.
    Image(ImageManifest),
    /// One image per platform.
    Index(IndexManifest),
}

/// One image: its configuration and its layers, lowest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageManifest {
    /// Always 2.
    pub schema_version: u32,
    /// The type of this document; older OCI manifests leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Labels and more.
    pub config: Descriptor,
    /// The file system, lowest layer first.
    pub layers: Vec<Descriptor>,
}

/// Images for several platforms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexManifest {
    /// Always 2.
    pub schema_version: u32,
    /// The type of this document; older OCI indexes leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// One per platform.
    pub manifests: Vec<Descriptor>,
}

/// The part of an image's configuration that oxolm reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct ImageConfig {
    #[serde(default)]
    config: Option<ContainerConfig>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct ContainerConfig {
    #[serde(default, rename = "Labels")]
    labels: Option<BTreeMap<String, String>>,
}

/// A manifest or configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The document is not JSON, or lacks what its type demands.
    #[error("malformed {what}")]
    Malformed {
        /// Manifest, index, configuration.
        what: &'static str,
        /// Where and why.
        source: serde_json::Error,
    },
    /// Docker's schema 1.
    #[error(
        "Docker image manifest version 2 schema 1 is not supported: push the image again with a current tool"
    )]
    Schema1,
    /// The document says that it is something else, or two things at once.
    #[error("unsupported manifest type {0:?}")]
    MediaType(String),
    /// A manifest, but not of an image that can be unpacked.
    #[error("unsupported for artifact: configuration type {0:?} is not that of a container image")]
    Artifact(String),
    /// The index has no image for the wanted platform.
    #[error("no image found in image index for {wanted}: it has {offered}")]
    NoPlatform {
        /// What was looked for.
        wanted: Platform,
        /// What is there.
        offered: String,
    },
}

impl Platform {
    /// A platform without variant.
    pub fn new(os: &str, architecture: &str) -> Self {
        Self {
            os: os.to_owned(),
            architecture: architecture.to_owned(),
            variant: String::new(),
        }
    }

    /// The platform of these names of Rust (`std::env::consts`), in the words of Go.
    pub fn of_rust(os: &str, arch: &str) -> Self {
        let architecture = match arch {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "x86" => "386",
            "powerpc64" => "ppc64le",
            other => other,
        };
        Self::new(if os == "macos" { "darwin" } else { os }, architecture)
    }

    /// The variants that run on this platform, best first; the empty one says nothing about itself.
    fn variants(&self) -> Vec<&str> {
        if !self.variant.is_empty() {
            return vec![&self.variant, ""];
        }
        match self.architecture.as_str() {
            "amd64" => vec!["", "v1"],
            "arm64" => vec!["", "v8"],
            "arm" => vec!["", "v7", "v6", "v5"],
            _ => vec![""],
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        if !self.variant.is_empty() {
            write!(f, "/{}", self.variant)?;
        }
        Ok(())
    }
}

impl Manifest {
    /// Parses a manifest. `content_type` is what the registry calls it; the document's own word weighs more.
    ///
    /// # Errors
    /// When it is not an image or index of a supported schema, or claims to be both.
    pub fn parse(bytes: &[u8], content_type: Option<&str>) -> Result<Self, ManifestError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Shape {
            #[serde(default)]
            schema_version: u32,
            #[serde(default)]
            media_type: Option<String>,
            #[serde(default)]
            config: Option<serde::de::IgnoredAny>,
            #[serde(default)]
            layers: Option<serde::de::IgnoredAny>,
            #[serde(default)]
            manifests: Option<serde::de::IgnoredAny>,
        }
        let malformed = |what| move |source| ManifestError::Malformed { what, source };
        let shape: Shape = serde_json::from_slice(bytes).map_err(malformed("manifest"))?;
        let content_type = content_type
            .map(|value| value.split(';').next().unwrap_or_default().trim())
            .filter(|value| value.starts_with("application/vnd."));
        let declared = shape.media_type.as_deref().or(content_type);
        if shape.schema_version == 1
            || declared.is_some_and(|t| t.starts_with(media_type::DOCKER_SCHEMA_1))
        {
            return Err(ManifestError::Schema1);
        }
        let is_index = match declared {
            Some(media_type::OCI_MANIFEST | media_type::DOCKER_MANIFEST) => false,
            Some(media_type::OCI_INDEX | media_type::DOCKER_LIST) => true,
            Some(other) => return Err(ManifestError::MediaType(other.to_owned())),
            None => shape.manifests.is_some(),
        };
        // A document that reads as either kind could mean one thing here and another elsewhere.
        let is_both =
            shape.manifests.is_some() && (shape.config.is_some() || shape.layers.is_some());
        if is_both {
            return Err(ManifestError::MediaType(
                "image and index at once".to_owned(),
            ));
        }
        if is_index {
            let index = serde_json::from_slice(bytes).map_err(malformed("image index"))?;
            Ok(Self::Index(index))
        } else {
            let image = serde_json::from_slice(bytes).map_err(malformed("image manifest"))?;
            Ok(Self::Image(image))
        }
    }
}

impl ImageManifest {
    /// Checks that this is a container image, not another artifact in the shape of one.
    ///
    /// # Errors
    /// When the configuration has another type.
    pub fn check_is_image(&self) -> Result<(), ManifestError> {
        match self.config.media_type.as_str() {
            media_type::OCI_CONFIG | media_type::DOCKER_CONFIG => Ok(()),
            other => Err(ManifestError::Artifact(other.to_owned())),
        }
    }
}

impl IndexManifest {
    /// The image for `platform`: the best variant, and of equals the first.
    ///
    /// # Errors
    /// When there is none.
    pub fn choose(&self, platform: &Platform) -> Result<&Descriptor, ManifestError> {
        let found = platform.variants().into_iter().find_map(|variant| {
            self.manifests.iter().find(|descriptor| {
                descriptor.platform.as_ref().is_some_and(|offered| {
                    offered.os == platform.os
                        && offered.architecture == platform.architecture
                        && offered.variant == variant
                })
            })
        });
        found.ok_or_else(|| {
            let offered: Vec<_> = self
                .manifests
                .iter()
                .filter_map(|descriptor| descriptor.platform.as_ref().map(ToString::to_string))
                .collect();
            ManifestError::NoPlatform {
                wanted: platform.clone(),
                offered: if offered.is_empty() {
                    "none".to_owned()
                } else {
                    offered.join(", ")
                },
            }
        })
    }
}

/// The labels of an image, read from its configuration.
///
/// # Errors
/// When the configuration is not the JSON that it should be.
pub fn labels(config: &[u8]) -> Result<BTreeMap<String, String>, ManifestError> {
    let config: ImageConfig =
        serde_json::from_slice(config).map_err(|source| ManifestError::Malformed {
            what: "image configuration",
            source,
        })?;
    Ok(config.config.and_then(|c| c.labels).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testing::mutation::{edits, mutated};

    fn descriptor(platform: Option<(&str, &str, &str)>) -> serde_json::Value {
        let mut value = json!({
            "mediaType": media_type::OCI_MANIFEST,
            "digest": Digest::of(b"x").as_str(),
            "size": 1,
        });
        if let Some((os, architecture, variant)) = platform {
            value["platform"] = json!({"os": os, "architecture": architecture, "variant": variant});
        }
        value
    }

    fn parse(value: &serde_json::Value, content_type: Option<&str>) -> Result<Manifest, String> {
        Manifest::parse(value.to_string().as_bytes(), content_type).map_err(|e| e.to_string())
    }

    #[test]
    fn kinds_are_told_by_word_then_by_header_then_by_shape() {
        let image = json!({"schemaVersion": 2, "config": descriptor(None), "layers": []});
        let index = json!({"schemaVersion": 2, "manifests": [descriptor(None)]});
        assert!(matches!(parse(&image, None), Ok(Manifest::Image(_))));
        assert!(matches!(parse(&index, None), Ok(Manifest::Index(_))));
        assert!(matches!(
            parse(&index, Some("application/json")),
            Ok(Manifest::Index(_))
        ));
        for t in [media_type::OCI_INDEX, media_type::DOCKER_LIST] {
            assert!(matches!(parse(&index, Some(t)), Ok(Manifest::Index(_))));
            assert!(parse(&image, Some(t)).is_err());
        }
        let with_charset = format!("{}; charset=utf-8", media_type::DOCKER_MANIFEST);
        assert!(matches!(
            parse(&image, Some(&with_charset)),
            Ok(Manifest::Image(_))
        ));
    }

    #[test]
    fn what_cannot_be_used_is_refused_by_name() {
        for (value, content_type, expected) in [
            (
                json!({"schemaVersion": 1}),
                None,
                "schema 1 is not supported",
            ),
            (
                json!({"schemaVersion": 2}),
                Some("application/vnd.docker.distribution.manifest.v1+prettyjws"),
                "schema 1 is not supported",
            ),
            (json!("x"), None, "malformed manifest"),
            (
                json!({"schemaVersion": 2}),
                None,
                "malformed image manifest",
            ),
            (
                json!({"schemaVersion": 2, "mediaType": "x/y"}),
                None,
                "unsupported manifest type \"x/y\"",
            ),
            (
                json!({"schemaVersion": 2, "config": descriptor(None), "layers": [], "manifests": []}),
                None,
                "image and index at once",
            ),
        ] {
            let error = parse(&value, content_type).unwrap_err();
            assert!(error.contains(expected), "{value}: {error}");
        }
    }

    #[test]
    fn artifacts_are_not_images() {
        let mut config = descriptor(None);
        config["mediaType"] = json!("application/vnd.cncf.helm.config.v1+json");
        let value = json!({"schemaVersion": 2, "config": config, "layers": []});
        let Ok(Manifest::Image(image)) = parse(&value, None) else {
            panic!("not an image")
        };
        assert!(
            image
                .check_is_image()
                .unwrap_err()
                .to_string()
                .contains("unsupported for artifact")
        );
    }

    #[test]
    fn the_best_variant_wins_then_the_first() {
        let index = |platforms: &[Option<(&str, &str, &str)>]| {
            let mut manifests: Vec<_> = platforms.iter().map(|p| descriptor(*p)).collect();
            for (size, manifest) in manifests.iter_mut().enumerate() {
                manifest["size"] = json!(size);
            }
            let value = json!({"schemaVersion": 2, "manifests": manifests});
            serde_json::from_value::<IndexManifest>(value).unwrap()
        };
        let linux = |a| Platform::new("linux", a);
        let amd = Some(("linux", "amd64", ""));
        for (platforms, wanted, expected) in [
            (
                vec![Some(("linux", "arm64", "v8")), amd, amd],
                linux("amd64"),
                Some(1),
            ),
            (
                vec![None, Some(("linux", "arm64", "v8"))],
                linux("arm64"),
                Some(1),
            ),
            (
                vec![Some(("linux", "arm64", "v8")), Some(("linux", "arm64", ""))],
                linux("arm64"),
                Some(1),
            ),
            (vec![Some(("windows", "amd64", ""))], linux("amd64"), None),
            (vec![Some(("linux", "amd64", "v3"))], linux("amd64"), None),
            (vec![None], linux("amd64"), None),
        ] {
            let index = index(&platforms);
            let found = index.choose(&wanted).map(|d| d.size);
            assert_eq!(found.as_ref().ok().copied(), expected, "{platforms:?}");
            if let Err(error) = found {
                assert!(
                    error
                        .to_string()
                        .contains("no image found in image index for linux/amd64")
                );
            }
        }
    }

    #[test]
    fn labels_may_be_absent_at_every_level() {
        for config in [
            "{}",
            r#"{"config":null}"#,
            r#"{"config":{}}"#,
            r#"{"config":{"Labels":null}}"#,
        ] {
            assert_eq!(labels(config.as_bytes()).unwrap(), BTreeMap::new());
        }
        assert_eq!(
            labels(br#"{"config":{"Labels":{"a":"b"}}}"#).unwrap()["a"],
            "b"
        );
        assert!(labels(b"[").is_err());
    }

    #[test]
    fn platforms_of_rust_are_named_as_go_does() {
        assert_eq!(
            Platform::of_rust("linux", "x86_64").to_string(),
            "linux/amd64"
        );
        assert_eq!(
            Platform::of_rust("linux", "aarch64").to_string(),
            "linux/arm64"
        );
        assert_eq!(
            Platform::of_rust("macos", "s390x").to_string(),
            "darwin/s390x"
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            // Only the absence of a panic matters here.
            _ = Manifest::parse(&bytes, None);
            _ = labels(&bytes);
        }

        #[test]
        fn mutated_documents_never_panic(edits in edits(), is_index in any::<bool>()) {
            let digest = Digest::of(b"");
            let one = format!(
                r#"{{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"{digest}","size":5,
                "platform":{{"os":"linux","architecture":"arm","variant":"v7"}}}}"#
            );
            let text = if is_index {
                format!(r#"{{"schemaVersion":2,"mediaType":"{}","manifests":[{one},{one}]}}"#, media_type::OCI_INDEX)
            } else {
                format!(r#"{{"schemaVersion":2,"mediaType":"{}","config":{one},"layers":[{one}]}}"#, media_type::OCI_MANIFEST)
            };
            let bytes = mutated(text.as_bytes(), &edits);
            match Manifest::parse(&bytes, None) {
                // Only the absence of a panic matters here.
                Ok(Manifest::Index(index)) => _ = index.choose(&Platform::new("linux", "arm64")),
                Ok(Manifest::Image(image)) => _ = image.check_is_image(),
                Err(error) => prop_assert!(error.to_string().len() < 1000),
            }
            let config = br#"{"os":"linux","config":{"Labels":{"a":"b","c":null}},"rootfs":{"diff_ids":[]}}"#;
            _ = labels(&mutated(config, &edits));
        }
    }
}

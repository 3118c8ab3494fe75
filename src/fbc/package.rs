//! What resolution needs of one package: versions, edges, channels, deprecations, properties. Never the whole blobs.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::meta::Meta;
use super::typed::{self, Mistyped, Object};

/// One package of one catalog, as far as resolution and people ask about it.
///
/// Channels, entries, bundles and deprecations stand in the order of the blobs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PackageContents {
    /// The package's name.
    pub name: String,
    /// `defaultChannel` of the `olm.package` blob; never consulted by resolution.
    pub default_channel: Option<String>,
    /// The `olm.channel` blobs.
    pub channels: Vec<Channel>,
    /// The `olm.bundle` blobs.
    pub bundles: Vec<Bundle>,
    /// The entries of the first `olm.deprecations` blob, in its order.
    pub deprecations: Vec<Deprecation>,
}

/// An `olm.channel` blob.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Channel {
    /// The channel's name.
    pub name: String,
    /// Its entries.
    pub entries: Vec<ChannelEntry>,
}

/// One entry of a channel: a bundle's name and the edges that lead to it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChannelEntry {
    /// The bundle's name.
    pub name: String,
    /// The bundle that it replaces.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub replaces: String,
    /// Bundles that may be skipped over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<String>,
    /// A range in language B of versions that may upgrade to it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub skip_range: String,
}

/// An `olm.bundle` blob.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Bundle {
    /// The bundle's name.
    pub name: String,
    /// The image reference.
    pub image: String,
    /// The value of the first `olm.package` property as written, absent when there is none.
    pub package_property: Option<serde_json::Value>,
    /// The types of all properties, in order (resolution refuses some).
    pub property_types: Vec<String>,
}

/// One entry of an `olm.deprecations` blob.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deprecation {
    /// What is deprecated: `olm.package`, `olm.channel` or `olm.bundle`.
    pub schema: String,
    /// The channel's or bundle's name; empty for the package.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The catalog's own message.
    #[serde(default)]
    pub message: String,
}

/// Why a package cannot be read. Other packages of the catalog are not affected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackageError {
    /// A blob of the package has no schema.
    #[error("a blob of package {package:?} has no schema")]
    MissingSchema {
        /// The package.
        package: String,
    },
    /// A blob does not have the form that its schema demands.
    #[error("{schema} {name:?} of package {package:?}: {problem}")]
    Mistyped {
        /// The package.
        package: String,
        /// The blob's schema.
        schema: String,
        /// The blob's name.
        name: String,
        /// What must be different.
        problem: String,
    },
}

/// The packages of a catalog, gathered blob by blob.
///
/// As in the reference, a package consists of the blobs that name it in `package` and of the `olm.package`
/// blob of its name; of blobs equal in schema and name the last one counts.
#[derive(Debug, Default)]
pub struct Packages {
    drafts: BTreeMap<String, Draft>,
}

#[derive(Debug, Default)]
struct Draft {
    default_channel: Option<String>,
    channels: IndexMap<String, Channel>,
    bundles: IndexMap<String, Bundle>,
    /// Deprecations by the name of their blob.
    deprecations: BTreeMap<String, Vec<Deprecation>>,
    /// By schema and name of the blob: one that is replaced by a sound one does no harm.
    errors: BTreeMap<(String, String), PackageError>,
}

impl Packages {
    /// Takes a blob into account.
    pub fn add(&mut self, meta: &Meta) {
        let package = meta.package_name();
        if package.is_empty() {
            return;
        }
        let draft = self.drafts.entry(package.to_owned()).or_default();
        let key = (meta.schema.clone(), meta.name.clone());
        draft.errors.remove(&key);
        if let Err(error) = draft.add(meta) {
            draft.errors.insert(key, error);
        }
    }

    /// The packages by name, or why one cannot be read.
    pub fn finish(self) -> BTreeMap<String, Result<PackageContents, PackageError>> {
        self.drafts
            .into_iter()
            .map(|(name, draft)| {
                let read = draft.finish(&name);
                (name, read)
            })
            .collect()
    }
}

impl Draft {
    fn add(&mut self, meta: &Meta) -> Result<(), PackageError> {
        let mistyped = |problem: Mistyped| PackageError::Mistyped {
            package: meta.package_name().to_owned(),
            schema: meta.schema.clone(),
            name: meta.name.clone(),
            problem: problem.to_string(),
        };
        match meta.schema.as_str() {
            "" => {
                return Err(PackageError::MissingSchema {
                    package: meta.package_name().to_owned(),
                });
            }
            Meta::PACKAGE => {
                self.default_channel = default_channel(meta).map_err(mistyped)?;
            }
            Meta::CHANNEL => {
                let channel = channel(meta).map_err(mistyped)?;
                self.channels.insert(channel.name.clone(), channel);
            }
            Meta::BUNDLE => {
                let bundle = bundle(meta).map_err(mistyped)?;
                self.bundles.insert(bundle.name.clone(), bundle);
            }
            Meta::DEPRECATIONS => {
                let entries = deprecations(meta).map_err(mistyped)?;
                self.deprecations.insert(meta.name.clone(), entries);
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(self, name: &str) -> Result<PackageContents, PackageError> {
        if let Some((_, error)) = self.errors.into_iter().next() {
            return Err(error);
        }
        Ok(PackageContents {
            name: name.to_owned(),
            default_channel: self.default_channel,
            channels: self.channels.into_values().collect(),
            bundles: self.bundles.into_values().collect(),
            deprecations: self.deprecations.into_values().next().unwrap_or_default(),
        })
    }
}

pub(super) fn default_channel(meta: &Meta) -> Result<Option<String>, Mistyped> {
    let package = Object::of_blob(meta);
    if let Some(icon) = package.value("icon") {
        let icon = Object::of(icon, "icon")?;
        icon.check_base64("base64data")?;
        icon.text("mediatype")?;
    }
    package.text("description")?;
    properties(&package)?;
    let channel = package.text("defaultChannel")?;
    Ok(Some(channel).filter(|channel| !channel.is_empty()))
}

pub(super) fn channel(meta: &Meta) -> Result<Channel, Mistyped> {
    let channel = Object::of_blob(meta);
    properties(&channel)?;
    let entries = channel.objects("entries")?.into_iter().map(|entry| {
        Ok(ChannelEntry {
            name: entry.text("name")?,
            replaces: entry.text("replaces")?,
            skips: entry.texts("skips")?,
            skip_range: entry.text("skipRange")?,
        })
    });
    Ok(Channel {
        name: meta.name.clone(),
        entries: entries.collect::<Result<_, _>>()?,
    })
}

pub(super) fn bundle(meta: &Meta) -> Result<Bundle, Mistyped> {
    let bundle = Object::of_blob(meta);
    for image in bundle.objects("relatedImages")? {
        image.text("name")?;
        image.text("image")?;
    }
    let properties = properties(&bundle)?;
    let package_property = properties
        .iter()
        .find(|(kind, _)| kind == Meta::PACKAGE)
        .map(|(_, value)| typed::any(value))
        .transpose()?;
    for (kind, value) in &properties {
        if kind == "olm.bundle.object" {
            Object::of(value, "value")?.check_base64("data")?;
        }
    }
    Ok(Bundle {
        name: meta.name.clone(),
        image: bundle.text("image")?,
        package_property,
        property_types: properties.into_iter().map(|(kind, _)| kind).collect(),
    })
}

/// The images that a bundle's blob names: its own, and those that it relates to. What is no text is left out: see
/// [`super::validate`].
pub fn images(meta: &Meta) -> Vec<String> {
    let bundle = Object::of_blob(meta);
    let related = bundle.objects("relatedImages").unwrap_or_default();
    let related = related.iter().filter_map(|image| image.text("image").ok());
    let own = bundle.text("image").ok().into_iter();
    own.chain(related)
        .filter(|image| !image.is_empty())
        .collect()
}

/// Type and value of each property.
pub(super) fn properties<'a>(object: &Object<'a>) -> Result<Vec<(String, &'a [u8])>, Mistyped> {
    let property = |property: Object<'a>| {
        let value = property.value("value").ok_or(Mistyped {
            field: "properties",
            wanted: "a list of types with values",
        })?;
        Ok((property.text("type")?, value))
    };
    object
        .objects("properties")?
        .into_iter()
        .map(property)
        .collect()
}

pub(super) fn deprecations(meta: &Meta) -> Result<Vec<Deprecation>, Mistyped> {
    let deprecations = Object::of_blob(meta);
    let entry = |entry: Object<'_>| {
        let reference = Object::of(entry.value("reference").unwrap_or(b"null"), "reference")?;
        Ok(Deprecation {
            schema: reference.text("schema")?,
            name: reference.text("name")?,
            message: entry.text("message")?,
        })
    };
    deprecations
        .objects("entries")?
        .into_iter()
        .map(entry)
        .collect()
}

#[cfg(test)]
mod tests;

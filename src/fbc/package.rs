//! What resolution needs of one package: versions, edges, channels, deprecations, properties. Never the whole blobs.

use serde::{Deserialize, Serialize};

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

//! `ClusterCatalog`: an image with file-based catalogs that is kept unpacked and served.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The content that is wanted and how it is offered.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "olm.operatorframework.io",
    version = "v1",
    kind = "ClusterCatalog",
    status = "ClusterCatalogStatus",
    derive = "PartialEq",
    doc = "ClusterCatalog makes the content of a catalog image (file-based catalogs) available to every ClusterExtension of the cluster, and to people over HTTPS."
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCatalogSpec {
    /// Where the content of the catalog comes from.
    ///
    /// Example:
    ///
    /// ```yaml
    /// source:
    ///   type: Image
    ///   image:
    ///     ref: quay.io/operatorhubio/catalog:latest
    ///     pollIntervalMinutes: 10
    /// ```
    pub source: CatalogSource,

    /// Decides between catalogs that both hold the best bundle for a `ClusterExtension`: the catalog with the
    /// larger number wins. Between equal numbers there is no winner, and the `ClusterExtension` has to choose with
    /// a selector.
    ///
    /// Defaults to 0, and may be negative.
    #[serde(default)]
    pub priority: i32,

    /// Whether the content is offered at all. With `"Available"` (the default) it is unpacked, served and used.
    /// With `"Unavailable"` it is removed from disk and no longer used, while the `ClusterCatalog` stays, so that it
    /// can be switched on again.
    #[serde(default)]
    pub availability_mode: AvailabilityMode,
}

/// A union, told apart by `type`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogSource {
    /// The kind of source. `"Image"` is the only one: the content is an image in a registry, and the field `"image"`
    /// is required.
    #[serde(rename = "type")]
    pub source_type: SourceType,

    /// The image with the content. Required when type is `"Image"`, and forbidden otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSource>,
}

/// Where catalog content comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum SourceType {
    /// An image in a registry.
    #[default]
    Image,
}

/// An image, followed by tag or fixed by digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageSource {
    /// The reference of the image: registry, repository, and a tag or a digest, at most 1000 characters. The
    /// name must be complete (docker.io/library/busybox:1, not busybox:1).
    ///
    /// Examples: quay.io/operatorhubio/catalog:latest, or
    /// `quay.io/operatorhubio/catalog@sha256:<64 hexadecimal digits>`.
    #[serde(rename = "ref")]
    pub reference: String,

    /// How often, in minutes, the tag is looked up again for new content, at least 1. Without it the tag is
    /// looked up only when the spec changes. Not allowed together with a digest, which never changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_interval_minutes: Option<i64>,
}

/// Whether a catalog's content is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum AvailabilityMode {
    /// The content is unpacked, served and used.
    #[default]
    Available,
    /// The content is removed and not used.
    Unavailable,
}

impl AvailabilityMode {
    /// The value on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Available => "Available",
            Self::Unavailable => "Unavailable",
        }
    }
}

/// What is observed of the content.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCatalogStatus {
    /// The generation of the spec that the status as a whole was last computed for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The state of the catalog.
    ///
    /// `"Serving"` is True while the content is served and usable. `"Progressing"` tells whether the wanted content
    /// is in place (reason Succeeded), is being retried (Retrying) or cannot be had without a change of the spec
    /// (Blocked). `"Ready"`, `"Reconciling"` and `"Stalled"` say the same in the terms of kstatus.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,

    /// The content that is in place, by digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_source: Option<ResolvedCatalogSource>,

    /// Where the content is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urls: Option<ClusterCatalogUrls>,

    /// When the content that is in place was unpacked. It does not change while the content stays the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_unpacked: Option<Time>,
}

/// A union, told apart by `type`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResolvedCatalogSource {
    /// The kind of source, as in the spec.
    #[serde(rename = "type")]
    pub source_type: SourceType,

    /// The image that the content came from. Required when type is `"Image"`, and forbidden otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ResolvedImageSource>,
}

/// An image by digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResolvedImageSource {
    /// The reference with the digest of the image (of its index, where it is made for several platforms).
    #[serde(rename = "ref")]
    pub reference: String,
}

/// Where the content is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterCatalogUrls {
    /// The address below which the content is served, to be taken as it is: append `"/api/v1/all"` for everything,
    /// or `"/api/v1/metas"` with a query.
    pub base: String,
}

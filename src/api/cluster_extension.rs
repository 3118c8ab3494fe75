//! `ClusterExtension`: a package that shall be installed, and how it may be upgraded.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The package that is wanted, from where, and as whom.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "olm.operatorframework.io",
    version = "v1",
    kind = "ClusterExtension",
    status = "ClusterExtensionStatus",
    derive = "PartialEq",
    doc = "ClusterExtension installs a package (an operator) from a ClusterCatalog, keeps what it installed as it should be, and upgrades it."
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterExtensionSpec {
    /// The namespace of the service account, and the namespace that the namespaced objects of the package are
    /// installed in. It must exist; it is neither created nor deleted. It cannot be changed.
    ///
    /// A DNS-1123 label: at most 63 lower-case letters, digits and hyphens, beginning and ending with a letter or
    /// digit.
    pub namespace: String,

    /// The service account in `"namespace"` with whose permissions everything of this `ClusterExtension` is created,
    /// changed and deleted. Whoever sets it must be allowed to impersonate it. Once set it cannot be changed.
    ///
    /// Without it the default account that oxolm was started with is used, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountReference>,

    /// Where the package comes from.
    ///
    /// Example:
    ///
    /// ```yaml
    /// source:
    ///   sourceType: Catalog
    ///   catalog:
    ///     packageName: example-operator
    ///     version: 1.x
    /// ```
    pub source: SourceConfig,

    /// How the package is checked before it is installed or upgraded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<ClusterExtensionInstallConfig>,

    /// The configuration of the package itself. What is allowed in it depends on the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<ClusterExtensionConfig>,

    /// How long, in minutes from 10 to 720, a new revision may take to become available before Progressing turns
    /// False with reason `ProgressDeadlineExceeded`. Without it there is no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_deadline_minutes: Option<i32>,
}

/// A service account in the namespace of the extension.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceAccountReference {
    /// The name of the service account. Once set it cannot be changed.
    ///
    /// A DNS-1123 subdomain, at most 253 characters.
    pub name: String,
}

/// A union, told apart by `sourceType`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceConfig {
    /// The kind of source. `"Catalog"` is the only one: the package is looked up in the `ClusterCatalog`s, and the
    /// field `"catalog"` is required.
    pub source_type: SourceType,

    /// What is looked up in the `ClusterCatalog`s. Required when `sourceType` is `"Catalog"`, and forbidden otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<CatalogFilter>,
}

/// Where a package comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum SourceType {
    /// The `ClusterCatalog`s.
    #[default]
    Catalog,
}

/// Which bundles of which catalogs are acceptable.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogFilter {
    /// The name of the package. It cannot be changed.
    ///
    /// A DNS-1123 subdomain, at most 253 characters.
    pub package_name: String,

    /// The versions that are acceptable, at most 64 characters. Without it every version is.
    ///
    /// A version (1.2.3) pins. Operators =, !=, >, <, >=, <=, ~ (patch releases) and ^ (minor and patch
    /// releases), wildcards (1.x, 1.2.*) and hyphen ranges (1.0.0 - 2.0.0) may be combined: a space or comma
    /// means `"and"`, || means `"or"`. Pre-releases are matched only by a comparison that names one (>=1.0.0-0).
    ///
    /// Examples: ">=1.2.0, <1.3.0", "1.x", "~1.4", "^2 || 1.9.5".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// The channels whose bundles are acceptable, at most 256. Without it the bundles of every channel are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<String>,

    /// Selects `ClusterCatalog`s by their labels. Without it all of them are asked. Each `ClusterCatalog` carries its
    /// own name in the label `olm.operatorframework.io/metadata.name.`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,

    /// Which versions may replace the installed one. `"CatalogProvided"` (the default): only those to which the
    /// package's author has drawn an upgrade edge in the catalog. `"SelfCertified"`: every acceptable one, which
    /// is how a jump over versions or a rollback is forced; whoever sets it vouches that data will survive it.
    #[serde(default)]
    pub upgrade_constraint_policy: UpgradeConstraintPolicy,
}

/// Which versions may replace the installed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum UpgradeConstraintPolicy {
    /// Only successors that the catalog names.
    #[default]
    CatalogProvided,
    /// Any that satisfies the spec.
    SelfCertified,
}

/// How a package is checked before it is installed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ClusterExtensionInstallConfig {
    /// The checks that run before anything is written. Required in `"install"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<PreflightConfig>,
}

/// The checks before anything is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreflightConfig {
    /// The check that an upgrade of a `CustomResourceDefinition` cannot harm existing resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crd_upgrade_safety: Option<CrdUpgradeSafetyConfig>,
}

/// How strict the check of upgraded CRDs is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CrdUpgradeSafetyConfig {
    /// `"Strict"`: an upgrade that could lose data or break clients is refused. `"None"`: the check is skipped. Where
    /// `"install"` is absent the check is strict.
    pub enforcement: CrdUpgradeSafetyEnforcement,
}

/// How strict the check of upgraded CRDs is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum CrdUpgradeSafetyEnforcement {
    /// No check.
    None,
    /// An unsafe upgrade is refused.
    #[default]
    Strict,
}

/// A union, told apart by `configType`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterExtensionConfig {
    /// The kind of configuration. `"Inline"` is the only one: it is written in the field `"inline"`, which is
    /// required.
    pub config_type: ConfigType,

    /// The configuration, an object with at least one field. A bundle in the registry+v1 format knows
    /// `"watchNamespace"` (where it supports more or other than all namespaces) and `"deploymentConfig"`. Required
    /// when `configType` is `"Inline"`, and forbidden otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<serde_json::Map<String, serde_json::Value>>,
}

/// How configuration is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum ConfigType {
    /// In the object itself.
    #[default]
    Inline,
}

/// What is observed of the extension.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterExtensionStatus {
    /// The generation of the spec that the status as a whole was last computed for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The state of the extension.
    ///
    /// `"Installed"` is True once a bundle is installed. `"Progressing"` tells whether the wanted state is reached
    /// (reason Succeeded), on its way (`RollingOut`, Retrying) or impossible without a change (Blocked,
    /// `InvalidConfiguration`, `ProgressDeadlineExceeded`). `"Resolved"` tells whether a bundle could be chosen, and
    /// why not. `"Available"` tells whether the installed objects work. `"Deprecated"`, `"PackageDeprecated"`,
    /// `"ChannelDeprecated"` and `"BundleDeprecated"` carry what the catalog says. `"Warnings"` is present while there
    /// is something to know. `"Ready"`, `"Reconciling"` and `"Stalled"` sum it up in the terms of kstatus.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,

    /// What is installed. Absent while nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<ClusterExtensionInstallStatus>,

    /// The best newer bundle that the selected catalogs hold for this package, but that the spec or the upgrade
    /// edges keep from being installed. Absent while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_update: Option<AvailableUpdate>,

    /// The revisions (`ClusterObjectSet`s) in force: the installed one, then those that are rolling out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub active_revisions: Vec<RevisionStatus>,
}

/// What is installed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterExtensionInstallStatus {
    /// The installed bundle.
    pub bundle: BundleMetadata,

    /// The name of the `ClusterCatalog` that the bundle was taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<String>,
}

/// The identity of a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BundleMetadata {
    /// The name of the bundle.
    pub name: String,

    /// The version of the bundle.
    pub version: String,

    /// The release of the bundle within its version. An empty release is not the same as none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
}

/// A newer bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AvailableUpdate {
    /// The version of the bundle.
    pub version: String,

    /// The name of the bundle.
    pub bundle: String,
}

/// One revision in force.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RevisionStatus {
    /// The name of the `ClusterObjectSet`.
    pub name: String,

    /// `"Available"` and `"Progressing"` of a revision that is rolling out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl ClusterExtensionSpec {
    /// The account that the spec names, if it does.
    pub fn service_account_name(&self) -> Option<&str> {
        self.service_account
            .as_ref()
            .map(|account| account.name.as_str())
    }

    /// How strict the check of upgraded CRDs is: `Strict` unless the spec says otherwise.
    pub fn crd_upgrade_safety(&self) -> CrdUpgradeSafetyEnforcement {
        self.install
            .as_ref()
            .and_then(|install| install.preflight.as_ref())
            .and_then(|preflight| preflight.crd_upgrade_safety.as_ref())
            .map_or(CrdUpgradeSafetyEnforcement::Strict, |check| {
                check.enforcement
            })
    }
}

impl UpgradeConstraintPolicy {
    /// The value on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CatalogProvided => "CatalogProvided",
            Self::SelfCertified => "SelfCertified",
        }
    }
}

impl fmt::Display for UpgradeConstraintPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

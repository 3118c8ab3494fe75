//! The parts of a `ClusterServiceVersion` that rendering and explaining need.
//!
//! It is decoded whole, with the types of the reference ([`super::typed`]), so that a wrong type anywhere is an error;
//! what is applied to a cluster (a Deployment's spec, the rules of a webhook) is kept as the tree that Go would print.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A `ClusterServiceVersion`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClusterServiceVersion {
    /// Its metadata.
    pub metadata: Metadata,
    /// Its spec.
    pub spec: Spec,
}

/// The used part of the metadata.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// The name of the CSV, with which generated RBAC names begin.
    pub name: String,
    /// The annotations, which every pod template inherits.
    pub annotations: BTreeMap<String, String>,
}

/// The used part of the spec.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    /// A name for people.
    pub display_name: String,
    /// The version as a semantic version; `0.0.0` when there is none.
    pub version: String,
    /// The lowest Kubernetes version it runs on, as written; empty when there is none.
    pub min_kube_version: String,
    /// Which namespaces can be watched.
    pub install_modes: Vec<InstallModeSupport>,
    /// What is installed.
    pub install: Install,
    /// The APIs it brings and needs as custom resources.
    #[serde(rename = "customresourcedefinitions")]
    pub custom_resource_definitions: ApiDescriptions,
    /// The APIs it brings and needs as aggregated API servers.
    #[serde(rename = "apiservicedefinitions")]
    pub api_service_definitions: ApiDescriptions,
    /// Its webhooks.
    #[serde(rename = "webhookdefinitions")]
    pub webhook_definitions: Vec<WebhookDefinition>,
    /// Images that are used besides those of the Deployments.
    pub related_images: Vec<RelatedImage>,
}

/// The name of an install mode.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "String")]
pub enum InstallMode {
    /// Watches all namespaces.
    AllNamespaces,
    /// Watches several namespaces.
    MultiNamespace,
    /// Watches the namespace where it is installed.
    OwnNamespace,
    /// Watches one other namespace.
    SingleNamespace,
    /// A word that means nothing; it is kept because messages list it.
    Other(String),
}

impl InstallMode {
    /// The name as the CSV writes it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::AllNamespaces => "AllNamespaces",
            Self::MultiNamespace => "MultiNamespace",
            Self::OwnNamespace => "OwnNamespace",
            Self::SingleNamespace => "SingleNamespace",
            Self::Other(name) => name,
        }
    }
}

impl From<String> for InstallMode {
    fn from(name: String) -> Self {
        match name.as_str() {
            "AllNamespaces" => Self::AllNamespaces,
            "MultiNamespace" => Self::MultiNamespace,
            "OwnNamespace" => Self::OwnNamespace,
            "SingleNamespace" => Self::SingleNamespace,
            _ => Self::Other(name),
        }
    }
}

impl fmt::Display for InstallMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An entry of `installModes`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct InstallModeSupport {
    /// The mode.
    pub r#type: InstallMode,
    /// Whether it is supported.
    pub supported: bool,
}

/// The install strategy. Its name is not looked at.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Install {
    /// What it consists of.
    pub spec: Strategy,
}

/// What the install strategy consists of.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Strategy {
    /// The Deployments.
    pub deployments: Vec<Deployment>,
    /// Rights in the watched namespaces.
    pub permissions: Vec<Permission>,
    /// Rights in the whole cluster.
    pub cluster_permissions: Vec<Permission>,
}

/// A Deployment of the strategy.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Deployment {
    /// Its name.
    pub name: String,
    /// Its spec, as Go prints it.
    pub spec: Map<String, Value>,
    /// Its labels. The key in the CSV is the singular.
    pub label: BTreeMap<String, String>,
}

/// Rights of one service account.
///
/// The order of the fields, and what is printed when absent, enter the names of the generated objects: this is the
/// JSON form that is hashed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Permission {
    /// The service account; empty means `default`.
    pub service_account_name: String,
    /// The rules; absent is not the same as empty.
    pub rules: Option<Vec<PolicyRule>>,
}

impl Permission {
    /// The service account that gets the rights.
    pub fn account(&self) -> &str {
        if self.service_account_name.is_empty() {
            "default"
        } else {
            &self.service_account_name
        }
    }
}

/// A rule of RBAC, fields in the order in which Go prints them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicyRule {
    /// What may be done; absent is not the same as empty.
    pub verbs: Option<Vec<String>>,
    /// API groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// Resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Names of objects; none means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Paths that are no resources.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

/// The APIs that a CSV brings and needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ApiDescriptions {
    /// Those it brings.
    pub owned: Vec<ApiDescription>,
    /// Those it needs.
    pub required: Vec<ApiDescription>,
}

/// One API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ApiDescription {
    /// The name of the custom resource definition, or of the API service's resource.
    pub name: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

/// The type of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "String")]
pub enum WebhookType {
    /// `ValidatingAdmissionWebhook`.
    Validating,
    /// `MutatingAdmissionWebhook`.
    Mutating,
    /// `ConversionWebhook`.
    Conversion,
    /// A word that means nothing; it is kept because messages name it.
    Other(String),
}

impl WebhookType {
    /// The name as the CSV writes it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Validating => "ValidatingAdmissionWebhook",
            Self::Mutating => "MutatingAdmissionWebhook",
            Self::Conversion => "ConversionWebhook",
            Self::Other(name) => name,
        }
    }
}

impl From<String> for WebhookType {
    fn from(name: String) -> Self {
        match name.as_str() {
            "ValidatingAdmissionWebhook" => Self::Validating,
            "MutatingAdmissionWebhook" => Self::Mutating,
            "ConversionWebhook" => Self::Conversion,
            _ => Self::Other(name),
        }
    }
}

impl Default for WebhookType {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

/// A webhook of the CSV.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WebhookDefinition {
    /// The name of the webhook and of its configuration.
    pub generate_name: String,
    /// Its type.
    pub r#type: WebhookType,
    /// The Deployment that serves it.
    pub deployment_name: String,
    /// The port of its Service; 0 means 443.
    pub container_port: i32,
    /// The port of the pod, a number or a name.
    pub target_port: Option<Value>,
    /// What it is asked about, as Go prints it.
    pub rules: Vec<Value>,
    /// What a failure means.
    pub failure_policy: Option<String>,
    /// How rules match.
    pub match_policy: Option<String>,
    /// Which objects it is asked about, as Go prints it.
    pub object_selector: Option<Value>,
    /// Whether it has side effects.
    pub side_effects: Option<String>,
    /// The time to answer, in seconds.
    pub timeout_seconds: Option<i32>,
    /// The versions of the review that it understands.
    pub admission_review_versions: Option<Vec<String>>,
    /// Whether it is asked again after other webhooks.
    pub reinvocation_policy: Option<String>,
    /// The path it serves.
    pub webhook_path: Option<String>,
    /// The custom resource definitions that it converts.
    #[serde(rename = "conversionCRDs")]
    pub conversion_crds: Vec<String>,
}

impl WebhookDefinition {
    /// The port of its Service. An absent port is 443.
    pub fn service_port(&self) -> i32 {
        if self.container_port > 0 {
            self.container_port
        } else {
            443
        }
    }
}

/// An image that is used besides those of the Deployments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RelatedImage {
    /// What it is for.
    pub name: String,
    /// Its reference.
    pub image: String,
}

impl ClusterServiceVersion {
    /// The install modes that are supported at least once.
    pub fn supported_modes(&self) -> BTreeSet<InstallMode> {
        self.spec
            .install_modes
            .iter()
            .filter(|mode| mode.supported)
            .map(|mode| mode.r#type.clone())
            .collect()
    }

    /// The Deployments of the strategy.
    pub fn deployments(&self) -> &[Deployment] {
        &self.spec.install.spec.deployments
    }
}

//! The rules that a bundle must keep. All are checked, in the reference's order; each file has one family.

mod crd;
mod deployment;
mod object;
mod webhook;

use crate::bundle::RegistryV1;

/// One broken rule. The texts are those of the reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Two Deployments of one name.
    #[error("cluster service version contains duplicate strategy deployment spec '{0}'")]
    DuplicateDeployment(String),
    /// A Deployment's name that Kubernetes refuses.
    #[error("invalid cluster service version strategy deployment name '{name}': {}", reasons.join(", "))]
    DeploymentName {
        /// The name.
        name: String,
        /// Why it is refused.
        reasons: Vec<String>,
    },
    /// Two custom resource definitions of one name.
    #[error("bundle contains duplicate custom resource definition '{0}'")]
    DuplicateCrd(String),
    /// A definition that the CSV says it owns, and that the bundle lacks.
    #[error(
        "cluster service definition references owned custom resource definition '{0}' not found in bundle"
    )]
    MissingCrd(String),
    /// No package's name.
    #[error("package name is empty")]
    NoPackage,
    /// A conversion webhook, which serves the whole cluster, beside other modes than for the whole cluster.
    #[error(
        "bundle contains conversion webhook \"{webhook}\" and supports install modes [{modes}] - conversion webhooks are only supported for bundles that only support AllNamespaces install mode"
    )]
    ConversionModes {
        /// The webhook.
        webhook: String,
        /// The supported modes, sorted, with a space between.
        modes: String,
    },
    /// A webhook of no Deployment.
    #[error(
        "webhook of type '{type}' with name '{name}' references non-existent deployment '{deployment}'"
    )]
    WebhookDeployment {
        /// The webhook's type.
        r#type: String,
        /// The webhook.
        name: String,
        /// The name that is no Deployment's.
        deployment: String,
    },
    /// Two webhooks of one type and name.
    #[error("duplicate webhook '{name}' of type '{type}'")]
    DuplicateWebhook {
        /// Their type.
        r#type: String,
        /// Their name.
        name: String,
    },
    /// A webhook's name that Kubernetes refuses.
    #[error("webhook of type '{type}' has invalid name '{name}': {}", reasons.join(","))]
    WebhookName {
        /// The webhook's type.
        r#type: String,
        /// The name.
        name: String,
        /// Why it is refused.
        reasons: Vec<String>,
    },
    /// A definition that more than one conversion webhook converts.
    #[error("conversion webhooks [{}] reference same custom resource definition '{crd}'", webhooks.join(","))]
    ConvertedTwice {
        /// The webhooks, sorted.
        webhooks: Vec<String>,
        /// The definition.
        crd: String,
    },
    /// A conversion webhook for a definition of somebody else.
    #[error(
        "conversion webhook '{webhook}' references custom resource definition '{crd}' not owned bundle"
    )]
    ConvertsForeign {
        /// The webhook.
        webhook: String,
        /// The definition.
        crd: String,
    },
    /// A webhook that would be asked about objects of other operators.
    #[error(
        "webhook \"{webhook}\" contains forbidden rule: admission webhook rules cannot reference API group \"{group}\""
    )]
    ForbiddenGroup {
        /// The webhook.
        webhook: String,
        /// The group.
        group: String,
    },
    /// A webhook that would be asked about webhooks.
    #[error(
        "webhook \"{webhook}\" contains forbidden rule: admission webhook rules cannot reference resource \"{resource}\" for API group \"admissionregistration.k8s.io\""
    )]
    ForbiddenResource {
        /// The webhook.
        webhook: String,
        /// The resource as written.
        resource: String,
    },
    /// An object of a kind that a bundle may not ship.
    #[error("unsupported resource \"{name}\" with kind \"{kind}\"")]
    UnsupportedKind {
        /// The object.
        name: String,
        /// Its kind.
        kind: String,
    },
}

/// A rule: what of the bundle breaks it.
type Validator = fn(&RegistryV1) -> Vec<Violation>;

/// Every rule, in the reference's order.
const VALIDATORS: [Validator; 13] = [
    deployment::unique_names,
    deployment::valid_names,
    crd::unique_names,
    crd::owned_exist,
    object::has_package,
    webhook::conversion_modes,
    webhook::deployments_exist,
    webhook::unique_names,
    webhook::valid_names,
    webhook::converted_once,
    webhook::converted_are_owned,
    webhook::allowed_rules,
    object::supported_kinds,
];

/// Everything that is wrong with the bundle, in the order of the rules.
pub(super) fn validate(bundle: &RegistryV1) -> Vec<Violation> {
    VALIDATORS
        .iter()
        .flat_map(|validator| validator(bundle))
        .collect()
}

/// The names that come more than once, sorted, each once.
fn repeated<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    let mut repeated: Vec<&str> = names
        .windows(2)
        .filter_map(|pair| match pair {
            [a, b] if a == b => Some(*a),
            _ => None,
        })
        .collect();
    repeated.dedup();
    repeated
}

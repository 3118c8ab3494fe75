//! Bundle to manifests: gates, configuration, validators, generators, in the reference's order and words.
//!
//! Two lists carry it: [`validator`] has every rule that a bundle must keep, the generators below make the objects.
//! Same input, same output, byte for byte: nothing here depends on the order of files, on time or on the machine.
//!
//! What is not done here: labels of the owner, annotations of the revision, phases, and the Secret and `caBundle` of
//! [`Provider::SelfSigned`], which are made while applying.

mod additional;
mod certificate;
mod crd;
mod deployment;
mod deployment_config;
pub mod examine;
pub mod image;
mod member;
mod name;
mod rbac;
pub mod serving;
mod validator;
mod webhook;

use serde_json::Value;

use crate::bundle::RegistryV1;
use crate::bundle::config::{self, ConfigurationError, DeploymentConfig};
use crate::bundle::csv::InstallMode;
use crate::error::{Classify, Disposition, Reason};

pub use certificate::Provider;
pub(crate) use name::subdomain_problems;
pub use validator::Violation;

/// What a bundle is rendered with.
#[derive(Debug, Clone, Copy)]
pub struct RenderOptions<'a> {
    /// The namespace it is installed in.
    pub install_namespace: &'a str,
    /// `spec.config.inline`; absent and null mean the empty configuration.
    pub config: Option<&'a Value>,
    /// Who makes the certificates of its webhooks.
    pub certificates: Provider,
}

/// The rendered objects, in the reference's order of generation: service accounts, roles, cluster roles, custom
/// resource definitions, additional objects, Deployments, webhook configurations, Services, certificates.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manifests {
    /// The objects, each with `apiVersion`, `kind` and `metadata`.
    pub objects: Vec<Value>,
    /// The Secrets that are written while applying, without their content: [`Provider::SelfSigned`] has them. Who asks
    /// which rights are needed counts them as objects.
    pub secrets: Vec<Value>,
}

/// A bundle that this version cannot install, whatever the configuration. The texts are those of the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// It brings aggregated API servers.
    #[error("apiServiceDefintions are not supported")]
    ApiServices,
    /// It has webhooks, and nobody makes certificates.
    #[error("webhookDefinitions are not supported")]
    Webhooks,
    /// None of the install modes that an extension can express.
    #[error(
        "bundle must support at least one of [AllNamespaces SingleNamespace OwnNamespace] install modes"
    )]
    InstallModes,
}

/// Why a bundle is not rendered. The texts are those of the reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// It cannot be installed, whatever the configuration.
    #[error("unsupported bundle: {0}")]
    Unsupported(Unsupported),
    /// The configuration does not fit.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// It breaks rules, all of them listed.
    #[error("{}", lines(.0))]
    Invalid(Vec<Violation>),
    /// A custom resource definition that no webhook can convert.
    #[error(
        "custom resource definition '{0}' must have .spec.preserveUnknownFields set to false to let API Server call webhook to do the conversion"
    )]
    PreservesUnknownFields(String),
}

fn lines(violations: &[Violation]) -> String {
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

impl Classify for RenderError {
    /// Only another spec or another bundle helps.
    fn disposition(&self) -> Disposition {
        Disposition::Terminal(match self {
            Self::Configuration(_) => Reason::InvalidConfiguration,
            Self::Unsupported(_) | Self::Invalid(_) | Self::PreservesUnknownFields(_) => {
                Reason::Blocked
            }
        })
    }
}

/// What every generator sees.
struct Context<'a> {
    bundle: &'a RegistryV1,
    install_namespace: &'a str,
    /// The one namespace that is watched; `None` means all.
    watch_namespace: Option<String>,
    certificates: Provider,
    deployment_config: Option<DeploymentConfig>,
}

impl Context<'_> {
    /// The watched namespaces as an annotation lists them: empty means all.
    fn targets(&self) -> &str {
        self.watch_namespace.as_deref().unwrap_or_default()
    }
}

/// Renders `bundle`.
///
/// # Errors
/// The first gate that it does not pass, else everything that does not fit the configuration's schema, else every
/// rule that it breaks.
pub fn render(bundle: &RegistryV1, options: &RenderOptions<'_>) -> Result<Manifests, RenderError> {
    let modes = bundle.csv.supported_modes();
    check_support(bundle, options.certificates).map_err(RenderError::Unsupported)?;
    let configuration = config::check(options.config, &modes, options.install_namespace)?;
    let violations = validator::validate(bundle);
    if !violations.is_empty() {
        return Err(RenderError::Invalid(violations));
    }
    generate(&Context {
        bundle,
        install_namespace: options.install_namespace,
        watch_namespace: configuration.watch_namespace,
        certificates: options.certificates,
        deployment_config: configuration.deployment,
    })
}

/// The custom resource definitions of `bundle` alone, as [`render`] makes them, whatever the configuration.
///
/// # Errors
/// When one cannot be converted by the webhook that the bundle names for it.
pub fn definitions(
    bundle: &RegistryV1,
    install_namespace: &str,
) -> Result<Vec<Value>, RenderError> {
    crd::definitions(&Context {
        bundle,
        install_namespace,
        watch_namespace: None,
        certificates: Provider::SelfSigned,
        deployment_config: None,
    })
}

fn check_support(bundle: &RegistryV1, certificates: Provider) -> Result<(), Unsupported> {
    let spec = &bundle.csv.spec;
    if !spec.api_service_definitions.owned.is_empty() {
        return Err(Unsupported::ApiServices);
    }
    if !spec.webhook_definitions.is_empty() && certificates == Provider::None {
        return Err(Unsupported::Webhooks);
    }
    let modes = bundle.csv.supported_modes();
    let expressible = [
        InstallMode::AllNamespaces,
        InstallMode::SingleNamespace,
        InstallMode::OwnNamespace,
    ];
    if !expressible.iter().any(|mode| modes.contains(mode)) {
        return Err(Unsupported::InstallModes);
    }
    Ok(())
}

fn generate(ctx: &Context<'_>) -> Result<Manifests, RenderError> {
    let mut objects = rbac::service_accounts(ctx);
    objects.extend(rbac::roles(ctx));
    objects.extend(rbac::cluster_roles(ctx));
    objects.extend(crd::definitions(ctx)?);
    objects.extend(additional::objects(ctx));
    objects.extend(deployment::deployments(ctx));
    objects.extend(webhook::configurations(ctx));
    objects.extend(webhook::services(ctx));
    objects.extend(certificate::objects(ctx));
    let secrets = certificate::secrets(ctx);
    Ok(Manifests { objects, secrets })
}

#[cfg(test)]
pub(crate) mod conformance;
#[cfg(test)]
mod tests;

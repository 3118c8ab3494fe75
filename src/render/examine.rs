//! What is to be said about a bundle before somebody installs it: everything that would be refused, and what is
//! probably not meant so.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Manifests, Provider, RenderError, RenderOptions, check_support, render, validator};
use crate::bundle::csv::InstallMode;
use crate::bundle::dependency::dependencies;
use crate::bundle::requirement::{
    KubernetesError, Property, check_kubernetes, minimum_kubernetes, properties,
};
use crate::bundle::unknown::{UnknownFields, unknown_fields};
use crate::bundle::{Files, LoadError, RegistryV1};
use crate::error::chain;
use crate::fbc::yaml;
use crate::version::Version;

/// The largest object that an API server keeps, in bytes: the default limit of etcd on a request.
const LARGEST_OBJECT_BYTES: usize = 3 << 19;
/// Namespaces to try with: where it is installed if it suggests none, and which it watches.
const INSTALLED_IN: &str = "operators";
const WATCHED: &str = "watched";
/// The annotation that says of which format a bundle is.
const MEDIA_TYPE: &str = "operators.operatorframework.io.bundle.mediatype.v1";
const REGISTRY_V1: &str = "registry+v1";

/// How bad a finding is; the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The bundle cannot be installed.
    Error,
    /// It can, but this is probably not meant so.
    Warning,
    /// Worth knowing.
    Note,
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// The files can be read as a bundle.
    Layout,
    /// The rules of the format.
    Rules,
    /// Fields that no type has.
    Fields,
    /// Rendering in each install mode.
    InstallModes,
    /// The bundle's properties.
    Properties,
    /// Other packages, APIs and constraints.
    Dependencies,
    /// Webhooks need certificates.
    Certificates,
    /// The cluster's version.
    ClusterVersion,
    /// How large it is.
    Size,
}

impl Check {
    /// As it is printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Layout => "layout",
            Self::Rules => "rules",
            Self::Fields => "fields",
            Self::InstallModes => "install-modes",
            Self::Properties => "properties",
            Self::Dependencies => "dependencies",
            Self::Certificates => "certificates",
            Self::ClusterVersion => "cluster-version",
            Self::Size => "size",
        }
    }
}

/// Something to say about a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub check: Check,
    /// What is the case.
    pub message: String,
}

/// A bundle, tried.
#[derive(Debug, Clone, Default)]
pub struct Examination {
    /// What is to be said, in order of the checks.
    pub findings: Vec<Finding>,
    /// The bundle, if it can be read.
    pub bundle: Option<RegistryV1>,
    /// What it is rendered to in each install mode that it supports, as far as it is.
    pub rendered: BTreeMap<InstallMode, Manifests>,
}

impl Examination {
    /// Tries everything on a bundle.
    pub fn of(files: &Files) -> Self {
        let mut examination = Self::default();
        examination.metadata(files);
        match RegistryV1::load(files) {
            Err(error) => examination.unreadable(&error),
            Ok(bundle) => {
                examination.rules(&bundle);
                examination.modes(&bundle);
                examination.properties(&bundle);
                examination.certificates(&bundle);
                examination.versions(&bundle);
                examination.bundle = Some(bundle);
            }
        }
        examination.fields(files);
        examination.dependencies(files);
        examination.size(files);
        examination.findings.sort_by_key(|finding| finding.check);
        examination
    }

    /// Whether it can be installed as far as this can be told.
    pub fn is_installable(&self) -> bool {
        self.findings
            .iter()
            .all(|finding| finding.severity != Severity::Error)
    }

    /// Adds a finding.
    pub fn add(&mut self, severity: Severity, check: Check, message: impl Into<String>) {
        self.findings.push(Finding {
            severity,
            check,
            message: message.into(),
        });
    }

    /// Adds what stands against it in a cluster of this version, in which `certificates` makes those of webhooks.
    pub fn on_cluster(&mut self, version: &Version, certificates: Provider) {
        self.on_kubernetes(version);
        let has_webhooks = |bundle: &RegistryV1| !bundle.csv.spec.webhook_definitions.is_empty();
        if !self.bundle.as_ref().is_some_and(has_webhooks) {
            return;
        }
        let maker = match certificates {
            Provider::CertManager => "cert-manager",
            Provider::ServiceCa => "OpenShift's service CA",
            Provider::SelfSigned => "oxolm",
            Provider::None => {
                return self.add(
                    Severity::Error,
                    Check::Certificates,
                    "webhooks need certificates, and nobody makes them in this cluster: install cert-manager",
                );
            }
        };
        let message = format!("in this cluster, {maker} makes the certificates of webhooks");
        self.add(Severity::Note, Check::Certificates, message);
    }

    /// Adds that a Kubernetes of this version is too old for it.
    pub fn on_kubernetes(&mut self, version: &Version) {
        let check =
            |bundle: &RegistryV1| check_kubernetes(&bundle.csv.spec.min_kube_version, version);
        if let Some(Err(error @ KubernetesError::TooOld { .. })) = self.bundle.as_ref().map(check) {
            self.add(Severity::Error, Check::ClusterVersion, chain(&error));
        }
    }

    fn unreadable(&mut self, error: &LoadError) {
        self.add(Severity::Error, Check::Layout, chain(error));
    }

    fn metadata(&mut self, files: &Files) {
        let annotations = files
            .get("metadata/annotations.yaml")
            .and_then(|bytes| yaml::value(bytes).ok()); // Loading reports it.
        let annotation = |key: &str| {
            let annotations = annotations.as_ref()?.get("annotations")?;
            Some(annotations.get(key)?.as_str()?.to_owned())
        };
        if let Some(media_type) = annotation(MEDIA_TYPE).filter(|found| found != REGISTRY_V1) {
            self.add(
                Severity::Warning,
                Check::Layout,
                format!(
                    "media type {media_type:?} is ignored: every bundle is read as {REGISTRY_V1}"
                ),
            );
        }
        for (key, expected) in [
            (
                "operators.operatorframework.io.bundle.manifests.v1",
                "manifests",
            ),
            (
                "operators.operatorframework.io.bundle.metadata.v1",
                "metadata",
            ),
        ] {
            let named = annotation(key).filter(|named| named.trim_matches('/') != expected);
            if let Some(named) = named {
                self.add(
                    Severity::Warning,
                    Check::Layout,
                    format!("annotation {key} names directory {named:?} and is ignored: it is always {expected}/"),
                );
            }
        }
    }

    fn rules(&mut self, bundle: &RegistryV1) {
        if let Err(unsupported) = check_support(bundle, Provider::SelfSigned) {
            let error = RenderError::Unsupported(unsupported);
            self.add(Severity::Error, Check::Rules, chain(&error));
        }
        for violation in validator::validate(bundle) {
            self.add(Severity::Error, Check::Rules, violation.to_string());
        }
    }

    /// What is installed has not got them.
    fn fields(&mut self, files: &Files) {
        for unknown in unknown_fields(files) {
            let UnknownFields {
                file,
                object,
                paths,
            } = unknown;
            let paths = paths.join(", ");
            let message = format!(
                "manifests/{file}: {object} has fields that are no part of its kind, and are left out: {paths}"
            );
            self.add(Severity::Warning, Check::Fields, message);
        }
    }

    /// Renders in each mode that the bundle supports; broken rules are reported once, not for each mode.
    fn modes(&mut self, bundle: &RegistryV1) {
        let supported = bundle.csv.supported_modes();
        let suggested = bundle.suggested_namespace();
        let install_namespace = suggested.as_deref().unwrap_or(INSTALLED_IN);
        let watching = |namespace: &str| json!({"watchNamespace": namespace});
        let tries = [
            (InstallMode::AllNamespaces, None),
            (InstallMode::OwnNamespace, Some(watching(install_namespace))),
            (InstallMode::SingleNamespace, Some(watching(WATCHED))),
        ];
        for (mode, config) in tries {
            if !supported.contains(&mode) {
                self.add(
                    Severity::Note,
                    Check::InstallModes,
                    format!("{mode} is not supported"),
                );
                continue;
            }
            let options = RenderOptions {
                install_namespace,
                config: config.as_ref(),
                certificates: Provider::SelfSigned,
            };
            match render(bundle, &options) {
                Ok(manifests) => {
                    let count = manifests.objects.len();
                    let message = format!("{mode} is supported: {count} objects");
                    self.add(Severity::Note, Check::InstallModes, message);
                    self.rendered.insert(mode, manifests);
                }
                Err(RenderError::Unsupported(_) | RenderError::Invalid(_)) => {}
                Err(error) => {
                    let message = format!("{mode}: {}", chain(&error));
                    self.add(Severity::Error, Check::InstallModes, message);
                }
            }
        }
    }

    fn properties(&mut self, bundle: &RegistryV1) {
        let read = properties(bundle.properties().unwrap_or("[]"));
        let read = match read {
            Ok(read) => read,
            Err(error) => return self.add(Severity::Warning, Check::Properties, error.to_string()),
        };
        for (index, property) in read.iter().enumerate() {
            let place = index + 1;
            match (property.r#type.as_str(), property.value.get()) {
                ("", "null") => self.add(
                    Severity::Warning,
                    Check::Properties,
                    format!("property {place} has neither type nor value: it says nothing (are they nested in another member?)"),
                ),
                ("", _) => self.add(
                    Severity::Warning,
                    Check::Properties,
                    format!("property {place} has no type: it says nothing"),
                ),
                (r#type, "null") => self.add(
                    Severity::Warning,
                    Check::Properties,
                    format!("property {place} ({type}) has no value"),
                ),
                _ => {}
            }
            self.requirement(property);
            if let Err(error) = property.provided_api() {
                self.add(Severity::Warning, Check::Properties, error.to_string());
            }
        }
    }

    /// A dependency is refused, whether it can be read or not.
    fn requirement(&mut self, property: &Property) {
        match property.requirement() {
            Ok(None) => {}
            Ok(Some(requirement)) => self.add(
                Severity::Error,
                Check::Dependencies,
                format!(
                    "needs {requirement}: bundles with dependencies ({}) are not supported",
                    property.r#type
                ),
            ),
            Err(error) => self.add(Severity::Error, Check::Dependencies, error.to_string()),
        }
    }

    fn dependencies(&mut self, files: &Files) {
        match dependencies(files) {
            Ok(found) => found.iter().for_each(|property| self.requirement(property)),
            Err(error) => self.add(Severity::Error, Check::Dependencies, error.to_string()),
        }
    }

    fn certificates(&mut self, bundle: &RegistryV1) {
        let webhooks = bundle.csv.spec.webhook_definitions.len();
        if webhooks > 0 {
            self.add(
                Severity::Note,
                Check::Certificates,
                format!("webhooks need certificates ({webhooks}): of cert-manager, of OpenShift's service CA, or of oxolm itself"),
            );
        }
    }

    fn versions(&mut self, bundle: &RegistryV1) {
        match minimum_kubernetes(&bundle.csv.spec.min_kube_version) {
            Ok(None) => {}
            Ok(Some(minimum)) => self.add(
                Severity::Note,
                Check::ClusterVersion,
                format!("needs Kubernetes {minimum} or newer"),
            ),
            // It is not looked at then.
            Err(error) => self.add(Severity::Warning, Check::ClusterVersion, chain(&error)),
        }
    }

    fn size(&mut self, files: &Files) {
        let bytes: usize = files.values().map(Vec::len).sum();
        let count = files.len();
        self.add(
            Severity::Note,
            Check::Size,
            format!("{count} files, {bytes} bytes"),
        );
        let largest = self
            .rendered
            .values()
            .flat_map(|manifests| &manifests.objects)
            .map(|object| (object.to_string().len(), object))
            .max_by_key(|(bytes, _)| *bytes);
        let Some((bytes, object)) = largest else {
            return;
        };
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let named = format!("{} {}", text("/kind"), text("/metadata/name"));
        if bytes > LARGEST_OBJECT_BYTES {
            let message = format!(
                "{named} has {bytes} bytes, more than the {LARGEST_OBJECT_BYTES} that a cluster usually keeps"
            );
            self.add(Severity::Warning, Check::Size, message);
        } else {
            self.add(
                Severity::Note,
                Check::Size,
                format!("the largest object is {named} with {bytes} bytes"),
            );
        }
    }
}

#[cfg(test)]
mod tests;

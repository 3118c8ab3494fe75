//! Rules about webhooks.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::bundle::RegistryV1;
use crate::bundle::csv::{InstallMode, WebhookDefinition, WebhookType};
use crate::render::name::subdomain_problems;

use super::Violation;

const WEBHOOK_GROUP: &str = "admissionregistration.k8s.io";

/// Groups that no admission webhook may be asked about: all of them, and our own.
const FORBIDDEN_GROUPS: [&str; 2] = ["*", "olm.operatorframework.io"];

/// Resources of [`WEBHOOK_GROUP`] that no admission webhook may be asked about, in lower case.
const FORBIDDEN_RESOURCES: [&str; 5] = [
    "*",
    "mutatingwebhookconfiguration",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfiguration",
    "validatingwebhookconfigurations",
];

fn conversions(bundle: &RegistryV1) -> impl Iterator<Item = &WebhookDefinition> {
    bundle
        .csv
        .spec
        .webhook_definitions
        .iter()
        .filter(|webhook| webhook.r#type == WebhookType::Conversion)
}

pub(super) fn conversion_modes(bundle: &RegistryV1) -> Vec<Violation> {
    let modes = bundle.csv.supported_modes();
    if modes == BTreeSet::from([InstallMode::AllNamespaces]) {
        return Vec::new();
    }
    let mut names: Vec<&str> = modes.iter().map(InstallMode::as_str).collect();
    names.sort_unstable();
    conversions(bundle)
        .map(|webhook| Violation::ConversionModes {
            webhook: webhook.generate_name.clone(),
            modes: names.join(" "),
        })
        .collect()
}

pub(super) fn deployments_exist(bundle: &RegistryV1) -> Vec<Violation> {
    let deployments: BTreeSet<&str> = bundle
        .csv
        .deployments()
        .iter()
        .map(|deployment| deployment.name.as_str())
        .collect();
    let mut dangling: Vec<(&str, &str, &str)> = bundle
        .csv
        .spec
        .webhook_definitions
        .iter()
        .filter(|webhook| !deployments.contains(webhook.deployment_name.as_str()))
        .map(|webhook| {
            (
                webhook.deployment_name.as_str(),
                webhook.r#type.as_str(),
                webhook.generate_name.as_str(),
            )
        })
        .collect();
    dangling.sort_unstable();
    dangling
        .into_iter()
        .map(|(deployment, r#type, name)| Violation::WebhookDeployment {
            r#type: r#type.to_owned(),
            name: name.to_owned(),
            deployment: deployment.to_owned(),
        })
        .collect()
}

/// How often each webhook, by type and name, is defined.
fn counted(bundle: &RegistryV1) -> BTreeMap<(&str, &str), usize> {
    let mut counted = BTreeMap::new();
    for webhook in &bundle.csv.spec.webhook_definitions {
        *counted
            .entry((webhook.r#type.as_str(), webhook.generate_name.as_str()))
            .or_default() += 1;
    }
    counted
}

pub(super) fn unique_names(bundle: &RegistryV1) -> Vec<Violation> {
    counted(bundle)
        .into_iter()
        .filter(|(_, count)| *count > 1)
        .map(|((r#type, name), _)| Violation::DuplicateWebhook {
            r#type: r#type.to_owned(),
            name: name.to_owned(),
        })
        .collect()
}

pub(super) fn valid_names(bundle: &RegistryV1) -> Vec<Violation> {
    counted(bundle)
        .into_keys()
        .filter_map(|(r#type, name)| {
            let reasons = subdomain_problems(name);
            (!reasons.is_empty()).then(|| Violation::WebhookName {
                r#type: r#type.to_owned(),
                name: name.to_owned(),
                reasons,
            })
        })
        .collect()
}

pub(super) fn converted_once(bundle: &RegistryV1) -> Vec<Violation> {
    let mut converters: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for webhook in conversions(bundle) {
        for crd in &webhook.conversion_crds {
            converters
                .entry(crd)
                .or_default()
                .push(webhook.generate_name.clone());
        }
    }
    converters
        .into_iter()
        .filter(|(_, webhooks)| webhooks.len() > 1)
        .map(|(crd, mut webhooks)| {
            webhooks.sort_unstable();
            Violation::ConvertedTwice {
                webhooks,
                crd: crd.to_owned(),
            }
        })
        .collect()
}

pub(super) fn converted_are_owned(bundle: &RegistryV1) -> Vec<Violation> {
    let owned: BTreeSet<&str> = bundle
        .csv
        .spec
        .custom_resource_definitions
        .owned
        .iter()
        .map(|api| api.name.as_str())
        .collect();
    let mut foreign: Vec<(&str, &str)> = conversions(bundle)
        .flat_map(|webhook| {
            webhook
                .conversion_crds
                .iter()
                .map(|crd| (webhook.generate_name.as_str(), crd.as_str()))
        })
        .filter(|(_, crd)| !owned.contains(crd))
        .collect();
    foreign.sort_unstable();
    foreign
        .into_iter()
        .map(|(webhook, crd)| Violation::ConvertsForeign {
            webhook: webhook.to_owned(),
            crd: crd.to_owned(),
        })
        .collect()
}

pub(super) fn allowed_rules(bundle: &RegistryV1) -> Vec<Violation> {
    bundle
        .csv
        .spec
        .webhook_definitions
        .iter()
        .filter(|webhook| {
            matches!(
                webhook.r#type,
                WebhookType::Validating | WebhookType::Mutating
            )
        })
        .flat_map(|webhook| {
            webhook
                .rules
                .iter()
                .flat_map(|rule| forbidden(&webhook.generate_name, rule))
        })
        .collect()
}

/// What of one rule is forbidden.
fn forbidden(webhook: &str, rule: &Value) -> Vec<Violation> {
    let texts = |key: &str| {
        rule.get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    };
    let mut violations = Vec::new();
    for group in texts("apiGroups") {
        if FORBIDDEN_GROUPS.contains(&group) {
            violations.push(Violation::ForbiddenGroup {
                webhook: webhook.to_owned(),
                group: group.to_owned(),
            });
        }
        if group == WEBHOOK_GROUP {
            let resources = texts("resources")
                .filter(|r| FORBIDDEN_RESOURCES.contains(&r.to_lowercase().as_str()));
            violations.extend(resources.map(|resource| Violation::ForbiddenResource {
                webhook: webhook.to_owned(),
                resource: resource.to_owned(),
            }));
        }
    }
    violations
}

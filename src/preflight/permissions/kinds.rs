//! What kinds are called, as far as that is known without asking an API server.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{RBAC, Resource};
use crate::api::object::{Gvk, ObjectKey};

/// Every kind that a registry+v1 bundle may ship or is rendered to, but for those that it defines itself: group, kind,
/// plural, and whether it lives in namespaces.
const BUILT_IN: [(&str, &str, &str, bool); 26] = [
    ("", "ConfigMap", "configmaps", true),
    ("", "Secret", "secrets", true),
    ("", "Service", "services", true),
    ("", "ServiceAccount", "serviceaccounts", true),
    ("apps", "Deployment", "deployments", true),
    (RBAC, "Role", "roles", true),
    (RBAC, "RoleBinding", "rolebindings", true),
    (RBAC, "ClusterRole", "clusterroles", false),
    (RBAC, "ClusterRoleBinding", "clusterrolebindings", false),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        false,
    ),
    (
        "networking.k8s.io",
        "NetworkPolicy",
        "networkpolicies",
        true,
    ),
    (
        "policy",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        true,
    ),
    (
        "scheduling.k8s.io",
        "PriorityClass",
        "priorityclasses",
        false,
    ),
    (
        "autoscaling.k8s.io",
        "VerticalPodAutoscaler",
        "verticalpodautoscalers",
        true,
    ),
    ("monitoring.coreos.com", "PodMonitor", "podmonitors", true),
    (
        "monitoring.coreos.com",
        "PrometheusRule",
        "prometheusrules",
        true,
    ),
    (
        "monitoring.coreos.com",
        "ServiceMonitor",
        "servicemonitors",
        true,
    ),
    (
        "console.openshift.io",
        "ConsoleCLIDownload",
        "consoleclidownloads",
        false,
    ),
    ("console.openshift.io", "ConsoleLink", "consolelinks", false),
    (
        "console.openshift.io",
        "ConsolePlugin",
        "consoleplugins",
        false,
    ),
    (
        "console.openshift.io",
        "ConsoleQuickStart",
        "consolequickstarts",
        false,
    ),
    (
        "console.openshift.io",
        "ConsoleYAMLSample",
        "consoleyamlsamples",
        false,
    ),
    ("cert-manager.io", "Certificate", "certificates", true),
    ("cert-manager.io", "Issuer", "issuers", true),
];

/// What a kind is called that bundles may contain; in whatever version the manifest has it.
pub fn built_in(gvk: &Gvk) -> Option<Resource> {
    BUILT_IN
        .iter()
        .find(|(group, kind, ..)| gvk.is(group, kind))
        .map(|(group, _, plural, is_namespaced)| Resource {
            group: (*group).to_owned(),
            version: gvk.version.clone(),
            plural: (*plural).to_owned(),
            is_namespaced: *is_namespaced,
        })
}

/// The kinds that CRDs among the manifests define, by group and kind.
pub fn defined_kinds(manifests: &[Value]) -> BTreeMap<(String, String), Resource> {
    let text = |value: &Value, pointer: &str| Some(value.pointer(pointer)?.as_str()?.to_owned());
    manifests
        .iter()
        .filter(|manifest| ObjectKey::of(manifest).is_ok_and(|key| key.gvk.is_crd()))
        .filter_map(|crd| {
            let group = text(crd, "/spec/group")?;
            let resource = Resource {
                group: group.clone(),
                version: text(crd, "/spec/versions/0/name").unwrap_or_default(),
                plural: text(crd, "/spec/names/plural")?,
                is_namespaced: text(crd, "/spec/scope").as_deref() == Some("Namespaced"),
            };
            Some(((group, text(crd, "/spec/names/kind")?), resource))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_built_in_by_group_in_any_version() {
        for (api_version, kind, expected) in [
            ("v1", "Service", Some(("services", true))),
            (
                "policy/v1beta1",
                "PodDisruptionBudget",
                Some(("poddisruptionbudgets", true)),
            ),
            (
                "rbac.authorization.k8s.io/v1",
                "ClusterRole",
                Some(("clusterroles", false)),
            ),
            ("serving.knative.dev/v1", "Service", None),
            ("v1", "Pod", None),
        ] {
            let found = built_in(&Gvk::new(api_version, kind));
            let found = found
                .as_ref()
                .map(|found| (found.plural.as_str(), found.is_namespaced));
            assert_eq!(found, expected, "{api_version} {kind}");
        }
    }
}

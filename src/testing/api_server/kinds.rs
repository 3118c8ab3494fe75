//! The kinds that the fake API server serves.

use serde_json::Value;

/// A kind that is served.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) name: String,
    pub(super) plural: String,
    pub(super) is_namespaced: bool,
}

/// Group, version, kind, plural, namespaced.
const KINDS: &[(&str, &str, &str, &str, bool)] = &[
    ("", "v1", "Namespace", "namespaces", false),
    ("", "v1", "ServiceAccount", "serviceaccounts", true),
    ("", "v1", "Secret", "secrets", true),
    ("", "v1", "ConfigMap", "configmaps", true),
    ("", "v1", "Service", "services", true),
    (
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        true,
    ),
    ("apps", "v1", "Deployment", "deployments", true),
    (
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        "endpointslices",
        true,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        false,
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        false,
    ),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", true),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "RoleBinding",
        "rolebindings",
        true,
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRole",
        "clusterroles",
        false,
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        false,
    ),
    ("events.k8s.io", "v1", "Event", "events", true),
    ("coordination.k8s.io", "v1", "Lease", "leases", true),
    (
        "authorization.k8s.io",
        "v1",
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        false,
    ),
    (
        "authorization.k8s.io",
        "v1",
        "SubjectAccessReview",
        "subjectaccessreviews",
        false,
    ),
    (
        "olm.operatorframework.io",
        "v1",
        "ClusterExtension",
        "clusterextensions",
        false,
    ),
    (
        "olm.operatorframework.io",
        "v1",
        "ClusterObjectSet",
        "clusterobjectsets",
        false,
    ),
    (
        "olm.operatorframework.io",
        "v1",
        "ClusterCatalog",
        "clustercatalogs",
        false,
    ),
];

impl Kind {
    /// Those that are served from the start.
    pub(super) fn at_first() -> Vec<Self> {
        let kinds = KINDS.iter();
        kinds
            .map(|(group, version, kind, plural, is_namespaced)| Self {
                group: (*group).to_owned(),
                version: (*version).to_owned(),
                name: (*kind).to_owned(),
                plural: (*plural).to_owned(),
                is_namespaced: *is_namespaced,
            })
            .collect()
    }

    /// The one that a definition brings.
    pub(super) fn of(crd: &Value) -> Self {
        let text = |pointer: &str| {
            crd.pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        Self {
            group: text("/spec/group"),
            version: text("/spec/versions/0/name"),
            name: text("/spec/names/kind"),
            plural: text("/spec/names/plural"),
            is_namespaced: text("/spec/scope") == "Namespaced",
        }
    }
}

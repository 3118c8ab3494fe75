//! Manifests into phases: what is kept of a manifest, which phase it belongs to, in which order.
//!
//! Membership and order are those of the reference (operator-controller, `internal/operator-controller/applier/phase.go`).
//! Differs from the reference: a phase of more than [`MAX_OBJECTS`] objects is split (`crds`, `crds-2`, …) instead of
//! being refused by the API server.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use crate::api::keys;
use crate::api::object::{Gvk, InvalidObject, ObjectKey};
use crate::error::{Classify, Disposition, Reason};

/// The limit of the `ClusterObjectSet` schema on objects per phase.
pub const MAX_OBJECTS: usize = 50;
/// The limit of the `ClusterObjectSet` schema on phases.
pub const MAX_PHASES: usize = 20;

/// The phases in their order, each with its kinds as (group, kind).
const PHASES: &[(&str, &[(&str, &str)])] = &[
    ("namespaces", &[("", "Namespace")]),
    (
        "policies",
        &[
            ("networking.k8s.io", "NetworkPolicy"),
            ("policy", "PodDisruptionBudget"),
            ("scheduling.k8s.io", "PriorityClass"),
        ],
    ),
    ("identity", &[("", "ServiceAccount")]),
    ("configuration", &[("", "Secret"), ("", "ConfigMap")]),
    (
        "storage",
        &[
            ("", "PersistentVolume"),
            ("", "PersistentVolumeClaim"),
            ("storage.k8s.io", "StorageClass"),
        ],
    ),
    (
        "crds",
        &[("apiextensions.k8s.io", "CustomResourceDefinition")],
    ),
    (
        "roles",
        &[
            ("rbac.authorization.k8s.io", "ClusterRole"),
            ("rbac.authorization.k8s.io", "Role"),
        ],
    ),
    (
        "bindings",
        &[
            ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
            ("rbac.authorization.k8s.io", "RoleBinding"),
        ],
    ),
    (
        "infrastructure",
        &[
            ("", "Service"),
            ("cert-manager.io", "Issuer"),
            ("cert-manager.io", "Certificate"),
        ],
    ),
    (DEFAULT_PHASE, &[("apps", "Deployment")]),
    (
        "scaling",
        &[("autoscaling.k8s.io", "VerticalPodAutoscaler")],
    ),
    (
        "publish",
        &[
            ("monitoring.coreos.com", "PrometheusRule"),
            ("monitoring.coreos.com", "ServiceMonitor"),
            ("monitoring.coreos.com", "PodMonitor"),
            ("networking.k8s.io", "Ingress"),
            ("route.openshift.io", "Route"),
            ("console.openshift.io", "ConsoleYAMLSample"),
            ("console.openshift.io", "ConsoleQuickStart"),
            ("console.openshift.io", "ConsoleCLIDownload"),
            ("console.openshift.io", "ConsoleLink"),
            ("console.openshift.io", "ConsolePlugin"),
        ],
    ),
    (
        "admission",
        &[
            (
                "admissionregistration.k8s.io",
                "ValidatingWebhookConfiguration",
            ),
            (
                "admissionregistration.k8s.io",
                "MutatingWebhookConfiguration",
            ),
        ],
    ),
];

/// Where kinds go that no phase names.
const DEFAULT_PHASE: &str = "deploy";

/// Objects that are applied together.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// The name, a DNS-1035 label.
    pub name: String,
    /// The objects, ordered by group, version, kind, namespace, name.
    pub objects: Vec<Value>,
}

/// Manifests that cannot become phases.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PhaseError {
    /// A manifest without apiVersion, kind or name.
    #[error("cannot put manifest {index} into a phase")]
    Unidentified {
        /// Its place among the manifests, counted from 0.
        index: usize,
        /// What is missing.
        #[source]
        source: InvalidObject,
    },
    /// The same object twice.
    #[error("duplicate object found: {0}")]
    Duplicate(ObjectKey),
    /// More objects than a revision can hold.
    #[error(
        "cannot put {objects} objects into phases: {phases} phases are needed, and {MAX_PHASES} are the limit"
    )]
    TooMany {
        /// The number of objects.
        objects: usize,
        /// The number of phases that they need.
        phases: usize,
    },
}

impl Classify for PhaseError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Unidentified { .. } | Self::Duplicate(_) | Self::TooMany { .. } => {
                Disposition::Terminal(Reason::Blocked)
            }
        }
    }
}

/// Labels and annotations that every object of a revision gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectMarks {
    /// Added to `metadata.labels`, replacing what is there.
    pub labels: BTreeMap<String, String>,
    /// Added to `metadata.annotations`, replacing what is there.
    pub annotations: BTreeMap<String, String>,
}

impl ObjectMarks {
    /// The marks of the objects of a revision, as the revision itself carries them.
    pub fn of_revision(metadata: &ObjectMeta) -> Self {
        let pick = |from: &Option<BTreeMap<String, String>>, keys: [&str; 2]| {
            let all = from.iter().flatten();
            let marks = all.filter(|(key, _)| keys.contains(&key.as_str()));
            marks
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        Self {
            labels: pick(&metadata.labels, [keys::OWNER_KIND, keys::OWNER_NAME]),
            annotations: pick(
                &metadata.annotations,
                [keys::BUNDLE_VERSION, keys::PACKAGE_NAME],
            ),
        }
    }

    /// `object` with the marks that it lacks.
    #[must_use]
    pub fn added_to(&self, mut object: Value) -> Value {
        for (field, marks) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
                return object;
            };
            if marks.is_empty() {
                continue;
            }
            let all = metadata.entry(field).or_insert_with(|| json!({}));
            if let Some(all) = all.as_object_mut() {
                for (key, value) in marks {
                    all.entry(key).or_insert_with(|| json!(value));
                }
            }
        }
        object
    }

    /// `object` without those of its marks that are these.
    #[must_use]
    pub fn taken_from(&self, mut object: Value) -> Value {
        for (field, marks) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
                return object;
            };
            let Some(all) = metadata.get_mut(field).and_then(Value::as_object_mut) else {
                continue;
            };
            all.retain(|key, value| marks.get(key).is_none_or(|mark| *value != **mark));
            if all.is_empty() {
                metadata.remove(field);
            }
        }
        object
    }
}

/// Sorts `manifests` into phases; empty phases are left out.
///
/// The order of `manifests` does not matter: the same set gives the same phases, byte for byte.
///
/// # Errors
/// When a manifest does not say what it is, one object is there twice, or there are more than 20 phases of 50.
pub fn phases(manifests: &[Value], marks: &ObjectMarks) -> Result<Vec<Phase>, PhaseError> {
    let mut sorted: BTreeMap<usize, BTreeMap<ObjectKey, Value>> = BTreeMap::new();
    let mut keys = Vec::with_capacity(manifests.len());
    for (index, manifest) in manifests.iter().enumerate() {
        let key =
            ObjectKey::of(manifest).map_err(|source| PhaseError::Unidentified { index, source })?;
        let objects = sorted.entry(phase_of(&key.gvk)).or_default();
        objects.insert(key.clone(), sanitize(manifest, marks));
        keys.push(key);
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = keys.iter().find(|key| !seen.insert(key.identity())) {
        return Err(PhaseError::Duplicate(twice.clone()));
    }
    let mut phases = Vec::new();
    for (at, objects) in sorted {
        let name = PHASES.get(at).map_or(DEFAULT_PHASE, |(name, _)| name);
        let objects: Vec<Value> = objects.into_values().collect();
        for (part, chunk) in objects.chunks(MAX_OBJECTS).enumerate() {
            phases.push(Phase {
                name: if part == 0 {
                    name.to_owned()
                } else {
                    format!("{name}-{}", part + 1)
                },
                objects: chunk.to_vec(),
            });
        }
    }
    if phases.len() > MAX_PHASES {
        return Err(PhaseError::TooMany {
            objects: manifests.len(),
            phases: phases.len(),
        });
    }
    Ok(phases)
}

/// Sorts `objects` as they are applied: by phase, then by group, version, kind, namespace, name. What does not say what
/// it is comes last.
pub fn sort(objects: &mut [Value]) {
    objects.sort_by_cached_key(|object| {
        let key = ObjectKey::of(object).ok(); // See above.
        let phase = key.as_ref().map_or(PHASES.len(), |key| phase_of(&key.gvk));
        (phase, key)
    });
}

/// The place of a kind's phase in the table.
fn phase_of(gvk: &Gvk) -> usize {
    let has = |kinds: &[(&str, &str)]| kinds.iter().any(|(group, kind)| gvk.is(group, kind));
    PHASES
        .iter()
        .position(|(_, kinds)| has(kinds))
        .or_else(|| PHASES.iter().position(|(name, _)| *name == DEFAULT_PHASE))
        .unwrap_or(PHASES.len())
}

/// What of a manifest is applied: no status, of the metadata only name, namespace, labels and annotations, without
/// kubectl's copy of the manifest, and with the marks.
pub fn sanitize(manifest: &Value, marks: &ObjectMarks) -> Value {
    let mut object = manifest.as_object().cloned().unwrap_or_default();
    object.remove("status");
    let metadata = match object.remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    let mut kept = Map::new();
    for field in ["name", "namespace"] {
        if let Some(value) = metadata.get(field).filter(|value| !value.is_null()) {
            kept.insert(field.to_owned(), value.clone());
        }
    }
    let mut annotations = strings(metadata.get("annotations"));
    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    for (field, mut present, added) in [
        ("labels", strings(metadata.get("labels")), &marks.labels),
        ("annotations", annotations, &marks.annotations),
    ] {
        for (key, value) in added {
            present.insert(key.clone(), Value::String(value.clone()));
        }
        if !present.is_empty() {
            kept.insert(field.to_owned(), Value::Object(present));
        }
    }
    object.insert("metadata".to_owned(), Value::Object(kept));
    Value::Object(object)
}

fn strings(value: Option<&Value>) -> Map<String, Value> {
    value
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn object(api_version: &str, kind: &str, name: &str) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
    }

    fn names(phases: &[Phase]) -> Vec<(&str, usize)> {
        phases
            .iter()
            .map(|phase| (phase.name.as_str(), phase.objects.len()))
            .collect()
    }

    #[test]
    fn each_kind_goes_to_its_phase_whatever_its_version() {
        for (api_version, kind, phase) in [
            ("v1", "Namespace", "namespaces"),
            ("networking.k8s.io/v1", "NetworkPolicy", "policies"),
            ("policy/v1beta1", "PodDisruptionBudget", "policies"),
            ("scheduling.k8s.io/v1", "PriorityClass", "policies"),
            ("v1", "ServiceAccount", "identity"),
            ("v1", "Secret", "configuration"),
            ("v1", "ConfigMap", "configuration"),
            ("v1", "PersistentVolumeClaim", "storage"),
            ("storage.k8s.io/v1", "StorageClass", "storage"),
            (
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                "crds",
            ),
            ("rbac.authorization.k8s.io/v1", "ClusterRole", "roles"),
            ("rbac.authorization.k8s.io/v1", "Role", "roles"),
            ("rbac.authorization.k8s.io/v1", "RoleBinding", "bindings"),
            ("v1", "Service", "infrastructure"),
            ("cert-manager.io/v1", "Certificate", "infrastructure"),
            ("apps/v1", "Deployment", "deploy"),
            ("apps/v1", "StatefulSet", "deploy"),
            ("example.com/v1", "Namespace", "deploy"),
            ("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", "scaling"),
            ("networking.k8s.io/v1", "Ingress", "publish"),
            ("console.openshift.io/v1", "ConsolePlugin", "publish"),
            (
                "admissionregistration.k8s.io/v1",
                "MutatingWebhookConfiguration",
                "admission",
            ),
            (
                "admissionregistration.k8s.io/v1",
                "ValidatingAdmissionPolicy",
                "deploy",
            ),
        ] {
            let phases = phases(&[object(api_version, kind, "a")], &ObjectMarks::default());
            assert_eq!(
                names(&phases.unwrap()),
                [(phase, 1)],
                "{api_version} {kind}"
            );
        }
    }

    #[test]
    fn a_phase_of_more_than_fifty_objects_is_split() {
        let crds: Vec<_> = (0..101)
            .map(|n| {
                object(
                    "apiextensions.k8s.io/v1",
                    "CustomResourceDefinition",
                    &format!("c{n:03}"),
                )
            })
            .collect();
        let phases = phases(&crds, &ObjectMarks::default()).unwrap();
        assert_eq!(
            names(&phases),
            [("crds", 50), ("crds-2", 50), ("crds-3", 1)]
        );
        assert_eq!(phases[1].objects[0]["metadata"]["name"], "c050");
    }

    #[test]
    fn what_is_not_to_be_applied_is_left_out() {
        let marks = ObjectMarks {
            labels: BTreeMap::from([("owner".to_owned(), "e".to_owned())]),
            annotations: BTreeMap::from([("version".to_owned(), "1.0.0".to_owned())]),
        };
        let manifest = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}, "status": {"x": 1},
            "metadata": {
                "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "5", "finalizers": ["f"],
                "creationTimestamp": null, "ownerReferences": [{"name": "o"}],
                "labels": {"l": "1", "owner": "other"},
                "annotations": {"a": "1", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
            },
        });
        assert_eq!(
            sanitize(&manifest, &marks),
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"},
                "metadata": {
                    "name": "a", "namespace": "n",
                    "labels": {"l": "1", "owner": "e"}, "annotations": {"a": "1", "version": "1.0.0"},
                },
            })
        );
    }

    #[test]
    fn manifests_that_make_no_phases_are_refused() {
        let marks = ObjectMarks::default();
        let one = object("v1", "ConfigMap", "a");
        assert_eq!(
            phases(&[one.clone(), json!({"kind": "A"})], &marks).unwrap_err(),
            PhaseError::Unidentified {
                index: 1,
                source: InvalidObject("apiVersion")
            }
        );
        assert_eq!(
            phases(&[one.clone(), one], &marks).unwrap_err().to_string(),
            "duplicate object found: ConfigMap.v1 /a"
        );
        let scaler = |version| object(version, "HorizontalPodAutoscaler", "a");
        let both = ["autoscaling/v1", "autoscaling/v2"].map(scaler);
        assert_eq!(
            phases(&both, &marks).unwrap_err().to_string(),
            "duplicate object found: HorizontalPodAutoscaler.autoscaling/v2 /a"
        );
        let many: Vec<_> = (0..1001)
            .map(|n| object("v1", "ConfigMap", &format!("c{n}")))
            .collect();
        assert_eq!(
            phases(&many, &marks).unwrap_err(),
            PhaseError::TooMany {
                objects: 1001,
                phases: 21
            }
        );
    }

    proptest! {
        #[test]
        fn the_order_of_manifests_does_not_matter(seed in Just((0..30).collect::<Vec<usize>>()).prop_shuffle()) {
            let kinds = [("v1", "Service"), ("apps/v1", "Deployment"), ("v1", "ConfigMap")];
            let make = |n: &usize| object(kinds[n % 3].0, kinds[n % 3].1, &format!("o{n}"));
            let shuffled: Vec<_> = seed.iter().map(make).collect();
            let ordered: Vec<_> = (0..30).map(|n| make(&n)).collect();
            let marks = ObjectMarks::default();
            prop_assert_eq!(phases(&shuffled, &marks), phases(&ordered, &marks));
        }
    }
}

//! What is wrong with the objects of a revision, before anybody is asked.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::api::object::{Gvk, ObjectKey};

/// Fields of metadata that a manifest must not set.
const FORBIDDEN: [&str; 6] = [
    "uid",
    "generation",
    "generateName",
    "finalizers",
    "ownerReferences",
    "resourceVersion",
];

/// The groups whose kinds are all reviews: created to be answered, and never stored.
const REVIEWS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];

/// Everything that is wrong with the objects of revision `name`; none when nothing is. The text is the reference's.
///
/// Objects of the kinds `namespaced` must have a namespace. Differs from the reference: it sends them without one, and
/// the API server says that it has no such method.
pub fn validate<'a>(
    name: &str,
    number: i64,
    namespaced: &BTreeSet<Gvk>,
    phases: impl IntoIterator<Item = (&'a str, Vec<(&'a ObjectKey, &'a Value)>)>,
) -> Option<String> {
    let mut findings = Vec::new();
    let mut places: BTreeMap<_, Vec<(&ObjectKey, &str)>> = BTreeMap::new();
    for (phase, objects) in phases {
        for (key, object) in objects {
            let found = places.entry(key.identity()).or_default();
            found.push((key, phase));
            let mut wrong: Vec<String> = FORBIDDEN
                .iter()
                .filter(|field| is_set(object, field))
                .map(|field| format!("metadata.{field} must be empty"))
                .collect();
            if key.namespace.is_empty() && namespaced.contains(&key.gvk) {
                wrong.push("metadata.namespace must be set".to_owned());
            }
            if REVIEWS.contains(&key.gvk.group.as_str()) {
                wrong.push("it is a question to the API server, which nothing keeps".to_owned());
            }
            if !wrong.is_empty() {
                findings.push(format!("phase {phase:?}: {key}: {}", wrong.join(", ")));
            }
        }
    }
    for places in places.into_values() {
        let [(key, _), (_, _), ..] = places.as_slice() else {
            continue;
        };
        let phases: Vec<&str> = places.iter().map(|(_, phase)| *phase).collect();
        findings.push(format!(
            "{key}: duplicate object found in phases: {}",
            phases.join(", ")
        ));
    }
    (!findings.is_empty()).then(|| {
        format!(
            "revision validation error: revision {name:?} ({number}): {}",
            findings.join("; ")
        )
    })
}

fn is_set(object: &Value, field: &str) -> bool {
    match object
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
    {
        None | Some(Value::Null) => false,
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn forbidden_fields_and_duplicates_are_told_at_once() {
        let object = |metadata: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        let good = object(json!({"name": "a", "namespace": "n", "finalizers": [], "uid": ""}));
        let bad = object(json!({"name": "b", "namespace": "n", "uid": "u", "generation": 1}));
        let (good_key, bad_key) = (ObjectKey::of(&good).unwrap(), ObjectKey::of(&bad).unwrap());
        let namespaced = BTreeSet::from([good_key.gvk.clone()]);
        let sound = [("p", vec![(&good_key, &good)])];
        assert_eq!(validate("e-1", 1, &namespaced, sound), None);
        assert_eq!(
            validate(
                "e-1",
                1,
                &namespaced,
                [
                    ("p", vec![(&good_key, &good), (&bad_key, &bad)]),
                    ("q", vec![(&good_key, &good)])
                ]
            )
            .unwrap(),
            "revision validation error: revision \"e-1\" (1): phase \"p\": ConfigMap.v1 n/b: metadata.uid must be empty, \
             metadata.generation must be empty; ConfigMap.v1 n/a: duplicate object found in phases: p, q"
        );
    }

    #[test]
    fn an_object_is_the_same_in_each_version_of_its_kind() {
        let object = |version: &str, name: &str| {
            let kind = "HorizontalPodAutoscaler";
            let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "n"}});
            (ObjectKey::of(&object).unwrap(), object)
        };
        let [old, new, other] = [
            object("autoscaling/v1", "a"),
            object("autoscaling/v2", "a"),
            object("autoscaling/v1", "b"),
        ];
        let told = |second: &(ObjectKey, Value)| {
            let phases = [
                ("p", vec![(&old.0, &old.1)]),
                ("q", vec![(&second.0, &second.1)]),
            ];
            validate("e-1", 1, &BTreeSet::new(), phases)
        };
        assert_eq!(told(&other), None);
        let told = told(&new).unwrap();
        assert!(
            told.ends_with("n/a: duplicate object found in phases: p, q"),
            "{told}"
        );
    }

    #[test]
    fn a_question_is_no_object() {
        for (version, kind) in [
            ("authentication.k8s.io/v1", "TokenReview"),
            ("authorization.k8s.io/v1", "SubjectAccessReview"),
        ] {
            let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
            let key = ObjectKey::of(&object).unwrap();
            let told =
                validate("e-1", 1, &BTreeSet::new(), [("p", vec![(&key, &object)])]).unwrap();
            assert!(
                told.ends_with("it is a question to the API server, which nothing keeps"),
                "{told}"
            );
        }
    }

    #[test]
    fn an_object_of_a_namespaced_kind_is_somewhere() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let key = ObjectKey::of(&object).unwrap();
        let checked = |namespaced: BTreeSet<Gvk>| {
            validate("e-1", 1, &namespaced, [("p", vec![(&key, &object)])])
        };
        assert_eq!(checked(BTreeSet::new()), None);
        assert_eq!(
            checked(BTreeSet::from([key.gvk.clone()])).unwrap(),
            "revision validation error: revision \"e-1\" (1): phase \"p\": ConfigMap.v1 /a: metadata.namespace must be set"
        );
    }
}

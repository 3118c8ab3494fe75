//! What is wrong with the objects of a revision, before anybody is asked.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::api::object::ObjectKey;

/// Fields of metadata that a manifest must not set.
const FORBIDDEN: [&str; 6] = [
    "uid",
    "generation",
    "generateName",
    "finalizers",
    "ownerReferences",
    "resourceVersion",
];

/// Everything that is wrong with the objects of revision `name`; none when nothing is. The text is the reference's.
pub fn validate<'a>(
    name: &str,
    number: i64,
    phases: impl IntoIterator<Item = (&'a str, Vec<(&'a ObjectKey, &'a Value)>)>,
) -> Option<String> {
    let mut findings = Vec::new();
    let mut places: BTreeMap<&ObjectKey, Vec<&str>> = BTreeMap::new();
    for (phase, objects) in phases {
        for (key, object) in objects {
            places.entry(key).or_default().push(phase);
            let set: Vec<String> = FORBIDDEN
                .iter()
                .filter(|field| is_set(object, field))
                .map(|field| format!("metadata.{field} must be empty"))
                .collect();
            if !set.is_empty() {
                findings.push(format!("phase {phase:?}: {key}: {}", set.join(", ")));
            }
        }
    }
    for (key, phases) in places {
        if phases.len() > 1 {
            findings.push(format!(
                "{key}: duplicate object found in phases: {}",
                phases.join(", ")
            ));
        }
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
        assert_eq!(validate("e-1", 1, [("p", vec![(&good_key, &good)])]), None);
        assert_eq!(
            validate(
                "e-1",
                1,
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
}

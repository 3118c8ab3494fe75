//! Manifests with what the API server makes of them, where server-side apply would not keep it up.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::api::object::Gvk;

/// A manifest that says what it means:
///
/// - What stands in the `stringData` of a Secret stands in its `data`. Server-side apply records no owner for keys that were sent
///   as `stringData`: neither drift nor what a later version drops would be seen. What is no text is left to the API server
///   to refuse.
/// - A `NetworkPolicy` without `policyTypes` has those that follow from its rules. The API server fills them in when the object
///   is made, and nobody changes them when a later version brings rules of another direction.
pub fn explicit(gvk: &Gvk, mut object: Value) -> Value {
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Secret") => text_as_data(&mut object),
        ("networking.k8s.io", "NetworkPolicy") => name_types(&mut object),
        _ => {}
    }
    object
}

/// As Kubernetes defaults them: every policy is about ingress, and about egress if it has rules for it.
fn name_types(policy: &mut Value) {
    let Some(spec) = policy.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let is_filled = |field: Option<&Value>| match field {
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Null) | None => false,
        Some(_) => true, // Of another type: the API server refuses it.
    };
    if !is_filled(spec.get("policyTypes")) {
        let mut types = vec!["Ingress"];
        types.extend(is_filled(spec.get("egress")).then_some("Egress"));
        spec.insert("policyTypes".to_owned(), json!(types));
    }
}

fn text_as_data(secret: &mut Value) {
    let Some(fields) = secret.as_object_mut() else {
        return;
    };
    let texts = fields.get("stringData").and_then(Value::as_object);
    let Some(texts) = texts.filter(|texts| texts.values().all(Value::is_string)) else {
        return;
    };
    let coded = |text: &Value| json!(BASE64_STANDARD.encode(text.as_str().unwrap_or_default()));
    let texts: Vec<(String, Value)> = texts
        .iter()
        .map(|(key, text)| (key.clone(), coded(text)))
        .collect();
    match fields.get_mut("data") {
        Some(Value::Object(data)) => data.extend(texts),
        None | Some(Value::Null) => {
            fields.insert(
                "data".to_owned(),
                Value::Object(texts.into_iter().collect()),
            );
        }
        Some(_) => return,
    }
    fields.remove("stringData");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_says_what_it_is_about() {
        let policy = Gvk::new("networking.k8s.io/v1", "NetworkPolicy");
        for (spec, expected) in [
            (json!({"ingress": []}), json!(["Ingress"])),
            (json!({"egress": []}), json!(["Ingress"])),
            (json!({"egress": [{}]}), json!(["Ingress", "Egress"])),
            (
                json!({"egress": [{}], "policyTypes": []}),
                json!(["Ingress", "Egress"]),
            ),
            (
                json!({"egress": [{}], "policyTypes": ["Egress"]}),
                json!(["Egress"]),
            ),
        ] {
            let told = explicit(&policy, json!({ "spec": spec }));
            assert_eq!(told["spec"]["policyTypes"], expected);
        }
        assert_eq!(explicit(&policy, json!({})), json!({}));
    }

    #[test]
    fn text_becomes_data() {
        let secret = Gvk::new("v1", "Secret");
        for (object, expected) in [
            (
                json!({"data": {"a": "eA==", "b": "eA=="}, "stringData": {"b": "y", "c": ""}}),
                json!({"data": {"a": "eA==", "b": "eQ==", "c": ""}}),
            ),
            (
                json!({"stringData": {"b": "ü"}}),
                json!({"data": {"b": "w7w="}}),
            ),
            (json!({"stringData": {}}), json!({"data": {}})),
            (
                json!({"stringData": {"b": 1}}),
                json!({"stringData": {"b": 1}}),
            ),
            (
                json!({"data": {"a": "eA=="}}),
                json!({"data": {"a": "eA=="}}),
            ),
        ] {
            assert_eq!(explicit(&secret, object), expected);
        }
        let other = json!({"stringData": {"b": "y"}});
        assert_eq!(explicit(&Gvk::new("g/v1", "Secret"), other.clone()), other);
    }
}

//! Secrets that are written in plain text.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::api::object::Gvk;

/// A manifest with what stands in the `stringData` of a Secret in its `data`, as the API server stores it.
///
/// Server-side apply records no owner for keys that were sent as `stringData`: they would be nobody's, and neither drift nor
/// what a later version drops would be seen. What is no text is left to the API server to refuse.
pub fn as_data(gvk: &Gvk, mut object: Value) -> Value {
    if !gvk.group.is_empty() || gvk.kind != "Secret" {
        return object;
    }
    let Some(fields) = object.as_object_mut() else {
        return object;
    };
    let texts = fields.get("stringData").and_then(Value::as_object);
    let Some(texts) = texts.filter(|texts| texts.values().all(Value::is_string)) else {
        return object;
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
        Some(_) => return object,
    }
    fields.remove("stringData");
    object
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(as_data(&secret, object), expected);
        }
        let other = json!({"stringData": {"b": "y"}});
        assert_eq!(as_data(&Gvk::new("g/v1", "Secret"), other.clone()), other);
    }
}

//! Whether a CRD that is left behind still needs its conversion webhook.
//!
//! With the operator goes the webhook. As long as the CRD names it, whoever asks for another version than the stored one
//! fails, the garbage collector included.

use serde_json::Value;

use super::definition::{ConversionStrategy, Definition};
use super::flatten::flatten;
use super::record::{Pool, Record, is_same_record};
use super::shape::At;

/// What becomes of the webhook of a CRD that is left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftWebhook {
    /// It names none.
    None,
    /// All versions have the same structure, so none is needed.
    Needless,
    /// The versions differ, or cannot be compared.
    Needed,
}

/// Looks at a live CRD.
pub fn left_webhook(crd: &Value) -> LeftWebhook {
    let Ok(definition) = Definition::read(&mut Pool::default(), crd) else {
        return LeftWebhook::Needed;
    };
    if definition.conversion == ConversionStrategy::None {
        return LeftWebhook::None;
    }
    let mut schemas = definition
        .versions
        .iter()
        .map(|version| version.schema.as_ref());
    let Some(Some(first)) = schemas.next() else {
        return LeftWebhook::Needed;
    };
    if schemas.all(|schema| schema.is_some_and(|schema| has_same_structure(first, schema))) {
        LeftWebhook::Needless
    } else {
        LeftWebhook::Needed
    }
}

/// Whether two schemas allow the same; what is only for readers does not count.
fn has_same_structure(x: &Record, y: &Record) -> bool {
    const BELOW: [At; 5] = [At::Properties, At::Items, At::AllOf, At::AnyOf, At::OneOf];
    const DECORATION: [At; 4] = [At::Description, At::Title, At::Example, At::ExternalDocs];
    let own = |node: &Record| {
        let mut own = node.without(&BELOW).without(&DECORATION);
        for at in [At::Not, At::AdditionalProperties, At::AdditionalItems] {
            if node.schema(at).is_some() {
                own = own.without(&[at]);
            }
        }
        own
    };
    let (x, y) = (flatten(Some(x)), flatten(Some(y)));
    x.len() == y.len()
        && x.iter()
            .zip(y.iter())
            .all(|((path, x), (other, y))| path == other && is_same_record(&own(x), &own(y)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(strategy: &str, schemas: &[Value], expected: LeftWebhook) {
        let versions: Vec<Value> = schemas
            .iter()
            .map(|schema| json!({"name": "v", "schema": {"openAPIV3Schema": schema}}))
            .collect();
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "x"},
            "spec": {"conversion": {"strategy": strategy}, "versions": versions},
        });
        assert_eq!(left_webhook(&crd), expected);
    }

    #[test]
    fn versions_that_differ_need_their_webhook() {
        let a = json!({"type": "object", "description": "a", "properties": {"x": {"type": "string"},
            "m": {"type": "object", "additionalProperties": {"type": "string", "description": "a"}}}});
        let mut same = a.clone();
        same["description"] = json!("b");
        same["properties"]["m"]["additionalProperties"]["description"] = json!("b");
        let mut other = a.clone();
        other["properties"]["m"]["additionalProperties"]["type"] = json!("integer");
        let less = json!({"type": "object"});
        check("None", &[a.clone(), other.clone()], LeftWebhook::None);
        check("Webhook", &[a.clone(), same], LeftWebhook::Needless);
        check("Webhook", &[a.clone(), other], LeftWebhook::Needed);
        check("Webhook", &[a, less], LeftWebhook::Needed);
        assert_eq!(left_webhook(&json!({})), LeftWebhook::Needed);
    }
}

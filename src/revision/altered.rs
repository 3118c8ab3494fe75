//! What somebody changed in an object on its way in: admission, for nobody else can between an apply and its answer.
//!
//! The answer is compared with the manifest, field by field of the manifest: what the API server or an admission policy adds
//! is no change. Nor is what the API server only writes in another way: a quantity (`1000m`, `1`), a number, an empty value
//! that it leaves out, or whose default it fills in.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::api::keys;
use crate::bundle::typed::Amount;

/// Marks that are written over what a manifest says.
const OURS: [&str; 3] = [keys::MANAGED_BY, keys::REVISION, keys::OWNER];

/// The fields of `manifest` that are otherwise in `answer`, as `spec.template.spec.containers[manager].image`, in the order
/// of the manifest. No values: they may be secret.
pub fn altered(manifest: &Value, answer: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let (Value::Object(manifest), Value::Object(answer)) = (manifest, answer) else {
        return found;
    };
    for (field, wanted) in manifest {
        match field.as_str() {
            "metadata" => {
                for marks in ["labels", "annotations"] {
                    let live = answer.get("metadata").and_then(|live| live.get(marks));
                    if let Some(Value::Object(mut wanted)) = wanted.get(marks).cloned() {
                        wanted.retain(|mark, _| !OURS.contains(&mark.as_str()));
                        let path = format!("metadata.{marks}");
                        compare(&Value::Object(wanted), live, &path, &mut found);
                    }
                }
            }
            // Written by who runs the object; written only; the same in another place.
            "status" | "stringData" | "apiVersion" | "kind" => {}
            _ => compare(wanted, answer.get(field), field, &mut found),
        }
    }
    found
}

/// Notes the fields below `path` that are otherwise in `live`.
fn compare(wanted: &Value, live: Option<&Value>, path: &str, found: &mut Vec<String>) {
    let is_same = match (wanted, live) {
        (wanted, None) => is_left_out(wanted),
        (Value::Object(wanted), Some(Value::Object(live))) => {
            return compare_fields(wanted, live, path, found);
        }
        (Value::Array(wanted), Some(Value::Array(live))) if !wanted.is_empty() => {
            return compare_items(wanted, live, path, found);
        }
        (wanted, Some(live)) => is_written_alike(wanted, live),
    };
    if !is_same {
        found.push(path.to_owned());
    }
}

fn compare_fields(
    wanted: &Map<String, Value>,
    live: &Map<String, Value>,
    path: &str,
    found: &mut Vec<String>,
) {
    for (field, wanted) in wanted {
        // Certificate injectors write it, oxolm among them.
        if field != "caBundle" {
            let path = if field.contains(['.', '/']) {
                format!("{path}[{field}]")
            } else {
                format!("{path}.{field}")
            };
            compare(wanted, live.get(field), &path, found);
        }
    }
}

/// Items with names of their own are found by them; others by their place, as long as none came or went.
fn compare_items(wanted: &[Value], live: &[Value], path: &str, found: &mut Vec<String>) {
    let are_named = |items: &[Value]| {
        let mut names = BTreeSet::new();
        let mut found = items.iter().map(|item| name_of(item));
        found.all(|name| name.is_some_and(|name| names.insert(name)))
    };
    if are_named(wanted) && are_named(live) {
        for item in wanted {
            let name = name_of(item);
            let same = live.iter().find(|live| name_of(live) == name);
            let path = format!("{path}[{}]", name.unwrap_or_default());
            match same {
                Some(live) => compare(item, Some(live), &path, found),
                None => found.push(path),
            }
        }
    } else if wanted.len() == live.len() {
        for (at, (item, live)) in wanted.iter().zip(live).enumerate() {
            compare(item, Some(live), &format!("{path}[{at}]"), found);
        }
    } else {
        found.push(path.to_owned());
    }
}

fn name_of(item: &Value) -> Option<&str> {
    item.get("name")?.as_str()
}

/// Whether two values that are not both objects or both lists mean the same.
fn is_written_alike(wanted: &Value, live: &Value) -> bool {
    wanted == live
        || is_unset(wanted)
        || is_left_out(wanted) && is_left_out(live)
        || amount(wanted)
            .zip(amount(live))
            .is_some_and(|(wanted, live)| wanted == live)
}

/// A value as a quantity, if it can be read as one.
pub(super) fn amount(value: &Value) -> Option<Amount> {
    match value {
        Value::String(text) => Amount::parse(text).ok(), // Most texts are no quantities.
        Value::Number(number) => Amount::parse(&number.to_string()).ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// What many a field takes for nothing, and the API server for a place where its default belongs.
fn is_unset(value: &Value) -> bool {
    !value.is_boolean() && !value.is_object() && is_left_out(value)
}

/// What the API server may leave out, for to leave it out means the same.
fn is_left_out(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_left_out),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn deployment() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "m", "namespace": "n", "creationTimestamp": null, "labels": {"app.kubernetes.io/name": "m", keys::MANAGED_BY: "x"}},
            "spec": {"replicas": 1, "strategy": {}, "template": {"spec": {"hostNetwork": false, "volumes": [], "containers": [
                {"name": "manager", "image": "q/m:1", "args": ["-v", "1"], "env": [{"name": "A", "value": "1"}],
                 "resources": {"limits": {"cpu": "1000m", "memory": 1024}}},
            ]}}},
            "status": {"replicas": 7},
        })
    }

    /// Changes the value at `pointer` of a Deployment as it comes back.
    fn changed(pointer: &str, value: Value) -> Vec<String> {
        let mut answer = deployment();
        *answer.pointer_mut(pointer).unwrap() = value;
        altered(&deployment(), &answer)
    }

    #[test]
    fn a_changed_field_is_named() {
        const CONTAINERS: &str = "/spec/template/spec/containers";
        let manager = |field: &str| format!("{CONTAINERS}/0/{field}");
        for (pointer, value, path) in [
            (
                manager("image"),
                json!("mirror/m:1"),
                "spec.template.spec.containers[manager].image",
            ),
            (
                manager("args"),
                json!(["-v", "1", "-x"]),
                "spec.template.spec.containers[manager].args",
            ),
            (
                manager("args"),
                json!(["-v", "2"]),
                "spec.template.spec.containers[manager].args[1]",
            ),
            (
                manager("env"),
                json!([]),
                "spec.template.spec.containers[manager].env[A]",
            ),
            (
                manager("resources/limits/cpu"),
                json!("2"),
                "spec.template.spec.containers[manager].resources.limits.cpu",
            ),
            (
                manager("resources/limits"),
                json!({"cpu": "1"}),
                "spec.template.spec.containers[manager].resources.limits.memory",
            ),
            (
                manager("name"),
                json!("other"),
                "spec.template.spec.containers[manager]",
            ),
            ("/spec/replicas".into(), json!(0), "spec.replicas"),
            ("/spec/replicas".into(), json!(null), "spec.replicas"),
            (
                "/spec/template/spec/hostNetwork".into(),
                json!(true),
                "spec.template.spec.hostNetwork",
            ),
            (
                "/metadata/labels".into(),
                json!({}),
                "metadata.labels[app.kubernetes.io/name]",
            ),
        ] {
            assert_eq!(changed(&pointer, value), [path], "{pointer}");
        }
    }

    #[test]
    fn what_is_added_or_written_in_another_way_is_not() {
        let mut answer = deployment();
        answer["metadata"] =
            json!({"name": "m", "uid": "u", "labels": {"app.kubernetes.io/name": "m", "a": "b"}});
        answer["status"] = json!({});
        answer["spec"] = json!({"replicas": 1.0, "paused": true, "template": {"spec": {"volumes": [{"name": "v"}, {}], "containers": [
            {"name": "sidecar"},
            {"name": "manager", "image": "q/m:1", "imagePullPolicy": "Always", "args": ["-v", "1"],
             "env": [{"name": "A", "value": "1"}, {"name": "B"}], "resources": {"limits": {"cpu": "1", "memory": "1Ki"}}},
        ]}}});
        assert_eq!(altered(&deployment(), &answer), Vec::<String>::new());

        let doubled = json!({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]});
        assert_eq!(altered(&doubled, &doubled), Vec::<String>::new());

        let secret =
            json!({"kind": "Secret", "stringData": {"a": "b"}, "data": {"c": "ZA=="}, "type": ""});
        let answer =
            json!({"kind": "Secret", "data": {"a": "Yg==", "c": "ZA=="}, "type": "Opaque"});
        assert_eq!(altered(&secret, &answer), Vec::<String>::new());
        let webhook =
            |ca: &str| json!({"webhooks": [{"name": "w", "clientConfig": {"caBundle": ca}}]});
        assert_eq!(altered(&webhook("a"), &webhook("b")), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn what_comes_back_as_it_was_sent_is_not_altered(number in any::<f64>(), text in ".*") {
            let sent = json!({"spec": {"a": number, "b": [text, {"name": text}], "c": [[number]]}});
            prop_assert_eq!(altered(&sent, &sent), Vec::<String>::new());
        }
    }
}

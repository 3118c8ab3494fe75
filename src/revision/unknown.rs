//! Fields that the API server does not know.
//!
//! A strict creation is refused because of them, and names them all: `strict decoding error: unknown field "spec.a[0].b"`.
//! Server-side apply refuses them, too, but names only some, in another way: `.spec.a[name="x"].b: field not declared in
//! schema`. What is left out is told to people; the rest of the object is applied, as `kubectl create` with warnings does.

use serde_json::Value;

/// What comes before the name of a field, which a quote ends.
const UNKNOWN: &str = "unknown field \"";
/// How server-side apply says that it does not know a field.
const UNDECLARED: &str = ": field not declared in schema";

/// Whether server-side apply refused an object because of fields that it does not know.
pub fn is_undeclared(refusal: &str) -> bool {
    refusal.contains(UNDECLARED)
}

/// Takes the fields that a strict creation was refused for out of `object`, and tells which those were, as `spec.a[0].b`.
/// None: the refusal is about something else.
pub fn take_out(object: &mut Value, refusal: &str) -> Vec<String> {
    let named = refusal.split(UNKNOWN).skip(1);
    let named = named.filter_map(|rest| Some(rest.split_once('"')?.0));
    let mut taken: Vec<String> = (named.filter(|path| remove(object, path)))
        .map(str::to_owned)
        .collect();
    taken.sort();
    taken
}

/// Takes the field at `path` away; false where there is none.
fn remove(value: &mut Value, path: &str) -> bool {
    match value {
        Value::Object(fields) => {
            let path = path.strip_prefix('.').unwrap_or(path);
            if fields.remove(path).is_some() {
                return true;
            }
            // A name may have dots: whichever of those that are there leads on.
            fields.iter_mut().any(|(name, inner)| {
                let rest = path.strip_prefix(name.as_str());
                rest.is_some_and(|rest| rest.starts_with(['.', '[']) && remove(inner, rest))
            })
        }
        Value::Array(items) => {
            let index = path.strip_prefix('[');
            let found = index.and_then(|index| {
                let (index, rest) = index.split_once(']')?;
                Some((items.get_mut(index.parse::<usize>().ok()?)?, rest))
            });
            found.is_some_and(|(item, rest)| remove(item, rest))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn workload() -> Value {
        json!({"metadata": {"annotations": {"a.b/c": "1"}}, "old": 1, "spec": {"a.b": {"c": 1}, "template": {"containers": [
            {"name": "first", "bogus": 1},
            {"name": "second", "ports": [{"containerPort": 1}, {"containerPort": 2, "bogus": 1}]},
        ]}}})
    }

    #[test]
    fn what_is_named_is_taken_out() {
        for (refusal, taken, at) in [
            (
                r#"Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: unknown field "spec.template.containers[0].bogus", unknown field "old""#,
                vec!["old", "spec.template.containers[0].bogus"],
                vec!["/old", "/spec/template/containers/0/bogus"],
            ),
            (
                r#"strict decoding error: unknown field "spec.template.containers[1].ports[1].bogus""#,
                vec!["spec.template.containers[1].ports[1].bogus"],
                vec!["/spec/template/containers/1/ports/1/bogus"],
            ),
            (
                r#"strict decoding error: unknown field "spec.a.b.c", unknown field "metadata.annotations.a.b/c""#,
                vec!["metadata.annotations.a.b/c", "spec.a.b.c"],
                vec!["/metadata/annotations/a.b~1c", "/spec/a.b/c"],
            ),
        ] {
            let mut object = workload();
            assert_eq!(take_out(&mut object, refusal), taken);
            for pointer in at {
                assert!(workload().pointer(pointer).is_some(), "{pointer}");
                assert_eq!(object.pointer(pointer), None);
            }
        }
    }

    #[test]
    fn what_is_not_there_or_not_meant_stays() {
        for refusal in [
            "",
            "field is immutable",
            r#"unknown field ""#,
            r#"unknown field """#,
            r#"unknown field "spec.nothing""#,
            r#"unknown field "spec.template.containers[7].bogus""#,
            r#"unknown field "spec.template.containers[x].bogus""#,
            r#"unknown field "spec.template.containers[0]""#,
            r#"unknown field "spec.template.containers[0""#,
            " .old: field not declared in schema",
        ] {
            let mut object = workload();
            assert_eq!(take_out(&mut object, refusal), Vec::<String>::new());
            assert_eq!(object, workload(), "{refusal}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_is_a_panic(path in r#"[ .\[\]a-c="0-9,é]{0,30}"#) {
            let mut object = json!({"a": [{"b": [1, {"c": 1}]}], "b": {"a": {"c": "é"}}, "c": "1"});
            take_out(&mut object, &format!("unknown field \"{path}\""));
        }
    }
}

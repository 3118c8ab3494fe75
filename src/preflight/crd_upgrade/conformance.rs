//! The recorded verdicts of the reference (`oracle/crdsafety`), and hostile input.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Definition, Finding, Pool, Severity, check, json_form};
use crate::testing::conformance::{Archive, Row, Score, Set};

/// Old and new CRD of a row: inline, or files of the archive.
fn sides(row: &Row, folder: Option<(&Archive, &str)>) -> (Value, Value) {
    let side = |name: &str| match folder {
        None => row.value[name].clone(),
        Some((archive, part)) => {
            let path = format!("{part}/{}/{name}.json", row.text("dir"));
            serde_json::from_slice(&archive.files[&path]).unwrap()
        }
    };
    (side("old"), side("new"))
}

fn errors(old: &Value, new: &Value) -> Result<Vec<String>, String> {
    let mut pool = Pool::default();
    let mut read = |value: &Value| {
        Definition::read(&mut pool, value).map_err(|error| crate::error::chain(&error))
    };
    let old = match old {
        Value::Null => None,
        old => Some(read(old)?),
    };
    let mut lines: Vec<String> = check(old.as_ref(), &read(new)?)
        .into_iter()
        .filter(|finding| finding.severity == Severity::Error)
        .map(|finding| finding.message)
        .collect();
    lines.sort_unstable();
    Ok(lines)
}

/// What of a line is the same in every run of the reference.
fn key(line: &str) -> String {
    const UNHANDLED: &str = "unhandled changes found";
    if let Some((before, _)) = line.split_once(UNHANDLED) {
        return format!("{before}{UNHANDLED}");
    }
    match line.split_once(": [&JSONSchemaProps") {
        Some((before, _)) => before.to_owned(),
        None => line.to_owned(),
    }
}

/// Whether a key comes and goes in the reference: what a CRD had already between served versions is taken out by
/// comparing texts, and a list of several names has a random order there.
fn comes_and_goes(key: &str) -> bool {
    key.contains(" -> ")
        && key
            .split_once(": required: new required fields: ")
            .is_some_and(|(_, names)| names.contains(' '))
}

fn strings(value: &Value) -> Vec<String> {
    let list = value.as_array().cloned().unwrap_or_default();
    list.iter()
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}

fn is_set(row: &Row, name: &str, default: bool) -> bool {
    row.value[name].as_bool().unwrap_or(default)
}

#[test]
fn verdicts_keys_and_texts_are_the_references() {
    let Some(set) = Set::open("oracle/crdsafety") else {
        return;
    };
    let mut verdicts = Score::new("oracle/crdsafety verdicts", &set);
    let mut keys = Score::new("oracle/crdsafety keys", &set);
    let mut texts = Score::new("oracle/crdsafety texts", &set);
    let mut judge = |row: &Row, folder: Option<(&Archive, &str)>| {
        let (old, new) = sides(row, folder);
        let found = errors(&old, &new);
        let Some(passes) = row.value["pass"].as_bool() else {
            return; // The reference panicked; that we do not is another test.
        };
        if is_set(row, "pass_flaps", false) {
            return;
        }
        let id = match row.text("id") {
            "" => row.text("dir"),
            id => id,
        };
        let same = |expected: &[String], found: &[String]| {
            let missing: Vec<_> = expected
                .iter()
                .filter(|line| !found.contains(line))
                .collect();
            let surplus: Vec<_> = found
                .iter()
                .filter(|line| !expected.contains(line))
                .collect();
            if expected == found {
                Ok(())
            } else {
                Err(format!("missing {missing:#?}, surplus {surplus:#?}"))
            }
        };
        verdicts.count(
            id,
            match &found {
                Ok(lines) if lines.is_empty() == passes => Ok(()),
                other => Err(format!("expected pass {passes}, got {other:?}")),
            },
        );
        let found = found.unwrap_or_default();
        if is_set(row, "keys_stable", true) {
            let mut found: Vec<_> = found.iter().map(|line| key(line)).collect();
            found.sort_unstable();
            let mut expected = strings(&row.value["keys"]);
            if !is_set(row, "text_stable", true) {
                found.retain(|key| !comes_and_goes(key));
                expected.retain(|key| !comes_and_goes(key));
            }
            keys.count(id, same(&expected, &found));
        }
        if is_set(row, "text_stable", true) && row.value["findings"].is_array() {
            texts.count(id, same(&strings(&row.value["findings"]), &found));
        }
    };
    for row in &set.rows {
        judge(row, None);
    }
    for archive in &set.archives {
        let mut parts: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
        for path in archive.files.keys() {
            if let Some(part) = path.strip_suffix("/cases.jsonl") {
                parts.insert(part, archive.rows(path));
            }
        }
        for (part, rows) in &parts {
            for row in rows {
                judge(row, Some((archive, part)));
            }
        }
    }
    verdicts.finish();
    keys.finish();
    texts.finish();
}

fn crd(versions: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "names": {"kind": "Thing", "plural": "things"}, "scope": "Namespaced", "versions": versions},
    })
}

fn findings(old: &Value, new: &Value) -> Vec<Finding> {
    let mut pool = Pool::default();
    let old = Definition::read(&mut pool, old).unwrap();
    check(Some(&old), &Definition::read(&mut pool, new).unwrap())
}

#[test]
fn a_version_without_schema_is_no_panic() {
    let with = crd(
        &json!([{"name": "v1", "served": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]),
    );
    let without = crd(&json!([{"name": "v1", "served": true}]));
    assert_eq!(findings(&without, &with).len(), 0);
    let lines: Vec<String> = findings(&with, &without)
        .into_iter()
        .map(|f| f.message)
        .collect();
    assert_eq!(
        lines,
        [
            "existingFieldRemoval: removed field : v1.^",
            "v1: ^: type: type changed : \"object\" -> \"\"",
            "missingSchema: version v1 has no schema",
        ]
    );
}

#[test]
fn what_the_reference_neglects_is_a_warning() {
    let version = |name: &str, served: bool, storage: bool, more: Value| {
        let mut version = json!({"name": name, "served": served, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object"}}});
        version
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        version
    };
    let mut old = crd(&json!([
        version(
            "v1",
            true,
            true,
            json!({"subresources": {"status": {}, "scale": {}}, "additionalPrinterColumns": [{"name": "Age"}]})
        ),
        version("v2", true, false, json!({})),
        version("v3", true, false, json!({})),
    ]));
    old["spec"]["names"]["shortNames"] = json!(["th"]);
    let mut new = crd(&json!([
        version("v1", true, false, json!({"subresources": {"status": {}}})),
        version("v2", false, true, json!({})),
    ]));
    new["spec"]["names"]["kind"] = json!("Other");
    new["spec"]["conversion"] = json!({"strategy": "Webhook"});
    let found = findings(&old, &new);
    assert!(!super::is_refused(&found));
    let lines: Vec<String> = found.into_iter().map(|f| f.message).collect();
    insta::assert_yaml_snapshot!(lines);
}

#[test]
fn a_refusal_has_the_references_form() {
    let schema =
        |kind: &str| json!([{"name": "v1", "schema": {"openAPIV3Schema": {"type": kind}}}]);
    let mut new = crd(&schema("string"));
    new["spec"]["scope"] = json!("Cluster");
    let found = findings(&crd(&schema("object")), &new);
    assert_eq!(
        super::refusal("things.example.com", &found),
        "validating upgrade for CRD \"things.example.com\": scope: scope changed : \"Namespaced\" -> \"Cluster\"\n\
         v1: ^: type: type changed : \"object\" -> \"string\""
    );
}

/// Schemas with every field that is compared, of right and of wrong types.
fn any_schema() -> impl Strategy<Value = Value> {
    let text = prop_oneof!["[a-z:\\-+\n\"`é\u{1}]{0,80}", Just(String::new())];
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Others may come back from a text a little different.
        (-16..16).prop_map(|quarters| Value::from(f64::from(quarters) / 4.0)),
        text.clone().prop_map(Value::from),
        prop::collection::vec(text.clone(), 0..5).prop_map(Value::from),
    ];
    let leaf = (
        prop::sample::select(vec![
            "type",
            "format",
            "title",
            "description",
            "default",
            "example",
            "enum",
            "maximum",
            "minLength",
            "required",
            "pattern",
            "nullable",
            "uniqueItems",
            "x-kubernetes-list-type",
            "x-kubernetes-list-map-keys",
            "x-kubernetes-validations",
            "externalDocs",
            "$ref",
        ]),
        scalar,
    )
        .prop_map(|(name, value)| json!({name: value}));
    leaf.prop_recursive(4, 24, 4, |inner| {
        let many = prop::collection::vec(inner.clone(), 0..4);
        (
            many,
            prop::sample::select(vec![
                "properties",
                "items",
                "allOf",
                "oneOf",
                "anyOf",
                "not",
                "additionalProperties",
                "patternProperties",
                "dependencies",
                "additionalItems",
                "definitions",
                "both",
            ]),
        )
            .prop_map(|(inner, name)| match name {
                "items" | "not" | "additionalProperties" | "additionalItems" => {
                    json!({name: inner.first().cloned().unwrap_or(Value::Bool(true))})
                }
                "allOf" | "oneOf" | "anyOf" => json!({name: inner}),
                "both" => inner.into_iter().fold(json!({}), |mut all, one| {
                    all.as_object_mut()
                        .unwrap()
                        .extend(one.as_object().unwrap().clone());
                    all
                }),
                _ => {
                    // Names of which the path could be that of another node, too.
                    const NAMES: [&str; 4] = ["p", "p.q", "items", "allOf[0]"];
                    let named: serde_json::Map<_, _> = inner
                        .into_iter()
                        .zip(NAMES)
                        .map(|(schema, name)| (name.to_owned(), schema))
                        .collect();
                    json!({name: named})
                }
            })
    })
}

proptest! {
    #[test]
    fn no_schema_makes_it_panic(old in any_schema(), new in any_schema(), other in any_schema()) {
        let (old, new) = (crd(&two_versions(&old, &other)), crd(&two_versions(&new, &other)));
        let mut pool = Pool::default();
        let (old, new) = (Definition::read(&mut pool, &old), Definition::read(&mut pool, &new));
        if let (Ok(old), Ok(new)) = (old, new) {
            let first = check(Some(&old), &new);
            prop_assert_eq!(&first, &check(Some(&old), &new));
            prop_assert!(!super::is_refused(&check(Some(&old), &old)));
        }
    }

    /// What both sides share is passed over, and that changes nothing.
    #[test]
    fn sharing_is_no_difference(one in any_schema(), other in any_schema(), third in any_schema()) {
        let below = |schema: &Value, name: &str| json!({"properties": {name: schema, "same": &third}, "items": &third});
        for name in ["changed", "items", "same.p"] {
            let old = crd(&two_versions(&below(&one, name), &below(&other, name)));
            let new = crd(&two_versions(&below(&other, name), &below(&one, name)));
            let mut pool = Pool::default();
            let shared = (Definition::read(&mut pool, &old), Definition::read(&mut pool, &new));
            let own = |crd| Definition::read(&mut Pool::default(), crd);
            if let ((Ok(old), Ok(new)), (Ok(x), Ok(y))) = (shared, (own(&old), own(&new))) {
                prop_assert_eq!(check(Some(&old), &new), check(Some(&x), &y));
            }
        }
    }

    /// As JSON, as a tree of it, and as the JSON that is made of what was read.
    #[test]
    fn every_way_of_reading_gives_the_same(schema in any_schema(), other in any_schema()) {
        let object = crd(&two_versions(&schema, &other));
        let mut pool = Pool::default();
        let read = Definition::read(&mut pool, &object);
        let parsed = Definition::parse(&mut pool, object.to_string().as_bytes());
        let (read, parsed) = match (read, parsed) {
            (Err(read), Err(parsed)) => {
                prop_assert_eq!(crate::error::chain(&read), crate::error::chain(&parsed));
                return Ok(());
            }
            (read, parsed) => (read.unwrap(), parsed.unwrap()),
        };
        let schemas: Vec<Value> = read
            .versions
            .iter()
            .map(|version| json_form::of_schema(version.schema.as_ref().unwrap()))
            .collect();
        let again = crd(&two_versions(&schemas[0], &schemas[1]));
        let again = Definition::read(&mut pool, &again).unwrap();
        for other in [&parsed, &again] {
            prop_assert_eq!(check(Some(&read), other), vec![]);
            for (one, other) in read.versions.iter().zip(&other.versions) {
                prop_assert!(one.schema.as_ref().unwrap().is_one_with(other.schema.as_ref().unwrap()));
            }
        }
    }
}

fn two_versions(schema: &Value, other: &Value) -> Value {
    json!([
        {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
        {"name": "v2", "served": true, "schema": {"openAPIV3Schema": other}},
    ])
}

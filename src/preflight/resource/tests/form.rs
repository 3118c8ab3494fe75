//! What the form of a schema allows, prepares and would lose.

use super::*;

#[test]
fn nulls_defaults_and_unknown_fields_are_handled_first() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "string", "default": "x"},
        "b": {"type": "string", "nullable": true, "default": "y"},
        "c": {"type": "string"},
        "d": {"type": "object", "default": {}, "properties": {"e": {"type": "integer", "default": 1}}},
        "f": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "g": {"type": "object", "properties": {"h": {"type": "string"}}}}},
        "i": {"type": "array", "items": {"type": "object", "properties": {"j": {"type": "integer", "default": 2}}}},
        "k": {"type": "object", "additionalProperties": {"type": "integer", "default": 3}},
        "l": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"m": {"type": "string"}}},
    }}}});
    let resource = json!({"apiVersion": "g/v1", "kind": "T", "metadata": {"name": "n"}, "status": 1, "spec": {
        "a": null, "b": null, "c": null, "z": 1, "f": {"any": 1, "g": {"h": "x", "gone": 1}},
        "i": [{"gone": 1}], "k": {"n": null}, "l": {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "gone": 1},
    }});
    assert_eq!(
        validator(&schema).prepared(&resource),
        json!({"apiVersion": "g/v1", "kind": "T", "metadata": {"name": "n"}, "spec": {
            "a": "x", "b": null, "d": {"e": 1}, "f": {"any": 1, "g": {"h": "x"}}, "i": [{"j": 2}], "k": {"n": 3},
            "l": {"apiVersion": "v1", "kind": "Pod", "metadata": {}},
        }})
    );
    let kept = Validator::new(&schema, true)
        .unwrap()
        .prepared(&json!({"z": 1}));
    assert_eq!(kept, json!({"z": 1}));
}

#[test]
fn the_form_is_checked() {
    let x = |schema: Value| json!({"type": "object", "properties": {"x": schema}});
    for (schema, value, expected) in [
        (
            json!({"type": "string"}),
            json!(1),
            "x: must be of type string, is integer",
        ),
        (
            json!({"type": "integer"}),
            json!(1.5),
            "x: must be of type integer, is number",
        ),
        (json!({"type": "integer"}), json!(2.0), ""),
        (json!({"type": "number"}), json!(1), ""),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            "x: must be of type integer or string, is boolean",
        ),
        (json!({"type": "string", "nullable": true}), json!(null), ""),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            json!([null]),
            "x[0]: must be of type string, is null",
        ),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("c"),
            "x: is \"c\", which is none of \"a\", \"b\"",
        ),
        (
            json!({"type": "string", "minLength": 2}),
            json!("é"),
            "x: must have at least 2 characters, has 1",
        ),
        (
            json!({"type": "string", "maxLength": 1}),
            json!("ab"),
            "x: must have at most 1 characters, has 2",
        ),
        (
            json!({"type": "string", "pattern": "^a"}),
            json!("b"),
            "x: must match ^a",
        ),
        (
            json!({"type": "string", "format": "date"}),
            json!("b"),
            "x: must be of format date",
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(3_000_000_000_i64),
            "x: must be of format int32",
        ),
        (
            json!({"type": "integer", "minimum": 1}),
            json!(0),
            "x: must be at least 1, is 0",
        ),
        (
            json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true}),
            json!(1),
            "x: must be greater than 1, is 1",
        ),
        (
            json!({"type": "integer", "maximum": 1}),
            json!(2),
            "x: must be at most 1, is 2",
        ),
        (
            json!({"type": "integer", "maximum": 1, "exclusiveMaximum": true}),
            json!(1),
            "x: must be less than 1, is 1",
        ),
        (
            json!({"type": "number", "multipleOf": 0.5}),
            json!(0.7),
            "x: must be a multiple of 0.5, is 0.7",
        ),
        (
            json!({"type": "array", "minItems": 1}),
            json!([]),
            "x: must have at least 1 items, has 0",
        ),
        (
            json!({"type": "array", "uniqueItems": true}),
            json!([1, 1]),
            "x: must not have an item twice",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set"}),
            json!(["a", "a"]),
            "x[1]: \"a\" is there twice",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}}}}),
            json!([{"k": "a"}, {"k": "a"}]),
            "x[1]: a second element with the same k",
        ),
        (
            json!({"type": "object", "required": ["a"]}),
            json!({}),
            "x.a: is required",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"k": 1}),
            "x.k: must be of type string, is integer",
        ),
        (
            json!({"type": "object", "maxProperties": 0, "x-kubernetes-preserve-unknown-fields": true}),
            json!({"k": 1}),
            "x: must have at most 0 properties, has 1",
        ),
        (
            json!({"type": "string", "allOf": [{"minLength": 2}]}),
            json!("a"),
            "x: must have at least 2 characters, has 1",
        ),
        (
            json!({"type": "string", "anyOf": [{"minLength": 2}]}),
            json!("a"),
            "x: must match one of the schemas of anyOf",
        ),
        (
            json!({"type": "string", "oneOf": [{"minLength": 2}]}),
            json!("a"),
            "x: must match one of the schemas of oneOf",
        ),
        (
            json!({"type": "string", "oneOf": [{"minLength": 1}, {"maxLength": 1}]}),
            json!("a"),
            "x: must match only one of the schemas of oneOf",
        ),
        (
            json!({"type": "string", "not": {"enum": ["a"]}}),
            json!("a"),
            "x: must not match the schema of not",
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            json!({"apiVersion": "v1"}),
            "x.kind: must be a text that is not empty",
        ),
    ] {
        let found = problems(&x(schema.clone()), &json!({"x": value}));
        let expected: Vec<&str> = Some(expected)
            .filter(|text| !text.is_empty())
            .into_iter()
            .collect();
        assert_eq!(found, expected, "{schema} {value}");
    }
}

#[test]
fn what_would_be_lost_is_found() {
    let schema = |fields: Value| json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
    let list =
        |fields: Value| json!({"type": "array", "items": {"type": "object", "properties": fields}});
    let old = validator(&schema(
        json!({"a": {"type": "string", "nullable": true}, "l": list(json!({"x": {}, "y": {}}))}),
    ));
    let new = validator(&schema(json!({"l": list(json!({"x": {}}))})));
    for (spec, expected) in [
        (json!({}), None),
        (json!({"a": null, "l": [{"x": 1}], "unknown": 1}), None),
        (json!({"a": "b"}), Some("spec.a")),
        (json!({"l": [{"x": 1}, {"y": {}}]}), Some("spec.l[1].y")),
    ] {
        let resource = json!({"spec": spec});
        let lost = lost(&old.prepared(&resource), &new.prepared(&resource));
        assert_eq!(lost.as_deref(), expected, "{spec}");
    }
}

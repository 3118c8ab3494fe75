//! What random schemas seldom hit: the edges of numbers, lengths, defaults, lists and embedded objects.

use serde_json::{Value, json};

/// Schemas of a field, each with values for it.
#[expect(clippy::too_many_lines, reason = "it is a table")]
pub(super) fn schemas() -> Vec<(Value, Vec<Value>)> {
    let big = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let number = |more: Value| with(json!({"type": "number"}), more);
    let integer = |more: Value| with(json!({"type": "integer"}), more);
    let text = |more: Value| with(json!({"type": "string"}), more);
    let texts = [
        "",
        "a",
        "é",
        "e\u{301}",
        "日本語",
        "👍🏽",
        "👨‍👩‍👧",
        "a\u{0}b",
        "\u{feff}a",
    ]
    .map(|one| json!(one));
    let numbers: Vec<Value> = [
        "0",
        "-0",
        "-0.0",
        "1",
        "1.0",
        "1e0",
        "10e-1",
        "1.5",
        "0.1",
        "0.3",
        "0.30000000000000004",
        "0.7",
        "1e3",
        "1E3",
        "1000",
        "2147483647",
        "2147483648",
        "-2147483649",
        "9007199254740991",
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "1e19",
        "1e300",
        "3.4e38",
        "3.5e38",
        "4.35",
        "2.675",
        "1.1",
        "100.00000000000001",
    ]
    .into_iter()
    .map(big)
    .collect();
    vec![
        (number(json!({})), numbers.clone()),
        (integer(json!({})), numbers.clone()),
        (integer(json!({"format": "int32"})), numbers.clone()),
        (integer(json!({"format": "int64"})), numbers.clone()),
        (number(json!({"format": "float"})), numbers.clone()),
        (number(json!({"format": "double"})), numbers.clone()),
        (number(json!({"format": "int32"})), numbers.clone()),
        (number(json!({"multipleOf": 0.1})), numbers.clone()),
        (number(json!({"multipleOf": 0.01})), numbers.clone()),
        (number(json!({"multipleOf": 0.05})), numbers.clone()),
        (integer(json!({"multipleOf": 1000})), numbers.clone()),
        (
            integer(json!({"maximum": 9_223_372_036_854_775_807_i64})),
            numbers.clone(),
        ),
        (
            integer(json!({"minimum": -9_223_372_036_854_775_808_i64, "exclusiveMinimum": true})),
            numbers.clone(),
        ),
        (
            number(json!({"maximum": 0.3, "exclusiveMaximum": true})),
            numbers.clone(),
        ),
        (number(json!({"minimum": 0.3})), numbers.clone()),
        (
            integer(json!({"enum": [1, 1000, 9_007_199_254_740_993_i64]})),
            numbers.clone(),
        ),
        (number(json!({"enum": [1, 0.3, 1000.0]})), numbers.clone()),
        (
            json!({"x-kubernetes-int-or-string": true, "enum": [1, "1"]}),
            vec![json!(1), json!("1"), json!(1.0), json!(2), json!(true)],
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "minLength": 2, "minimum": 5}),
            vec![json!(1), json!("1"), json!(7), json!("77"), json!(1.5)],
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "nullable": true}),
            vec![json!(null), json!(1), json!(1.5), json!("")],
        ),
        (text(json!({"minLength": 2})), texts.to_vec()),
        (text(json!({"maxLength": 1})), texts.to_vec()),
        (
            text(
                json!({"maxLength": 3, "x-kubernetes-validations": [{"rule": "self.size() == 1"}]}),
            ),
            texts.to_vec(),
        ),
        (text(json!({"pattern": "^.$"})), texts.to_vec()),
        (text(json!({"pattern": "^\\p{L}+$"})), texts.to_vec()),
        (text(json!({"pattern": "\\bé|^$"})), texts.to_vec()),
        (text(json!({"pattern": "^[[:alpha:]]$"})), texts.to_vec()),
        (
            text(json!({"pattern": "^\\w$|a(?i)B"})),
            [&texts[..], &[json!("aB"), json!("ab"), json!("AB")]].concat(),
        ),
        (
            text(json!({"enum": ["a", "é"], "nullable": true})),
            [&texts[..], &[json!(null)]].concat(),
        ),
        (
            text(json!({"default": "a"})),
            vec![json!(null), json!("b"), json!(1)],
        ),
        (
            text(json!({"default": "a", "nullable": true})),
            vec![json!(null), json!("b")],
        ),
        (
            text(
                json!({"default": "abc", "maxLength": 3, "x-kubernetes-validations": [{"rule": "self == 'abc'"}]}),
            ),
            vec![json!(null), json!("b")],
        ),
        (
            json!({"type": "object", "default": {}, "required": ["a"], "properties": {"a": {"type": "string", "default": "x"}}}),
            vec![json!({}), json!(null), json!({"a": null}), json!({"a": 1})],
        ),
        (
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "nullable": true}}}),
            vec![json!({}), json!({"a": null}), json!({"a": ""})],
        ),
        (
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}),
            vec![json!({}), json!({"a": null})],
        ),
        (
            json!({"type": "object", "minProperties": 1, "properties": {"a": {"type": "string"}}}),
            vec![
                json!({}),
                json!({"a": null}),
                json!({"b": 1}),
                json!({"a": "a"}),
            ],
        ),
        (
            json!({"type": "object", "maxProperties": 1, "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "string"}}}),
            vec![json!({}), json!({"b": "b"}), json!({"c": "b"})],
        ),
        (
            json!({"type": "object", "minProperties": 2, "x-kubernetes-preserve-unknown-fields": true}),
            vec![json!({}), json!({"a": 1, "b": null}), json!({"a": 1})],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer", "nullable": true}}),
            vec![
                json!({"a": null}),
                json!({"a": 1}),
                json!({"a": "1"}),
                json!({"": 1}),
            ],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer", "default": 5, "maximum": 6}}),
            vec![json!({"a": null}), json!({"a": 7}), json!({})],
        ),
        (
            json!({"type": "object", "additionalProperties": true}),
            vec![json!({"a": null}), json!({"a": {"b": 1}})],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}}),
            vec![
                json!({"x": {}}),
                json!({"x": {"a": "1", "z": 1}}),
                json!({"x": null}),
            ],
        ),
        (
            json!({"type": "array", "items": {"type": "string", "nullable": true}}),
            vec![json!([null]), json!(["a", null]), json!([1])],
        ),
        (
            json!({"type": "array", "items": {"type": "string", "default": "x"}}),
            vec![json!([null]), json!(["a", null])],
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "nullable": true, "minItems": 1}),
            vec![json!(null), json!([]), json!(["a"])],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}),
            vec![json!([1, 1]), json!([1, 2]), json!([1, 1.0]), json!([null])],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "number"}}),
            vec![json!([1, 1.0]), json!([1.5, 1.5]), json!([0.0, -0.0])],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}}}),
            vec![
                json!([["a"], ["a"]]),
                json!([["a"], ["b"]]),
                json!([[], []]),
            ],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string", "default": "x"}}}}),
            vec![
                json!([{}, {"a": "x"}]),
                json!([{}, {}]),
                json!([{"a": "1"}, {"a": "2"}]),
            ],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"], "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "p": {"type": "integer", "default": 1}, "v": {"type": "string"}}}}),
            vec![
                json!([{"k": "a"}, {"k": "a"}]),
                json!([{"k": "a"}, {"k": "a", "p": 1}]),
                json!([{"k": "a"}, {"k": "a", "p": 2}]),
                json!([{"k": "a", "p": 1}, {"k": "a", "p": 1.0}]),
                json!([{}]),
                json!([null]),
            ],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            vec![
                json!({}),
                json!({"apiVersion": "v1", "kind": "Pod"}),
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}}),
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}),
                json!({"apiVersion": "a/b/c", "kind": "Pod", "metadata": {"name": "x"}}),
                json!({"apiVersion": "v1", "kind": "po d", "metadata": {"name": "x"}}),
                json!({"apiVersion": "v1", "kind": "", "metadata": {"name": "x"}}),
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "X_y"}}),
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {"a b": "c"}}}),
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {"a": 1}}}),
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a/b"}}),
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "N"}}),
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": {"A/B": "any thing"}}}),
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"example.com/a": "b_c"}}}),
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "x"}}),
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": 1}),
                json!({"apiVersion": 1, "kind": "Pod", "metadata": {"name": "x"}}),
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "unknown": 1}}),
            ],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}}}),
            vec![
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}}),
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"a": "b"}}),
                json!({"apiVersion": "v1", "kind": "Pod", "spec": {"a": "b"}}),
            ],
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}, "maxProperties": 1}}}),
            vec![
                json!({"a": {"b": "1", "c": 2}, "d": null}),
                json!({"a": {"b": 1}}),
            ],
        ),
        (
            json!({"x-kubernetes-preserve-unknown-fields": true}),
            vec![
                json!(null),
                json!(1),
                json!("a"),
                json!([null]),
                json!({"a": null}),
            ],
        ),
        (
            json!({"type": "string", "anyOf": [{"enum": ["a"]}, {"minLength": 3}], "not": {"pattern": "x"}}),
            vec![json!("a"), json!("ab"), json!("abc"), json!("abx")],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            vec![
                json!({}),
                json!({"a": ""}),
                json!({"a": "", "b": ""}),
                json!({"a": null, "b": ""}),
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "string"}}, "not": {"required": ["a", "b"]}}),
            vec![json!({}), json!({"b": ""}), json!({"a": "", "b": ""})],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "integer"}}, "allOf": [{"properties": {"a": {"minimum": 2}}}, {"properties": {"a": {"multipleOf": 3}}}]}),
            vec![json!({"a": 1}), json!({"a": 4}), json!({"a": 6}), json!({})],
        ),
        (
            json!({"type": "array", "items": {"type": "integer"}, "anyOf": [{"items": {"minimum": 5}}, {"maxItems": 1}]}),
            vec![json!([1]), json!([1, 2]), json!([5, 6])],
        ),
    ]
}

fn with(mut schema: Value, more: Value) -> Value {
    if let (Some(into), Value::Object(more)) = (schema.as_object_mut(), more) {
        into.extend(more);
    }
    schema
}

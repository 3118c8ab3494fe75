use serde_json::{Value, json};

use super::*;

fn selector(value: Value) -> LabelSelector {
    serde_json::from_value(value).unwrap()
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn requirements_must_all_hold() {
    let prod = labels(&[("env", "prod"), ("team", "x")]);
    for (value, matches) in [
        (json!({}), true),
        (json!({"matchLabels": {"env": "prod"}}), true),
        (json!({"matchLabels": {"env": "prod", "team": "y"}}), false),
        (
            json!({"matchExpressions": [{"key": "env", "operator": "In", "values": ["dev", "prod"]}]}),
            true,
        ),
        (
            json!({"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]}),
            false,
        ),
        (
            json!({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}),
            true,
        ),
        (
            json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]}),
            false,
        ),
        (
            json!({"matchExpressions": [{"key": "zone", "operator": "DoesNotExist", "values": []}]}),
            true,
        ),
    ] {
        let parsed = Selector::parse(Some(&selector(value.clone()))).unwrap();
        assert_eq!(parsed.matches(&prod), matches, "{value}");
    }
    assert!(Selector::parse(None).unwrap().matches(&labels(&[])));
}

#[test]
fn what_is_wrong_is_said_in_the_api_machinery_s_words() {
    let long = "a".repeat(64);
    for (value, text) in [
        (
            json!({"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]}),
            "\"in\" is not a valid label selector operator".to_owned(),
        ),
        (
            json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty".to_owned(),
        ),
        (
            json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x", "y"]}]}),
            "values: Invalid value: [\"x\",\"y\"]: values set must be empty for exists and does not exist".to_owned(),
        ),
        (
            json!({"matchLabels": {"/a": "b"}}),
            "key: Invalid value: \"/a\": prefix part must be non-empty".to_owned(),
        ),
        (
            json!({"matchLabels": {"a": long}}),
            format!("values[0][a]: Invalid value: \"{long}\": must be no more than 63 bytes"),
        ),
        (
            json!({"matchLabels": {long.clone(): "b"}}),
            format!("key: Invalid value: \"{long}\": name part must be no more than 63 bytes"),
        ),
    ] {
        let error = Selector::parse(Some(&selector(value))).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
    for (key, beginning) in [
        (
            "",
            "key: Invalid value: \"\": name part must be non-empty; name part must consist of",
        ),
        (
            "a/b/c",
            "key: Invalid value: \"a/b/c\": a qualified name must consist of",
        ),
        (
            "A/b",
            "key: Invalid value: \"A/b\": prefix part a lowercase RFC 1123 subdomain must consist of",
        ),
    ] {
        let error =
            Selector::parse(Some(&selector(json!({"matchLabels": {key: "v"}})))).unwrap_err();
        assert!(error.to_string().starts_with(beginning), "{error}");
    }
    let two = json!({"matchExpressions": [{"key": "a b", "operator": "In", "values": []}]});
    let error = Selector::parse(Some(&selector(two)))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("[key: ") && error.ends_with("can't be empty]"),
        "{error}"
    );
}

#[test]
fn a_selector_is_read_as_people_write_it() {
    let prod = labels(&[("env", "prod"), ("olm/name", "x")]);
    for (text, matches) in [
        ("", true),
        ("env=prod", true),
        ("env == prod , olm/name!=y", true),
        ("env in (dev, prod),olm/name", true),
        ("env notin (prod)", false),
        ("!zone", true),
        ("!env", false),
    ] {
        let parsed = parse_text(text).unwrap();
        let selector = Selector::parse(Some(&parsed)).unwrap();
        assert_eq!(selector.matches(&prod), matches, "{text}");
    }
    for text in ["a b", "a within (b)", "(x)", "=a"] {
        assert!(parse_text(text).is_err(), "{text}");
    }
}

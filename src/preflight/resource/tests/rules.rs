//! Rules are evaluated as an API server evaluates them.

use super::*;

/// Whether a rule about `self` holds for a value of a schema.
#[track_caller]
fn rule(schema: &Value, value: &Value, rule: &str, holds: bool) {
    let mut field = schema.clone();
    field["x-kubernetes-validations"] = json!([{"rule": rule, "message": "broken"}]);
    let root = json!({"type": "object", "properties": {"x": field}});
    let found = problems(&root, &json!({"x": value}));
    assert_eq!(found.is_empty(), holds, "{rule} of {value}: {found:?}");
}

#[test]
fn rules_are_evaluated() {
    let any = json!({"type": "integer"});
    for (expression, holds) in [
        ("1 + 2 * 3 == 7", true),
        ("-7 / 2 == -3 && -7 % 2 == -1", true),
        ("self == 5", true),
        ("self / 0 == 1", false),
        ("false && self / 0 == 1", false),
        ("self / 0 == 1 || true", true),
        ("true || self / 0 == 1", true),
        ("9223372036854775807 + self > 0", false),
        ("-9223372036854775808 < 0", true),
        ("0x10 == 16 && 1e2 == 100.0 && 3u == 3", true),
        ("1 == 1.0 && 2 > 1.5", true),
        ("self in [1, 5] && !(self in {'a': 1})", true),
        (
            "[1, 2, 3].all(x, x > 0) && [1, 2].exists(x, x == 2) && [1, 2].exists_one(x, x == 2)",
            true,
        ),
        (
            "[1, 2, 3].map(x, x * 2) == [2, 4, 6] && [1, 2, 3].filter(x, x > 1) == [2, 3]",
            true,
        ),
        ("[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]", true),
        (
            "{'a': 1}.all(k, k == 'a') && {'a': 1}['a'] == 1 && {'a': 1}.a == 1",
            true,
        ),
        (
            "[3, 4].all(i, v, v - i == 3) && {'a': 2}.exists(k, v, k == 'a' && v == 2)",
            true,
        ),
        ("(self > 3 ? 'big' : 'small') == 'big'", true),
        ("'héllo'.size() == 5 && size('abc') == 3", true),
        (
            "'abc'.contains('b') && 'abc'.startsWith('a') && 'abc'.endsWith('c')",
            true,
        ),
        ("'a1'.matches('^[a-z]\\\\d$') && !'b'.matches(r'^a')", true),
        (
            "'abc'.charAt(1) == 'b' && 'abcb'.indexOf('b') == 1 && 'abcb'.lastIndexOf('b') == 3",
            true,
        ),
        (
            "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c']",
            true,
        ),
        (
            "'abc'.substring(1) == 'bc' && 'abc'.substring(0, 2) == 'ab' && ' a '.trim() == 'a'",
            true,
        ),
        (
            "'aXbX'.replace('X', '-') == 'a-b-' && 'aXbX'.replace('X', '-', 1) == 'a-bX'",
            true,
        ),
        (
            "'Ab'.lowerAscii() == 'ab' && 'Ab'.upperAscii() == 'AB' && ['a', 'b'].join('-') == 'a-b'",
            true,
        ),
        (
            "'a1b22'.find('[0-9]+') == '1' && 'a1b22'.findAll('[0-9]+') == ['1', '22']",
            true,
        ),
        (
            "[1, 2].isSorted() && [1, 2].sum() == 3 && [2, 1].min() == 1 && [2, 1].max() == 2",
            true,
        ),
        (
            "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2",
            true,
        ),
        (
            "sets.contains([1, 2], [2]) && sets.equivalent([1, 2], [2, 1]) && sets.intersects([1], [1, 2])",
            true,
        ),
        (
            "duration('1h30m') == duration('90m') && duration('1.5s') > duration('1s')",
            true,
        ),
        (
            "timestamp('2024-01-01T00:00:00Z') + duration('24h') == timestamp('2024-01-02T00:00:00Z')",
            true,
        ),
        (
            "timestamp('2024-03-01T12:34:56Z').getFullYear() == 2024",
            true,
        ),
        (
            "timestamp('2024-03-01T12:34:56Z').getMonth() == 2 && duration('90m').getHours() == 1",
            true,
        ),
        (
            "string(5) + 'a' == '5a' && int('5') == 5 && double('1.5') == 1.5 && bool('true')",
            true,
        ),
        (
            "string(duration('90s')) == '90s' && string(1.5) == '1.5' && int(2.9) == 2",
            true,
        ),
        (
            "optional.of(1).orValue(2) == 1 && optional.none().orValue(2) == 2",
            true,
        ),
        (
            "{'a': 1}[?'b'].orValue(3) == 3 && {'a': 1}[?'a'].hasValue()",
            true,
        ),
        ("{'a': 1}.?a.optMap(x, x + 1).orValue(0) == 2", true),
        ("[?optional.of(1), ?optional.none()] == [1]", true),
        (
            "'''a\nb''' == \"a\\nb\" && r'\\d' == '\\\\d' && b'a' == bytes('a')",
            true,
        ),
        ("true // a comment\n && true", true),
        (
            "isIP('::1') && !isIP('1.2.3') && isCIDR('10.0.0.0/8')",
            true,
        ),
        (
            "[1, 2, 1].distinct() == [1, 2] && [1, 2].reverse() == [2, 1] && [1, 2, 3].slice(1, 2) == [2]",
            true,
        ),
        ("{'a': 1}.b == 1", false),
        ("'a' < 1", false),
        ("self.field == 1", false),
        ("1", false),
    ] {
        rule(&any, &json!(5), expression, holds);
    }
}

#[test]
fn quantities_urls_and_addresses_are_evaluated() {
    let any = json!({"type": "string"});
    for (expression, holds) in [
        ("isQuantity('1.5Gi') && !isQuantity('1.5Gx')", true),
        ("quantity('1Gi') == quantity('1024Mi')", true),
        ("quantity('1Gi').isGreaterThan(quantity('1G'))", true),
        ("quantity('100m').isLessThan(quantity(self))", true),
        (
            "quantity('50k').add(20).compareTo(quantity('50020')) == 0",
            true,
        ),
        ("sign(quantity('1').sub(quantity('2'))) == -1", true),
        (
            "quantity('3k').asInteger() == 3000 && !quantity('0.5').isInteger()",
            true,
        ),
        ("quantity('0.5').asInteger() == 0", false),
        ("sign(quantity('x')) == 0", false),
        ("isURL('https://a:80/') && !isURL('a')", true),
        (
            "url('https://u@a.example:80/b c?x=1&x=2').getEscapedPath() == '/b%20c'",
            true,
        ),
        (
            "url('https://a.example:80/').getHost() == 'a.example:80'",
            true,
        ),
        ("url('https://[::1]:80/').getHostname() == '::1'", true),
        (
            "url('https://a/').getPort() == '' && url('https://a/').getScheme() == 'https'",
            true,
        ),
        (
            "url('https://a/?x=1&x=2').getQuery()['x'] == ['1', '2']",
            true,
        ),
        (
            "ip('::1').family() == 6 && ip('10.0.0.1').family() == 4",
            true,
        ),
        (
            "ip('127.0.0.1').isLoopback() && ip('0.0.0.0').isUnspecified()",
            true,
        ),
        (
            "ip('8.8.8.8').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()",
            true,
        ),
        (
            "ip('169.254.1.1').isLinkLocalUnicast() && ip('224.0.0.1').isLinkLocalMulticast()",
            true,
        ),
        (
            "ip('ff02::1').isLinkLocalMulticast() && ip('fe80::1').isLinkLocalUnicast()",
            true,
        ),
        ("ip.isCanonical('::1') && !ip.isCanonical('0:0::1')", true),
        (
            "string(ip('0:0::1')) == '::1' && string(cidr('10.0.0.0/8')) == '10.0.0.0/8'",
            true,
        ),
        (
            "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))",
            true,
        ),
        (
            "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))",
            true,
        ),
        (
            "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('::/0').prefixLength() == 0",
            true,
        ),
        ("cidr('10.1.2.3/8').ip() == ip('10.1.2.3')", true),
        ("cidr('10.0.0.0/8').containsIP('::1')", false),
        ("ip('1.2.3').family() == 4", false),
    ] {
        rule(&any, &json!("1"), expression, holds);
    }
}

#[test]
fn values_have_the_types_of_their_schema() {
    rule(
        &json!({"type": "number"}),
        &json!(5),
        "self == 5.0 && self / 2.0 == 2.5",
        true,
    );
    rule(
        &json!({"type": "string", "format": "date-time"}),
        &json!("2024-01-01T00:00:00Z"),
        "self.getFullYear() == 2024",
        true,
    );
    rule(
        &json!({"type": "string", "format": "duration"}),
        &json!("90s"),
        "self == duration('1m30s')",
        true,
    );
    rule(
        &json!({"type": "string", "format": "byte"}),
        &json!("aGk="),
        "self == b'hi'",
        true,
    );
    let either = json!({"x-kubernetes-int-or-string": true});
    rule(&either, &json!("5%"), "self == '5%'", true);
    rule(&either, &json!(5), "self == 5", true);
    let set =
        json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    rule(&set, &json!(["b", "a"]), "self == ['a', 'b']", true);
    let list = json!({"type": "array", "items": {"type": "string"}});
    rule(&list, &json!(["b", "a"]), "self == ['a', 'b']", false);
    let object = json!({"type": "object", "properties": {
        "a-b": {"type": "integer"}, "namespace": {"type": "string"}, "c__d": {"type": "string"}, "e": {"type": "string"},
    }});
    let value = json!({"a-b": 1, "namespace": "n", "c__d": "x"});
    rule(
        &object,
        &value,
        "self.a__dash__b == 1 && self.__namespace__ == 'n' && self.c__underscores__d == 'x'",
        true,
    );
    rule(
        &object,
        &value,
        "!has(self.e) && has(self.a__dash__b) && self.?e.orValue('') == ''",
        true,
    );
    let map = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    rule(
        &map,
        &json!({"k": 2}),
        "self.all(k, self[k] == 2) && 'k' in self && self.size() == 1",
        true,
    );
}

#[test]
fn rules_about_changes_do_not_count_unless_the_old_value_is_optional() {
    let schema = |optional: bool| {
        json!({"type": "object", "x-kubernetes-validations": [
            {"rule": if optional { "oldSelf.hasValue()" } else { "self == oldSelf" }, "optionalOldSelf": optional}]})
    };
    assert_eq!(problems(&schema(false), &json!({})), Vec::<String>::new());
    assert_eq!(
        problems(&schema(true), &json!({})),
        [": fails rule: oldSelf.hasValue()"]
    );
}

#[test]
fn the_root_of_a_resource_has_its_type_and_name() {
    let schema = json!({"type": "object", "x-kubernetes-validations": [
        {"rule": "self.metadata.name.startsWith('a') && self.kind == 'Thing'"}]});
    let resource = json!({"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "abc"}});
    assert_eq!(problems(&schema, &resource), Vec::<String>::new());
}

#[test]
fn a_rule_that_never_ends_is_undecided() {
    let list = "[0,1,2,3,4,5,6,7,8,9]";
    let mut expression = "true".to_owned();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        expression = format!("{list}.all({name}, {expression})");
    }
    let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": expression}]});
    assert!(matches!(
        validator(&schema).judge(&json!({})),
        Verdict::Undecided(_)
    ));
}

#[test]
fn what_cannot_be_judged_is_a_gap() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "format": "credit-card"},
        "b": {"type": "string", "pattern": "("},
        "c": {"type": "string", "x-kubernetes-validations": [{"rule": "semver(self).major() > 1"}]},
        "d": {"type": "thing"},
        "e": {"type": "object", "patternProperties": {"a": {}}},
    }});
    let gaps: Vec<String> = validator(&schema)
        .gaps()
        .iter()
        .map(|gap| format!("{} {}", gap.path, gap.what))
        .collect();
    assert_eq!(
        gaps,
        [
            "^.a format \"creditcard\"",
            "^.b pattern \"(\"",
            "^.c rule \"semver(self).major() > 1\": function semver is not evaluated here",
            "^.d type \"thing\"",
            "^.e patternProperties",
        ]
    );
    let error = Validator::new(&json!({"type": 1}), false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot read the schema at ^: type is of a wrong type"
    );
}

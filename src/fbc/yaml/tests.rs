use std::fmt::Write as _;

use super::*;

#[track_caller]
fn check(yaml: &str, expected: Result<&str, &str>) {
    let mut normalizer = Normalizer::default();
    let found = normalize(yaml.as_bytes(), 1, &mut normalizer)
        .map(|()| String::from_utf8(normalizer.text().to_vec()).unwrap())
        .map_err(|error| error.to_string());
    assert_eq!(
        found.as_deref().map_err(String::as_str),
        expected,
        "for {yaml:?}"
    );
}

#[test]
fn scalars_are_read_as_go_reads_them() {
    for (scalar, expected) in [
        ("yes", "true"),
        ("n", "false"),
        ("Off", "false"),
        ("yEs", r#""yEs""#),
        ("~", "null"),
        ("", "null"),
        ("0777", "511"),
        ("0o17", "15"),
        ("08", "8"),
        ("09.5", "9.5"),
        ("0x1F", "31"),
        ("-0x8000000000000000", "-9223372036854775808"),
        ("-0x8000000000000001", r#""-0x8000000000000001""#),
        ("0b101", "5"),
        ("+0b1", "1"),
        ("1_000", "1000"),
        ("685_230.15", "685230.15"),
        ("1e3", "1000"),
        ("1.0", "1"),
        ("1.", "1"),
        (".5", "0.5"),
        (".5_0", "0.5"),
        ("._5", r#""._5""#),
        ("+.5", "0.5"),
        ("+", r#""+""#),
        ("-0", "0"),
        ("-0.0", "-0"),
        ("1e20", "100000000000000000000"),
        ("1e21", "1e+21"),
        ("0.000001", "0.000001"),
        ("0.0000001", "1e-7"),
        ("1e400", r#""1e400""#),
        ("1:30", r#""1:30""#),
        ("2001-12-14", r#""2001-12-14""#),
        (
            "2001-12-14 21:59:43.10 -5",
            r#""2001-12-14 21:59:43.10 -5""#,
        ),
        // Integers keep their digits, which Go drops beyond 2^53.
        ("9007199254740993", "9007199254740993"),
        ("18446744073709551615", "18446744073709551615"),
        (
            "123456789012345678901234567890",
            "123456789012345678901234567890",
        ),
        ("'5'", r#""5""#),
        ("!!str 5", r#""5""#),
        ("!!int '5'", "5"),
        ("!!float 5", "5"),
        ("!!bool \"yes\"", "true"),
        ("!!null ''", "null"),
        ("!!binary aGVsbG8=", r#""hello""#),
        ("!!timestamp 2001-12-14", r#""2001-12-14""#),
        ("!custom foo", r#""foo""#),
        ("!custom 5", r#""5""#),
        ("! 5", r#""5""#),
        ("\"\\u0041\\x41\\n\\e\"", r#""AA\n\u001b""#),
        ("\"\\u2028\"", r#""\u2028""#),
        ("<<", r#""<<""#),
    ] {
        check(
            &format!("v: {scalar}\n"),
            Ok(&format!("{{\"v\":{expected}}}")),
        );
    }
}

#[test]
fn scalars_that_json_cannot_say_are_refused() {
    for (scalar, column, problem) in [
        (".inf", 4, "the number must be finite"),
        (".NaN", 4, "the number must be finite"),
        ("!!int 1.5", 10, "the value does not fit its tag"),
        ("!!bool maybe", 11, "the value does not fit its tag"),
        ("!!binary '*'", 13, "the value does not fit its tag"),
    ] {
        check(
            &format!("v: {scalar}\n"),
            Err(&format!("line 1, column {column}: {problem}")),
        );
    }
}

#[test]
fn keys_become_text() {
    for (key, expected) in [
        ("on", "true"),
        ("0x10", "16"),
        ("1e3", "1000"),
        ("1000000.0", "1e+06"),
        ("123456789.0", "1.2345679e+08"),
        ("0.00001", "1e-05"),
        (".inf", ".inf"),
        ("-.inf", "-.inf"),
        (".nan", ".nan"),
        ("\"\"", ""),
        ("'<<'", "<<"),
    ] {
        check(
            &format!("{key}: x\n"),
            Ok(&format!("{{\"{expected}\":\"x\"}}")),
        );
    }
    check("~: x\n", Err("line 1, column 1: a key must not be null"));
    check(
        "? [a]\n: x\n",
        Err("line 1, column 3: a key must not be a sequence or a mapping"),
    );
}

#[test]
fn the_last_of_equal_keys_stays() {
    check(
        "a: 1\n\"a\": 2\nb: {1: x, '1': z}\n",
        Ok(r#"{"a":2,"b":{"1":"z"}}"#),
    );
}

#[test]
fn aliases_stand_for_what_they_name() {
    check("a: &x {b: 1}\nc: *x\n", Ok(r#"{"a":{"b":1},"c":{"b":1}}"#));
    check("&k v: 1\nw: *k\n", Ok(r#"{"v":1,"w":"v"}"#));
    check("a: &n 0x10\n*n : *n\n", Ok(r#"{"16":16,"a":16}"#));
    check(
        "a: [1, &x [2, &y 3], *x, *y]\n",
        Ok(r#"{"a":[1,[2,3],[2,3],3]}"#),
    );
    check(
        "a: &x [*x]\n",
        Err("line 1, column 8: an anchor's value must not contain itself"),
    );
    check(
        "c: *nope\n",
        Err("line 1, column 4: while parsing node, found unknown anchor"),
    );
    check(
        "a: &x [1]\n*x : 1\n",
        Err("line 2, column 1: a key must be a scalar and not null"),
    );
}

#[test]
fn aliases_without_end_are_refused() {
    let mut yaml = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
    for level in 1..20 {
        let alias = format!("*a{}", level - 1);
        let list = vec![alias; 9].join(",");
        writeln!(yaml, "a{level}: &a{level} [{list}]").unwrap();
    }
    let mut normalizer = Normalizer::default();
    let error = normalize(yaml.as_bytes(), 1, &mut normalizer).unwrap_err();
    assert_eq!(error.problem, "the document uses aliases excessively");
}

#[test]
fn merge_keys_merge_in_their_place() {
    // As in Go's reader, a merge overrides what stands before it and yields to what stands after it.
    check(
        "b: &b {x: 1, z: 2}\nd:\n  x: 0\n  <<: *b\n  z: 3\n",
        Ok(r#"{"b":{"x":1,"z":2},"d":{"x":1,"z":3}}"#),
    );
    check(
        "b: &b {x: 1}\nc: &c {x: 2, z: 3}\nd:\n  <<: [*b, *c, {w: 4}]\n",
        Ok(r#"{"b":{"x":1},"c":{"x":2,"z":3},"d":{"w":4,"x":1,"z":3}}"#),
    );
    check(
        "d:\n  <<: {a: 1, <<: {b: [2, {c: 3}]}}\n  e: 5\n",
        Ok(r#"{"d":{"a":1,"b":[2,{"c":3}],"e":5}}"#),
    );
    check(
        "d:\n  <<: &m {a: 1}\ne: *m\n",
        Ok(r#"{"d":{"a":1},"e":{"a":1}}"#),
    );
    let problem = "a merge key needs a mapping or a sequence of mappings as its value";
    for (yaml, place) in [
        ("<<: 5\n", "line 1, column 5"),
        ("<<: [1]\n", "line 1, column 6"),
        ("<<: [{a: 1}, [{a: 1}]]\n", "line 1, column 14"),
        ("a: &a [{b: 1}]\n<<: *a\n", "line 2, column 5"),
        ("a: &a 1\n<<: [*a]\n", "line 2, column 6"),
    ] {
        check(yaml, Err(&format!("{place}: {problem}")));
    }
}

#[test]
fn a_document_without_content_writes_nothing() {
    for yaml in [
        "",
        "\n",
        "# only a comment\n",
        "---\n",
        "~\n",
        "null",
        "---\n...\n",
    ] {
        check(yaml, Ok(""));
    }
}

#[test]
fn what_follows_the_document_end_is_ignored() {
    check("a: 1\n...\nb: [\n", Ok(r#"{"a":1}"#));
}

#[test]
fn errors_say_where_and_quote_nothing() {
    check(
        "secret: hunter2\nb: [\n",
        Err("line 2, column 4: unclosed bracket '['"),
    );
    check(
        "\u{feff}a: b: c\n",
        Err("line 1, column 5: mapping values are not allowed in this context"),
    );
    let mut normalizer = Normalizer::default();
    let error = normalize(b"a: \xff\n", 7, &mut normalizer).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 7, column 4: the text is not valid UTF-8"
    );
}

#[test]
fn nesting_costs_no_stack() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let mut normalizer = Normalizer::default();
    normalize(deep(9_000).as_bytes(), 1, &mut normalizer).unwrap();
    assert!(normalize(deep(10_001).as_bytes(), 1, &mut normalizer).is_err());
    let error = value(deep(9_000).as_bytes()).unwrap_err();
    assert_eq!(error.problem, "the document is nested too deeply");
}

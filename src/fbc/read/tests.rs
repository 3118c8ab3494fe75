use proptest::prelude::*;

use super::*;
use crate::fbc::document::EXPANDED_LIMIT_BYTES;
use crate::testing::mutation::{edits, mutated};

/// Reads with the smallest steps, so that every document straddles one.
struct Trickle<'a>(&'a [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(self.0.len()).min(1);
        let (now, later) = self.0.split_at(length);
        buffer[..length].copy_from_slice(now);
        self.0 = later;
        Ok(length)
    }
}

fn read(text: &str) -> Vec<Result<(String, usize), String>> {
    let found = |metas: &mut dyn Iterator<Item = Result<Located, StreamError>>| {
        metas
            .map(|located| {
                located
                    .map(|located| (String::from_utf8(located.meta.blob).unwrap(), located.line))
                    .map_err(|error| error.to_string())
            })
            .collect::<Vec<_>>()
    };
    let whole = found(&mut Metas::new(text.as_bytes()));
    let trickled = found(&mut Metas::new(Trickle(text.as_bytes())));
    assert_eq!(whole, trickled);
    whole
}

#[track_caller]
fn check(text: &str, expected: &[(&str, usize)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(blob, line)| Ok(((*blob).to_owned(), *line)))
        .collect();
    assert_eq!(read(text), expected, "for {text:?}");
}

#[track_caller]
fn refuse(text: &str, expected: &str) {
    let found = read(text);
    let last = found.last().and_then(|last| last.as_ref().err());
    assert_eq!(
        last.map(String::as_str),
        Some(expected),
        "for {text:?}: {found:?}"
    );
}

#[test]
fn json_yaml_and_both_are_read() {
    let (a, b) = (r#"{"name":"a"}"#, r#"{"name":"b"}"#);
    check("", &[]);
    check(" \n# nothing\n", &[]);
    check("name: a\n---\nname: b\n", &[(a, 1), (b, 3)]);
    check(
        "---\n# c\n\nname: a\n--- # c\nname: b\n---",
        &[(a, 4), (b, 6)],
    );
    check("{\"name\":\"a\"}{\"name\":\"b\"}", &[(a, 1), (b, 1)]);
    check(
        "\n {\"name\":\n\"a\"}\n\n{\"name\":\"b\"}\n",
        &[(a, 2), (b, 5)],
    );
    check(
        "{\"name\":\"a\"}\nnull {\"name\":\"b\"}\n",
        &[(a, 1), (b, 2)],
    );
    // After one object or two the rest may still turn out to be YAML.
    check("{\"name\":\"a\",}", &[(a, 1)]);
    check("{'name':'a'}\n---\n{\"name\":\"b\"}", &[(a, 1), (b, 3)]);
    check("{\"name\":\"a\"}\n---\nname: b\n", &[(a, 1), (b, 3)]);
    check("{\"name\":\"a\"}\nname: b\n", &[(a, 1), (b, 2)]);
    check("\u{feff}{\"name\":\"a\"}", &[(a, 1)]);
    check("name: a\r\n---\r\nname: b\r\n", &[(a, 1), (b, 3)]);
}

#[test]
fn errors_name_the_place() {
    refuse(
        "name: a\n---\nname: b: c\n",
        "line 3, column 8: mapping values are not allowed in this context",
    );
    refuse(
        "{\"name\": \"a\"}\n{\"name\": \"b\"}\n{\"name\" 5}\n",
        "line 3, column 9: expected `:` after a key",
    );
    refuse("{\"name\": [}", "line 1, column 11: expected a value");
    refuse(
        "- name: a\n",
        "line 1, column 1: a document of a catalog must be an object",
    );
    refuse(
        "# c\n---\n\nname: 5\n",
        "line 4, column 1: the value of `name` must be a string",
    );
    refuse(
        "name: a\n--- b\n",
        "line 2, column 1: only a comment may follow the document separator `---` on its line",
    );
}

#[test]
fn nothing_follows_an_error() {
    assert_eq!(read("a: [\n---\nname: b\n").len(), 1);
}

#[test]
fn a_document_above_the_limit_is_refused() {
    let big = "x".repeat(100);
    for text in [
        format!("name: a\n---\nname: {big}\n---\nname: b\n"),
        format!("{{\"name\":\"a\"}}\n{{\"name\":\"{big}\"}}"),
    ] {
        let found: Vec<_> = Metas::with_limit(text.as_bytes(), 64).collect();
        let error = found.last().unwrap().as_ref().unwrap_err();
        assert!(
            matches!(
                error,
                StreamError::TooLarge {
                    limit_bytes: 64,
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(found.len(), 2);
    }
    let many = "{\"name\":\"a\"}\n".repeat(100);
    assert_eq!(
        Metas::with_limit(many.as_bytes(), 64).flatten().count(),
        100
    );
}

#[test]
fn an_input_that_fails_is_an_error() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is gone"))
        }
    }
    let error = Metas::new(Broken).next().unwrap().unwrap_err();
    assert_eq!(
        crate::error::chain(&error),
        "cannot read the file: the disk is gone"
    );
}

/// Most of what catalogs hold, in each format.
const SEEDS: [&str; 3] = [
    r#"{"schema":"olm.package","name":"p","defaultChannel":"c","icon":{"base64data":"PHN2Zy8+","mediatype":"image/svg+xml"}}
{"schema": "olm.channel", "package": "p", "name": "c", "entries": [{"name": "p.v1", "skips": ["a", "\u00e9\ud83d\ude00"]}]}
{"schema":"olm.bundle","package":"p","name":"p.v1","n":[1.5e300,-0.0,9007199254740993,true,null,{}]}"#,
    "---\nschema: olm.package\nname: &n p\ndescription: |\n  several\n  lines\nflags: [yes, no, 0777, 1_000, 0x1f, .5, ~]\n---\n# a comment\nschema: olm.channel\npackage: *n\nname: \"c\\t\\u00e9\"\nentries:\n- name: p.v1\n  <<: {replaces: p.v0}\n- {name: 'it''s', skips: [a, b]}\n",
    "schema: olm.bundle\r\nname: >-\r\n  folded\r\n  text\r\n? complex\r\n: value\r\nlist:\r\n  - - nested\r\n    - !!str 5\r\n---\r\n{\"schema\": \"a\"}\r\n",
];

/// All blobs are sound and bounded, and an error comes last and says where.
fn check_reading(bytes: &[u8]) -> Result<(), TestCaseError> {
    // A lone carriage return, NEL, LS and PS break lines in YAML, too.
    let breaks = [b'\n', b'\r', 0x85, 0xa8, 0xa9];
    let lines = bytes.iter().filter(|byte| breaks.contains(byte)).count() + 1;
    let mut is_over = false;
    for located in Metas::with_limit(bytes, 4096) {
        prop_assert!(!is_over, "there is more after an error");
        match located {
            Ok(located) => {
                prop_assert!(located.meta.blob.len() <= EXPANDED_LIMIT_BYTES);
                prop_assert!((1..=lines).contains(&located.line));
                let value = serde_json::from_slice::<serde_json::Value>(&located.meta.blob);
                prop_assert!(value.is_ok_and(|value| value.is_object()));
            }
            Err(error) => {
                is_over = true;
                let line = error.line();
                prop_assert!(
                    line.is_some_and(|line| (1..=lines + 1).contains(&line)),
                    "{error}"
                );
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arbitrary_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        check_reading(&bytes)?;
    }

    #[test]
    fn mutated_catalogs_are_read_or_refused(which in 0..SEEDS.len(), edits in edits()) {
        check_reading(&mutated(SEEDS[which].as_bytes(), &edits))?;
    }
}

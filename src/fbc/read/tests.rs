use proptest::prelude::*;

use super::*;

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

/// Reads the bytes at once and in small steps, which must come to the same.
fn read_bytes(bytes: &[u8]) -> Vec<Result<(String, usize), String>> {
    let found = |metas: &mut dyn Iterator<Item = Result<Located, StreamError>>| {
        metas
            .map(|located| {
                located
                    .map(|located| {
                        let blob = String::from_utf8(located.meta.blob).unwrap();
                        (blob, located.line)
                    })
                    .map_err(|error| error.to_string())
            })
            .collect::<Vec<_>>()
    };
    let whole = found(&mut Metas::new(bytes));
    let trickled = found(&mut Metas::new(Trickle(bytes)));
    assert_eq!(whole, trickled);
    whole
}

fn read(text: &str) -> Vec<Result<(String, usize), String>> {
    read_bytes(text.as_bytes())
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
        "line 3, column 8: `:` cannot follow here: there is no key before it",
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

/// Pieces of catalogs, and what breaks them.
const PIECES: &[&str] = &[
    "schema: olm.bundle\nname: a.v1\npackage: a\n",
    "properties:\n- type: olm.package\n  value: {packageName: a, version: 1.0.0}\n",
    "{\"schema\":\"olm.channel\",\"entries\":[{\"name\":\"a\",\"skips\":[\"b\"]}]}\n",
    "icon:\n  base64data: |-\n    PHN2Zy8+\n    PHN2Zy8+\n",
    "a: &x {b: [1, 2.5, yes]}\nc: *x\nd:\n  <<: *x\n",
    "\n---\n",
    "--- # c\n",
    "...\n",
    "? [k]\n: v\n",
    "'it''s'",
    "\"\\u00e4\\n\"",
    "%TAG ! x:\n",
    "<<: ",
    "*x",
    "&x ",
    "!!int ",
    "\u{2028}",
    "\u{feff}",
    "- ",
    ": ",
    "\t",
    "{",
    "}",
    "[",
    "]",
    ",",
    "|",
    ">",
    "#",
    "\0",
];

fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => prop::sample::select(PIECES).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    let cut = (any::<prop::sample::Index>(), any::<prop::sample::Index>());
    (prop::collection::vec(piece, 0..12), cut).prop_map(|(pieces, (from, to))| {
        let mut bytes = pieces.concat();
        if !bytes.is_empty() {
            let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
            // Half of the time a stretch is cut out.
            if from < to && to - from < bytes.len() / 2 {
                bytes.drain(from..to);
            }
        }
        bytes
    })
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_bytes(&bytes);
    }

    #[test]
    fn broken_catalogs_are_read_or_refused_and_what_is_read_stays(bytes in mutated()) {
        for (blob, _) in read_bytes(&bytes).into_iter().flatten() {
            let again = read_bytes(blob.as_bytes());
            prop_assert_eq!(again, [Ok((blob, 1))]);
        }
    }

    #[test]
    fn json_means_the_same_as_yaml(value in json()) {
        let text = serde_json::to_string(&value).unwrap();
        prop_assert_eq!(crate::fbc::yaml::value(text.as_bytes()).unwrap(), value);
    }
}

/// Values that are written alike in JSON and in YAML 1.1.
fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        "[ -~äß€]{0,20}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::btree_map("[a-z \"'#:]{0,8}", inner, 0..5)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

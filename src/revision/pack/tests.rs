use serde_json::json;

use super::*;

/// Text that does not compress.
fn noise(bytes: usize, seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..bytes)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(b'!' + u8::try_from(state % 90).unwrap())
        })
        .collect()
}

fn phase(name: &str, objects: Vec<Value>) -> Phase {
    Phase {
        name: name.to_owned(),
        objects,
    }
}

fn read(packed: &Packed) -> Vec<Vec<Value>> {
    let data: BTreeMap<&str, &BTreeMap<String, ByteString>> = packed
        .secrets
        .iter()
        .map(|secret| {
            (
                secret.metadata.name.as_deref().unwrap(),
                secret.data.as_ref().unwrap(),
            )
        })
        .collect();
    let object = |object: &wire::PhaseObject| {
        let reference = object.reference.as_ref().unwrap();
        unpack(&data[reference.name.as_str()][&reference.key].0, "n/s", "k").unwrap()
    };
    packed
        .phases
        .iter()
        .map(|phase| phase.objects.iter().map(object).collect())
        .collect()
}

#[test]
fn what_is_packed_comes_out_again() {
    let config_map = json!({"kind": "ConfigMap", "data": {"b": "2", "a": "1"}});
    let secret = json!({"kind": "Secret", "n": 1.5});
    let phases = [
        phase("configuration", vec![config_map.clone(), secret.clone()]),
        phase("deploy", vec![config_map.clone()]),
    ];
    let packed = pack("system", "e", "e-1", &phases, &ObjectMarks::default()).unwrap();
    assert_eq!(
        read(&packed),
        [vec![config_map.clone(), secret], vec![config_map]]
    );
    let [stored] = packed.secrets.as_slice() else {
        panic!("one Secret is enough");
    };
    assert_eq!(
        stored.data.as_ref().unwrap().len(),
        2,
        "equal content is stored once"
    );
    assert_eq!(stored.immutable, Some(true));
    assert_eq!(stored.metadata.namespace.as_deref(), Some("system"));
    assert_eq!(
        stored.metadata.labels.as_ref().unwrap()[keys::REVISION_NAME],
        "e-1"
    );
    for (key, value) in stored.data.as_ref().unwrap() {
        assert_eq!(key.len(), 43);
        assert!(value.0.starts_with(&GZIP_MAGIC));
    }
    assert_eq!(
        packed,
        pack("system", "e", "e-1", &phases, &ObjectMarks::default()).unwrap()
    );
}

/// What the revision carries is not stored again with each object, and comes back when it is read; what an object
/// has of its own stays.
#[test]
fn marks_of_the_revision_are_not_packed() {
    let text = |text: &str| text.to_owned();
    let marks = ObjectMarks {
        labels: BTreeMap::from([(text("owner"), text("e"))]),
        annotations: BTreeMap::from([(text("version"), text("1"))]),
    };
    for (marked, stored) in [
        (
            json!({"metadata": {"name": "a", "labels": {"owner": "e"}, "annotations": {"version": "1"}}}),
            json!({"metadata": {"name": "a"}}),
        ),
        (
            json!({"metadata": {"labels": {"owner": "e", "x": "y"}, "annotations": {"version": "2"}}}),
            json!({"metadata": {"labels": {"x": "y"}, "annotations": {"version": "2"}}}),
        ),
    ] {
        let phases = [phase("deploy", vec![marked.clone()])];
        let packed = pack("system", "e", "e-1", &phases, &marks).unwrap();
        assert_eq!(read(&packed), [vec![stored.clone()]]);
        assert_eq!(marks.added_to(stored), marked);
        assert_eq!(marks.added_to(marked.clone()), marked);
    }
}

#[test]
fn a_full_secret_is_followed_by_another() {
    let objects: Vec<Value> = (1..=3)
        .map(|n| json!({"data": noise(500 * 1024, n)}))
        .collect();
    let packed = pack(
        "n",
        "e",
        "e-1",
        &[phase("a", objects.clone())],
        &ObjectMarks::default(),
    )
    .unwrap();
    assert!(packed.secrets.len() >= 2);
    assert_eq!(read(&packed), [objects]);
    for secret in &packed.secrets {
        let bytes: usize = secret
            .data
            .as_ref()
            .unwrap()
            .values()
            .map(|v| v.0.len())
            .sum();
        assert!(bytes <= MAX_SECRET_BYTES);
    }
}

#[test]
fn an_object_that_no_secret_can_hold_is_refused() {
    let small = json!({"data": "x"});
    let large = json!({"data": noise(2 * 1024 * 1024, 1)});
    let phases = [
        phase("a", vec![small.clone()]),
        phase("b", vec![small, large]),
    ];
    let error = pack("n", "e", "e-1", &phases, &ObjectMarks::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("object in phase 1 index 1 exceeds maximum Secret data size ("),
        "{error}"
    );
    assert!(error.ends_with(" bytes > 921600 bytes) even after compression"));
}

#[test]
fn hostile_secrets_are_refused_without_quoting_them() {
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::fast());
    encoder
        .write_all(&vec![b' '; MAX_OBJECT_BYTES + 1])
        .unwrap();
    let bomb = encoder.finish().unwrap();
    let truncated = compress(&json!({"a": noise(1000, 1)})).unwrap();
    for (bytes, expected) in [
        (
            &b"password: hunter2"[..],
            "unmarshaling object from key \"k\" in Secret n/s: not a JSON object",
        ),
        (
            b"[\"hunter2\"]",
            "unmarshaling object from key \"k\" in Secret n/s: not a JSON object",
        ),
        (
            b"",
            "unmarshaling object from key \"k\" in Secret n/s: not a JSON object",
        ),
        (
            &bomb,
            "decompressed data for key \"k\" in Secret n/s exceeds maximum size (10485760 bytes)",
        ),
        (
            &truncated[..truncated.len() / 2],
            "decompressing data for key \"k\" in Secret n/s",
        ),
    ] {
        let error = unpack(bytes, "n/s", "k").unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(!crate::error::chain(&error).contains("hunter2"));
    }
    assert_eq!(unpack(b"{\"a\":1}", "n/s", "k").unwrap(), json!({"a": 1}));
}

#[test]
fn the_digest_of_content_knows_names_and_values_but_no_order_of_keys() {
    let one = phase_digest("a", &[serde_json::from_str(r#"{"x":1,"y":2}"#).unwrap()]);
    let same = phase_digest("a", &[serde_json::from_str(r#"{"y":2,"x":1}"#).unwrap()]);
    assert_eq!(one, same);
    assert_ne!(one, phase_digest("b", &[json!({"x": 1, "y": 2})]));
    assert_ne!(one, phase_digest("a", &[json!({"x": 1, "y": 3})]));
}

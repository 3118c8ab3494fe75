//! Objects of a revision in Secrets, and out of them again.
//!
//! A revision that oxolm makes holds no object itself: each is one key of a Secret in the system namespace. The
//! layout is the reference's, readers tell compressed from plain by the first two bytes. Differs from the
//! reference: every object is compressed, not only one above 900 KiB, and does not repeat the marks that the revision
//! itself carries; that is a third of the bytes in etcd. Objects that hold their marks are as good.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::api::cluster_object_set as wire;
use crate::api::keys;
use crate::error::{Classify, Disposition, Reason};
use crate::oci::digest::Digest;
use crate::revision::name::label_value;
use crate::revision::phase::{ObjectMarks, Phase};

/// What one Secret may hold: the API server's limit is 1 MiB for the whole object.
pub const MAX_SECRET_BYTES: usize = 900 * 1024;
/// What one object may become when it is decompressed.
pub const MAX_OBJECT_BYTES: usize = 10 * 1024 * 1024;
/// The first bytes of gzip.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A revision as it is stored: Secrets, and phases that refer to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Packed {
    /// The Secrets, without owner.
    pub secrets: Vec<Secret>,
    /// `spec.phases` of the `ClusterObjectSet`.
    pub phases: Vec<wire::Phase>,
}

/// Objects that cannot be packed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// One object that no Secret can hold.
    #[error(
        "object in phase {phase} index {index} exceeds maximum Secret data size ({bytes} bytes > {MAX_SECRET_BYTES} bytes) even after compression"
    )]
    TooLarge {
        /// The place of the phase, counted from 0.
        phase: usize,
        /// The place in the phase, counted from 0.
        index: usize,
        /// The compressed size.
        bytes: usize,
    },
    /// The encoder failed.
    #[error("cannot compress an object")]
    Compress(#[source] std::io::Error),
}

impl Classify for PackError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::TooLarge { .. } => Disposition::Terminal(Reason::Blocked),
            Self::Compress(_) => Disposition::Retry,
        }
    }
}

/// Puts the objects of `phases`, without `marks`, into Secrets of `namespace` for the revision `revision` of `extension`.
///
/// Deterministic: the same phases give the same Secrets with the same names.
///
/// # Errors
/// When one object is too large for a Secret.
pub fn pack(
    namespace: &str,
    extension: &str,
    revision: &str,
    phases: &[Phase],
    marks: &ObjectMarks,
) -> Result<Packed, PackError> {
    let mut packing = Packing::default();
    for (at, phase) in phases.iter().enumerate() {
        for (index, object) in phase.objects.iter().enumerate() {
            let stored =
                compress(&marks.taken_from(object.clone())).map_err(PackError::Compress)?;
            if stored.len() > MAX_SECRET_BYTES {
                return Err(PackError::TooLarge {
                    phase: at,
                    index,
                    bytes: stored.len(),
                });
            }
            packing.add(at, stored);
        }
    }
    packing.close();
    let named: Vec<(String, BTreeMap<String, Vec<u8>>)> = packing
        .closed
        .into_iter()
        .map(|data| (secret_name(revision, &data), data))
        .collect();
    let mut wired: Vec<wire::Phase> = phases
        .iter()
        .map(|phase| wire::Phase {
            name: phase.name.clone(),
            ..wire::Phase::default()
        })
        .collect();
    for (phase, secret, key) in packing.places {
        if let (Some(phase), Some((name, _))) = (wired.get_mut(phase), named.get(secret)) {
            phase.objects.push(wire::PhaseObject {
                reference: Some(wire::ObjectReference {
                    name: name.clone(),
                    namespace: Some(namespace.to_owned()),
                    key,
                }),
                ..wire::PhaseObject::default()
            });
        }
    }
    Ok(Packed {
        secrets: named
            .into_iter()
            .map(|(name, data)| secret(namespace, extension, revision, name, data))
            .collect(),
        phases: wired,
    })
}

#[derive(Default)]
struct Packing {
    closed: Vec<BTreeMap<String, Vec<u8>>>,
    open: BTreeMap<String, Vec<u8>>,
    open_bytes: usize,
    /// Of each object: its phase, its Secret, its key.
    places: Vec<(usize, usize, String)>,
}

impl Packing {
    fn add(&mut self, phase: usize, stored: Vec<u8>) {
        let key = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&stored));
        if !self.open.contains_key(&key) {
            if self.open_bytes + stored.len() > MAX_SECRET_BYTES {
                self.close();
            }
            self.open_bytes += stored.len();
            self.open.insert(key.clone(), stored);
        }
        self.places.push((phase, self.closed.len(), key));
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.closed.push(std::mem::take(&mut self.open));
            self.open_bytes = 0;
        }
    }
}

fn secret_name(revision: &str, data: &BTreeMap<String, Vec<u8>>) -> String {
    let mut hasher = Sha256::new();
    for (key, value) in data {
        hasher.update(key.as_bytes());
        hasher.update(value);
    }
    let hash: String = hex::encode(hasher.finalize()).chars().take(16).collect();
    // A name has 253 characters at most, and a revision's may have them all.
    let room = 253 - 17;
    let beginning: String = revision.chars().take(room).collect();
    format!("{}-{hash}", beginning.trim_end_matches(['-', '.']))
}

fn secret(
    namespace: &str,
    extension: &str,
    revision: &str,
    name: String,
    data: BTreeMap<String, Vec<u8>>,
) -> Secret {
    let mut secret = Secret {
        type_: Some(keys::OBJECT_DATA_SECRET_TYPE.to_owned()),
        immutable: Some(true),
        data: Some(
            data.into_iter()
                .map(|(key, value)| (key, ByteString(value)))
                .collect(),
        ),
        ..Secret::default()
    };
    secret.metadata.name = Some(name);
    secret.metadata.namespace = Some(namespace.to_owned());
    secret.metadata.labels = Some(BTreeMap::from([
        (keys::REVISION_NAME.to_owned(), label_value(revision)),
        (keys::OWNER_NAME.to_owned(), label_value(extension)),
    ]));
    secret
}

/// One object as stored: compact JSON with sorted keys, gzip without time and name.
fn compress(object: &Value) -> std::io::Result<Vec<u8>> {
    // `serde_json` keeps maps sorted unless its feature `preserve_order` is on; `sorted` does not rely on that.
    let json = serde_json::to_vec(&sorted(object))?;
    let mut encoder = GzBuilder::new()
        .mtime(0)
        .operating_system(255)
        .write(Vec::new(), Compression::best());
    encoder.write_all(&json)?;
    encoder.finish()
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let ordered: BTreeMap<&String, Value> = map
                .iter()
                .map(|(key, value)| (key, sorted(value)))
                .collect();
            ordered
                .into_iter()
                .map(|(key, value)| (key.clone(), value))
                .collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Bytes of a Secret that are no object. No variant quotes them.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// They become too large.
    #[error(
        "decompressed data for key {key:?} in Secret {secret} exceeds maximum size ({MAX_OBJECT_BYTES} bytes)"
    )]
    TooLarge {
        /// The Secret, `namespace/name`.
        secret: String,
        /// The key.
        key: String,
    },
    /// They cannot be decompressed.
    #[error("decompressing data for key {key:?} in Secret {secret}")]
    Decompress {
        /// The Secret, `namespace/name`.
        secret: String,
        /// The key.
        key: String,
        /// What the decoder said.
        #[source]
        source: std::io::Error,
    },
    /// They are no JSON object.
    #[error("unmarshaling object from key {key:?} in Secret {secret}: not a JSON object")]
    NotAnObject {
        /// The Secret, `namespace/name`.
        secret: String,
        /// The key.
        key: String,
    },
}

/// The object that `stored` holds, compressed or not. `secret` (`namespace/name`) and `key` are for the error.
///
/// # Errors
/// When the bytes are no JSON object or too many.
pub fn unpack(stored: &[u8], secret: &str, key: &str) -> Result<Value, UnpackError> {
    let mut plain = Vec::new();
    let bytes = if stored.starts_with(&GZIP_MAGIC) {
        GzDecoder::new(stored)
            .take(MAX_OBJECT_BYTES as u64 + 1)
            .read_to_end(&mut plain)
            .map_err(|source| UnpackError::Decompress {
                secret: secret.to_owned(),
                key: key.to_owned(),
                source,
            })?;
        if plain.len() > MAX_OBJECT_BYTES {
            return Err(UnpackError::TooLarge {
                secret: secret.to_owned(),
                key: key.to_owned(),
            });
        }
        plain.as_slice()
    } else {
        stored
    };
    match serde_json::from_slice(bytes) {
        Ok(object @ Value::Object(_)) => Ok(object),
        // serde's message may quote the content of the Secret: it is not passed on.
        Ok(_) | Err(_) => Err(UnpackError::NotAnObject {
            secret: secret.to_owned(),
            key: key.to_owned(),
        }),
    }
}

/// The digest of one phase as its objects stand in the source, by which a later change is noticed.
pub fn phase_digest(name: &str, objects: &[Value]) -> Digest {
    let objects: Vec<Value> = objects.iter().map(sorted).collect();
    let content = serde_json::json!({"name": name, "objects": objects});
    Digest::of(content.to_string().as_bytes())
}

/// The digest of all content of a revision, whatever the compression does with it.
pub fn content_digest(phases: &[Phase]) -> Digest {
    let digests: Vec<String> = phases
        .iter()
        .map(|phase| phase_digest(&phase.name, &phase.objects).to_string())
        .collect();
    Digest::of(digests.join("\n").as_bytes())
}

#[cfg(test)]
mod tests {
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
}

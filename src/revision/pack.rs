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
        let key = hash(&stored);
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

/// The SHA-256 of `bytes` in base64url without padding, 43 characters: the form of the keys in Secrets.
pub fn hash(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(bytes))
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
mod tests;

//! Checksums of files on our own disk: they tell what a crash, a full disk or a failing one left behind.
//!
//! That content is what its publisher made is for the SHA-256 of layers and manifests to say, while they are pulled. Who can
//! write to the disk can write the checksum, too, so a cryptographic hash would cost ten times as much for nothing.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use twox_hash::XxHash3_128;

/// The 128 bits of [XXH3](https://github.com/Cyan4973/xxHash/blob/v0.8.3/doc/xxhash_spec.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checksum(u128);

/// A checksum that is being made.
pub(crate) struct Summing(XxHash3_128);

impl Summing {
    pub(crate) fn new() -> Self {
        Self(XxHash3_128::new())
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    pub(crate) fn finish(&self) -> Checksum {
        Checksum(self.0.finish_128())
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Serialize for Checksum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Checksum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = u128::from_str_radix(&text, 16);
        number.map(Self).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_xxh3_and_survives_being_written() {
        let mut summing = Summing::new();
        // The specification's sum of nothing.
        assert_eq!(
            summing.finish().to_string(),
            "99aa06d3014798d86001c324468d497f"
        );
        for piece in [&b"catalog"[..], b"", b".jsonl"] {
            summing.update(piece);
        }
        let mut whole = Summing::new();
        whole.update(b"catalog.jsonl");
        assert_eq!(summing.finish(), whole.finish());
        let written = serde_json::to_string(&whole.finish()).unwrap();
        assert_eq!(
            serde_json::from_str::<Checksum>(&written).unwrap(),
            whole.finish()
        );
        assert!(serde_json::from_str::<Checksum>("\"x\"").is_err());
    }
}

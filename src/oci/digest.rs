//! The only type allowed in a store path.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A `sha256:` digest of 64 lower-case hexadecimal digits.
///
/// Other algorithms of the [OCI image spec](https://github.com/opencontainers/image-spec/blob/v1.1.0/descriptor.md#digests)
/// are refused: no registry in use serves them alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

/// A text that is not a sha256 digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid digest {0:?}: expected sha256: and 64 lower-case hexadecimal digits")]
pub struct InvalidDigest(pub String);

impl Digest {
    /// Parses `sha256:<64 hex>`.
    ///
    /// # Errors
    /// When the text is anything else.
    pub fn parse(text: &str) -> Result<Self, InvalidDigest> {
        let valid = text.strip_prefix("sha256:").is_some_and(|hex| {
            hex.len() == 64
                && hex
                    .bytes()
                    .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        });
        if valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidDigest(text.to_owned()))
        }
    }

    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_sha256(Sha256::digest(bytes).as_slice())
    }

    /// From the 32 bytes of a finished SHA-256.
    pub fn from_sha256(hash: &[u8]) -> Self {
        Self(format!("sha256:{}", hex::encode(hash)))
    }

    /// `sha256:<hex>`
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The 64 hexadecimal digits alone.
    pub fn hex(&self) -> &str {
        self.0.strip_prefix("sha256:").unwrap_or(&self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lower_case_sha256_is_a_digest() {
        let hex = "a".repeat(64);
        assert!(Digest::parse(&format!("sha256:{hex}")).is_ok());
        for wrong in [
            String::new(),
            hex.clone(),
            format!("sha512:{hex}"),
            format!("sha256:{}", "A".repeat(64)),
            format!("sha256:{hex}a"),
            "sha256:../../etc/passwd".into(),
        ] {
            assert!(Digest::parse(&wrong).is_err(), "{wrong}");
        }
    }
}

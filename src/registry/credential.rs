//! Pull secrets: which user name and password belong to which repository.
//!
//! Formats: `.dockerconfigjson` (`{"auths": {KEY: ENTRY}}`) and `.dockercfg` (`{KEY: ENTRY}`). A key is a host with optional path;
//! the most specific one wins, and of equal keys the one read last. An entry holds `auth` or `username` and `password`.
//! Differs from the reference: it keeps only `auth` and loses the others.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::config::ConfigError;

/// The bytes of one pull secret, and where they came from.
#[derive(Clone)]
pub struct PullSecret {
    /// For messages: `Secret openshift-config/pull-secret`, `~/.docker/config.json`.
    pub origin: String,
    /// How to read the bytes.
    pub format: PullSecretFormat,
    /// The content.
    pub data: Vec<u8>,
}

/// The two formats of pull secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullSecretFormat {
    /// `.dockerconfigjson`, and the auth files of podman and docker.
    DockerConfigJson,
    /// `.dockercfg`
    DockerCfg,
}

/// All that oxolm may present to registries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    entries: BTreeMap<String, Credential>,
    /// Why secrets that should be here are not. Without content.
    problems: Vec<String>,
}

/// A user name and a password.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credential {
    pub(super) username: String,
    pub(super) password: String,
    pub(super) origin: String,
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    auth: Option<String>,
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    password: Option<String>,
}

impl Credentials {
    /// Reads `secrets`; later ones override earlier ones.
    ///
    /// # Errors
    /// When one is malformed. The message never shows content.
    pub fn parse(secrets: &[PullSecret]) -> Result<Self, ConfigError> {
        let mut all = Self::default();
        for secret in secrets {
            all.read(secret)?;
        }
        Ok(all)
    }

    /// Takes in one more secret, which overrides what is here; of a malformed one only the problem.
    pub fn add(&mut self, secret: &PullSecret) {
        if let Err(error) = self.read(secret) {
            self.add_problem(error.to_string());
        }
    }

    /// Remembers that a secret cannot be had: whoever has no credential is told.
    pub fn add_problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// Why secrets that should be here are not.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// For how many registries and repositories there is a credential.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no credential at all.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All of a secret, or nothing.
    fn read(&mut self, secret: &PullSecret) -> Result<(), ConfigError> {
        let malformed = |reason: String| ConfigError::PullSecret {
            origin: secret.origin.clone(),
            reason,
        };
        let position = |error: serde_json::Error| {
            malformed(format!(
                "not the expected JSON at line {} column {}",
                error.line(),
                error.column()
            ))
        };
        let auths: BTreeMap<String, Entry> = match secret.format {
            PullSecretFormat::DockerConfigJson => {
                let config: DockerConfig =
                    serde_json::from_slice(&secret.data).map_err(position)?;
                config.auths
            }
            PullSecretFormat::DockerCfg => {
                serde_json::from_slice(&secret.data).map_err(position)?
            }
        };
        let mut entries = BTreeMap::new();
        for (key, entry) in auths {
            let user = entry
                .user()
                .map_err(|reason| malformed(format!("entry {key:?}: {reason}")))?;
            if let Some((username, password)) = user {
                let credential = Credential {
                    username,
                    password,
                    origin: secret.origin.clone(),
                };
                entries.insert(normal_key(&key), credential);
            }
        }
        self.entries.extend(entries);
        Ok(())
    }

    /// Where the credential for a repository of a registry came from, if there is one.
    pub fn origin_of(&self, authority: &str, path: &str) -> Option<&str> {
        Some(self.find(authority, path)?.origin.as_str())
    }

    /// The credential for a repository of a registry.
    pub(super) fn find(&self, authority: &str, path: &str) -> Option<&Credential> {
        let mut key = format!("{authority}/{path}");
        loop {
            if let Some(found) = self.entries.get(&key) {
                return Some(found);
            }
            let shorter = key
                .rsplit_once('/')
                .map(|(shorter, _)| shorter.to_owned())?;
            key = shorter;
        }
    }
}

impl Entry {
    /// `None` when the entry only says that there is nothing.
    fn user(self) -> Result<Option<(String, String)>, &'static str> {
        if let Some(auth) = self.auth.filter(|auth| !auth.is_empty()) {
            // Why decoding failed could tell about the secret, so it is not passed on.
            let Ok(decoded) = STANDARD.decode(auth.trim()) else {
                return Err("auth is not base64");
            };
            let Ok(text) = String::from_utf8(decoded) else {
                return Err("auth is not text");
            };
            let (username, password) = text
                .split_once(':')
                .ok_or("auth does not hold user and password")?;
            return Ok(Some((
                username.to_owned(),
                password.trim_matches('\0').to_owned(),
            )));
        }
        Ok(match (self.username, self.password) {
            (Some(username), Some(password)) if !username.is_empty() => Some((username, password)),
            _ => None,
        })
    }
}

/// A key without scheme and without the API paths that old tools add.
fn normal_key(key: &str) -> String {
    let bare = key
        .strip_prefix("https://")
        .or_else(|| key.strip_prefix("http://"));
    let host_of = |text: &str| text.split('/').next().unwrap_or_default().to_owned();
    let key = match bare {
        // With a scheme it is an address, so only its host counts.
        Some(address) => host_of(address),
        None => key.trim_end_matches('/').to_owned(),
    };
    match key.as_str() {
        "index.docker.io" | "registry-1.docker.io" | "index.docker.io/v1" => "docker.io".to_owned(),
        _ => key,
    }
}

impl fmt::Debug for PullSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PullSecret")
            .field("origin", &self.origin)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::mutation::{edits, mutated};

    fn secret(format: PullSecretFormat, text: &str) -> PullSecret {
        PullSecret {
            origin: "Secret a/b".to_owned(),
            format,
            data: text.as_bytes().to_vec(),
        }
    }

    fn json(text: &str) -> PullSecret {
        secret(PullSecretFormat::DockerConfigJson, text)
    }

    #[test]
    fn the_most_specific_key_wins_and_later_secrets_override() {
        let first = json(
            r#"{"auths":{"quay.io":{"username":"host","password":"p"},"quay.io/a/b":{"auth":"cmVwbzpwOnE="},
                "https://index.docker.io/v1/":{"auth":"aHViOnA="},"empty.io":{}}}"#,
        );
        let second = secret(
            PullSecretFormat::DockerCfg,
            r#"{"quay.io/a":{"username":"ns","password":"p","email":"x"},"late.io":{"username":"2","password":""}}"#,
        );
        let third = json(r#"{"auths":{"late.io":{"username":"3","password":"p"}}}"#);
        let credentials = Credentials::parse(&[first, second, third]).unwrap();
        for (authority, path, expected) in [
            ("quay.io", "x/y", Some("host")),
            ("quay.io", "a/c", Some("ns")),
            ("quay.io", "a/b", Some("repo")),
            ("quay.io", "a/bc", Some("ns")),
            ("quay.io:443", "a/b", None),
            ("docker.io", "library/alpine", Some("hub")),
            ("empty.io", "a", None),
            ("late.io", "a", Some("3")),
        ] {
            let found = credentials
                .find(authority, path)
                .map(|c| c.username.as_str());
            assert_eq!(found, expected, "{authority}/{path}");
        }
        assert_eq!(credentials.find("quay.io", "a/b").unwrap().password, "p:q");
    }

    #[test]
    fn malformed_secrets_are_refused_without_showing_them() {
        for (text, expected) in [
            (
                "{\"auths\": hunter2}",
                "not the expected JSON at line 1 column 11",
            ),
            (
                r#"{"auths":{"a":{"auth":"hunter2!"}}}"#,
                "entry \"a\": auth is not base64",
            ),
            (
                r#"{"auths":{"a":{"auth":"aHVudGVyMg=="}}}"#,
                "entry \"a\": auth does not hold user and password",
            ),
            (
                r#"{"auths":{"a":{"auth":"/////w=="}}}"#,
                "entry \"a\": auth is not text",
            ),
        ] {
            let error = Credentials::parse(&[json(text)]).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("malformed pull secret Secret a/b: {expected}")
            );
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let secret = json(r#"{"auths":{"a":{"username":"u","password":"hunter2"}}}"#);
        let credentials = Credentials::parse(std::slice::from_ref(&secret)).unwrap();
        assert!(!format!("{secret:?} {credentials:?}").contains("hunter2"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(data in proptest::collection::vec(any::<u8>(), 0..100)) {
            for format in [PullSecretFormat::DockerConfigJson, PullSecretFormat::DockerCfg] {
                // Only the absence of a panic matters here.
                _ = Credentials::parse(&[PullSecret { origin: String::new(), format, data: data.clone() }]);
            }
        }

        #[test]
        fn mutated_secrets_are_read_or_refused_without_showing_them(edits in edits()) {
            let auth = STANDARD.encode("user:hunter2hunter2");
            for (format, text) in [
                (PullSecretFormat::DockerConfigJson, format!(r#"{{"auths":{{"quay.io/a":{{"auth":"{auth}"}}}}}}"#)),
                (PullSecretFormat::DockerCfg, format!(r#"{{"quay.io":{{"username":"u","password":"{auth}"}}}}"#)),
            ] {
                let data = mutated(text.as_bytes(), &edits);
                let secret = PullSecret { origin: "Secret a/b".to_owned(), format, data };
                if let Err(error) = Credentials::parse(&[secret]) {
                    let error = error.to_string();
                    prop_assert!(!error.contains(auth.get(4..20).unwrap()) && !error.contains("hunter2"), "{error}");
                }
            }
        }
    }
}

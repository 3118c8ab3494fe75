#![expect(clippy::disallowed_methods, reason = "shell: reads policy.json")]
//! `policy.json`: which images may be pulled at all.
//!
//! Format: [containers-policy.json(5)](https://github.com/containers/image/blob/v5.36.0/docs/containers-policy.json.5.md).
//! oxolm checks no signatures: `insecureAcceptAnything` lets an image in, `reject` keeps it out, and any other requirement
//! keeps it out, too, and says so. Differs from the reference: a malformed file is an error, not "accept anything".
//! A file that does not exist accepts anything.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;

use super::config::ConfigError;
use crate::oci::reference::Reference;

/// The transport of registries in the file.
const TRANSPORT: &str = "docker";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Policy {
    default: Vec<Requirement>,
    #[serde(default)]
    transports: BTreeMap<String, BTreeMap<String, Vec<Requirement>>>,
}

#[derive(Deserialize)]
struct Requirement {
    r#type: String,
}

/// Says whether the file at `path` lets `reference` in.
pub(super) fn check(path: Option<&Path>, reference: &Reference) -> Result<(), ConfigError> {
    let Some(path) = path else {
        return Ok(());
    };
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => {
            return Err(ConfigError::Read {
                path: path.to_owned(),
                source,
            });
        }
    };
    let malformed = |reason: String| ConfigError::Malformed {
        path: path.to_owned(),
        reason,
    };
    let policy: Policy =
        serde_json::from_slice(&bytes).map_err(|error| malformed(error.to_string()))?;
    let (scope, requirements) = policy.applicable(reference);
    if requirements.is_empty() {
        return Err(malformed(format!(
            "the policy for {scope:?} has no requirements"
        )));
    }
    for requirement in requirements {
        match requirement.r#type.as_str() {
            "insecureAcceptAnything" => {}
            "reject" => {
                return Err(ConfigError::Rejected {
                    scope,
                    path: path.to_owned(),
                });
            }
            other => {
                return Err(ConfigError::Unchecked {
                    scope,
                    requirement: other.to_owned(),
                    path: path.to_owned(),
                });
            }
        }
    }
    Ok(())
}

impl Policy {
    /// The most specific scope: the reference, its repository, the parents of that, its host, wildcards of its host, the
    /// transport, the default.
    fn applicable(&self, reference: &Reference) -> (String, &[Requirement]) {
        if let Some(scopes) = self.transports.get(TRANSPORT) {
            let mut candidates = vec![reference.to_string()];
            let mut name = reference.repository().to_string();
            loop {
                candidates.push(name.clone());
                match name.rsplit_once('/') {
                    Some((parent, _)) => name = parent.to_owned(),
                    None => break,
                }
            }
            let mut host = name.split(':').next().unwrap_or_default();
            while let Some((_, domain)) = host.split_once('.') {
                candidates.push(format!("*.{domain}"));
                host = domain;
            }
            candidates.push(String::new());
            for scope in candidates {
                if let Some(requirements) = scopes.get(&scope) {
                    return (scope, requirements);
                }
            }
        }
        ("default".to_owned(), &self.default)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::mutation::{edits, mutated};

    fn verdict(text: &str, reference: &str) -> Result<(), String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        check(Some(file.path()), &Reference::parse(reference).unwrap()).map_err(|error| {
            error
                .to_string()
                .replace(&file.path().display().to_string(), "FILE")
        })
    }

    #[test]
    fn the_most_specific_scope_decides() {
        let policy = r#"{"default":[{"type":"reject"}],"transports":{"docker":{
            "quay.io":[{"type":"insecureAcceptAnything"}],
            "quay.io/bad":[{"type":"reject"}],
            "quay.io/bad/but:good":[{"type":"insecureAcceptAnything"}],
            "*.example.com":[{"type":"insecureAcceptAnything"}],
            "signed.io":[{"type":"insecureAcceptAnything"},{"type":"signedBy","keyType":"GPGKeys"}]}}}"#;
        let reject = |scope: &str| Err(format!("rejected by the policy for {scope:?} in FILE"));
        for (reference, expected) in [
            ("quay.io/good/a:1", Ok(())),
            ("quay.io/bad/a:1", reject("quay.io/bad")),
            ("quay.io/bad/but:good", Ok(())),
            ("quay.io/bad/but:bad", reject("quay.io/bad")),
            ("a.b.example.com:5000/x:1", Ok(())),
            ("example.com/x:1", reject("default")),
            (
                "signed.io/a:1",
                Err("the policy for \"signed.io\" in FILE requires signedBy, which oxolm cannot check".to_owned()),
            ),
        ] {
            assert_eq!(verdict(policy, reference), expected, "{reference}");
        }
    }

    #[test]
    fn a_broken_file_is_an_error_and_an_absent_one_accepts() {
        for broken in [
            "",
            "{}",
            "{\"default\":[]}",
            "{\"default\":[{}]}",
            "{\"default\":[],\"x\":1}",
        ] {
            assert!(
                verdict(broken, "quay.io/a:1")
                    .unwrap_err()
                    .starts_with("malformed FILE"),
                "{broken}"
            );
        }
        let reference = Reference::parse("quay.io/a:1").unwrap();
        assert!(check(Some(Path::new("/does/not/exist.json")), &reference).is_ok());
        assert!(check(None, &reference).is_ok());
    }

    proptest! {
        #[test]
        fn arbitrary_and_mutated_policies_never_accept_by_mistake(
            bytes in proptest::collection::vec(any::<u8>(), 0..80), edits in edits()
        ) {
            let real = br#"{"default":[{"type":"reject"}],"transports":{"docker":{"quay.io/a":[{"type":"reject"}]}}}"#;
            let file = tempfile::NamedTempFile::new().unwrap();
            let reference = Reference::parse("quay.io/a/b:1").unwrap();
            for bytes in [bytes, mutated(real, &edits)] {
                fs::write(file.path(), &bytes).unwrap();
                // Nothing that says "accept" is in there.
                if !String::from_utf8_lossy(&bytes).contains("insecureAcceptAnything") {
                    prop_assert!(check(Some(file.path()), &reference).is_err());
                }
            }
        }
    }
}

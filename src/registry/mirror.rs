#![expect(clippy::disallowed_methods, reason = "shell: reads registries.conf")]
//! `registries.conf`: mirrors, other locations, blocked and insecure registries.
//!
//! Format: [containers-registries.conf(5)](https://github.com/containers/image/blob/v5.36.0/docs/containers-registries.conf.5.md),
//! version 2, with the drop-ins of the directory `registries.conf.d` beside the file. The longest matching prefix decides.
//! Short-name settings have no meaning here, since references are strict.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::config::ConfigError;
use super::endpoint::Endpoint;
use crate::oci::reference::Reference;

#[derive(Deserialize)]
struct File {
    #[serde(default, rename = "registry")]
    entries: Vec<Registry>,
    /// The sign of format version 1.
    #[serde(default)]
    registries: Option<toml::Table>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Registry {
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    blocked: bool,
    #[serde(default)]
    mirror_by_digest_only: bool,
    #[serde(default)]
    mirror: Vec<Mirror>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Mirror {
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default, rename = "pull-from-mirror")]
    used_for: References,
}

#[derive(Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum References {
    #[default]
    #[serde(alias = "")]
    All,
    DigestOnly,
    TagOnly,
}

/// Where to ask for `reference`: its mirrors in order, then its own location.
pub(super) fn endpoints(
    path: Option<&Path>,
    reference: &Reference,
) -> Result<Vec<Endpoint>, ConfigError> {
    let Some(path) = path else {
        return Ok(vec![Endpoint::of(reference.repository())]);
    };
    let registries = read(path)?;
    let name = reference.to_string();
    let best = registries
        .iter()
        .filter_map(|(source, registry)| {
            Some((matched(&registry.prefix, &name)?, source, registry))
        })
        .max_by_key(|(length, ..)| *length);
    let Some((length, source, registry)) = best else {
        return Ok(vec![Endpoint::of(reference.repository())]);
    };
    if registry.blocked {
        return Err(ConfigError::Blocked {
            prefix: registry.prefix.clone(),
            path: source.clone(),
        });
    }
    let repository = reference.repository().to_string();
    // A prefix that names a tag or digest reaches beyond the repository.
    let rest = repository.get(length..).unwrap_or_default();
    let located = |location: &str, insecure| {
        let name = if location.is_empty() {
            repository.clone()
        } else {
            format!("{location}{rest}")
        };
        let (authority, path) = name.split_once('/').unwrap_or((&name, ""));
        Endpoint::new(authority, path, insecure)
    };
    let mut found: Vec<_> = registry
        .mirror
        .iter()
        .filter(|mirror| registry.uses(mirror, reference.is_digest()))
        .map(|mirror| located(&mirror.location, mirror.insecure))
        .collect();
    found.push(located(&registry.location, registry.insecure));
    Ok(found)
}

impl Registry {
    fn uses(&self, mirror: &Mirror, by_digest: bool) -> bool {
        match mirror.used_for {
            References::All => by_digest || !self.mirror_by_digest_only,
            References::DigestOnly => by_digest,
            References::TagOnly => !by_digest,
        }
    }
}

/// All entries with the file that each is from. An entry of a later file replaces one of the same prefix.
fn read(path: &Path) -> Result<Vec<(PathBuf, Registry)>, ConfigError> {
    let mut files = Vec::new();
    if path.exists() {
        files.push(path.to_owned());
    }
    let mut drop_ins = path.as_os_str().to_owned();
    drop_ins.push(".d");
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| ConfigError::Read { path, source }
    };
    let drop_ins = PathBuf::from(drop_ins);
    match fs::read_dir(&drop_ins) {
        Ok(entries) => {
            let mut found = Vec::new();
            for entry in entries {
                let path = entry.map_err(unreadable(&drop_ins))?.path();
                if path
                    .extension()
                    .is_some_and(|extension| extension == "conf")
                {
                    found.push(path);
                }
            }
            found.sort();
            files.extend(found);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(unreadable(&drop_ins)(error)),
    }
    let mut all: Vec<(PathBuf, Registry)> = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).map_err(unreadable(&path))?;
        for registry in parse(&text).map_err(|reason| ConfigError::Malformed {
            path: path.clone(),
            reason,
        })? {
            all.retain(|(source, known)| *source == path || known.prefix != registry.prefix);
            all.push((path.clone(), registry));
        }
    }
    Ok(all)
}

fn parse(text: &str) -> Result<Vec<Registry>, String> {
    let file: File =
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    if file.registries.is_some() {
        return Err("format version 1 is not supported".to_owned());
    }
    let mut registries = file.entries;
    for registry in &mut registries {
        registry.location = normal_location(&registry.location)?;
        if registry.prefix.is_empty() {
            registry.prefix.clone_from(&registry.location);
        } else if !registry.prefix.starts_with("*.") {
            registry.prefix = normal_location(&registry.prefix)?;
        }
        if registry.prefix.is_empty() {
            return Err("a registry has neither prefix nor location".to_owned());
        }
        let is_wildcard = registry.prefix.starts_with("*.");
        if is_wildcard && registry.prefix.contains(['/', '@', ':']) {
            return Err(format!(
                "wildcard prefix {:?} must be a domain only",
                registry.prefix
            ));
        }
        if registry.location.is_empty() && !is_wildcard {
            registry.location.clone_from(&registry.prefix);
        }
        for mirror in &mut registry.mirror {
            mirror.location = normal_location(&mirror.location)?;
            if mirror.location.is_empty() {
                return Err(format!("a mirror of {:?} has no location", registry.prefix));
            }
            if registry.mirror_by_digest_only && mirror.used_for != References::All {
                return Err(format!(
                    "a mirror of {:?} sets pull-from-mirror beside mirror-by-digest-only",
                    registry.prefix
                ));
            }
        }
    }
    Ok(registries)
}

fn normal_location(location: &str) -> Result<String, String> {
    if location.contains("://") {
        return Err(format!("location {location:?} must not have a scheme"));
    }
    Ok(location.trim_end_matches('/').to_owned())
}

/// How many bytes of `name` the prefix matches, if it does.
fn matched(prefix: &str, name: &str) -> Option<usize> {
    let at_boundary = |length: usize| {
        let next = name.as_bytes().get(length);
        next.is_none_or(|byte| matches!(byte, b':' | b'/' | b'@'))
            .then_some(length)
    };
    let Some(suffix) = prefix.strip_prefix('*') else {
        return name
            .starts_with(prefix)
            .then_some(prefix.len())
            .and_then(at_boundary);
    };
    let host_end = name.find(['/', ':']).unwrap_or(name.len());
    let host = name.get(..host_end)?;
    (host.len() > suffix.len() && host.ends_with(suffix)).then_some(host_end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::endpoint::Security;
    use super::*;

    const CONF: &str = r#"
unqualified-search-registries = ["docker.io"]
[[registry]]
prefix = "quay.io/a"
location = "mirror.example.com/was-a"
[[registry.mirror]]
location = "one.example.com/x"
insecure = true
[[registry.mirror]]
location = "two.example.com"
pull-from-mirror = "digest-only"
[[registry.mirror]]
location = "three.example.com"
pull-from-mirror = "tag-only"
[[registry]]
location = "quay.io"
[[registry]]
prefix = "*.blocked.io"
blocked = true
[[registry]]
location = "digest.io"
mirror-by-digest-only = true
[[registry.mirror]]
location = "m.digest.io"
"#;

    fn asked(directory: &Path, reference: &str) -> Result<Vec<String>, String> {
        let conf = directory.join("registries.conf");
        endpoints(Some(&conf), &Reference::parse(reference).unwrap())
            .map(|found| {
                let mark = |e: &Endpoint| {
                    if e.security == Security::Insecure {
                        "!"
                    } else {
                        ""
                    }
                };
                found
                    .iter()
                    .map(|e| format!("{}{}", e.name(), mark(e)))
                    .collect()
            })
            .map_err(|error| {
                error
                    .to_string()
                    .replace(&directory.display().to_string(), "DIR")
            })
    }

    #[test]
    fn the_longest_prefix_decides_where_to_ask() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("registries.conf"), CONF).unwrap();
        let digest = format!("@sha256:{}", "0".repeat(64));
        for (reference, expected) in [
            (
                "quay.io/a/b:1".to_owned(),
                vec![
                    "one.example.com/x/b!",
                    "three.example.com/b",
                    "mirror.example.com/was-a/b",
                ],
            ),
            (
                format!("quay.io/a/b{digest}"),
                vec![
                    "one.example.com/x/b!",
                    "two.example.com/b",
                    "mirror.example.com/was-a/b",
                ],
            ),
            ("quay.io/ab:1".to_owned(), vec!["quay.io/ab"]),
            ("other.io/a:1".to_owned(), vec!["other.io/a"]),
            ("blocked.io/a:1".to_owned(), vec!["blocked.io/a"]),
            ("digest.io/a:1".to_owned(), vec!["digest.io/a"]),
            (
                format!("digest.io/a{digest}"),
                vec!["m.digest.io/a", "digest.io/a"],
            ),
        ] {
            assert_eq!(
                asked(directory.path(), &reference).unwrap(),
                expected,
                "{reference}"
            );
        }
        assert_eq!(
            asked(directory.path(), "x.y.blocked.io/a:1").unwrap_err(),
            "registry *.blocked.io is blocked in DIR/registries.conf"
        );
    }

    #[test]
    fn drop_ins_replace_entries_of_the_same_prefix() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        fs::create_dir(directory.path().join("registries.conf.d")).unwrap();
        write(
            "registries.conf.d/20.conf",
            "[[registry]]\nlocation='b.io'\nprefix='a.io'",
        );
        write(
            "registries.conf.d/10.conf",
            "[[registry]]\nlocation='a.io'\nblocked=true",
        );
        write("registries.conf.d/30.txt", "not read");
        assert_eq!(asked(directory.path(), "a.io/x:1").unwrap(), ["b.io/x"]);
    }

    #[test]
    fn broken_files_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        for broken in [
            "[[registry]\n",
            "[[registry]]\n",
            "[registries.search]\nregistries=['a']",
            "[[registry]]\nprefix='*.a.io/x'",
            "[[registry]]\nlocation='https://a.io'",
            "[[registry]]\nlocation='a.io'\n[[registry.mirror]]\nlocation=''",
            "[[registry]]\nlocation='a.io'\n[[registry.mirror]]\nlocation='b'\npull-from-mirror='some'",
            "[[registry]]\nlocation='a.io'\nmirror-by-digest-only=true\n[[registry.mirror]]\nlocation='b'\npull-from-mirror='tag-only'",
        ] {
            fs::write(directory.path().join("registries.conf"), broken).unwrap();
            let error = asked(directory.path(), "a.io/x:1").unwrap_err();
            assert!(
                error.starts_with("malformed DIR/registries.conf: "),
                "{broken}: {error}"
            );
        }
    }

    proptest! {
        #[test]
        fn arbitrary_and_mutated_files_never_panic(
            text in "\\PC{0,60}", at in 0..CONF.len(), byte in any::<char>(), reference in "quay.io/[a-z]{1,3}:1"
        ) {
            // Only the absence of a panic matters here.
            _ = parse(&text);
            let mutated: String = CONF.chars().enumerate().map(|(i, c)| if i == at { byte } else { c }).collect();
            for registry in parse(&mutated).unwrap_or_default() {
                _ = matched(&registry.prefix, &reference);
            }
        }
    }
}

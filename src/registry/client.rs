#![expect(clippy::disallowed_methods, reason = "shell: reads the CA directory")]
//! HTTP clients by how far they trust: made from the CA directory, and made anew when it or the system's certificates change.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, ClientBuilder, Identity, NoProxy, Proxy};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::config::{ConfigError, RegistryOptions};
use super::error::RedirectRefused;
use super::limits::{CONNECT_TIMEOUT, MAX_REDIRECTS, READ_TIMEOUT};
use super::trusted::trusting;
use crate::oci::digest::Digest;

/// Which certificates a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// Verified ones, through the proxy if there is one.
    Verified,
    /// Verified ones, never through a proxy.
    Loopback,
    /// Any.
    Anything,
}

/// One client per trust.
#[derive(Debug)]
pub(super) struct Clients {
    options: RegistryOptions,
    current: ArcSwap<Current>,
}

#[derive(Debug)]
struct Current {
    /// The digest of the CA directory's content, and of what the system's certificates look like from outside.
    authorities: Option<Digest>,
    verified: Client,
    loopback: Client,
    anything: Client,
}

/// What the CA directory holds.
#[derive(Default)]
struct Authorities {
    digest: Option<Digest>,
    roots: Vec<Vec<u8>>,
    /// Certificate and key, concatenated PEM.
    identities: Vec<Vec<u8>>,
}

impl Clients {
    pub(super) fn new(options: &RegistryOptions) -> Result<Self, ConfigError> {
        let authorities = Authorities::of(options)?;
        Ok(Self {
            options: options.clone(),
            current: ArcSwap::from_pointee(Current::new(options, &authorities)?),
        })
    }

    pub(super) fn get(&self, trust: Trust) -> Client {
        let current = self.current.load();
        match trust {
            Trust::Verified => current.verified.clone(),
            Trust::Loopback => current.loopback.clone(),
            Trust::Anything => current.anything.clone(),
        }
    }

    /// Makes the clients anew if certificates changed.
    pub(super) fn refresh(&self) -> Result<(), ConfigError> {
        let authorities = Authorities::of(&self.options)?;
        if authorities.digest != self.current.load().authorities {
            let current = Current::new(&self.options, &authorities)?;
            self.current.store(Arc::new(current));
        }
        Ok(())
    }
}

impl Current {
    fn new(options: &RegistryOptions, authorities: &Authorities) -> Result<Self, ConfigError> {
        let build = |trust| build(options, authorities, trust);
        Ok(Self {
            authorities: authorities.digest.clone(),
            verified: build(Trust::Verified)?,
            loopback: build(Trust::Loopback)?,
            anything: build(Trust::Anything)?,
        })
    }
}

fn build(
    options: &RegistryOptions,
    authorities: &Authorities,
    trust: Trust,
) -> Result<Client, ConfigError> {
    let tls = |error: reqwest::Error| ConfigError::Tls(crate::error::chain(&error));
    let mut builder = ClientBuilder::new()
        .user_agent(concat!("oxolm/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .redirect(Policy::custom(redirect))
        .referer(false);
    // A client can present one identity only; the first in the order of names is it.
    let identity = authorities.identities.first().map(Vec::as_slice);
    builder = match (trust, identity) {
        (Trust::Verified | Trust::Loopback, _) => {
            trusting(builder, &authorities.roots, identity)
                .map_err(|error| ConfigError::Tls(error.to_string()))?
        }
        (Trust::Anything, None) => builder.tls_danger_accept_invalid_certs(true),
        (Trust::Anything, Some(pem)) => builder
            .tls_danger_accept_invalid_certs(true)
            .identity(Identity::from_pem(pem).map_err(tls)?),
    };
    builder = match (trust, &options.proxy) {
        (Trust::Loopback, _) => builder.no_proxy(),
        (Trust::Verified | Trust::Anything, None) => builder,
        (Trust::Verified | Trust::Anything, Some(address)) => {
            // The cause could show a password in the address.
            let Ok(proxy) = Proxy::all(address) else {
                return Err(ConfigError::Proxy);
            };
            builder.proxy(proxy.no_proxy(NoProxy::from_env()))
        }
    };
    builder.build().map_err(tls)
}

/// Follows a few redirects, never from HTTPS to HTTP.
fn redirect(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let was_https = attempt
        .previous()
        .last()
        .is_some_and(|url| url.scheme() == "https");
    if attempt.previous().len() > MAX_REDIRECTS {
        attempt.error(RedirectRefused("too many redirects"))
    } else if was_https && attempt.url().scheme() != "https" {
        attempt.error(RedirectRefused("from https to http"))
    } else {
        attempt.follow()
    }
}

impl Authorities {
    fn of(options: &RegistryOptions) -> Result<Self, ConfigError> {
        let mut found = Self::read(options.ca_directory.as_deref())?;
        let seen = looks(&options.system_certificates);
        if !seen.is_empty() {
            let own = found.digest.as_ref().map_or("", Digest::as_str);
            found.digest = Some(Digest::of(format!("{own}{seen}").as_bytes()));
        }
        Ok(found)
    }

    /// Reads `*.crt` as roots and pairs of `*.cert` and `*.key` as identities; other files are left alone.
    fn read(directory: Option<&Path>) -> Result<Self, ConfigError> {
        let Some(directory) = directory else {
            return Ok(Self::default());
        };
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| ConfigError::Read { path, source }
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(directory).map_err(unreadable(directory))? {
            names.push(entry.map_err(unreadable(directory))?.path());
        }
        names.sort();
        let mut found = Self::default();
        let mut all = Vec::new();
        for path in names {
            let extension = path
                .extension()
                .and_then(|e| e.to_str())
                .unwrap_or_default();
            if !matches!(extension, "crt" | "cert" | "key") || path.is_dir() {
                continue;
            }
            let malformed = |reason: &str| ConfigError::Malformed {
                path: path.clone(),
                reason: reason.to_owned(),
            };
            let bytes = fs::read(&path).map_err(unreadable(&path))?;
            all.extend_from_slice(path.as_os_str().as_encoded_bytes());
            all.extend_from_slice(Digest::of(&bytes).as_str().as_bytes());
            match extension {
                "crt" => {
                    let before = found.roots.len();
                    for certificate in CertificateDer::pem_slice_iter(&bytes) {
                        let Ok(certificate) = certificate else {
                            return Err(malformed("not a PEM certificate"));
                        };
                        found.roots.push(certificate.to_vec());
                    }
                    if found.roots.len() == before {
                        return Err(malformed("holds no PEM certificate"));
                    }
                }
                "cert" => {
                    let key_path = path.with_extension("key");
                    let Ok(key) = fs::read(&key_path) else {
                        return Err(malformed("its .key file is missing"));
                    };
                    found.identities.push([bytes, b"\n".to_vec(), key].concat());
                }
                _ if !path.with_extension("cert").exists() => {
                    return Err(malformed("its .cert file is missing"));
                }
                _ => {}
            }
        }
        found.digest = Some(Digest::of(&all));
        Ok(found)
    }
}

/// How these files, and those in these directories, look from outside. What is not there looks like nothing.
fn looks(places: &[PathBuf]) -> String {
    let mut files = Vec::new();
    for place in places {
        match fs::read_dir(place) {
            Ok(entries) => files.extend(entries.flatten().map(|entry| entry.path())),
            Err(_no_directory) => files.push(place.clone()),
        }
    }
    files.sort();
    let look = |path: &PathBuf| {
        let metadata = fs::metadata(path).ok()?;
        let (size, inode) = (metadata.len(), metadata.ino());
        let changed = (metadata.mtime(), metadata.mtime_nsec());
        Some(format!("{} {size} {inode} {changed:?};", path.display()))
    };
    files.iter().filter_map(look).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_systems_certificates_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("bundle.pem");
        let below = directory.path().join("certs");
        fs::create_dir(&below).unwrap();
        let options = RegistryOptions {
            system_certificates: vec![file.clone(), below.clone(), directory.path().join("absent")],
            ..RegistryOptions::default()
        };
        let digest = || Authorities::of(&options).unwrap().digest;
        let mut seen = vec![digest()];
        for (path, text) in [
            (&file, "one"),
            (&file, "two!"),
            (&below.join("a.pem"), "three"),
        ] {
            fs::write(path, text).unwrap();
            assert!(!seen.contains(&digest()), "{text}");
            assert_eq!(digest(), digest());
            seen.push(digest());
        }
        fs::remove_file(&file).unwrap();
        assert!(!seen.contains(&digest()));
        assert_eq!(
            Authorities::of(&RegistryOptions::default()).unwrap().digest,
            None
        );
    }
}

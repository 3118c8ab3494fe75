//! The certificate of oxolm's own servers, one for all replicas of a release, in a Secret beside them.
//!
//! Whichever replica finds something due does it: a write that another replica was faster with is refused by the API
//! server, and what that one wrote is taken. The CA's key stays in the Secret, so that the certificate is renewed under
//! the CA that clients pin:
//!
//! ```text
//! ca.crt        the CAs that clients trust, the newest first         ca.key   the newest one's
//! tls.crt/.key  what is served
//!
//! two thirds of the certificate's life are over    the newest CA signs another one
//! two thirds of the newest CA's life are over      a further CA is put in front of it; the certificate stays: clients
//!                                                  that read ca.crt again within [`PUBLISHED`] miss nothing
//! anything is gone or broken                       it is made anew
//! ```
//!
//! A Secret of that name and another type is somebody else's, and is left alone.

#![expect(clippy::disallowed_types, reason = "the Secret is read and written")]

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::server::{BUNDLE, CERTIFICATE, KEY};
use super::x509::{Authority, Certificate, Signer, authorities, hosts_of, usable};
use crate::error::quoted;
use crate::identity::request::{self, Deletion, RequestError, path};
use crate::revision::certificates::LIFE;

/// The type of the Secret: only what has it is ours.
const TYPE: &str = "oxolm.dev/serving-certificate";
/// Where the key of the newest CA is.
const AUTHORITY_KEY: &str = "ca.key";
/// Who writes.
const MANAGER: &str = "oxolm";
/// How long a CA is valid.
const AUTHORITY_LIFE: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// How long clients have to take a new CA before it signs what is served, and how much of its life the certificate must
/// have left for that.
pub const PUBLISHED: SignedDuration = SignedDuration::from_hours(30 * 24);
/// The time between two looks for what is removed.
const PAUSE: Duration = Duration::from_millis(500);
/// How many CAs are kept; by then, the oldest is long of no use.
const AUTHORITIES: usize = 3;

/// Why the certificate could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// The Secret could not be read.
    #[error("cannot read Secret {0} with the serving certificate")]
    Read(String, #[source] RequestError),
    /// The Secret could not be written.
    #[error("cannot write or remove Secret {0} with the serving certificate")]
    Write(String, #[source] RequestError),
    /// There is a Secret of that name that is not ours.
    #[error(
        "Secret {name} is of type {}, not {TYPE}: remove it, or name another with --tls-secret",
        quoted(found)
    )]
    Foreign {
        /// The Secret.
        name: String,
        /// Its type.
        found: String,
    },
    /// No certificate could be made.
    #[error("cannot make a serving certificate")]
    Make(#[source] rcgen::Error),
}

/// The Secret that the replicas share.
#[derive(Clone)]
pub struct Release {
    /// oxolm's own client.
    pub client: Client,
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret.
    pub name: String,
    /// Host names and addresses that the certificate must be for.
    pub hosts: Vec<String>,
}

impl std::fmt::Debug for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Release").finish_non_exhaustive()
    }
}

/// A certificate and its key, PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub certificate: Vec<u8>,
    /// The key.
    pub key: Vec<u8>,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").finish_non_exhaustive()
    }
}

/// What the Secret was found to hold.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// What can be served, if there is something.
    pub pair: Option<Pair>,
    /// What is to be written, if something is due.
    pub due: Option<Due>,
}

/// A write that is due.
#[derive(Debug, PartialEq, Eq)]
pub struct Due {
    /// The Secret as it was read; none if there is none.
    version: Option<String>,
    made: Held,
}

/// The content of the Secret, PEM.
#[derive(Clone, Default, PartialEq, Eq)]
struct Held {
    bundle: Vec<u8>,
    authority_key: Vec<u8>,
    pair: Option<Pair>,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

impl Release {
    /// Reads the Secret, and says what is due at `now`.
    ///
    /// # Errors
    /// When it cannot be read, or is somebody else's.
    pub async fn look(&self, now: Timestamp) -> Result<Found, ReleaseError> {
        let Some(secret) = self.read().await? else {
            let made = Held::default().renewed(&self.hosts, now);
            let made = made.map_err(ReleaseError::Make)?.unwrap_or_default();
            let due = Some(Due {
                version: None,
                made,
            });
            return Ok(Found { pair: None, due });
        };
        let held = Held::of(&secret);
        let made = held.renewed(&self.hosts, now).map_err(ReleaseError::Make)?;
        let version = secret.pointer("/metadata/resourceVersion");
        let version = version.and_then(Value::as_str).map(str::to_owned);
        let due = made.map(|made| Due { version, made });
        // What is about to be replaced may still do until then.
        let pair = held.usable(&self.hosts, now).and(held.pair);
        Ok(Found { pair, due })
    }

    /// Writes what is due: what is served from now on; none when somebody else was faster, and it is to be looked again.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn write(&self, due: Due) -> Result<Option<Pair>, ReleaseError> {
        let Due { version, made } = due;
        let labels = json!({"app.kubernetes.io/part-of": MANAGER});
        let (path, data) = (self.path(), made.data());
        let answer = if let Some(version) = version {
            let patch = Patch::Merge(json!({
                "metadata": {"resourceVersion": version, "labels": labels}, "data": data,
            }));
            let parameters = PatchParams {
                field_manager: Some(MANAGER.to_owned()),
                ..PatchParams::default()
            };
            request::patch(&self.client, &path, &self.name, &parameters, &patch).await
        } else {
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "type": TYPE,
                "metadata": {"name": self.name, "namespace": self.namespace, "labels": labels},
                "data": data,
            });
            request::create(&self.client, &path, MANAGER, &secret).await
        };
        match answer {
            Ok(_) => Ok(made.pair),
            Err(error)
                if error.is_already_exists() || error.is_conflict() || error.is_not_found() =>
            {
                Ok(None)
            }
            Err(source) => Err(ReleaseError::Write(self.full_name(), source)),
        }
    }

    /// Removes the Secret; false if there is none. A replica that is going may write once more, so it is looked for until
    /// there was none twice.
    ///
    /// # Errors
    /// When it is somebody else's, or the API server refuses.
    pub async fn remove(&self) -> Result<bool, ReleaseError> {
        let mut was_there = false;
        let mut looks_without = 0;
        while looks_without < 2 {
            if looks_without > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            let is_gone = self.remove_once().await?;
            was_there |= is_gone;
            looks_without = if is_gone { 0 } else { looks_without + 1 };
        }
        Ok(was_there)
    }

    async fn remove_once(&self) -> Result<bool, ReleaseError> {
        if self.read().await?.is_none() {
            return Ok(false);
        }
        let parameters = DeleteParams::default();
        let answer = request::delete(&self.client, &self.path(), &self.name, &parameters).await;
        let answer = answer.map_err(|source| ReleaseError::Write(self.full_name(), source))?;
        Ok(answer == Deletion::Gone)
    }

    async fn read(&self) -> Result<Option<Value>, ReleaseError> {
        let secret = request::get(&self.client, &self.path(), &self.name).await;
        let secret = secret.map_err(|source| ReleaseError::Read(self.full_name(), source))?;
        let Some(secret) = secret else {
            return Ok(None);
        };
        let found = secret.get("type").and_then(Value::as_str);
        let found = found.unwrap_or_default();
        if found != TYPE {
            return Err(ReleaseError::Foreign {
                name: self.full_name(),
                found: found.to_owned(),
            });
        }
        Ok(Some(secret))
    }

    fn path(&self) -> String {
        path("", "v1", Some(&self.namespace), "secrets")
    }

    fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl Held {
    /// What cannot be read is as if it were not there.
    fn of(secret: &Value) -> Self {
        let bytes = |key: &str| {
            let text = secret.get("data")?.get(key)?.as_str()?;
            STANDARD.decode(text).ok() // As above.
        };
        let pair = bytes(CERTIFICATE).zip(bytes(KEY));
        Self {
            bundle: bytes(BUNDLE).unwrap_or_default(),
            authority_key: bytes(AUTHORITY_KEY).unwrap_or_default(),
            pair: pair.map(|(certificate, key)| Pair { certificate, key }),
        }
    }

    fn data(&self) -> Value {
        let pair = self.pair.as_ref();
        let text = |bytes: &[u8]| json!(STANDARD.encode(bytes));
        json!({
            BUNDLE: text(&self.bundle),
            AUTHORITY_KEY: text(&self.authority_key),
            CERTIFICATE: text(pair.map_or(&[], |pair| &pair.certificate)),
            KEY: text(pair.map_or(&[], |pair| &pair.key)),
        })
    }

    /// The certificate, if clients accept it for all of `hosts`.
    fn usable(&self, hosts: &[String], now: Timestamp) -> Option<Certificate> {
        self.usable_under(&authorities(&self.bundle, now), hosts, now)
    }

    fn usable_under(
        &self,
        bundle: &[Authority],
        hosts: &[String],
        now: Timestamp,
    ) -> Option<Certificate> {
        let pair = self.pair.as_ref()?;
        usable(&pair.certificate, &pair.key, bundle, hosts, now)
    }

    /// What it is to be instead, if anything is due.
    fn renewed(&self, hosts: &[String], now: Timestamp) -> Result<Option<Self>, rcgen::Error> {
        let mut bundle = authorities(&self.bundle, now);
        let newest = bundle.first();
        let signer = newest.filter(|newest| !is_aged(newest.issued, AUTHORITY_LIFE, now));
        let signer = signer.and_then(|newest| Signer::of(newest, &self.authority_key));
        let has_signer = signer.is_some();
        let signer = match signer {
            Some(signer) => signer,
            None => Signer::make(&format!("oxolm CA {now}"), AUTHORITY_LIFE, now)?,
        };
        if !has_signer {
            bundle = [authorities(signer.pem.as_bytes(), now), bundle].concat();
            bundle.truncate(AUTHORITIES);
        }
        let certificate = self.usable_under(&bundle, hosts, now);
        let is_due =
            certificate.is_none_or(|certificate| is_renewed(&certificate, bundle.first(), now));
        if has_signer && !is_due {
            return Ok(None);
        }
        let pair = if is_due {
            let (certificate, key) = signer.sign(&self.hosts(hosts, now), LIFE, now)?;
            Some(Pair {
                certificate: certificate.into_bytes(),
                key: key.into_bytes(),
            })
        } else {
            self.pair.clone()
        };
        let pems: Vec<&str> = bundle.iter().map(|one| one.pem.as_str()).collect();
        Ok(Some(Self {
            bundle: pems.concat().into_bytes(),
            authority_key: signer.key().into_bytes(),
            pair,
        }))
    }

    /// Whom a new certificate is for. While replicas do not agree, as in an upgrade that changes the address, it is for
    /// the hosts of all of them, so that they do not renew it in turns.
    fn hosts(&self, wanted: &[String], now: Timestamp) -> Vec<String> {
        let mut hosts = wanted.to_vec();
        let is_of_others = self.usable(&[], now).is_some() && self.usable(wanted, now).is_none();
        if let Some(pair) = self.pair.as_ref().filter(|_| is_of_others) {
            let more = hosts_of(&pair.certificate).into_iter();
            hosts.extend(more.filter(|host| !wanted.contains(host)));
        }
        hosts
    }
}

/// Whether two thirds of a life are over.
fn is_aged(issued: Timestamp, life: SignedDuration, now: Timestamp) -> bool {
    now.duration_since(issued) >= life / 3 * 2
}

/// Whether it is time for another certificate: not as long as clients may not know the `newest` CA, if this one lasts.
fn is_renewed(certificate: &Certificate, newest: Option<&Authority>, now: Timestamp) -> bool {
    let is_known = newest.is_none_or(|newest| now.duration_since(newest.issued) >= PUBLISHED);
    let lasts = certificate.expires.duration_since(now) > PUBLISHED;
    let life = certificate.expires.duration_since(certificate.issued);
    is_aged(certificate.issued, life, now) && (is_known || certificate.authority == 0 || !lasts)
}

#[cfg(test)]
mod tests;

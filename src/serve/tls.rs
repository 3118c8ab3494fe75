#![expect(clippy::disallowed_methods, reason = "shell: reads certificates")]
//! The serving certificate: of two files, read again when they change, made here, or handed in.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};
use tracing::{info, warn};

use super::ServeError;
use crate::error::chain;

/// How often the files of a certificate are looked at. The kubelet swaps directories, which file
/// notifications miss.
const RELOAD_EVERY: Duration = Duration::from_secs(10);

/// What clients must speak, as Mozilla's recommendations have it and rustls can.
///
/// rustls has neither TLS 1.1 nor ciphers without forward secrecy, so the reference's `old` is not there; nor is `custom`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// TLS 1.3.
    Modern,
    /// TLS 1.2 with ECDHE and AEAD ciphers, or TLS 1.3.
    #[default]
    Intermediate,
}

/// A profile that there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown TLS profile {0:?}: there are modern (TLS 1.3) and intermediate (TLS 1.2 and 1.3)")]
pub struct UnknownProfile(String);

impl FromStr for Profile {
    type Err = UnknownProfile;

    /// Whatever the case, as in the reference.
    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        if text.eq_ignore_ascii_case("modern") {
            Ok(Self::Modern)
        } else if text.eq_ignore_ascii_case("intermediate") {
            Ok(Self::Intermediate)
        } else {
            Err(UnknownProfile(text.to_owned()))
        }
    }
}

/// Where the serving certificate comes from.
#[derive(Debug, Clone)]
pub enum Certificate {
    /// PEM files; a change takes effect with the next connection, a bad one keeps the old pair.
    Files {
        /// The certificate, followed by intermediate ones.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
    },
    /// Made at start, valid for these host names and addresses, signed by nobody else; until another one is
    /// [taken](ServingCertificate::take).
    SelfMade {
        /// Subject alternative names.
        names: Vec<String>,
    },
}

/// The certificate of new connections, of all servers that share it.
#[derive(Debug)]
pub struct ServingCertificate {
    source: Certificate,
    pair: ArcSwap<Pair>,
}

#[derive(Debug)]
struct Pair {
    /// What the files held, to see a change.
    pem: (Vec<u8>, Vec<u8>),
    certified: Arc<CertifiedKey>,
}

impl ServingCertificate {
    /// Reads or makes the certificate.
    ///
    /// # Errors
    /// When the files cannot be used.
    pub fn load(source: Certificate) -> Result<Arc<Self>, ServeError> {
        let pair = match &source {
            Certificate::Files { certificate, key } => read(certificate, key)?,
            Certificate::SelfMade { names } => self_made(names)?,
        };
        Ok(Arc::new(Self {
            source,
            pair: ArcSwap::from_pointee(pair),
        }))
    }

    /// What is served, PEM.
    #[cfg(test)]
    pub(crate) fn served(&self) -> Vec<u8> {
        self.pair.load().pem.0.clone()
    }

    /// Serves this pair, PEM, from now on; true when it is another one than before.
    ///
    /// # Errors
    /// When it is none; what was served before is served on.
    pub fn take(&self, certificate: Vec<u8>, key: Vec<u8>) -> Result<bool, ServeError> {
        let pem = (certificate, key);
        if pem == self.pair.load().pem {
            return Ok(false);
        }
        let pair = parse(pem).map_err(|(_, source)| ServeError::Taken(source))?;
        self.pair.store(Arc::new(pair));
        Ok(true)
    }

    /// Looks for changed files until it is dropped.
    pub async fn watch(&self) {
        let Certificate::Files { certificate, key } = &self.source else {
            return std::future::pending().await;
        };
        let mut ticks = tokio::time::interval(RELOAD_EVERY);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            self.reload(certificate, key);
        }
    }

    /// Takes the files' pair if it is new and sound.
    fn reload(&self, certificate: &Path, key: &Path) {
        match read(certificate, key) {
            Ok(pair) if pair.pem == self.pair.load().pem => {}
            Ok(pair) => {
                self.pair.store(Arc::new(pair));
                info!(certificate = %certificate.display(), "took the new serving certificate");
            }
            Err(error) => {
                let error = chain(&error);
                warn!(error, "kept the old serving certificate");
            }
        }
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.pair.load().certified.clone())
    }
}

/// What connections speak: the versions of a profile, with the certificate of the moment. Clones share the certificate.
#[derive(Debug, Clone)]
pub struct Tls {
    #[cfg(test)]
    certificate: Arc<ServingCertificate>,
    pub(super) config: Arc<ServerConfig>,
}

impl Tls {
    /// Speaks `profile` with this certificate.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn of(certificate: Arc<ServingCertificate>, profile: Profile) -> Result<Self, ServeError> {
        Ok(Self {
            #[cfg(test)]
            certificate: certificate.clone(),
            config: config(certificate, profile)?,
        })
    }

    /// The same with a certificate that is read or made now, and stays.
    ///
    /// # Errors
    /// When it cannot be used.
    pub fn load(source: Certificate, profile: Profile) -> Result<Self, ServeError> {
        Self::of(ServingCertificate::load(source)?, profile)
    }

    #[cfg(test)]
    pub(super) fn reload(&self, certificate: &Path, key: &Path) {
        self.certificate.reload(certificate, key);
    }
}

/// The profile's versions with the certificate of the moment; HTTP/1.1 only, as in the reference.
fn config(
    current: Arc<ServingCertificate>,
    profile: Profile,
) -> Result<Arc<ServerConfig>, ServeError> {
    let versions: &[&SupportedProtocolVersion] = match profile {
        Profile::Modern => &[&TLS13],
        Profile::Intermediate => &[&TLS13, &TLS12],
    };
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .map_err(ServeError::Tls)?
        .with_no_client_auth()
        .with_cert_resolver(current);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn read(certificate: &Path, key: &Path) -> Result<Pair, ServeError> {
    let bytes = |path: &Path| {
        fs::read(path).map_err(|source| ServeError::Certificate {
            path: path.to_owned(),
            source: source.into(),
        })
    };
    parse((bytes(certificate)?, bytes(key)?)).map_err(|(part, source)| ServeError::Certificate {
        path: match part {
            Part::Certificate => certificate.to_owned(),
            Part::Key => key.to_owned(),
        },
        source,
    })
}

/// What of a pair is broken.
enum Part {
    Certificate,
    Key,
}

/// Reads a certificate with its intermediate ones, and its key.
fn parse(pem: (Vec<u8>, Vec<u8>)) -> Result<Pair, (Part, Box<dyn Error + Send + Sync>)> {
    let chain = CertificateDer::pem_slice_iter(&pem.0)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| (Part::Certificate, error.into()))?;
    let private =
        PrivateKeyDer::from_pem_slice(&pem.1).map_err(|error| (Part::Key, error.into()))?;
    let certified = CertifiedKey::from_der(chain, private, &provider())
        .map_err(|error| (Part::Certificate, error.into()))?;
    Ok(Pair {
        pem,
        certified: Arc::new(certified),
    })
}

fn self_made(names: &[String]) -> Result<Pair, ServeError> {
    let made = rcgen::generate_simple_self_signed(names).map_err(ServeError::SelfMade)?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let chain = vec![made.cert.der().clone()];
    let certified =
        CertifiedKey::from_der(chain, key.into(), &provider()).map_err(ServeError::Tls)?;
    Ok(Pair {
        pem: (Vec::new(), Vec::new()),
        certified: Arc::new(certified),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_pair(directory: &Path) -> Vec<u8> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(directory.join("tls.crt"), made.cert.pem()).unwrap();
        fs::write(directory.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
        made.cert.der().to_vec()
    }

    fn served(current: &ServingCertificate) -> Vec<u8> {
        current.pair.load().certified.cert[0].to_vec()
    }

    #[test]
    fn a_changed_pair_is_taken_and_a_bad_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let (certificate, key) = (
            directory.path().join("tls.crt"),
            directory.path().join("tls.key"),
        );
        let first = write_pair(directory.path());
        let source = Certificate::Files {
            certificate: certificate.clone(),
            key: key.clone(),
        };
        let current = ServingCertificate::load(source.clone()).unwrap();
        assert_eq!(served(&current), first);

        let second = write_pair(directory.path());
        current.reload(&certificate, &key);
        assert_eq!(served(&current), second);

        fs::write(&certificate, "nothing").unwrap();
        current.reload(&certificate, &key);
        assert_eq!(served(&current), second);

        fs::remove_file(&key).unwrap();
        let error = ServingCertificate::load(source).unwrap_err();
        assert!(error.to_string().ends_with("tls.key"), "{error}");
    }

    #[test]
    fn what_is_handed_in_is_served() {
        let names = vec!["localhost".to_owned()];
        let current = ServingCertificate::load(Certificate::SelfMade { names }).unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let take = |certificate: &str, key: &str| {
            current.take(certificate.as_bytes().to_vec(), key.as_bytes().to_vec())
        };
        assert!(take(&certificate, &key).unwrap());
        assert_eq!(served(&current), made.cert.der().to_vec());
        assert!(!take(&certificate, &key).unwrap(), "it is the same");
        assert!(take(&certificate, "nothing").is_err());
        assert_eq!(served(&current), made.cert.der().to_vec());
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        write_pair(directory.path());
        let certificate = directory.path().join("tls.crt");
        let other = tempfile::tempdir().unwrap();
        write_pair(other.path());
        let key = other.path().join("tls.key");
        assert!(ServingCertificate::load(Certificate::Files { certificate, key }).is_err());
    }
}

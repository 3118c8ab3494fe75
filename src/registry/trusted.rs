//! Which certificates of registries are trusted: those that an authority of the system or of the CA directory signed, and, as
//! in Go, those that lie in the CA directory themselves.
//!
//! rustls refuses the latter when they may also sign others, as nearly every certificate does that somebody made with one
//! `openssl req -x509`.

use std::sync::Arc;

use reqwest::ClientBuilder;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::Verifier;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::time::ASN1Time;

/// Has clients of `builder` trust `roots` beside the system's authorities, and show themselves with the first certificate
/// and key of `identity`, concatenated PEM.
///
/// # Errors
/// When a root or the identity is malformed, or there are no authorities at all.
pub(super) fn trusting(
    builder: ClientBuilder,
    roots: &[Vec<u8>],
    identity: Option<&[u8]>,
) -> Result<ClientBuilder, Error> {
    let roots: Vec<CertificateDer<'static>> = roots.iter().cloned().map(Into::into).collect();
    let provider = CryptoProvider::get_default()
        .cloned()
        .unwrap_or_else(|| Arc::new(rustls::crypto::ring::default_provider()));
    let authorities = Verifier::new_with_extra_roots(roots.iter().cloned(), Arc::clone(&provider))?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusted { authorities, roots }));
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some(pem) => {
            let malformed = |_| Error::General("the identity is malformed".to_owned());
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
            let key = PrivateKeyDer::from_pem_slice(pem).map_err(malformed)?;
            config.with_client_auth_cert(chain.map_err(malformed)?, key)?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(builder.tls_backend_preconfigured(config))
}

#[derive(Debug)]
struct Trusted {
    authorities: Verifier,
    roots: Vec<CertificateDer<'static>>,
}

impl Trusted {
    /// Whether the certificate is trusted by itself, is valid at that time, and may be shown by a server.
    fn is_trusted_itself(&self, certificate: &CertificateDer<'_>, now: UnixTime) -> bool {
        let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
            return false;
        };
        let now = i64::try_from(now.as_secs()).map(ASN1Time::from_timestamp);
        let is_valid = now
            .ok()
            .and_then(Result::ok)
            .is_some_and(|now| parsed.validity().is_valid_at(now));
        let is_for_servers = match parsed.extended_key_usage() {
            Ok(None) => true,
            Ok(Some(usage)) => usage.value.any || usage.value.server_auth,
            Err(_) => false,
        };
        is_valid && is_for_servers && self.roots.iter().any(|root| root == certificate)
    }
}

impl ServerCertVerifier for Trusted {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.is_trusted_itself(end_entity, now) {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        let authorities = &self.authorities;
        authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{
        BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose as Purpose, IsCa, KeyPair,
    };

    use super::*;

    const YEAR_2026: u64 = 1_780_000_000;
    const YEAR_2040: u64 = 2_220_000_000;

    fn made(purposes: &[Purpose]) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(["reg.example".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.extended_key_usages = purposes.to_vec();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2035, 1, 1);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    #[test]
    fn a_certificate_of_the_directory_is_trusted_for_its_names_while_it_is_valid() {
        let (plain, other) = (made(&[]), made(&[]));
        let (server, client) = (made(&[Purpose::ServerAuth]), made(&[Purpose::ClientAuth]));
        let roots = vec![plain.clone(), server.clone(), client.clone()];
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let authorities = Verifier::new_with_extra_roots(roots.iter().cloned(), provider).unwrap();
        let trusted = Trusted { authorities, roots };
        for (certificate, name, at, is_accepted) in [
            (&plain, "reg.example", YEAR_2026, true),
            (&server, "reg.example", YEAR_2026, true),
            (&plain, "evil.example", YEAR_2026, false),
            (&plain, "reg.example", YEAR_2040, false),
            (&client, "reg.example", YEAR_2026, false),
            (&other, "reg.example", YEAR_2026, false),
        ] {
            let (name, at) = (
                ServerName::try_from(name).unwrap(),
                UnixTime::since_unix_epoch(Duration::from_secs(at)),
            );
            let verdict = trusted.verify_server_cert(certificate, &[], &name, &[], at);
            assert_eq!(verdict.is_ok(), is_accepted, "{name:?} {at:?} {verdict:?}");
        }
    }
}

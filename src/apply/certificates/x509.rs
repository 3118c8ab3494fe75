//! Certificates made and read. That of a webhook has a CA whose key is gone when [`make`] returns.

use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;

use crate::revision::certificates::{BACKDATED, LIFE};

/// The most that a common name may hold.
const NAME_LIMIT: usize = 64;

/// What was made for one server.
pub(super) struct Made {
    /// The CA's certificate, PEM.
    pub(super) authority: String,
    /// The server's certificate, PEM.
    pub(super) certificate: String,
    /// The server's key, PEM.
    pub(super) key: String,
}

/// A CA in a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Authority {
    /// Its certificate, PEM.
    pub(super) pem: String,
    /// When it was made.
    pub(super) issued: Timestamp,
    expires: Timestamp,
    der: Vec<u8>,
}

/// A server's certificate that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Certificate {
    /// When it was made.
    pub(super) issued: Timestamp,
    /// Until when it, and the CA that signed it, are valid.
    pub(super) expires: Timestamp,
    /// The place of its CA in the bundle.
    pub(super) authority: usize,
}

/// A CA with its key.
#[derive(Debug)]
pub(super) struct Signer {
    /// Its certificate, PEM.
    pub(super) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// Makes a CA and a certificate of it for `hosts`.
pub(super) fn make(hosts: &[String], now: Timestamp) -> Result<Made, rcgen::Error> {
    let signer = Signer::make(&format!("oxolm webhook CA {now}"), LIFE, now)?;
    let (certificate, key) = signer.sign(hosts, LIFE, now)?;
    Ok(Made {
        authority: signer.pem,
        certificate,
        key,
    })
}

impl Signer {
    /// Makes a CA of this name.
    pub(super) fn make(
        name: &str,
        life: SignedDuration,
        now: Timestamp,
    ) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut parameters = parameters(Vec::new(), name, life, now)?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let pem = parameters.self_signed(&key)?.pem();
        let issuer = Issuer::new(parameters, key);
        Ok(Self { pem, issuer })
    }

    /// The CA `authority` with its `key`, PEM; none if that is not its key.
    pub(super) fn of(authority: &Authority, key: &[u8]) -> Option<Self> {
        let key = KeyPair::from_pem(std::str::from_utf8(key).ok()?).ok()?; // What cannot be read signs nothing.
        let (_, certificate) = x509_parser::parse_x509_certificate(&authority.der).ok()?; // As above.
        if certificate.public_key().subject_public_key.data != key.der_bytes() {
            return None;
        }
        let name = certificate.subject().iter_common_name().next()?;
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = named(name.as_str().ok()?); // As above.
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Some(Self {
            pem: authority.pem.clone(),
            issuer: Issuer::new(parameters, key),
        })
    }

    /// The key of the CA, PEM.
    pub(super) fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A certificate for `hosts` and its key, PEM.
    pub(super) fn sign(
        &self,
        hosts: &[String],
        life: SignedDuration,
        now: Timestamp,
    ) -> Result<(String, String), rcgen::Error> {
        let key = KeyPair::generate()?;
        let host = hosts.first().map_or("", String::as_str);
        let mut server = parameters(hosts.to_vec(), host, life, now)?;
        server.use_authority_key_identifier_extension = true;
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = server.signed_by(&key, &self.issuer)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}

fn parameters(
    hosts: Vec<String>,
    name: &str,
    life: SignedDuration,
    now: Timestamp,
) -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = CertificateParams::new(hosts)?;
    // A longer name is no name; the hosts stand beside it anyway.
    let name = Some(name).filter(|name| name.len() <= NAME_LIMIT);
    parameters.distinguished_name = named(name.unwrap_or("oxolm"));
    let seconds = |time: Timestamp| Duration::from_secs(time.as_second().unsigned_abs());
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    parameters.not_before = epoch + seconds(now - BACKDATED);
    parameters.not_after = epoch + seconds(now + life);
    Ok(parameters)
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// The CAs in `pem` that are valid at `now`; anything else is passed over.
pub(super) fn authorities(pem: &[u8], now: Timestamp) -> Vec<Authority> {
    let blocks = Pem::iter_from_buffer(pem).filter_map(Result::ok); // A block that cannot be read trusts nobody.
    blocks
        .filter_map(|block| {
            let certificate = block.parse_x509().ok()?; // As above.
            let (issued, expires) = validity(&certificate);
            (certificate.is_ca() && holds(issued, expires, now)).then(|| Authority {
                pem: pem_of(&block.contents),
                issued,
                expires,
                der: block.contents.clone(),
            })
        })
        .collect()
}

/// The certificate in `certificate` with its `key`, if a caller that trusts `bundle` would accept it for all of `hosts`
/// at `now`.
pub(super) fn usable(
    certificate: &[u8],
    key: &[u8],
    bundle: &[Authority],
    hosts: &[String],
    now: Timestamp,
) -> Option<Certificate> {
    let block = Pem::iter_from_buffer(certificate).next()?.ok()?; // What cannot be read cannot be used.
    let certificate = block.parse_x509().ok()?; // As above.
    let (issued, expires) = validity(&certificate);
    let key = KeyPair::from_pem(std::str::from_utf8(key).ok()?).ok()?; // As above.
    let is_pair = certificate.public_key().subject_public_key.data == key.der_bytes();
    let is_for_all = hosts.iter().all(|host| is_for(&certificate, host));
    if !is_pair || !is_for_all || !holds(issued, expires, now) {
        return None;
    }
    let authority = bundle
        .iter()
        .position(|authority| has_signed(authority, &certificate))?;
    Some(Certificate {
        issued,
        expires: expires.min(bundle.get(authority)?.expires),
        authority,
    })
}

fn is_for(certificate: &X509Certificate<'_>, host: &str) -> bool {
    let address = host.parse().ok(); // Most hosts are none.
    let names = certificate.subject_alternative_name().ok().flatten(); // What cannot be read is for nobody.
    names.is_some_and(|names| {
        let mut names = names.value.general_names.iter();
        names.any(|name| match name {
            GeneralName::DNSName(name) => *name == host,
            GeneralName::IPAddress(bytes) => address.is_some() && address == address_of(bytes),
            _ => false,
        })
    })
}

fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let six = || <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_length| six()).ok() // Another length is no address.
}

/// The hosts that the certificate in `pem` is for, whoever signed it.
pub(super) fn hosts_of(pem: &[u8]) -> Vec<String> {
    let Some(Ok(block)) = Pem::iter_from_buffer(pem).next() else {
        return Vec::new();
    };
    let Ok(certificate) = block.parse_x509() else {
        return Vec::new();
    };
    let names = certificate.subject_alternative_name().ok().flatten(); // What cannot be read is for nobody.
    let names = names.map(|names| names.value.general_names.iter());
    let host = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address_of(bytes).map(|address| address.to_string()),
        _ => None,
    };
    names.into_iter().flatten().filter_map(host).collect()
}

fn has_signed(authority: &Authority, certificate: &X509Certificate<'_>) -> bool {
    let Ok((_, authority)) = x509_parser::parse_x509_certificate(&authority.der) else {
        return false;
    };
    authority.subject() == certificate.issuer()
        && certificate
            .verify_signature(Some(authority.public_key()))
            .is_ok()
}

/// When it was made, and until when it is valid.
fn validity(certificate: &X509Certificate<'_>) -> (Timestamp, Timestamp) {
    let validity = certificate.validity();
    // The last day of the year 9999, which some take for ever, is beyond our calendar.
    let time = |seconds: i64| Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    let issued = time(validity.not_before.timestamp()).saturating_add(BACKDATED);
    (
        issued.unwrap_or(Timestamp::MAX),
        time(validity.not_after.timestamp()),
    )
}

/// Whether a caller takes it at `now`: one that was made while the clock was wrong may not be valid yet.
fn holds(issued: Timestamp, expires: Timestamp, now: Timestamp) -> bool {
    let begins = issued.saturating_sub(BACKDATED).unwrap_or(issued); // A time is taken away: it cannot fail.
    begins <= now && now < expires
}

/// One certificate as PEM, always written in the same way.
fn pem_of(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for (at, letter) in text.chars().enumerate() {
        if at > 0 && at % 64 == 0 {
            pem.push('\n');
        }
        pem.push(letter);
    }
    pem.push_str("\n-----END CERTIFICATE-----\n");
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-21T12:00:00Z".parse().unwrap()
    }

    fn hosts() -> Vec<String> {
        vec!["s.n.svc".to_owned(), "s.n".to_owned()]
    }

    #[test]
    fn what_is_made_can_be_used() {
        let made = make(&hosts(), now()).unwrap();
        let other = make(&hosts(), now()).unwrap();
        let pem = format!("{}no certificate\n{}", other.authority, made.authority);
        let bundle = authorities(pem.as_bytes(), now());
        assert_eq!(bundle.len(), 2);
        assert_eq!(bundle[0].issued, now());
        let check = |certificate: &str, key: &str, hosts: &[String], at: Timestamp| {
            usable(certificate.as_bytes(), key.as_bytes(), &bundle, hosts, at)
        };
        let found = check(&made.certificate, &made.key, &hosts(), now()).unwrap();
        assert_eq!((found.issued, found.authority), (now(), 1));
        assert_eq!(found.expires, now() + LIFE);
        let certificate = &made.certificate;
        let more = [hosts(), vec!["other".to_owned()]].concat();
        assert_eq!(check(certificate, &made.key, &more, now()), None);
        assert_eq!(check(certificate, &other.key, &hosts(), now()), None);
        assert_eq!(check(certificate, "", &hosts(), now()), None);
        assert_eq!(check("", &made.key, &hosts(), now()), None);
        assert_eq!(check(certificate, &made.key, &hosts(), now() + LIFE), None);
        assert_eq!(
            check(certificate, &made.key, &hosts(), now() - BACKDATED * 2),
            None
        );
        let stranger = make(&hosts(), now()).unwrap();
        assert_eq!(
            check(&stranger.certificate, &stranger.key, &hosts(), now()),
            None
        );
    }

    #[test]
    fn a_bundle_is_what_is_valid_in_it() {
        let made = make(&hosts(), now()).unwrap();
        let pem = format!("{}{}", made.authority, made.certificate);
        let [authority] = &authorities(pem.as_bytes(), now())[..] else {
            panic!("a server's certificate is no CA");
        };
        assert_eq!(authorities(authority.pem.as_bytes(), now()).len(), 1);
        assert_eq!(authorities(pem.as_bytes(), now() + LIFE), []);
        assert_eq!(authorities(pem.as_bytes(), now() - BACKDATED * 2), []);
        assert_eq!(authorities(b"nothing", now()), []);
        assert_eq!(
            authorities(
                b"-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n",
                now()
            ),
            []
        );
    }

    #[test]
    fn a_long_host_still_gets_a_certificate() {
        let hosts = vec![format!("{}.n.svc", "s".repeat(63))];
        let made = make(&hosts, now()).unwrap();
        let bundle = authorities(made.authority.as_bytes(), now());
        let (certificate, key) = (made.certificate.as_bytes(), made.key.as_bytes());
        assert!(usable(certificate, key, &bundle, &hosts, now()).is_some());
    }
}

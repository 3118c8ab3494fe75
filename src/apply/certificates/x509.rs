//! Certificates made and read. A CA signs one certificate, and its key is gone when [`make`] returns.

use std::time::Duration;

use jiff::Timestamp;
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

/// Makes a CA and a certificate of it for `hosts`.
pub(super) fn make(hosts: &[String], now: Timestamp) -> Result<Made, rcgen::Error> {
    let authority_key = KeyPair::generate()?;
    let mut authority = parameters(Vec::new(), &format!("oxolm webhook CA {now}"), now)?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority_certificate = authority.self_signed(&authority_key)?;
    let key = KeyPair::generate()?;
    let host = hosts.first().map_or("", String::as_str);
    let mut server = parameters(hosts.to_vec(), host, now)?;
    server.use_authority_key_identifier_extension = true;
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = server.signed_by(&key, &Issuer::new(authority, authority_key))?;
    Ok(Made {
        authority: authority_certificate.pem(),
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

fn parameters(
    hosts: Vec<String>,
    name: &str,
    now: Timestamp,
) -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = CertificateParams::new(hosts)?;
    parameters.distinguished_name = DistinguishedName::new();
    // A longer name is no name; the hosts stand beside it anyway.
    let name = Some(name).filter(|name| name.len() <= NAME_LIMIT);
    let name = name.unwrap_or("oxolm webhook");
    parameters.distinguished_name.push(DnType::CommonName, name);
    let seconds = |time: Timestamp| Duration::from_secs(time.as_second().unsigned_abs());
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    parameters.not_before = epoch + seconds(now - BACKDATED);
    parameters.not_after = epoch + seconds(now + LIFE);
    Ok(parameters)
}

/// The CAs in `pem` that are valid at `now`; anything else is passed over.
pub(super) fn authorities(pem: &[u8], now: Timestamp) -> Vec<Authority> {
    let blocks = Pem::iter_from_buffer(pem).filter_map(Result::ok); // A block that cannot be read trusts nobody.
    blocks
        .filter_map(|block| {
            let certificate = block.parse_x509().ok()?; // As above.
            let (issued, expires) = validity(&certificate);
            (certificate.is_ca() && now < expires).then(|| Authority {
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
    if !is_pair || now >= expires || !hosts.iter().all(|host| is_for(&certificate, host)) {
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
    let names = certificate.subject_alternative_name().ok().flatten(); // What cannot be read is for nobody.
    names.is_some_and(|names| {
        let mut names = names.value.general_names.iter();
        names.any(|name| matches!(name, GeneralName::DNSName(name) if *name == host))
    })
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

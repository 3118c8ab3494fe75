//! Names of generated objects: cut to what Kubernetes takes, with a hash of what they grant.

use sha2::{Digest as _, Sha224};

use crate::bundle::csv::Permission;
use crate::bundle::go_text;

/// What fits the name of a Service, and so is the limit for all generated names, in bytes.
const NAME_LIMIT: usize = 63;

/// `base-suffix`, the base cut so that the name fits. The cut is blind: it may leave `.-` or `--`.
///
/// Differs from the reference: where both together have exactly 63 bytes, the dash would make them 64, which no API
/// server takes; here the base is cut then, too.
pub(crate) fn bounded(base: &str, suffix: &str) -> String {
    let room = NAME_LIMIT.saturating_sub(suffix.len() + 1);
    let mut end = base.len().min(room);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let (base, _) = base.split_at(end);
    format!("{base}-{suffix}")
}

/// The name of the RBAC objects of a permission.
pub(crate) fn for_permission(csv: &str, permission: &Permission) -> String {
    bounded(
        &format!("{csv}-{}", permission.account()),
        &hash(&go_text(permission)),
    )
}

/// SHA-224 of the JSON text and a line feed, in base 36 without padding.
fn hash(json: &str) -> String {
    let mut number: Vec<u8> = Sha224::new()
        .chain_update(json)
        .chain_update("\n")
        .finalize()
        .to_vec();
    let mut digits = Vec::new();
    while number.iter().any(|byte| *byte != 0) {
        let mut remainder = 0_u16;
        for byte in &mut number {
            let value = remainder << 8 | u16::from(*byte);
            // Below 256, since the remainder is below 36.
            *byte = u8::try_from(value / 36).unwrap_or(u8::MAX);
            remainder = value % 36;
        }
        digits.push(char::from_digit(u32::from(remainder), 36).unwrap_or('0'));
    }
    if digits.is_empty() {
        digits.push('0');
    }
    digits.iter().rev().collect()
}

/// The names that belong to a Deployment that serves webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WebhookNames {
    /// Its Service.
    pub(crate) service: String,
    /// The Certificate, and the Secret that holds it.
    pub(crate) certificate: String,
    /// The Issuer of the Certificate.
    pub(crate) issuer: String,
}

impl WebhookNames {
    pub(crate) fn of(deployment: &str) -> Self {
        let service = bounded(&deployment.replace('.', "-"), "service");
        let certificate = certificate_of(&service);
        let issuer = bounded(&certificate, "selfsigned-issuer");
        Self {
            service,
            certificate,
            issuer,
        }
    }
}

/// The name of the Secret that holds the certificate of a Service.
pub(super) fn certificate_of(service: &str) -> String {
    bounded(service, "cert")
}

/// The reasons why `name` is no DNS subdomain, as Kubernetes words them, sorted.
pub(crate) fn subdomain_problems(name: &str) -> Vec<String> {
    const LIMIT: usize = 253;
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = label.as_bytes();
        bytes.first().copied().is_some_and(inner)
            && bytes.last().copied().is_some_and(inner)
            && bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
    };
    let mut problems = Vec::new();
    if !name.split('.').all(is_label) {
        problems.push("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')".to_owned());
    }
    if name.len() > LIMIT {
        problems.push(format!("must be no more than {LIMIT} characters"));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_reference() {
        for (json, expected) in [
            ("\"a\"", "1lu1qv1451mq7gv9upu1cx8ffffi07rel5xvbvvc44dh"),
            ("\"b\"", "1ija85ah4gd0beltpfhszipkxfyqqxhp94tf2mjfgq61"),
            ("null", "2im0kl1kwvzn46sr4cdtkvmdzrlurvj51xdzhwdht8l0"),
            ("{}", "16jfjhihxbzhfhs1k5mimq740kvioi98pfbea9q6qtf9"),
            (
                r#"{"serviceAccountName":"foo","rules":null}"#,
                "vghe4kdaxuvbgtw9fap6x51jolxk2p5f9z8oyo0xh3g",
            ),
            (
                r#"{"serviceAccountName":"foo","rules":[]}"#,
                "2fzjk6khiasy790aoz9aukw4yh24nlvq1xmnh2e5iyzf",
            ),
        ] {
            assert_eq!(hash(json), expected, "{json}");
        }
    }

    #[test]
    fn a_permission_is_hashed_as_go_prints_it() {
        for (yaml, name) in [
            (
                r#"{"serviceAccountName":"foo","rules":[{"resources":["pods"],"verbs":["get"],"apiGroups":[""]}]}"#,
                "my-op.v1.0.0-foo-2bi22284kbio8nvaxyhmhsfoth9thiss4bix4ntcvqff",
            ),
            (
                r#"{"rules":[{"verbs":["get"],"nonResourceURLs":["/metrics"]}]}"#,
                "my-op.v1.0.0-defau-1w0nxhf3ku8aavcvr46u43p72jecq62vm78we9qvg7uu",
            ),
        ] {
            let permission: Permission = serde_json::from_str(yaml).unwrap();
            assert_eq!(for_permission("my-op.v1.0.0", &permission), name);
        }
    }

    #[test]
    fn names_of_a_webhook_deployment_fit() {
        for (deployment, service, certificate, issuer) in [
            (
                "my.deployment.thing",
                "my-deployment-thing-service",
                "my-deployment-thing-service-cert",
                "my-deployment-thing-service-cert-selfsigned-issuer",
            ),
            (
                "my.object.thing.has.a.really.really.really.really.really.long.name",
                "my-object-thing-has-a-really-really-really-really-reall-service",
                "my-object-thing-has-a-really-really-really-really-reall-se-cert",
                "my-object-thing-has-a-really-really-really-re-selfsigned-issuer",
            ),
        ] {
            let names = WebhookNames::of(deployment);
            assert_eq!(names.service, service);
            assert_eq!(names.certificate, certificate);
            assert_eq!(names.issuer, issuer);
        }
        assert_eq!(bounded(&"a".repeat(56), "service").len(), 63);
        assert_eq!(bounded("é".repeat(40).as_str(), "x").len(), 62);
    }

    #[test]
    fn subdomains_are_told_from_what_is_none() {
        assert!(subdomain_problems("a-b.c1").is_empty());
        for name in ["", "A", "a-", "a..b", ".a", "a_b"] {
            assert_eq!(subdomain_problems(name).len(), 1, "{name}");
        }
        assert_eq!(subdomain_problems(&"-".repeat(254)).len(), 2);
        assert_eq!(
            subdomain_problems(&"a".repeat(254)),
            ["must be no more than 253 characters"]
        );
    }
}

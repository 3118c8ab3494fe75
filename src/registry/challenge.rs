//! `WWW-Authenticate`: what a registry wants to see before it answers.
//!
//! Grammar of [RFC 9110, 11.6.1](https://www.rfc-editor.org/rfc/rfc9110#section-11.6.1), as far as registries use it: a scheme
//! followed by `name=value` pairs, several challenges possibly in one header.

use std::collections::BTreeMap;

/// One way to authenticate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    /// User name and password with each request.
    Basic,
    /// A token of the service at `realm`.
    Bearer {
        /// The address of the token service.
        realm: String,
        /// What the registry calls itself there.
        service: Option<String>,
        /// What the token is for; the registry knows best.
        scope: Option<String>,
    },
}

/// The challenges in the values of all `WWW-Authenticate` headers. Unknown schemes are left out.
pub(super) fn parse<'a>(values: impl IntoIterator<Item = &'a str>) -> Vec<Challenge> {
    let mut challenges = Vec::new();
    for value in values {
        let mut current: Option<(String, BTreeMap<String, String>)> = None;
        for part in split(value) {
            let (scheme, pair) = match part.split_once([' ', '\t']) {
                Some((scheme, rest)) if !scheme.contains(['=', '"']) => (Some(scheme), rest.trim()),
                _ if !part.contains('=') => (Some(part.as_str()), ""),
                _ => (None, part.as_str()),
            };
            if let Some(scheme) = scheme {
                challenges.extend(current.take().and_then(known));
                current = Some((scheme.to_ascii_lowercase(), BTreeMap::new()));
            }
            if let (Some((_, pairs)), Some((name, value))) = (&mut current, pair.split_once('=')) {
                pairs.insert(name.trim().to_ascii_lowercase(), unquote(value.trim()));
            }
        }
        challenges.extend(current.take().and_then(known));
    }
    challenges
}

fn known((scheme, mut pairs): (String, BTreeMap<String, String>)) -> Option<Challenge> {
    match scheme.as_str() {
        "basic" => Some(Challenge::Basic),
        "bearer" => Some(Challenge::Bearer {
            realm: pairs.remove("realm")?,
            service: pairs.remove("service"),
            scope: pairs.remove("scope"),
        }),
        _ => None,
    }
}

/// Splits at commas outside quotes; the parts are trimmed and not empty.
fn split(value: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    let mut escaped = false;
    for c in value.chars() {
        if c == ',' && !quoted {
            parts.push(String::new());
            continue;
        }
        if c == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = quoted && c == '\\' && !escaped;
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts
        .into_iter()
        .map(|part| part.trim().to_owned())
        .filter(|part| !part.is_empty())
        .collect()
}

fn unquote(value: &str) -> String {
    let Some(inner) = value
        .strip_prefix('"')
        .map(|v| v.strip_suffix('"').unwrap_or(v))
    else {
        return value.to_owned();
    };
    let mut text = String::new();
    let mut escaped = false;
    for c in inner.chars() {
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            text.push(c);
            escaped = false;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Challenge {
        Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
            scope: scope.map(str::to_owned),
        }
    }

    #[test]
    fn challenges_are_read() {
        for (value, expected) in [
            ("", vec![]),
            ("Basic realm=\"x, y\"", vec![Challenge::Basic]),
            ("basic", vec![Challenge::Basic]),
            ("Negotiate", vec![]),
            ("Bearer service=\"no realm\"", vec![]),
            (
                "Bearer realm=\"https://auth/token\",service=\"reg\",scope=\"repository:a/b:pull,push\"",
                vec![bearer(
                    "https://auth/token",
                    Some("reg"),
                    Some("repository:a/b:pull,push"),
                )],
            ),
            (
                "Negotiate, Bearer realm=\"a\\\"b\" , service=s, BASIC realm=\"r\"",
                vec![bearer("a\"b", Some("s"), None), Challenge::Basic],
            ),
        ] {
            assert_eq!(parse([value]), expected, "{value}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_headers_never_panic(value in "\\PC{0,60}") {
            // Only the absence of a panic matters here.
            _ = parse([value.as_str()]);
        }
    }
}

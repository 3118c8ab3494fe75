//! URIs of requests as Go's `net/url.ParseRequestURI` reads them, and their parts as CEL gives them.

use std::collections::BTreeMap;

/// A URI that Go takes: absolute, or a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::preflight::resource) struct Uri {
    pub(in crate::preflight::resource) scheme: String,
    /// Host and port, as they stand but for what is encoded.
    pub(in crate::preflight::resource) host: String,
    /// The path, encoded.
    pub(in crate::preflight::resource) path: String,
    query: String,
}

/// Where characters stand; others are allowed in each place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Path,
    Host,
    Zone,
    User,
    Query,
}

impl Uri {
    /// Reads a URI; none where Go refuses it.
    pub(in crate::preflight::resource) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.chars().any(|c| c.is_ascii_control()) {
            return None;
        }
        let mut uri = Self {
            scheme: String::new(),
            host: String::new(),
            path: String::new(),
            query: String::new(),
        };
        if text == "*" {
            "*".clone_into(&mut uri.path);
            return Some(uri);
        }
        let (scheme, rest) = scheme(text)?;
        uri.scheme = scheme.to_lowercase();
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        query.clone_into(&mut uri.query);
        if !rest.starts_with('/') {
            // What has a scheme and no slash is opaque.
            return (!uri.scheme.is_empty()).then_some(uri);
        }
        let mut path = rest;
        if !uri.scheme.is_empty()
            && let Some(after) = rest.strip_prefix("//")
        {
            let end = after.find('/').unwrap_or(after.len());
            let (authority, after) = after.split_at_checked(end)?;
            uri.host = host_of(authority)?;
            path = after;
        }
        let decoded = decode(path, Place::Path)?;
        uri.path = if is_well_encoded(path) {
            path.to_owned()
        } else {
            encode(&decoded)
        };
        Some(uri)
    }

    /// The host without its port, and without the brackets of an IPv6 address.
    pub(in crate::preflight::resource) fn hostname(&self) -> &str {
        let host = self.split().0;
        host.strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host)
    }

    /// The port, if there is one.
    pub(in crate::preflight::resource) fn port(&self) -> &str {
        self.split().1
    }

    fn split(&self) -> (&str, &str) {
        match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
            _ => (&self.host, ""),
        }
    }

    /// The values of each key; pairs that are not well encoded are left out.
    pub(in crate::preflight::resource) fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let pairs = self.query.split('&');
        for pair in pairs.filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(key), Some(value)) = (text(key), text(value)) {
                values.entry(key).or_default().push(value);
            }
        }
        values
    }
}

fn text(part: &str) -> Option<String> {
    let bytes = decode(part, Place::Query)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Scheme and rest; none where the text begins with a colon.
fn scheme(text: &str) -> Option<(&str, &str)> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at > 0 => return Some((text.get(..at)?, text.get(at + 1..)?)),
            ':' => return None,
            _ => break,
        }
    }
    Some(("", text))
}

/// The host of an authority, decoded.
fn host_of(authority: &str) -> Option<String> {
    let host = match authority.rsplit_once('@') {
        None => authority,
        Some((user, host)) => {
            let is_allowed =
                |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
            if !user.chars().all(is_allowed) {
                return None;
            }
            decode(user, Place::User)?;
            host
        }
    };
    let Some(address) = host.strip_prefix('[') else {
        let port = host
            .find(':')
            .map_or("", |_| host.rsplit_once(':').map_or("", |(_, port)| port));
        if !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        return String::from_utf8(decode(host, Place::Host)?).ok();
    };
    let (address, port) = address.rsplit_once(']')?;
    let is_port = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_port {
        return None;
    }
    let decoded = match address.split_once("%25") {
        None => decode(address, Place::Host)?,
        Some((address, zone)) => {
            let mut decoded = decode(address, Place::Host)?;
            decoded.push(b'%');
            decoded.extend(decode(zone, Place::Zone)?);
            decoded
        }
    };
    Some(format!("[{}]{port}", String::from_utf8(decoded).ok()?))
}

/// Replaces what is encoded; none where it is not so properly, or a character must not stand there.
fn decode(text: &str, place: Place) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match first {
            b'%' => {
                let [high, low, after @ ..] = rest else {
                    return None;
                };
                let byte = (hex(*high)? << 4) | hex(*low)?;
                rest = after;
                let is_refused = match place {
                    Place::Host => byte < 0x80 && byte != b'%',
                    Place::Zone => byte < 0x80 && !matches!(byte, b'%' | b' ') && !is_host(byte),
                    Place::Path | Place::User | Place::Query => false,
                };
                if is_refused {
                    return None;
                }
                bytes.push(byte);
            }
            b'+' if place == Place::Query => bytes.push(b' '),
            byte => {
                let is_in_host = matches!(place, Place::Host | Place::Zone);
                if is_in_host && byte.is_ascii() && !is_host(*byte) {
                    return None;
                }
                bytes.push(*byte);
            }
        }
    }
    Some(bytes)
}

fn hex(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

fn is_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte)
}

fn is_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte)
}

/// Whether the path can stay as it is written.
fn is_well_encoded(path: &str) -> bool {
    path.bytes()
        .all(|byte| is_path(byte) || b"!'()*[]%".contains(&byte))
}

fn encode(path: &[u8]) -> String {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
    ];
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or('0');
    let mut encoded = String::with_capacity(path.len());
    for byte in path {
        if is_path(*byte) {
            encoded.push(char::from(*byte));
        } else {
            encoded.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_told_from_other_texts() {
        for good in [
            "/",
            "/a b",
            "http://a",
            "http://a:80/b?c=d#e",
            "mailto:a",
            "a:b",
            "*",
            "http://[::1]:80/",
            "http://[fe80::1%25en0]/",
            "http://é",
            "http://u:p@h",
            "//a",
            "http://a:",
        ] {
            assert!(Uri::parse(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "a",
            "a/b",
            ":a",
            "1a:b",
            "http://a b",
            "http://a:x",
            "/%",
            "/%zz",
            "http://[::1",
            "http://a%20b",
            "/\n",
            "http://u p@h",
        ] {
            assert!(Uri::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_uri_has_parts() {
        let uri = Uri::parse("HTTPS://u@a.example:8443/b c?x=1&y=%32&x=a+b&%").unwrap();
        assert_eq!(
            (uri.scheme.as_str(), uri.host.as_str(), uri.path.as_str()),
            ("https", "a.example:8443", "/b%20c")
        );
        assert_eq!((uri.hostname(), uri.port()), ("a.example", "8443"));
        let query: Vec<_> = uri.query().into_iter().collect();
        assert_eq!(
            query,
            [
                ("x".to_owned(), vec!["1".to_owned(), "a b".to_owned()]),
                ("y".to_owned(), vec!["2".to_owned()])
            ]
        );
        let address = Uri::parse("http://[::1]:80/").unwrap();
        assert_eq!((address.hostname(), address.port()), ("::1", "80"));
    }
}

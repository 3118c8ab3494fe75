//! The formats that an API server looks at.
//!
//! After `kube-openapi/pkg/validation/strfmt`. A format that an API server does not know means nothing; one that it
//! knows and we do not is a gap.

mod mail;
mod uri;

use core::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::kind::Type;
pub(super) use uri::Uri;

/// Declares the formats of texts with their names, hyphens left out, and the check of each.
macro_rules! formats {
    ($($name:ident $text:literal $check:expr;)*) => {
        /// A format that is looked at.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Format { Int32, Int64, Float, $($name),* }

        impl Format {
            /// The name, without hyphens.
            pub(super) fn as_str(self) -> &'static str {
                match self {
                    Self::Int32 => "int32",
                    Self::Int64 => "int64",
                    Self::Float => "float",
                    $(Self::$name => $text),*
                }
            }

            fn of_text(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$name),)* _ => None }
            }

            /// Whether a text is of the format.
            pub(super) fn admits(self, text: &str) -> bool {
                match self {
                    Self::Int32 | Self::Int64 | Self::Float => true,
                    $(Self::$name => { let check: fn(&str) -> bool = $check; check(text) })*
                }
            }
        }
    };
}

formats! {
    Hostname "hostname" is_hostname;
    Ipv4 "ipv4" |text| text.contains('.') && is_ip(text);
    Ipv6 "ipv6" |text| text.contains(':') && is_ip(text);
    Cidr "cidr" is_cidr;
    Mac "mac" is_mac;
    Uuid "uuid" |text| UUID.is_match(text);
    Uuid3 "uuid3" |text| UUID3.is_match(text);
    Uuid4 "uuid4" |text| UUID4.is_match(text);
    Uuid5 "uuid5" |text| UUID5.is_match(text);
    HexColor "hexcolor" |text| HEX_COLOR.is_match(text);
    Ssn "ssn" |text| SSN.is_match(text);
    Byte "byte" is_base64;
    Password "password" |_| true;
    Date "date" is_date;
    DateTime "datetime" is_date_time;
    Duration "duration" is_duration;
    Uri "uri" |text| Uri::parse(text).is_some();
    Email "email" mail::is_address;
    ObjectId "bsonobjectid" |text| text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    Isbn "isbn" |text| is_isbn10(text) || is_isbn13(text);
    Isbn10 "isbn10" is_isbn10;
    Isbn13 "isbn13" is_isbn13;
    RgbColor "rgbcolor" |text| RGB_COLOR.is_match(text);
    ShortName "k8sshortname" |text| text.len() <= 63 && SHORT_NAME.is_match(text);
    LongName "k8slongname" |text| text.len() <= 253 && LONG_NAME.is_match(text);
}

/// The format that an API server knows and that is left to it: nobody keeps card numbers in resources.
const UNKNOWN_HERE: &str = "creditcard";

impl Format {
    /// The format of a schema; none where the API server looks at none.
    ///
    /// # Errors
    /// The name of a format that is not known here.
    pub(super) fn of(name: &str, kind: Option<Type>) -> Result<Option<Self>, String> {
        Ok(match kind {
            Some(Type::Integer) => match name {
                "int32" => Some(Self::Int32),
                "int64" => Some(Self::Int64),
                _ => None,
            },
            Some(Type::Number) => (name == "float").then_some(Self::Float),
            None | Some(Type::String) => {
                let name = name.replace('-', "");
                if name == UNKNOWN_HERE {
                    return Err(name);
                }
                Self::of_text(&name)
            }
            Some(Type::Object | Type::Array | Type::Boolean | Type::IntOrString) => None,
        })
    }

    /// Whether a number is of the format.
    pub(super) fn holds(self, value: &Value) -> bool {
        match self {
            Self::Int32 => value.as_f64().is_some_and(|number| {
                (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number)
            }),
            Self::Int64 => value.is_i64() || value.is_f64(),
            Self::Float => value
                .as_f64()
                .is_some_and(|number| number.abs() <= f64::from(f32::MAX)),
            _ => true,
        }
    }
}

macro_rules! regexes {
    ($($name:ident $text:literal;)*) => {
        $(static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("the expression is a constant: checked by the tests"));)*
    };
}

regexes! {
    HOSTNAME r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
    UUID "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID3 "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID4 "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    UUID5 "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    HEX_COLOR "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
    RGB_COLOR r"^rgb\(\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*\)$";
    SSN "^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$";
    BASE64 "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$";
    TIME "^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
    GO_DURATION "^[+-]?(?:(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+$";
    WORDED_DURATION r"([0-9]+)\s*([A-Za-zµ]+)";
    SHORT_NAME "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
    LONG_NAME r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && HOSTNAME.is_match(text) && text.split('.').all(|label| label.len() <= 63)
}

/// As Go's `net.ParseIP`: no zone, no leading zeros.
pub(super) fn is_ip(text: &str) -> bool {
    parse_ip(text).is_some()
}

pub(super) fn parse_ip(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

/// As Go's `net.ParseCIDR`.
fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let is_number = !bits.is_empty() && bits.len() <= 3 && bits.chars().all(|c| c.is_ascii_digit());
    let most = match parse_ip(address) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => Ipv6Addr::BITS,
        None => return false,
    };
    is_number && bits.parse::<u32>().is_ok_and(|bits| bits <= most)
}

/// As Go's `net.ParseMAC`: 6, 8 or 20 bytes in pairs with `:` or `-`, or in fours with `.`.
fn is_mac(text: &str) -> bool {
    let parts = |separator: char, size: usize| {
        text.split(separator)
            .all(|part| part.len() == size && part.chars().all(|c| c.is_ascii_hexdigit()))
            .then(|| text.split(separator).count() * size / 2)
    };
    let bytes = if text.contains(':') {
        parts(':', 2)
    } else if text.contains('-') {
        parts('-', 2)
    } else {
        parts('.', 4)
    };
    matches!(bytes, Some(6 | 8 | 20))
}

/// The digits of a book's number; an `X` at the end of the old form is ten.
fn isbn(text: &str) -> Vec<u32> {
    let marks = text
        .chars()
        .filter(|c| !c.is_ascii_whitespace() && *c != '-');
    let digit = |(at, c): (usize, char)| match c {
        'X' if at == 9 => Some(10),
        c => c.to_digit(10),
    };
    marks
        .enumerate()
        .map(digit)
        .collect::<Option<_>>()
        .unwrap_or_default()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn(text);
    let sum: u32 = (1..)
        .zip(&digits)
        .map(|(weight, digit)| weight * digit)
        .sum();
    digits.len() == 10 && sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = isbn(text);
    let weights = [1, 3].into_iter().cycle();
    let sum: u32 = weights
        .zip(&digits)
        .map(|(weight, digit)| weight * digit)
        .sum();
    digits.len() == 13 && !digits.contains(&10) && sum.is_multiple_of(10)
}

fn is_base64(text: &str) -> bool {
    BASE64.is_match(text)
}

/// `2006-01-02`, a day that exists.
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 10
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        })
        && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    is_date(date)
        && TIME.captures(time).is_some_and(|found| {
            let part = |index: usize| found.get(index).map_or("", |part| part.as_str());
            part(1) <= "23" && part(2) <= "59" && part(3) <= "59"
        })
}

/// Go's durations, and numbers with the names of units somewhere in the text.
fn is_duration(text: &str) -> bool {
    const UNITS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    if is_go_duration(text) {
        return true;
    }
    let mut is_known = false;
    for found in WORDED_DURATION.captures_iter(text) {
        let part = |index: usize| found.get(index).map_or("", |part| part.as_str());
        if part(1).parse::<i64>().is_err() {
            return false;
        }
        let unit = part(2).to_lowercase();
        is_known |= UNITS.iter().any(|names| {
            names.contains(&unit.as_str())
                || names.last().is_some_and(|name| unit.starts_with(name))
        });
    }
    is_known
}

/// As Go's `time.ParseDuration`, but for the range.
pub(super) fn is_go_duration(text: &str) -> bool {
    matches!(text, "0" | "+0" | "-0") || GO_DURATION.is_match(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, good: &[&str], bad: &[&str]) {
        let format = Format::of(name, Some(Type::String)).unwrap().unwrap();
        for text in good {
            assert!(format.admits(text), "{text:?} is a {name}");
        }
        for text in bad {
            assert!(!format.admits(text), "{text:?} is no {name}");
        }
    }

    #[test]
    fn texts_are_of_their_format() {
        check(
            "hostname",
            &["a", "a.example", "1.b.com"],
            &["-a", "a_b", "a.b.", ""],
        );
        check(
            "ipv4",
            &["1.2.3.4", "::ffff:1.2.3.4"],
            &["1.2.3", "01.2.3.4", "::1"],
        );
        check("ipv6", &["::1", "1:2:3:4:5:6:7:8"], &["1.2.3.4", "::g"]);
        check(
            "cidr",
            &["10.0.0.0/8", "::/0"],
            &["10.0.0.0", "10.0.0.0/33", "10.0.0.0/"],
        );
        check(
            "mac",
            &["00:00:5e:00:53:01", "0000.5e00.5301", "00-00-5e-00-53-01"],
            &["00:00:5e", "zz"],
        );
        check(
            "uuid",
            &["123e4567-e89b-12d3-a456-426614174000"],
            &["123e4567"],
        );
        check("byte", &["aGk=", "aGkh"], &["a", "", "aG k="]);
        check(
            "date",
            &["2024-02-29"],
            &["2023-02-29", "2024-2-9", "20240229"],
        );
        check(
            "date-time",
            &["2024-02-29T10:00:00Z", "2024-02-29t10:00:00.5+01:00"],
            &["2024-02-29", "2024-02-29T24:00:00Z", "2024-02-29T10:00Z"],
        );
        check(
            "duration",
            &["1h30m", "0", "-1.5s", "22 ns", "2 days", "1w"],
            &["1", "h", "", "1 fortnight"],
        );
        check("uri", &["/a", "http://a", "a:b"], &["a", ""]);
        check("email", &["a@b", "A <a@b>"], &["a", "a@"]);
        check(
            "bsonobjectid",
            &["0123456789abcdefABCDEF00"],
            &["0123", "z123456789abcdefABCDEF00"],
        );
        check(
            "isbn",
            &["0-306-40615-2", "978-0-306-40615-7", "080442957X"],
            &["0306406153", "X", ""],
        );
        check("isbn10", &["0 306 40615 2"], &["9780306406157"]);
        check(
            "isbn13",
            &["9780306406157"],
            &["0306406152", "9780306406158"],
        );
        check(
            "rgbcolor",
            &["rgb(0, 10,255)"],
            &["rgb(0,0,256)", "rgb(0,0)"],
        );
        check("k8s-short-name", &["a-1"], &["A", "a.b", "-a"]);
        check("k8s-long-name", &["a-1.b"], &["A", "a..b"]);
        check("hexcolor", &["#fff", "ffffff"], &["#ff"]);
        check("ssn", &["123-45-6789"], &["12"]);
        check("password", &[""], &[]);
    }

    #[test]
    fn formats_that_nobody_knows_mean_nothing() {
        assert_eq!(Format::of("my-format", Some(Type::String)), Ok(None));
        assert_eq!(Format::of("date", Some(Type::Object)), Ok(None));
        assert_eq!(
            Format::of("credit-card", Some(Type::String)),
            Err("creditcard".to_owned())
        );
        assert!(!Format::Int32.holds(&Value::from(3_000_000_000_i64)));
        assert!(Format::Int64.holds(&Value::from(3_000_000_000_i64)));
        assert!(!Format::Float.holds(&Value::from(1e300)));
    }
}

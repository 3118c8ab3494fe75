//! Versions and releases as the Go types of a `ClusterServiceVersion` read them.
//!
//! Rules: `ParseTolerant` of `github.com/blang/semver/v4`, and `OperatorRelease` of
//! `github.com/operator-framework/api/pkg/lib/release`.

use serde_json::Value;

use super::{TypeMismatch, json_mismatch};

/// What is wrong with a version. The texts are those of the Go library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// A version of one or two numbers with a suffix.
    #[error("Short version cannot contain PreRelease/Build meta data")]
    Short,
    /// Something other than digits in a number.
    #[error("Invalid character(s) found in {part} number {text:?}")]
    Number {
        /// `major`, `minor` or `patch`.
        part: &'static str,
        /// The number as written.
        text: String,
    },
    /// No number at all.
    #[error("strconv.ParseUint: parsing \"\": invalid syntax")]
    NoNumber,
    /// A number beyond 64 bits.
    #[error("strconv.ParseUint: parsing {0:?}: value out of range")]
    Range(String),
    /// A number that begins with zero.
    #[error("{part} number must not contain leading zeroes {text:?}")]
    LeadingZeroes {
        /// `Major`, `Minor` or `Patch`.
        part: &'static str,
        /// The number as written.
        text: String,
    },
    /// An empty identifier of a pre-release.
    #[error("Prerelease is empty")]
    PreReleaseEmpty,
    /// A numeric identifier of a pre-release that begins with zero.
    #[error("Numeric PreRelease version must not contain leading zeroes {0:?}")]
    PreReleaseZeroes(String),
    /// A character that no identifier of a pre-release may hold.
    #[error("Invalid character(s) found in prerelease {0:?}")]
    PreRelease(String),
    /// An empty identifier of build metadata.
    #[error("Build meta data is empty")]
    BuildEmpty,
    /// A character that no identifier of build metadata may hold.
    #[error("Invalid character(s) found in build meta data {0:?}")]
    Build(String),
}

/// Reads and prints `spec.version`.
pub(super) fn canonical_version(value: Option<Value>) -> Result<Value, TypeMismatch> {
    match value {
        None => Ok(Value::from("0.0.0")),
        Some(Value::String(text)) => Ok(Value::from(parse_tolerant(&text)?)),
        Some(other) => Err(json_mismatch(&other, "string")),
    }
}

/// Reads and prints `spec.release`.
pub(super) fn canonical_release(value: Option<Value>) -> Result<Value, TypeMismatch> {
    match value {
        None => Ok(Value::from("")),
        Some(Value::String(text)) => {
            for identifier in text.split('.') {
                check_pre_release(identifier)?;
            }
            Ok(Value::String(text))
        }
        Some(other) => Err(json_mismatch(&other, "string")),
    }
}

fn parse_tolerant(text: &str) -> Result<String, VersionError> {
    let text = text.trim();
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeroes).collect();
    if parts.len() < 3 {
        if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err(VersionError::Short);
        }
        parts.resize(3, "0".to_owned());
    }
    let mut parts = parts.iter();
    let mut next = || parts.next().map(String::as_str).unwrap_or_default();
    let (major, minor, rest) = (next(), next(), next());
    check_number("major", "Major", major)?;
    check_number("minor", "Minor", minor)?;
    let (rest, build) = match rest.split_once('+') {
        Some((rest, build)) => (rest, Some(build)),
        None => (rest, None),
    };
    let (patch, pre_release) = match rest.split_once('-') {
        Some((patch, pre_release)) => (patch, Some(pre_release)),
        None => (rest, None),
    };
    check_number("patch", "Patch", patch)?;
    for identifier in pre_release.iter().flat_map(|text| text.split('.')) {
        check_pre_release(identifier)?;
    }
    for identifier in build.iter().flat_map(|text| text.split('.')) {
        if identifier.is_empty() {
            return Err(VersionError::BuildEmpty);
        }
        if !is_identifier(identifier) {
            return Err(VersionError::Build(identifier.to_owned()));
        }
    }
    let mut version = format!("{major}.{minor}.{patch}");
    if let Some(pre_release) = pre_release {
        version = format!("{version}-{pre_release}");
    }
    if let Some(build) = build {
        version = format!("{version}+{build}");
    }
    Ok(version)
}

fn without_leading_zeroes(part: &str) -> String {
    if part.len() <= 1 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    if trimmed.starts_with(|c: char| c.is_ascii_digit()) {
        trimmed.to_owned()
    } else {
        format!("0{trimmed}")
    }
}

fn check_number(part: &'static str, capital: &'static str, text: &str) -> Result<(), VersionError> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(VersionError::Number {
            part,
            text: text.to_owned(),
        });
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(VersionError::LeadingZeroes {
            part: capital,
            text: text.to_owned(),
        });
    }
    check_range(text)
}

fn check_range(text: &str) -> Result<(), VersionError> {
    if text.is_empty() {
        return Err(VersionError::NoNumber);
    }
    text.parse::<u64>()
        .map(|_number| ())
        .map_err(|_too_large| VersionError::Range(text.to_owned()))
}

fn check_pre_release(identifier: &str) -> Result<(), VersionError> {
    if identifier.is_empty() {
        return Err(VersionError::PreReleaseEmpty);
    }
    if identifier.bytes().all(|byte| byte.is_ascii_digit()) {
        if identifier.len() > 1 && identifier.starts_with('0') {
            return Err(VersionError::PreReleaseZeroes(identifier.to_owned()));
        }
        return check_range(identifier);
    }
    if is_identifier(identifier) {
        Ok(())
    } else {
        Err(VersionError::PreRelease(identifier.to_owned()))
    }
}

fn is_identifier(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_tolerantly() {
        for (text, expected) in [
            ("1.0.0", Ok("1.0.0")),
            ("v1.2", Ok("1.2.0")),
            (" 01.002.3-rc.1+b ", Ok("1.2.3-rc.1+b")),
            ("1", Ok("1.0.0")),
            ("1-rc", Err(VersionError::Short)),
            (
                "x.1.2",
                Err(VersionError::Number {
                    part: "major",
                    text: "x".into(),
                }),
            ),
            ("", Err(VersionError::NoNumber)),
            (
                "99999999999999999999.0.0",
                Err(VersionError::Range("99999999999999999999".into())),
            ),
            ("1.2.3-", Err(VersionError::PreReleaseEmpty)),
            ("1.2.3-01", Err(VersionError::PreReleaseZeroes("01".into()))),
            ("1.2.3-a_b", Err(VersionError::PreRelease("a_b".into()))),
            ("1.2.3+", Err(VersionError::BuildEmpty)),
            ("1.2.3+_", Err(VersionError::Build("_".into()))),
        ] {
            assert_eq!(parse_tolerant(text), expected.map(str::to_owned), "{text}");
        }
    }
}

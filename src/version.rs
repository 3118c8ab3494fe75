//! Versions, releases and the two range languages.
//!
//! One version type ([`Version`], strict [SemVer](https://semver.org) as the bundles of catalogs are written), one order:
//! precedence, which build metadata never takes part in. [`release::BundleVersion`] adds the release.
//! [`range::Range`] is the language of `spec.source.catalog.version`, [`skip_range::SkipRange`] that of `skipRange`;
//! they look alike and mean different things, so neither parses the other's text.
//!
//! Nothing here panics, whatever the text.

pub mod loose;
pub mod range;
pub mod release;
pub mod skip_range;

use std::cmp::Ordering;
use std::fmt;

use crate::error::quoted;

/// A version `major.minor.patch[-prerelease][+build]`.
///
/// Equality and order are precedence: build metadata is carried and printed, but two versions that differ only in it
/// are equal.
#[derive(Debug, Clone, Default)]
pub struct Version {
    /// The first number.
    pub major: u64,
    /// The second number.
    pub minor: u64,
    /// The third number.
    pub patch: u64,
    /// The identifiers of the pre-release; none for a release.
    pub prerelease: Vec<Identifier>,
    /// The build metadata as written, without `+`; empty for none.
    pub build: String,
}

/// One identifier of a pre-release or of a release.
///
/// Ordered as semantic versions are: numbers by value, below texts; texts by bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identifier {
    /// Digits only, and not above `u64`.
    Number(u64),
    /// Anything else. A loosely parsed number above `u64` is a text, too.
    Text(String),
}

/// One of the three numbers of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The first.
    Major,
    /// The second.
    Minor,
    /// The third.
    Patch,
}

impl Part {
    fn lower(self) -> &'static str {
        match self {
            Self::Major => "major",
            Self::Minor => "minor",
            Self::Patch => "patch",
        }
    }

    fn upper(self) -> &'static str {
        match self {
            Self::Major => "Major",
            Self::Minor => "Minor",
            Self::Patch => "Patch",
        }
    }
}

/// Why a text is not a version. The texts are those of the reference: they reach conditions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// Nothing at all.
    #[error("Version string empty")]
    Empty,
    /// Fewer than three parts.
    #[error("No Major.Minor.Patch elements found")]
    MissingParts,
    /// A number holds something else than digits.
    #[error("Invalid character(s) found in {} number {}", .0.lower(), quoted(.1))]
    InvalidNumber(Part, String),
    /// A number begins with a superfluous zero.
    #[error("{} number must not contain leading zeroes {}", .0.upper(), quoted(.1))]
    LeadingZeroes(Part, String),
    /// A number without digits.
    #[error("strconv.ParseUint: parsing \"\": invalid syntax")]
    NoDigits,
    /// A number above `u64`.
    #[error("strconv.ParseUint: parsing {}: value out of range", quoted(.0))]
    OutOfRange(String),
    /// An identifier of the pre-release is wrong.
    #[error(transparent)]
    Prerelease(IdentifierError),
    /// `+` with an empty identifier.
    #[error("Build meta data is empty")]
    EmptyBuild,
    /// Build metadata holds something else than letters, digits and hyphens.
    #[error("Invalid character(s) found in build meta data {}", quoted(.0))]
    InvalidBuild(String),
    /// Longer than the loose and the semi-strict parser take.
    #[error("version string is too long (max {} bytes)", loose::MAX_VERSION_BYTES)]
    TooLong,
    /// Not of the loose form.
    #[error("invalid semantic version")]
    NotLoose,
    /// A short form whose last part carries a pre-release or build metadata.
    #[error("Short version cannot contain PreRelease/Build meta data")]
    ShortWithSuffix,
}

/// Why a text is not an identifier of a pre-release or release.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentifierError {
    /// Nothing between two dots.
    #[error("Prerelease is empty")]
    Empty,
    /// Digits with a superfluous zero.
    #[error("Numeric PreRelease version must not contain leading zeroes {}", quoted(.0))]
    LeadingZeroes(String),
    /// Digits above `u64`.
    #[error("strconv.ParseUint: parsing {}: value out of range", quoted(.0))]
    OutOfRange(String),
    /// Something else than letters, digits and hyphens.
    #[error("Invalid character(s) found in prerelease {}", quoted(.0))]
    InvalidCharacters(String),
}

impl Version {
    /// A release version.
    pub fn new(major: u64, minor: u64, patch: u64) -> Self {
        Self {
            major,
            minor,
            patch,
            ..Self::default()
        }
    }

    /// Parses strictly: three numbers without leading zeros, no blanks, no `v`; numeric identifiers fit `u64`.
    ///
    /// # Errors
    /// The first thing that is wrong, in the reference's words.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        if text.is_empty() {
            return Err(VersionError::Empty);
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(VersionError::MissingParts);
        };
        let major = strict_number(Part::Major, major)?;
        let minor = strict_number(Part::Minor, minor)?;
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, prerelease) = match rest.split_once('-') {
            Some((patch, prerelease)) => (patch, Some(prerelease)),
            None => (rest, None),
        };
        let patch = strict_number(Part::Patch, patch)?;
        let prerelease = prerelease
            .map(|text| text.split('.').map(Identifier::parse).collect())
            .transpose()
            .map_err(VersionError::Prerelease)?
            .unwrap_or_default();
        if let Some(build) = build {
            check_build(build)?;
        }
        Ok(Self {
            major,
            minor,
            patch,
            prerelease,
            build: build.unwrap_or_default().to_owned(),
        })
    }

    /// Whether it is a pre-release.
    pub fn is_prerelease(&self) -> bool {
        !self.prerelease.is_empty()
    }

    /// The three numbers.
    pub fn core(&self) -> (u64, u64, u64) {
        (self.major, self.minor, self.patch)
    }

    /// The same version without build metadata.
    #[must_use]
    pub fn without_build(mut self) -> Self {
        self.build.clear();
        self
    }
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_identifier(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn has_leading_zero(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0')
}

fn strict_number(part: Part, text: &str) -> Result<u64, VersionError> {
    if !is_digits(text) {
        return Err(VersionError::InvalidNumber(part, text.to_owned()));
    }
    if has_leading_zero(text) {
        return Err(VersionError::LeadingZeroes(part, text.to_owned()));
    }
    number(text)
}

/// A number of digits only: empty or too large are the errors that are left.
fn number(digits: &str) -> Result<u64, VersionError> {
    if digits.is_empty() {
        return Err(VersionError::NoDigits);
    }
    digits
        .bytes()
        .try_fold(0_u64, |sum, digit| {
            sum.checked_mul(10)?
                .checked_add(u64::from(digit.saturating_sub(b'0')))
        })
        .ok_or_else(|| VersionError::OutOfRange(digits.to_owned()))
}

fn check_build(build: &str) -> Result<(), VersionError> {
    for identifier in build.split('.') {
        if identifier.is_empty() {
            return Err(VersionError::EmptyBuild);
        }
        if !is_identifier(identifier) {
            return Err(VersionError::InvalidBuild(identifier.to_owned()));
        }
    }
    Ok(())
}

impl Identifier {
    /// Parses strictly: a number has no leading zeros and fits `u64`.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn parse(text: &str) -> Result<Self, IdentifierError> {
        if text.is_empty() {
            return Err(IdentifierError::Empty);
        }
        if is_digits(text) {
            if has_leading_zero(text) {
                return Err(IdentifierError::LeadingZeroes(text.to_owned()));
            }
            return number(text)
                .map(Self::Number)
                .map_err(|_too_large| IdentifierError::OutOfRange(text.to_owned()));
        }
        if is_identifier(text) {
            Ok(Self::Text(text.to_owned()))
        } else {
            Err(IdentifierError::InvalidCharacters(text.to_owned()))
        }
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Prints identifiers joined by dots.
fn write_identifiers(f: &mut fmt::Formatter<'_>, identifiers: &[Identifier]) -> fmt::Result {
    for (index, identifier) in identifiers.iter().enumerate() {
        if index > 0 {
            f.write_str(".")?;
        }
        fmt::Display::fmt(identifier, f)?;
    }
    Ok(())
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if self.is_prerelease() {
            f.write_str("-")?;
            write_identifiers(f, &self.prerelease)?;
        }
        if !self.build.is_empty() {
            write!(f, "+{}", self.build)?;
        }
        Ok(())
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.core().cmp(&other.core()).then_with(|| {
            match (self.is_prerelease(), other.is_prerelease()) {
                (false, true) => Ordering::Greater,
                (true, false) => Ordering::Less,
                (true, true) | (false, false) => self.prerelease.cmp(&other.prerelease),
            }
        })
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

impl std::str::FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests;

//! Other ways to read a version: loosely, as the literals of ranges and people write them.

use super::{Identifier, IdentifierError, Version, VersionError, check_build, number};

/// The longest text that the loose and the semi-strict parser take.
pub const MAX_VERSION_BYTES: usize = 256;

/// Whether the numbers of a loose version may begin with superfluous zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeadingZeros {
    /// They are dropped.
    Dropped,
    /// They are an error.
    Refused,
}

impl Version {
    /// Parses loosely: an optional `v`, one to three numbers (missing ones are 0), pre-release, build metadata.
    ///
    /// Numeric identifiers above `u64` are texts here.
    ///
    /// # Errors
    /// When the text is longer than [`MAX_VERSION_BYTES`] or of another form.
    pub fn parse_loose(text: &str, zeros: LeadingZeros) -> Result<Self, VersionError> {
        if text.len() > MAX_VERSION_BYTES {
            return Err(VersionError::TooLong);
        }
        let text = text.strip_prefix('v').unwrap_or(text);
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (numbers, suffix) = text.split_at(end);
        let mut parsed = [0; 3];
        let mut slots = parsed.iter_mut();
        for part in numbers.split('.') {
            let slot = slots.next().ok_or(VersionError::NotLoose)?;
            if zeros == LeadingZeros::Refused && super::has_leading_zero(part) {
                return Err(VersionError::NotLoose);
            }
            *slot = number(part)?;
        }
        let [major, minor, patch] = parsed;
        let (prerelease, build) = suffix_of(suffix)?;
        Ok(Self {
            major,
            minor,
            patch,
            prerelease,
            build,
        })
    }

    /// Parses as [`Self::parse`] does, but takes numeric identifiers above `u64` (as texts) and no text longer than
    /// [`MAX_VERSION_BYTES`].
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn parse_semi_strict(text: &str) -> Result<Self, VersionError> {
        if text.len() > MAX_VERSION_BYTES {
            return Err(VersionError::TooLong);
        }
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (numbers, suffix) = text.split_at(end);
        let plain = Self::parse(numbers)?;
        let (prerelease, build) = suffix_of(suffix)?;
        Ok(Self {
            prerelease,
            build,
            ..plain
        })
    }

    /// Parses tolerantly: blanks around it, one `v`, leading zeros and missing parts are forgiven; the rest is strict.
    ///
    /// # Errors
    /// What [`Self::parse`] says about the repaired text, or that a short form carries a suffix.
    pub fn parse_tolerant(text: &str) -> Result<Self, VersionError> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err(VersionError::ShortWithSuffix);
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }
}

/// `part` without leading zeros; one comes first, there before or not, where nothing or a non-digit would.
fn without_zeros(part: &str) -> String {
    if part.len() <= 1 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    if rest.starts_with(|c: char| c.is_ascii_digit()) {
        rest.to_owned()
    } else {
        format!("0{rest}")
    }
}

/// Pre-release and build metadata from `[-…][+…]`.
fn suffix_of(suffix: &str) -> Result<(Vec<Identifier>, String), VersionError> {
    let (prerelease, build) = match suffix.split_once('+') {
        Some((prerelease, build)) => (prerelease, Some(build)),
        None => (suffix, None),
    };
    if let Some(build) = build {
        check_build(build)?;
    }
    let identifiers = if prerelease.is_empty() {
        Vec::new()
    } else {
        let prerelease = prerelease.strip_prefix('-').ok_or(VersionError::NotLoose)?;
        loose_identifiers(prerelease).map_err(VersionError::Prerelease)?
    };
    Ok((identifiers, build.unwrap_or_default().to_owned()))
}

/// The identifiers of a pre-release; numbers above `u64` are texts.
pub(super) fn loose_identifiers(text: &str) -> Result<Vec<Identifier>, IdentifierError> {
    text.split('.')
        .map(|part| match Identifier::parse(part) {
            Err(IdentifierError::OutOfRange(digits)) => Ok(Identifier::Text(digits)),
            other => other,
        })
        .collect()
}

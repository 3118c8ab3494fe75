//! YAML 1.1 scalars as Go reads them: which plain words are booleans, numbers, null.
//!
//! Follows the resolution of `go.yaml.in/yaml/v2` and what `encoding/json` then prints: leading zeros are
//! octal, `_` may stand in numbers, `yes` and `off` are booleans, dates stay text. Integers keep every digit
//! where Go would pass them through a float.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What a scalar means.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar {
    /// No value.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer as JSON writes it, all digits kept.
    Integer(String),
    /// A floating-point number, possibly infinite or not a number.
    Float(f64),
    /// Text, which is the scalar's own text.
    Text,
    /// Text that differs from the scalar's own (`!!binary`).
    Decoded(String),
}

/// Why an explicit tag does not fit its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Misfit;

/// How a scalar's tag was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScalarTag<'a> {
    /// No tag and a plain scalar: the text decides.
    Plain,
    /// No tag but quotes (or a block, or the tag `!`): text.
    Quoted,
    /// A tag of YAML's own namespace, without the prefix: `int`, `str`.
    Core(&'a str),
    /// Any other tag: text.
    Foreign,
}

/// Resolves one scalar.
///
/// # Errors
/// When an explicit tag does not fit the text.
pub(crate) fn resolve(tag: ScalarTag<'_>, text: &str) -> Result<Scalar, Misfit> {
    let wanted = match tag {
        ScalarTag::Quoted | ScalarTag::Foreign => return Ok(Scalar::Text),
        ScalarTag::Plain => return Ok(implicit(text)),
        ScalarTag::Core(wanted) => wanted,
    };
    match (wanted, implicit(text)) {
        ("binary", _) => binary(text),
        ("null", found @ Scalar::Null)
        | ("bool", found @ Scalar::Bool(_))
        | ("int", found @ Scalar::Integer(_))
        | ("float", found @ Scalar::Float(_)) => Ok(found),
        ("float", Scalar::Integer(digits)) => digits
            .parse()
            .map(Scalar::Float)
            .map_err(|_overflow| Misfit),
        // Differs from the reference: what stands there need not be a date, since it stays text.
        ("timestamp", Scalar::Text) => Ok(Scalar::Text),
        ("null" | "bool" | "int" | "float" | "timestamp", _) => Err(Misfit),
        _ => Ok(Scalar::Text),
    }
}

fn binary(text: &str) -> Result<Scalar, Misfit> {
    let packed: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    let bytes = STANDARD.decode(packed).map_err(|_not_base64| Misfit)?;
    Ok(Scalar::Decoded(super::normal::lossy(&bytes).into_owned()))
}

/// What the text says on its own.
fn implicit(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Scalar::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Scalar::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Scalar::Float(f64::INFINITY);
        }
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        _ => {}
    }
    match text.as_bytes().first() {
        Some(b'.') => dotted(text).map_or(Scalar::Text, Scalar::Float),
        Some(b'0'..=b'9' | b'+' | b'-') => number(text),
        _ => Scalar::Text,
    }
}

/// `.5`, `.5e3`: here alone an underscore must stand between digits.
fn dotted(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let lonely = bytes.iter().enumerate().any(|(at, byte)| {
        let digit = |at: Option<usize>| {
            at.and_then(|at| bytes.get(at))
                .is_some_and(u8::is_ascii_digit)
        };
        *byte == b'_' && !(digit(at.checked_sub(1)) && digit(at.checked_add(1)))
    });
    if lonely {
        return None;
    }
    decimal(&text.replace('_', ""))
}

/// An integer in any base, or a decimal number; anything else is text.
fn number(text: &str) -> Scalar {
    let plain = text.replace('_', "");
    if let Some(digits) = integer(&plain) {
        return Scalar::Integer(digits);
    }
    decimal(&plain).map_or(Scalar::Text, Scalar::Float)
}

/// The decimal digits of an integer written in base 2, 8, 10 or 16, without plus sign and leading zeros.
fn integer(plain: &str) -> Option<String> {
    let (sign, digits) = match plain.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", plain.strip_prefix('+').unwrap_or(plain)),
    };
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, digits.get(2..)?),
        [b'0', b'o' | b'O', ..] => (8, digits.get(2..)?),
        [b'0', b'b' | b'B', ..] => (2, digits.get(2..)?),
        [b'0', _, ..] => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
        return None;
    }
    match u64::from_str_radix(digits, base) {
        Ok(0) => Some("0".to_owned()),
        // With a sign, Go reads other bases only as far as 64 signed bits go.
        Ok(value) => {
            let limit = match plain.as_bytes().first() {
                Some(b'-') => 1 << 63,
                Some(b'+') => (1 << 63) - 1,
                _ => u64::MAX,
            };
            (base == 10 || value <= limit).then(|| format!("{sign}{value}"))
        }
        Err(_beyond_64_bits) => {
            // Differs from the reference: such an integer keeps its digits, as long as it is a finite float.
            let is_finite = digits.parse::<f64>().is_ok_and(f64::is_finite);
            (base == 10 && is_finite).then(|| format!("{sign}{digits}"))
        }
    }
}

/// A finite decimal number: `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`.
fn decimal(plain: &str) -> Option<f64> {
    let unsigned = plain.strip_prefix(['-', '+']).unwrap_or(plain);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (unsigned.get(..at)?, unsigned.get(at + 1..)),
        None => (unsigned, None),
    };
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digits = if whole.is_empty() {
        !fraction.is_empty()
    } else {
        true
    };
    let exponent_fits = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !digits.is_empty() && all_digits(digits)
    });
    if !(has_digits && all_digits(whole) && all_digits(fraction) && exponent_fits) {
        return None;
    }
    plain.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// A finite float as Go's `encoding/json` prints it: `1`, `0.5`, `1e+21`, `1e-7`.
pub(crate) fn format_float(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        with_signed_exponent(&format!("{value:e}"))
    } else {
        format!("{value}")
    }
}

/// `1e21` becomes `1e+21`.
fn with_signed_exponent(text: &str) -> String {
    match text.split_once('e') {
        Some((mantissa, exponent)) if !exponent.starts_with('-') => {
            format!("{mantissa}e+{exponent}")
        }
        _ => text.to_owned(),
    }
}

/// A float as the key of a map: the shortest text that tells it from other 32-bit floats, with Go's `%g`
/// exponents (`1e+06`).
pub(crate) fn format_float_key(value: f64) -> String {
    if value.is_nan() {
        return ".nan".to_owned();
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the reference prints keys with 32-bit precision"
    )]
    let narrow = value as f32;
    if narrow.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let scientific = format!("{narrow:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let power: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&power) {
        return format!("{narrow}");
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", power.unsigned_abs())
}

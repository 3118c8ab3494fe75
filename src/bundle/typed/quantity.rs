//! Quantities as Go rewrites them: `0.5` becomes `500m`, `1024Mi` becomes `1Gi`, `1500m` stays.
//!
//! Rules: `k8s.io/apimachinery/pkg/api/resource/quantity.go`. A quantity whose text is already canonical in the
//! eyes of the parser's fast path is kept as written; every other one is printed anew.

use serde_json::Value;

/// What is wrong with a quantity. The texts are those of the Go library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not of the form number, suffix.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// No such suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// Decimal digits that always fit an `i64`.
const SAFE_DIGITS: i64 = 18;

/// Quantities are kept to a billionth.
const NANO: i64 = -9;

const DECIMAL: [(&str, i64); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

const BINARY: [(&str, u32); 6] = [
    ("Ki", 10),
    ("Mi", 20),
    ("Gi", 30),
    ("Ti", 40),
    ("Pi", 50),
    ("Ei", 60),
];

/// How a quantity was written, and so how it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    DecimalSi,
    DecimalExponent,
    BinarySi,
}

/// The parts of a quantity's text.
struct Parts<'a> {
    negative: bool,
    /// Digits before the point without leading zeros, `0` when there are none.
    whole: &'a str,
    /// Digits after the point.
    fraction: &'a str,
    suffix: &'a str,
}

/// An exact number: digits times ten to the exponent.
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

/// The text that Go prints for a quantity read from `value`.
pub(super) fn canonical(value: &Value) -> Result<String, QuantityError> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        // Whatever else it is, Go parses its JSON text.
        other => other.to_string(),
    };
    canonical_text(&text)
}

fn canonical_text(text: &str) -> Result<String, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let parts = split(text)?;
    let (format, exponent) = interpret(parts.suffix).ok_or(QuantityError::Suffix)?;
    if is_kept(&parts, format, exponent) {
        return Ok(text.to_owned());
    }
    let amount = match format {
        Format::BinarySi => binary_amount(&parts, exponent),
        Format::DecimalSi | Format::DecimalExponent => Decimal {
            negative: parts.negative,
            digits: format!("{}{}", parts.whole, parts.fraction),
            exponent: exponent - length(parts.fraction),
        },
    };
    Ok(printed(&amount.rounded_up_to_nano(), format))
}

fn length(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX)
}

fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, text.get(1..).unwrap_or_default()),
        _ => (false, text),
    };
    let trimmed = unsigned.trim_start_matches('0');
    let (whole, rest) = digits(trimmed);
    let whole = if whole.is_empty() { "0" } else { whole };
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    let letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let exponent = letters.strip_prefix(['-', '+']).unwrap_or(letters);
    if !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    Ok(Parts {
        negative,
        whole,
        fraction,
        suffix,
    })
}

/// The leading digits of `text`, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

fn interpret(suffix: &str) -> Option<(Format, i64)> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
        return Some((Format::DecimalSi, *exponent));
    }
    if let Some((_, exponent)) = BINARY.iter().find(|(s, _)| *s == suffix) {
        return Some((Format::BinarySi, i64::from(*exponent)));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let exponent: i64 = exponent.parse().ok()?;
    #[expect(clippy::cast_possible_truncation, reason = "Go's conversion wraps")]
    let exponent = exponent as i32;
    Some((Format::DecimalExponent, i64::from(exponent)))
}

/// Whether the parser's fast path takes the text and finds it canonical.
fn is_kept(parts: &Parts<'_>, format: Format, exponent: i64) -> bool {
    let digits = format!("{}{}", parts.whole, parts.fraction);
    let Ok(value) = digits.parse::<i64>() else {
        return false;
    };
    match format {
        Format::BinarySi => {
            let room = 15 - length(parts.whole) - exponent * 3 / 10 - 1;
            parts.fraction.is_empty() && room >= 0 && value & 7 != 0
        }
        Format::DecimalSi | Format::DecimalExponent => {
            let scale = exponent - length(parts.fraction);
            length(&digits) <= SAFE_DIGITS
                && scale >= NANO
                && scale % 3 == 0
                && !digits.ends_with("000")
                && !digits.starts_with('0')
        }
    }
}

/// A number times a power of two. What exceeds an `i64` is cut to its maximum, as in Go.
fn binary_amount(parts: &Parts<'_>, exponent: i64) -> Decimal {
    // Beyond these digits nothing is left of a fraction after rounding to a billionth.
    const FRACTION_DIGITS: usize = 19;
    let kept = parts.fraction.get(..FRACTION_DIGITS);
    let fraction = kept.unwrap_or(parts.fraction);
    let factor = 1_i128 << u32::try_from(exponent).unwrap_or(0).min(60);
    let limit = Decimal {
        negative: parts.negative,
        digits: i64::MAX.to_string(),
        exponent: 0,
    };
    let is_huge = parts
        .whole
        .parse::<i128>()
        .ok()
        .and_then(|whole| whole.checked_mul(factor))
        .is_none_or(|whole| whole >= i128::from(i64::MAX));
    if is_huge {
        return limit;
    }
    let product = |digits: &str| -> i128 {
        digits
            .parse::<i128>()
            .ok()
            .and_then(|value| value.checked_mul(factor))
            .unwrap_or(0)
    };
    let scale = 10_i128.pow(u32::try_from(fraction.len()).unwrap_or(0));
    let whole = product(parts.whole);
    let fractional = product(fraction);
    let carried = whole + fractional / scale;
    let mut rest = format!("{:0width$}", fractional % scale, width = fraction.len());
    if fraction.is_empty() {
        rest.clear();
    }
    let exponent = -length(&rest);
    Decimal {
        negative: parts.negative,
        digits: format!("{carried}{rest}"),
        exponent,
    }
}

impl Decimal {
    fn is_zero(&self) -> bool {
        self.digits.bytes().all(|digit| digit == b'0')
    }

    /// Rounds away from zero to a billionth.
    fn rounded_up_to_nano(mut self) -> Self {
        if self.exponent >= NANO {
            return self;
        }
        let drop = usize::try_from(NANO - self.exponent).unwrap_or(usize::MAX);
        let keep = self.digits.len().saturating_sub(drop);
        let lost = self.digits.split_off(keep);
        if lost.bytes().any(|digit| digit != b'0') {
            self.digits = incremented(&self.digits);
        }
        self.exponent = NANO;
        self
    }

    /// The digits without leading and trailing zeros, and the exponent that belongs to them.
    fn reduced(&self) -> (String, i64) {
        let digits = self.digits.trim_start_matches('0');
        let reduced = digits.trim_end_matches('0');
        let exponent = self.exponent + length(digits) - length(reduced);
        (reduced.to_owned(), exponent)
    }

    /// The value if it is integral and fits.
    fn as_integer(&self) -> Option<i128> {
        let (mut digits, exponent) = self.reduced();
        let zeros = usize::try_from(exponent).ok().filter(|zeros| *zeros < 38)?;
        digits.push_str(&"0".repeat(zeros));
        digits.parse().ok()
    }
}

/// One more than the decimal number `digits`.
fn incremented(digits: &str) -> String {
    let nines = digits.len() - digits.trim_end_matches('9').len();
    let (head, _) = digits.split_at(digits.len() - nines);
    let mut bytes = head.as_bytes().to_vec();
    match bytes.last_mut() {
        Some(last) => *last += 1,
        None => bytes.push(b'1'),
    }
    bytes.resize(bytes.len() + nines, b'0');
    bytes.into_iter().map(char::from).collect()
}

fn printed(amount: &Decimal, format: Format) -> String {
    if amount.is_zero() {
        return "0".to_owned();
    }
    let sign = if amount.negative { "-" } else { "" };
    if format == Format::BinarySi
        && let Some(mut value) = amount.as_integer().filter(|value| *value >= 1024)
    {
        let mut power = 0;
        while value % 1024 == 0 {
            value /= 1024;
            power += 10;
        }
        let suffix = BINARY.iter().find(|(_, p)| *p == power);
        return format!("{sign}{value}{}", suffix.map_or("", |(s, _)| s));
    }
    let (mut digits, mut exponent) = amount.reduced();
    while exponent % 3 != 0 {
        digits.push('0');
        exponent -= 1;
    }
    let suffix = match format {
        Format::DecimalExponent if exponent == 0 => String::new(),
        Format::DecimalExponent => format!("e{exponent}"),
        Format::DecimalSi | Format::BinarySi => DECIMAL
            .iter()
            .find(|(_, e)| *e == exponent)
            .map_or("", |(s, _)| s)
            .to_owned(),
    };
    format!("{sign}{digits}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows recorded by running the Go library.
    #[test]
    fn quantities_are_rewritten_as_go_rewrites_them() {
        for (text, expected) in [
            ("1", "1"),
            ("0", "0"),
            ("00", "0"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1500m", "1500m"),
            ("1000m", "1"),
            ("100m", "100m"),
            ("1024Mi", "1Gi"),
            ("512Mi", "512Mi"),
            ("500Mi", "500Mi"),
            ("0.5Gi", "512Mi"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1e3"),
            ("1E3", "1E3"),
            ("12e4", "120e3"),
            ("1000", "1k"),
            ("134217728", "134217728"),
            ("100Ki", "100Ki"),
            ("1000Ki", "1000Ki"),
            ("0.1Ki", "102400m"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("-1.5", "-1500m"),
            ("+5", "+5"),
            ("99999999999999999999Ei", "9223372036854775807"),
            ("1.0000000001", "1000000001n"),
            ("1000000000000000000000", "1"),
            ("64", "64"),
            ("0.000", "0"),
            (".", "0"),
            ("-", "0"),
            ("1.", "1."),
            ("0.0000000001Gi", "107374183n"),
            ("1e-100", "1e-9"),
            ("5E", "5E"),
            ("-0.5Gi", "-512Mi"),
            ("9999999999999999999", "9999999999999999999"),
            ("123456789.123456789Mi", "129453826111917825982464n"),
            ("1e2147483647", "10e2147483646"),
            ("1e99999999999", "10e1215752190"),
            ("1.5e3", "1500"),
            ("0.001Ki", "1024m"),
            ("1023Ki", "1023Ki"),
            ("-1024Ki", "-1Mi"),
            ("1000000k", "1G"),
            ("0Mi", "0"),
            ("1m", "1m"),
            ("1E", "1E"),
            ("1e+3", "1e+3"),
            ("9223372036854775807", "9223372036854775807"),
            ("8Ei", "9223372036854775807"),
            ("7Ei", "7Ei"),
            ("1.1Ei", "1268213655067531673600m"),
            ("0.9999999999999999999999999Gi", "1Gi"),
        ] {
            assert_eq!(canonical_text(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for (text, error) in [
            ("", QuantityError::Format),
            ("abc", QuantityError::Format),
            ("1 Gi", QuantityError::Format),
            ("1Kii", QuantityError::Suffix),
            ("1ee", QuantityError::Suffix),
            ("1e", QuantityError::Suffix),
            ("--1", QuantityError::Suffix),
            ("1_000", QuantityError::Format),
            ("1.2.3", QuantityError::Format),
        ] {
            assert_eq!(canonical_text(text), Err(error), "{text}");
        }
    }
}

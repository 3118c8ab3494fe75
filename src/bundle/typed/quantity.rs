//! Quantities as Go rewrites them: `0.5` becomes `500m`, `1024Mi` becomes `1Gi`, `1500m` stays.
//!
//! Rules: `k8s.io/apimachinery/pkg/api/resource/quantity.go`. A quantity whose text is already canonical in the
//! eyes of the parser's fast path is kept as written; every other one is printed anew.

use std::cmp::Ordering;

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

/// An exact amount, in billionths. What exceeds 10^29 counts as that.
#[derive(Debug, Clone, Copy, Default)]
pub struct Amount {
    nanos: i128,
    /// The power of ten that its last digit stands for, as long as Go keeps it as a 64-bit integer.
    scale: Option<i64>,
}

/// A whole, in billionths.
const WHOLE: i128 = 1_000_000_000;

impl Amount {
    /// Reads a quantity.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let read = Read::of(text)?;
        Ok(Self {
            nanos: read.amount().rounded_up_to_nano().nanos(),
            scale: read.scale(),
        })
    }

    /// The whole number that Go gives for it: none for one that was written with a fraction, though that be zero.
    pub fn as_integer(self) -> Option<i64> {
        self.scale.filter(|scale| *scale >= 0)?;
        i64::try_from(self.nanos / WHOLE).ok()
    }

    /// The nearest double, about.
    #[expect(clippy::cast_precision_loss, reason = "it is approximate")]
    pub fn approximate(self) -> f64 {
        self.nanos as f64 / WHOLE as f64
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let scale = match (self.nanos, other.nanos) {
            (_, 0) => self.scale,
            (0, _) => other.scale,
            _ => self.scale.zip(other.scale).map(|(x, y)| x.min(y)),
        };
        Self {
            nanos: self.nanos.saturating_add(other.nanos),
            scale,
        }
    }

    /// The amount with the other sign.
    #[must_use]
    pub fn negated(self) -> Self {
        Self {
            nanos: self.nanos.saturating_neg(),
            ..self
        }
    }
}

/// How it is written does not count.
impl Ord for Amount {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Amount {}

impl From<i64> for Amount {
    fn from(number: i64) -> Self {
        Self {
            nanos: i128::from(number) * WHOLE,
            scale: Some(0),
        }
    }
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
    let read = Read::of(text)?;
    if is_kept(&read.parts, read.format, read.exponent) {
        return Ok(text.to_owned());
    }
    Ok(printed(&read.amount().rounded_up_to_nano(), read.format))
}

/// A quantity's text, understood.
struct Read<'a> {
    parts: Parts<'a>,
    format: Format,
    exponent: i64,
}

impl<'a> Read<'a> {
    fn of(text: &'a str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let parts = split(text)?;
        let (format, exponent) = interpret(parts.suffix).ok_or(QuantityError::Suffix)?;
        Ok(Self {
            parts,
            format,
            exponent,
        })
    }

    fn amount(&self) -> Decimal {
        match self.format {
            Format::BinarySi => binary_amount(&self.parts, self.exponent),
            Format::DecimalSi | Format::DecimalExponent => Decimal {
                negative: self.parts.negative,
                digits: self.digits(),
                exponent: self.exponent - length(self.parts.fraction),
            },
        }
    }

    fn digits(&self) -> String {
        format!("{}{}", self.parts.whole, self.parts.fraction)
    }

    /// Where the parser's fast path takes it: the power of ten of its last digit.
    fn scale(&self) -> Option<i64> {
        let value: i64 = self.digits().parse().ok()?;
        match self.format {
            Format::BinarySi => {
                let factor = 1_i64.checked_shl(u32::try_from(self.exponent).ok()?)?;
                let is_fast = has_binary_room(&self.parts, self.exponent);
                (is_fast && value.checked_mul(factor).is_some()).then_some(0)
            }
            Format::DecimalSi | Format::DecimalExponent => {
                let scale = self.exponent - length(self.parts.fraction);
                (length(&self.digits()) <= SAFE_DIGITS && scale >= NANO).then_some(scale)
            }
        }
    }
}

/// Whether the parser's fast path takes a number times a power of two.
fn has_binary_room(parts: &Parts<'_>, exponent: i64) -> bool {
    let room = 15 - length(parts.whole) - exponent * 3 / 10 - 1;
    parts.fraction.is_empty() && room >= 0
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
        Format::BinarySi => has_binary_room(parts, exponent) && value & 7 != 0,
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

    /// In billionths, after rounding to these.
    fn nanos(&self) -> i128 {
        let (mut digits, exponent) = self.reduced();
        if digits.is_empty() {
            return 0;
        }
        let zeros = usize::try_from(exponent - NANO).unwrap_or(0);
        // Too many digits for any number are the largest.
        digits.push_str(&"0".repeat(zeros.min(40)));
        let nanos = digits.parse().unwrap_or(i128::MAX);
        if self.negative { -nanos } else { nanos }
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

    #[test]
    fn amounts_are_compared_and_added_exactly() {
        let of = |text: &str| Amount::parse(text).unwrap();
        assert!(of("1.5Gi") > of("1500M") && of("100m") < of("0.2"));
        assert_eq!(of("1Ki"), of("1024"));
        assert_eq!(of("0.5").plus(of("500m")), of("1"));
        assert!(of("1").plus(of("2").negated()) < Amount::default());
        assert!(of("1e60") >= of("9E"));
        assert!((of("2500m").approximate() - 2.5).abs() < 1e-9);
        for (text, integer) in [
            ("5", Some(5)),
            ("5k", Some(5000)),
            ("1Gi", Some(1 << 30)),
            ("5000m", None),
            ("1.0", None),
            ("0.5Gi", None),
            ("-3", Some(-3)),
            ("100E", None),
        ] {
            assert_eq!(of(text).as_integer(), integer, "{text}");
        }
        assert_eq!(of("1").plus(of("500m")).plus(of("500m")).as_integer(), None);
        assert_eq!(of("1").plus(Amount::from(2)).as_integer(), Some(3));
    }
}

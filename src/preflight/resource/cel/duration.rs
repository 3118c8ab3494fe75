//! Durations as text.

/// A duration in seconds, as CEL prints it.
pub(super) fn seconds_text(nanoseconds: i64) -> String {
    let (whole, part) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let fraction = format!(".{:09}", part.unsigned_abs());
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    format!("{sign}{}{fraction}s", whole.unsigned_abs())
}

/// A duration of Go (`1h30m`, `-1.5s`) in nanoseconds.
pub(super) fn duration(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (digits, after) = rest.split_at_checked(end)?;
        let unit_end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(unit_end)?;
        let factor: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        total = total.checked_add(scaled(digits, factor)?)?;
        rest = after;
    }
    i64::try_from(sign * total).ok()
}

/// `digits`, which may have one dot, times `factor`.
fn scaled(digits: &str, factor: i128) -> Option<i128> {
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && part.is_empty()) || part.contains('.') {
        return None;
    }
    let mut value = match whole {
        "" => 0,
        whole => whole.parse::<i128>().ok()?.checked_mul(factor)?,
    };
    let mut unit = factor;
    for digit in part.chars() {
        unit /= 10;
        value += i128::from(digit.to_digit(10)?) * unit;
    }
    Some(value)
}

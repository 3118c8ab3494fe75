//! Numbers, as the API server reckons with them: what is written as a whole number is compared with bounds that are cut
//! to whole numbers, everything else as a fraction.
//!
//! After `values.go` of kube-openapi's `pkg/validation/validate`.

use serde_json::Value;

use super::super::kind::Type;
use super::super::node::{Node, NumberBounds};
use super::found::Found;

/// The largest number up to which every whole one is a double.
const LARGEST: f64 = 9_007_199_254_740_991.0;

pub(super) fn check_number(value: &Value, node: &Node, path: &str, found: &mut Found) {
    let Some(number) = Number::of(value) else {
        return;
    };
    let NumberBounds {
        minimum,
        is_minimum_exclusive,
        maximum,
        is_maximum_exclusive,
        multiple_of,
    } = node.number;
    for bound in [multiple_of, minimum, maximum].into_iter().flatten() {
        if node.kind == Some(Type::Integer) && !is_whole(bound) {
            let problem =
                format!("is compared with {bound}, which is no integer: no value is valid");
            found.add(path, problem);
        }
    }
    if let Some(minimum) = minimum
        && (number.is_less(minimum) || (is_minimum_exclusive && number.is_equal(minimum)))
    {
        let than = if is_minimum_exclusive {
            "greater than"
        } else {
            "at least"
        };
        found.add(path, format!("must be {than} {minimum}, is {value}"));
    }
    if let Some(maximum) = maximum
        && (number.is_greater(maximum) || (is_maximum_exclusive && number.is_equal(maximum)))
    {
        let than = if is_maximum_exclusive {
            "less than"
        } else {
            "at most"
        };
        found.add(path, format!("must be {than} {maximum}, is {value}"));
    }
    if let Some(divisor) = multiple_of
        && !number.is_multiple(divisor)
    {
        found.add(path, format!("must be a multiple of {divisor}, is {value}"));
    }
    if let Some(format) = node.format
        && !format.holds(value)
    {
        found.add(path, format!("must be of format {}", format.as_str()));
    }
}

/// A number as it is written.
#[derive(Debug, Clone, Copy)]
enum Number {
    Whole(i64),
    Fraction(f64),
}

impl Number {
    fn of(value: &Value) -> Option<Self> {
        let whole = value.as_i64().map(Self::Whole);
        whole.or_else(|| value.as_f64().map(Self::Fraction))
    }

    fn is_less(self, bound: f64) -> bool {
        match self {
            Self::Whole(number) => number < cut(bound),
            Self::Fraction(number) => number < bound,
        }
    }

    fn is_greater(self, bound: f64) -> bool {
        match self {
            Self::Whole(number) => number > cut(bound),
            Self::Fraction(number) => number > bound,
        }
    }

    #[expect(clippy::float_cmp, reason = "the API server compares so")]
    fn is_equal(self, bound: f64) -> bool {
        match self {
            Self::Whole(number) => number == cut(bound),
            Self::Fraction(number) => number == bound,
        }
    }

    /// Of a divisor that is not greater than zero, nothing is a multiple; one below 1 is zero to a whole number.
    fn is_multiple(self, divisor: f64) -> bool {
        match self {
            Self::Whole(number) => {
                let divisor = cut(divisor);
                divisor > 0 && number % divisor == 0
            }
            Self::Fraction(_) if divisor <= 0.0 => false,
            Self::Fraction(number) if divisor < 1.0 => is_almost_whole(1.0 / divisor * number),
            Self::Fraction(number) => is_almost_whole(number / divisor),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the API server cuts the bound"
)]
fn cut(bound: f64) -> i64 {
    bound as i64
}

/// Whether an integer can be the bound.
fn is_whole(bound: f64) -> bool {
    const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;
    bound.fract() == 0.0 && (-TOO_LARGE..TOO_LARGE).contains(&bound)
}

/// Whether a quotient is a whole number but for what is lost in reckoning.
fn is_almost_whole(number: f64) -> bool {
    const TOLERANCE: f64 = 1e-9;
    if number.abs() > LARGEST {
        return false;
    }
    let whole = number.trunc();
    let difference = (number - whole).abs();
    difference == 0.0 || (whole != 0.0 && difference / (number.abs() + whole.abs()) < TOLERANCE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each row is what an API server said.
    #[test]
    fn multiples_are_those_of_the_api_server() {
        for (value, divisor, expected) in [
            (json!(6), 3.0, true),
            (json!(7), 3.0, false),
            (json!(0), 0.1, false),
            (json!(1000), 0.01, false),
            (json!(1.0), 0.1, true),
            (json!(0.3), 0.1, true),
            (json!(0.7), 0.1, true),
            (json!(0.35), 0.1, false),
            (json!(1e19), 0.1, false),
            (json!(18_446_744_073_709_551_615_u64), 0.1, false),
            (json!(1e3), 1000.0, true),
        ] {
            let number = Number::of(&value).unwrap();
            assert_eq!(
                number.is_multiple(divisor),
                expected,
                "{value} by {divisor}"
            );
        }
    }

    #[test]
    fn bounds_are_cut_for_whole_numbers() {
        let whole = Number::of(&json!(0)).unwrap();
        let fraction = Number::of(&json!(0.0)).unwrap();
        assert!(!whole.is_less(0.3));
        assert!(fraction.is_less(0.3));
        assert!(whole.is_equal(0.3) && !fraction.is_equal(0.3));
        assert!(!is_whole(0.5) && is_whole(5.0) && !is_whole(1e19));
    }
}

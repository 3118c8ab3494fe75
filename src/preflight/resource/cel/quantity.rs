//! Quantities in rules: `quantity('1.5Gi').isGreaterThan(quantity('500M'))`.
//!
//! After `apiserver/pkg/cel/library/quantity.go`.

use super::function::{Called, Signature};
use super::value::{Cel, Failure};
use crate::bundle::typed::Amount;

pub(super) const FUNCTIONS: &[Signature] = &[
    ("isQuantity", false, &[1]),
    ("quantity", false, &[1]),
    ("isInteger", true, &[0]),
    ("asInteger", true, &[0]),
    ("asApproximateFloat", true, &[0]),
    // Documented as a method, and declared as a function.
    ("sign", false, &[1]),
    ("add", true, &[1]),
    ("sub", true, &[1]),
    ("isLessThan", true, &[1]),
    ("isGreaterThan", true, &[1]),
    ("compareTo", true, &[1]),
];

/// Calls a function of this library, whose value comes first.
pub(super) fn call<'v>(function: &str, all: &[Cel<'v>]) -> Called<'v> {
    match (function, all) {
        ("isQuantity", [Cel::Text(text)]) => Ok(Cel::Bool(Amount::parse(text).is_ok())),
        ("quantity", [Cel::Text(text)]) => match Amount::parse(text) {
            Ok(amount) => Ok(Cel::Quantity(amount)),
            Err(error) => Err(Failure::of(error.to_string())),
        },
        ("isInteger", [Cel::Quantity(amount)]) => Ok(Cel::Bool(amount.as_integer().is_some())),
        ("asInteger", [Cel::Quantity(amount)]) => match amount.as_integer() {
            Some(number) => Ok(Cel::Int(number)),
            None => Err(Failure::of("cannot convert value to integer")),
        },
        ("asApproximateFloat", [Cel::Quantity(amount)]) => Ok(Cel::Double(amount.approximate())),
        ("sign", [Cel::Quantity(amount)]) => Ok(order(amount.cmp(&Amount::default()))),
        ("add", [Cel::Quantity(x), y]) => Ok(Cel::Quantity(x.plus(operand(y)?))),
        ("sub", [Cel::Quantity(x), y]) => Ok(Cel::Quantity(x.plus(operand(y)?.negated()))),
        ("isLessThan", [Cel::Quantity(x), Cel::Quantity(y)]) => Ok(Cel::Bool(x < y)),
        ("isGreaterThan", [Cel::Quantity(x), Cel::Quantity(y)]) => Ok(Cel::Bool(x > y)),
        ("compareTo", [Cel::Quantity(x), Cel::Quantity(y)]) => Ok(order(x.cmp(y))),
        _ => Err(Failure::overload()),
    }
}

fn operand(value: &Cel<'_>) -> Result<Amount, Failure> {
    match value {
        Cel::Quantity(amount) => Ok(*amount),
        Cel::Int(number) => Ok(Amount::from(*number)),
        _ => Err(Failure::overload()),
    }
}

fn order<'v>(order: std::cmp::Ordering) -> Cel<'v> {
    Cel::Int(order as i64)
}

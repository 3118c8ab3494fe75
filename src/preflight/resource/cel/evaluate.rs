//! The value of an expression.

use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;
use std::rc::Rc;

use super::library;
use super::syntax::{Expression, Literal, Macro, Operator};
use super::value::{Cel, Failure};

/// The names that are bound, innermost first, and the steps that are left.
pub(super) struct Scope<'s, 'v> {
    bindings: [(&'s str, &'s Cel<'v>); 2],
    parent: Option<&'s Self>,
    steps: &'s Cell<u32>,
}

impl<'s, 'v> Scope<'s, 'v> {
    /// `self` and `oldSelf`.
    pub(super) fn root(this: &'s Cel<'v>, old: &'s Cel<'v>, steps: &'s Cell<u32>) -> Self {
        Self {
            bindings: [("self", this), ("oldSelf", old)],
            parent: None,
            steps,
        }
    }

    fn with(&'s self, first: (&'s str, &'s Cel<'v>), second: (&'s str, &'s Cel<'v>)) -> Self {
        Self {
            bindings: [first, second],
            parent: Some(self),
            steps: self.steps,
        }
    }

    fn find(&self, name: &str) -> Option<Cel<'v>> {
        let own = self.bindings.iter().find(|(bound, _)| *bound == name);
        match (own, self.parent) {
            (Some((_, value)), _) => Some((*value).clone()),
            (None, Some(parent)) => parent.find(name),
            (None, None) => None,
        }
    }

    fn step(&self) -> Result<(), Failure> {
        let left = self.steps.get().checked_sub(1).ok_or(Failure::OutOfSteps)?;
        self.steps.set(left);
        Ok(())
    }
}

type Evaluated<'v> = Result<Cel<'v>, Failure>;

/// Evaluates an expression.
pub(super) fn evaluate<'v>(expression: &Expression, scope: &Scope<'_, 'v>) -> Evaluated<'v> {
    scope.step()?;
    match expression {
        Expression::Literal(literal) => Ok(value_of(literal)),
        Expression::Name(name) => scope
            .find(name)
            .ok_or_else(|| Failure::of(format!("no such attribute: {name}"))),
        Expression::Select {
            of,
            field,
            is_optional,
        } => {
            let of = evaluate(of, scope)?;
            chosen(of, *is_optional, &|of| of.field(field), field)
        }
        Expression::Index {
            of,
            index,
            is_optional,
        } => {
            let of = evaluate(of, scope)?;
            let index = evaluate(index, scope)?;
            chosen(of, *is_optional, &|of| of.index(&index), "index")
        }
        Expression::Has { of, field } => {
            let of = match evaluate(of, scope)? {
                Cel::Optional(None) => return Ok(Cel::Bool(false)),
                Cel::Optional(Some(of)) => of.as_ref().clone(),
                of => of,
            };
            Ok(Cel::Bool(of.field(field)?.is_some()))
        }
        Expression::Call {
            function,
            of,
            arguments,
        } => {
            let of = of.as_ref().map(|of| evaluate(of, scope)).transpose()?;
            let arguments = arguments
                .iter()
                .map(|argument| evaluate(argument, scope))
                .collect::<Result<Vec<_>, _>>()?;
            library::call(function, of, &arguments)
        }
        Expression::Matches { of, regex } => match evaluate(of, scope)? {
            Cel::Text(text) => Ok(Cel::Bool(regex.is_match(&text))),
            _ => Err(Failure::overload()),
        },
        Expression::Comprehension {
            what,
            over,
            names,
            parts,
        } => comprehension(*what, &evaluate(over, scope)?, names, parts, scope),
        Expression::List(items) => {
            let mut list = Vec::new();
            for (is_optional, item) in items {
                match (is_optional, evaluate(item, scope)?) {
                    (true, Cel::Optional(value)) => list.extend(value.map(|v| v.as_ref().clone())),
                    (true, _) => return Err(Failure::overload()),
                    (false, value) => list.push(value),
                }
            }
            Ok(Cel::list(list))
        }
        Expression::Map(entries) => {
            let mut map = Vec::new();
            for (is_optional, key, value) in entries {
                let key = evaluate(key, scope)?;
                match (is_optional, evaluate(value, scope)?) {
                    (true, Cel::Optional(None)) => {}
                    (true, Cel::Optional(Some(value))) => map.push((key, value.as_ref().clone())),
                    (true, _) => return Err(Failure::overload()),
                    (false, value) => map.push((key, value)),
                }
            }
            Ok(Cel::Map(Rc::new(map)))
        }
        Expression::Not(of) => match evaluate(of, scope)? {
            Cel::Bool(value) => Ok(Cel::Bool(!value)),
            _ => Err(Failure::overload()),
        },
        Expression::Negate(of) => negated(&evaluate(of, scope)?),
        Expression::And(left, right) => logical(left, right, false, scope),
        Expression::Or(left, right) => logical(left, right, true, scope),
        Expression::Choice(condition, yes, no) => match evaluate(condition, scope)? {
            Cel::Bool(true) => evaluate(yes, scope),
            Cel::Bool(false) => evaluate(no, scope),
            _ => Err(Failure::overload()),
        },
        Expression::Binary(operator, left, right) => {
            let (left, right) = (evaluate(left, scope)?, evaluate(right, scope)?);
            binary(*operator, &left, &right)
        }
    }
}

fn value_of<'v>(literal: &Literal) -> Cel<'v> {
    match literal {
        Literal::Null => Cel::Null,
        Literal::Bool(value) => Cel::Bool(*value),
        Literal::Int(value) => Cel::Int(*value),
        Literal::Uint(value) => Cel::Uint(*value),
        Literal::Double(value) => Cel::Double(*value),
        Literal::Text(value) => Cel::Text(Cow::Owned(value.clone())),
        Literal::Bytes(value) => Cel::Bytes(Rc::new(value.clone())),
    }
}

/// What a field or an index chooses; through an optional value, or asked for optionally, the result is optional.
fn chosen<'v>(
    of: Cel<'v>,
    is_optional: bool,
    choose: &dyn Fn(&Cel<'v>) -> Result<Option<Cel<'v>>, Failure>,
    what: &str,
) -> Evaluated<'v> {
    match of {
        Cel::Optional(None) => Ok(Cel::Optional(None)),
        Cel::Optional(Some(of)) => Ok(Cel::Optional(choose(&of)?.map(Rc::new))),
        of if is_optional => Ok(Cel::Optional(choose(&of)?.map(Rc::new))),
        of => choose(&of)?.ok_or_else(|| Failure::of(format!("no such key: {what}"))),
    }
}

/// `&&` (decided by false) and `||` (decided by true): what decides wins over an error on the other side.
fn logical<'v>(
    left: &Expression,
    right: &Expression,
    deciding: bool,
    scope: &Scope<'_, 'v>,
) -> Evaluated<'v> {
    let left = evaluate(left, scope);
    if matches!(left, Ok(Cel::Bool(value)) if value == deciding) {
        return left;
    }
    if let Err(Failure::OutOfSteps) = left {
        return left;
    }
    let right = evaluate(right, scope);
    match (left, right) {
        (_, Err(Failure::OutOfSteps)) => Err(Failure::OutOfSteps),
        (_, Ok(Cel::Bool(value))) if value == deciding => Ok(Cel::Bool(value)),
        (Err(failure), _) | (Ok(Cel::Bool(_)), Err(failure)) => Err(failure),
        (Ok(Cel::Bool(_)), Ok(Cel::Bool(value))) => Ok(Cel::Bool(value)),
        _ => Err(Failure::overload()),
    }
}

fn negated<'v>(value: &Cel<'v>) -> Evaluated<'v> {
    match value {
        Cel::Int(value) => value
            .checked_neg()
            .map(Cel::Int)
            .ok_or_else(|| Failure::of("integer overflow")),
        Cel::Double(value) => Ok(Cel::Double(-value)),
        Cel::Duration(value) => value
            .checked_neg()
            .map(Cel::Duration)
            .ok_or_else(|| Failure::of("duration overflow")),
        _ => Err(Failure::overload()),
    }
}

fn comprehension<'v>(
    what: Macro,
    over: &Cel<'v>,
    names: &[String],
    parts: &[Expression],
    scope: &Scope<'_, 'v>,
) -> Evaluated<'v> {
    if let (Macro::OptMap | Macro::OptFlatMap, Cel::Optional(value)) = (what, over) {
        return optional(what, value.as_deref(), names, parts, scope);
    }
    let (pairs, has_keys) = match (over.items(), over.entries()) {
        (Some(items), _) => {
            let indices = (0_i64..).map(Cel::Int);
            (indices.zip(items).collect::<Vec<_>>(), false)
        }
        (None, Some(entries)) => (entries, true),
        (None, None) => return Err(Failure::overload()),
    };
    let mut made = Vec::new();
    let (mut count, mut failure) = (0, None);
    for (key, value) in &pairs {
        // With one name a map gives its keys.
        let (first, second) = match names {
            [first, second] => ((first.as_str(), key), (second.as_str(), value)),
            [name, ..] if has_keys => ((name.as_str(), key), ("", key)),
            [name, ..] => ((name.as_str(), value), ("", value)),
            [] => return Err(Failure::overload()),
        };
        let inner = scope.with(first, second);
        inner.step()?;
        let Some((part, rest)) = parts.split_first() else {
            return Err(Failure::overload());
        };
        match (what, rest.first()) {
            (Macro::Map, None) => made.push(evaluate(part, &inner)?),
            (Macro::Map, Some(make)) => {
                if is_true(&evaluate(part, &inner)?)? {
                    made.push(evaluate(make, &inner)?);
                }
            }
            (Macro::Filter, _) => {
                if is_true(&evaluate(part, &inner)?)? {
                    made.push(first.1.clone());
                }
            }
            (Macro::ExistsOne, _) => count += usize::from(is_true(&evaluate(part, &inner)?)?),
            (Macro::All | Macro::Exists, _) => {
                let deciding = what == Macro::Exists;
                match evaluate(part, &inner).and_then(|value| is_true(&value)) {
                    Ok(value) if value == deciding => return Ok(Cel::Bool(deciding)),
                    Ok(_) => {}
                    Err(Failure::OutOfSteps) => return Err(Failure::OutOfSteps),
                    Err(error) => failure = Some(error),
                }
            }
            (Macro::OptMap | Macro::OptFlatMap, _) => return Err(Failure::overload()),
        }
    }
    match (what, failure) {
        (_, Some(failure)) => Err(failure),
        (Macro::All, None) => Ok(Cel::Bool(true)),
        (Macro::Exists, None) => Ok(Cel::Bool(false)),
        (Macro::ExistsOne, None) => Ok(Cel::Bool(count == 1)),
        _ => Ok(Cel::list(made)),
    }
}

fn optional<'v>(
    what: Macro,
    value: Option<&Cel<'v>>,
    names: &[String],
    parts: &[Expression],
    scope: &Scope<'_, 'v>,
) -> Evaluated<'v> {
    let (Some(value), Some(name), Some(part)) = (value, names.first(), parts.first()) else {
        return Ok(Cel::Optional(None));
    };
    let made = evaluate(part, &scope.with((name.as_str(), value), ("", value)))?;
    match (what, made) {
        (Macro::OptFlatMap, made @ Cel::Optional(_)) => Ok(made),
        (Macro::OptFlatMap, _) => Err(Failure::overload()),
        (_, made) => Ok(Cel::some(made)),
    }
}

fn is_true(value: &Cel<'_>) -> Result<bool, Failure> {
    match value {
        Cel::Bool(value) => Ok(*value),
        _ => Err(Failure::overload()),
    }
}

fn binary<'v>(operator: Operator, left: &Cel<'v>, right: &Cel<'v>) -> Evaluated<'v> {
    if let Cel::Broken(what) = left {
        return Err(Failure::of(format!("invalid {what}")));
    }
    if let Cel::Broken(what) = right {
        return Err(Failure::of(format!("invalid {what}")));
    }
    let ordered = |holds: fn(Ordering) -> bool| {
        left.compare(right)
            .map(|order| Cel::Bool(holds(order)))
            .ok_or_else(Failure::overload)
    };
    match operator {
        Operator::Equal => Ok(Cel::Bool(left.is_equal(right))),
        Operator::NotEqual => Ok(Cel::Bool(!left.is_equal(right))),
        Operator::Less => ordered(Ordering::is_lt),
        Operator::LessOrEqual => ordered(Ordering::is_le),
        Operator::Greater => ordered(Ordering::is_gt),
        Operator::GreaterOrEqual => ordered(Ordering::is_ge),
        Operator::In => contains(left, right),
        Operator::Add
        | Operator::Subtract
        | Operator::Multiply
        | Operator::Divide
        | Operator::Remainder => arithmetic(operator, left, right),
    }
}

fn contains<'v>(element: &Cel<'v>, container: &Cel<'v>) -> Evaluated<'v> {
    if let Some(items) = container.items() {
        return Ok(Cel::Bool(items.iter().any(|item| item.is_equal(element))));
    }
    match container.entries() {
        Some(entries) => Ok(Cel::Bool(
            entries.iter().any(|(key, _)| key.is_equal(element)),
        )),
        None => Err(Failure::overload()),
    }
}

fn arithmetic<'v>(operator: Operator, left: &Cel<'v>, right: &Cel<'v>) -> Evaluated<'v> {
    let overflow = || Failure::of("integer overflow");
    match (left, right) {
        (Cel::Int(x), Cel::Int(y)) => {
            let result = match operator {
                Operator::Add => x.checked_add(*y),
                Operator::Subtract => x.checked_sub(*y),
                Operator::Multiply => x.checked_mul(*y),
                Operator::Divide if *y == 0 => return Err(Failure::of("division by zero")),
                Operator::Remainder if *y == 0 => return Err(Failure::of("modulus by zero")),
                Operator::Divide => x.checked_div(*y),
                _ => x.checked_rem(*y),
            };
            result.map(Cel::Int).ok_or_else(overflow)
        }
        (Cel::Uint(x), Cel::Uint(y)) => {
            let result = match operator {
                Operator::Add => x.checked_add(*y),
                Operator::Subtract => x.checked_sub(*y),
                Operator::Multiply => x.checked_mul(*y),
                Operator::Divide if *y == 0 => return Err(Failure::of("division by zero")),
                Operator::Remainder if *y == 0 => return Err(Failure::of("modulus by zero")),
                Operator::Divide => x.checked_div(*y),
                _ => x.checked_rem(*y),
            };
            result.map(Cel::Uint).ok_or_else(overflow)
        }
        (Cel::Double(x), Cel::Double(y)) => match operator {
            Operator::Add => Ok(Cel::Double(x + y)),
            Operator::Subtract => Ok(Cel::Double(x - y)),
            Operator::Multiply => Ok(Cel::Double(x * y)),
            Operator::Divide => Ok(Cel::Double(x / y)),
            _ => Err(Failure::overload()),
        },
        _ if operator == Operator::Add => sum(left, right),
        _ if operator == Operator::Subtract => time_difference(left, right),
        _ => Err(Failure::overload()),
    }
}

fn sum<'v>(left: &Cel<'v>, right: &Cel<'v>) -> Evaluated<'v> {
    match (left, right) {
        (Cel::Text(x), Cel::Text(y)) => Ok(Cel::text(format!("{x}{y}"))),
        (Cel::Bytes(x), Cel::Bytes(y)) => Ok(Cel::Bytes(Rc::new([x.as_slice(), y].concat()))),
        (Cel::Duration(x), Cel::Duration(y)) => x
            .checked_add(*y)
            .map(Cel::Duration)
            .ok_or_else(|| Failure::of("duration overflow")),
        (Cel::Timestamp(time), Cel::Duration(by)) | (Cel::Duration(by), Cel::Timestamp(time)) => {
            library::later(*time, *by)
        }
        _ => left
            .joined(right)
            .map(Cel::list)
            .ok_or_else(Failure::overload),
    }
}

fn time_difference<'v>(left: &Cel<'v>, right: &Cel<'v>) -> Evaluated<'v> {
    match (left, right) {
        (Cel::Duration(x), Cel::Duration(y)) => x
            .checked_sub(*y)
            .map(Cel::Duration)
            .ok_or_else(|| Failure::of("duration overflow")),
        (Cel::Timestamp(x), Cel::Timestamp(y)) => {
            let nanoseconds = x.as_nanosecond() - y.as_nanosecond();
            i64::try_from(nanoseconds)
                .map(Cel::Duration)
                .map_err(|_too_long| Failure::of("duration overflow"))
        }
        (Cel::Timestamp(time), Cel::Duration(by)) => match by.checked_neg() {
            Some(by) => library::later(*time, by),
            None => Err(Failure::of("timestamp overflow")),
        },
        _ => Err(Failure::overload()),
    }
}

//! The functions of CEL and of Kubernetes that are evaluated here.

use std::cmp::Ordering;
use std::rc::Rc;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::duration::{duration, seconds_text};
use super::function::{Called, Signature, has};
use super::value::{Cel, Failure};
use super::{address, quantity};
use crate::preflight::crd_upgrade::canonical::go_float;
use crate::preflight::resource::pattern;

/// The functions that have no library of their own here.
const FUNCTIONS: [Signature; 55] = [
    ("size", false, &[1]),
    ("size", true, &[0]),
    ("int", false, &[1]),
    ("uint", false, &[1]),
    ("double", false, &[1]),
    ("string", false, &[1]),
    ("bytes", false, &[1]),
    ("bool", false, &[1]),
    ("dyn", false, &[1]),
    ("duration", false, &[1]),
    ("timestamp", false, &[1]),
    ("matches", false, &[2]),
    ("matches", true, &[1]),
    ("contains", true, &[1]),
    ("startsWith", true, &[1]),
    ("endsWith", true, &[1]),
    ("charAt", true, &[1]),
    ("indexOf", true, &[1, 2]),
    ("lastIndexOf", true, &[1, 2]),
    ("lowerAscii", true, &[0]),
    ("upperAscii", true, &[0]),
    ("replace", true, &[2, 3]),
    ("split", true, &[1, 2]),
    ("substring", true, &[1, 2]),
    ("trim", true, &[0]),
    ("join", true, &[0, 1]),
    ("find", true, &[1]),
    ("findAll", true, &[1, 2]),
    ("isSorted", true, &[0]),
    ("sum", true, &[0]),
    ("min", true, &[0]),
    ("max", true, &[0]),
    ("sets.contains", false, &[2]),
    ("sets.equivalent", false, &[2]),
    ("sets.intersects", false, &[2]),
    ("optional.of", false, &[1]),
    ("optional.none", false, &[0]),
    ("optional.ofNonZeroValue", false, &[1]),
    ("hasValue", true, &[0]),
    ("value", true, &[0]),
    ("orValue", true, &[1]),
    ("or", true, &[1]),
    ("getFullYear", true, &[0]),
    ("getMonth", true, &[0]),
    ("getDayOfYear", true, &[0]),
    ("getDayOfMonth", true, &[0]),
    ("getDate", true, &[0]),
    ("getDayOfWeek", true, &[0]),
    ("getHours", true, &[0]),
    ("getMinutes", true, &[0]),
    ("getSeconds", true, &[0]),
    ("getMilliseconds", true, &[0]),
    ("distinct", true, &[0]),
    ("reverse", true, &[0]),
    ("slice", true, &[2]),
];

/// Whether a function is evaluated here.
pub(super) fn knows(function: &str, is_member: bool, arguments: usize) -> bool {
    [&FUNCTIONS, quantity::FUNCTIONS, address::FUNCTIONS]
        .into_iter()
        .any(|library| has(library, function, is_member, arguments))
}

/// Calls a function that is known.
pub(super) fn call<'v>(function: &str, of: Option<Cel<'v>>, arguments: &[Cel<'v>]) -> Called<'v> {
    let (is_member, count) = (of.is_some(), arguments.len());
    let all: Vec<Cel<'v>> = of.into_iter().chain(arguments.iter().cloned()).collect();
    if let Some(Cel::Broken(what)) = all.iter().find(|value| matches!(value, Cel::Broken(_))) {
        return Err(Failure::of(format!("invalid {what}")));
    }
    if has(quantity::FUNCTIONS, function, is_member, count) {
        return quantity::call(function, &all);
    }
    if has(address::FUNCTIONS, function, is_member, count) {
        return address::call(function, &all);
    }
    match (function, all.as_slice()) {
        ("size", [value]) => match value.size() {
            Some(size) => Ok(number(size)),
            None => Err(Failure::overload()),
        },
        ("dyn", [value]) => Ok(value.clone()),
        (
            "int" | "uint" | "double" | "string" | "bytes" | "bool" | "duration" | "timestamp",
            [value],
        ) => converted(function, value),
        ("optional.none", []) => Ok(Cel::Optional(None)),
        ("optional.of", [value]) => Ok(Cel::some(value.clone())),
        ("optional.ofNonZeroValue", [value]) => Ok(if is_zero(value) {
            Cel::Optional(None)
        } else {
            Cel::some(value.clone())
        }),
        ("hasValue" | "value" | "orValue" | "or", [Cel::Optional(value), rest @ ..]) => {
            of_optional(function, value.as_ref(), rest.first())
        }
        ("sets.contains" | "sets.equivalent" | "sets.intersects", [x, y]) => sets(function, x, y),
        (_, [Cel::Timestamp(time)]) => of_time(function, *time),
        (_, [Cel::Duration(duration)]) => of_duration(function, *duration),
        (_, [Cel::Text(text), rest @ ..]) => of_text(function, text, rest),
        (_, [list, rest @ ..]) => match list.items() {
            Some(items) => of_list(function, items, rest),
            None => Err(Failure::overload()),
        },
        _ => Err(Failure::overload()),
    }
}

/// Sizes and indices; none is larger than memory.
fn number<'v>(size: usize) -> Cel<'v> {
    Cel::Int(i64::try_from(size).unwrap_or(i64::MAX))
}

fn is_zero(value: &Cel<'_>) -> bool {
    match value {
        Cel::Null => true,
        Cel::Bool(value) => !value,
        Cel::Duration(value) => *value == 0,
        Cel::Int(_) | Cel::Uint(_) | Cel::Double(_) => value.approximate() == Some(0.0),
        Cel::Timestamp(_)
        | Cel::Optional(_)
        | Cel::Quantity(_)
        | Cel::Url(_)
        | Cel::Ip(_)
        | Cel::Network(_)
        | Cel::Broken(_) => false,
        Cel::Text(_) | Cel::Bytes(_) | Cel::List(_) | Cel::Map(_) | Cel::Json(_) => {
            value.size() == Some(0)
        }
    }
}

fn of_optional<'v>(
    function: &str,
    value: Option<&Rc<Cel<'v>>>,
    other: Option<&Cel<'v>>,
) -> Called<'v> {
    match (function, value, other) {
        ("hasValue", value, None) => Ok(Cel::Bool(value.is_some())),
        ("value" | "orValue", Some(value), _) => Ok(value.as_ref().clone()),
        ("or", Some(value), _) => Ok(Cel::Optional(Some(value.clone()))),
        ("orValue" | "or", None, Some(other)) => Ok(other.clone()),
        _ => Err(Failure::of("optional.none() dereference")),
    }
}

fn sets<'v>(function: &str, x: &Cel<'v>, y: &Cel<'v>) -> Called<'v> {
    let (Some(x), Some(y)) = (x.items(), y.items()) else {
        return Err(Failure::overload());
    };
    let has = |list: &[Cel<'v>], one: &Cel<'v>| list.iter().any(|other| other.is_equal(one));
    Ok(Cel::Bool(match function {
        "sets.contains" => y.iter().all(|one| has(&x, one)),
        "sets.intersects" => y.iter().any(|one| has(&x, one)),
        _ => y.iter().all(|one| has(&x, one)) && x.iter().all(|one| has(&y, one)),
    }))
}

fn converted<'v>(to: &str, value: &Cel<'v>) -> Called<'v> {
    let range = || Failure::of(format!("type conversion error to {to}"));
    match (to, value) {
        ("int", Cel::Int(_))
        | ("uint", Cel::Uint(_))
        | ("double", Cel::Double(_))
        | ("string", Cel::Text(_))
        | ("bytes", Cel::Bytes(_))
        | ("bool", Cel::Bool(_))
        | ("duration", Cel::Duration(_))
        | ("timestamp", Cel::Timestamp(_)) => Ok(value.clone()),
        ("int", Cel::Uint(number)) => i64::try_from(*number)
            .map(Cel::Int)
            .map_err(|_unfit| range()),
        ("uint", Cel::Int(number)) => u64::try_from(*number)
            .map(Cel::Uint)
            .map_err(|_unfit| range()),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "checked to be within the range; CEL rounds towards zero"
        )]
        ("int", Cel::Double(number)) if number.abs() < 9.223_372_036_854_775e18 => {
            Ok(Cel::Int(*number as i64))
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be within the range; CEL rounds towards zero"
        )]
        ("uint", Cel::Double(number)) if (0.0..1.844_674_407_370_955e19).contains(number) => {
            Ok(Cel::Uint(*number as u64))
        }
        ("int", Cel::Timestamp(time)) => Ok(Cel::Int(time.as_second())),
        ("int", Cel::Text(text)) => text.parse().map(Cel::Int).map_err(|_unfit| range()),
        ("uint", Cel::Text(text)) => text.parse().map(Cel::Uint).map_err(|_unfit| range()),
        ("double", Cel::Text(text)) => text.parse().map(Cel::Double).map_err(|_unfit| range()),
        ("double", Cel::Int(_) | Cel::Uint(_)) => {
            value.approximate().map(Cel::Double).ok_or_else(range)
        }
        ("bytes", Cel::Text(text)) => Ok(Cel::Bytes(Rc::new(text.as_bytes().to_vec()))),
        ("bool", Cel::Text(text)) => match text.as_ref() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Cel::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Cel::Bool(false)),
            _ => Err(range()),
        },
        ("string", Cel::Int(number)) => Ok(Cel::text(number.to_string())),
        ("string", Cel::Uint(number)) => Ok(Cel::text(number.to_string())),
        ("string", Cel::Double(number)) => Ok(Cel::text(go_float(*number))),
        ("string", Cel::Bool(value)) => Ok(Cel::text(value.to_string())),
        ("string", Cel::Bytes(bytes)) => String::from_utf8(bytes.as_ref().clone())
            .map(Cel::text)
            .map_err(|_unfit| range()),
        ("string", Cel::Ip(address)) => Ok(Cel::text(address.to_string())),
        ("string", Cel::Network(network)) => Ok(Cel::text(network.to_string())),
        ("string", Cel::Timestamp(time)) => Ok(Cel::text(time.to_string())),
        ("string", Cel::Duration(duration)) => Ok(Cel::text(seconds_text(*duration))),
        ("duration", Cel::Text(text)) => duration(text).map(Cel::Duration).ok_or_else(range),
        ("duration", Cel::Int(seconds)) => seconds
            .checked_mul(1_000_000_000)
            .map(Cel::Duration)
            .ok_or_else(range),
        ("timestamp", Cel::Text(text)) => {
            text.parse().map(Cel::Timestamp).map_err(|_unfit| range())
        }
        ("timestamp", Cel::Int(seconds)) => Timestamp::from_second(*seconds)
            .map(Cel::Timestamp)
            .map_err(|_unfit| range()),
        _ => Err(Failure::overload()),
    }
}

/// A time later by nanoseconds.
pub(super) fn later<'v>(time: Timestamp, by: i64) -> Called<'v> {
    time.checked_add(jiff::SignedDuration::from_nanos(by))
        .map(Cel::Timestamp)
        .map_err(|_out_of_range| Failure::of("timestamp overflow"))
}

fn of_time<'v>(function: &str, time: Timestamp) -> Called<'v> {
    let time = time.to_zoned(TimeZone::UTC);
    let number = match function {
        "getFullYear" => i64::from(time.year()),
        "getMonth" => i64::from(time.month()) - 1,
        "getDayOfYear" => i64::from(time.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(time.day()) - 1,
        "getDate" => i64::from(time.day()),
        "getDayOfWeek" => i64::from(time.weekday().to_sunday_zero_offset()),
        "getHours" => i64::from(time.hour()),
        "getMinutes" => i64::from(time.minute()),
        "getSeconds" => i64::from(time.second()),
        "getMilliseconds" => i64::from(time.millisecond()),
        _ => return Err(Failure::overload()),
    };
    Ok(Cel::Int(number))
}

fn of_duration<'v>(function: &str, nanoseconds: i64) -> Called<'v> {
    let unit = match function {
        "getHours" => 3_600_000_000_000,
        "getMinutes" => 60_000_000_000,
        "getSeconds" => 1_000_000_000,
        "getMilliseconds" => return Ok(Cel::Int(nanoseconds / 1_000_000 % 1_000)),
        _ => return Err(Failure::overload()),
    };
    Ok(Cel::Int(nanoseconds / unit))
}

fn of_text<'v>(function: &str, text: &str, arguments: &[Cel<'v>]) -> Called<'v> {
    let yes_no = |value: bool| Ok(Cel::Bool(value));
    match (function, arguments) {
        ("contains", [Cel::Text(part)]) => yes_no(text.contains(part.as_ref())),
        ("startsWith", [Cel::Text(part)]) => yes_no(text.starts_with(part.as_ref())),
        ("endsWith", [Cel::Text(part)]) => yes_no(text.ends_with(part.as_ref())),
        ("matches", [Cel::Text(expression)]) => yes_no(regex(expression)?.is_match(text)),
        ("find", [Cel::Text(expression)]) => {
            let found = regex(expression)?
                .find(text)
                .map_or("", |found| found.as_str());
            Ok(Cel::text(found))
        }
        ("findAll", [Cel::Text(expression), most @ ..]) => {
            let most = limit(most.first())?;
            let regex = regex(expression)?;
            let found = regex.find_iter(text).take(most);
            Ok(Cel::list(
                found.map(|found| Cel::text(found.as_str())).collect(),
            ))
        }
        ("lowerAscii", []) => Ok(Cel::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Cel::text(text.to_ascii_uppercase())),
        ("trim", []) => Ok(Cel::text(text.trim())),
        ("reverse", []) => Ok(Cel::text(text.chars().rev().collect::<String>())),
        ("charAt", [Cel::Int(at)]) => {
            let length = text.chars().count();
            match usize::try_from(*at) {
                Ok(at) if at < length => {
                    Ok(Cel::text(text.chars().skip(at).take(1).collect::<String>()))
                }
                Ok(at) if at == length => Ok(Cel::text("")),
                _ => Err(Failure::of(format!("index out of range: {at}"))),
            }
        }
        ("indexOf" | "lastIndexOf", [Cel::Text(part), at @ ..]) => {
            position(function, text, part, at.first())
        }
        ("replace", [Cel::Text(from), Cel::Text(to), most @ ..]) => {
            let most = limit(most.first())?;
            Ok(Cel::text(text.replacen(from.as_ref(), to, most)))
        }
        ("split", [Cel::Text(by), most @ ..]) => Ok(split(text, by, limit(most.first())?)),
        ("substring", [Cel::Int(start), end @ ..]) => substring(text, *start, end.first()),
        _ => Err(Failure::overload()),
    }
}

fn regex(expression: &str) -> Result<regex::Regex, Failure> {
    pattern::compile(expression).ok_or_else(|| Failure::of("the expression cannot be compiled"))
}

/// At most so many; a negative number or none means all.
fn limit(most: Option<&Cel<'_>>) -> Result<usize, Failure> {
    match most {
        None => Ok(usize::MAX),
        Some(Cel::Int(most)) => Ok(usize::try_from(*most).unwrap_or(usize::MAX)),
        Some(_) => Err(Failure::overload()),
    }
}

fn split<'v>(text: &str, by: &str, most: usize) -> Cel<'v> {
    let parts: Vec<Cel<'v>> = match (most, by) {
        (0, _) => Vec::new(),
        (_, "") => {
            let characters: Vec<char> = text.chars().collect();
            let (single, rest) = characters.split_at(characters.len().min(most - 1));
            let mut parts: Vec<String> = single.iter().map(char::to_string).collect();
            if !rest.is_empty() {
                parts.push(rest.iter().collect());
            }
            parts.into_iter().map(Cel::text).collect()
        }
        _ => text.splitn(most, by).map(Cel::text).collect(),
    };
    Cel::list(parts)
}

fn substring<'v>(text: &str, start: i64, end: Option<&Cel<'v>>) -> Called<'v> {
    let length = text.chars().count();
    let out_of_range = || Failure::of("index out of range");
    let start = usize::try_from(start).map_err(|_negative| out_of_range())?;
    let end = match end {
        None => length,
        Some(Cel::Int(end)) => usize::try_from(*end).map_err(|_negative| out_of_range())?,
        Some(_) => return Err(Failure::overload()),
    };
    if start > end || end > length {
        return Err(out_of_range());
    }
    Ok(Cel::text(
        text.chars()
            .skip(start)
            .take(end - start)
            .collect::<String>(),
    ))
}

/// Where a part is, in characters; -1 for nowhere.
fn position<'v>(function: &str, text: &str, part: &str, at: Option<&Cel<'v>>) -> Called<'v> {
    let (text, part): (Vec<char>, Vec<char>) = (text.chars().collect(), part.chars().collect());
    let last = text.len().checked_sub(part.len());
    let at = match at {
        None => None,
        Some(Cel::Int(at)) => match usize::try_from(*at) {
            Ok(at) if at < text.len() || (at == 0 && text.is_empty()) => Some(at),
            _ => return Err(Failure::of(format!("index out of range: {at}"))),
        },
        Some(_) => return Err(Failure::overload()),
    };
    let Some(last) = last else {
        return Ok(Cel::Int(-1));
    };
    let is_at = |start: &usize| text.iter().skip(*start).zip(&part).all(|(x, y)| x == y);
    let found = if function == "indexOf" {
        (at.unwrap_or(0)..=last).find(is_at)
    } else {
        (0..=at.unwrap_or(last).min(last)).rev().find(is_at)
    };
    Ok(found.map_or(Cel::Int(-1), number))
}

fn of_list<'v>(function: &str, items: Vec<Cel<'v>>, arguments: &[Cel<'v>]) -> Called<'v> {
    match (function, arguments) {
        ("isSorted", []) => {
            for pair in items.windows(2) {
                if let [x, y] = pair
                    && x.compare(y).ok_or_else(Failure::overload)? == Ordering::Greater
                {
                    return Ok(Cel::Bool(false));
                }
            }
            Ok(Cel::Bool(true))
        }
        ("min" | "max", []) => extreme(function, items),
        ("sum", []) => sum(&items),
        ("indexOf", [one]) => {
            let found = items.iter().position(|item| item.is_equal(one));
            Ok(found.map_or(Cel::Int(-1), number))
        }
        ("lastIndexOf", [one]) => {
            let found = items.iter().rposition(|item| item.is_equal(one));
            Ok(found.map_or(Cel::Int(-1), number))
        }
        ("join", rest) => {
            let between = match rest {
                [] => "",
                [Cel::Text(between)] => between,
                _ => return Err(Failure::overload()),
            };
            let texts = items
                .iter()
                .map(|item| match item {
                    Cel::Text(text) => Ok(text.as_ref()),
                    _ => Err(Failure::overload()),
                })
                .collect::<Result<Vec<_>, _>>()?;
            Ok(Cel::text(texts.join(between)))
        }
        ("distinct", []) => {
            let mut distinct: Vec<Cel<'v>> = Vec::new();
            for item in items {
                if !distinct.iter().any(|other| other.is_equal(&item)) {
                    distinct.push(item);
                }
            }
            Ok(Cel::list(distinct))
        }
        ("reverse", []) => Ok(Cel::list(items.into_iter().rev().collect())),
        ("slice", [Cel::Int(start), Cel::Int(end)]) => {
            let range = usize::try_from(*start).ok().zip(usize::try_from(*end).ok());
            let part = range.and_then(|(start, end)| items.get(start..end));
            part.map(|part| Cel::list(part.to_vec()))
                .ok_or_else(|| Failure::of("index out of range"))
        }
        _ => Err(Failure::overload()),
    }
}

fn extreme<'v>(function: &str, items: Vec<Cel<'v>>) -> Called<'v> {
    let wanted = if function == "min" {
        Ordering::Less
    } else {
        Ordering::Greater
    };
    let mut items = items.into_iter();
    let Some(mut best) = items.next() else {
        return Err(Failure::of(format!("{function} called on empty list")));
    };
    for item in items {
        if item.compare(&best).ok_or_else(Failure::overload)? == wanted {
            best = item;
        }
    }
    Ok(best)
}

fn sum<'v>(items: &[Cel<'v>]) -> Called<'v> {
    let overflow = || Failure::of("integer overflow");
    let mut total = match items.first() {
        None | Some(Cel::Int(_)) => Cel::Int(0),
        Some(Cel::Uint(_)) => Cel::Uint(0),
        Some(Cel::Double(_)) => Cel::Double(0.0),
        Some(Cel::Duration(_)) => Cel::Duration(0),
        Some(_) => return Err(Failure::overload()),
    };
    for item in items {
        total = match (&total, item) {
            (Cel::Int(x), Cel::Int(y)) => Cel::Int(x.checked_add(*y).ok_or_else(overflow)?),
            (Cel::Uint(x), Cel::Uint(y)) => Cel::Uint(x.checked_add(*y).ok_or_else(overflow)?),
            (Cel::Double(x), Cel::Double(y)) => Cel::Double(x + y),
            (Cel::Duration(x), Cel::Duration(y)) => {
                Cel::Duration(x.checked_add(*y).ok_or_else(overflow)?)
            }
            _ => return Err(Failure::overload()),
        };
    }
    Ok(total)
}

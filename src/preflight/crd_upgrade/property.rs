//! The checks of one node of the schema against the node at the same path of the other schema.
//!
//! Each check looks at one field and takes it away from both sides; whatever still differs then is `unhandled`.

use super::Check;
use super::canonical::go_float;
use super::condense::condensed;
use super::record::{Data, Record, as_record, is_same_record, is_same_without};
use super::report::difference;
use super::shape::At;
use super::string_form;
use crate::error::quoted;

/// What a check has to say of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Complaint {
    pub(super) check: Check,
    /// The whole text, by which two complaints are the same.
    pub(super) raw: String,
    /// The text of the finding.
    pub(super) text: String,
}

impl Complaint {
    fn new(check: Check, text: String) -> Self {
        Self {
            check,
            raw: text.clone(),
            text,
        }
    }
}

/// The fields that hold schemas which are nodes of their own; the others that hold schemas count as part of the node,
/// as in the reference.
const CHILDREN: [At; 2] = [At::Properties, At::Items];

/// Compares an old node with the new one, or with an empty schema where it is gone.
pub(super) fn compare(old: &Record, new: Option<&Record>) -> Vec<Complaint> {
    let empty = Record::default();
    let new = new.unwrap_or(&empty);
    // Most nodes do not change.
    if is_same_without(old, new, &CHILDREN) {
        return Vec::new();
    }
    let mut found: Vec<Complaint> = CHECKS
        .iter()
        .filter_map(|(check, at, compare)| Some(Complaint::new(*check, compare(old, new, *at)?)))
        .collect();
    let looked = CHECKS.iter().map(|(_, at, _)| *at);
    let looked: Vec<At> = looked.chain(CHILDREN).chain([At::Description]).collect();
    if !is_same_without(old, new, &looked) {
        let difference = difference(old.without(&looked), new.without(&looked));
        found.push(Complaint {
            check: Check::Unhandled,
            text: condensed(&difference),
            raw: difference,
        });
    }
    found
}

type Compare = fn(&Record, &Record, At) -> Option<String>;

/// The checks, the field that each looks at, and how.
const CHECKS: [(Check, At, Compare); 15] = [
    (Check::Enum, At::Enum, compare_enum),
    (Check::Default, At::Default, compare_default),
    (Check::Maximum, At::Maximum, compare_maximum),
    (Check::MaxItems, At::MaxItems, compare_maximum),
    (Check::MaxLength, At::MaxLength, compare_maximum),
    (Check::MaxProperties, At::MaxProperties, compare_maximum),
    (Check::Minimum, At::Minimum, compare_minimum),
    (Check::MinItems, At::MinItems, compare_minimum),
    (Check::MinLength, At::MinLength, compare_minimum),
    (Check::MinProperties, At::MinProperties, compare_minimum),
    (Check::Required, At::Required, compare_required),
    (Check::Type, At::Type, compare_type),
    (Check::Pattern, At::Pattern, compare_pattern),
    (Check::Nullable, At::Nullable, compare_nullable),
    (Check::OneOf, At::OneOf, compare_one_of),
];

/// The raw JSON of a field or an element.
fn raw_json(data: &Data) -> &str {
    match as_record(data).and_then(|json| json.at(0)) {
        Some(Data::Bytes(text)) => text,
        _ => "",
    }
}

fn sorted(mut list: Vec<String>) -> Vec<String> {
    list.sort_unstable();
    list.dedup();
    list
}

fn removed(old: &[String], new: &[String]) -> Vec<String> {
    old.iter()
        .filter(|value| !new.contains(value))
        .cloned()
        .collect()
}

fn compare_enum(old: &Record, new: &Record, at: At) -> Option<String> {
    let values = |schema: &Record| {
        sorted(
            schema
                .list(at)
                .iter()
                .map(|data| raw_json(data).to_owned())
                .collect(),
        )
    };
    let (old, new) = (values(old), values(new));
    if old.is_empty() && !new.is_empty() {
        return Some(format!(
            "enum constraint added when there was none previously : [{}]",
            new.join(" ")
        ));
    }
    let removed = removed(&old, &new);
    (!removed.is_empty()).then(|| format!("allowed enum values removed : [{}]", removed.join(" ")))
}

fn compare_default(old: &Record, new: &Record, at: At) -> Option<String> {
    match (old.get(at), new.get(at)) {
        (None, None) => None,
        (None, Some(new)) => Some(format!(
            "default added when there was none previously : {}",
            quoted(raw_json(new))
        )),
        (Some(old), None) => Some(format!("default value removed : {}", quoted(raw_json(old)))),
        (Some(old), Some(new)) => (raw_json(old) != raw_json(new)).then(|| {
            format!(
                "default value changed : {} -> {}",
                quoted(raw_json(old)),
                quoted(raw_json(new))
            )
        }),
    }
}

/// A bound as Go's `%v` prints it.
fn bound(data: &Data) -> String {
    match data {
        Data::Integer(number) => number.to_string(),
        Data::Float(number) => go_float(*number),
        _ => String::new(),
    }
}

fn is_less(x: &Data, y: &Data) -> bool {
    match (x, y) {
        (Data::Integer(x), Data::Integer(y)) => x < y,
        (Data::Float(x), Data::Float(y)) => x < y,
        _ => false,
    }
}

fn compare_maximum(old: &Record, new: &Record, at: At) -> Option<String> {
    match (old.get(at), new.get(at)) {
        (None, Some(new)) => Some(format!(
            "maximum constraint added when there was none previously : {}",
            bound(new)
        )),
        (Some(old), Some(new)) if is_less(new, old) => Some(format!(
            "maximum decreased : {} -> {}",
            bound(old),
            bound(new)
        )),
        _ => None,
    }
}

fn compare_minimum(old: &Record, new: &Record, at: At) -> Option<String> {
    match (old.get(at), new.get(at)) {
        (None, Some(new)) => Some(format!(
            "minimum constraint added when there was none previously : {}",
            bound(new)
        )),
        (Some(old), Some(new)) if is_less(old, new) => Some(format!(
            "minimum increased : {} -> {}",
            bound(old),
            bound(new)
        )),
        _ => None,
    }
}

fn compare_required(old: &Record, new: &Record, at: At) -> Option<String> {
    let names = |schema: &Record| {
        let names = schema.list(at).iter().filter_map(|data| match data {
            Data::Text(name) => Some(name.to_string()),
            _ => None,
        });
        sorted(names.collect())
    };
    let added = removed(&names(new), &names(old));
    (!added.is_empty()).then(|| format!("new required fields: [{}]", added.join(" ")))
}

fn compare_type(old: &Record, new: &Record, at: At) -> Option<String> {
    let (old, new) = (old.text(at), new.text(at));
    (old != new).then(|| format!("type changed : {} -> {}", quoted(old), quoted(new)))
}

fn compare_pattern(old: &Record, new: &Record, at: At) -> Option<String> {
    let (old, new) = (old.text(at), new.text(at));
    let what = match (old.is_empty(), new.is_empty()) {
        _ if old == new => return None,
        (true, _) => "added",
        (_, true) => "removed",
        (false, false) => "changed",
    };
    Some(format!(
        "pattern {what} : {} -> {}",
        quoted(old),
        quoted(new)
    ))
}

fn compare_nullable(old: &Record, new: &Record, at: At) -> Option<String> {
    match (old.is(at), new.is(at)) {
        (false, true) => Some("nullable added : false -> true".to_owned()),
        (true, false) => Some("nullable removed : true -> false".to_owned()),
        _ => None,
    }
}

/// What does not count in an entry of `oneOf`.
const DECORATION: [At; 4] = [At::Description, At::Title, At::Example, At::ExternalDocs];

fn compare_one_of(old: &Record, new: &Record, at: At) -> Option<String> {
    let entries = |schema: &Record| -> Vec<Record> {
        let entries = schema.list(at).iter().filter_map(as_record);
        entries.map(|entry| entry.without(&DECORATION)).collect()
    };
    let (old, new) = (entries(old), entries(new));
    let missing = |these: &[Record], those: &[Record]| -> Vec<String> {
        these
            .iter()
            .filter(|entry| !those.iter().any(|other| is_same_record(entry, other)))
            .map(string_form::of_schema)
            .collect()
    };
    if old.is_empty() && !new.is_empty() {
        return Some(format!(
            "oneOf constraint added when there was none previously: [{}]",
            missing(&new, &[]).join(" ")
        ));
    }
    let gone = missing(&old, &new);
    if !gone.is_empty() {
        return Some(format!(
            "allowed oneOf schemas removed: [{}]",
            gone.join(" ")
        ));
    }
    let come = missing(&new, &old);
    (!come.is_empty()).then(|| format!("allowed oneOf schemas added: [{}]", come.join(" ")))
}

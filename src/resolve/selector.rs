//! Label selectors: matching, and the errors in the API machinery's words.
//!
//! Semantics and texts: [labels and selectors](https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use regex::Regex;

use crate::error::quoted;

const NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";

/// The longest name part of a key, and the longest value, in bytes.
const MAX_NAME_BYTES: usize = 63;

/// The longest prefix of a key, in bytes.
const MAX_SUBDOMAIN_BYTES: usize = 253;

static NAME_PATTERN: LazyLock<Regex> = LazyLock::new(|| whole(NAME));
static VALUE_PATTERN: LazyLock<Regex> = LazyLock::new(|| whole(VALUE));
static SUBDOMAIN_PATTERN: LazyLock<Regex> = LazyLock::new(|| whole(SUBDOMAIN));

fn whole(pattern: &str) -> Regex {
    Regex::new(&format!("^(?:{pattern})$")).expect("a constant pattern")
}

/// Why a label selector is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The operator of an expression is unknown.
    #[error("{} is not a valid label selector operator", quoted(.0))]
    Operator(String),
    /// Key or values of a requirement are wrong; each fault as one text.
    #[error("{}", joined(.0))]
    Requirement(Vec<String>),
}

/// One fault as it is; several in brackets.
fn joined(faults: &[String]) -> String {
    match faults {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// A selector whose parts are valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Checks a selector; none and an empty one select everything.
    ///
    /// # Errors
    /// The first requirement that is wrong: `matchLabels` by key, then `matchExpressions` in order.
    pub fn parse(selector: Option<&LabelSelector>) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        let Some(selector) = selector else {
            return Ok(Self { requirements });
        };
        for (key, value) in selector.match_labels.iter().flatten() {
            requirements.push(Requirement::new(
                key,
                Operator::Equals,
                vec![value.clone()],
            )?);
        }
        for expression in selector.match_expressions.iter().flatten() {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(SelectorError::Operator(other.to_owned())),
            };
            let values = expression.values.clone().unwrap_or_default();
            requirements.push(Requirement::new(&expression.key, operator, values)?);
        }
        Ok(Self { requirements })
    }

    /// Whether all requirements hold for `labels`.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            let listed = value.is_some_and(|value| requirement.values.contains(value));
            match requirement.operator {
                Operator::Equals | Operator::In => listed,
                Operator::NotIn => !listed,
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            }
        })
    }
}

impl Requirement {
    fn new(key: &str, operator: Operator, values: Vec<String>) -> Result<Self, SelectorError> {
        let mut faults = Vec::new();
        let key_faults = key_faults(key);
        if !key_faults.is_empty() {
            let joined = key_faults.join("; ");
            faults.push(format!("key: Invalid value: {}: {joined}", quoted(key)));
        }
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => faults.push(
                "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
                    .to_owned(),
            ),
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                let list = serde_json::json!(values);
                faults.push(format!(
                    "values: Invalid value: {list}: values set must be empty for exists and does not exist"
                ));
            }
            Operator::Equals
            | Operator::In
            | Operator::NotIn
            | Operator::Exists
            | Operator::DoesNotExist => {}
        }
        for (index, value) in values.iter().enumerate() {
            let value_faults = value_faults(value);
            if !value_faults.is_empty() {
                faults.push(format!(
                    "values[{index}][{key}]: Invalid value: {}: {}",
                    quoted(value),
                    value_faults.join("; ")
                ));
            }
        }
        if faults.is_empty() {
            Ok(Self {
                key: key.to_owned(),
                operator,
                values,
            })
        } else {
            faults.dedup();
            Err(SelectorError::Requirement(faults))
        }
    }
}

fn key_faults(key: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let shape = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                 alphanumeric character";
    let examples = format!(
        "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{NAME}')"
    );
    let parts: Vec<&str> = key.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                faults.extend(
                    subdomain_faults(prefix)
                        .iter()
                        .map(|fault| format!("prefix part {fault}")),
                );
            }
            *name
        }
        _ => {
            return vec![format!(
                "a qualified name {shape} {examples} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > MAX_NAME_BYTES {
        faults.push(format!("name part {}", too_long(MAX_NAME_BYTES)));
    }
    if !NAME_PATTERN.is_match(name) {
        faults.push(format!("name part {shape} {examples}"));
    }
    faults
}

fn subdomain_faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > MAX_SUBDOMAIN_BYTES {
        faults.push(too_long(MAX_SUBDOMAIN_BYTES));
    }
    if !SUBDOMAIN_PATTERN.is_match(text) {
        faults.push(format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '{SUBDOMAIN}')"
        ));
    }
    faults
}

fn value_faults(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.len() > MAX_NAME_BYTES {
        faults.push(too_long(MAX_NAME_BYTES));
    }
    if !VALUE_PATTERN.is_match(value) {
        faults.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
             for validation is '{VALUE}')"
        ));
    }
    faults
}

fn too_long(bytes: usize) -> String {
    format!("must be no more than {bytes} bytes")
}

/// Reads a selector as `kubectl` writes it: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
///
/// # Errors
/// The part that is none.
pub fn parse_text(text: &str) -> Result<LabelSelector, SelectorTextError> {
    let mut expressions = Vec::new();
    for part in parts(text) {
        let part = part.trim();
        if part.is_empty() {
            continue;
        }
        expressions.push(expression(part).ok_or_else(|| SelectorTextError(part.to_owned()))?);
    }
    Ok(LabelSelector {
        match_labels: None,
        match_expressions: Some(expressions),
    })
}

/// A part of a selector's text that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot read selector {0:?}: expected key, !key, key=value, key!=value, key in (values) or key notin (values)"
)]
pub struct SelectorTextError(pub String);

/// The parts between commas, those in parentheses left alone.
fn parts(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut depth = 0_usize;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                found.extend(text.get(start..index));
                start = index + 1;
            }
            _ => {}
        }
    }
    found.extend(text.get(start..));
    found
}

fn expression(part: &str) -> Option<LabelSelectorRequirement> {
    let requirement = |key: &str, operator: &str, values: Vec<String>| {
        let key = key.trim();
        (!key.is_empty() && !key.contains(char::is_whitespace)).then(|| LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: Some(values),
        })
    };
    let value = |text: &str| vec![text.trim().to_owned()];
    if let Some(list) = part.strip_suffix(')') {
        let (head, list) = list.split_once('(')?;
        let (key, word) = head.trim().rsplit_once(char::is_whitespace)?;
        let values = list.split(',').map(|v| v.trim().to_owned()).collect();
        return match word {
            "in" => requirement(key, "In", values),
            "notin" => requirement(key, "NotIn", values),
            _ => None,
        };
    }
    if let Some((key, text)) = part.split_once("!=") {
        return requirement(key, "NotIn", value(text));
    }
    if let Some((key, text)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return requirement(key, "In", value(text));
    }
    match part.strip_prefix('!') {
        Some(key) => requirement(key, "DoesNotExist", Vec::new()),
        None => requirement(part, "Exists", Vec::new()),
    }
}

#[cfg(test)]
mod tests;

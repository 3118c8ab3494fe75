//! CEL rules: compiled with the schema, evaluated on a prepared resource.
//!
//! A small interpreter of our own. The crates there are convert every value before a rule runs, do not tell before a
//! run which functions they lack, and know no schema, by which `5` is a double and a list is a set. What is not
//! understood here is found when the rule is compiled, and is a gap of the validator:
//!
//! * functions of the libraries semver, format (of names), authorizer and strings (`format`);
//! * comprehensions that transform with two variables; messages; values of types.

mod address;
mod duration;
mod evaluate;
mod function;
mod library;
mod network;
mod parse;
mod quantity;
pub(super) mod syntax;
mod value;

use std::cell::Cell;

use serde_json::Value;

use super::finding::{Gap, Violation};
use super::node::{Additional, Node};
use evaluate::{Scope, evaluate};
use syntax::{ParseError, Rule};
use value::{Cel, Failure};

/// How many steps the rules of one resource may take; an API server's own budget is of the same size.
const STEPS: u32 = 10_000_000;

/// Compiles a rule; `None` for one that is only about changes.
///
/// # Errors
/// When it is not CEL, or more of CEL than is understood here.
pub(super) fn compile(
    text: &str,
    message: &str,
    has_optional_old_self: bool,
) -> Result<Option<Rule>, ParseError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let expression = parse::parse(text)?;
    if expression.names("oldSelf") && !has_optional_old_self {
        return Ok(None);
    }
    let message = match message.trim() {
        "" => format!("fails rule: {}", text.trim()),
        message => message.to_owned(),
    };
    Ok(Some(Rule {
        expression,
        message,
    }))
}

/// What the rules say about a resource; a rule that fails to evaluate counts as broken, as for an API server.
///
/// # Errors
/// When the rules take too many steps.
pub(super) fn violations(resource: &Value, root: &Node) -> Result<Vec<Violation>, Gap> {
    let mut walk = Walk {
        violations: Vec::new(),
        steps: Cell::new(STEPS),
    };
    walk.node(resource, root, &mut String::new(), true)?;
    Ok(walk.violations)
}

struct Walk {
    violations: Vec<Violation>,
    steps: Cell<u32>,
}

impl Walk {
    fn node(
        &mut self,
        value: &Value,
        node: &Node,
        path: &mut String,
        is_root: bool,
    ) -> Result<(), Gap> {
        if value.is_null() {
            return Ok(());
        }
        for rule in &node.rules {
            self.rule(rule, &Cel::of(value, node, is_root), path)?;
        }
        match value {
            Value::Object(members) => {
                for (name, child) in &node.properties {
                    if let Some(value) = members.get(name) {
                        self.below(&format!(".{name}"), value, child, path)?;
                    }
                }
                if let Some(Additional::Schema(child)) = &node.additional {
                    for (name, value) in members {
                        if !node.properties.contains_key(name) {
                            self.below(&format!(".{name}"), value, child, path)?;
                        }
                    }
                }
            }
            Value::Array(items) => {
                if let Some(child) = &node.items {
                    for (index, item) in items.iter().enumerate() {
                        self.below(&format!("[{index}]"), item, child, path)?;
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Ok(())
    }

    fn below(
        &mut self,
        step: &str,
        value: &Value,
        node: &Node,
        path: &mut String,
    ) -> Result<(), Gap> {
        let length = path.len();
        path.push_str(step);
        let result = self.node(value, node, path, false);
        path.truncate(length);
        result
    }

    fn rule(&mut self, rule: &Rule, this: &Cel<'_>, path: &str) -> Result<(), Gap> {
        let old = Cel::Optional(None);
        let scope = Scope::root(this, &old, &self.steps);
        let problem = match evaluate(&rule.expression, &scope) {
            Ok(Cel::Bool(true)) => return Ok(()),
            Ok(_) => rule.message.clone(),
            Err(Failure::OutOfSteps) => {
                return Err(Gap {
                    path: format!("^{path}"),
                    what: format!(
                        "a rule that takes more than {STEPS} steps: {}",
                        rule.message
                    ),
                });
            }
            Err(Failure::Error(error)) => format!("{} ({error})", rule.message),
        };
        self.violations.push(Violation {
            path: path.trim_start_matches('.').to_owned(),
            problem,
        });
        Ok(())
    }
}

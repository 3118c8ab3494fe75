use serde_json::{Value, json};

use super::*;

mod form;
mod rules;

fn validator(schema: &Value) -> Validator {
    Validator::new(schema, false).unwrap()
}

fn problems(schema: &Value, resource: &Value) -> Vec<String> {
    match validator(schema).judge(resource) {
        Verdict::Valid => Vec::new(),
        Verdict::Invalid(violations) => violations
            .into_iter()
            .map(|one| format!("{}: {}", one.path, one.problem))
            .collect(),
        Verdict::Undecided(gap) => panic!("{gap:?}"),
    }
}

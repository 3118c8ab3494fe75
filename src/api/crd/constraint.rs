//! Constraints that a table lays over a schema.

use serde_json::{Map, Value, json};

/// What the API server shall enforce on a field beyond its type.
#[derive(Debug, Clone, Copy)]
pub(super) enum Constraint {
    /// A keyword with a number: `maxLength`, `minimum`, …
    Number(&'static str, i64),
    /// A keyword with a text: `pattern`, `x-kubernetes-list-type`, …
    Text(&'static str, &'static str),
    /// A keyword with texts: `enum`, `required`, `x-kubernetes-list-map-keys`.
    Texts(&'static str, &'static [&'static str]),
    /// A keyword that is true: `x-kubernetes-preserve-unknown-fields`, …
    Flag(&'static str),
    /// The text matches a regular expression, which holds no single quote, else the message.
    Matches(&'static str, &'static str),
    /// An expression in CEL holds, else the message.
    Rule(&'static str, &'static str),
    /// As `Rule`, and the error names this field below the one that the rule stands on.
    RuleAt(&'static str, &'static str, &'static str),
}

/// Rows of path and constraints. A path is a list of property names; `[]` after a name steps into the items.
pub(super) type Table = &'static [(&'static str, &'static [Constraint])];

/// Lays `table`, whose paths are below `base`, over `schema`.
///
/// # Errors
/// The path of a row that leads nowhere.
pub(super) fn apply(schema: &mut Value, base: &str, table: Table) -> Result<(), String> {
    for (path, constraints) in table {
        let path = match (base, *path) {
            ("", path) => path.to_owned(),
            (base, path) => format!("{base}.{path}"),
        };
        let Some(node) = find(schema, &path).and_then(Value::as_object_mut) else {
            return Err(path);
        };
        for constraint in *constraints {
            add(node, *constraint);
        }
    }
    Ok(())
}

fn find<'a>(schema: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    path.split('.')
        .filter(|step| !step.is_empty())
        .try_fold(schema, |node, step| {
            let name = step.trim_end_matches("[]");
            let property = node.get_mut("properties")?.get_mut(name)?;
            if step.ends_with("[]") {
                property.get_mut("items")
            } else {
                Some(property)
            }
        })
}

fn add(node: &mut Map<String, Value>, constraint: Constraint) {
    match constraint {
        Constraint::Number(keyword, number) => {
            node.insert(keyword.to_owned(), json!(number));
        }
        Constraint::Text(keyword, text) => {
            node.insert(keyword.to_owned(), json!(text));
        }
        Constraint::Texts(keyword, texts) => {
            node.insert(keyword.to_owned(), json!(texts));
        }
        Constraint::Flag(keyword) => {
            // A schema that keeps unknown fields may not restrict them at the same time.
            node.remove("additionalProperties");
            node.insert(keyword.to_owned(), json!(true));
        }
        Constraint::Matches(regex, message) => {
            let rule = format!("self.matches(r'{regex}')");
            add_rule(node, json!({"rule": rule, "message": message}));
        }
        Constraint::Rule(rule, message) => {
            add_rule(node, json!({"rule": rule, "message": message}));
        }
        Constraint::RuleAt(field_path, rule, message) => {
            add_rule(
                node,
                json!({"rule": rule, "message": message, "fieldPath": field_path}),
            );
        }
    }
}

fn add_rule(node: &mut Map<String, Value>, rule: Value) {
    let rules = node
        .entry("x-kubernetes-validations")
        .or_insert_with(|| json!([]));
    if let Some(rules) = rules.as_array_mut() {
        rules.push(rule);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_steps_into_items_and_regexes_are_raw_texts_of_cel() {
        let mut schema = json!({"properties": {"names": {"items": {"type": "string"}}}});
        let table: Table = &[(
            "names[]",
            &[
                Constraint::Number("maxLength", 3),
                Constraint::Matches(r"^\d$", "digit"),
            ],
        )];
        apply(&mut schema, "", table).unwrap();
        assert_eq!(
            schema["properties"]["names"]["items"],
            json!({
                "type": "string",
                "maxLength": 3,
                "x-kubernetes-validations": [{"rule": r"self.matches(r'^\d$')", "message": "digit"}],
            })
        );
    }
}

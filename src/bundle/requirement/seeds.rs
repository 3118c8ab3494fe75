//! The examples of the documentation, as they stand there.

use super::*;
use crate::bundle::dependency::dependencies;
use crate::fbc::yaml;
use crate::testing::conformance::documents;

/// The blocks that begin with one of these lines and end before a blank one.
fn examples(document: &str, first_lines: &[&str]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut is_inside = false;
    for line in document.lines() {
        if line.trim().is_empty() {
            is_inside = false;
        } else if !is_inside && first_lines.contains(&line) {
            is_inside = true;
            found.push(String::new());
        }
        if is_inside && let Some(block) = found.last_mut() {
            block.push_str(line);
            block.push('\n');
        }
    }
    found
}

fn property(value: &Value) -> Property {
    serde_json::from_str(&value.to_string()).unwrap()
}

fn messages(constraint: &Constraint) -> Vec<String> {
    let inner = match &constraint.condition {
        Condition::All(inner) | Condition::Any(inner) | Condition::Not(inner) => inner.as_slice(),
        Condition::Gvk(_) | Condition::Package(_) | Condition::Cel { .. } => &[],
    };
    let own = Some(constraint.failure_message.clone()).filter(|message| !message.is_empty());
    own.into_iter()
        .chain(inner.iter().flat_map(messages))
        .collect()
}

#[test]
fn constraints_of_the_documentation_are_read() {
    let Some(documents) = documents("seeds", &["000_", "001_"]) else {
        return;
    };
    for document in documents {
        let mut read = Vec::new();
        let mut misplaced = 0;
        for example in examples(&document, &["type: olm.constraint", "schema: olm.bundle"]) {
            let value = yaml::value(example.as_bytes()).unwrap();
            let properties = match value.get("properties").and_then(Value::as_array) {
                Some(properties) => properties.clone(),
                None if value.get("type").is_some() => vec![value],
                None => continue,
            };
            for value in &properties {
                match property(value).requirement() {
                    Ok(Some(Requirement::Constraint(constraint))) => read.push(constraint),
                    // The example of `not` has its constraint beside the value, not in it.
                    Err(RequirementError::NoValue(kind)) if kind == CONSTRAINT => misplaced += 1,
                    other => panic!("{example}\n{other:?}"),
                }
            }
        }
        assert_eq!((read.len(), misplaced), (5, 1), "{read:#?}");
        assert!(
            matches!(&read[0].condition, Condition::Cel { rule } if rule == r#"properties.exists(p, p.type == "certified")"#)
        );
        assert!(
            matches!(&read[2].condition, Condition::All(constraints) if constraints.len() == 2)
        );
        assert!(
            matches!(&read[3].condition, Condition::Any(constraints) if constraints.len() == 3)
        );
        let nested = match &read[4].condition {
            Condition::Any(nested) => nested,
            other => panic!("{other:?}"),
        };
        assert!(nested.iter().all(
            |one| matches!(&one.condition, Condition::All(constraints) if constraints.len() == 2)
        ));
        // Kept as they are written, on every level.
        for message in read.iter().flat_map(messages) {
            assert!(document.contains(&message), "{message}");
        }
    }
}

#[test]
fn dependencies_of_the_documentation_are_read() {
    let Some(documents) = documents("seeds", &["000_", "001_"]) else {
        return;
    };
    for document in documents {
        for example in examples(&document, &["dependencies:"]) {
            let files = [(
                "metadata/dependencies.yaml".to_owned(),
                example.clone().into_bytes(),
            )];
            let read: Vec<_> = dependencies(&files.into())
                .unwrap()
                .iter()
                .map(|property| property.requirement().unwrap())
                .collect();
            assert!(
                matches!(
                    read.as_slice(),
                    [Some(Requirement::Package(_)), Some(Requirement::Gvk(gvk))] if gvk.kind == "EtcdCluster"
                ),
                "{example}\n{read:?}"
            );
        }
    }
}

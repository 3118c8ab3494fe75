//! `metadata/dependencies.yaml`: what it asks for, as the properties that a catalog is built with.
//!
//! Nothing is installed from it: catalogs carry the properties, and resolution reads those. Rules: `opm`
//! (`operator-registry`, `pkg/registry/parse.go`), which turns `olm.package` and `olm.gvk` into their `.required` forms.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::fbc::yaml;

use super::Files;
use super::requirement::Property;

const FILE: &str = "metadata/dependencies.yaml";

/// A `metadata/dependencies.yaml` that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DependencyError {
    /// It is no YAML.
    #[error("{FILE} is no YAML: {0}")]
    Syntax(String),
    /// It holds something else than a list of dependencies.
    #[error("{FILE}: {0} is no list of dependencies")]
    NoList(&'static str),
    /// An entry without type or value.
    #[error("{FILE}: dependency {index} has no {member}")]
    Incomplete {
        /// Its place, counted from 1.
        index: usize,
        /// What is missing.
        member: &'static str,
    },
}

/// The properties that the dependencies become; none without the file.
///
/// # Errors
/// When the file is no list of types and values.
pub fn dependencies(files: &Files) -> Result<Vec<Property>, DependencyError> {
    let Some(bytes) = files.get(FILE) else {
        return Ok(Vec::new());
    };
    let document =
        yaml::value(bytes).map_err(|error| DependencyError::Syntax(error.to_string()))?;
    let list = match &document {
        Value::Null => return Ok(Vec::new()),
        Value::Object(members) => members.get("dependencies").unwrap_or(&Value::Null),
        _ => return Err(DependencyError::NoList("the document")),
    };
    match list {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| property(index + 1, item))
            .collect(),
        _ => Err(DependencyError::NoList("its member dependencies")),
    }
}

fn property(index: usize, item: &Value) -> Result<Property, DependencyError> {
    let incomplete = |member| DependencyError::Incomplete { index, member };
    let r#type = item
        .get("type")
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
        .ok_or_else(|| incomplete("type"))?;
    let value = item
        .get("value")
        .filter(|value| !value.is_null())
        .ok_or_else(|| incomplete("value"))?;
    let (r#type, value) = match (r#type, value) {
        ("olm.package", Value::Object(members)) => ("olm.package.required", ranged(members)),
        ("olm.gvk", value) => ("olm.gvk.required", value.clone()),
        (other, value) => (other, value.clone()),
    };
    Ok(Property {
        r#type: r#type.to_owned(),
        value: RawValue::from_string(value.to_string()).map_err(|_no_json| incomplete("value"))?,
    })
}

/// `version` is called `versionRange` in the property.
fn ranged(members: &Map<String, Value>) -> Value {
    let rename = |key: &String| match key.as_str() {
        "version" => "versionRange".to_owned(),
        _ => key.clone(),
    };
    members
        .iter()
        .map(|(key, value)| (rename(key), value.clone()))
        .collect::<Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, String> {
        let files = Files::from([(FILE.to_owned(), text.as_bytes().to_vec())]);
        let found = dependencies(&files).map_err(|error| error.to_string())?;
        let shown = |property: Property| format!("{} {}", property.r#type, property.value);
        Ok(found.into_iter().map(shown).collect())
    }

    #[test]
    fn dependencies_become_the_properties_of_catalogs() {
        let text = "dependencies:
- type: olm.package
  value: {packageName: p, version: '>=1.0'}
- type: olm.gvk
  value: {group: g, kind: K, version: v1}
- type: olm.constraint
  value: {cel: {rule: 'true'}}
";
        assert_eq!(
            read(text).unwrap(),
            [
                r#"olm.package.required {"packageName":"p","versionRange":">=1.0"}"#,
                r#"olm.gvk.required {"group":"g","kind":"K","version":"v1"}"#,
                r#"olm.constraint {"cel":{"rule":"true"}}"#,
            ]
        );
        assert_eq!(dependencies(&Files::new()).unwrap().len(), 0);
        for empty in ["", "dependencies:", "dependencies: []", "{}"] {
            assert_eq!(read(empty).unwrap(), Vec::<String>::new(), "{empty}");
        }
    }

    #[test]
    fn what_is_no_list_of_dependencies_is_refused() {
        for (text, expected) in [
            ("{", "metadata/dependencies.yaml is no YAML: "),
            (
                "[]",
                "metadata/dependencies.yaml: the document is no list of dependencies",
            ),
            (
                "dependencies: {}",
                "metadata/dependencies.yaml: its member dependencies is no list",
            ),
            (
                "dependencies: [{type: t}]",
                "metadata/dependencies.yaml: dependency 1 has no value",
            ),
            (
                "dependencies: [{value: 1}]",
                "metadata/dependencies.yaml: dependency 1 has no type",
            ),
            (
                "dependencies: [1]",
                "metadata/dependencies.yaml: dependency 1 has no type",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}

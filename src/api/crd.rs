//! The three `CustomResourceDefinition`s, made from the wire types.
//!
//! `#[derive(JsonSchema)]` knows names, types, enums and texts; what the API server shall enforce beyond that
//! (limits, list keys, rules in CEL) stands in one table per kind, which reads like the field tables of the API's
//! specification. [`all`] lays the tables over the derived schemas. A table row whose field does not exist is
//! an error, so the two cannot drift apart.
//!
//! Only CEL that Kubernetes 1.30 knows is used.

mod cluster_catalog;
mod cluster_extension;
mod cluster_object_set;
mod constraint;
mod text;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition,
};
use kube::CustomResourceExt;
use serde_json::{Map, Value};

use self::constraint::{Constraint, Table, apply};
use crate::api::{ClusterCatalog, ClusterExtension, ClusterObjectSet, GROUP};

/// Why a definition could not be made: a mistake in a table, never in an input.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// A table names a field that the type does not have.
    #[error("cannot constrain {path} of {kind}: no such field")]
    UnknownField {
        /// The kind whose table it is.
        kind: String,
        /// The field's path in the table.
        path: String,
    },
    /// The definition cannot be printed.
    #[error("cannot print the definition of {kind}")]
    Print {
        /// The kind whose definition it is.
        kind: String,
        /// What the YAML writer says.
        #[source]
        source: serde_saphyr::ser::Error,
    },
    /// The schema is not one that a `CustomResourceDefinition` can hold.
    #[error("cannot encode the definition of {kind}")]
    Encode {
        /// The kind whose definition it is.
        kind: String,
        /// What serde says.
        #[source]
        source: serde_json::Error,
    },
}

/// The definitions of the three kinds, by name.
///
/// # Errors
/// When a table does not fit its type; a test keeps that from happening.
pub fn all() -> Result<Vec<CustomResourceDefinition>, DefinitionError> {
    Ok(vec![
        define(
            "ClusterCatalog",
            &ClusterCatalog::crd(),
            cluster_catalog::COLUMNS,
            &[
                ("", cluster_catalog::TABLE),
                ("status.conditions[]", CONDITION),
            ],
        )?,
        define(
            "ClusterExtension",
            &ClusterExtension::crd(),
            cluster_extension::COLUMNS,
            &[
                ("", cluster_extension::TABLE),
                ("status.conditions[]", CONDITION),
                ("status.activeRevisions[].conditions[]", CONDITION),
            ],
        )?,
        define(
            "ClusterObjectSet",
            &ClusterObjectSet::crd(),
            cluster_object_set::COLUMNS,
            &[
                ("", cluster_object_set::TABLE),
                ("status.conditions[]", CONDITION),
            ],
        )?,
    ])
}

/// One definition as a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The name of the definition: plural and group.
    pub name: String,
    /// The definition, the same bytes every time.
    pub yaml: String,
}

impl Manifest {
    /// The name of the file: group and plural, so that the files of one group stand together.
    pub fn file_name(&self) -> String {
        let plural = self.name.split('.').next().unwrap_or_default();
        format!("{GROUP}_{plural}.yaml")
    }
}

/// The definitions as YAML, one per kind.
///
/// # Errors
/// As [`all`].
pub fn manifests() -> Result<Vec<Manifest>, DefinitionError> {
    all()?
        .into_iter()
        .map(|definition| {
            let name = definition.metadata.name.clone().unwrap_or_default();
            let kind = definition.spec.names.kind.clone();
            let mut value =
                serde_json::to_value(definition).map_err(|source| DefinitionError::Encode {
                    kind: kind.clone(),
                    source,
                })?;
            whole_numbers(&mut value);
            let yaml = serde_saphyr::to_string(&value)
                .map_err(|source| DefinitionError::Print { kind, source })?;
            Ok(Manifest { name, yaml })
        })
        .collect()
}

/// Turns `10.0` into `10`: the type of the limits is a float, their values never are.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().and_then(whole) {
                *value = Value::from(whole);
            }
        }
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "checked: only whole numbers in the range of 32 bits are converted"
)]
fn whole(number: f64) -> Option<i64> {
    let in_range = (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number);
    (number.fract() == 0.0 && in_range).then_some(number as i64)
}

/// The annotation by which the reference's definitions say who generated them.
const GENERATOR: &str = "olm.operatorframework.io/generator";

/// A DNS-1123 label, as Kubernetes has it.
const DNS1123_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// A DNS-1123 subdomain, as Kubernetes has it.
const DNS1123_SUBDOMAIN: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// The limits of `metav1.Condition`, which the definition of the type does not carry.
const CONDITION: Table = &[
    ("message", &[Constraint::Number("maxLength", 32768)]),
    ("observedGeneration", &[Constraint::Number("minimum", 0)]),
    (
        "reason",
        &[
            Constraint::Number("minLength", 1),
            Constraint::Number("maxLength", 1024),
            Constraint::Text("pattern", "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
        ],
    ),
    (
        "status",
        &[Constraint::Texts("enum", &["True", "False", "Unknown"])],
    ),
    (
        "type",
        &[
            Constraint::Number("maxLength", 316),
            Constraint::Text(
                "pattern",
                r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
            ),
        ],
    ),
];

/// A column of `kubectl get`.
#[derive(Debug, Clone, Copy)]
struct Column {
    name: &'static str,
    type_: &'static str,
    json_path: &'static str,
    is_wide: bool,
}

impl Column {
    /// A column that is always shown.
    const fn always(name: &'static str, type_: &'static str, json_path: &'static str) -> Self {
        Self {
            name,
            type_,
            json_path,
            is_wide: false,
        }
    }

    /// A column that is shown with `-o wide`.
    const fn wide(name: &'static str, type_: &'static str, json_path: &'static str) -> Self {
        Self {
            name,
            type_,
            json_path,
            is_wide: true,
        }
    }

    fn definition(&self) -> CustomResourceColumnDefinition {
        CustomResourceColumnDefinition {
            name: self.name.to_owned(),
            type_: self.type_.to_owned(),
            json_path: self.json_path.to_owned(),
            priority: self.is_wide.then_some(1),
            ..CustomResourceColumnDefinition::default()
        }
    }
}

/// Lays `columns` and `tables`, each table below its path, over the derived definition.
fn define(
    kind: &str,
    derived: &CustomResourceDefinition,
    columns: &[Column],
    tables: &[(&str, Table)],
) -> Result<CustomResourceDefinition, DefinitionError> {
    let encode = |source| DefinitionError::Encode {
        kind: kind.to_owned(),
        source,
    };
    let mut definition = serde_json::to_value(derived).map_err(encode)?;
    if let Some(schema) = definition.pointer_mut("/spec/versions/0/schema/openAPIV3Schema") {
        tidy(schema);
        for (base, table) in tables {
            apply(schema, base, table).map_err(|path| DefinitionError::UnknownField {
                kind: kind.to_owned(),
                path,
            })?;
        }
    }
    let mut definition: CustomResourceDefinition =
        serde_json::from_value(definition).map_err(encode)?;
    for version in &mut definition.spec.versions {
        version.additional_printer_columns = Some(columns.iter().map(Column::definition).collect());
    }
    definition
        .metadata
        .annotations
        .get_or_insert_default()
        .insert(GENERATOR.to_owned(), env!("CARGO_PKG_NAME").to_owned());
    Ok(definition)
}

/// Removes what the derive adds and nobody wants, and makes the texts fit for `kubectl explain`.
///
/// `nullable` goes because the reference's schemas do not have it: with it, a field that a client sends as `null`
/// is stored as `null`; without it the API server drops the field, or puts in its default.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            tidy_node(fields);
            for value in fields.values_mut() {
                tidy(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn tidy_node(node: &mut Map<String, Value>) {
    // A property may be called like a keyword; a keyword's value is not an object.
    if node.get("nullable").is_some_and(Value::is_boolean) {
        node.remove("nullable");
    }
    if node.get("default").is_some_and(Value::is_null) {
        node.remove("default");
    }
    if let Some(Value::String(description)) = node.get_mut("description") {
        *description = text::explained(description);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_for_a_field_that_does_not_exist_is_an_error() {
        let table: Table = &[("spec.nmespace", &[Constraint::Number("maxLength", 63)])];
        let error = define(
            "ClusterExtension",
            &ClusterExtension::crd(),
            &[],
            &[("", table)],
        )
        .expect_err("the field does not exist");
        assert_eq!(
            error.to_string(),
            "cannot constrain spec.nmespace of ClusterExtension: no such field"
        );
    }

    #[test]
    fn no_schema_says_nullable_or_refers_elsewhere() {
        for definition in all().unwrap() {
            let text = serde_json::to_string(&definition).unwrap();
            for word in ["nullable", "$ref", "anyOf", "oneOf", "\"default\":null"] {
                assert!(
                    !text.contains(word),
                    "{:?}: {word}",
                    definition.metadata.name
                );
            }
        }
    }

    #[test]
    fn every_field_is_explained() {
        fn check(path: &str, schema: &Value) {
            let described = schema["description"]
                .as_str()
                .is_some_and(|text| !text.is_empty());
            let known = path.ends_with(".metadata");
            assert!(described || known, "{path} has no description");
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                check(&format!("{path}.{name}"), property);
            }
            if let Some(items) = schema["items"]["properties"].as_object() {
                for (name, property) in items {
                    check(&format!("{path}[].{name}"), property);
                }
            }
        }
        for definition in all().unwrap() {
            let kind = definition.spec.names.kind.clone();
            let value = serde_json::to_value(&definition).unwrap();
            let schema = &value["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            check(&kind, schema);
        }
    }
}

//! A bundle against what a catalog says about it.

use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use crate::bundle::Files;
use crate::bundle::dependency::dependencies;
use crate::bundle::requirement::Property;
use crate::fbc::meta::Meta;
use crate::render::examine::{Check, Examination, Severity};
use crate::store::catalog::read_directory_or_file;

/// Adds to `examination` what differs between the bundle's dependencies and its properties in the catalog at `path`.
///
/// # Errors
/// When the catalog cannot be read.
pub(super) fn compare(
    examination: &mut Examination,
    files: &Files,
    name: &str,
    path: &Path,
) -> anyhow::Result<()> {
    let Some(bundle) = examination.bundle.clone() else {
        return Ok(());
    };
    let own = bundle.csv.metadata.name.as_str();
    let Some(listed) = listed(path, &bundle.package, own)? else {
        let message = format!(
            "catalog {name} has no bundle {own} of package {}",
            bundle.package
        );
        examination.add(Severity::Note, Check::Dependencies, message);
        return Ok(());
    };
    // A file that cannot be read is a finding already.
    let written: Vec<(String, Value)> = dependencies(files)
        .unwrap_or_default()
        .iter()
        .filter_map(|property| Some((property.r#type.clone(), json(property)?)))
        .collect();
    for (r#type, value) in &written {
        if !listed
            .iter()
            .any(|(other, listed)| other == r#type && listed == value)
        {
            let message = format!(
                "metadata/dependencies.yaml asks for {type} {value}, and catalog {name} does not: it is not looked at"
            );
            examination.add(Severity::Warning, Check::Dependencies, message);
        }
    }
    for (r#type, value) in listed {
        let property = Property {
            r#type: r#type.clone(),
            value: serde_json::value::to_raw_value(&value).context("cannot read a property")?,
        };
        let is_dependency = !matches!(property.requirement(), Ok(None));
        if is_dependency && !written.contains(&(r#type.clone(), value.clone())) {
            let message = format!(
                "catalog {name} asks for {type} {value}, which the bundle does not: bundles with dependencies are not supported"
            );
            examination.add(Severity::Error, Check::Dependencies, message);
        }
    }
    Ok(())
}

fn json(property: &Property) -> Option<Value> {
    serde_json::from_str(property.value.get()).ok() // It is JSON: see its type.
}

/// Types and values of the bundle's properties in the catalog.
fn listed(path: &Path, package: &str, name: &str) -> anyhow::Result<Option<Vec<(String, Value)>>> {
    let mut found = None;
    read_directory_or_file(path, &mut |_, located| {
        let meta = located.meta;
        if meta.schema == Meta::BUNDLE && meta.package == package && meta.name == name {
            found = serde_json::from_slice::<Value>(&meta.blob).ok(); // It is JSON: see its type.
        }
    })
    .context("cannot read the catalog")?;
    let text = |property: &Value, member| Some(property.get(member)?.as_str()?.to_owned());
    Ok(found.map(|bundle| {
        let properties = bundle.get("properties").and_then(Value::as_array);
        properties
            .into_iter()
            .flatten()
            .filter_map(|property| Some((text(property, "type")?, property.get("value")?.clone())))
            .collect()
    }))
}

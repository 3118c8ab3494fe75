//! What the reference does not look at, as warnings.

use super::definition::{Definition, Version};
use super::{Check, Finding, Place, Severity};

/// The changes that the reference lets pass unseen.
pub(super) fn look(old: &Definition, new: &Definition) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut warn = |check: Check, place: Place, text: String| {
        found.push(Finding::new(Severity::Warning, check, place, &text));
    };
    for version in &old.versions {
        versions(version, new.version(&version.name), &mut warn);
    }
    for version in new
        .versions
        .iter()
        .filter(|version| version.schema.is_none())
    {
        warn(
            Check::MissingSchema,
            Place::Crd,
            format!("version {} has no schema", version.name),
        );
    }
    if let (Some(before), Some(after)) = (storage(old), storage(new))
        && before != after
    {
        warn(
            Check::StorageVersion,
            Place::Crd,
            format!(
                "resources are stored as {after}, no longer as {before}; those stored before stay as they are until they are written again"
            ),
        );
    }
    if old.conversion != new.conversion {
        let (before, after) = (old.conversion.as_str(), new.conversion.as_str());
        warn(
            Check::Conversion,
            Place::Crd,
            format!("conversion strategy changed from {before} to {after}"),
        );
    }
    names(old, new, &mut warn);
    found
}

fn versions(old: &Version, new: Option<&Version>, warn: &mut impl FnMut(Check, Place, String)) {
    let name = &old.name;
    if old.is_served && !new.is_some_and(|new| new.is_served) {
        let what = if new.is_some() { "served" } else { "there" };
        warn(
            Check::ServedVersion,
            whole(name),
            format!("version {name} is no longer {what}: clients that ask for it fail"),
        );
    }
    let Some(new) = new else {
        return;
    };
    for subresource in &old.subresources {
        if !new.subresources.contains(subresource) {
            warn(
                Check::Subresource,
                Place::Crd,
                format!("subresource {subresource} of version {name} is gone"),
            );
        }
    }
    for column in &old.columns {
        if !new.columns.contains(column) {
            warn(
                Check::PrinterColumn,
                Place::Crd,
                format!("column {column:?} of version {name} is gone"),
            );
        }
    }
}

fn whole(version: &str) -> Place {
    Place::WholeVersion {
        version: version.to_owned(),
    }
}

/// The version in which resources are stored.
fn storage(crd: &Definition) -> Option<&str> {
    let version = crd.versions.iter().find(|version| version.is_storage)?;
    Some(&version.name)
}

fn names(old: &Definition, new: &Definition, warn: &mut impl FnMut(Check, Place, String)) {
    let pairs = [
        ("group", &old.group, &new.group),
        ("kind", &old.kind, &new.kind),
        ("plural name", &old.plural, &new.plural),
    ];
    for (what, before, after) in pairs {
        if before != after {
            warn(
                Check::Names,
                Place::Crd,
                format!("{what} changed from {before} to {after}"),
            );
        }
    }
    for name in &old.short_names {
        if !new.short_names.contains(name) {
            warn(
                Check::Names,
                Place::Crd,
                format!("short name {name} is gone"),
            );
        }
    }
}

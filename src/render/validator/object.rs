//! Rules about the bundle as a whole and the objects that it ships.

use serde_json::Value;

use crate::bundle::RegistryV1;
use crate::render::additional::{is_supported, kind};

use super::Violation;

pub(super) fn has_package(bundle: &RegistryV1) -> Vec<Violation> {
    if bundle.package.is_empty() {
        vec![Violation::NoPackage]
    } else {
        Vec::new()
    }
}

pub(super) fn supported_kinds(bundle: &RegistryV1) -> Vec<Violation> {
    bundle
        .others
        .iter()
        .filter(|object| !is_supported(kind(object)))
        .map(|object| Violation::UnsupportedKind {
            name: object
                .pointer("/metadata/name")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            kind: kind(object).to_owned(),
        })
        .collect()
}

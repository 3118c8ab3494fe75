//! Rules about custom resource definitions.

use std::collections::BTreeSet;

use crate::bundle::RegistryV1;
use crate::render::crd::name;

use super::{Violation, repeated};

pub(super) fn unique_names(bundle: &RegistryV1) -> Vec<Violation> {
    repeated(bundle.crds.iter().map(name))
        .into_iter()
        .map(|name| Violation::DuplicateCrd(name.to_owned()))
        .collect()
}

pub(super) fn owned_exist(bundle: &RegistryV1) -> Vec<Violation> {
    let present: BTreeSet<&str> = bundle.crds.iter().map(name).collect();
    let owned: BTreeSet<&str> = bundle
        .csv
        .spec
        .custom_resource_definitions
        .owned
        .iter()
        .map(|api| api.name.as_str())
        .collect();
    owned
        .difference(&present)
        .map(|name| Violation::MissingCrd((*name).to_owned()))
        .collect()
}

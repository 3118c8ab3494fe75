//! Rules about Deployments.

use std::collections::BTreeSet;

use crate::bundle::RegistryV1;
use crate::render::name::subdomain_problems;

use super::{Violation, repeated};

pub(super) fn unique_names(bundle: &RegistryV1) -> Vec<Violation> {
    repeated(bundle.csv.deployments().iter().map(|d| d.name.as_str()))
        .into_iter()
        .map(|name| Violation::DuplicateDeployment(name.to_owned()))
        .collect()
}

pub(super) fn valid_names(bundle: &RegistryV1) -> Vec<Violation> {
    let names: BTreeSet<&str> = bundle
        .csv
        .deployments()
        .iter()
        .map(|deployment| deployment.name.as_str())
        .collect();
    names
        .into_iter()
        .filter_map(|name| {
            let reasons = subdomain_problems(name);
            (!reasons.is_empty()).then(|| Violation::DeploymentName {
                name: name.to_owned(),
                reasons,
            })
        })
        .collect()
}

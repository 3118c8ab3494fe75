//! What is near what was asked for: other versions, other channels, ways of several hops.

use std::collections::{BTreeMap, BTreeSet};

use super::super::candidate::{Exclusion, Survey};
use super::super::choice::View;
use super::super::successor::Graph;
use crate::fbc::package::PackageContents;
use crate::version::Version;

/// One hop of a way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The bundle that it leads to.
    pub bundle: String,
    /// Its version.
    pub version: Version,
}

/// The edges of one catalog, seen from what is installed.
pub(super) struct Ways<'a> {
    graph: Graph<'a>,
    versions: BTreeMap<&'a str, &'a Version>,
    installed_name: &'a str,
    installed_version: &'a Version,
}

/// The channels of each bundle, by name.
pub(super) fn channels_of(contents: &PackageContents) -> BTreeMap<&str, Vec<String>> {
    let mut channels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for channel in &contents.channels {
        for entry in &channel.entries {
            channels
                .entry(&entry.name)
                .or_default()
                .insert(&channel.name);
        }
    }
    channels
        .into_iter()
        .map(|(bundle, names)| (bundle, names.into_iter().map(str::to_owned).collect()))
        .collect()
}

/// The edges of a catalog, if something of readable version is installed.
pub(super) fn graph<'a>(view: &'a View<'_>, survey: &'a Survey<'_>) -> Option<Ways<'a>> {
    let installed = view.query.installed.as_ref()?;
    let installed_version = &view.installed_version()?.version;
    let versions: BTreeMap<&str, &Version> = survey
        .candidates
        .iter()
        .filter(|candidate| candidate.excluded != Some(Exclusion::NotInChannel))
        .filter_map(|candidate| {
            let version = &candidate.version.as_ref().ok()?.version;
            Some((candidate.bundle.name.as_str(), version))
        })
        .collect();
    Some(Ways {
        graph: Graph::new(survey.contents, &view.query.channels, versions.clone()),
        versions,
        installed_name: &installed.name,
        installed_version,
    })
}

impl Ways<'_> {
    /// The shortest way from what is installed to the bundle; empty when there is none.
    pub(super) fn hops_to(&self, bundle: &str) -> Vec<Hop> {
        self.graph
            .path(self.installed_name, self.installed_version, bundle)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|name| {
                let version = self.versions.get(name)?;
                Some(Hop {
                    bundle: name.to_owned(),
                    version: (*version).clone(),
                })
            })
            .collect()
    }
}

/// The way from what is installed to the highest bundle in channels and range that any way leads to.
pub(super) fn path_to_best(view: &View<'_>) -> Vec<Hop> {
    let Some(installed) = view.installed_version() else {
        return Vec::new();
    };
    let mut targets: Vec<_> = view
        .surveys
        .iter()
        .flat_map(|survey| {
            survey
                .candidates
                .iter()
                .filter(|candidate| {
                    !matches!(
                        candidate.excluded,
                        Some(Exclusion::NotInChannel | Exclusion::OutsideRange)
                    )
                })
                .filter_map(move |candidate| {
                    Some((candidate.version.as_ref().ok()?, survey, candidate))
                })
        })
        .filter(|(version, _, _)| *version > installed)
        .collect();
    targets.sort_by(|left, right| {
        right
            .0
            .cmp(left.0)
            .then_with(|| left.1.catalog.name.cmp(&right.1.catalog.name))
            .then_with(|| left.2.bundle.name.cmp(&right.2.bundle.name))
    });
    let mut graphs: BTreeMap<&str, Option<Ways<'_>>> = BTreeMap::new();
    targets
        .into_iter()
        .filter_map(|(_, survey, candidate)| {
            let ways = graphs
                .entry(&survey.catalog.name)
                .or_insert_with(|| graph(view, survey));
            Some(ways.as_ref()?.hops_to(&candidate.bundle.name))
        })
        .find(|path| !path.is_empty())
        .unwrap_or_default()
}

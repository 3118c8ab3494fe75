//! The upgrade edges of a channel, and who can follow one.
//!
//! An entry leads to its bundle from the bundle that it `replaces`, from those that it `skips`, and from every version in
//! its `skipRange`.

use std::collections::{BTreeMap, BTreeSet};

use super::package::{Bundle, Channel, ChannelEntry, PackageContents};
use crate::version::release::BundleVersion;
use crate::version::skip_range::SkipRange;

/// Why there is an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgeKind {
    /// `replaces`
    Replaces,
    /// `skips`
    Skips,
    /// `skipRange`
    SkipRange,
}

impl EdgeKind {
    /// The name of the field.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replaces => "replaces",
            Self::Skips => "skips",
            Self::SkipRange => "skipRange",
        }
    }
}

/// An upgrade from one bundle to another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The bundle that can be upgraded; of `skipRange`, the range, where it stands for more than the package has.
    pub from: String,
    /// The bundle that it is upgraded to.
    pub to: String,
    /// Why.
    pub kind: EdgeKind,
}

impl Bundle {
    /// Version and release, if property `olm.package` tells them.
    pub fn version(&self) -> Option<BundleVersion> {
        let members = self.package_property.as_ref()?.as_object()?;
        let text = |name: &str| {
            let found = members
                .iter()
                .find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.and_then(|(_, value)| value.as_str())
        };
        BundleVersion::parse(text("version")?, text("release")).ok()
    }
}

impl PackageContents {
    /// The bundles with a sound version.
    pub fn versions(&self) -> BTreeMap<&str, BundleVersion> {
        let versions = self.bundles.iter();
        versions
            .filter_map(|bundle| Some((bundle.name.as_str(), bundle.version()?)))
            .collect()
    }

    /// The names of the bundles from which some entry leads to a bundle of the package, of those that `names` has.
    pub fn with_way_up<'a>(&self, names: &BTreeMap<&'a str, BundleVersion>) -> BTreeSet<&'a str> {
        let bundles: BTreeSet<&str> = self.bundles.iter().map(|one| one.name.as_str()).collect();
        let entries = self.channels.iter().flat_map(|channel| &channel.entries);
        let entries: Vec<(&ChannelEntry, Option<SkipRange>)> = entries
            .filter(|entry| bundles.contains(entry.name.as_str()))
            .map(|entry| (entry, SkipRange::parse(&entry.skip_range).ok()))
            .collect();
        let leads_from = |name: &str, version: &BundleVersion| {
            entries.iter().any(|(entry, range)| {
                entry.name != name
                    && (entry.replaces == name
                        || entry.skips.iter().any(|skipped| skipped == name)
                        || range
                            .as_ref()
                            .is_some_and(|range| range.contains(&version.version)))
            })
        };
        names
            .iter()
            .filter(|(name, version)| leads_from(name, version))
            .map(|(name, _)| *name)
            .collect()
    }

    /// What is said of the deprecation of a channel or bundle; of the package itself where `name` is empty.
    pub fn deprecation(&self, schema: &str, name: &str) -> Option<&str> {
        let mut all = self.deprecations.iter();
        all.find(|one| one.schema == schema && one.name == name)
            .map(|one| one.message.as_str())
    }
}

impl Channel {
    /// The entries that no other one replaces or skips, sorted. A sound channel has one.
    pub fn heads(&self) -> Vec<&str> {
        let incoming: BTreeSet<&str> = self
            .entries
            .iter()
            .flat_map(|entry| {
                std::iter::once(&entry.replaces)
                    .chain(&entry.skips)
                    .map(String::as_str)
            })
            .collect();
        let names: BTreeSet<&str> = self.entries.iter().map(|one| one.name.as_str()).collect();
        names.difference(&incoming).copied().collect()
    }

    /// The edges as written, sorted: a `skipRange` is one edge from the range.
    pub fn written_edges(&self) -> BTreeSet<Edge> {
        let of = |entry: &ChannelEntry| -> Vec<Edge> {
            let edge = |from: &str, kind| Edge {
                from: from.to_owned(),
                to: entry.name.clone(),
                kind,
            };
            let skips = entry.skips.iter().map(|from| edge(from, EdgeKind::Skips));
            let replaces = edge(&entry.replaces, EdgeKind::Replaces);
            let range = edge(&entry.skip_range, EdgeKind::SkipRange);
            skips
                .chain([replaces, range])
                .filter(|edge| !edge.from.is_empty())
                .collect()
        };
        self.entries.iter().flat_map(of).collect()
    }

    /// The edges between bundles, sorted: a `skipRange` is one edge from every other bundle of `versions` in it. Names that
    /// the channel does not have are in it, too: something may be installed that the catalog no longer has.
    pub fn edges(&self, versions: &BTreeMap<&str, BundleVersion>) -> BTreeSet<Edge> {
        let mut edges = BTreeSet::new();
        for edge in self.written_edges() {
            if edge.kind != EdgeKind::SkipRange {
                edges.insert(edge);
                continue;
            }
            let Ok(range) = SkipRange::parse(&edge.from) else {
                continue;
            };
            let in_range = versions
                .iter()
                .filter(|(name, version)| **name != edge.to && range.contains(&version.version));
            edges.extend(in_range.map(|(name, _)| Edge {
                from: (*name).to_owned(),
                ..edge.clone()
            }));
        }
        edges
    }
}

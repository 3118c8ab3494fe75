//! Edges: which bundles may follow which.
//!
//! An entry leads to its bundle from the bundle that it `replaces`, from those that it `skips`, and from every version
//! in its `skipRange`. Edges are not followed transitively: one upgrade is one hop. An unreadable `skipRange` is no
//! edge. `defaultChannel` and channel heads mean nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::fbc::package::{ChannelEntry, PackageContents};
use crate::version::Version;
use crate::version::skip_range::SkipRange;

/// The entries that count: of the named channels, or of all when none is named.
pub(super) fn entries<'a>(
    contents: &'a PackageContents,
    channels: &'a [String],
) -> impl Iterator<Item = &'a ChannelEntry> {
    contents
        .channels
        .iter()
        .filter(|channel| channels.is_empty() || channels.contains(&channel.name))
        .flat_map(|channel| &channel.entries)
}

/// The names of the bundles that an edge leads to from the bundle `name` of version `version`.
pub(super) fn successors<'a>(
    contents: &'a PackageContents,
    channels: &'a [String],
    name: &str,
    version: &Version,
) -> BTreeSet<&'a str> {
    let mut ranges: BTreeMap<&str, bool> = BTreeMap::new();
    entries(contents, channels)
        .filter(|entry| {
            entry.replaces == name
                || entry.skips.iter().any(|skipped| skipped == name)
                || (!entry.skip_range.is_empty()
                    && *ranges.entry(&entry.skip_range).or_insert_with(|| {
                        SkipRange::parse(&entry.skip_range)
                            .is_ok_and(|range| range.contains(version))
                    }))
        })
        .map(|entry| entry.name.as_str())
        .collect()
}

/// All edges of a package at once, for questions about several hops.
#[derive(Debug)]
pub(super) struct Graph<'a> {
    by_name: BTreeMap<&'a str, BTreeSet<&'a str>>,
    by_range: Vec<(SkipRange, BTreeSet<&'a str>)>,
    versions: BTreeMap<&'a str, &'a Version>,
}

impl<'a> Graph<'a> {
    /// The edges of the named channels (of all when none is named) between bundles of known version.
    pub(super) fn new(
        contents: &'a PackageContents,
        channels: &'a [String],
        versions: BTreeMap<&'a str, &'a Version>,
    ) -> Self {
        let mut by_name: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut by_range: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for entry in entries(contents, channels) {
            let name = entry.name.as_str();
            if !versions.contains_key(name) {
                continue;
            }
            if !entry.replaces.is_empty() {
                by_name.entry(&entry.replaces).or_default().insert(name);
            }
            for skipped in &entry.skips {
                by_name.entry(skipped).or_default().insert(name);
            }
            if !entry.skip_range.is_empty() {
                by_range.entry(&entry.skip_range).or_default().insert(name);
            }
        }
        let by_range = by_range
            .into_iter()
            .filter_map(|(text, names)| Some((SkipRange::parse(text).ok()?, names)))
            .collect();
        Self {
            by_name,
            by_range,
            versions,
        }
    }

    fn successors(&self, name: &str, version: &Version) -> BTreeSet<&'a str> {
        let mut found = self.by_name.get(name).cloned().unwrap_or_default();
        for (range, names) in &self.by_range {
            if range.contains(version) {
                found.extend(names);
            }
        }
        found
    }

    /// The shortest path of hops from the bundle `from` of version `version` to the bundle `to`, ends not included and
    /// included. Among equally short ones, the first by names. Hops to a version not above the one before are left out.
    pub(super) fn path(&self, from: &str, version: &Version, to: &str) -> Option<Vec<&'a str>> {
        let mut reached_from: BTreeMap<&'a str, Option<&'a str>> = BTreeMap::new();
        let mut waiting: VecDeque<(Option<&'a str>, &str, &Version)> =
            VecDeque::from([(None, from, version)]);
        while let Some((node, name, version)) = waiting.pop_front() {
            for next in self.successors(name, version) {
                let Some(next_version) = self.versions.get(next) else {
                    continue;
                };
                if *next_version <= version || reached_from.contains_key(next) {
                    continue;
                }
                reached_from.insert(next, node);
                if next == to {
                    return Some(walk_back(&reached_from, next));
                }
                waiting.push_back((Some(next), next, next_version));
            }
        }
        None
    }
}

fn walk_back<'a>(reached_from: &BTreeMap<&'a str, Option<&'a str>>, to: &'a str) -> Vec<&'a str> {
    let mut path = vec![to];
    let mut at = to;
    while let Some(Some(before)) = reached_from.get(at) {
        path.push(before);
        at = before;
    }
    path.reverse();
    path
}

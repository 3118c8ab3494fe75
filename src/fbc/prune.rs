//! A smaller package: some of its bundles, and a graph that is as sound as before.
//!
//! Whoever could be upgraded to a bundle that stays still can: where a chain of edges ran through bundles that go, the edges
//! are drawn together. A bundle that goes remains as a name in `skips`, for those who have it installed. If several heads would
//! be left, the highest of them takes the others into its `skips`; that is told, since it is an edge that was not there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::package::{Channel, ChannelEntry, PackageContents};
use crate::version::release::BundleVersion;

/// What is left of a package.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pruned {
    /// The default channel: the old one, or the one with the highest head.
    pub default_channel: Option<String>,
    /// The channels that have bundles left.
    pub channels: Vec<Channel>,
    /// The bundles that stay.
    pub bundles: BTreeSet<String>,
    /// What was done beyond leaving away.
    pub notes: Vec<String>,
}

/// Leaves only the bundles of `package` that `keep` names.
pub fn prune(package: &PackageContents, keep: &BTreeSet<&str>) -> Pruned {
    let versions = package.versions();
    let mut pruned = Pruned::default();
    for channel in &package.channels {
        let mut entries = contracted(channel, keep);
        if entries.is_empty() {
            continue;
        }
        unite(&channel.name, &mut entries, &versions, &mut pruned.notes);
        pruned
            .bundles
            .extend(entries.iter().map(|entry| entry.name.clone()));
        pruned.channels.push(Channel {
            name: channel.name.clone(),
            entries,
        });
    }
    pruned.default_channel = default_channel(package, &versions, &mut pruned);
    pruned
}

/// The entries that stay, with the edges of those that go drawn together.
fn contracted(channel: &Channel, keep: &BTreeSet<&str>) -> Vec<ChannelEntry> {
    let by_name: BTreeMap<&str, &ChannelEntry> = channel
        .entries
        .iter()
        .map(|entry| (entry.name.as_str(), entry))
        .collect();
    let stays = |name: &str| keep.contains(name) && by_name.contains_key(name);
    let mut entries = Vec::new();
    for entry in channel.entries.iter().filter(|entry| stays(&entry.name)) {
        let mut replaces = entry.replaces.as_str();
        let mut seen = BTreeSet::from([entry.name.as_str()]);
        // The first one of the chain that stays, or the end of the chain.
        while let Some(gone) = by_name.get(replaces).filter(|_| !stays(replaces)) {
            if gone.replaces.is_empty() || !seen.insert(replaces) {
                break;
            }
            replaces = &gone.replaces;
        }
        let skips = reached(entry, &by_name, &stays)
            .into_iter()
            .filter(|name| *name != replaces && *name != entry.name)
            .map(str::to_owned)
            .collect();
        entries.push(ChannelEntry {
            name: entry.name.clone(),
            replaces: replaces.to_owned(),
            skips,
            skip_range: entry.skip_range.clone(),
        });
    }
    entries
}

/// From where edges lead to `entry`, directly or through entries that go: first its own, in their order.
fn reached<'a>(
    entry: &'a ChannelEntry,
    by_name: &BTreeMap<&str, &'a ChannelEntry>,
    stays: &dyn Fn(&str) -> bool,
) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut ahead = VecDeque::from([entry]);
    let mut seen = BTreeSet::new();
    while let Some(current) = ahead.pop_front() {
        let own = current.skips.iter().chain([&current.replaces]);
        for name in own.filter(|name| !name.is_empty()) {
            if !seen.insert(name.as_str()) {
                continue;
            }
            found.push(name.as_str());
            if let Some(gone) = by_name.get(name.as_str()).filter(|_| !stays(name)) {
                ahead.push_back(gone);
            }
        }
    }
    found
}

/// Lets one head be left, from which all entries are reached.
fn unite(
    channel: &str,
    entries: &mut [ChannelEntry],
    versions: &BTreeMap<&str, BundleVersion>,
    notes: &mut Vec<String>,
) {
    let whole = Channel {
        name: channel.to_owned(),
        entries: entries.to_vec(),
    };
    let mut heads = whole.heads();
    heads.sort_by_key(|name| (versions.get(name), *name));
    let Some(head) = heads.pop() else {
        return;
    };
    let skipped: BTreeSet<&str> = whole
        .entries
        .iter()
        .flat_map(|entry| entry.skips.iter().map(String::as_str))
        .chain(heads.iter().copied())
        .collect();
    let chain = chain_from(head, &whole.entries, &skipped);
    let stranded: Vec<&str> = whole
        .entries
        .iter()
        .map(|entry| entry.name.as_str())
        .filter(|name| !chain.contains(name) && !skipped.contains(name))
        .collect();
    let more: Vec<String> = heads
        .iter()
        .chain(&stranded)
        .map(|name| (*name).to_owned())
        .collect();
    if more.is_empty() {
        return;
    }
    notes.push(format!(
        "channel {channel}: {head} now skips {}, so that the channel has one head",
        more.join(", ")
    ));
    if let Some(entry) = entries.iter_mut().find(|entry| entry.name == head) {
        entry.skips.extend(more);
    }
}

fn chain_from<'a>(
    head: &'a str,
    entries: &'a [ChannelEntry],
    skipped: &BTreeSet<&str>,
) -> BTreeSet<&'a str> {
    let mut chain = BTreeSet::new();
    let mut current = Some(head);
    while let Some(name) = current {
        if !chain.insert(name) {
            break;
        }
        let entry = entries.iter().find(|entry| entry.name == name);
        current = entry
            .map(|entry| entry.replaces.as_str())
            .filter(|next| !skipped.contains(next));
    }
    chain
}

fn default_channel(
    package: &PackageContents,
    versions: &BTreeMap<&str, BundleVersion>,
    pruned: &mut Pruned,
) -> Option<String> {
    let default = package.default_channel.clone();
    let is_left = |name: &String| pruned.channels.iter().any(|channel| channel.name == *name);
    if default.as_ref().is_none_or(is_left) {
        return default;
    }
    let highest = pruned.channels.iter().max_by_key(|channel| {
        let heads = channel.heads().into_iter();
        heads.filter_map(|head| versions.get(head)).max()
    });
    let name = highest?.name.clone();
    pruned.notes.push(format!(
        "the default channel {} has no bundles left; it is {name} now",
        default.unwrap_or_default()
    ));
    Some(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fbc::package::Bundle;
    use crate::fbc::validate::graph;

    /// Channels as `name: entry entry`, an entry as `bundle<replaces,skip,skip`; version N of bundle `vN`.
    fn package(channels: &[&str]) -> PackageContents {
        let channels: Vec<Channel> = channels
            .iter()
            .map(|text| {
                let (name, entries) = text.split_once(": ").unwrap();
                let entry = |text: &str| {
                    let (name, edges) = text.split_once('<').unwrap_or((text, ""));
                    let mut edges = edges.split(',');
                    ChannelEntry {
                        name: name.to_owned(),
                        replaces: edges.next().unwrap_or_default().to_owned(),
                        skips: edges.map(str::to_owned).collect(),
                        skip_range: String::new(),
                    }
                };
                Channel {
                    name: name.to_owned(),
                    entries: entries.split(' ').map(entry).collect(),
                }
            })
            .collect();
        let names: BTreeSet<String> = channels
            .iter()
            .flat_map(|channel| channel.entries.iter().map(|entry| entry.name.clone()))
            .collect();
        let bundle = |name: String| Bundle {
            package_property: Some(
                serde_json::json!({"packageName": "p", "version": format!("{}.0.0", name.trim_start_matches('v'))}),
            ),
            name,
            ..Bundle::default()
        };
        PackageContents {
            name: "p".to_owned(),
            default_channel: Some("a".to_owned()),
            channels,
            bundles: names.into_iter().map(bundle).collect(),
            deprecations: Vec::new(),
        }
    }

    fn written(pruned: &Pruned) -> Vec<String> {
        let channels = pruned.channels.iter();
        channels
            .map(|channel| {
                let entries = channel.entries.iter().map(|entry| {
                    let edges: Vec<&str> = std::iter::once(entry.replaces.as_str())
                        .chain(entry.skips.iter().map(String::as_str))
                        .collect();
                    format!("{}<{}", entry.name, edges.join(","))
                });
                let entries: Vec<String> = entries.collect();
                format!("{}: {}", channel.name, entries.join(" "))
            })
            .collect()
    }

    #[track_caller]
    fn check(channels: &[&str], keep: &[&str], expected: &[&str], notes: usize) {
        let pruned = prune(&package(channels), &keep.iter().copied().collect());
        assert_eq!(written(&pruned), expected);
        assert_eq!(pruned.notes.len(), notes, "{:?}", pruned.notes);
    }

    #[test]
    fn chains_are_drawn_together() {
        let chain = ["a: v4<v3 v3<v2 v2<v1 v1"];
        check(&chain, &["v4", "v3"], &["a: v4<v3 v3<v1,v2"], 0);
        check(&chain, &["v4", "v2"], &["a: v4<v2,v3 v2<v1"], 0);
        check(&chain, &["v1"], &["a: v1<"], 0);
        check(&chain, &["v4", "v1"], &["a: v4<v1,v3,v2 v1<"], 0);
        check(&chain, &[], &[], 0);
    }

    #[test]
    fn skips_go_on_where_they_led() {
        check(
            &["a: v3<v2,v1 v2<v1 v1"],
            &["v3", "v1"],
            &["a: v3<v1,v2 v1<"],
            0,
        );
    }

    #[test]
    fn several_heads_become_one() {
        check(&["a: v4<v3,v2 v3 v2"], &["v3", "v2"], &["a: v3<,v2 v2<"], 1);
    }

    #[test]
    fn a_default_channel_that_goes_is_replaced_by_the_highest() {
        let pruned = prune(
            &package(&["a: v1", "b: v2", "c: v3"]),
            &BTreeSet::from(["v2", "v3"]),
        );
        assert_eq!(pruned.default_channel.as_deref(), Some("c"));
        assert_eq!(written(&pruned), ["b: v2<", "c: v3<"]);
        assert_eq!(pruned.notes.len(), 1);
    }

    /// A sound channel of up to eight bundles: a chain, of which some skip others below them.
    fn channel() -> impl Strategy<Value = String> {
        let size = 1_usize..8;
        size.prop_flat_map(|size| {
            let skips = proptest::collection::vec(proptest::collection::vec(0..size, 0..3), size);
            skips.prop_map(move |skips| {
                let entries = skips.iter().enumerate().map(|(number, skips)| {
                    let replaces = match number {
                        0 => String::new(),
                        number => format!("v{}", number - 1),
                    };
                    let skips = skips.iter().filter(|skipped| **skipped < number);
                    let skips: Vec<String> = skips.map(|skipped| format!(",v{skipped}")).collect();
                    format!("v{number}<{replaces}{}", skips.concat())
                });
                format!("a: {}", entries.collect::<Vec<_>>().join(" "))
            })
        })
    }

    /// The bundles that can be upgraded to `to`, in any number of steps.
    fn ways_to(entries: &[ChannelEntry], to: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut ahead = vec![to.to_owned()];
        while let Some(name) = ahead.pop() {
            for entry in entries.iter().filter(|entry| entry.name == name) {
                for from in entry.skips.iter().chain([&entry.replaces]) {
                    if !from.is_empty() && found.insert(from.clone()) {
                        ahead.push(from.clone());
                    }
                }
            }
        }
        found
    }

    proptest! {
        #[test]
        fn what_is_left_is_sound_and_nobody_lost_a_way(text in channel(), mask in any::<u8>()) {
            let package = package(&[&text]);
            let before = &package.channels[0].entries;
            prop_assume!(graph::problem(before).is_none());
            let names: Vec<String> = before.iter().map(|entry| entry.name.clone()).collect();
            let keep: BTreeSet<&str> = names
                .iter()
                .enumerate()
                .filter(|(number, _)| mask & (1 << number) != 0)
                .map(|(_, name)| name.as_str())
                .collect();
            let pruned = prune(&package, &keep);
            let Some(after) = pruned.channels.first() else {
                prop_assert!(keep.is_empty());
                return Ok(());
            };
            prop_assert_eq!(graph::problem(&after.entries), None, "{:?}", after);
            for to in &keep {
                let left = ways_to(&after.entries, to);
                for from in ways_to(before, to) {
                    prop_assert!(left.contains(&from), "{from} -> {to} in {after:?}");
                }
            }
        }
    }
}

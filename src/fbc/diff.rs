//! What changed from one catalog to another.

use std::collections::{BTreeMap, BTreeSet};

use super::edges::Edge;
use super::package::{Deprecation, PackageContents};

/// A catalog's packages by name; those that cannot be read are left out.
pub type Packages = BTreeMap<String, PackageContents>;

/// What changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogDiff {
    /// Packages that are new.
    pub added: Vec<String>,
    /// Packages that are gone.
    pub removed: Vec<String>,
    /// Packages that are in both and differ.
    pub changed: Vec<PackageDiff>,
}

/// What changed in a package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageDiff {
    /// Its name.
    pub name: String,
    /// The default channel before and after, if it changed.
    pub default_channel: Option<(String, String)>,
    /// New channels.
    pub channels_added: Vec<String>,
    /// Channels that are gone.
    pub channels_removed: Vec<String>,
    /// New bundles.
    pub bundles_added: Vec<String>,
    /// Bundles that are gone.
    pub bundles_removed: Vec<String>,
    /// Bundles whose image changed: name, before, after. A bundle should never change.
    pub images_changed: Vec<(String, String, String)>,
    /// What is newly deprecated, or with another message.
    pub deprecated: Vec<Deprecation>,
    /// What is no longer deprecated.
    pub undeprecated: Vec<Deprecation>,
    /// New edges with their channel.
    pub edges_added: Vec<(String, Edge)>,
    /// Edges that are gone with their channel.
    pub edges_removed: Vec<(String, Edge)>,
    /// Bundles from which an edge led on before, and none does now.
    pub stuck: Vec<String>,
}

impl CatalogDiff {
    /// Compares two catalogs.
    pub fn of(old: &Packages, new: &Packages) -> Self {
        let missing = |from: &Packages, other: &Packages| -> Vec<String> {
            let names = from.keys();
            names
                .filter(|name| !other.contains_key(*name))
                .cloned()
                .collect()
        };
        let both = old
            .values()
            .filter_map(|before| Some((before, new.get(&before.name)?)));
        Self {
            added: missing(new, old),
            removed: missing(old, new),
            changed: both
                .map(|(before, after)| PackageDiff::of(before, after))
                .filter(|diff| !diff.is_empty())
                .collect(),
        }
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

impl PackageDiff {
    /// Compares two states of a package.
    pub fn of(old: &PackageContents, new: &PackageContents) -> Self {
        let channel_names =
            |of: &PackageContents| of.channels.iter().map(|one| one.name.clone()).collect();
        let (channels_added, channels_removed) = changes(&channel_names(old), &channel_names(new));
        let (bundles_added, bundles_removed) = changes(&names(old), &names(new));
        let (edges_added, edges_removed) = changes(&edges(old), &edges(new));
        let deprecations = |of: &PackageContents| {
            of.deprecations
                .iter()
                .map(sortable)
                .collect::<BTreeSet<_>>()
        };
        let (deprecated, undeprecated) = changes(&deprecations(old), &deprecations(new));
        let is_same_object = |one: &(String, String, String)| {
            deprecated
                .iter()
                .any(|(schema, name, _)| (schema, name) == (&one.0, &one.1))
        };
        let undeprecated = undeprecated.iter().filter(|one| !is_same_object(one));
        let undeprecated = undeprecated.cloned().map(deprecation).collect();
        let default = |of: &PackageContents| of.default_channel.clone().unwrap_or_default();
        let versions = old.versions();
        let (up_before, up_after) = (old.with_way_up(&versions), new.with_way_up(&versions));
        Self {
            name: new.name.clone(),
            default_channel: (default(old) != default(new)).then(|| (default(old), default(new))),
            channels_added,
            channels_removed,
            bundles_added,
            bundles_removed,
            images_changed: images_changed(old, new),
            deprecated: deprecated.into_iter().map(deprecation).collect(),
            undeprecated,
            edges_added,
            edges_removed,
            stuck: up_before
                .difference(&up_after)
                .map(|name| (*name).to_owned())
                .collect(),
        }
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        *self
            == Self {
                name: self.name.clone(),
                ..Self::default()
            }
    }
}

/// What is in the second only, and what is in the first only.
fn changes<T: Ord + Clone>(old: &BTreeSet<T>, new: &BTreeSet<T>) -> (Vec<T>, Vec<T>) {
    (
        new.difference(old).cloned().collect(),
        old.difference(new).cloned().collect(),
    )
}

fn names(of: &PackageContents) -> BTreeSet<String> {
    of.bundles.iter().map(|one| one.name.clone()).collect()
}

fn edges(of: &PackageContents) -> BTreeSet<(String, Edge)> {
    let channels = of.channels.iter();
    channels
        .flat_map(|channel| {
            let edges = channel.written_edges().into_iter();
            edges.map(|edge| (channel.name.clone(), edge))
        })
        .collect()
}

fn sortable(one: &Deprecation) -> (String, String, String) {
    (one.schema.clone(), one.name.clone(), one.message.clone())
}

fn deprecation((schema, name, message): (String, String, String)) -> Deprecation {
    Deprecation {
        schema,
        name,
        message,
    }
}

fn images_changed(old: &PackageContents, new: &PackageContents) -> Vec<(String, String, String)> {
    let before: BTreeMap<&str, &str> = old
        .bundles
        .iter()
        .map(|one| (one.name.as_str(), one.image.as_str()))
        .collect();
    let after = new.bundles.iter();
    after
        .filter_map(|bundle| {
            let image = *before.get(bundle.name.as_str())?;
            (image != bundle.image)
                .then(|| (bundle.name.clone(), image.to_owned(), bundle.image.clone()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fbc::package::{Bundle, Channel, ChannelEntry};

    /// `name=version image`, and entries `name<replaces~skipRange` of channel `c`.
    fn package(bundles: &[&str], entries: &[&str]) -> PackageContents {
        let bundle = |text: &&str| {
            let (name, rest) = text.split_once('=').unwrap();
            let (version, image) = rest.split_once(' ').unwrap();
            Bundle {
                name: name.to_owned(),
                image: image.to_owned(),
                package_property: Some(serde_json::json!({"packageName": "p", "version": version})),
                ..Bundle::default()
            }
        };
        let entry = |text: &&str| {
            let (rest, skip_range) = text.split_once('~').unwrap_or((text, ""));
            let (name, replaces) = rest.split_once('<').unwrap_or((rest, ""));
            ChannelEntry {
                name: name.to_owned(),
                replaces: replaces.to_owned(),
                skip_range: skip_range.to_owned(),
                ..ChannelEntry::default()
            }
        };
        PackageContents {
            name: "p".to_owned(),
            default_channel: Some("c".to_owned()),
            channels: vec![Channel {
                name: "c".to_owned(),
                entries: entries.iter().map(entry).collect(),
            }],
            bundles: bundles.iter().map(bundle).collect(),
            deprecations: Vec::new(),
        }
    }

    #[test]
    fn equal_packages_do_not_differ() {
        let one = package(&["a=1.0.0 x", "b=2.0.0 y"], &["b<a", "a"]);
        assert!(PackageDiff::of(&one, &one).is_empty());
    }

    #[test]
    fn bundles_edges_and_lost_ways_are_told() {
        let old = package(&["a=1.0.0 x", "b=2.0.0 y"], &["b<a", "a"]);
        let new = package(&["a=1.0.0 z", "c=3.0.0 y"], &["c~>=2.0.0 <3.0.0", "a"]);
        let diff = PackageDiff::of(&old, &new);
        assert_eq!(diff.bundles_added, ["c"]);
        assert_eq!(diff.bundles_removed, ["b"]);
        assert_eq!(
            diff.images_changed,
            [("a".to_owned(), "x".to_owned(), "z".to_owned())]
        );
        assert_eq!(diff.stuck, ["a"]);
        assert_eq!(diff.edges_added[0].1.from, ">=2.0.0 <3.0.0");
        assert_eq!(diff.edges_removed[0].1.from, "a");
        // What is installed and no longer in the catalog may still have a way up.
        let back = package(&["c=3.0.0 y"], &["c<b~>=1.0.0 <2.0.0"]);
        assert_eq!(PackageDiff::of(&old, &back).stuck, Vec::<String>::new());
    }

    #[test]
    fn deprecations_come_change_and_go() {
        let mut old = package(&["a=1.0.0 x"], &["a"]);
        let mut new = old.clone();
        let one = |name: &str, message: &str| {
            deprecation(("olm.bundle".to_owned(), name.to_owned(), message.to_owned()))
        };
        old.deprecations = vec![one("a", "old"), one("b", "gone")];
        new.deprecations = vec![one("a", "new"), one("c", "come")];
        let diff = PackageDiff::of(&old, &new);
        assert_eq!(diff.deprecated, [one("a", "new"), one("c", "come")]);
        assert_eq!(diff.undeprecated, [one("b", "gone")]);
    }
}

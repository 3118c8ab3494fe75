//! Which deprecation entries of a catalog concern whom.

use crate::fbc::package::{Deprecation, PackageContents};

/// The schema of an entry about the package.
pub const PACKAGE: &str = "olm.package";

/// The schema of an entry about a channel.
pub const CHANNEL: &str = "olm.channel";

/// The schema of an entry about a bundle.
pub const BUNDLE: &str = "olm.bundle";

/// The messages of the conditions `PackageDeprecated`, `ChannelDeprecated` and `BundleDeprecated`.
///
/// An entry without a message counts as none, as in the reference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Messages {
    /// About the package.
    pub package: Vec<String>,
    /// About the channels asked for; about any channel when none is named.
    pub channel: Vec<String>,
    /// About the installed bundle.
    pub bundle: Vec<String>,
}

impl Messages {
    /// Sorts `entries` for an extension that names `channels` and runs `installed`.
    pub fn of(entries: &[Deprecation], channels: &[String], installed: Option<&str>) -> Self {
        let mut messages = Self::default();
        for entry in entries {
            let list = match entry.schema.as_str() {
                PACKAGE => &mut messages.package,
                CHANNEL if channels.is_empty() || channels.contains(&entry.name) => {
                    &mut messages.channel
                }
                BUNDLE if installed == Some(entry.name.as_str()) => &mut messages.bundle,
                _ => continue,
            };
            if !entry.message.is_empty() {
                list.push(entry.message.clone());
            }
        }
        messages
    }

    /// All of them: package, channel, bundle.
    pub fn all(&self) -> impl Iterator<Item = &String> {
        self.package.iter().chain(&self.channel).chain(&self.bundle)
    }
}

/// The entries about the package, all channels, and the bundle of that name.
pub fn applying<'a>(
    entries: &'a [Deprecation],
    bundle: &'a str,
) -> impl Iterator<Item = &'a Deprecation> {
    entries
        .iter()
        .filter(move |entry| match entry.schema.as_str() {
            PACKAGE | CHANNEL => true,
            BUNDLE => entry.name == bundle,
            _ => false,
        })
}

/// What of a package's entries a chosen bundle keeps.
pub(super) fn kept(
    contents: &PackageContents,
    bundle: &str,
    installed: Option<&str>,
) -> Vec<Deprecation> {
    contents
        .deprecations
        .iter()
        .filter(|entry| match entry.schema.as_str() {
            PACKAGE | CHANNEL => true,
            BUNDLE => entry.name == bundle || installed == Some(entry.name.as_str()),
            _ => false,
        })
        .cloned()
        .collect()
}

/// The catalog's entry about a bundle, if there is one.
pub(super) fn of_bundle<'a>(contents: &'a PackageContents, name: &str) -> Option<&'a Deprecation> {
    contents
        .deprecations
        .iter()
        .find(|entry| entry.schema == BUNDLE && entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(schema: &str, name: &str, message: &str) -> Deprecation {
        Deprecation {
            schema: schema.into(),
            name: name.into(),
            message: message.into(),
        }
    }

    #[test]
    fn messages_are_sorted_by_whom_they_concern() {
        let entries = [
            entry(BUNDLE, "p.v1", "old bundle"),
            entry(CHANNEL, "a", "old channel a"),
            entry(CHANNEL, "b", "old channel b"),
            entry(PACKAGE, "", "old package"),
            entry(BUNDLE, "p.v2", "not installed"),
            entry("other", "p.v1", "unknown"),
            entry(CHANNEL, "a", ""),
        ];
        let named = Messages::of(&entries, &["a".into()], Some("p.v1"));
        assert_eq!(named.package, ["old package"]);
        assert_eq!(named.channel, ["old channel a"]);
        assert_eq!(named.bundle, ["old bundle"]);
        let all: Vec<_> = named.all().collect();
        assert_eq!(all, ["old package", "old channel a", "old bundle"]);
        let unnamed = Messages::of(&entries, &[], None);
        assert_eq!(unnamed.channel, ["old channel a", "old channel b"]);
        assert!(unnamed.bundle.is_empty());
        let applying: Vec<_> = applying(&entries, "p.v2").map(|e| &e.message).collect();
        assert_eq!(
            applying,
            [
                "old channel a",
                "old channel b",
                "old package",
                "not installed",
                ""
            ]
        );
    }
}

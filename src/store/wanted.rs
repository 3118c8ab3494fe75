//! Which parts of an image are kept: where catalogs and bundles have their content, and where links from there lead.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{self, Parts};
use super::{CONFIGS_LABEL, StoreError};

/// The directories of a bundle image; the places are fixed, whatever its labels say.
const BUNDLE_DIRECTORIES: [&str; 2] = ["manifests", "metadata"];

/// How often an image is unpacked because links lead elsewhere in it.
pub(super) const MAX_ROUNDS: usize = 3;

/// Which paths of an image are kept, and how often it was unpacked for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// What readers will look for.
    roots: BTreeSet<Parts>,
    /// Where links were found to lead.
    also: BTreeSet<Parts>,
    /// Which of the roots is the catalog.
    pub(super) catalog: Option<String>,
    round: usize,
}

impl Wanted {
    /// What catalogs and bundles need of an image with these labels.
    ///
    /// # Errors
    /// When the catalog label leads out of the image.
    pub fn of(labels: &BTreeMap<String, String>) -> Result<Self, StoreError> {
        let mut roots: BTreeSet<_> = BUNDLE_DIRECTORIES.map(|name| vec![name.to_owned()]).into();
        let mut catalog = None;
        if let Some(label) = labels.get(CONFIGS_LABEL) {
            let path = tree::clean(label.as_bytes()).ok().flatten();
            let path = path.ok_or_else(|| StoreError::Label(label.clone()))?;
            catalog = Some(path.join("/"));
            roots.insert(path);
        }
        Ok(Self {
            roots,
            also: BTreeSet::new(),
            catalog,
            round: 0,
        })
    }

    /// What a bundle in this directory of an archive needs; the empty one is the root.
    ///
    /// # Errors
    /// When it is no path below the root.
    pub fn bundle_below(directory: &str) -> Result<Self, StoreError> {
        let outside = || StoreError::Label(directory.to_owned());
        let base = match directory {
            "" => Parts::new(),
            path => tree::clean(path.as_bytes())
                .ok()
                .flatten()
                .ok_or_else(outside)?,
        };
        let root = |name: &str| base.iter().cloned().chain([name.to_owned()]).collect();
        Ok(Self {
            roots: BUNDLE_DIRECTORIES.map(root).into(),
            also: BTreeSet::new(),
            catalog: None,
            round: 0,
        })
    }

    /// This, and `paths` where links lead.
    #[must_use]
    pub(super) fn and(&self, paths: BTreeSet<String>) -> Self {
        let mut wanted = self.clone();
        let parts = |path: String| path.split('/').map(str::to_owned).collect();
        wanted.also.extend(paths.into_iter().map(parts));
        wanted.round += 1;
        wanted
    }

    /// Whether links may not lead elsewhere once more.
    pub(super) fn is_last_round(&self) -> bool {
        self.round + 1 >= MAX_ROUNDS
    }

    /// Whether what lies at a path is kept.
    pub(super) fn covers(&self, path: &[String]) -> bool {
        let mut all = self.roots.iter().chain(&self.also);
        all.any(|root| path.starts_with(root))
    }

    /// The roots that do not lie below another one.
    pub(super) fn outermost(&self) -> Vec<Parts> {
        let is_below = |root: &Parts| {
            let mut others = self.roots.iter().filter(|other| *other != root);
            others.any(|other| root.starts_with(other))
        };
        self.roots
            .iter()
            .filter(|root| !is_below(root))
            .cloned()
            .collect()
    }
}

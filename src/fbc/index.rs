//! Where each blob of a catalog lies in its `catalog.jsonl`, by schema, package and name.
//!
//! It is built while the blobs are written, one after the other without gaps, and is small: a few numbers
//! per blob and each distinct name once.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::meta::Meta;

/// The index over one catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct CatalogIndex {
    /// Every distinct schema, package and name, sorted.
    texts: Vec<String>,
    /// In the order of the file.
    blobs: Vec<Blob>,
}

/// One blob. The texts are positions in [`CatalogIndex::texts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Blob {
    offset: u64,
    length: u32,
    schema: u32,
    package: u32,
    name: u32,
}

/// What is written: offsets follow from lengths.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Stored {
    texts: Vec<String>,
    /// Length, schema, package, name.
    blobs: Vec<[u32; 4]>,
}

impl From<Stored> for CatalogIndex {
    fn from(stored: Stored) -> Self {
        let mut offset = 0;
        let blobs = stored
            .blobs
            .into_iter()
            .map(|[length, schema, package, name]| {
                let blob = Blob {
                    offset,
                    length,
                    schema,
                    package,
                    name,
                };
                offset += u64::from(length);
                blob
            })
            .collect();
        Self {
            texts: stored.texts,
            blobs,
        }
    }
}

impl From<CatalogIndex> for Stored {
    fn from(index: CatalogIndex) -> Self {
        let blob = |blob: Blob| [blob.length, blob.schema, blob.package, blob.name];
        Self {
            texts: index.texts,
            blobs: index.blobs.into_iter().map(blob).collect(),
        }
    }
}

/// Which blobs are wanted: those that have all the given values. An empty filter wants every blob.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Filter<'a> {
    /// `schema`
    pub schema: Option<&'a str>,
    /// `package`
    pub package: Option<&'a str>,
    /// `name`
    pub name: Option<&'a str>,
}

impl Filter<'_> {
    /// Whether every blob is wanted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl CatalogIndex {
    /// The number of blobs.
    pub fn len(&self) -> usize {
        self.blobs.len()
    }

    /// Whether the catalog has no blobs.
    pub fn is_empty(&self) -> bool {
        self.blobs.is_empty()
    }

    /// How many bytes all blobs take.
    pub fn size_bytes(&self) -> u64 {
        self.blobs.last().map_or(0, |last| last.range().end)
    }

    /// How many blobs each schema has.
    pub fn schemas(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for blob in &self.blobs {
            *counts.entry(self.text(blob.schema)).or_default() += 1;
        }
        counts
    }

    /// The wanted blobs as ranges of bytes, in the order of the file; neighbours are one range.
    ///
    /// As in the reference, a filter never finds a blob without a schema.
    pub fn select(&self, filter: &Filter<'_>) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let wanted = [filter.schema, filter.package, filter.name].map(|text| self.wanted(text));
        let [Some(schema), Some(package), Some(name)] = wanted else {
            return ranges;
        };
        let fits = |wanted: Option<u32>, found: u32| wanted.is_none_or(|wanted| wanted == found);
        for blob in &self.blobs {
            let has_schema = filter.is_empty() || !self.text(blob.schema).is_empty();
            if !(has_schema
                && fits(schema, blob.schema)
                && fits(package, blob.package)
                && fits(name, blob.name))
            {
                continue;
            }
            let range = blob.range();
            match ranges.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        ranges
    }

    /// The position of a wanted text; `None` inside when any will do, `None` when the catalog does not have it.
    #[expect(clippy::option_option, reason = "no wish and no match are different")]
    fn wanted(&self, text: Option<&str>) -> Option<Option<u32>> {
        let Some(text) = text else {
            return Some(None);
        };
        let at = self
            .texts
            .binary_search_by(|other| other.as_str().cmp(text));
        at.ok().and_then(|at| u32::try_from(at).ok()).map(Some)
    }

    fn text(&self, at: u32) -> &str {
        usize::try_from(at)
            .ok()
            .and_then(|at| self.texts.get(at))
            .map_or("", String::as_str)
    }
}

impl Blob {
    fn range(&self) -> Range<u64> {
        self.offset..self.offset + u64::from(self.length)
    }
}

/// Builds an index blob by blob.
#[derive(Debug, Default)]
pub struct IndexBuilder {
    texts: BTreeMap<String, u32>,
    blobs: Vec<Blob>,
    offset: u64,
}

impl IndexBuilder {
    /// Adds the next blob, which takes `length` bytes in the file, its line break included.
    pub fn add(&mut self, meta: &Meta, length: u32) {
        let blob = Blob {
            offset: self.offset,
            length,
            schema: self.intern(&meta.schema),
            package: self.intern(&meta.package),
            name: self.intern(&meta.name),
        };
        self.offset += u64::from(length);
        self.blobs.push(blob);
    }

    fn intern(&mut self, text: &str) -> u32 {
        if let Some(at) = self.texts.get(text) {
            return *at;
        }
        let at = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.insert(text.to_owned(), at);
        at
    }

    /// The index over all blobs that were added.
    pub fn finish(self) -> CatalogIndex {
        // Texts were numbered as they came; now they are numbered in their order.
        let mut sorted: Vec<(u32, u32)> = self.texts.values().copied().zip(0..).collect();
        sorted.sort_unstable();
        let renumber = |came: u32| {
            let at = usize::try_from(came).ok();
            at.and_then(|at| sorted.get(at)).map_or(0, |(_, at)| *at)
        };
        let mut blobs = self.blobs;
        for blob in &mut blobs {
            blob.schema = renumber(blob.schema);
            blob.package = renumber(blob.package);
            blob.name = renumber(blob.name);
        }
        CatalogIndex {
            texts: self.texts.into_keys().collect(),
            blobs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> CatalogIndex {
        let mut builder = IndexBuilder::default();
        for (schema, package, name, length) in [
            ("olm.package", "", "p", 10),
            ("olm.channel", "p", "stable", 20),
            ("olm.bundle", "p", "p.v1", 30),
            ("olm.package", "", "q", 40),
            ("", "p", "lost", 50),
            ("olm.bundle", "q", "p.v1", 60),
        ] {
            let meta = Meta {
                schema: schema.to_owned(),
                package: package.to_owned(),
                name: name.to_owned(),
                ..Meta::default()
            };
            builder.add(&meta, length);
        }
        builder.finish()
    }

    #[track_caller]
    fn check(schema: &str, package: &str, name: &str, expected: &[(u64, u64)]) {
        let some = |text| Some(text).filter(|text: &&str| !text.is_empty());
        let filter = Filter {
            schema: some(schema),
            package: some(package),
            name: some(name),
        };
        let written = serde_json::to_string(&index()).unwrap();
        let read: CatalogIndex = serde_json::from_str(&written).unwrap();
        assert_eq!(read, index());
        let found: Vec<_> = read
            .select(&filter)
            .into_iter()
            .map(|range| (range.start, range.end))
            .collect();
        assert_eq!(found, expected, "for {filter:?}");
    }

    #[test]
    fn blobs_are_found_by_every_combination() {
        check("", "", "", &[(0, 210)]);
        check("olm.package", "", "", &[(0, 10), (60, 100)]);
        check("olm.package", "", "q", &[(60, 100)]);
        check("", "p", "", &[(10, 60)]);
        check("olm.bundle", "p", "", &[(30, 60)]);
        check("", "", "p.v1", &[(30, 60), (150, 210)]);
        check("olm.bundle", "q", "p.v1", &[(150, 210)]);
        check("olm.bundle", "x", "", &[]);
        check("x", "", "", &[]);
        check("", "", "lost", &[]);
        check("olm.channel", "", "p.v1", &[]);
    }

    #[test]
    fn it_counts() {
        let index = index();
        assert_eq!((index.len(), index.size_bytes()), (6, 210));
        assert_eq!(index.schemas()["olm.bundle"], 2);
        assert!(IndexBuilder::default().finish().is_empty());
    }
}

//! One blob of a catalog.

use std::ops::Range;

use super::normal::{self, Normalizer};
use super::parts::Entry;

/// One blob: what it is called, and itself in normal form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meta {
    /// `schema`; empty when the blob has none.
    pub schema: String,
    /// `package`; empty when the blob has none.
    pub package: String,
    /// `name`; empty when the blob has none.
    pub name: String,
    /// Compact JSON with sorted keys, without a line break.
    pub blob: Vec<u8>,
    /// Where keys and values of the blob stand in it.
    pub(super) entries: Vec<(Range<usize>, Range<usize>)>,
}

impl Meta {
    /// The schema of packages.
    pub const PACKAGE: &'static str = "olm.package";
    /// The schema of channels.
    pub const CHANNEL: &'static str = "olm.channel";
    /// The schema of bundles.
    pub const BUNDLE: &'static str = "olm.bundle";
    /// The schema of deprecations.
    pub const DEPRECATIONS: &'static str = "olm.deprecations";

    /// The package that it belongs to: an `olm.package` blob names it in `name`.
    pub fn package_name(&self) -> &str {
        if self.schema == Self::PACKAGE {
            &self.name
        } else {
            &self.package
        }
    }

    /// Keys and values of the blob, as written.
    pub(crate) fn entries(&self) -> Vec<Entry<'_>> {
        let part = |range: &Range<usize>| self.blob.get(range.clone()).unwrap_or_default();
        let entries = self.entries.iter();
        entries
            .map(|(key, value)| (part(key), part(value)))
            .collect()
    }

    /// Makes a blob of a normalised document; `None` for one without content.
    ///
    /// # Errors
    /// Says what a blob must be.
    pub(crate) fn of(normalizer: &Normalizer) -> Result<Option<Self>, &'static str> {
        let text = normalizer.text();
        if text.is_empty() {
            return Ok(None);
        }
        if text.first() != Some(&b'{') {
            return Err("a document of a catalog must be an object");
        }
        let mut meta = Self::default();
        let mut folded: Vec<String> = Vec::new();
        for (key, value) in normalizer.root_entries() {
            let (key, value) = (normalizer.slice(key), normalizer.slice(value));
            let key = fold(&normal::decode_string(key));
            let (field, problem) = match key.as_str() {
                "schema" => (&mut meta.schema, "the value of `schema` must be a string"),
                "package" => (&mut meta.package, "the value of `package` must be a string"),
                "name" => (&mut meta.name, "the value of `name` must be a string"),
                _ => {
                    folded.push(key);
                    continue;
                }
            };
            if value.first() != Some(&b'"') {
                return Err(problem);
            }
            *field = normal::decode_string(value);
            folded.push(key);
        }
        folded.sort_unstable();
        if folded.is_sorted_by(|a, b| a != b) {
            meta.blob = text.to_vec();
            meta.entries = normalizer.root_entries().collect();
            Ok(Some(meta))
        } else {
            Err("two keys of the document differ only in case")
        }
    }
}

/// Unicode case folding: texts that differ only in case become equal.
///
/// Lower, upper, and lower again gives the full folding (ſ and K become s and k), but for the dotless i.
pub(crate) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.chars()
        .flat_map(|character| {
            let parts: Vec<char> = if character == 'ı' {
                vec![character]
            } else {
                character
                    .to_lowercase()
                    .flat_map(char::to_uppercase)
                    .flat_map(char::to_lowercase)
                    .collect()
            };
            parts
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fbc::json;

    fn meta(json: &str) -> Result<Option<Meta>, &'static str> {
        let mut normalizer = Normalizer::default();
        json::normalize(json.as_bytes(), true, &mut normalizer).unwrap();
        Meta::of(&normalizer)
    }

    #[test]
    fn names_are_found_whatever_their_case() {
        let found = meta(r#"{"Schema":"olm.bundle","NAME":"b","pac\u212Aage":"p","x":{"name":1}}"#)
            .unwrap()
            .unwrap();
        assert_eq!(
            (
                found.schema.as_str(),
                found.package.as_str(),
                found.name.as_str()
            ),
            ("olm.bundle", "p", "b")
        );
        assert_eq!(found.package_name(), "p");
        let package = meta(r#"{"schema":"olm.package","name":"p"}"#)
            .unwrap()
            .unwrap();
        assert_eq!(package.package_name(), "p");
        assert_eq!(package.blob, br#"{"name":"p","schema":"olm.package"}"#);
    }

    #[test]
    fn what_is_no_blob_is_refused() {
        for (json, problem) in [
            ("[]", "a document of a catalog must be an object"),
            ("5", "a document of a catalog must be an object"),
            (
                r#"{"schema":null}"#,
                "the value of `schema` must be a string",
            ),
            (
                r#"{"package":1}"#,
                "the value of `package` must be a string",
            ),
            (r#"{"name":{}}"#, "the value of `name` must be a string"),
            (
                r#"{"a":1,"A":2}"#,
                "two keys of the document differ only in case",
            ),
            (
                r#"{"schema":"a","ſchema":"b"}"#,
                "two keys of the document differ only in case",
            ),
            (
                r#"{"straße":1,"STRASSE":2}"#,
                "two keys of the document differ only in case",
            ),
        ] {
            assert_eq!(meta(json), Err(problem), "for {json}");
        }
        assert!(meta(r#"{"v":{"a":1,"A":2}}"#).is_ok());
    }
}

//! Names of revisions and label values made of names.

use sha2::{Digest as _, Sha256};

/// The longest value of a label.
const MAX_LABEL_VALUE: usize = 63;
/// The longest name of an object (a DNS-1123 subdomain).
const MAX_NAME: usize = 253;
/// Hexadecimal digits of the hash that takes the place of what is cut off.
const HASH_DIGITS: usize = 16;

/// `name` as the value of a label: itself if it fits, else its beginning and a hash of the whole.
pub fn label_value(name: &str) -> String {
    fit(name, MAX_LABEL_VALUE)
}

/// The name of revision `number` of an extension: `<extension>-<number>`.
pub fn revision_name(extension: &str, number: i64) -> String {
    let suffix = format!("-{number}");
    format!(
        "{}{suffix}",
        fit(extension, MAX_NAME.saturating_sub(suffix.len()))
    )
}

/// `text` cut to `limit` bytes, ending with a hash of the whole where something was cut.
fn fit(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let hash: String = hex::encode(Sha256::digest(text.as_bytes()))
        .chars()
        .take(HASH_DIGITS)
        .collect();
    let mut room = limit.saturating_sub(HASH_DIGITS + 1);
    while !text.is_char_boundary(room) {
        room -= 1;
    }
    let (beginning, _) = text.split_at(room);
    format!("{}-{hash}", beginning.trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_stays_and_a_long_one_is_hashed() {
        let fitting = "a".repeat(63);
        assert_eq!(label_value(&fitting), fitting);
        let one = label_value(&format!("{fitting}b"));
        let other = label_value(&format!("{fitting}c"));
        assert_eq!(one.len(), 63);
        assert_ne!(one, other);
        assert_eq!(
            label_value(&format!("{}.{}", "a".repeat(45), "b".repeat(20))).len(),
            62,
            "no dot before the hash"
        );
    }

    #[test]
    fn a_revision_is_named_after_its_extension() {
        assert_eq!(revision_name("argocd", 7), "argocd-7");
        assert_eq!(revision_name(&"a".repeat(253), 12).len(), 253);
    }
}

//! Sound bytes made unsound, for property tests of parsers.

use proptest::prelude::*;

/// One change; positions are taken modulo the length.
#[derive(Debug, Clone)]
pub(crate) enum Edit {
    Replace(usize, u8),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    /// Repeats a piece in its place.
    Repeat(usize, usize, usize),
    Truncate(usize),
}

/// Up to six changes.
pub(crate) fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let at = 0_usize..100_000;
    let edit = prop_oneof![
        4 => (at.clone(), any::<u8>()).prop_map(|(at, byte)| Edit::Replace(at, byte)),
        // What means something to JSON and YAML.
        4 => (at.clone(), "[-\\[\\]{}:,&*!|>'\"%@`#?~<\\\\ \n\t\r0-9a-z.]{1,4}")
            .prop_map(|(at, text)| Edit::Insert(at, text.into_bytes())),
        2 => (at.clone(), proptest::collection::vec(any::<u8>(), 1..5))
            .prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        2 => (at.clone(), 1_usize..20).prop_map(|(at, length)| Edit::Remove(at, length)),
        1 => (at.clone(), 1_usize..30, 1_usize..40)
            .prop_map(|(at, length, times)| Edit::Repeat(at, length, times)),
        1 => at.prop_map(Edit::Truncate),
    ];
    proptest::collection::vec(edit, 1..6)
}

/// `bytes` with these changes.
pub(crate) fn mutated(bytes: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for edit in edits {
        let length = bytes.len().max(1);
        match edit {
            Edit::Replace(at, byte) => {
                if let Some(target) = bytes.get_mut(at % length) {
                    *target = *byte;
                }
            }
            Edit::Insert(at, more) => {
                let at = (at % length).min(bytes.len());
                bytes.splice(at..at, more.iter().copied());
            }
            Edit::Remove(at, count) => {
                let at = (at % length).min(bytes.len());
                let end = (at + count).min(bytes.len());
                bytes.drain(at..end);
            }
            Edit::Repeat(at, count, times) => {
                let at = (at % length).min(bytes.len());
                let end = (at + count).min(bytes.len());
                let piece = bytes[at..end].repeat(*times);
                bytes.splice(at..at, piece);
            }
            Edit::Truncate(at) => bytes.truncate(at % length),
        }
    }
    bytes
}

//! What is remembered between passes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::content::{Rendered, Tags};
use super::crds::Refused;

/// What is remembered between passes. All of it can be had again.
#[derive(Debug, Default)]
pub struct Memory {
    pub(super) tags: Tags,
    pub(super) rendered: Rendered,
    /// The inputs of the last plan that found nothing to do, by extension: the same inputs need no rendering.
    settled: Mutex<BTreeMap<String, String>>,
    pub(super) refused: Refused,
}

impl Memory {
    /// Whether the last plan with the same inputs found nothing to do.
    pub(super) fn is_settled(&self, extension: &str, inputs: &str) -> bool {
        self.settled()
            .get(extension)
            .is_some_and(|known| known == inputs)
    }

    /// A plan with these inputs found nothing to do.
    pub(super) fn settle(&self, extension: &str, inputs: String) {
        self.settled().insert(extension.to_owned(), inputs);
    }

    /// Forgets a deleted extension.
    pub(super) fn forget(&self, extension: &str) {
        self.settled().remove(extension);
        self.tags.forget(extension);
        self.refused.forget(extension);
    }

    fn settled(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

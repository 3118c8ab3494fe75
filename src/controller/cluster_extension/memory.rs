//! What is remembered between passes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};

use super::content::{Rendered, Tags};
use super::crds::Refused;
use super::reported::Reported;

/// A digest.
type Inputs = [u8; 32];

fn digest(inputs: &str) -> Inputs {
    Sha256::digest(inputs).into()
}

/// What is remembered between passes. All of it can be had again.
#[derive(Debug, Default)]
pub struct Memory {
    pub(super) tags: Tags,
    pub(super) rendered: Rendered,
    /// A digest of the inputs of the last plan that found nothing to do, by extension: the same inputs need no rendering.
    settled: Mutex<BTreeMap<String, Inputs>>,
    pub(super) refused: Refused,
    pub(super) reported: Reported,
}

impl Memory {
    /// Whether the last plan with the same inputs found nothing to do.
    pub(super) fn is_settled(&self, extension: &str, inputs: &str) -> bool {
        self.settled()
            .get(extension)
            .is_some_and(|known| *known == digest(inputs))
    }

    /// A plan with these inputs found nothing to do.
    pub(super) fn settle(&self, extension: &str, inputs: &str) {
        self.settled().insert(extension.to_owned(), digest(inputs));
    }

    /// Something is to be done although the inputs are the same.
    pub(super) fn unsettle(&self, extension: &str) {
        self.settled().remove(extension);
    }

    /// Forgets a deleted extension.
    pub(super) fn forget(&self, extension: &str) {
        self.unsettle(extension);
        self.tags.forget(extension);
        self.refused.forget(extension);
    }

    fn settled(&self) -> MutexGuard<'_, BTreeMap<String, Inputs>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

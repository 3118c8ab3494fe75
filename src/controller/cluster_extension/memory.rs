//! What is remembered between passes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::content::{Rendered, Tags};
use super::crds::Refused;
use super::reported::Reported;

/// So long it is not tried again to write a revision that was not kept as it was written: what was made of it, and its
/// deletion, wake the extension.
const ALTERED_AGAIN: Duration = Duration::from_secs(30);

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
    /// When which revision of an extension last did not keep what was written to it.
    altered: Mutex<BTreeMap<String, (Instant, String)>>,
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

    /// A revision (`what`) was not kept as it was written.
    pub(super) fn note_altered(&self, extension: &str, what: &str) {
        let noted = (Instant::now(), what.to_owned());
        self.altered().insert(extension.to_owned(), noted);
    }

    /// The revision that was not kept as it was written just now.
    pub(super) fn altered_lately(&self, extension: &str) -> Option<String> {
        let (noted, what) = self.altered().get(extension).cloned()?;
        (noted.elapsed() < ALTERED_AGAIN).then_some(what)
    }

    /// Forgets a deleted extension.
    pub(super) fn forget(&self, extension: &str) {
        self.unsettle(extension);
        self.altered().remove(extension);
        self.tags.forget(extension);
        self.refused.forget(extension);
    }

    fn altered(&self) -> MutexGuard<'_, BTreeMap<String, (Instant, String)>> {
        self.altered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settled(&self) -> MutexGuard<'_, BTreeMap<String, Inputs>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

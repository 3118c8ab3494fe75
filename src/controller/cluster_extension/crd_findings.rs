//! What the last check of CRDs found and let pass, by extension: it is said until the bundle is installed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::api::condition::Reason;
use crate::revision::BundleIdentity;
use crate::status::cluster_extension::Warning;

/// The sentences about one bundle for each extension.
#[derive(Debug, Default)]
pub(super) struct CrdFindings(Mutex<BTreeMap<String, (BundleIdentity, Vec<String>)>>);

impl CrdFindings {
    /// What was found for this bundle.
    pub(super) fn of(&self, extension: &str, bundle: &BundleIdentity) -> Vec<Warning> {
        self.known()
            .get(extension)
            .filter(|(known, _)| known == bundle)
            .map(|(_, sentences)| warnings(sentences))
            .unwrap_or_default()
    }

    /// Remembers what was found for this bundle.
    pub(super) fn keep(
        &self,
        extension: &str,
        bundle: &BundleIdentity,
        sentences: Vec<String>,
    ) -> Vec<Warning> {
        let found = warnings(&sentences);
        self.known()
            .insert(extension.to_owned(), (bundle.clone(), sentences));
        found
    }

    /// Forgets a deleted extension.
    pub(super) fn forget(&self, extension: &str) {
        self.known().remove(extension);
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, (BundleIdentity, Vec<String>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn warnings(sentences: &[String]) -> Vec<Warning> {
    sentences
        .iter()
        .map(|sentence| Warning {
            reason: Reason::CrdFindings,
            sentence: sentence.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_about_one_bundle() {
        let findings = CrdFindings::default();
        let of = |version: &str| BundleIdentity {
            version: version.to_owned(),
            ..BundleIdentity::default()
        };
        let kept = findings.keep("e", &of("1.0.0"), vec!["one".to_owned()]);
        assert_eq!(kept.len(), 1);
        assert_eq!(findings.of("e", &of("1.0.0")), kept);
        assert_eq!(findings.of("e", &of("2.0.0")), []);
        findings.forget("e");
        assert_eq!(findings.of("e", &of("1.0.0")), []);
    }
}

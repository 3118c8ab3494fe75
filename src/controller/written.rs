//! The statuses that this process wrote: what comes back over the watch is an echo, and nothing to look at; what is no
//! echo is somebody else's (a restore, a leader before us), and is looked at, so that it is put right.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::{Resource, ResourceExt as _};
use serde::Serialize;

/// How many statuses of one object may be on their way back at once.
const ON_THEIR_WAY: usize = 8;

/// What was written last, by the UID of the object. Clones are one.
#[derive(Debug, Clone, Default)]
pub struct Written(Arc<Mutex<BTreeMap<String, VecDeque<u64>>>>);

impl Written {
    /// This is what the status of `object` is to be: about to be written, or found so.
    pub fn note<K: Resource>(&self, object: &K, status: &impl Serialize) {
        let hash = hash(status);
        let mut all = self.lock();
        let written = all.entry(object.uid().unwrap_or_default()).or_default();
        if written.back() != Some(&hash) {
            written.push_back(hash);
        }
        if written.len() > ON_THEIR_WAY {
            written.pop_front();
        }
    }

    /// Whether a status that arrives is one that we wrote, and none that we wrote later arrived before.
    pub fn is_ours<K: Resource>(&self, object: &K, status: &impl Serialize) -> bool {
        let hash = hash(status);
        let mut all = self.lock();
        let Some(written) = all.get_mut(&object.uid().unwrap_or_default()) else {
            return false;
        };
        let found = written.iter().position(|one| *one == hash);
        if let Some(at) = found {
            written.drain(..at);
        }
        found.is_some()
    }

    /// The object is gone.
    pub fn forget<K: Resource>(&self, object: &K) {
        self.lock().remove(&object.uid().unwrap_or_default());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, VecDeque<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(status: &impl Serialize) -> u64 {
    let mut hasher = DefaultHasher::new();
    // What cannot be written is never noted either.
    serde_json::to_vec(status)
        .unwrap_or_default()
        .hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn object(uid: &str) -> ConfigMap {
        serde_json::from_value(serde_json::json!({"metadata": {"name": "o", "uid": uid}})).unwrap()
    }

    #[test]
    fn what_comes_back_is_ours_until_something_later_did() {
        let (written, one) = (Written::default(), object("1"));
        assert!(!written.is_ours(&one, &"a"));
        written.note(&one, &"a");
        written.note(&one, &"b");
        assert!(written.is_ours(&one, &"a"));
        assert!(written.is_ours(&one, &"b"));
        assert!(written.is_ours(&one, &"b"), "a resync tells it again");
        assert!(!written.is_ours(&one, &"a"), "somebody restored it");
        assert!(!written.is_ours(&one, &"c"));
        assert!(!written.is_ours(&object("2"), &"b"));
        written.forget(&one);
        assert!(!written.is_ours(&one, &"b"));
    }

    #[test]
    fn little_is_kept() {
        let (written, one) = (Written::default(), object("1"));
        for status in 0..100 {
            written.note(&one, &status);
        }
        assert!(!written.is_ours(&one, &0));
        assert!(written.is_ours(&one, &99));
    }
}

//! What the last pass over each revision left, so that the next one need not ask again.
//!
//! Nothing here is needed to be right: a process that starts anew, or forgets, reads everything once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::Value;
use tokio::time::Instant;

use crate::api::ClusterObjectSet;
use crate::api::cluster_object_set::ObservedPhase;
use crate::api::object::ObjectKey;
use crate::apply::content::Content;
use crate::apply::phases::Remembered;
use crate::apply::watch::DriftWatches;
use crate::revision::Account;
use crate::revision::rollout::Warning;

/// So many repairs of one revision, or passes that failed ...
const MANY_REPAIRS: usize = 20;
/// ... within so long are a fight with somebody.
const WITHIN: Duration = Duration::from_mins(1);
/// How far apart the repairs of a fight are at least.
const CALM: Duration = Duration::from_secs(3);
/// An object that was brought back so often ...
const OFTEN: usize = 6;
/// ... within so long is fought over: an autoscaler writes four times a minute.
const TOLD_WITHIN: Duration = Duration::from_mins(10);

/// One revision, as the last pass left it.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    /// The generation that it was left in.
    pub generation: i64,
    /// Its objects.
    pub remembered: Remembered,
    /// Its content, while it rolls out.
    pub content: Option<Arc<Content>>,
    /// What it was when it was read, until the status tells it.
    pub observed_phases: Option<Vec<ObservedPhase>>,
    /// When everything was read last.
    pub read_at: Option<Instant>,
    /// As whom it was applied.
    pub account: Option<Account>,
    /// Whether changes of some kinds are not seen.
    pub is_unwatched: bool,
    /// The epoch of its account's rights when they were last known to be enough, or looked at.
    pub rights: Option<u64>,
    /// Objects that have to be deleted before others, or they themselves, can become what they should be.
    pub obstacles: BTreeSet<ObjectKey>,
    /// Objects that it had, where it takes them from others.
    pub had: BTreeSet<ObjectKey>,
    /// What the account lacks by now.
    pub lack: Option<Warning>,
    /// What people were told.
    pub warnings: Vec<Warning>,
    /// The resource version of the `ClusterObjectSet` as we saw or wrote it last.
    pub version: String,
    /// Whether that was our own write.
    pub is_own_write: bool,
}

impl Entry {
    /// Notes that we wrote the `ClusterObjectSet`, with the API server's answer.
    pub fn note_write(&mut self, answer: &Value) {
        let version = answer
            .pointer("/metadata/resourceVersion")
            .and_then(Value::as_str);
        version.unwrap_or_default().clone_into(&mut self.version);
        self.is_own_write = true;
    }
}

/// When objects were brought back, and which.
type Repairs = VecDeque<(Instant, Vec<ObjectKey>)>;

/// All revisions, by UID.
#[derive(Debug, Default)]
pub struct Memory {
    entries: Mutex<BTreeMap<String, Entry>>,
    deleting: Mutex<BTreeMap<String, Instant>>,
    /// Since when teardowns are refused.
    refused: Mutex<BTreeMap<String, Instant>>,
    /// When objects were brought back, of each revision the last times.
    repairs: Mutex<BTreeMap<String, Repairs>>,
}

impl Memory {
    /// The entry of a revision, as it was left.
    pub fn of(&self, set: &ClusterObjectSet) -> Entry {
        let uid = set.uid().unwrap_or_default();
        let mut entry = self.lock().get(&uid).cloned().unwrap_or_default();
        let generation = set.metadata.generation.unwrap_or_default();
        if entry.generation != generation {
            // Other probes, another state: look at everything anew.
            entry = Entry {
                generation,
                ..Entry::default()
            };
        }
        let version = set.resource_version().unwrap_or_default();
        if entry.version != version && !entry.version.is_empty() {
            // Somebody else wrote the ClusterObjectSet: perhaps because a Secret was put right, or wrong.
            entry.content = None;
            entry.remembered = Remembered::default();
        }
        entry.version = version;
        entry.is_own_write = false;
        entry
    }

    /// Puts an entry back.
    pub fn put(&self, set: &ClusterObjectSet, entry: Entry) {
        self.lock().insert(set.uid().unwrap_or_default(), entry);
    }

    /// Forgets a revision.
    pub fn forget(&self, set: &ClusterObjectSet) {
        let uid = set.uid().unwrap_or_default();
        self.lock().remove(&uid);
        self.lock_deleting().remove(&uid);
        self.lock_refused().remove(&uid);
        self.lock_repairs().remove(&uid);
    }

    /// Notes that `objects` of a revision were brought back; none where a pass failed, whatever it wrote before.
    pub fn note_repair(&self, set: &ClusterObjectSet, objects: Vec<ObjectKey>) {
        let mut repairs = self.lock_repairs();
        let times = repairs.entry(set.uid().unwrap_or_default()).or_default();
        times.push_back((Instant::now(), objects));
        if times.len() > MANY_REPAIRS {
            times.pop_front();
        }
    }

    /// The objects of a revision that somebody else changes or deletes again and again.
    pub fn contested(&self, set: &ClusterObjectSet) -> BTreeSet<ObjectKey> {
        let repairs = self.lock_repairs();
        let Some(times) = repairs.get(&set.uid().unwrap_or_default()) else {
            return BTreeSet::new();
        };
        let recent = times.iter().filter(|(at, _)| at.elapsed() < TOLD_WITHIN);
        let mut counts: BTreeMap<&ObjectKey, usize> = BTreeMap::new();
        for key in recent.flat_map(|(_, objects)| objects) {
            *counts.entry(key).or_default() += 1;
        }
        let often = counts.into_iter().filter(|(_, count)| *count >= OFTEN);
        often.map(|(key, _)| key.clone()).collect()
    }

    /// How long a revision is left alone because somebody changes its objects as often as they are brought back: both would
    /// write without end.
    pub fn calms_down(&self, set: &ClusterObjectSet) -> Option<Duration> {
        let repairs = self.lock_repairs();
        let times = repairs.get(&set.uid()?)?;
        let is_fight = times.len() >= MANY_REPAIRS && times.front()?.0.elapsed() < WITHIN;
        let left = CALM.checked_sub(times.back()?.0.elapsed())?;
        (is_fight && set.metadata.deletion_timestamp.is_none() && !left.is_zero()).then_some(left)
    }

    fn lock_repairs(&self) -> MutexGuard<'_, BTreeMap<String, Repairs>> {
        self.repairs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For how long this process has seen that a revision is being deleted.
    pub fn deleting_for(&self, set: &ClusterObjectSet) -> Duration {
        let mut deleting = self.lock_deleting();
        let since = deleting.entry(set.uid().unwrap_or_default());
        since.or_insert_with(Instant::now).elapsed()
    }

    /// Notes whether the teardown of a revision was refused something for lack of rights.
    pub fn note_refusal(&self, set: &ClusterObjectSet, is_refused: bool) {
        let (uid, mut refused) = (set.uid().unwrap_or_default(), self.lock_refused());
        if is_refused {
            refused.entry(uid).or_insert_with(Instant::now);
        } else {
            refused.remove(&uid);
        }
    }

    /// For how long the teardown of a revision has been refused something, in every pass.
    pub fn refused_for(&self, set: &ClusterObjectSet) -> Option<Duration> {
        let since = *self.lock_refused().get(&set.uid()?)?;
        Some(since.elapsed())
    }

    fn lock_refused(&self) -> MutexGuard<'_, BTreeMap<String, Instant>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_deleting(&self) -> MutexGuard<'_, BTreeMap<String, Instant>> {
        self.deleting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that we wrote the `ClusterObjectSet`, with the API server's answer.
    pub fn written(&self, set: &ClusterObjectSet, answer: &Value) {
        let version = answer
            .pointer("/metadata/resourceVersion")
            .and_then(Value::as_str);
        if let Some(entry) = self.lock().get_mut(&set.uid().unwrap_or_default()) {
            version.unwrap_or_default().clone_into(&mut entry.version);
            entry.is_own_write = true;
        }
    }

    /// Whether `set` is older than what we wrote last. Resource versions are compared as the numbers that they are in
    /// practice.
    pub fn is_outdated(&self, set: &ClusterObjectSet) -> bool {
        let number = |version: &str| version.parse::<u128>().ok();
        let entries = self.lock();
        let Some(entry) = entries.get(&set.uid().unwrap_or_default()) else {
            return false;
        };
        let seen = set.resource_version().unwrap_or_default();
        entry.is_own_write
            && matches!((number(&seen), number(&entry.version)), (Some(seen), Some(own)) if seen < own)
    }

    /// Whether some objects of a revision have to be read now and then.
    pub fn is_unwatched(&self, set: &ClusterObjectSet) -> bool {
        self.lock()
            .get(&set.uid().unwrap_or_default())
            .is_some_and(|entry| entry.is_unwatched)
    }

    /// Forgets the objects of a revision that is done with them.
    pub fn forget_objects(&self, set: &ClusterObjectSet) {
        if let Some(entry) = self.lock().get_mut(&set.uid().unwrap_or_default()) {
            *entry = Entry {
                generation: entry.generation,
                version: std::mem::take(&mut entry.version),
                is_own_write: entry.is_own_write,
                ..Entry::default()
            };
        }
    }

    /// Forgets all revisions but `live`, and stops the drift watches that no revision needs any more.
    pub fn tidy(&self, live: &BTreeSet<String>, watches: &DriftWatches) {
        self.lock_deleting().retain(|uid, _| live.contains(uid));
        self.lock_refused().retain(|uid, _| live.contains(uid));
        self.lock_repairs().retain(|uid, _| live.contains(uid));
        let mut entries = self.lock();
        entries.retain(|uid, _| live.contains(uid));
        let needed = entries.values().flat_map(|entry| {
            let keys = entry.remembered.phases.iter().flat_map(|(_, keys)| keys);
            keys.filter_map(|key| Some((key, entry.account.as_ref()?)))
        });
        watches.stop_unneeded(needed);
    }

    /// Whether some objects of a revision that are not available are to be looked at again, since nobody tells.
    pub fn is_to_be_polled(&self, set: &ClusterObjectSet) -> bool {
        self.lock()
            .get(&set.uid().unwrap_or_default())
            .is_some_and(|entry| entry.is_unwatched || entry.remembered.awaits_endpoints())
    }

    /// When there is something to do for the certificates of a revision, if it has any.
    pub fn certified_until(&self, set: &ClusterObjectSet) -> Option<Timestamp> {
        let entries = self.lock();
        entries.get(&set.uid()?)?.remembered.certified.until
    }

    /// Lets everything have been read, or refused, so long ago.
    #[cfg(test)]
    pub(crate) fn age(&self, time: Duration) {
        for entry in self.lock().values_mut() {
            entry.read_at = entry.read_at.and_then(|at| at.checked_sub(time));
        }
        for since in self.lock_refused().values_mut() {
            *since = since.checked_sub(time).unwrap_or(*since);
        }
        for since in self.lock_deleting().values_mut() {
            *since = since.checked_sub(time).unwrap_or(*since);
        }
    }

    /// The objects of each phase of a revision, as far as they are remembered.
    pub fn phases(&self, uid: &str) -> Vec<(String, Vec<ObjectKey>)> {
        let entries = self.lock();
        let entry = entries.get(uid);
        entry.map_or_else(Vec::new, |entry| entry.remembered.phases.clone())
    }

    /// Whether the revision of that UID waits until somebody deletes `key`.
    pub fn awaits(&self, uid: &str, key: &ObjectKey) -> bool {
        let entries = self.lock();
        (entries.get(uid)).is_some_and(|entry| entry.obstacles.contains(key))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::object::Gvk;

    #[tokio::test(start_paused = true)]
    async fn a_fight_is_slowed_down() {
        let set: ClusterObjectSet = serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet", "metadata": {"name": "e-1", "uid": "1"},
            "spec": {"revision": 1, "lifecycleState": "Active", "collisionProtection": "Prevent", "phases": []},
        }))
        .unwrap();
        let memory = Memory::default();
        let key = |name: &str| ObjectKey {
            gvk: Gvk::new("v1", "ConfigMap"),
            namespace: "n".to_owned(),
            name: name.to_owned(),
        };
        let one = key("one");
        for repairs in 0..MANY_REPAIRS {
            assert_eq!(memory.contested(&set).is_empty(), repairs < OFTEN);
            assert_eq!(memory.calms_down(&set), None);
            memory.note_repair(&set, vec![one.clone()]);
        }
        assert_eq!(memory.calms_down(&set), Some(CALM));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(memory.calms_down(&set), Some(Duration::from_secs(2)));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(memory.calms_down(&set), None);
        memory.note_repair(&set, vec![one.clone()]);
        assert_eq!(memory.calms_down(&set), Some(CALM));
        let mut leaving = set.clone();
        let deleted = Timestamp::UNIX_EPOCH;
        leaving.metadata.deletion_timestamp = Some(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(deleted),
        );
        assert_eq!(memory.calms_down(&leaving), None);
        // Who changes it again and again is told, and what changed once is not meant.
        memory.note_repair(&set, vec![one.clone(), key("two")]);
        assert_eq!(memory.contested(&set), BTreeSet::from([one.clone()]));
        // What happens now and then is no fight.
        tokio::time::advance(WITHIN).await;
        memory.note_repair(&set, vec![one.clone()]);
        assert_eq!(memory.calms_down(&set), None);
        tokio::time::advance(TOLD_WITHIN).await;
        assert_eq!(memory.contested(&set), BTreeSet::new());
    }
}

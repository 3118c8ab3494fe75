//! What is known of an object before anything is asked: by the drift watches, and by how it was left.

use std::collections::BTreeMap;

use super::{Left, Pass, Remembered};
use crate::api::object::ObjectKey;
use crate::apply::watch::{Deputy, Seen, View};
use crate::revision::probe::concerns;
use crate::revision::probe::endpoints::calls_webhooks;

/// What is known of an object before anything is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// It is as we left it.
    None,
    /// Its status may have changed.
    Status,
    /// It has to be read and compared.
    Drift,
}

/// Whether the status of anything changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stirred {
    Yes,
    No,
}

impl Pass<'_> {
    /// The revisions that own an object, as far as it is watched, and are not of the same extension.
    pub(super) fn strangers(&self, key: &ObjectKey) -> Vec<String> {
        let View::Present(seen) = self.watches.view(key, self.objects.account) else {
            return Vec::new();
        };
        let claim = self.objects.claim;
        let is_stranger = |name: &&String| {
            **name != claim.name && claim.siblings.iter().all(|one| one.name != **name)
        };
        let names = seen.revisions.iter().map(|(_, name)| name);
        names.filter(is_stranger).cloned().collect()
    }

    /// Whether an object is available only if somebody answers the webhooks that it names. So it is in revisions of
    /// extensions, which apply it last; in one that somebody wrote by hand it may come before who answers.
    pub(super) fn needs_answers(&self, key: &ObjectKey) -> bool {
        calls_webhooks(&key.gvk) && !self.objects.claim.family.extension.is_empty()
    }

    /// Whether the status of anything changed: then somebody who answers webhooks may have come or gone.
    pub(super) fn is_stirred(&self, remembered: &Remembered) -> Stirred {
        let mut left = remembered.left.iter();
        if left.any(|(key, left)| self.change(key, left) == Change::Status) {
            Stirred::Yes
        } else {
            Stirred::No
        }
    }

    /// Starts the watch of an object's kind.
    pub(super) fn watch(&self, key: &ObjectKey) {
        if let Some(resource) = self.objects.discovery.known(&key.gvk) {
            let is_probed = concerns(self.probes, &key.gvk);
            let deputy = Deputy {
                account: self.objects.account,
                client: self.objects.client,
            };
            self.watches.ensure(key, &resource, is_probed, deputy);
        }
    }

    /// Starts a watch of an object whose changes nobody sees, if one is possible by now. It is told what we left.
    pub(super) fn watch_anew(&self, key: &ObjectKey, left: &BTreeMap<ObjectKey, Left>) {
        if self.watches.view(key, self.objects.account) == View::Unwatched
            && let Some(left) = left.get(key)
        {
            self.watch(key);
            self.watches.note(key, self.objects.account, &left.seen);
        }
    }

    pub(super) fn change(&self, key: &ObjectKey, left: &Left) -> Change {
        match self.watches.view(key, self.objects.account) {
            View::Absent => Change::Drift,
            View::Unwatched if self.rereads_unwatched => Change::Drift,
            View::Unwatched if !left.probe.is_true() => Change::Status,
            // Whether somebody answers is not seen from here.
            View::NotYet if !left.probe.is_true() && self.needs_answers(key) => Change::Status,
            View::NotYet | View::Unwatched => Change::None,
            View::Present(seen) => {
                if !is_as_left(&seen, &left.seen) {
                    Change::Drift
                } else if seen.resource_version != left.seen.resource_version
                    && concerns(self.probes, &key.gvk)
                    || !left.probe.is_true() && self.needs_answers(key)
                {
                    Change::Status
                } else {
                    Change::None
                }
            }
        }
    }
}

/// Whether metadata says that nobody took an object, or a field of ours, away.
pub(super) fn is_as_left(seen: &Seen, left: &Seen) -> bool {
    seen.uid == left.uid && seen.own == left.own && seen.controller == left.controller
}

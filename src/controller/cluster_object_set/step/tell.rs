//! What there is to tell of a pass beside its conditions: what was brought back, what nobody watches.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Work;
use crate::api::condition::Reason;
use crate::api::keys;
use crate::api::object::ObjectKey;
use crate::apply::certificates::Certified;
use crate::apply::phases::Left;
use crate::apply::watch::Watcher;
use crate::controller::cluster_object_set::memory::Entry;
use crate::controller::metrics::Repair;
use crate::revision::rollout::{Action, ObjectReport, PhaseReport, Warning};
use crate::status::news::News;

/// Something that happened and is no condition.
#[derive(Debug)]
pub(in super::super) struct Note {
    pub(in super::super) news: News,
    pub(in super::super) text: String,
    pub(in super::super) is_warning: bool,
    /// Whether it is how things are, not something that happened: it is told when the condition is.
    pub(in super::super) is_state: bool,
}

impl Work<'_> {
    /// Notes what people should know of the objects: which kinds the controller does not watch, what was left out of them.
    pub(super) fn note_warnings(&self, entry: &mut Entry) {
        let mut kinds: BTreeMap<Watcher, BTreeSet<String>> = BTreeMap::new();
        for key in entry.remembered.left.keys() {
            let watcher = self.ctx.watches.watcher(key, &self.account);
            let what = match watcher {
                Watcher::Unlabelled => key.to_string(),
                _ => key.gvk.to_string(),
            };
            kinds.entry(watcher).or_default().insert(what);
        }
        entry.account = Some(self.account.clone());
        let unseen = [Watcher::Nobody, Watcher::Unlabelled];
        entry.is_unwatched = unseen.iter().any(|watcher| kinds.contains_key(watcher));
        let told = [
            Reason::NotWatched,
            Reason::WatchedAsAccount,
            Reason::UnknownFields,
            Reason::ChangedOnTheWay,
        ];
        entry
            .warnings
            .retain(|warning| !told.contains(&warning.reason));
        let watched = kinds.into_iter().filter_map(|(watcher, kinds)| {
            self.watched(watcher, &Vec::from_iter(kinds).join(", "))
        });
        entry.warnings.extend(watched);
        entry.warnings.extend(departures(&entry.remembered.left));
    }

    /// How it is said who sees changes of `kinds`; that it is the controller goes without saying, and what is not known yet
    /// is not said.
    fn watched(&self, watcher: Watcher, kinds: &str) -> Option<Warning> {
        let account = &self.account;
        let (reason, sentence) = match watcher {
            Watcher::Controller | Watcher::Undecided => return None,
            Watcher::Account => (
                Reason::WatchedAsAccount,
                format!("Changes of {kinds} are watched as service account {account}."),
            ),
            Watcher::Nobody => (
                Reason::NotWatched,
                format!(
                    "Changes of {kinds} are not watched: they are looked for every {} as service account {account}, which may \
                     not list and watch them.",
                    period(self.ctx.reread)
                ),
            ),
            Watcher::Unlabelled => (
                Reason::NotWatched,
                format!(
                    "Changes of {kinds} are looked for every {} only: something takes the label {}={} from what is applied, \
                     an admission policy perhaps.",
                    period(self.ctx.reread),
                    keys::MANAGED_BY,
                    keys::MANAGED_BY_OLM
                ),
            ),
        };
        Some(Warning { reason, sentence })
    }

    /// What was deleted and made anew; and what was put right in a revision that was complete before.
    ///
    /// An object that this process had not seen yet is not counted when it is updated: the first apply after the
    /// creation also gives up the fields that the API server had filled in.
    pub(super) fn repairs(
        &self,
        reports: &[PhaseReport],
        before: &BTreeMap<ObjectKey, Left>,
    ) -> Vec<Note> {
        let is_replaced = |object: &&ObjectReport| object.action == Action::Replaced;
        let objects = reports.iter().flat_map(|phase| &phase.objects);
        let replaced: Vec<&ObjectKey> = objects
            .filter(is_replaced)
            .map(|object| &object.key)
            .collect();
        let mut notes = Vec::new();
        if !replaced.is_empty() {
            notes.push(Note {
                news: News::Replaced,
                text: format!("deleted and made anew: {}", joined(replaced)),
                is_warning: false,
                is_state: false,
            });
        }
        if !self.has_succeeded() {
            return notes;
        }
        let metrics = self.ctx.reporter.metrics();
        let repaired: Vec<ObjectKey> = reports
            .iter()
            .flat_map(|phase| &phase.objects)
            .filter_map(|object| {
                metrics.repaired(match object.action {
                    Action::Created | Action::Replaced => Repair::Created,
                    Action::Updated if before.contains_key(&object.key) => Repair::Updated,
                    Action::Updated | Action::Adopted | Action::Idle | Action::Progressed => {
                        return None;
                    }
                });
                Some(object.key.clone())
            })
            .collect();
        if repaired.is_empty() {
            return notes;
        }
        let text = format!("brought back {}", joined(&repaired));
        self.ctx.memory.note_repair(self.set, repaired);
        notes.push(Note {
            news: News::DriftRepaired,
            text,
            is_warning: false,
            is_state: false,
        });
        notes
    }

    /// What is said of objects that somebody else writes as often as they are brought back.
    pub(super) fn contested(&self) -> Option<Warning> {
        let objects = self.ctx.memory.contested(self.set);
        let sentence = format!(
            "Somebody changes or deletes {} again and again, and each time it is brought back.",
            joined(&objects)
        );
        (!objects.is_empty()).then_some(Warning {
            reason: Reason::Contested,
            sentence,
        })
    }
}

pub(super) fn joined<'a>(objects: impl IntoIterator<Item = &'a ObjectKey>) -> String {
    let names: Vec<String> = objects.into_iter().map(ObjectKey::to_string).collect();
    names.join(", ")
}

/// What is said of fields that are not as the manifests say, object by object.
fn departures(left: &BTreeMap<ObjectKey, Left>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut tell = |reason, key: &ObjectKey, what: &str, fields: &[String]| {
        if !fields.is_empty() {
            let sentence = format!("{key}: {what}: {}.", listed(fields));
            warnings.push(Warning { reason, sentence });
        }
    };
    for (key, Left { departures, .. }) in left {
        let what = "left out what the API server does not know";
        tell(Reason::UnknownFields, key, what, &departures.unknown);
        let what = "something in the cluster, an admission webhook or policy perhaps, changes what is applied";
        tell(Reason::ChangedOnTheWay, key, what, &departures.altered);
    }
    warnings
}

/// The first of these fields, and how many more there are.
fn listed(fields: &[String]) -> String {
    const FIRST: usize = 10;
    let first = fields.get(..FIRST).unwrap_or(fields).join(", ");
    match fields.len().saturating_sub(FIRST) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// A period as people say it.
fn period(period: Duration) -> String {
    match period.as_secs() {
        60 => "minute".to_owned(),
        seconds if seconds % 60 == 0 => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} seconds"),
    }
}

/// What there is to tell of certificates.
pub(super) fn renewals(certified: &Certified) -> impl Iterator<Item = Note> {
    certified.renewed.iter().map(|secret| Note {
        news: News::CertificateRenewed,
        text: format!("renewed the webhook certificate in {secret}"),
        is_warning: false,
        is_state: false,
    })
}

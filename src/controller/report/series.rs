//! Writing Events: one that is told again counts up.
//!
//! Of each event only its name and note are remembered. (A recorder of kube keeps the whole event, with a table that has
//! room for more of them; and it tells events apart without their notes.)

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "events are written to the API server, with the time"
)]

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::Instant;

use crate::status::transition::Weight;

/// How long after it was told last an event is counted up.
const LASTS: Duration = Duration::from_mins(6);

/// How many series are remembered. Of more than these at once, the oldest begin anew.
const MOST: usize = 256;

/// The longest note that the events API takes, in bytes.
const NOTE_LIMIT_BYTES: usize = 1024;

/// The longest name of an object, in bytes.
const NAME_LIMIT_BYTES: usize = 253;

/// Where events about cluster-scoped objects are.
const NAMESPACE: &str = "default";

/// What is to be told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told<'a> {
    pub(super) weight: Weight,
    pub(super) reason: &'a str,
    pub(super) note: &'a str,
}

/// Who tells.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) controller: &'static str,
    /// The Pod's name.
    pub(super) instance: String,
}

/// The newest event of an object and a reason.
#[derive(Debug, Clone)]
struct Newest {
    note: String,
    /// The name of the event.
    name: String,
    times: i32,
    told: Instant,
}

/// The newest events, by the UID of the object and the reason.
#[derive(Debug, Default)]
pub(super) struct Series(Mutex<BTreeMap<(String, String), Newest>>);

impl Series {
    /// Writes an event, or counts it up if it is the newest of its object and reason.
    pub(super) async fn publish(
        &self,
        client: &Client,
        source: &Source,
        regarding: &ObjectReference,
        told: Told<'_>,
    ) -> Result<(), kube::Error> {
        let namespace = regarding.namespace.as_deref().unwrap_or(NAMESPACE);
        let api: Api<Event> = Api::namespaced(client.clone(), namespace);
        let key = (
            regarding.uid.clone().unwrap_or_default(),
            told.reason.to_owned(),
        );
        let newest = match self.newest(&key, told.note) {
            Some(newest) => counted_up(&api, newest).await?,
            None => None,
        };
        let newest = if let Some(newest) = newest {
            newest
        } else {
            let event = event(source, regarding, told, namespace);
            api.create(&PostParams::default(), &event).await?;
            Newest {
                note: told.note.to_owned(),
                name: event.metadata.name.unwrap_or_default(),
                times: 1,
                told: Instant::now(),
            }
        };
        self.remember(key, newest);
        Ok(())
    }

    fn newest(&self, key: &(String, String), note: &str) -> Option<Newest> {
        let mut series = self.lock();
        series.retain(|_, newest| newest.told.elapsed() < LASTS);
        let newest = series.get(key).filter(|newest| newest.note == note);
        newest.cloned()
    }

    fn remember(&self, key: (String, String), newest: Newest) {
        let mut series = self.lock();
        let told = Instant::now();
        series.insert(key, Newest { told, ..newest });
        if series.len() > MOST
            && let Some(oldest) =
                (series.iter().min_by_key(|(_, one)| one.told)).map(|(key, _)| key.clone())
        {
            series.remove(&oldest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), Newest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The event, told once more; none if somebody removed it.
async fn counted_up(api: &Api<Event>, mut newest: Newest) -> Result<Option<Newest>, kube::Error> {
    newest.times = newest.times.saturating_add(1);
    let now = MicroTime(Timestamp::now());
    let patch = json!({"series": {"count": newest.times, "lastObservedTime": now}});
    let parameters = PatchParams::default();
    match (api.patch(&newest.name, &parameters, &Patch::Merge(patch))).await {
        Ok(_) => Ok(Some(newest)),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// A name for an event about the object that is called `of`, within the 253 characters that a name may have.
fn name(of: &str, now: Timestamp) -> String {
    let suffix = format!(".{:x}", now.as_nanosecond());
    let mut end = of.len().min(NAME_LIMIT_BYTES.saturating_sub(suffix.len()));
    while !of.is_char_boundary(end) {
        end -= 1;
    }
    let of = of.get(..end).unwrap_or_default();
    // A part of a name ends with a letter or digit.
    format!("{}{suffix}", of.trim_end_matches(['.', '-']))
}

fn event(source: &Source, regarding: &ObjectReference, told: Told<'_>, namespace: &str) -> Event {
    let now = Timestamp::now();
    let of = regarding.name.as_deref().unwrap_or(source.controller);
    Event {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name(of, now)),
            ..ObjectMeta::default()
        },
        action: Some("Reconcile".to_owned()),
        event_time: Some(MicroTime(now)),
        note: Some(shortened(told.note)),
        reason: Some(told.reason.to_owned()),
        regarding: Some(regarding.clone()),
        reporting_controller: Some(source.controller.to_owned()),
        reporting_instance: Some(source.instance.clone()),
        type_: Some(
            match told.weight {
                Weight::Normal => "Normal",
                Weight::Warning => "Warning",
            }
            .to_owned(),
        ),
        ..Event::default()
    }
}

fn shortened(note: &str) -> String {
    if note.len() <= NOTE_LIMIT_BYTES {
        return note.to_owned();
    }
    let mut end = NOTE_LIMIT_BYTES - "…".len();
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", note.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_notes_are_cut_on_a_character_boundary() {
        let note = shortened(&"ä".repeat(NOTE_LIMIT_BYTES));
        assert!(note.len() <= NOTE_LIMIT_BYTES && note.ends_with('…'));
        assert_eq!(shortened("short"), "short");
    }

    #[test]
    fn names_are_cut_where_a_name_may_end() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(name("short", now), "short.0");
        let long = format!("{}-.b{}", "a".repeat(249), "c".repeat(2));
        assert_eq!(name(&long, now), format!("{}.0", "a".repeat(249)));
    }

    #[tokio::test]
    async fn only_so_many_series_are_remembered() {
        let series = Series::default();
        let newest = Newest {
            note: "a".to_owned(),
            name: "a".to_owned(),
            times: 1,
            told: Instant::now(),
        };
        let key = |number: usize| (number.to_string(), "Installed".to_owned());
        for number in 0..=MOST {
            series.remember(key(number), newest.clone());
        }
        let is_known = |number| series.newest(&key(number), "a").is_some();
        assert_eq!(
            [is_known(0), is_known(1), is_known(MOST)],
            [false, true, true]
        );
        assert!(series.newest(&key(1), "b").is_none());
    }
}

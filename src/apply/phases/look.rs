//! A look at one object, for nothing but its status.

use std::collections::BTreeMap;

use serde_json::Value;

use super::known::{Change, Stirred, is_as_left};
use super::{Failed, Left, Pass, action_of};
use crate::api::object::ObjectKey;
use crate::apply::objects::metadata_of;
use crate::apply::watch::Seen;
use crate::revision::rollout::{Action, ObjectReport};

impl Pass<'_> {
    /// Reads one object if its status may have changed.
    pub(super) async fn look_at(
        &self,
        key: ObjectKey,
        left: &BTreeMap<ObjectKey, Left>,
        stirred: Stirred,
    ) -> Result<(ObjectReport, Left), Failed> {
        let is_to_be_asked = stirred == Stirred::Yes && self.needs_answers(&key);
        match left.get(&key) {
            Some(known) if !is_to_be_asked && self.change(&key, known) == Change::None => {
                let report = ObjectReport {
                    key,
                    action: action_of(known),
                    probe: known.probe.clone(),
                };
                Ok((report, known.clone()))
            }
            known => match self.objects.read(&key).await? {
                Some(object) => self.looked_at(key, known, &object).await,
                // Gone between the event and now: its own event follows.
                None => Err(Failed::Gone),
            },
        }
    }

    /// Notes the status of an object that was read to see just that.
    ///
    /// If it turns out that more has changed, it stays noted as we left it: it was not looked at for that, and the
    /// next pass is to find the difference.
    async fn looked_at(
        &self,
        key: ObjectKey,
        known: Option<&Left>,
        object: &Value,
    ) -> Result<(ObjectReport, Left), Failed> {
        let action = known.map_or(Action::Idle, action_of);
        let seen = Seen::of(&key.gvk, &metadata_of(object));
        match known {
            Some(known) if !is_as_left(&seen, &known.seen) => {
                let probe = self.probed(&key, object).await?;
                let left = Left {
                    probe: probe.clone(),
                    ..known.clone()
                };
                Ok((ObjectReport { key, action, probe }, left))
            }
            _ => {
                let departures = known.map(|known| known.departures.clone());
                self.left(key, action, object, departures.unwrap_or_default())
                    .await
            }
        }
    }
}

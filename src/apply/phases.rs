//! The phases of one revision, one after the other.
//!
//! Before the first write every object is read and no collision may be found, in any phase. Then each phase is
//! brought to what it should be, its objects side by side, and the next one begins when all of them are available. A
//! revision that has been complete once is kept up as a whole: an object of an early phase that is not available does
//! not stop the repair of later ones.
//!
//! What the drift watches say to be as we left it is not read again.

mod known;
mod look;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use serde_json::Value;

use self::known::{Change, Stirred};
use crate::api::object::ObjectKey;
use crate::apply::certificates::{Certificates, Certified};
use crate::apply::content::{Content, Read, ReadObjects};
use crate::apply::objects::{
    Departures, Item, Kept, ObjectError, Objects, is_leaving, metadata_of, texts,
};
use crate::apply::watch::{DriftWatches, Seen};
use crate::error::{Classify, Disposition};
use crate::render::serving::Serving;
use crate::revision::certificates::Wanted;
use crate::revision::collision::Standing;
use crate::revision::probe::endpoints::calls_webhooks;
use crate::revision::probe::{Probe, ProbeResult, evaluate};
use crate::revision::rollout::{Action, Collision, ObjectReport, PhaseReport, collision_message};

/// How one object was left.
#[derive(Debug, Clone, PartialEq)]
pub struct Left {
    /// What its metadata said.
    pub seen: Arc<Seen>,
    /// Whether a later revision had it.
    pub is_progressed: bool,
    /// Whether it was available.
    pub probe: ProbeResult,
    /// How it departs from its manifest.
    pub departures: Departures,
}

/// How the objects of one revision were left by the last pass.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Remembered {
    /// The keys of each phase, once they are known.
    pub phases: Vec<(String, Vec<ObjectKey>)>,
    /// Those that were reached.
    pub left: BTreeMap<ObjectKey, Left>,
    /// Whether all phases were looked at for collisions.
    pub is_checked: bool,
    /// Those that were not there then, and were not reached since. They are created without another look: a creation
    /// overwrites nothing, and says if somebody came first.
    pub absent: BTreeSet<ObjectKey>,
    /// The certificates of webhooks.
    pub certified: Certified,
}

impl Remembered {
    /// The objects that the revision with this UID controls.
    pub fn held_by(&self, uid: &str) -> impl Iterator<Item = ObjectKey> {
        let held = self.left.iter();
        let held = held.filter(move |(_, left)| left.seen.controller.as_deref() == Some(uid));
        held.map(|(key, _)| key.clone())
    }

    /// Whether nobody answers some webhook: that somebody does is not seen without asking.
    pub fn awaits_endpoints(&self) -> bool {
        let mut left = self.left.iter();
        left.any(|(key, left)| calls_webhooks(&key.gvk) && !left.probe.is_true())
    }
}

/// One pass over the phases.
pub struct Pass<'a> {
    /// The objects, through the account.
    pub objects: Objects<'a>,
    /// What is seen without asking.
    pub watches: &'a DriftWatches,
    /// When objects count as available.
    pub probes: &'a [Probe],
    /// Whether the revision was complete once.
    pub has_succeeded: bool,
    /// Whether objects of kinds that are not watched are to be read.
    pub rereads_unwatched: bool,
    /// What is wanted of the certificates of webhooks.
    pub certificates: Wanted<'a>,
    /// How long those who call a webhook know a CA before its certificate is in use.
    pub ahead: Duration,
    /// The name of the later revision that waits until somebody deletes an object, since it cannot change it.
    pub awaited_by: &'a (dyn Fn(&ObjectKey) -> Option<String> + Sync),
    /// Hears the name of another extension's revision, or of one by hand, that an object was taken from.
    pub bereaved: &'a (dyn Fn(&str) + Sync),
    /// The time.
    pub now: Timestamp,
}

impl std::fmt::Debug for Pass<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pass").finish_non_exhaustive()
    }
}

/// A pass that could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum PhasesError {
    /// Objects are somebody else's. Nothing was written for the first time.
    #[error("{}", collision_message(.0))]
    Collisions(Vec<Collision>),
    /// Objects could not be read or written.
    #[error("{}", texts(.0))]
    Objects(Vec<ObjectError>),
}

impl Classify for PhasesError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Collisions(_) | Self::Objects(_) => Disposition::Retry,
        }
    }
}

impl PhasesError {
    /// The objects that have to be deleted before others can become what they should be.
    pub fn obstacles(&self) -> BTreeSet<ObjectKey> {
        match self {
            Self::Collisions(_) => BTreeSet::new(),
            Self::Objects(errors) => (errors.iter())
                .filter_map(|error| error.obstacle().cloned())
                .collect(),
        }
    }

    /// The same, where webhooks did not answer that `content` brings itself: with their configurations.
    #[must_use]
    pub fn with_webhooks_of(mut self, content: &Content) -> Self {
        if let Self::Objects(errors) = &mut self {
            for error in errors {
                let own = error.dead_webhook().and_then(|name| content.webhook(name));
                let own = own.cloned().map(Box::new);
                if let ObjectError::Request { webhook, .. } = error {
                    *webhook = own;
                }
            }
        }
        self
    }

    /// Several, as one: collisions come first.
    fn all(errors: Vec<Self>) -> Option<Self> {
        let (mut collisions, mut objects) = (Vec::new(), Vec::new());
        for error in errors {
            match error {
                Self::Collisions(found) => collisions.extend(found),
                Self::Objects(found) => objects.extend(found),
            }
        }
        match (collisions.is_empty(), objects.is_empty()) {
            (true, true) => None,
            (true, false) => Some(Self::Objects(objects)),
            (false, _) => Some(Self::Collisions(collisions)),
        }
    }

    /// Whether the API server said all this: another request may be answered otherwise.
    fn is_answered(&self) -> bool {
        match self {
            Self::Collisions(_) => true,
            Self::Objects(errors) => errors.iter().all(ObjectError::is_answered),
        }
    }

    /// Whether the account lacks a right.
    pub fn is_forbidden(&self) -> bool {
        match self {
            Self::Collisions(_) => false,
            Self::Objects(errors) => errors
                .iter()
                .any(|error| error.is_forbidden() && !error.is_unimpersonated()),
        }
    }
}

impl Pass<'_> {
    /// Whether everything is known without the content: every phase was reached, and at most statuses changed.
    pub fn is_settled(&self, remembered: &Remembered) -> bool {
        let is_due = remembered
            .certified
            .until
            .is_some_and(|until| self.now >= until);
        !remembered.phases.is_empty()
            && !is_due
            && remembered
                .phases
                .iter()
                .flat_map(|(_, keys)| keys)
                .all(|key| {
                    remembered
                        .left
                        .get(key)
                        .is_some_and(|left| self.change(key, left) != Change::Drift)
                })
    }

    /// A pass over a settled revision: statuses are read where they may have changed, nothing is written.
    ///
    /// # Errors
    /// When an object could not be read.
    pub async fn look(&self, remembered: &mut Remembered) -> Result<Vec<PhaseReport>, PhasesError> {
        let mut reports = Vec::new();
        let is_stirred = self.is_stirred(remembered);
        for (name, keys) in remembered.phases.clone() {
            for key in &keys {
                self.watch_anew(key, &remembered.left);
            }
            let looked = keys
                .into_iter()
                .map(|key| self.look_at(key, &remembered.left, is_stirred).boxed())
                .collect();
            let looked = super::side_by_side(looked).await;
            reports.push(Self::report(name, looked, remembered)?);
        }
        Ok(reports)
    }

    /// A pass over all phases of `content`.
    ///
    /// # Errors
    /// When an object is somebody else's, or could not be read or written.
    pub async fn apply(
        &self,
        content: &Content,
        remembered: &mut Remembered,
    ) -> Result<Vec<PhaseReport>, PhasesError> {
        let mut read = if remembered.is_checked {
            BTreeMap::new()
        } else {
            let read = self.check(content).await?;
            remembered.is_checked = true;
            let absent = read.iter().filter(|(_, Read(live))| live.is_none());
            remembered.absent = absent.map(|(key, _)| key.clone()).collect();
            remembered.phases = content.keys();
            read
        };
        let certified = self.certified(content, &mut read, remembered).await?;
        let mut reports = Vec::new();
        let mut may_go_on = true;
        let mut refused = Vec::new();
        for (at, phase) in content.phases.iter().enumerate() {
            if !may_go_on {
                reports.push(PhaseReport {
                    name: phase.name.clone(),
                    objects: Vec::new(),
                    is_reached: false,
                });
                continue;
            }
            let known = &*remembered;
            let kept = phase
                .items
                .iter()
                .map(|item| {
                    let live = read.remove(&item.key);
                    self.keep(at, item, live, known, &certified).boxed()
                })
                .collect();
            let kept = super::side_by_side(kept).await;
            match Self::report(phase.name.clone(), kept, remembered) {
                Ok(report) => {
                    may_go_on = self.has_succeeded || report.is_complete();
                    reports.push(report);
                }
                // What is refused in one phase is no reason to leave the others as they are.
                Err(error) if self.has_succeeded && error.is_answered() => refused.push(error),
                Err(error) => return Err(error),
            }
        }
        if let Some(error) = PhasesError::all(refused) {
            return Err(error);
        }
        remembered.certified = certified;
        // A watch may have been denied since.
        for key in remembered.left.keys() {
            self.watch_anew(key, &remembered.left);
        }
        Ok(reports)
    }

    /// The certificates of webhooks, with all done that is due.
    async fn certified(
        &self,
        content: &Content,
        read: &mut ReadObjects,
        remembered: &Remembered,
    ) -> Result<Certified, PhasesError> {
        let known = &remembered.certified;
        let is_as_left = |serving: &Serving| {
            let left = remembered.left.get(&serving.secret);
            left.is_some_and(|left| self.change(&serving.secret, left) != Change::Drift)
        };
        let is_enough = known.until.is_some_and(|until| self.now < until);
        if is_enough && content.servings.iter().all(is_as_left) {
            return Ok(known.as_left());
        }
        let certificates = Certificates {
            objects: &self.objects,
            wanted: self.certificates,
            ahead: self.ahead,
            now: self.now,
        };
        let kept = certificates.keep(content, read).await;
        kept.map_err(|error| PhasesError::Objects(vec![error]))
    }

    /// Reads every object and looks for collisions. The answer holds the objects as they were read.
    async fn check(&self, content: &Content) -> Result<ReadObjects, PhasesError> {
        let read = content
            .phases
            .iter()
            .enumerate()
            .flat_map(|(at, phase)| phase.items.iter().map(move |item| (at, item)))
            .map(|(at, item)| async move { (at, item, self.objects.read(&item.key).await) }.boxed())
            .collect();
        let read = super::side_by_side(read).await;
        let (mut found, mut collisions, mut errors) = (BTreeMap::new(), Vec::new(), Vec::new());
        for (phase, item, live) in read {
            match live {
                Ok(live) => {
                    if let Some(live) = &live
                        && let Standing::Collision(conflict) = self.objects.standing(item, live)
                    {
                        collisions.push(item.colliding(phase, *conflict, live));
                    }
                    found.insert(item.key.clone(), Read(live));
                }
                Err(error) => errors.push(error),
            }
        }
        // A revision that was complete once is kept up around what somebody took from it.
        if !collisions.is_empty() && !self.has_succeeded {
            return Err(PhasesError::Collisions(collisions));
        }
        if !errors.is_empty() {
            return Err(PhasesError::Objects(errors));
        }
        Ok(found)
    }

    /// Brings one object to what it should be. `live`: as it was read just now, if it was.
    async fn keep(
        &self,
        phase: usize,
        item: &Item,
        live: Option<Read>,
        remembered: &Remembered,
        certified: &Certified,
    ) -> Result<(ObjectReport, Left), Failed> {
        let left = &remembered.left;
        let change = left.get(&item.key).map(|left| self.change(&item.key, left));
        let live = match (live, change) {
            (Some(Read(live)), _) => live,
            (None, Some(Change::None | Change::Status)) => {
                return self.look_at(item.key.clone(), left, Stirred::No).await;
            }
            (None, None) if remembered.absent.contains(&item.key) => None,
            (None, Some(Change::Drift) | None) => self.objects.read(&item.key).await?,
        };
        self.watch(&item.key);
        if live.is_none()
            && let Some(later) = (self.awaited_by)(&item.key)
        {
            self.watches.wake(later);
            return Err(Failed::Gone);
        }
        let owners = self.strangers(&item.key);
        match self.objects.keep(item, live).await? {
            Kept::Done {
                action,
                object,
                departures,
            } => {
                if action == Action::Adopted {
                    for owner in &owners {
                        (self.bereaved)(owner);
                    }
                }
                let (action, object) = self.told(item, action, object, certified).await?;
                self.left(item.key.clone(), action, &object, departures)
                    .await
            }
            Kept::Collision { conflict, object } => {
                let collision = item.colliding(phase, *conflict, &object);
                Err(Failed::Collision(Box::new(collision)))
            }
        }
    }

    /// Makes sure that an object of ours that calls a webhook trusts its server.
    async fn told(
        &self,
        item: &Item,
        action: Action,
        object: Box<Value>,
        certified: &Certified,
    ) -> Result<(Action, Box<Value>), ObjectError> {
        if action == Action::Progressed || is_leaving(&object) {
            return Ok((action, object));
        }
        let told = certified.tell(&self.objects, &item.key, &object).await?;
        Ok(match (told, action) {
            (None, action) => (action, object),
            (Some(told), Action::Idle) => (Action::Updated, Box::new(told)),
            (Some(told), action) => (action, Box::new(told)),
        })
    }

    /// Notes how an object was left.
    async fn left(
        &self,
        key: ObjectKey,
        action: Action,
        object: &Value,
        departures: Departures,
    ) -> Result<(ObjectReport, Left), Failed> {
        let seen = Arc::new(Seen::of(&key.gvk, &metadata_of(object)));
        self.watches.note(&key, self.objects.account, &seen);
        let probe = self.probed(&key, object).await?;
        let left = Left {
            seen,
            is_progressed: action == Action::Progressed,
            probe: probe.clone(),
            departures,
        };
        Ok((ObjectReport { key, action, probe }, left))
    }

    async fn probed(&self, key: &ObjectKey, object: &Value) -> Result<ProbeResult, ObjectError> {
        if is_leaving(object) {
            let finalizers = metadata_of(object).finalizers.unwrap_or_default();
            let why = if finalizers.is_empty() {
                "it is being deleted".to_owned()
            } else {
                format!(
                    "it is being deleted, and waits for {}",
                    finalizers.join(", ")
                )
            };
            return Ok(ProbeResult::Unknown(vec![why]));
        }
        let probe = evaluate(self.probes, object);
        if !self.needs_answers(key) {
            return Ok(probe);
        }
        let unanswered = self.objects.unanswered(key, object).await?;
        Ok(probe.unless_unanswered(&unanswered))
    }

    fn report(
        name: String,
        objects: Vec<Result<(ObjectReport, Left), Failed>>,
        remembered: &mut Remembered,
    ) -> Result<PhaseReport, PhasesError> {
        let (mut reports, mut collisions, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_gone = false;
        for object in objects {
            match object {
                Ok((report, left)) => {
                    remembered.absent.remove(&report.key);
                    remembered.left.insert(report.key.clone(), left);
                    reports.push(report);
                }
                Err(Failed::Collision(collision)) => collisions.push(*collision),
                Err(Failed::Object(error)) => errors.push(*error),
                Err(Failed::Gone) => is_gone = true,
            }
        }
        if !collisions.is_empty() {
            return Err(PhasesError::Collisions(collisions));
        }
        if !errors.is_empty() {
            return Err(PhasesError::Objects(errors));
        }
        Ok(PhaseReport {
            name,
            objects: reports,
            is_reached: !is_gone,
        })
    }
}

/// What a pass says of an object that was left alone.
fn action_of(left: &Left) -> Action {
    if left.is_progressed {
        Action::Progressed
    } else {
        Action::Idle
    }
}

/// What came between one object and its report.
enum Failed {
    Collision(Box<Collision>),
    Object(Box<ObjectError>),
    Gone,
}

impl From<ObjectError> for Failed {
    fn from(error: ObjectError) -> Self {
        Self::Object(Box::new(error))
    }
}

//! The end of a revision: archived in favour of a later one, or deleted.

#![expect(
    clippy::disallowed_methods,
    reason = "an uninstall has a deadline: it reads the clock"
)]

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

use super::others::{StillWanted, known_by_key};
use super::tell::joined;
use super::{Note, Step, StepError, Work, has_finalizer, write_finalizers};
use crate::api::condition::{ConditionType, Reason, find};
use crate::api::object::{Gvk, ObjectKey};
use crate::api::{ClusterObjectSet, keys};
use crate::apply::content::{Content, ContentPhase};
use crate::apply::kinds::{self, KindError};
use crate::apply::objects::{ObjectError, metadata_of};
use crate::apply::phases::PhasesError;
use crate::apply::secrets::{self, ContentError, Resolved};
use crate::apply::teardown::{CrdDeletion, Kept, Occasion, Teardown, TornDown, Wish};
use crate::controller::cluster_object_set::Context;
use crate::controller::cluster_object_set::account::is_active_beside;
use crate::error::{Classify, Disposition};
use crate::identity::request::{self, RequestError};
use crate::revision::collision::{CrdOwner, is_own};
use crate::revision::marks::owner_reference;
use crate::revision::rollout::{Rollout, Warning};
use crate::status::news::News;

/// How long an uninstall may take before the rest is left to the garbage collector.
const TEARDOWN_DEADLINE: SignedDuration = SignedDuration::from_mins(10);
/// So long it is tried in any case.
const TRIED_AT_LEAST: Duration = Duration::from_mins(1);

/// How long a refusal for lack of rights has to last until it is believed.
const REFUSALS_BELIEVED_AFTER: Duration = Duration::from_secs(3);

/// The API group of CRDs.
const CRD_GROUP: &str = "apiextensions.k8s.io";

/// A teardown that did not get to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum EndError {
    #[error(transparent)]
    Phases(#[from] PhasesError),
    #[error("cannot tell whether the revision was orphaned")]
    Owned(#[source] ObjectError),
    #[error("cannot take over the Secrets of the revision")]
    Secrets(#[source] RequestError),
    #[error("cannot read the extension of the revision")]
    Extension(#[source] RequestError),
    #[error("cannot list the CustomResourceDefinitions of the revision")]
    Crds(#[source] RequestError),
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error("cannot tell what revision {name} wants to stay")]
    Sibling {
        name: String,
        #[source]
        source: ContentError,
    },
    #[error(
        "Secret {secret} is gone, so what only this archived revision holds cannot be told: restore the Secret from a backup, \
         or give the revision up: kubectl delete clusterobjectset {name}"
    )]
    Unknown { secret: String, name: String },
}

impl Classify for EndError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Phases(error) => error.disposition(),
            Self::Owned(_)
            | Self::Secrets(_)
            | Self::Extension(_)
            | Self::Crds(_)
            | Self::Kind(_)
            | Self::Sibling { .. }
            | Self::Unknown { .. } => Disposition::Retry,
        }
    }
}

impl Work<'_> {
    pub(super) async fn archive(self) -> Step {
        if !has_finalizer(self.set) {
            // What it was told when it was taken down stays as it is.
            return Step {
                is_gone: is_told(self.set, Reason::Archived),
                ..Step::from(Rollout::Archived)
            };
        }
        let content = match self.read().await {
            Ok(resolved) => resolved.content,
            Err(ContentError::NotFound { secret, .. }) => {
                let name = self.set.name_any();
                return Step::failed(&EndError::Unknown { secret, name });
            }
            Err(error) => return Step::failed(&error),
        };
        match self
            .teardown(Occasion::Archived, &content, &self.replaced())
            .await
        {
            Err(error) => Step::failed(&error),
            Ok(torn_down) if !torn_down.remaining.is_empty() => Step::from(Rollout::TearingDown {
                remaining: waited_for(self.set, &torn_down),
            }),
            // Only a deletion goes on where it is refused something.
            Ok(torn_down) => {
                let mut step = Step::from(Rollout::Archived);
                step.notes = kept_notes(&torn_down);
                step.pass.warnings = kept_warnings(&torn_down);
                if let Err(error) = remove_finalizer(self.ctx, self.set).await {
                    return Step::unwritten(&error);
                }
                self.ctx.memory.forget_objects(self.set);
                step
            }
        }
    }

    pub(super) async fn uninstall(self) -> Step {
        let is_over = is_over(self.ctx, self.set);
        // Somebody wants the objects to stay.
        if self.set.finalizers().iter().any(|f| f == "orphan") {
            return release(self.ctx, self.set, Vec::new()).await;
        }
        let (content, mut notes) = match self.content_to_take_down().await {
            Ok(found) => found,
            Err(step) => return *step,
        };
        let own = self.was_not_orphaned().then_some(self.claim.revision);
        let takes_unowned: Vec<i64> = own.into_iter().collect();
        let torn_down = self.teardown(Occasion::Deleted, &content, &takes_unowned);
        let torn_down = match torn_down.await {
            Ok(torn_down) => torn_down,
            Err(error) if is_over => {
                let note = left(&error.to_string());
                return release(self.ctx, self.set, vec![note]).await;
            }
            Err(error) => return Step::failed(&error),
        };
        let mut remaining = torn_down.remaining.clone();
        remaining.extend(torn_down.refused.iter().cloned());
        if !remaining.is_empty() && !is_over {
            let mut step = Step::from(Rollout::TearingDown {
                remaining: waited_for(self.set, &torn_down),
            });
            step.pass.warnings = kept_warnings(&torn_down);
            return step;
        }
        notes.extend(kept_notes(&torn_down));
        for (objects, why) in [
            (
                waited_for(self.set, &torn_down),
                "they are not gone in time",
            ),
            (
                named(&torn_down.later),
                "their turn would have come after those",
            ),
            (
                named(&torn_down.forbidden),
                "the service account may no longer delete them",
            ),
            (
                named(&torn_down.unreadable),
                "their conversion webhook does not answer",
            ),
        ] {
            if !objects.is_empty() {
                notes.push(left(&format!("{why}: {}", objects.join(", "))));
            }
        }
        if !torn_down.nobodys.is_empty() {
            notes.push(Note {
                text: format!(
                    "objects stay, since nothing on them tells of a revision that is there: {}",
                    joined(&torn_down.nobodys)
                ),
                ..left("")
            });
        }
        release(self.ctx, self.set, notes).await
    }

    /// What is to be taken down, with what there is to tell of it; or the step, where nothing is.
    async fn content_to_take_down(&self) -> Result<(Content, Vec<Note>), Box<Step>> {
        let secret = match self.read().await {
            Ok(resolved) if resolved.unowned.is_empty() => {
                return Ok((resolved.content, Vec::new()));
            }
            Ok(resolved) => return self.unless_orphaned(resolved).await,
            Err(error)
                if is_over(self.ctx, self.set)
                    || error.disposition() != Disposition::Retry
                    || is_garbled(&error) && !self.has_begun() =>
            {
                let note = left(&format!("its objects cannot be read: {error}"));
                return Err(Box::new(release(self.ctx, self.set, vec![note]).await));
            }
            Err(ContentError::NotFound { secret, .. }) => secret,
            Err(error) => return Err(Box::new(Step::failed(&error))),
        };
        match self.keys_to_take_down().await {
            Ok((content, mut notes)) => {
                let is_told = (content.phases.iter()).any(|phase| !phase.name.is_empty());
                if !is_told {
                    notes.push(left(&format!("Secret {secret} is gone")));
                }
                Ok((content, notes))
            }
            Err(error) => Err(Box::new(Step::failed(&error))),
        }
    }

    /// Whether anything can have been applied.
    fn has_begun(&self) -> bool {
        let status = self.set.status.as_ref();
        let was_read = status.is_some_and(|status| !status.observed_phases.is_empty());
        was_read || !self.ctx.memory.phases(&self.claim.uid).is_empty()
    }

    /// Whether the Secrets with the content, which still have their owner or are gone, tell that nobody asked for
    /// `--cascade=orphan`: the garbage collector takes the owner from everything then, and leaves it.
    fn was_not_orphaned(&self) -> bool {
        let mut objects = self.set.spec.phases.iter().flat_map(|phase| &phase.objects);
        !self.claim.is_by_hand() && objects.any(|object| object.reference.is_some())
    }

    /// The content of a revision that does not own its Secrets, unless it does not own anything else either: then the garbage
    /// collector did what `--cascade=orphan` asks for while nobody was here to see the finalizer. A Secret alone may have been
    /// put there by somebody: it is owned from then on, and goes with the revision.
    async fn unless_orphaned(&self, resolved: Resolved) -> Result<(Content, Vec<Note>), Box<Step>> {
        let Resolved {
            content, unowned, ..
        } = resolved;
        match self.owns_any_of(&content).await {
            Ok(true) => {
                let (client, namespace) = (&self.ctx.client, &self.ctx.system_namespace);
                let owner = owner_reference(&self.claim);
                let owned = secrets::own(client, namespace, &unowned, &owner).await;
                owned.map_err(|source| Box::new(Step::failed(&EndError::Secrets(source))))?;
                Ok((content, Vec::new()))
            }
            Ok(false) => Err(Box::new(release(self.ctx, self.set, Vec::new()).await)),
            Err(error) if is_over(self.ctx, self.set) => {
                let note = left(&error.to_string());
                Err(Box::new(release(self.ctx, self.set, vec![note]).await))
            }
            Err(error) => Err(Box::new(Step::failed(&error))),
        }
    }

    /// Whether an object names this revision among its owners. CRDs never do, and what cannot be read says nothing.
    async fn owns_any_of(&self, content: &Content) -> Result<bool, EndError> {
        let lives = |owner: &CrdOwner| self.lives(owner);
        let objects = self.objects(&lives, &|_| false);
        let items = content.phases.iter().flat_map(|phase| &phase.items);
        for item in items.filter(|item| !item.key.gvk.is_crd()) {
            let live = match objects.read(&item.key).await {
                Err(error) if error.is_failed_conversion() => continue,
                Err(error) if error.is_lacking() => {
                    if !self.believes_refusals() {
                        self.ctx.memory.note_refusal(self.set, true);
                        return Err(EndError::Owned(error));
                    }
                    continue;
                }
                live => live.map_err(EndError::Owned)?,
            };
            let owners = live.and_then(|live| metadata_of(&live).owner_references);
            let mut owners = owners.iter().flatten();
            if owners.any(|owner| owner.uid == self.claim.uid) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether this teardown has been refused something for so long that it is no API server that has just started and
    /// knows no roles yet.
    fn believes_refusals(&self) -> bool {
        let refused_for = self.ctx.memory.refused_for(self.set);
        refused_for.is_some_and(|time| time >= REFUSALS_BELIEVED_AFTER)
    }

    /// The objects of a revision whose Secrets are gone, as far as they are known, if its extension is leaving; else what
    /// there is to tell of its CRDs.
    ///
    /// With `--cascade=foreground` the garbage collector takes the Secrets and all that has an owner before anybody can
    /// take it down in order. What a finalizer holds is waited for, and told. CRDs have no owner: what becomes of them is
    /// still to be decided.
    async fn keys_to_take_down(&self) -> Result<(Content, Vec<Note>), EndError> {
        let crds = self.marked_crds().await?;
        if !self.is_extension_leaving().await? {
            let wanted = self.wanted().await?;
            let kept = crds
                .into_iter()
                .filter(|key| wanted.wish(key) == Wish::Nobody);
            let torn_down = TornDown {
                kept: kept.map(|key| (key, Kept::Undecided)).collect(),
                ..TornDown::default()
            };
            return Ok((Content::default(), kept_notes(&torn_down)));
        }
        let phase = |name, keys: Vec<ObjectKey>| ContentPhase {
            name,
            items: keys.into_iter().map(known_by_key).collect(),
        };
        let remembered = self.ctx.memory.phases(&self.claim.uid);
        let mut phases = vec![phase(String::new(), crds)];
        phases.extend(remembered.into_iter().map(|(name, mut keys)| {
            keys.retain(|key| !key.gvk.is_crd());
            phase(name, keys)
        }));
        let content = Content {
            phases,
            servings: Vec::new(),
        };
        Ok((content, Vec::new()))
    }

    /// The CRDs that say that they are this revision's.
    async fn marked_crds(&self) -> Result<Vec<ObjectKey>, EndError> {
        let url = kinds::definitions();
        // One that somebody wrote by hand has no label, and its CRDs have what stands in their manifests.
        let extension = self.set.labels().get(keys::OWNER_NAME);
        let selector = extension.map(|extension| format!("{}={extension}", keys::OWNER_NAME));
        let found = request::metadata(&self.ctx.client, &url, selector.as_deref()).await;
        let found = match found {
            // The administrator wants oxolm to see none.
            Err(error) if error.is_lacking() && self.believes_refusals() => Vec::new(),
            Err(error) if error.is_lacking() => {
                self.ctx.memory.note_refusal(self.set, true);
                return Err(EndError::Crds(error));
            }
            found => found.map_err(EndError::Crds)?,
        };
        let gvk = Gvk::new(&format!("{CRD_GROUP}/v1"), "CustomResourceDefinition");
        let own = found.iter().map(metadata_of);
        let own = own.filter(|metadata| is_own(&self.claim, &gvk, metadata));
        Ok(own
            .map(|metadata| ObjectKey {
                gvk: gvk.clone(),
                namespace: String::new(),
                name: metadata.name.unwrap_or_default(),
            })
            .collect())
    }

    async fn teardown(
        &self,
        occasion: Occasion,
        content: &Content,
        takes_unowned: &[i64],
    ) -> Result<TornDown, EndError> {
        let lives = |owner: &CrdOwner| self.lives(owner);
        let is_deleted = occasion == Occasion::Deleted;
        let mut others = self.all.iter();
        let has_others = is_deleted && others.any(|other| is_active_beside(self.set, other));
        let is_kind_leaving = is_deleted && self.is_kind_leaving().await?;
        let all_leave = (has_others || is_kind_leaving) && self.is_extension_leaving().await?;
        let (wanted, family) = if all_leave {
            (
                self.wanted_by_orphans().await?,
                Some(self.family(content).await?),
            )
        } else if is_kind_leaving {
            (StillWanted::everything(), None)
        } else {
            (self.wanted().await?, None)
        };
        let wish = |key: &ObjectKey| wanted.wish(key);
        let numbers_beside = self.numbers_beside();
        let fate = |uid: Option<&str>, name: &str| self.fate(uid, name);
        let policy = self.set.annotations().get(keys::CRD_DELETION);
        let teardown = Teardown {
            objects: self.objects(&lives, &|_| false),
            watches: &self.ctx.watches,
            occasion,
            // A word that is no policy takes nothing away; it is told where the extension is read.
            crd_deletion: policy.map_or(self.ctx.crd_deletion, |policy| {
                policy.parse().unwrap_or(CrdDeletion::KeepIfUsed)
            }),
            wish: &wish,
            numbers_beside: &numbers_beside,
            fate: &fate,
            takes_unowned,
            family: family.as_ref(),
            believes_refusals: self.believes_refusals(),
            waits_for_resources: !is_over(self.ctx, self.set),
        };
        let torn_down = teardown.run(content).await?;
        let is_refused = !torn_down.refused.is_empty() || !torn_down.forbidden.is_empty();
        self.ctx
            .memory
            .note_refusal(self.set, is_refused || self.believes_refusals());
        Ok(torn_down)
    }
}

/// Whether what a Secret holds can be no content, however often it is read.
fn is_garbled(error: &ContentError) -> bool {
    matches!(
        error,
        ContentError::NoKey { .. } | ContentError::Unpack { .. }
    )
}

/// Removes the finalizer: the revision is done with its objects, or nobody may touch them. `notes` are told once: not by
/// a pass that finds, with what it saw, that an earlier one was done already, and its Secrets gone.
pub(super) async fn release(ctx: &Context, set: &ClusterObjectSet, notes: Vec<Note>) -> Step {
    match remove_finalizer(ctx, set).await {
        Ok(removed) => {
            ctx.memory.forget(set);
            let notes = match removed {
                Removed::Now => notes,
                Removed::Before => Vec::new(),
            };
            Step {
                notes,
                ..Step::gone()
            }
        }
        Err(error) => Step::unwritten(&error),
    }
}

/// Who removed a finalizer.
enum Removed {
    /// This pass.
    Now,
    /// An earlier one: the revision is gone.
    Before,
}

async fn remove_finalizer(ctx: &Context, set: &ClusterObjectSet) -> Result<Removed, StepError> {
    let finalizers: Vec<String> = set
        .finalizers()
        .iter()
        .filter(|finalizer| *finalizer != keys::FINALIZER_TEARDOWN)
        .cloned()
        .collect();
    let written = write_finalizers(ctx, set, &finalizers).await?;
    Ok(if written.is_null() {
        Removed::Before
    } else {
        Removed::Now
    })
}

/// Whether `Progressing` has this reason already.
fn is_told(set: &ClusterObjectSet, reason: Reason) -> bool {
    let conditions = set
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice());
    find(conditions.unwrap_or_default(), ConditionType::Progressing)
        .is_some_and(|condition| condition.reason == reason.as_str())
}

/// Whether an uninstall has taken too long: by the API server's clock, and, since that may not be ours, after some
/// tries of our own.
fn is_over(ctx: &Context, set: &ClusterObjectSet) -> bool {
    // Asked in every pass: its time begins with the first one.
    let tried = ctx.memory.deleting_for(set);
    let since = set.metadata.deletion_timestamp.as_ref();
    since.is_some_and(|since| Timestamp::now().duration_since(since.0) >= TEARDOWN_DEADLINE)
        && tried >= TRIED_AT_LEAST
}

fn left(why: &str) -> Note {
    Note {
        news: News::LeftToGarbageCollector,
        text: format!("objects are left to the garbage collector: {why}"),
        is_warning: true,
        is_state: false,
    }
}

fn kept_warnings(torn_down: &TornDown) -> Vec<Warning> {
    let kept = torn_down.kept.iter();
    kept.map(|(key, why)| Warning {
        reason: Reason::CrdsKept,
        sentence: format!("CustomResourceDefinition {} is kept: {why}.", key.name),
    })
    .collect()
}

/// The finalizer with which the garbage collector deletes in the foreground: what the revision owns goes at once.
const FOREGROUND: &str = "foregroundDeletion";

fn named(keys: &[ObjectKey]) -> Vec<String> {
    keys.iter().map(ObjectKey::to_string).collect()
}

/// What a teardown still waits for, in words.
fn waited_for(set: &ClusterObjectSet, torn_down: &TornDown) -> Vec<String> {
    let is_foreground = set.finalizers().iter().any(|one| one == FOREGROUND);
    // Whoever should finish a resource is an object of the revision as a rule.
    let hint = |key: &ObjectKey| {
        if is_foreground && key.gvk.is_crd() {
            "; --cascade=foreground has deleted the operator already: remove the finalizer by hand if nothing else does"
        } else {
            ""
        }
    };
    let remaining = torn_down.remaining.iter().chain(&torn_down.refused);
    let leaving = |key: &ObjectKey| torn_down.leaving.iter().find(|(crd, _)| crd == key);
    remaining
        .map(|key| match leaving(key) {
            Some((_, why)) => format!("{key} ({why}{})", hint(key)),
            None => key.to_string(),
        })
        .collect()
}

fn kept_notes(torn_down: &TornDown) -> Vec<Note> {
    let warnings = kept_warnings(torn_down).into_iter();
    warnings
        .map(|warning| Note {
            news: News::CrdKept,
            text: warning.sentence,
            is_warning: true,
            is_state: false,
        })
        .collect()
}

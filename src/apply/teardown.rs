//! A revision taken back: what it controls is deleted, what it only owns along is let go, in order, as the account.
//!
//! An archived revision goes phase by phase in reverse. When a revision itself is deleted, CRDs go first, so that
//! their resources go while the operator still runs to handle their finalizers; then the other phases in reverse. A
//! phase begins when the one before is gone.
//!
//! What another active revision wants is given to that, whether it came to it already or not. What is that of another one
//! which goes, too, is taken back by whoever comes first.
//!
//! A CRD that has resources besides the revision's own, or whose resources the account may not list, is kept unless the
//! policy says otherwise: custom resources are never deleted by accident. Those that somebody deletes at the same time are
//! waited for, since the operator that finishes their finalizers goes after the CRDs.

use std::str::FromStr;

use futures::FutureExt as _;
use serde_json::Value;

use crate::api::object::ObjectKey;
use crate::apply::content::Content;
use crate::apply::objects::{Item, ObjectError, Objects, Usage, bears_our_fields, metadata_of};
use crate::apply::phases::PhasesError;
use crate::apply::watch::{DriftWatches, View};
use crate::identity::request::Deletion;
use crate::preflight::crd_upgrade::conversion::{LeftWebhook, left_webhook};
use crate::revision::collision::{
    Sibling, controller_of, is_family_crd, is_let_go, is_own, is_owned, other_revision, revision_of,
};

/// What happens to CRDs that are no longer wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CrdDeletion {
    /// They stay while there are resources of theirs.
    #[default]
    KeepIfUsed,
    /// They go, and all their resources with them.
    Delete,
}

/// A word that is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid deletion of CRDs {0:?}: expected keep-if-used or delete")]
pub struct InvalidCrdDeletion(String);

impl FromStr for CrdDeletion {
    type Err = InvalidCrdDeletion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "keep-if-used" => Ok(Self::KeepIfUsed),
            "delete" => Ok(Self::Delete),
            _ => Err(InvalidCrdDeletion(text.to_owned())),
        }
    }
}

/// Why a revision is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// A later one has taken its place.
    Archived,
    /// It is deleted.
    Deleted,
}

/// Who else wants an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// Nobody of the extension.
    Nobody,
    /// This active revision.
    Heir(Sibling),
    /// Somebody, and it is not known who.
    Somebody,
}

/// What becomes of another revision of the extension that does not stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It goes, or is archived: it takes down, or took, what it came to, and tells of what it leaves.
    Leaves,
    /// It is gone: nobody comes for what it left.
    Gone,
}

/// Takes one revision back.
pub struct Teardown<'a> {
    /// The objects, through the account.
    pub objects: Objects<'a>,
    /// What is seen without asking.
    pub watches: &'a DriftWatches,
    /// Why.
    pub occasion: Occasion,
    /// What happens to CRDs.
    pub crd_deletion: CrdDeletion,
    /// Whether another active revision of the extension wants an object, and which, if that is known.
    pub wish: &'a (dyn Fn(&ObjectKey) -> Wish + Sync),
    /// The numbers of the other revisions of the extension that are there: what carries the marks of one of them is its concern.
    pub numbers_beside: &'a [i64],
    /// What becomes of another revision of the extension, by UID, where that is told, and name; none where it is of no
    /// concern here.
    pub fate: &'a (dyn Fn(Option<&str>, &str) -> Option<Fate> + Sync),
    /// The numbers of the revisions, this one or others that were replaced, that were for certain not orphaned: what carries
    /// the marks of one of them and has lost its owner is taken back, too. The garbage collector takes the owner away where
    /// somebody else owns the object besides; so does a revision that gives it up for another one, which then gives it up, too.
    pub takes_unowned: &'a [i64],
    /// What else the revisions hold that leave together with this one, if any do: the CRDs of all of them go before anything
    /// else of any of them.
    pub family: Option<&'a Content>,
    /// Whether it is true that the account lacks what it is refused: an API server that has just started refuses everything.
    pub believes_refusals: bool,
    /// Whether resources of a CRD that are being deleted are waited for, while what may finish their finalizers still runs.
    pub waits_for_resources: bool,
}

impl std::fmt::Debug for Teardown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Teardown")
            .field("occasion", &self.occasion)
            .finish_non_exhaustive()
    }
}

/// How far a teardown got.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TornDown {
    /// The objects that are not gone yet. Empty: it is done.
    pub remaining: Vec<ObjectKey>,
    /// What of them is known to wait for something, and for what: a CRD for a resource of its that is being deleted, others for
    /// their finalizers.
    pub leaving: Vec<(ObjectKey, String)>,
    /// The objects whose turn comes when those are gone.
    pub later: Vec<ObjectKey>,
    /// CRDs that stay, with the reason.
    pub kept: Vec<(ObjectKey, Kept)>,
    /// The objects whose refusal is not believed yet; they are tried again.
    pub refused: Vec<ObjectKey>,
    /// Other objects that the account may no longer delete; the garbage collector will.
    pub forbidden: Vec<ObjectKey>,
    /// Resources that cannot be read, since their conversion webhook does not answer.
    pub unreadable: Vec<ObjectKey>,
    /// Objects that oxolm applied, and on which neither an owner nor a mark tells of a revision that is there: they stay.
    pub nobodys: Vec<ObjectKey>,
}

/// Why a CRD stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// There are resources of it.
    InUse,
    /// A resource of it is being deleted, and waits longer than an uninstall does: what for.
    Held(String),
    /// The account may not look whether there are.
    Unknown,
    /// There are, or may be, resources of it, and a webhook converts them that may be gone.
    Converted,
    /// There are resources of it that cannot be read, since the webhook that converts them does not answer.
    Unanswered,
    /// What holds the revision was gone before it.
    Undecided,
    /// The account may no longer read or delete it, and it has no owner to go with.
    Forbidden,
}

impl std::fmt::Display for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Held(resource) => {
                return write!(
                    f,
                    "its resource {resource}, which nothing of the operator will remove any more: take that away by hand, then \
                     delete the definition"
                );
            }
            Self::InUse => "it has resources",
            Self::Unknown => "its resources may not be listed",
            Self::Forbidden => "the service account may no longer delete it",
            Self::Undecided => {
                "the Secrets of its revision were gone first; delete it where nobody needs it"
            }
            Self::Unanswered => {
                "it has resources, and its conversion webhook does not answer, so not all of them can be read or deleted: \
                 install the operator again, or give it a webhook that answers"
            }
            Self::Converted => {
                "it has resources, and its versions differ, so it still names its conversion webhook: without the operator only \
                 the stored version can be read"
            }
        })
    }
}

impl Kept {
    /// Why a CRD stays that still names its webhook.
    fn with_webhook(self) -> Self {
        match self {
            Self::Unanswered => self,
            Self::InUse
            | Self::Held(_)
            | Self::Unknown
            | Self::Converted
            | Self::Undecided
            | Self::Forbidden => Self::Converted,
        }
    }

    /// Why a CRD stays that no longer names a webhook.
    fn without_webhook(self) -> Self {
        match self {
            Self::Unanswered => Self::InUse,
            Self::InUse
            | Self::Held(_)
            | Self::Unknown
            | Self::Converted
            | Self::Undecided
            | Self::Forbidden => self,
        }
    }
}

/// What became of one object.
enum State {
    Gone,
    Waiting,
    /// The same, and what for: a resource, or finalizers.
    Leaving(String),
    Kept(Kept),
    Refused,
    Forbidden,
    Unreadable,
    Nobodys,
}

impl Teardown<'_> {
    /// Goes as far as it can without waiting.
    ///
    /// # Errors
    /// When an object could not be read or deleted.
    pub async fn run(&self, content: &Content) -> Result<TornDown, PhasesError> {
        let mut torn_down = TornDown::default();
        let mut groups = self.order(content).into_iter();
        while let Some(items) = groups.next() {
            let states = items
                .into_iter()
                .map(|item| async move { (item, self.take_back(item, content).await) }.boxed())
                .collect();
            let states = super::side_by_side(states).await;
            let mut errors = Vec::new();
            for (item, state) in states {
                let key = item.key.clone();
                match state {
                    Ok(State::Gone) => {}
                    Ok(State::Waiting) => torn_down.remaining.push(key),
                    Ok(State::Leaving(resource)) => {
                        torn_down.remaining.push(key.clone());
                        torn_down.leaving.push((key, resource));
                    }
                    Ok(State::Kept(why)) => torn_down.kept.push((key, why)),
                    Ok(State::Refused) => torn_down.refused.push(key),
                    Ok(State::Forbidden) if key.gvk.is_crd() => {
                        torn_down.kept.push((key, Kept::Forbidden));
                    }
                    Ok(State::Forbidden) => torn_down.forbidden.push(key),
                    Ok(State::Nobodys) => torn_down.nobodys.push(key),
                    Ok(State::Unreadable) => torn_down.unreadable.push(key),
                    Err(error) => errors.push(error),
                }
            }
            if !errors.is_empty() {
                return Err(PhasesError::Objects(errors));
            }
            if !torn_down.remaining.is_empty() || !torn_down.refused.is_empty() {
                torn_down.later = groups.flatten().map(|item| item.key.clone()).collect();
                break;
            }
        }
        Ok(torn_down)
    }

    /// The objects in groups, each of which must be gone before the next one begins.
    fn order<'c>(&'c self, content: &'c Content) -> Vec<Vec<&'c Item>> {
        let reversed = |content: &'c Content, wanted: &dyn Fn(&Item) -> bool| {
            let group = |items: &'c [Item]| -> Vec<&'c Item> {
                items.iter().filter(|item| wanted(item)).collect()
            };
            let phases = content.phases.iter();
            phases
                .rev()
                .map(|phase| group(&phase.items))
                .collect::<Vec<_>>()
        };
        match self.occasion {
            Occasion::Archived => reversed(content, &|_| true),
            Occasion::Deleted => {
                let is_crd = |item: &Item| item.key.gvk.is_crd();
                let mut groups = reversed(content, &is_crd);
                groups.extend(
                    self.family
                        .iter()
                        .flat_map(|family| reversed(family, &is_crd)),
                );
                groups.extend(reversed(content, &|item| !is_crd(item)));
                groups
            }
        }
    }

    async fn take_back(&self, item: &Item, content: &Content) -> Result<State, ObjectError> {
        let may_be_familys = self.family.is_some() && item.key.gvk.is_crd();
        if !may_be_familys && self.is_known_to_be_anothers(&item.key) {
            return Ok(State::Gone);
        }
        let is_last = self.occasion == Occasion::Deleted;
        match self.take_back_now(item, content).await {
            Err(error) if is_last && error.is_lacking() => Ok(if self.believes_refusals {
                State::Forbidden
            } else {
                State::Refused
            }),
            Err(error) if is_last && error.is_failed_conversion() => Ok(State::Unreadable),
            other => other,
        }
    }

    async fn take_back_now(&self, item: &Item, content: &Content) -> Result<State, ObjectError> {
        let (key, is_last) = (&item.key, self.occasion == Occasion::Deleted);
        let Some(live) = self.objects.read(key).await? else {
            return Ok(State::Gone);
        };
        let metadata = metadata_of(&live);
        let claim = self.objects.claim;
        let is_unowned = is_let_go(claim, self.takes_unowned, &metadata);
        let is_familys = self.family.is_some() && is_family_crd(claim, &key.gvk, &metadata);
        let is_own = is_own(claim, &key.gvk, &metadata);
        // What two revisions have that both leave is taken back by whoever comes first: one of them may not have reached it.
        let fate = other_revision(claim, &key.gvk, &metadata)
            .filter(|_| !is_own)
            .and_then(|(uid, name)| (self.fate)(uid.as_deref(), &name));
        let is_ours = is_own || is_unowned || is_familys || fate.is_some();
        let wish = (self.wish)(key);
        if !is_ours || wish != Wish::Nobody {
            return self.let_go(key, &live, wish, is_own).await;
        }
        if metadata.deletion_timestamp.is_some() {
            return Ok(held(&live).map_or(State::Waiting, State::Leaving));
        }
        if key.gvk.is_crd() && self.crd_deletion == CrdDeletion::KeepIfUsed {
            let familys = self.family.map_or(0, |family| family.of_kind(&live));
            let own = content.of_kind(&live) + familys;
            let why = match self.objects.usage(key, &live, own, is_last).await? {
                Usage::Unused => None,
                Usage::Leaving(resource) if self.waits_for_resources => {
                    return Ok(State::Leaving(format!("its resource {resource}")));
                }
                Usage::Leaving(resource) => Some(Kept::Held(resource)),
                Usage::Used => Some(Kept::InUse),
                Usage::Unreadable => Some(Kept::Unanswered),
                Usage::Unknown if is_last && !self.believes_refusals => return Ok(State::Refused),
                Usage::Unknown => Some(Kept::Unknown),
            };
            if let Some(why) = why {
                let is_told = if is_familys {
                    fate != Some(Fate::Gone)
                } else {
                    fate == Some(Fate::Leaves)
                };
                if !is_own && is_told {
                    // The revision that has it says so.
                    return Ok(State::Gone);
                }
                return Ok(State::Kept(self.left_behind(key, &live, why).await?));
            }
        }
        match self.objects.delete(key, &live).await? {
            Deletion::Gone => Ok(State::Gone),
            Deletion::Waiting => Ok(held(&live).map_or(State::Waiting, State::Leaving)),
        }
    }

    /// Leaves an object to whoever wants it, or has it.
    async fn let_go(
        &self,
        key: &ObjectKey,
        live: &Value,
        wish: Wish,
        is_own: bool,
    ) -> Result<State, ObjectError> {
        let (claim, metadata) = (self.objects.claim, metadata_of(live));
        match wish {
            Wish::Heir(heir) if is_own => {
                let is_given = self.objects.give(key, live, &heir).await?;
                return Ok(if is_given {
                    State::Gone
                } else {
                    State::Waiting
                });
            }
            _ if is_owned(claim, &metadata) => self.objects.disown(key, live).await?,
            Wish::Nobody if self.occasion == Occasion::Deleted => {
                let number = revision_of(&metadata);
                let is_gone = number.is_none_or(|it| !self.numbers_beside.contains(&it));
                let is_left = bears_our_fields(&metadata) || claim.recognizes(&metadata) && is_gone;
                if controller_of(&metadata).is_none() && is_left {
                    return Ok(State::Nobodys);
                }
            }
            Wish::Nobody | Wish::Heir(_) | Wish::Somebody => {}
        }
        Ok(State::Gone)
    }

    /// A CRD that stays must not name a webhook that goes: it blocks whoever asks for another version.
    async fn left_behind(
        &self,
        key: &ObjectKey,
        live: &Value,
        why: Kept,
    ) -> Result<Kept, ObjectError> {
        match left_webhook(live) {
            LeftWebhook::None => Ok(why),
            LeftWebhook::Needed => Ok(why.with_webhook()),
            LeftWebhook::Needless => match self.objects.drop_conversion(key, live).await {
                Ok(()) => Ok(why.without_webhook()),
                // An archived revision waits for nobody's rights.
                Err(error)
                    if error.is_lacking()
                        && (self.believes_refusals || self.occasion == Occasion::Archived) =>
                {
                    Ok(why.with_webhook())
                }
                Err(error) => Err(error),
            },
        }
    }

    /// Whether the drift watch says that the object is that of another revision which stays, and of none that goes.
    fn is_known_to_be_anothers(&self, key: &ObjectKey) -> bool {
        let claim = self.objects.claim;
        let stays = |(uid, name): &(String, String)| {
            let mut siblings = claim.siblings.iter();
            siblings.any(|one| one.uid == *uid || one.name == *name)
        };
        match self.watches.view(key, self.objects.account) {
            View::Present(seen) => {
                !seen.revisions.is_empty()
                    && seen.controller.as_ref() != Some(&claim.uid)
                    && seen.revisions.iter().all(stays)
            }
            View::Unwatched | View::NotYet | View::Absent => false,
        }
    }
}

/// What an object that is being deleted waits for: its finalizers; or what the namespace controller says is left in it.
fn held(live: &Value) -> Option<String> {
    let conditions = live.pointer("/status/conditions").and_then(Value::as_array);
    let remaining = conditions.into_iter().flatten().filter(|condition| {
        let kind = condition.get("type").and_then(Value::as_str);
        let is_remaining = kind.is_some_and(|kind| {
            ["NamespaceContentRemaining", "NamespaceFinalizersRemaining"].contains(&kind)
        });
        is_remaining && condition.get("status").and_then(Value::as_str) == Some("True")
    });
    let remaining: Vec<&str> = remaining
        .filter_map(|condition| condition.get("message")?.as_str())
        .collect();
    if !remaining.is_empty() {
        return Some(remaining.join(" "));
    }
    let finalizers = metadata_of(live).finalizers.unwrap_or_default();
    (!finalizers.is_empty()).then(|| format!("waits for {}", finalizers.join(", ")))
}

//! Taking an extension down, or letting it go.

use jiff::SignedDuration;
use kube::ResourceExt;

use super::Context;
use super::object::remove_finalizer;
use super::observe::{identity_of, observed, revisions};
use crate::api::condition::{self, ConditionType};
use crate::api::{ClusterExtension, EXTENSIONS, keys};
use crate::apply::kinds::{self, KindError};
use crate::apply::revisions::Uninstall;
use crate::error::{Failure, chain};
use crate::revision::{Belonging, Revision};
use crate::status::cluster_extension::{Observed, Outcome};
use crate::status::news::News;
use crate::status::transition::{Transition, Weight};

/// What the message of an uninstall begins with, also that of one revision.
const UNINSTALLING: &str = "uninstalling: ";
/// A revision that is no older than this when its extension is deleted may be one that the garbage collector did not know.
const SWEPT_WITHIN: SignedDuration = SignedDuration::from_secs(5);

/// What became of an extension.
pub(super) enum Taken {
    /// It is gone.
    Gone,
    /// It was changed since it was read: it has to be looked at again. Our own last status is such a change, too, and by
    /// that nobody is woken.
    Changed,
    /// It is still there.
    NotYet(Box<Outcome>),
}

impl Taken {
    fn not_yet(outcome: Outcome) -> Self {
        Self::NotYet(Box::new(outcome))
    }
}

/// Takes the extension down.
pub(super) async fn uninstall(extension: &ClusterExtension, ctx: &Context) -> Taken {
    let name = extension.name_any();
    if !extension
        .finalizers()
        .iter()
        .any(|one| one == keys::FINALIZER_UNINSTALL)
    {
        ctx.memory.forget(&name);
        return Taken::Gone;
    }
    let account = ctx
        .identity
        .account_for(
            &extension.spec.namespace,
            extension.spec.service_account_name(),
        )
        .ok();
    let revisions = revisions(&identity_of(extension, account), ctx);
    let observed = observed(&revisions);
    let operations = ctx.revisions();
    let unobserved = |failure, observed| Taken::not_yet(Outcome::Unobserved { failure, observed });
    let is_orphaned = match is_orphaned(extension, &revisions, ctx).await {
        Ok(is_orphaned) => is_orphaned,
        Err(error) => return unobserved(Failure::of(&error), observed),
    };
    if is_orphaned {
        return match operations.let_go(&revisions).await {
            Ok(()) => leave(extension, News::Orphaned, observed, ctx).await,
            Err(error) => unobserved(Failure::of(&error), observed),
        };
    }
    let crd_deletion = extension.annotations().get(keys::CRD_DELETION);
    match operations.uninstall(&revisions, crd_deletion).await {
        Ok(Uninstall::Done) => {
            // The garbage collector may have orphaned them before anybody looked.
            let stays = |one: &Revision| one.belonging == Belonging::Restored && !one.is_deleting;
            let news = if revisions.iter().any(stays) {
                News::Orphaned
            } else {
                News::Uninstalled
            };
            leave(extension, news, observed, ctx).await
        }
        Ok(Uninstall::Waiting(left)) => Taken::not_yet(Outcome::Uninstalling {
            message: uninstall_message(&revisions, &left),
            observed,
        }),
        Err(error) => unobserved(Failure::of(&error), observed),
    }
}

/// Whether the extension goes, and what it installed stays: with `--cascade=orphan`, or because its kind is deleted.
///
/// The garbage collector may have done what `--cascade=orphan` asks for before this process looked, and have missed a revision
/// that was made at that moment: that stays with the others.
async fn is_orphaned(
    extension: &ClusterExtension,
    revisions: &[Revision],
    ctx: &Context,
) -> Result<bool, KindError> {
    if ctx.orphaned.has(extension) {
        return Ok(true);
    }
    let is_held = |one: &&Revision| one.belonging == Belonging::Owned && !one.is_deleting;
    if !revisions.iter().any(|one| is_held(&one)) {
        return Ok(false);
    }
    let is_let_go = |one: &Revision| one.belonging == Belonging::Restored && !one.is_deleting;
    let deleted = extension.metadata.deletion_timestamp.as_ref();
    let is_late = |one: &Revision| {
        let (created, deleted) = (one.created?, deleted?.0);
        Some(deleted.duration_since(created) <= SWEPT_WITHIN)
    };
    let mut held = revisions.iter().filter(is_held);
    if revisions.iter().any(is_let_go) && held.all(|one| is_late(one).unwrap_or_default()) {
        return Ok(true);
    }
    let kind = kinds::goes_along(&ctx.client, EXTENSIONS, &extension.metadata);
    kind.await
}

/// Lets an extension go, and tells what becomes of what it installed.
///
/// Orphaned revisions keep up their objects until an extension of the same name and account takes them back.
async fn leave(
    extension: &ClusterExtension,
    news: News,
    observed: Observed,
    ctx: &Context,
) -> Taken {
    match remove_finalizer(extension, ctx).await {
        Ok(()) => {}
        Err(kube::Error::Api(status)) if status.is_conflict() => return Taken::Changed,
        Err(error) => {
            return Taken::not_yet(Outcome::Uninstalling {
                message: chain(&error),
                observed,
            });
        }
    }
    let note = if news == News::Orphaned {
        "what is installed stays, and so do the revisions that keep it up"
    } else {
        "everything that was installed is gone, but for what events of its revisions name"
    };
    let transition = Transition {
        weight: Weight::Normal,
        reason: news.as_str().to_owned(),
        note: note.to_owned(),
    };
    ctx.reporter.publish(extension, &transition).await;
    ctx.memory.forget(&extension.name_any());
    Taken::Gone
}

/// What the revisions that are left wait for, in their own words.
fn uninstall_message(revisions: &[Revision], left: &[String]) -> String {
    let lines: Vec<String> = revisions
        .iter()
        .filter(|revision| left.contains(&revision.name))
        .map(
            |revision| match condition::find(&revision.conditions, ConditionType::Progressing) {
                Some(progressing) if revision.is_deleting => {
                    let message = &progressing.message;
                    let message = message.strip_prefix(UNINSTALLING).unwrap_or(message);
                    format!("{}: {message}", revision.name)
                }
                Some(_) | None => format!("{}: being taken down", revision.name),
            },
        )
        .collect();
    format!("{UNINSTALLING}{}", lines.join("; "))
}

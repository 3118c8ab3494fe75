//! An upgrade whose operator may do more than the installed one says so before it is rolled out.
//!
//! What is gained is noted on the revision, as findings about CRDs are, and is a warning as long as that is the newest
//! one.

#![expect(
    clippy::disallowed_methods,
    reason = "a condition says since when it holds"
)]

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::Context;
use super::content::Content;
use super::object::report;
use super::roll_out::{RolloutError, Wish};
use crate::api::condition::Reason;
use crate::api::keys;
use crate::api::object::ObjectKey;
use crate::apply::secrets::Reader;
use crate::preflight::permissions::gained;
use crate::revision::{Revision, states};
use crate::status::cluster_extension::{Warning, with_warnings};

/// What is said about the rights that the newest revision gave.
pub(super) fn noted(revisions: &[Revision]) -> Vec<Warning> {
    let newest = revisions.last().filter(|revision| revision.is_active());
    let sentences = newest.map_or_else(Vec::new, |revision| {
        revision.noted(keys::PERMISSIONS_GAINED)
    });
    warnings(&sentences)
}

fn warnings(sentences: &[String]) -> Vec<Warning> {
    let warning = |sentence: &String| Warning {
        reason: Reason::PermissionsGained,
        sentence: sentence.clone(),
    };
    sentences.iter().map(warning).collect()
}

/// What the active revisions hold that a new one is to take the place of.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// The version that is installed, and its objects; none where nothing is, or its content cannot be read.
    installed: Option<(String, Vec<Value>)>,
    /// The objects of those that are rolling out.
    rolling_out: Vec<Value>,
}

impl Before {
    /// The objects that `wanted` leaves out: they are to be taken down when it is installed.
    pub(super) fn leaving(&self, wanted: &[Value]) -> Vec<Value> {
        let key = |object: &Value| ObjectKey::of(object).ok(); // What is no object is told where it is applied.
        let wanted: BTreeSet<ObjectKey> = wanted.iter().filter_map(key).collect();
        let installed = self.installed.iter().flat_map(|(_, objects)| objects);
        let all = installed.chain(&self.rolling_out);
        all.filter(|object| key(object).is_some_and(|key| !wanted.contains(&key)))
            .cloned()
            .collect()
    }
}

impl Wish {
    /// Reads what the active revisions hold. Content that cannot be read, or was tampered with, is told by its own
    /// revision.
    pub(super) async fn objects_before(&self, ctx: &Context) -> Result<Before, RolloutError> {
        let states = states(&self.revisions);
        let account = ctx.identity.client_for(&self.account)?;
        let reader = Reader {
            own: &ctx.client,
            account: &account,
            system_namespace: &ctx.system_namespace,
            given: Vec::new(),
        };
        let read = async |revision: &Revision| {
            let set = ctx.sets.get(&revision.name)?;
            let resolved = reader.resolve(&set).await.ok()?; // As said above.
            let phases = resolved.content.phases.into_iter();
            let items = phases.flat_map(|phase| phase.items);
            Some(items.map(|item| item.object).collect::<Vec<_>>())
        };
        let mut before = Before::default();
        if let Some(installed) = &states.installed {
            let objects = read(installed).await;
            before.installed = objects.map(|found| (installed.bundle.version.clone(), found));
        }
        for revision in &states.rolling_out {
            before
                .rolling_out
                .extend(read(revision).await.unwrap_or_default());
        }
        Ok(before)
    }

    /// Compares what the bundle gives to its accounts with what the installed one gives; what is gained becomes a
    /// warning, and is handed out.
    pub(super) fn rights_gained(
        &self,
        before: &Before,
        content: &Content,
        said: &mut Vec<Warning>,
    ) -> Vec<String> {
        // Those of the installed revision are not about this one.
        said.retain(|warning| warning.reason != Reason::PermissionsGained);
        let Some((version, objects)) = &before.installed else {
            return Vec::new();
        };
        let lines = gained(objects, &content.objects);
        if lines.is_empty() {
            return Vec::new();
        }
        let sentence = format!(
            "Version {} gives the operator rights that version {version} does not give it: {}.",
            self.bundle.version,
            lines.join("; ")
        );
        let sentences = vec![sentence];
        said.extend(warnings(&sentences));
        sentences
    }

    /// Tells what is gained, in status and Event, while nothing is rolled out yet.
    pub(super) async fn tell_gained(
        &mut self,
        ctx: &Context,
        said: &[Warning],
    ) -> Result<(), RolloutError> {
        if !said
            .iter()
            .any(|warning| warning.reason == Reason::PermissionsGained)
        {
            return Ok(());
        }
        let status = with_warnings(&self.extension, said, Timestamp::now());
        let told = report(&self.extension, &status, ctx).await;
        told.map_err(|error| RolloutError::Told(Box::new(error)))?;
        let mut extension = (*self.extension).clone();
        extension.status = Some(status);
        self.extension = extension.into();
        Ok(())
    }
}

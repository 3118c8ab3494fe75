//! An upgrade that gives more rights than the installed version says so, and to whom, before it is rolled out.
//!
//! What is gained is noted on the revision, as findings about CRDs are, and is a warning as long as that is the newest
//! one.

#![expect(
    clippy::disallowed_methods,
    reason = "a condition says since when it holds"
)]

use jiff::Timestamp;

use super::Context;
use super::before::Before;
use super::content::Content;
use super::object::report;
use super::roll_out::{RolloutError, Wish};
use crate::api::condition::Reason;
use crate::api::keys;
use crate::preflight::permissions::{Beneficiary, gained};
use crate::revision::Revision;
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

impl Wish {
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
        let gained = gained(objects, &content.objects);
        let sentence = |(whose, lines): (Beneficiary, Vec<String>)| {
            let (chosen, lines) = (&self.bundle.version, lines.join("; "));
            if chosen == version {
                format!("This change gives {whose} rights that it does not have now: {lines}.")
            } else {
                format!(
                    "Version {chosen} gives {whose} rights that version {version} does not give it: {lines}."
                )
            }
        };
        let sentences: Vec<String> = gained.into_iter().map(sentence).collect();
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

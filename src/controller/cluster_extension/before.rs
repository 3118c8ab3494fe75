//! What an extension's active revisions hold before a new one takes their place.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Context;
use crate::api::object::ObjectKey;
use crate::apply::secrets::Reader;
use crate::identity::IdentityError;
use crate::revision::{Account, Revision, states};

/// What the active revisions hold that a new one is to take the place of.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// The version that is installed, and its objects; none where nothing is, or its content cannot be read.
    pub(super) installed: Option<(String, Vec<Value>)>,
    /// The objects of those that are rolling out.
    rolling_out: Vec<Value>,
}

impl Before {
    /// Reads what the active revisions hold. Content that cannot be read, or was tampered with, is told by its own
    /// revision.
    ///
    /// # Errors
    /// When nobody can act as the account.
    pub(super) async fn read(
        ctx: &Context,
        account: &Account,
        revisions: &[Revision],
    ) -> Result<Self, IdentityError> {
        let states = states(revisions);
        let account = ctx.identity.client_for(account)?;
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
        let mut before = Self::default();
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

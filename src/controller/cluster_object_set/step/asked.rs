//! What is asked before the first write, and after a refusal: are the objects valid, has the account the rights.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use serde_json::Value;

use super::{Step, StepError, Work};
use crate::api::condition::Reason;
use crate::api::keys;
use crate::api::object::{Gvk, ObjectKey};
use crate::apply::content::Content;
use crate::apply::discovery::DiscoveryError;
use crate::apply::permissions::{PreflightError, Preflighter};
use crate::apply::phases::PhasesError;
use crate::controller::cluster_object_set::memory::Entry;
use crate::controller::metrics::Check;
use crate::preflight::permissions::defined_kinds;
use crate::revision::pack::phase_digest;
use crate::revision::rollout::Warning;
use crate::revision::validate;

impl Work<'_> {
    /// What is asked before the first write: are the objects valid, has the account the rights.
    pub(super) async fn check(&self, content: &Content) -> Result<(), Box<Step>> {
        let manifests = manifests(content);
        self.validate(content, &manifests).await?;
        // A revision of an extension was checked before it was made.
        let planned = self.set.annotations().get(keys::CONTENT);
        if planned
            .is_some_and(|planned| (self.ctx.preflight).has_just_passed(&self.account, planned))
        {
            return Ok(());
        }
        let digest = phase_digest("", &manifests).to_string();
        self.ctx
            .preflight
            .check(&self.asking(), &self.account, &digest, &manifests, &[])
            .await
            .map_err(|error| {
                if matches!(error, PreflightError::Lacking(_)) {
                    self.ctx.reporter.metrics().refused(Check::Permissions);
                }
                Box::new(Step::failed(&error))
            })
    }

    /// All that the account lacks, where that is why objects could not be applied: one refusal for each object says
    /// less.
    pub(super) async fn lack(
        &self,
        content: &Content,
        error: &PhasesError,
    ) -> Option<PreflightError> {
        if !error.is_forbidden() {
            return None;
        }
        let accounts = self.ctx.identity.accounts();
        let manifests = manifests(content);
        let lack = self.asking().lack(&self.account, &manifests, &[]).await;
        // Admission refuses with the same code: then its words are what counts.
        let lack = lack.ok().filter(|lack| !lack.is_empty())?;
        accounts.lacks(&self.account, true);
        Some(PreflightError::Lacking(Box::new(lack)))
    }

    /// What is installed is looked at again when the rights of its account change: what is taken away is told before
    /// something goes wrong that then could not be mended.
    pub(super) async fn review(&self, entry: &mut Entry) {
        let accounts = self.ctx.identity.accounts();
        // Read first: rights may change while we ask.
        let now = accounts.epoch_of(&self.account);
        let is_same = entry.rights.replace(now).is_none_or(|then| then == now);
        if is_same && entry.lack.is_none() {
            return;
        }
        let lack = async {
            let content = self.read().await.ok()?.content; // Told by the next pass that needs it.
            let manifests = manifests(&content);
            self.asking()
                .lack(&self.account, &manifests, &[])
                .await
                .ok()
        };
        match lack.await {
            Some(lack) => {
                let lacks = !lack.is_empty();
                accounts.lacks(&self.account, lacks);
                let error = PreflightError::Lacking(Box::new(lack));
                entry.lack = lacks.then(|| Warning {
                    reason: Reason::PermissionsMissing,
                    sentence: format!(
                        "Service account {} no longer has all rights that it takes to maintain and remove this: {error}",
                        self.account
                    ),
                });
            }
            // Not found out: the next pass asks.
            None => entry.rights = now.checked_sub(1),
        }
    }

    fn asking(&self) -> Preflighter<'_> {
        Preflighter {
            own: &self.ctx.client,
            client: &self.client,
            discovery: &self.ctx.discovery,
            accounts: self.ctx.identity.accounts(),
        }
    }

    async fn validate(&self, content: &Content, manifests: &[Value]) -> Result<(), Box<Step>> {
        let boxed = |step| Box::new(step);
        let namespaced = self.namespaced(manifests).await;
        let namespaced =
            namespaced.map_err(|error| boxed(Step::failed(&PreflightError::Discover(error))))?;
        let phases = content.phases.iter().map(|phase| {
            let objects = phase.items.iter().map(|item| (&item.key, &item.object));
            (phase.name.as_str(), objects.collect())
        });
        let (name, number) = (self.set.name_any(), self.set.spec.revision);
        let Some(text) = validate::validate(&name, number, &namespaced, phases) else {
            return Ok(());
        };
        self.ctx.reporter.metrics().refused(Check::Objects);
        Err(boxed(Step::failed(&StepError::Invalid(text))))
    }

    /// The kinds of objects without namespace that must have one. A kind that nobody knows yet is left to the API
    /// server.
    async fn namespaced(&self, manifests: &[Value]) -> Result<BTreeSet<Gvk>, DiscoveryError> {
        let defined = defined_kinds(manifests);
        let keys = manifests.iter().filter_map(|it| ObjectKey::of(it).ok()); // Others are no content.
        let kinds: BTreeSet<Gvk> = keys
            .filter(|key| key.namespace.is_empty())
            .map(|key| key.gvk)
            .collect();
        let mut namespaced = BTreeSet::new();
        for gvk in kinds {
            let kind = (gvk.group.clone(), gvk.kind.clone());
            let resource = match defined.get(&kind) {
                Some(resource) => Some(resource.clone()),
                None => self.ctx.discovery.resource(&gvk).await?,
            };
            if resource.is_some_and(|resource| resource.is_namespaced) {
                namespaced.insert(gvk);
            }
        }
        Ok(namespaced)
    }
}

fn manifests(content: &Content) -> Vec<Value> {
    let items = content.phases.iter().flat_map(|phase| &phase.items);
    items.map(|item| item.object.clone()).collect()
}

//! The objects of one revision, in their phases.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::api::object::ObjectKey;
use crate::apply::objects::Item;
use crate::render::serving::{Serving, servings};

/// The objects of one revision as they stand in their sources.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Content {
    /// The phases in their order.
    pub phases: Vec<ContentPhase>,
    /// Who among the objects serves webhooks with certificates that oxolm makes.
    pub servings: Vec<Serving>,
}

/// The objects of one phase.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ContentPhase {
    /// The name of the phase.
    pub name: String,
    /// Its objects.
    pub items: Vec<Item>,
}

impl Content {
    /// Takes the certificates of webhooks on: their Secrets become objects of the revision, in time for the Deployments
    /// that mount them.
    #[must_use]
    pub fn with_certificates(mut self) -> Self {
        let items = self.phases.iter().flat_map(|phase| &phase.items);
        self.servings = servings(items.map(|item| &item.object));
        for serving in &self.servings {
            let mounting = |phase: &ContentPhase| {
                let mut items = phase.items.iter();
                items
                    .find(|item| serving.deployments.contains(&item.key))
                    .cloned()
            };
            let mut phases = self.phases.iter().enumerate();
            let found = phases.find_map(|(at, phase)| Some((at, mounting(phase)?)));
            if let Some((at, deployment)) = found
                && let Some(phase) = self.phases.get_mut(at.saturating_sub(1))
            {
                let secret = Item::secret(&serving.secret, &deployment);
                phase.items.insert(0, secret);
            }
        }
        self
    }

    /// The object that is called so.
    pub(super) fn item(&self, key: &ObjectKey) -> Option<&Item> {
        let mut items = self.phases.iter().flat_map(|phase| &phase.items);
        items.find(|item| item.key == *key)
    }

    /// The configuration that a webhook of this name stands in.
    pub(super) fn webhook(&self, name: &str) -> Option<&ObjectKey> {
        let mut items = self.phases.iter().flat_map(|phase| &phase.items);
        let is_named = |webhook: &Value| webhook.get("name").and_then(Value::as_str) == Some(name);
        let found = items.find(|item| {
            let webhooks = item.object.get("webhooks").and_then(Value::as_array);
            item.key.gvk.group == "admissionregistration.k8s.io"
                && webhooks.is_some_and(|webhooks| webhooks.iter().any(is_named))
        });
        found.map(|item| &item.key)
    }

    /// The keys of each phase.
    pub fn keys(&self) -> Vec<(String, Vec<ObjectKey>)> {
        let keys = |phase: &ContentPhase| phase.items.iter().map(|item| item.key.clone()).collect();
        self.phases
            .iter()
            .map(|phase| (phase.name.clone(), keys(phase)))
            .collect()
    }

    /// How many objects of the kind that this CRD defines there are.
    pub(super) fn of_kind(&self, crd: &Value) -> usize {
        let text = |pointer| crd.pointer(pointer).and_then(Value::as_str);
        let (group, kind) = (text("/spec/group"), text("/spec/names/kind"));
        let items = self.phases.iter().flat_map(|phase| &phase.items);
        items
            .map(|item| &item.key.gvk)
            .filter(|gvk| Some(&*gvk.group) == group && Some(&*gvk.kind) == kind)
            .count()
    }
}

/// An object as it was read in this pass; none: it was not there.
pub(super) struct Read(pub(super) Option<Value>);

/// What was read in this pass.
pub(super) type ReadObjects = BTreeMap<ObjectKey, Read>;

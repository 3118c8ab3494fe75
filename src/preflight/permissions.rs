//! Which rights an account needs to install manifests, keep them and take them back, and which of them it lacks.
//!
//! The rules and the message are those of the reference's pre-authorization (operator-controller up to v1.10,
//! `internal/operator-controller/authorization/rbac.go`), with these differences:
//!
//! - Only what is done is asked for: per object `get`, `patch` and `delete` by name; per resource and namespace
//!   `create`. `update` is named in the message beside `patch`, as there, but whoever lacks it alone lacks nothing;
//!   nobody needs rights on finalizers.
//! - A kind whose CRD comes with the same manifests is known.
//! - A binding to a role that nobody has made yet needs `bind`, since the API server refuses it otherwise.
//!
//! ```text
//! manifests ─needs→ Needs ─least→ Grants: the roles and bindings that are just enough
//!                     └─missing, given the rules that an account holds→ MissingRules: the message
//! ```

mod escalation;
mod gained;
mod grant;
mod kinds;
mod missing;
mod rule;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::api::object::{Gvk, InvalidObject, ObjectKey};
use crate::error::{Classify, Disposition, Reason, quoted};
use escalation::Escalation;

pub use escalation::{RoleRef, live_rules};
pub use gained::{Beneficiary, gained};
pub use grant::Grants;
pub use kinds::{built_in, defined_kinds};
pub use missing::MissingRules;
pub use rule::{Right, Rule, covers};
pub use words::{Danger, Power, powers};

/// The API group of roles and bindings.
const RBAC: &str = "rbac.authorization.k8s.io";
/// What is done to an object after it was created, by name.
const NAMED_VERBS: [&str; 3] = ["get", "patch", "delete"];

/// How a kind is called in requests and rules.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource {
    /// The API group, empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name.
    pub plural: String,
    /// Whether its objects live in namespaces.
    pub is_namespaced: bool,
}

/// A right in a place: what one asks an authorizer about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// The namespace; empty: everywhere, or outside of namespaces.
    pub namespace: String,
    /// The right.
    pub right: Right,
}

impl Access {
    /// To list a resource everywhere.
    pub fn to_list(group: &str, plural: &str) -> Self {
        Self {
            namespace: String::new(),
            right: Right::on(group, plural, None, "list"),
        }
    }
}

/// What an account must be allowed to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    accesses: BTreeSet<Access>,
    escalations: Vec<Escalation>,
}

/// The rights that an account has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeldRules {
    /// Everywhere.
    pub cluster: Vec<Rule>,
    /// In one namespace, beside those that hold everywhere.
    pub namespaces: BTreeMap<String, Vec<Rule>>,
}

/// The rules of the roles in the cluster that bindings refer to. A role that is not here does not exist.
pub type LiveRoles = BTreeMap<RoleRef, Vec<Rule>>;

/// Manifests whose needs cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NeedsError {
    /// A manifest without apiVersion, kind or name.
    #[error("cannot tell which permissions manifest {index} needs")]
    Unidentified {
        /// Its place.
        index: usize,
        /// What is missing.
        #[source]
        source: InvalidObject,
    },
    /// A kind that the API server does not serve, and no manifest defines. The text is the reference's, with what to do.
    #[error(
        "could not get REST mapping for object {index} in manifest with GVK {}, Kind={} (name: {name}): no matches for kind {} in version {}: {}",
        gvk.api_version(), gvk.kind, quoted(&gvk.kind), quoted(&gvk.api_version()), remedy(gvk)
    )]
    UnknownKind {
        /// Its place.
        index: usize,
        /// Its kind.
        gvk: Box<Gvk>,
        /// Its name.
        name: String,
    },
}

/// What is said of a kind of a group that Kubernetes itself has, in a version that it does not serve.
pub const REMOVED_API: &str = "this Kubernetes does not serve that version of its own API: choose a version of the bundle that is made for it";

/// What is said of a list where an object should be.
pub const LIST: &str = "a list is no object: put each of its items in its place";

/// The groups of Kubernetes itself that bundles have objects of, or had. Others that end alike are defined by CRDs.
const OF_KUBERNETES: [&str; 20] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "extensions",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];

/// What helps where a kind is not served: nobody can install an API of Kubernetes.
fn remedy(gvk: &Gvk) -> &'static str {
    let is_of_kubernetes = OF_KUBERNETES.contains(&gvk.group.as_str());
    if is_of_kubernetes && gvk.kind.ends_with("List") {
        LIST
    } else if is_of_kubernetes {
        REMOVED_API
    } else {
        "install what defines it first"
    }
}

impl Classify for NeedsError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Unidentified { .. } => Disposition::Terminal(Reason::Blocked),
            Self::UnknownKind { .. } => Disposition::Retry,
        }
    }
}

/// The rights that are needed to create, keep and delete `manifests`.
///
/// `known` says how a kind is called by the API server; kinds that a CRD among the manifests defines are known.
///
/// # Errors
/// When a manifest does not say what it is, or its kind is unknown.
pub fn needs(
    manifests: &[Value],
    known: &dyn Fn(&Gvk) -> Option<Resource>,
) -> Result<Needs, NeedsError> {
    let mut needs = Needs::default();
    let defined = defined_kinds(manifests);
    for (index, manifest) in manifests.iter().enumerate() {
        let key =
            ObjectKey::of(manifest).map_err(|source| NeedsError::Unidentified { index, source })?;
        let kind = (key.gvk.group.clone(), key.gvk.kind.clone());
        let resource = defined
            .get(&kind)
            .cloned()
            .or_else(|| known(&key.gvk))
            .ok_or_else(|| NeedsError::UnknownKind {
                index,
                gvk: Box::new(key.gvk.clone()),
                name: key.name.clone(),
            })?;
        let namespace = if resource.is_namespaced {
            key.namespace.as_str()
        } else {
            ""
        };
        needs.add_object(&resource, namespace, &key.name);
        let escalation = Escalation::of(&key.gvk, namespace, manifest, manifests);
        needs.escalations.extend(escalation);
    }
    Ok(needs)
}

impl Needs {
    /// What is needed besides to take down `leaving`, objects that are there and no longer wanted. A kind that nobody knows
    /// any more has none.
    #[must_use]
    pub fn and_to_take_down(
        mut self,
        leaving: &[Value],
        known: &dyn Fn(&Gvk) -> Option<Resource>,
    ) -> Self {
        for key in leaving
            .iter()
            .filter_map(|object| ObjectKey::of(object).ok())
        {
            let Some(resource) = known(&key.gvk) else {
                continue;
            };
            let namespace = if resource.is_namespaced {
                key.namespace
            } else {
                String::new()
            };
            for verb in ["get", "delete"] {
                self.accesses.insert(Access {
                    namespace: namespace.clone(),
                    right: Right::on(&resource.group, &resource.plural, Some(&key.name), verb),
                });
            }
        }
        self
    }

    fn add_object(&mut self, resource: &Resource, namespace: &str, name: &str) {
        let named = NAMED_VERBS.map(|verb| (verb, Some(name)));
        for (verb, name) in [("create", None)].into_iter().chain(named) {
            self.accesses.insert(Access {
                namespace: namespace.to_owned(),
                right: Right::on(&resource.group, &resource.plural, name, verb),
            });
        }
    }

    /// The same, and to watch each of the Secrets by its name: not needed, but a change of a Secret that nobody may watch is
    /// seen late, and who may read one learns nothing else by it.
    #[must_use]
    pub fn and_to_watch_secrets(mut self) -> Self {
        let watched = |access: &Access| match &access.right {
            Right::Resource {
                group,
                resource,
                name: Some(name),
                verb,
            } if group.is_empty() && resource == "secrets" && verb == "get" => {
                let right = |verb| Right::on(group, resource, Some(name), verb);
                let namespace = &access.namespace;
                Some(["list", "watch"].map(|verb| Access {
                    namespace: namespace.clone(),
                    right: right(verb),
                }))
            }
            Right::Resource { .. } | Right::Url { .. } => None,
        };
        let all: Vec<Access> = (self.accesses.iter().filter_map(watched).flatten()).collect();
        self.accesses.extend(all);
        self
    }

    /// What is needed for these manifests and those.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.accesses.extend(other.accesses.iter().cloned());
        self.escalations.extend(other.escalations.iter().cloned());
        self
    }

    /// The namespaces in which rights are needed.
    pub fn namespaces(&self) -> BTreeSet<&str> {
        let of_accesses = self.accesses.iter().map(|access| access.namespace.as_str());
        let of_escalations = self.escalations.iter().map(Escalation::namespace);
        of_accesses
            .chain(of_escalations)
            .filter(|namespace| !namespace.is_empty())
            .collect()
    }

    /// The roles that bindings refer to and that are not among the manifests.
    pub fn referenced_roles(&self) -> BTreeSet<RoleRef> {
        self.escalations
            .iter()
            .filter_map(Escalation::referenced_role)
            .cloned()
            .collect()
    }

    /// What `held` leaves open: questions for authorizers that do not list their rules.
    ///
    /// The rights that roles give are not among them: the API server compares roles with rules, and asks no other
    /// authorizer. Whether the account may bypass that is.
    pub fn open(&self, held: &HeldRules, live: &LiveRoles) -> BTreeSet<Access> {
        let plain = self.accesses.iter().filter(|access| !held.allow(access));
        let bypasses = self
            .escalations
            .iter()
            .filter(|escalation| {
                !escalation.is_allowed(held) && !escalation.uncovered(held, live).is_empty()
            })
            .map(Escalation::bypass);
        plain.chain(bypasses).cloned().collect()
    }

    /// What an account with the rules `held` lacks.
    ///
    /// `live` are the rules of [`Self::referenced_roles`], `granted` what else an authorizer has said yes to.
    pub fn missing(
        &self,
        held: &HeldRules,
        live: &LiveRoles,
        granted: &BTreeSet<Access>,
    ) -> MissingRules {
        let allowed = |access: &Access| held.allow(access) || granted.contains(access);
        let mut missing = MissingRules::default();
        for access in self.accesses.iter().filter(|access| !allowed(access)) {
            missing.add(access.clone());
            let update = access.right.update_for_patch().map(|right| Access {
                namespace: access.namespace.clone(),
                right,
            });
            missing.extend(update.filter(|update| !allowed(update)));
        }
        for escalation in &self.escalations {
            if !allowed(escalation.bypass()) {
                missing.extend(escalation.uncovered(held, live));
            }
        }
        missing
    }
}

impl Right {
    /// The right that is named together with `patch`.
    ///
    /// It allows the same changes by another HTTP method, which we do not use; but the reference's line has it, and
    /// people match that line.
    fn update_for_patch(&self) -> Option<Self> {
        match self {
            Self::Resource {
                group,
                resource,
                name,
                verb,
            } if verb == "patch" => Some(Self::on(group, resource, name.as_deref(), "update")),
            Self::Resource { .. } | Self::Url { .. } => None,
        }
    }
}

impl HeldRules {
    /// Whether RBAC allows it.
    pub fn allow(&self, access: &Access) -> bool {
        let here = self.namespaces.get(&access.namespace).into_iter().flatten();
        self.cluster
            .iter()
            .chain(here)
            .any(|rule| rule.covers(&access.right))
    }
}

#[cfg(test)]
mod tests;

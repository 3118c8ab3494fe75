//! Roles and bindings give rights away, and only who has them may: the API server's escalation check.
//!
//! A role may be written by who holds every rule in it, or may `escalate` roles. A binding may be written by who holds
//! every rule of the role where it binds, or may `bind` that role. `escalate` counts only without resource names, since
//! a request that creates has no name. Follows `pkg/registry/rbac` of Kubernetes.

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

use super::rule::{Right, Rule};
use super::{Access, HeldRules, LiveRoles, RBAC};
use crate::api::object::{Gvk, ObjectKey};

/// A role that a binding refers to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoleRef {
    /// The namespace of a `Role`; none for a `ClusterRole`.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// A role or binding that may only be written by who has the rights that it gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Escalation {
    /// Who may do this needs no rights: `escalate` on roles, `bind` on the role. It holds where the rights must be held.
    bypass: Access,
    given: Given,
}

/// What is given away.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Given {
    /// The rules of a role among the manifests.
    Rules(Vec<Rule>),
    /// A role among the manifests that gathers rules from other roles: everything must be held to write one.
    Gathering(Vec<Rule>),
    /// What such a role will have gathered when it is bound, which nobody knows.
    Gathered,
    /// The rules of a role that is not among the manifests.
    Live(RoleRef),
}

impl Escalation {
    /// What writing `manifest` asks for; nothing unless it is a role or a binding.
    pub(super) fn of(
        gvk: &Gvk,
        namespace: &str,
        manifest: &Value,
        manifests: &[Value],
    ) -> Option<Self> {
        let access = |verb, resource: &str, name: Option<&str>| Access {
            namespace: namespace.to_owned(),
            right: Right::on(RBAC, resource, name, verb),
        };
        if gvk.group != RBAC {
            return None;
        }
        let (bypass, given) = match gvk.kind.as_str() {
            "Role" => (access("escalate", "roles", None), Given::by_role(manifest)),
            "ClusterRole" => (
                access("escalate", "clusterroles", None),
                Given::by_role(manifest),
            ),
            "RoleBinding" | "ClusterRoleBinding" => {
                // The API server refuses a binding without role.
                let (resource, role) = role_ref(manifest, namespace)?;
                let bypass = access("bind", resource, Some(&role.name));
                (bypass, Given::by_binding(role, manifests))
            }
            _ => return None,
        };
        Some(Self { bypass, given })
    }

    pub(super) fn namespace(&self) -> &str {
        &self.bypass.namespace
    }

    pub(super) fn bypass(&self) -> &Access {
        &self.bypass
    }

    pub(super) fn is_allowed(&self, held: &HeldRules) -> bool {
        held.allow(&self.bypass)
    }

    pub(super) fn referenced_role(&self) -> Option<&RoleRef> {
        match &self.given {
            Given::Live(role) => Some(role),
            Given::Rules(_) | Given::Gathering(_) | Given::Gathered => None,
        }
    }

    /// What of the given rights is not held, each right on its own; the bypass where the rights are not known.
    pub(super) fn uncovered(&self, held: &HeldRules, live: &LiveRoles) -> Vec<Access> {
        let everything = Rule::everything();
        let lacks = |rules: &[Rule]| -> Vec<Access> {
            rules
                .iter()
                .flat_map(Rule::rights)
                .map(|right| self.here(right))
                .filter(|access| !held.allow(access))
                .collect()
        };
        match &self.given {
            Given::Rules(rules) => lacks(rules),
            Given::Gathering(rules) => {
                let mut lacking = lacks(rules);
                lacking.extend(lacks(&everything));
                lacking
            }
            Given::Gathered if lacks(&everything).is_empty() => Vec::new(),
            Given::Gathered => vec![self.bypass.clone()],
            Given::Live(role) => match live.get(role) {
                Some(rules) => lacks(rules),
                None => vec![self.bypass.clone()],
            },
        }
    }

    /// The least rights with which it may be written, if nothing is known of the cluster.
    pub(super) fn least(&self) -> Vec<Access> {
        match &self.given {
            Given::Rules(rules) => rules
                .iter()
                .flat_map(Rule::rights)
                .map(|right| self.here(right))
                .collect(),
            Given::Gathering(_) | Given::Gathered | Given::Live(_) => vec![self.bypass.clone()],
        }
    }

    fn here(&self, right: Right) -> Access {
        Access {
            namespace: self.bypass.namespace.clone(),
            right,
        }
    }
}

impl Given {
    fn by_role(manifest: &Value) -> Self {
        let rules = live_rules(manifest);
        if gathers(manifest) {
            Self::Gathering(rules)
        } else {
            Self::Rules(rules)
        }
    }

    fn by_binding(role: RoleRef, manifests: &[Value]) -> Self {
        let kind = if role.namespace.is_some() {
            "Role"
        } else {
            "ClusterRole"
        };
        let is_it = |key: &ObjectKey| {
            key.gvk.is(RBAC, kind)
                && key.name == role.name
                && role
                    .namespace
                    .as_ref()
                    .is_none_or(|namespace| *namespace == key.namespace)
        };
        let found = manifests
            .iter()
            .find(|manifest| ObjectKey::of(manifest).is_ok_and(|key| is_it(&key)));
        match found {
            Some(manifest) if gathers(manifest) => Self::Gathered,
            Some(manifest) => Self::Rules(live_rules(manifest)),
            None => Self::Live(role),
        }
    }
}

/// The rules that stand in a role. What is no list of rules gives nothing: the API server refuses it.
pub fn live_rules(role: &Value) -> Vec<Rule> {
    let rules: Vec<PolicyRule> = role
        .get("rules")
        .and_then(|rules| serde_json::from_value(rules.clone()).ok()) // See above.
        .unwrap_or_default();
    rules.into_iter().map(Rule::from).collect()
}

pub(super) fn gathers(role: &Value) -> bool {
    role.pointer("/aggregationRule/clusterRoleSelectors")
        .and_then(Value::as_array)
        .is_some_and(|selectors| !selectors.is_empty())
}

pub(super) fn role_ref(binding: &Value, namespace: &str) -> Option<(&'static str, RoleRef)> {
    let text = |pointer| binding.pointer(pointer).and_then(Value::as_str);
    let name = text("/roleRef/name")?.to_owned();
    match text("/roleRef/kind")? {
        "Role" => Some((
            "roles",
            RoleRef {
                namespace: Some(namespace.to_owned()),
                name,
            },
        )),
        "ClusterRole" => Some((
            "clusterroles",
            RoleRef {
                namespace: None,
                name,
            },
        )),
        _ => None,
    }
}

//! The least roles with which an account has what manifests need.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::escalation::Escalation;
use super::rule::{Right, Rule, join};
use super::{Access, HeldRules, LiveRoles, Needs, RBAC};

/// Rules by namespace (empty: everywhere) that give just what is needed: no rule can be left out, and none gives more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants(BTreeMap<String, Vec<Rule>>);

impl Needs {
    /// The least rules with which an account lacks nothing.
    ///
    /// Roles are written by holding what they give, never by `escalate` or `bind`, with two exceptions: where what they
    /// give is not known (a role that gathers others', or one that is not among the manifests), and where holding what
    /// they give means holding `escalate` or `bind`. Whoever holds these needs nothing else of what is given.
    pub fn least(&self) -> Grants {
        let rights = |escalation: &Escalation| escalation.least().into_iter().map(placeable);
        let mut all: BTreeSet<Access> = self.accesses.clone();
        all.extend(self.escalations.iter().flat_map(rights));
        let (mut kept, mut bypasses) = (self.accesses.clone(), BTreeSet::new());
        for escalation in &self.escalations {
            match all.iter().find(|access| gives(access, escalation.bypass())) {
                Some(bypass) => _ = bypasses.insert(bypass.clone()),
                None => kept.extend(rights(escalation)),
            }
        }
        kept.extend(bypasses.iter().cloned());
        for bypass in &bypasses {
            kept.remove(bypass);
            let (live, granted) = (LiveRoles::new(), BTreeSet::new());
            if !self.missing(&held(&kept), &live, &granted).is_empty() {
                kept.insert(bypass.clone());
            }
        }
        Grants::of(&kept)
    }
}

/// The rules of an account that has just these rights.
fn held(accesses: &BTreeSet<Access>) -> HeldRules {
    let mut held = HeldRules::default();
    for access in accesses {
        let rules = match access.namespace.as_str() {
            "" => &mut held.cluster,
            namespace => held.namespaces.entry(namespace.to_owned()).or_default(),
        };
        rules.push(access.right.rule());
    }
    held
}

/// Whether whoever has `held` has `access`, too.
fn gives(held: &Access, access: &Access) -> bool {
    (held.namespace.is_empty() || held.namespace == access.namespace)
        && held.right.covers(&access.right)
}

/// A `Role` cannot hold paths that are no resources, a `ClusterRole` can.
fn placeable(access: Access) -> Access {
    match access.right {
        Right::Url { .. } => Access {
            namespace: String::new(),
            ..access
        },
        Right::Resource { .. } => access,
    }
}

impl Grants {
    fn of(accesses: &BTreeSet<Access>) -> Self {
        let mut rights: BTreeMap<String, Vec<Right>> = BTreeMap::new();
        for access in accesses {
            if !is_held_otherwise(access, accesses) {
                let here = rights.entry(access.namespace.clone()).or_default();
                here.push(access.right.clone());
            }
        }
        let joined = rights.into_iter().map(|(namespace, rights)| {
            let rules = rights.iter().map(Right::rule).collect();
            (namespace, joined(rules))
        });
        Self(joined.collect())
    }

    /// The rules by namespace (empty: everywhere), sorted.
    pub fn by_namespace(&self) -> &BTreeMap<String, Vec<Rule>> {
        &self.0
    }

    /// The roles and bindings that give the account `account` of `account_namespace` these rules: first what holds
    /// everywhere, then namespace by namespace.
    ///
    /// `purpose` is part of their names, so that one account can have several sets. They carry no label of ours: the
    /// rights of those who install are watched, those of the installed are not.
    pub fn manifests(&self, account_namespace: &str, account: &str, purpose: &str) -> Vec<Value> {
        self.0
            .iter()
            .flat_map(|(namespace, rules)| {
                let (kind, name, metadata) = if namespace.is_empty() {
                    let name = format!("{account_namespace}:{account}:{purpose}");
                    ("ClusterRole", name.clone(), json!({"name": name}))
                } else {
                    let name = format!("{account}:{purpose}");
                    let metadata = json!({"name": name, "namespace": namespace});
                    ("Role", name, metadata)
                };
                let rules: Vec<Value> = rules.iter().map(Rule::manifest).collect();
                let role = json!({
                    "apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata, "rules": rules,
                });
                let binding = json!({
                    "apiVersion": format!("{RBAC}/v1"), "kind": format!("{kind}Binding"), "metadata": metadata,
                    "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
                    "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": account_namespace}],
                });
                [role, binding]
            })
            .collect()
    }
}

/// Whether another access gives this one, too. Of two that give each other the first one stays.
fn is_held_otherwise(access: &Access, all: &BTreeSet<Access>) -> bool {
    all.iter().any(|other| {
        other != access && gives(other, access) && (other < access || !gives(access, other))
    })
}

/// Joins rules as far as that neither adds nor loses a right.
fn joined(rules: Vec<Rule>) -> Vec<Rule> {
    let rules = join(rules, |rule| &mut rule.verbs);
    let rules = join(rules, |rule| &mut rule.names);
    let rules = join(rules, |rule| &mut rule.resources);
    let rules = join(rules, |rule| &mut rule.groups);
    join(rules, |rule| &mut rule.urls)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::rule::tests::{allows, any_rule, universe};
    use super::*;

    fn accesses(rules: &[(&str, Rule)]) -> BTreeSet<Access> {
        let access = |namespace: &str, right| Access {
            namespace: namespace.to_owned(),
            right,
        };
        rules
            .iter()
            .flat_map(|(namespace, rule)| {
                let rights = rule.rights().into_iter();
                rights.map(move |right| access(namespace, right))
            })
            .collect()
    }

    fn rules_in<'a>(grants: &'a Grants, namespace: &str) -> Vec<&'a Rule> {
        let places = BTreeSet::from(["", namespace]);
        let rules = places
            .iter()
            .filter_map(|place| grants.by_namespace().get(*place));
        rules.flatten().collect()
    }

    proptest! {
        /// What is granted is what was asked for, request for request; and no rule can go.
        #[test]
        fn grants_are_exact_and_least(
            cluster in prop::collection::vec(any_rule(), 0..3),
            here in prop::collection::vec(any_rule(), 0..3),
        ) {
            let wanted: Vec<(&str, Rule)> = cluster.iter().map(|rule| ("", rule.clone()))
                .chain(here.iter().map(|rule| ("n", rule.clone()))).collect();
            let grants = Grants::of(&accesses(&wanted));
            let granted = rules_in(&grants, "n");
            for asked in universe() {
                let is_wanted = wanted.iter().any(|(_, rule)| allows(rule, &asked));
                prop_assert_eq!(granted.iter().any(|rule| allows(rule, &asked)), is_wanted, "{:?}", asked);
                let is_wanted = cluster.iter().any(|rule| allows(rule, &asked));
                let everywhere = rules_in(&grants, "");
                prop_assert_eq!(everywhere.iter().any(|rule| allows(rule, &asked)), is_wanted, "{:?}", asked);
            }
            // What holds everywhere cannot be left out because it holds here, too.
            for (namespace, rules) in grants.by_namespace() {
                for rule in rules {
                    let others = rules_in(&grants, namespace);
                    let is_given_twice = |right| others.iter().any(|other| *other != rule && other.covers(&right));
                    prop_assert!(!rule.rights().into_iter().any(is_given_twice), "{:?}", rule);
                }
            }
        }
    }
}

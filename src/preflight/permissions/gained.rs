//! Which rights the accounts of another version of a bundle have that those of the installed one have not.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::escalation::{gathers, live_rules, role_ref};
use super::missing::MissingRules;
use super::{Access, HeldRules, RBAC, RoleRef};
use crate::api::object::ObjectKey;

/// What the bindings among some manifests give.
#[derive(Debug, Default)]
struct Given {
    rules: HeldRules,
    /// Roles that are not among the manifests, and where their rules hold.
    foreign: BTreeSet<(String, RoleRef)>,
}

/// What `new` gives to accounts and `old` does not: a line per rule, and per role of the cluster, sorted.
///
/// The accounts of a bundle count as one: a right that another account of it had is not gained.
pub fn gained(old: &[Value], new: &[Value]) -> Vec<String> {
    let (old, new) = (Given::of(old), Given::of(new));
    let mut gained = MissingRules::default();
    for (namespace, rules) in new.rules.by_namespace() {
        for right in rules.iter().flat_map(super::Rule::rights) {
            let namespace = namespace.to_owned();
            let access = Access { namespace, right };
            if !old.rules.allow(&access) {
                gained.add(access);
            }
        }
    }
    let foreign = new.foreign.difference(&old.foreign);
    let foreign = foreign.map(|(namespace, role)| {
        let (kind, place) = match &role.namespace {
            Some(place) => ("Role", format!("{place}/")),
            None => ("ClusterRole", String::new()),
        };
        let namespace = crate::error::quoted(namespace);
        format!(
            "Namespace:{namespace} all rules of {kind} {place}{}",
            role.name
        )
    });
    let mut lines = gained.lines();
    lines.extend(foreign);
    lines.sort();
    lines
}

impl HeldRules {
    fn by_namespace(&self) -> impl Iterator<Item = (&str, &Vec<super::Rule>)> {
        let here = self.namespaces.iter();
        let here = here.map(|(namespace, rules)| (namespace.as_str(), rules));
        [("", &self.cluster)].into_iter().chain(here)
    }
}

impl Given {
    fn of(manifests: &[Value]) -> Self {
        let keys = || {
            manifests
                .iter()
                .filter_map(|one| Some((ObjectKey::of(one).ok()?, one)))
        };
        let roles: BTreeMap<RoleRef, &Value> = keys()
            .filter_map(|(key, role)| {
                let namespace = if key.gvk.is(RBAC, "Role") {
                    Some(key.namespace)
                } else if key.gvk.is(RBAC, "ClusterRole") {
                    None
                } else {
                    return None;
                };
                let name = key.name;
                Some((RoleRef { namespace, name }, role))
            })
            .collect();
        let mut given = Self::default();
        for (key, binding) in keys() {
            let namespace = if key.gvk.is(RBAC, "RoleBinding") {
                key.namespace
            } else if key.gvk.is(RBAC, "ClusterRoleBinding") {
                String::new()
            } else {
                continue;
            };
            let Some((_, role)) = role_ref(binding, &namespace) else {
                continue;
            };
            match roles.get(&role) {
                // What it gathers is not known here.
                Some(found) if gathers(found) => _ = given.foreign.insert((namespace, role)),
                Some(found) if namespace.is_empty() => {
                    given.rules.cluster.extend(live_rules(found));
                }
                Some(found) => {
                    let rules = given.rules.namespaces.entry(namespace).or_default();
                    rules.extend(live_rules(found));
                }
                None => _ = given.foreign.insert((namespace, role)),
            }
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role(kind: &str, name: &str, verbs: &[&str]) -> Value {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": name, "namespace": if kind == "Role" { "n" } else { "" }},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]})
    }

    fn binding(kind: &str, role_kind: &str, role: &str) -> Value {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": role, "namespace": if kind == "RoleBinding" { "n" } else { "" }},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "n"}]})
    }

    #[test]
    fn rights_that_are_new_are_named_wherever_they_were_put() {
        let here = |verbs: &[&str]| {
            vec![
                role("Role", "r", verbs),
                binding("RoleBinding", "Role", "r"),
            ]
        };
        let everywhere = |verbs: &[&str]| {
            vec![
                role("ClusterRole", "c", verbs),
                binding("ClusterRoleBinding", "ClusterRole", "c"),
            ]
        };
        let line = |namespace: &str, verbs: &str| {
            format!("Namespace:\"{namespace}\" APIGroups:[] Resources:[pods] Verbs:[{verbs}]")
        };
        let view = binding("RoleBinding", "ClusterRole", "view");
        let unbound = vec![role("ClusterRole", "c", &["*"])];
        let all_view = "Namespace:\"n\" all rules of ClusterRole view".to_owned();
        for (old, new, expected) in [
            (here(&["get"]), here(&["get"]), vec![]),
            (here(&["get", "list"]), here(&["get"]), vec![]),
            (here(&["*"]), here(&["get"]), vec![]),
            (
                here(&["get"]),
                here(&["get", "delete", "create"]),
                vec![line("n", "create,delete")],
            ),
            (here(&["get"]), here(&["*"]), vec![line("n", "*")]),
            (everywhere(&["get"]), here(&["get"]), vec![]),
            (here(&["get"]), everywhere(&["get"]), vec![line("", "get")]),
            (vec![], unbound, vec![]),
            (vec![], vec![view.clone()], vec![all_view]),
            (vec![view.clone()], vec![view], vec![]),
        ] {
            assert_eq!(gained(&old, &new), expected, "{old:?}\n{new:?}");
        }
    }
}

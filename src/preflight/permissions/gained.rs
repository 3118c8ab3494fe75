//! Which rights another version of a bundle gives that the installed one does not give, and to whom.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::escalation::{gathers, live_rules, role_ref};
use super::missing::MissingRules;
use super::{Access, HeldRules, RBAC, RoleRef};
use crate::api::object::ObjectKey;

/// Who gets rights by a binding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Beneficiary {
    /// Everybody who has an account of any kind, or not even that: the group.
    Everybody(String),
    /// Somebody that the bundle does not bring: kind and name.
    Other(String),
    /// The accounts of the bundle. They count as one: a right that another of them had is not gained.
    Operator,
}

/// The groups that whoever talks to the API server is in, or may be.
const EVERYBODY: [&str; 3] = [
    "system:authenticated",
    "system:unauthenticated",
    "system:serviceaccounts",
];

impl Beneficiary {
    fn of(subject: &Value, home: &str, own: &BTreeSet<(String, String)>) -> Option<Self> {
        let text = |member: &str| subject.get(member).and_then(Value::as_str);
        let (kind, name) = (text("kind")?, text("name")?);
        Some(match kind {
            "ServiceAccount" => {
                let namespace = text("namespace").unwrap_or(home);
                if own.contains(&(namespace.to_owned(), name.to_owned())) {
                    Self::Operator
                } else {
                    Self::Other(format!("ServiceAccount {namespace}/{name}"))
                }
            }
            "Group" if EVERYBODY.contains(&name) => Self::Everybody(name.to_owned()),
            _ => Self::Other(format!("{kind} {name}")),
        })
    }
}

impl std::fmt::Display for Beneficiary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Everybody(group) => write!(f, "everybody in Group {group}"),
            Self::Other(name) => f.write_str(name),
            Self::Operator => f.write_str("the operator"),
        }
    }
}

/// The accounts that manifests bring or run something as: namespace and name.
fn own_accounts(manifests: &[Value]) -> BTreeSet<(String, String)> {
    let accounts = manifests.iter().filter_map(|one| {
        let key = ObjectKey::of(one).ok()?;
        let template = one.pointer("/spec/template/spec");
        match template {
            _ if key.gvk.is("", "ServiceAccount") => Some((key.namespace, key.name)),
            Some(pod) => {
                let name = pod.get("serviceAccountName").and_then(Value::as_str);
                Some((key.namespace, name.unwrap_or("default").to_owned()))
            }
            None => None,
        }
    });
    accounts.collect()
}

/// What the bindings among some manifests give to one beneficiary.
#[derive(Debug, Default)]
struct Given {
    rules: HeldRules,
    /// Roles that are not among the manifests, and where their rules hold.
    foreign: BTreeSet<(String, RoleRef)>,
}

/// What `new` gives and `old` does not, to whom: a line per rule, and per role of the cluster, sorted.
pub fn gained(old: &[Value], new: &[Value]) -> BTreeMap<Beneficiary, Vec<String>> {
    let (old, new) = (given(old), given(new));
    let nothing = Given::default();
    let lines = new.into_iter().map(|(whose, new)| {
        let old = old.get(&whose).unwrap_or(&nothing);
        (whose, new.beyond(old))
    });
    lines.filter(|(_, lines)| !lines.is_empty()).collect()
}

impl HeldRules {
    fn by_namespace(&self) -> impl Iterator<Item = (&str, &Vec<super::Rule>)> {
        let here = self.namespaces.iter();
        let here = here.map(|(namespace, rules)| (namespace.as_str(), rules));
        [("", &self.cluster)].into_iter().chain(here)
    }
}

impl Given {
    /// What this is more than `old`.
    fn beyond(&self, old: &Self) -> Vec<String> {
        let mut gained = MissingRules::default();
        for (namespace, rules) in self.rules.by_namespace() {
            for right in rules.iter().flat_map(super::Rule::rights) {
                let namespace = namespace.to_owned();
                let access = Access { namespace, right };
                if !old.rules.allow(&access) {
                    gained.add(access);
                }
            }
        }
        let foreign = self.foreign.difference(&old.foreign);
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

    /// Adds the rules of a role, which hold in `namespace`, empty for everywhere; `found`: the role, if it is among the
    /// manifests.
    fn add(&mut self, namespace: String, role: RoleRef, found: Option<&Value>) {
        match found {
            // What it gathers is not known here.
            Some(found) if gathers(found) => _ = self.foreign.insert((namespace, role)),
            Some(found) if namespace.is_empty() => self.rules.cluster.extend(live_rules(found)),
            Some(found) => {
                let rules = self.rules.namespaces.entry(namespace).or_default();
                rules.extend(live_rules(found));
            }
            None => _ = self.foreign.insert((namespace, role)),
        }
    }
}

/// What the bindings among `manifests` give, to whom.
fn given(manifests: &[Value]) -> BTreeMap<Beneficiary, Given> {
    let own = own_accounts(manifests);
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
    let mut given = BTreeMap::<Beneficiary, Given>::new();
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
        let subjects = binding.get("subjects").and_then(Value::as_array);
        let whose = subjects.into_iter().flatten();
        let whose = whose.filter_map(|subject| Beneficiary::of(subject, &namespace, &own));
        for whose in whose.collect::<BTreeSet<_>>() {
            let found = roles.get(&role).copied();
            let given = given.entry(whose).or_default();
            given.add(namespace.clone(), role.clone(), found);
        }
    }
    given
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
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "n"}});
            let with = |manifests: &[Value]| [manifests, std::slice::from_ref(&account)].concat();
            let expected = match expected.as_slice() {
                [] => BTreeMap::new(),
                lines => BTreeMap::from([(Beneficiary::Operator, lines.to_vec())]),
            };
            assert_eq!(
                gained(&with(&old), &with(&new)),
                expected,
                "{old:?}\n{new:?}"
            );
        }
    }

    #[test]
    fn who_is_not_of_the_bundle_is_named_and_everybody_first() {
        let mut edit = binding("ClusterRoleBinding", "ClusterRole", "edit");
        edit["subjects"] = json!([
            {"kind": "ServiceAccount", "name": "other", "namespace": "default"},
            {"kind": "ServiceAccount", "name": "runs", "namespace": "n"},
            {"kind": "Group", "name": "system:authenticated"},
            {"kind": "Group", "name": "people"},
        ]);
        let runs = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"},
            "spec": {"template": {"spec": {"serviceAccountName": "runs"}}}});
        let found = gained(&[], &[edit, runs]);
        let whose: Vec<String> = found.keys().map(ToString::to_string).collect();
        assert_eq!(
            whose,
            [
                "everybody in Group system:authenticated",
                "Group people",
                "ServiceAccount default/other",
                "the operator"
            ]
        );
        let line = "Namespace:\"\" all rules of ClusterRole edit";
        assert!(found.values().all(|lines| lines == &[line]), "{found:?}");
    }
}

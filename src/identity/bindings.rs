//! Whom a change of RBAC concerns: the subjects of bindings that no bundle brought.
//!
//! ```text
//! binding changed → its subjects, before and after
//! role changed    → the subjects of its bindings
//! ```

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::revision::Account;

/// The groups that every service account is in.
const EVERYBODY: [&str; 2] = ["system:serviceaccounts", "system:authenticated"];
/// What the name of the group of a namespace's accounts begins with.
const OF_NAMESPACE: &str = "system:serviceaccounts:";

/// Service accounts that a binding gives rights to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// One.
    Account(Account),
    /// All of a namespace.
    Namespace(String),
    /// All.
    Everybody,
}

impl Subject {
    /// Whether `account` is one of them.
    pub fn contains(&self, account: &Account) -> bool {
        match self {
            Self::Account(one) => one == account,
            Self::Namespace(namespace) => *namespace == account.namespace,
            Self::Everybody => true,
        }
    }

    fn of(subject: &Value, home: &str) -> Option<Self> {
        let text = |member: &str| subject.get(member).and_then(Value::as_str);
        let name = text("name")?;
        match text("kind")? {
            "ServiceAccount" => Some(Self::Account(Account {
                namespace: text("namespace").unwrap_or(home).to_owned(),
                name: name.to_owned(),
            })),
            "Group" if EVERYBODY.contains(&name) => Some(Self::Everybody),
            "Group" => name
                .strip_prefix(OF_NAMESPACE)
                .map(|namespace| Self::Namespace(namespace.to_owned())),
            _ => None,
        }
    }
}

/// A role: its namespace, empty for a `ClusterRole`, and its name.
type Role = (String, String);
/// A binding: its namespace, empty for a `ClusterRoleBinding`, and its name.
type Key = (String, String);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Binding {
    role: Role,
    subjects: Vec<Subject>,
}

impl Binding {
    /// None of one that concerns no service account.
    fn of(object: &DynamicObject) -> Option<Self> {
        let home = object.namespace().unwrap_or_default();
        let subjects = object.data.get("subjects").and_then(Value::as_array);
        let subjects: Vec<_> = subjects
            .into_iter()
            .flatten()
            .filter_map(|subject| Subject::of(subject, &home))
            .collect();
        let text = |pointer| object.data.pointer(pointer).and_then(Value::as_str);
        let namespace = match text("/roleRef/kind")? {
            "Role" => home,
            _ => String::new(),
        };
        let role = (namespace, text("/roleRef/name")?.to_owned());
        (!subjects.is_empty()).then_some(Self { role, subjects })
    }
}

/// All bindings of one kind, and whom they concern.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    known: BTreeMap<Key, Binding>,
    /// What a list has told so far.
    listed: BTreeMap<Key, Binding>,
}

impl Bindings {
    /// A list begins.
    pub(super) fn begin(&mut self) {
        self.listed.clear();
    }

    /// A list tells of `binding`.
    pub(super) fn list(&mut self, binding: &DynamicObject) {
        self.listed
            .extend(Binding::of(binding).map(|found| (key(binding), found)));
    }

    /// The list is complete: whom the difference concerns.
    pub(super) fn end(&mut self) -> BTreeSet<Subject> {
        let before = std::mem::replace(&mut self.known, std::mem::take(&mut self.listed));
        let now = &self.known;
        let gone = before
            .iter()
            .filter(|(key, one)| now.get(*key) != Some(*one));
        let come = now
            .iter()
            .filter(|(key, one)| before.get(*key) != Some(*one));
        let changed = gone.chain(come);
        changed.flat_map(|(_, one)| one.subjects.clone()).collect()
    }

    /// A binding is `there`, or it is gone: whom that concerns.
    pub(super) fn change(&mut self, binding: &DynamicObject, there: bool) -> BTreeSet<Subject> {
        let key = key(binding);
        let now = Binding::of(binding).filter(|_| there);
        let before = match now.clone() {
            Some(now) => self.known.insert(key, now),
            None => self.known.remove(&key),
        };
        // Labels and the like give no rights.
        if before == now {
            return BTreeSet::new();
        }
        let both = before.into_iter().chain(now);
        both.flat_map(|one| one.subjects).collect()
    }

    /// The subjects of the bindings to a role.
    pub(super) fn of_role(&self, namespace: &str, name: &str) -> BTreeSet<Subject> {
        let bound = self
            .known
            .values()
            .filter(|one| (one.role.0.as_str(), one.role.1.as_str()) == (namespace, name));
        bound.flat_map(|one| one.subjects.clone()).collect()
    }
}

fn key(binding: &DynamicObject) -> Key {
    (binding.namespace().unwrap_or_default(), binding.name_any())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn binding(role: &str, subjects: &Value) -> DynamicObject {
        let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": "r"});
        serde_json::from_value(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "b", "namespace": "n"}, "roleRef": reference, "subjects": subjects,
        }))
        .unwrap()
    }

    fn one(name: &str) -> Subject {
        Subject::Account(Account {
            namespace: "n".into(),
            name: name.into(),
        })
    }

    #[test]
    fn subjects_before_and_after_are_concerned() {
        let account = |name: &str| json!({"kind": "ServiceAccount", "name": name});
        let mut bindings = Bindings::default();
        let a = binding(
            "Role",
            &json!([account("a"), {"kind": "User", "name": "u"}]),
        );
        assert_eq!(bindings.change(&a, true), [one("a")].into());
        assert_eq!(bindings.change(&a, true), [].into(), "nothing changed");
        assert_eq!(bindings.of_role("n", "r"), [one("a")].into());
        assert_eq!(bindings.of_role("", "r"), [].into());
        let b = binding("ClusterRole", &json!([account("b")]));
        assert_eq!(bindings.change(&b, true), [one("a"), one("b")].into());
        assert_eq!(bindings.of_role("", "r"), [one("b")].into());
        assert_eq!(bindings.change(&b, false), [one("b")].into());
        assert_eq!(bindings.change(&b, false), [].into());
    }

    #[test]
    fn a_list_tells_what_was_missed() {
        let account =
            |name: &str| json!([{"kind": "ServiceAccount", "namespace": "n", "name": name}]);
        let mut bindings = Bindings::default();
        bindings.list(&binding("Role", &account("a")));
        assert_eq!(bindings.end(), [one("a")].into());
        bindings.begin();
        bindings.list(&binding("Role", &account("a")));
        assert_eq!(bindings.end(), [].into());
        bindings.begin();
        assert_eq!(bindings.end(), [one("a")].into());
    }

    #[test]
    fn groups_of_service_accounts_are_subjects() {
        let group = |name: &str| Subject::of(&json!({"kind": "Group", "name": name}), "");
        let account = Account {
            namespace: "n".into(),
            name: "a".into(),
        };
        for (name, expected) in [
            ("system:serviceaccounts", Some(true)),
            ("system:authenticated", Some(true)),
            ("system:serviceaccounts:n", Some(true)),
            ("system:serviceaccounts:m", Some(false)),
            ("people", None),
        ] {
            let found = group(name).map(|subject| subject.contains(&account));
            assert_eq!(found, expected, "{name}");
        }
    }
}

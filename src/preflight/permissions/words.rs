//! What the accounts of manifests may do, in words, the dangerous first.
//!
//! Dangers are those that the Kubernetes documentation names as ways to more rights
//! (<https://kubernetes.io/docs/concepts/security/rbac-good-practices/#privilege-escalation-risks>), the worst first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::escalation::live_rules;
use super::rule::{ALL, Right, Rule, join};
use super::{RBAC, RoleRef};
use crate::api::object::ObjectKey;

/// Something that an account may do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Power {
    /// What makes it dangerous; the worst is the lowest.
    pub danger: Option<Danger>,
    /// Who: `namespace/name` of a service account, or `Kind name`.
    pub who: String,
    /// Where; empty: everywhere.
    pub namespace: String,
    /// What, as `read secrets`.
    pub what: String,
}

/// A way to more rights than it seems; the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Danger(usize);

/// What of which resources is a danger, and why.
struct Dangerous {
    why: &'static str,
    verbs: &'static [&'static str],
    group: &'static str,
    resources: &'static [&'static str],
    /// Whether it is also a danger when the objects are named.
    even_named: bool,
}

const WRITING: &[&str] = &["create", "update", "patch"];
const APPS: &[&str] = &["deployments", "daemonsets", "statefulsets", "replicasets"];

/// The dangers, the worst first.
const DANGERS: &[Dangerous] = &[
    Dangerous {
        why: "can do everything",
        verbs: &[ALL],
        group: ALL,
        resources: &[ALL],
        even_named: false,
    },
    Dangerous {
        why: "can give anybody any right",
        verbs: &["escalate", "bind"],
        group: RBAC,
        resources: &["clusterroles", "roles"],
        even_named: true,
    },
    Dangerous {
        why: "can act as somebody else",
        verbs: &["impersonate"],
        group: "",
        resources: &["users", "groups", "serviceaccounts"],
        even_named: true,
    },
    Dangerous {
        why: "can make tokens of service accounts",
        verbs: &["create"],
        group: "",
        resources: &["serviceaccounts/token"],
        even_named: true,
    },
    Dangerous {
        why: "can make certificates of users",
        verbs: &["approve", "sign", "update", "patch"],
        group: "certificates.k8s.io",
        resources: &["certificatesigningrequests/approval", "signers"],
        even_named: true,
    },
    Dangerous {
        why: "can read secrets",
        verbs: &["get", "list", "watch"],
        group: "",
        resources: &["secrets"],
        even_named: false,
    },
    Dangerous {
        why: "can run any container, as any service account there",
        verbs: WRITING,
        group: "",
        resources: &["pods", "replicationcontrollers"],
        even_named: false,
    },
    Dangerous {
        why: "can run any container, as any service account there",
        verbs: WRITING,
        group: "apps",
        resources: APPS,
        even_named: false,
    },
    Dangerous {
        why: "can run any container, as any service account there",
        verbs: WRITING,
        group: "batch",
        resources: &["jobs", "cronjobs"],
        even_named: false,
    },
    Dangerous {
        why: "can run commands in containers",
        verbs: &["create", "get", "update", "patch"],
        group: "",
        resources: &["pods/exec", "pods/attach", "pods/ephemeralcontainers"],
        even_named: false,
    },
    Dangerous {
        why: "can use the kubelet of every node",
        verbs: &["get", "create"],
        group: "",
        resources: &["nodes/proxy"],
        even_named: false,
    },
    Dangerous {
        why: "can run privileged containers",
        verbs: &["use"],
        group: "security.openshift.io",
        resources: &["securitycontextconstraints"],
        even_named: true,
    },
    Dangerous {
        why: "can watch and change what others send to the API server",
        verbs: WRITING,
        group: "admissionregistration.k8s.io",
        resources: &[
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
        ],
        even_named: false,
    },
    Dangerous {
        why: "can answer for the API server",
        verbs: WRITING,
        group: "apiregistration.k8s.io",
        resources: &["apiservices"],
        even_named: false,
    },
    Dangerous {
        why: "can change and delete definitions, with all their resources",
        verbs: &["update", "patch", "delete", "deletecollection"],
        group: "apiextensions.k8s.io",
        resources: &["customresourcedefinitions"],
        even_named: false,
    },
    Dangerous {
        why: "can reach the disks of nodes",
        verbs: WRITING,
        group: "",
        resources: &["persistentvolumes"],
        even_named: false,
    },
    Dangerous {
        why: "can change nodes and namespaces",
        verbs: &["update", "patch", "delete", "deletecollection"],
        group: "",
        resources: &["nodes", "namespaces"],
        even_named: false,
    },
    Dangerous {
        why: "can give others the rights that it has itself",
        verbs: WRITING,
        group: RBAC,
        resources: &[
            "clusterroles",
            "clusterrolebindings",
            "roles",
            "rolebindings",
        ],
        even_named: false,
    },
];

impl Danger {
    /// Why it is one, as the rest of a sentence about who has it.
    pub fn why(self) -> &'static str {
        DANGERS.get(self.0).map_or("", |danger| danger.why)
    }
}

impl Dangerous {
    fn is_in(&self, rule: &Rule) -> bool {
        if !rule.names.is_empty() && !self.even_named {
            return false;
        }
        let everywhere = Rule {
            names: BTreeSet::new(),
            ..rule.clone()
        };
        self.verbs.iter().any(|verb| {
            self.resources
                .iter()
                .any(|resource| everywhere.covers(&Right::on(self.group, resource, None, verb)))
        })
    }
}

/// What the accounts may do that bindings among `manifests` name: the worst dangers first, then by account.
///
/// A binding to a role that is not among the manifests gives what that role gives, which is not known here.
pub fn powers(manifests: &[Value]) -> Vec<Power> {
    let mut powers = BTreeSet::new();
    for manifest in manifests {
        let Ok(key) = ObjectKey::of(manifest) else {
            continue;
        };
        let is_binding = key.gvk.is(RBAC, "RoleBinding");
        if !is_binding && !key.gvk.is(RBAC, "ClusterRoleBinding") {
            continue;
        }
        let namespace = if is_binding {
            key.namespace
        } else {
            String::new()
        };
        for who in subjects(manifest) {
            for (danger, what) in given(manifest, &namespace, manifests) {
                powers.insert(Power {
                    danger,
                    who: who.clone(),
                    namespace: namespace.clone(),
                    what,
                });
            }
        }
    }
    let mut powers: Vec<Power> = powers.into_iter().collect();
    powers.sort_by_key(|power| {
        let rank = power.danger.map_or(usize::MAX, |danger| danger.0);
        (rank, power.clone())
    });
    powers
}

fn subjects(binding: &Value) -> Vec<String> {
    let subjects = binding.get("subjects").and_then(Value::as_array);
    subjects
        .into_iter()
        .flatten()
        .filter_map(|subject| {
            let text = |member| subject.get(member).and_then(Value::as_str);
            let (kind, name) = (text("kind")?, text("name")?);
            Some(match (kind, text("namespace")) {
                ("ServiceAccount", Some(namespace)) => format!("{namespace}/{name}"),
                _ => format!("{kind} {name}"),
            })
        })
        .collect()
}

/// What a binding gives, in words.
fn given(binding: &Value, namespace: &str, manifests: &[Value]) -> Vec<(Option<Danger>, String)> {
    let text = |pointer| binding.pointer(pointer).and_then(Value::as_str);
    let (Some(kind), Some(name)) = (text("/roleRef/kind"), text("/roleRef/name")) else {
        return Vec::new();
    };
    let role = RoleRef {
        namespace: (kind == "Role").then(|| namespace.to_owned()),
        name: name.to_owned(),
    };
    let found = manifests.iter().find(|manifest| {
        ObjectKey::of(manifest).is_ok_and(|key| {
            let is_here = role
                .namespace
                .as_ref()
                .is_none_or(|own| *own == key.namespace);
            key.gvk.is(RBAC, kind) && key.name == role.name && is_here
        })
    });
    match found {
        Some(role) => in_words(&live_rules(role)),
        None => vec![(
            None,
            format!("what {kind} {name} gives, which is not part of the bundle"),
        )],
    }
}

/// Rules as sentences, each with its worst danger.
fn in_words(rules: &[Rule]) -> Vec<(Option<Danger>, String)> {
    let mut lines: BTreeMap<(Option<usize>, String, String), BTreeSet<String>> = BTreeMap::new();
    for rule in pieces(rules) {
        let danger = DANGERS.iter().position(|danger| danger.is_in(&rule));
        let names = match rule.names.len() {
            0 => String::new(),
            _ => format!(" named {}", listed(&rule.names)),
        };
        for url in &rule.urls {
            let line = (danger, deeds(&rule.verbs), names.clone());
            lines.entry(line).or_default().insert(format!("path {url}"));
        }
        for group in &rule.groups {
            for resource in &rule.resources {
                let line = (danger, deeds(&rule.verbs), names.clone());
                lines
                    .entry(line)
                    .or_default()
                    .insert(thing(group, resource));
            }
        }
    }
    lines
        .into_iter()
        .map(|((danger, deeds, names), things)| {
            (
                danger.map(Danger),
                format!("{deeds} {}{names}", listed(&things)),
            )
        })
        .collect()
}

/// The rules by single resource, the verbs on it joined: a danger may need several rules.
fn pieces(rules: &[Rule]) -> Vec<Rule> {
    let single = rules
        .iter()
        .flat_map(Rule::rights)
        .map(|right| right.rule())
        .collect();
    let rules = join(single, |rule| &mut rule.verbs);
    join(rules, |rule| &mut rule.names)
}

/// Verbs in words: `read` for get, list and watch; `change` for all that writes.
fn deeds(verbs: &BTreeSet<String>) -> String {
    if verbs.contains(ALL) {
        return "do anything with".to_owned();
    }
    let has = |all: &[&str]| all.iter().all(|verb| verbs.contains(*verb));
    let mut said = Vec::new();
    let mut told: Vec<&str> = Vec::new();
    if has(&["get", "list", "watch"]) {
        said.push("read");
        told.extend(["get", "list", "watch"]);
    }
    if has(&["create", "update", "patch", "delete"]) {
        said.push("change");
        told.extend(["create", "update", "patch", "delete", "deletecollection"]);
    }
    let order = [
        "get", "list", "watch", "create", "update", "patch", "delete",
    ];
    let mut rest: Vec<&str> = verbs
        .iter()
        .map(String::as_str)
        .filter(|verb| !told.contains(verb))
        .collect();
    rest.sort_by_key(|verb| {
        order
            .iter()
            .position(|known| known == verb)
            .unwrap_or(order.len())
    });
    said.extend(rest);
    and(&said)
}

/// A resource for people: `pods`, `deployments.apps`, `everything in apps`.
fn thing(group: &str, resource: &str) -> String {
    match (group, resource) {
        (ALL, ALL) => "everything".to_owned(),
        ("", ALL) => "everything in the core group".to_owned(),
        (group, ALL) => format!("everything in {group}"),
        (ALL, resource) => format!("{resource} of all groups"),
        ("", resource) => resource.to_owned(),
        (group, resource) => match resource.split_once('/') {
            Some((resource, part)) => format!("{resource}.{group}/{part}"),
            None => format!("{resource}.{group}"),
        },
    }
}

fn listed(things: &BTreeSet<String>) -> String {
    and(&things.iter().map(String::as_str).collect::<Vec<_>>())
}

fn and(things: &[&str]) -> String {
    match things {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// `a/b: read secrets in namespace n`
impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.who, self.what)?;
        match self.namespace.as_str() {
            "" => f.write_str(", everywhere"),
            namespace => write!(f, ", in namespace {namespace}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role(rules: &Value) -> Vec<Value> {
        let api_version = format!("{RBAC}/v1");
        let subject = json!({"kind": "ServiceAccount", "name": "a", "namespace": "n"});
        vec![
            json!({"apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules}),
            json!({"apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
                "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [subject]}),
        ]
    }

    fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
        json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
    }

    #[track_caller]
    fn says(rules: &Value, expected: &[(&str, &str)]) {
        let powers = powers(&role(rules));
        let said: Vec<_> = powers
            .iter()
            .map(|power| {
                let why = power.danger.map_or("", Danger::why);
                (power.what.as_str(), why)
            })
            .collect();
        assert_eq!(said, expected);
    }

    #[test]
    fn verbs_are_said_in_words() {
        let read = ["get", "list", "watch"];
        let all = [
            "create", "delete", "get", "list", "patch", "update", "watch",
        ];
        says(
            &json!([
                rule("", &["configmaps", "events"], &read),
                rule("g", &["things", "things/status"], &all),
                rule("g", &["others"], &["list", "create", "delete"]),
                json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}),
                json!({"apiGroups": ["g"], "resources": ["x"], "verbs": ["*"], "resourceNames": ["n", "m"]}),
            ]),
            &[
                ("do anything with x.g named m and n", ""),
                ("get path /metrics", ""),
                ("list, create and delete others.g", ""),
                ("read and change things.g and things.g/status", ""),
                ("read configmaps and events", ""),
            ],
        );
    }

    #[test]
    fn the_worst_comes_first() {
        says(
            &json!([
                rule("", &["pods"], &["get"]),
                rule("", &["secrets"], &["list"]),
                rule("apps", &["deployments"], &["patch"]),
                rule("*", &["*"], &["*"]),
                rule(RBAC, &["clusterroles"], &["*"]),
                rule("", &["*"], &["get", "list", "watch"]),
            ]),
            &[
                ("do anything with everything", "can do everything"),
                (
                    "do anything with clusterroles.rbac.authorization.k8s.io",
                    "can give anybody any right",
                ),
                ("list secrets", "can read secrets"),
                ("read everything in the core group", "can read secrets"),
                (
                    "patch deployments.apps",
                    "can run any container, as any service account there",
                ),
                ("get pods", ""),
            ],
        );
    }

    #[test]
    fn a_name_makes_most_things_harmless() {
        let named = |group: &str, resource: &str, verb: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": [verb], "resourceNames": ["x"]});
        says(
            &json!([
                named("", "secrets", "get"),
                named("security.openshift.io", "securitycontextconstraints", "use"),
            ]),
            &[
                (
                    "use securitycontextconstraints.security.openshift.io named x",
                    "can run privileged containers",
                ),
                ("get secrets named x", ""),
            ],
        );
    }

    #[test]
    fn who_and_where_is_said_and_foreign_roles_are_named() {
        let binding = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
            "metadata": {"name": "b", "namespace": "n"}, "roleRef": {"kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "a", "namespace": "n"}]});
        let powers: Vec<String> = powers(&[binding]).iter().map(ToString::to_string).collect();
        let what = "what ClusterRole view gives, which is not part of the bundle, in namespace n";
        assert_eq!(powers, [format!("Group g: {what}"), format!("n/a: {what}")]);
    }
}

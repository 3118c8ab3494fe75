//! Which rights an account needs to install manifests, and which of them it lacks.
//!
//! The rules and the message are the reference's pre-authorization (operator-controller up to v1.10,
//! `internal/operator-controller/authorization/rbac.go`) without the right on finalizers, which we do not need. Per
//! object `get`, `patch`, `update` and `delete` by name; per kind and namespace `create`; for RBAC objects what the
//! API server's escalation check asks for. Whether rules cover rules is computed as Kubernetes does
//! (`k8s.io/component-helpers/auth/rbac/validation`).
//!
//! Differs from the reference: a kind whose CRD comes with the same manifests is known.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::authorization::v1::{NonResourceRule, ResourceRule};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

use crate::api::object::{Gvk, InvalidObject, ObjectKey};
use crate::error::{Classify, Disposition, Reason};

/// The API group of roles and bindings.
const RBAC: &str = "rbac.authorization.k8s.io";
/// What is done to an object after it was created, by name.
const NAMED_VERBS: [&str; 4] = ["get", "patch", "update", "delete"];

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

/// One thing that one asks an authorizer about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attribute {
    /// The namespace; empty for a cluster-scoped resource.
    pub namespace: String,
    /// The verb.
    pub verb: &'static str,
    /// The API group.
    pub group: String,
    /// The resource.
    pub resource: String,
    /// The object's name; none for `create`.
    pub name: Option<String>,
}

/// A rule of a role; every list may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// API groups, `*` for all.
    pub groups: Vec<String>,
    /// Resources, `*` for all, `*/status` for that subresource of all.
    pub resources: Vec<String>,
    /// Names; empty for all.
    pub names: Vec<String>,
    /// Verbs, `*` for all.
    pub verbs: Vec<String>,
    /// Paths that are no resources; `*` at the end stands for anything.
    pub urls: Vec<String>,
}

/// A role that a binding refers to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoleRef {
    /// The namespace of a `Role`; none for a `ClusterRole`.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// What an account must be allowed to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    attributes: BTreeSet<Attribute>,
    escalations: Vec<Escalation>,
}

/// A role or binding that may only be written by who has the rights that it gives.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Escalation {
    /// Where the rights must be held; empty: everywhere.
    namespace: String,
    /// Who may do this needs no rights: `escalate` on roles, `bind` on the role.
    bypass: Attribute,
    given: Given,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Given {
    Rules(Vec<Rule>),
    /// Of a role that is not among the manifests.
    Role(RoleRef),
}

/// The rights that an account has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeldRules {
    /// Everywhere.
    pub cluster: Vec<Rule>,
    /// In one namespace, beside those that hold everywhere.
    pub namespaces: BTreeMap<String, Vec<Rule>>,
}

/// What an account lacks, by namespace (empty: everywhere), as rules that a role could be made of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MissingRules(BTreeMap<String, Vec<Rule>>);

/// Manifests whose needs cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PermissionsError {
    /// A manifest without apiVersion, kind or name.
    #[error("cannot tell which permissions manifest {index} needs")]
    Unidentified {
        /// Its place.
        index: usize,
        /// What is missing.
        #[source]
        source: InvalidObject,
    },
    /// A kind that the API server does not serve, and no manifest defines.
    #[error(
        "could not get REST mapping for object {index} in manifest with GVK {}, Kind={} (name: {name}): no matches for kind {:?} in version {:?}",
        gvk.api_version(), gvk.kind, gvk.kind, gvk.api_version()
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

impl Classify for PermissionsError {
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
) -> Result<Needs, PermissionsError> {
    let mut needs = Needs::default();
    let defined = defined_kinds(manifests);
    for (index, manifest) in manifests.iter().enumerate() {
        let key = ObjectKey::of(manifest)
            .map_err(|source| PermissionsError::Unidentified { index, source })?;
        let resource = known(&key.gvk)
            .or_else(|| {
                defined
                    .get(&(key.gvk.group.clone(), key.gvk.kind.clone()))
                    .cloned()
            })
            .ok_or_else(|| PermissionsError::UnknownKind {
                index,
                gvk: Box::new(key.gvk.clone()),
                name: key.name.clone(),
            })?;
        let namespace = if resource.is_namespaced {
            key.namespace.as_str()
        } else {
            ""
        };
        needs.object(&resource, namespace, &key.name);
        if key.gvk.group == RBAC {
            needs.escalation(&key.gvk.kind, namespace, manifest, manifests);
        }
    }
    Ok(needs)
}

/// The kinds that CRDs among the manifests define.
pub fn defined_kinds(manifests: &[Value]) -> BTreeMap<(String, String), Resource> {
    let text = |value: &Value, pointer: &str| Some(value.pointer(pointer)?.as_str()?.to_owned());
    manifests
        .iter()
        .filter(|manifest| ObjectKey::of(manifest).is_ok_and(|key| key.gvk.is_crd()))
        .filter_map(|crd| {
            let group = text(crd, "/spec/group")?;
            let resource = Resource {
                group: group.clone(),
                version: text(crd, "/spec/versions/0/name").unwrap_or_default(),
                plural: text(crd, "/spec/names/plural")?,
                is_namespaced: text(crd, "/spec/scope").as_deref() == Some("Namespaced"),
            };
            Some(((group, text(crd, "/spec/names/kind")?), resource))
        })
        .collect()
}

impl Needs {
    /// The namespaces in which rights are needed.
    pub fn namespaces(&self) -> BTreeSet<&str> {
        let of_escalations = self.escalations.iter().map(|e| e.namespace.as_str());
        self.attributes
            .iter()
            .map(|attribute| attribute.namespace.as_str())
            .chain(of_escalations)
            .filter(|namespace| !namespace.is_empty())
            .collect()
    }

    /// The roles that bindings refer to and that are not among the manifests.
    pub fn referenced_roles(&self) -> BTreeSet<RoleRef> {
        self.escalations
            .iter()
            .filter_map(|escalation| match &escalation.given {
                Given::Role(role) => Some(role.clone()),
                Given::Rules(_) => None,
            })
            .collect()
    }

    /// What `held` leaves open: questions for an authorizer that is not RBAC.
    pub fn open(
        &self,
        held: &HeldRules,
        roles: &BTreeMap<RoleRef, Vec<Rule>>,
    ) -> BTreeSet<Attribute> {
        let plain = self
            .attributes
            .iter()
            .filter(|attribute| !held.allow(attribute));
        let bypasses = self
            .escalations
            .iter()
            .filter(|escalation| !escalation.uncovered(held, roles).is_empty())
            .map(|escalation| &escalation.bypass);
        plain.chain(bypasses).cloned().collect()
    }

    /// What an account with the rules `held` lacks.
    ///
    /// `roles` are the rules of [`Self::referenced_roles`] (a role that does not exist gives nothing), `granted` what
    /// else an authorizer has said yes to.
    pub fn missing(
        &self,
        held: &HeldRules,
        roles: &BTreeMap<RoleRef, Vec<Rule>>,
        granted: &BTreeSet<Attribute>,
    ) -> MissingRules {
        let mut missing: BTreeMap<String, Vec<Rule>> = BTreeMap::new();
        for attribute in &self.attributes {
            if !held.allow(attribute) && !granted.contains(attribute) {
                missing
                    .entry(attribute.namespace.clone())
                    .or_default()
                    .push(attribute.rule());
            }
        }
        for escalation in &self.escalations {
            if held.allow(&escalation.bypass) || granted.contains(&escalation.bypass) {
                continue;
            }
            let uncovered = escalation.uncovered(held, roles);
            if !uncovered.is_empty() {
                missing
                    .entry(escalation.namespace.clone())
                    .or_default()
                    .extend(uncovered);
            }
        }
        MissingRules(
            missing
                .into_iter()
                .map(|(namespace, rules)| (namespace, compact(rules)))
                .collect(),
        )
    }

    fn object(&mut self, resource: &Resource, namespace: &str, name: &str) {
        let mut need = |verb, name: Option<&str>| {
            self.attributes.insert(Attribute {
                namespace: namespace.to_owned(),
                verb,
                group: resource.group.clone(),
                resource: resource.plural.clone(),
                name: name.map(str::to_owned),
            });
        };
        need("create", None);
        for verb in NAMED_VERBS {
            need(verb, Some(name));
        }
    }

    fn escalation(&mut self, kind: &str, namespace: &str, manifest: &Value, all: &[Value]) {
        let attribute = |verb, resource: &str, name: Option<String>| Attribute {
            namespace: namespace.to_owned(),
            verb,
            group: RBAC.to_owned(),
            resource: resource.to_owned(),
            name,
        };
        let (bypass, given) = match kind {
            "Role" => (
                attribute("escalate", "roles", None),
                Given::Rules(rules_of(manifest)),
            ),
            "ClusterRole" => (
                attribute("escalate", "clusterroles", None),
                Given::Rules(rules_of(manifest)),
            ),
            "RoleBinding" | "ClusterRoleBinding" => {
                let Some((resource, role)) = role_ref(manifest, namespace) else {
                    return; // The API server refuses a binding without role.
                };
                (
                    attribute("bind", resource, Some(role.name.clone())),
                    given_by(role, all),
                )
            }
            _ => return,
        };
        self.escalations.push(Escalation {
            namespace: namespace.to_owned(),
            bypass,
            given,
        });
    }
}

fn role_ref(binding: &Value, namespace: &str) -> Option<(&'static str, RoleRef)> {
    let text = |pointer| binding.pointer(pointer).and_then(Value::as_str);
    let name = text("/roleRef/name")?.to_owned();
    Some(match text("/roleRef/kind")? {
        "Role" => (
            "roles",
            RoleRef {
                namespace: Some(namespace.to_owned()),
                name,
            },
        ),
        "ClusterRole" => (
            "clusterroles",
            RoleRef {
                namespace: None,
                name,
            },
        ),
        _ => return None,
    })
}

fn given_by(role: RoleRef, manifests: &[Value]) -> Given {
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
        Some(manifest) => Given::Rules(rules_of(manifest)),
        None => Given::Role(role),
    }
}

/// The rules of a role among the manifests. One that aggregates others may be given anything.
fn rules_of(manifest: &Value) -> Vec<Rule> {
    let rules: Vec<PolicyRule> = manifest
        .get("rules")
        .and_then(|rules| serde_json::from_value(rules.clone()).ok()) // The API server refuses what is no rule.
        .unwrap_or_default();
    let mut rules: Vec<Rule> = rules.into_iter().map(Rule::from).collect();
    let aggregates = manifest
        .pointer("/aggregationRule/clusterRoleSelectors")
        .and_then(Value::as_array)
        .is_some_and(|selectors| !selectors.is_empty());
    if aggregates {
        let all = || vec!["*".to_owned()];
        rules.push(Rule {
            groups: all(),
            resources: all(),
            verbs: all(),
            ..Rule::default()
        });
        rules.push(Rule {
            verbs: all(),
            urls: all(),
            ..Rule::default()
        });
    }
    rules
}

impl Escalation {
    /// What of the given rights is not held, each right on its own.
    fn uncovered(&self, held: &HeldRules, roles: &BTreeMap<RoleRef, Vec<Rule>>) -> Vec<Rule> {
        let given = match &self.given {
            Given::Rules(rules) => rules.as_slice(),
            Given::Role(role) => roles.get(role).map(Vec::as_slice).unwrap_or_default(),
        };
        given
            .iter()
            .flat_map(Rule::single_rights)
            .filter(|right| !held.cover(&self.namespace, right))
            .collect()
    }
}

impl HeldRules {
    /// Whether RBAC allows it.
    pub fn allow(&self, attribute: &Attribute) -> bool {
        self.cover(&attribute.namespace, &attribute.rule())
    }

    fn cover(&self, namespace: &str, right: &Rule) -> bool {
        let here = self.namespaces.get(namespace).into_iter().flatten();
        self.cluster
            .iter()
            .chain(here)
            .any(|rule| rule.covers(right))
    }
}

impl Attribute {
    fn rule(&self) -> Rule {
        Rule {
            groups: vec![self.group.clone()],
            resources: vec![self.resource.clone()],
            names: self.name.iter().cloned().collect(),
            verbs: vec![self.verb.to_owned()],
            urls: Vec::new(),
        }
    }
}

impl Rule {
    /// Whether whoever has this rule has the single right `right`.
    fn covers(&self, right: &Self) -> bool {
        let has = |list: &[String], text: &str| list.iter().any(|item| item == text);
        let all = |list: &[String], wanted: &[String]| {
            has(list, "*") || wanted.iter().all(|text| has(list, text))
        };
        let names = self.names.is_empty()
            || !right.names.is_empty() && right.names.iter().all(|name| has(&self.names, name));
        all(&self.verbs, &right.verbs)
            && all(&self.groups, &right.groups)
            && right
                .resources
                .iter()
                .all(|resource| self.has_resource(resource))
            && right.urls.iter().all(|url| self.has_url(url))
            && names
    }

    fn has_resource(&self, resource: &str) -> bool {
        self.resources.iter().any(|owned| {
            owned == "*"
                || owned == resource
                || resource
                    .split_once('/')
                    .is_some_and(|(_, sub)| owned.strip_prefix("*/") == Some(sub))
        })
    }

    fn has_url(&self, url: &str) -> bool {
        self.urls.iter().any(|owned| {
            owned == url
                || owned
                    .strip_suffix('*')
                    .is_some_and(|prefix| url.starts_with(prefix))
        })
    }

    /// The rule taken apart: one group, resource, name or path and one verb each.
    fn single_rights(&self) -> Vec<Self> {
        let one = |text: &String| vec![text.clone()];
        let names: Vec<Vec<String>> = if self.names.is_empty() {
            vec![Vec::new()]
        } else {
            self.names.iter().map(one).collect()
        };
        let mut rights = Vec::new();
        for verb in &self.verbs {
            for group in &self.groups {
                for resource in &self.resources {
                    rights.extend(names.iter().map(|names| Self {
                        groups: one(group),
                        resources: one(resource),
                        names: names.clone(),
                        verbs: one(verb),
                        urls: Vec::new(),
                    }));
                }
            }
            rights.extend(self.urls.iter().map(|url| Self {
                verbs: one(verb),
                urls: one(url),
                ..Self::default()
            }));
        }
        rights
    }
}

impl From<PolicyRule> for Rule {
    fn from(rule: PolicyRule) -> Self {
        Self {
            groups: rule.api_groups.unwrap_or_default(),
            resources: rule.resources.unwrap_or_default(),
            names: rule.resource_names.unwrap_or_default(),
            verbs: rule.verbs,
            urls: rule.non_resource_urls.unwrap_or_default(),
        }
    }
}

impl From<ResourceRule> for Rule {
    fn from(rule: ResourceRule) -> Self {
        Self {
            groups: rule.api_groups.unwrap_or_default(),
            resources: rule.resources.unwrap_or_default(),
            names: rule.resource_names.unwrap_or_default(),
            verbs: rule.verbs,
            urls: Vec::new(),
        }
    }
}

impl From<NonResourceRule> for Rule {
    fn from(rule: NonResourceRule) -> Self {
        Self {
            verbs: rule.verbs,
            urls: rule.non_resource_urls.unwrap_or_default(),
            ..Self::default()
        }
    }
}

/// Joins the verbs of rights on the same thing and sorts everything.
fn compact(rights: Vec<Rule>) -> Vec<Rule> {
    let mut verbs: BTreeMap<Rule, BTreeSet<String>> = BTreeMap::new();
    for mut right in rights {
        let own = std::mem::take(&mut right.verbs);
        verbs.entry(right).or_default().extend(own);
    }
    verbs
        .into_iter()
        .map(|(right, verbs)| Rule {
            verbs: if verbs.contains("*") {
                vec!["*".to_owned()]
            } else {
                verbs.into_iter().collect()
            },
            ..right
        })
        .collect()
}

impl MissingRules {
    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The missing rules by namespace (empty: everywhere).
    pub fn by_namespace(&self) -> &BTreeMap<String, Vec<Rule>> {
        &self.0
    }
}

/// The message that people and scripts know: a line per rule, sorted.
impl std::fmt::Display for MissingRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "pre-authorization failed: service account requires the following permissions to manage cluster extension:",
        )?;
        let mut lines: Vec<String> = self
            .0
            .iter()
            .flat_map(|(namespace, rules)| rules.iter().map(move |rule| line(namespace, rule)))
            .collect();
        lines.sort();
        lines.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

fn line(namespace: &str, rule: &Rule) -> String {
    let lists = [
        ("APIGroups", &rule.groups),
        ("Resources", &rule.resources),
        ("ResourceNames", &rule.names),
        ("Verbs", &rule.verbs),
        ("NonResourceURLs", &rule.urls),
    ];
    let parts: Vec<String> = lists
        .into_iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(what, list)| format!("{what}:[{}]", list.join(",")))
        .collect();
    format!("Namespace:{namespace:?} {}", parts.join(" "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn known(gvk: &Gvk) -> Option<Resource> {
        let (plural, is_namespaced) = match gvk.kind.as_str() {
            "Service" => ("services", true),
            "CustomResourceDefinition" => ("customresourcedefinitions", false),
            "Role" => ("roles", true),
            "ClusterRole" => ("clusterroles", false),
            "RoleBinding" => ("rolebindings", true),
            "ClusterRoleBinding" => ("clusterrolebindings", false),
            _ => return None,
        };
        Some(Resource {
            group: gvk.group.clone(),
            version: gvk.version.clone(),
            plural: plural.into(),
            is_namespaced,
        })
    }

    fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace, "name": name}})
    }

    fn rbac(kind: &str, namespace: &str, name: &str, rest: &Value) -> Value {
        let mut role = object("rbac.authorization.k8s.io/v1", kind, namespace, name);
        for (key, value) in rest.as_object().unwrap() {
            role[key] = value.clone();
        }
        role
    }

    fn rule(value: &Value) -> Rule {
        serde_json::from_value::<PolicyRule>(value.clone())
            .unwrap()
            .into()
    }

    fn rules(values: &[Value]) -> Vec<Rule> {
        values.iter().map(rule).collect()
    }

    /// Everything on RBAC objects but escalating.
    fn rbac_writer() -> Value {
        json!({"apiGroups": [RBAC], "resources": ["roles", "clusterroles", "rolebindings", "clusterrolebindings"],
            "verbs": ["create", "get", "patch", "update", "delete"]})
    }

    #[track_caller]
    fn check(manifests: &[Value], cluster: &[Value], expected: &[&str]) {
        let held = HeldRules {
            cluster: rules(cluster),
            namespaces: BTreeMap::new(),
        };
        let needs = needs(manifests, &known).unwrap();
        let missing = needs.missing(&held, &BTreeMap::new(), &BTreeSet::new());
        let text = missing.to_string();
        let lines: Vec<_> = text.split("\n  ").skip(1).collect();
        assert_eq!(lines, expected);
        assert_eq!(missing.is_empty(), expected.is_empty());
    }

    #[test]
    fn the_message_is_the_references() {
        let manifests = [
            object(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                "",
                "x.y.z",
            ),
            object("v1", "Service", "ns", "s"),
        ];
        let needs = needs(&manifests, &known).unwrap();
        let missing = needs.missing(&HeldRules::default(), &BTreeMap::new(), &BTreeSet::new());
        assert_eq!(
            missing.to_string(),
            "pre-authorization failed: service account requires the following permissions to manage cluster extension:\n\
             \x20 Namespace:\"\" APIGroups:[apiextensions.k8s.io] Resources:[customresourcedefinitions] ResourceNames:[x.y.z] Verbs:[delete,get,patch,update]\n\
             \x20 Namespace:\"\" APIGroups:[apiextensions.k8s.io] Resources:[customresourcedefinitions] Verbs:[create]\n\
             \x20 Namespace:\"ns\" APIGroups:[] Resources:[services] ResourceNames:[s] Verbs:[delete,get,patch,update]\n\
             \x20 Namespace:\"ns\" APIGroups:[] Resources:[services] Verbs:[create]"
        );
    }

    #[test]
    fn rules_allow_by_verb_group_resource_name_and_namespace() {
        let service = [object("v1", "Service", "ns", "s")];
        let named = "Namespace:\"ns\" APIGroups:[] Resources:[services] ResourceNames:[s] Verbs:[delete,get,patch,update]";
        let create = "Namespace:\"ns\" APIGroups:[] Resources:[services] Verbs:[create]";
        for (held, expected) in [
            (
                json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}),
                vec![],
            ),
            (
                json!({"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"]}),
                vec![named, create],
            ),
            (
                json!({"apiGroups": [""], "resources": ["services"], "resourceNames": ["s"], "verbs": ["*"]}),
                vec![create],
            ),
            (
                json!({"apiGroups": [""], "resources": ["services"], "resourceNames": ["t"], "verbs": ["*"]}),
                vec![named, create],
            ),
            (
                json!({"apiGroups": [""], "resources": ["services"], "verbs": ["create"]}),
                vec![named],
            ),
            (
                json!({"apiGroups": [""], "resources": ["services/status", "*/status"], "verbs": ["*"]}),
                vec![named, create],
            ),
        ] {
            check(&service, &[held], &expected);
        }
        let needs = needs(&service, &known).unwrap();
        assert_eq!(needs.namespaces(), BTreeSet::from(["ns"]));
        let all = rules(&[json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})]);
        for (namespace, is_enough) in [("ns", true), ("other", false)] {
            let held = HeldRules {
                cluster: Vec::new(),
                namespaces: BTreeMap::from([(namespace.to_owned(), all.clone())]),
            };
            let missing = needs.missing(&held, &BTreeMap::new(), &BTreeSet::new());
            assert_eq!(missing.is_empty(), is_enough, "{namespace}");
        }
    }

    #[test]
    fn a_role_needs_the_rights_that_it_gives_or_escalate() {
        let given = json!({"rules": [
            {"apiGroups": ["", "apps"], "resources": ["pods"], "verbs": ["get", "list"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ]});
        let role = [rbac("ClusterRole", "", "r", &given)];
        check(
            &role,
            &[rbac_writer()],
            &[
                "Namespace:\"\" APIGroups:[] Resources:[pods] Verbs:[get,list]",
                "Namespace:\"\" APIGroups:[apps] Resources:[pods] Verbs:[get,list]",
                "Namespace:\"\" Verbs:[get] NonResourceURLs:[/metrics]",
            ],
        );
        let pods = json!({"apiGroups": ["", "apps"], "resources": ["pods"], "verbs": ["*"]});
        let urls = json!({"nonResourceURLs": ["/m*"], "verbs": ["get"]});
        check(&role, &[rbac_writer(), pods, urls], &[]);
        let escalate =
            json!({"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["escalate"]});
        check(&role, &[rbac_writer(), escalate], &[]);
    }

    #[test]
    fn an_aggregated_role_needs_everything() {
        let role = [rbac(
            "ClusterRole",
            "",
            "r",
            &json!({"aggregationRule": {"clusterRoleSelectors": [{}]}}),
        )];
        check(
            &role,
            &[rbac_writer()],
            &[
                "Namespace:\"\" APIGroups:[*] Resources:[*] Verbs:[*]",
                "Namespace:\"\" Verbs:[*] NonResourceURLs:[*]",
            ],
        );
    }

    #[test]
    fn a_binding_needs_the_rights_of_its_role_where_it_binds_or_bind() {
        let role = rbac(
            "Role",
            "ns",
            "r",
            &json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        );
        let binding = rbac(
            "RoleBinding",
            "ns",
            "b",
            &json!({"roleRef": {"kind": "Role", "name": "r"}}),
        );
        let escalate = json!({"apiGroups": [RBAC], "resources": ["roles"], "verbs": ["escalate"]});
        let both = [role, binding];
        check(
            &both,
            &[rbac_writer(), escalate.clone()],
            &["Namespace:\"ns\" APIGroups:[] Resources:[pods] Verbs:[get]"],
        );
        let bind = json!({"apiGroups": [RBAC], "resources": ["roles"], "resourceNames": ["r"], "verbs": ["bind"]});
        check(&both, &[rbac_writer(), escalate, bind], &[]);
    }

    #[test]
    fn a_role_that_is_not_in_the_manifests_is_asked_for() {
        let binding = [rbac(
            "ClusterRoleBinding",
            "",
            "b",
            &json!({"roleRef": {"kind": "ClusterRole", "name": "auth"}}),
        )];
        let needs = needs(&binding, &known).unwrap();
        let auth = RoleRef {
            namespace: None,
            name: "auth".into(),
        };
        assert_eq!(needs.referenced_roles(), BTreeSet::from([auth.clone()]));
        let held = HeldRules {
            cluster: rules(&[rbac_writer()]),
            namespaces: BTreeMap::new(),
        };
        let none = BTreeSet::new();
        assert!(needs.missing(&held, &BTreeMap::new(), &none).is_empty());
        let roles = BTreeMap::from([(
            auth,
            rules(&[
                json!({"apiGroups": ["x"], "resources": ["y"], "resourceNames": ["z"], "verbs": ["create"]}),
            ]),
        )]);
        let missing = needs.missing(&held, &roles, &none);
        assert!(missing.to_string().ends_with(
            "\n  Namespace:\"\" APIGroups:[x] Resources:[y] ResourceNames:[z] Verbs:[create]"
        ));
        let open = needs.open(&held, &roles);
        assert_eq!(
            open.iter().map(|open| open.verb).collect::<Vec<_>>(),
            ["bind"]
        );
        assert!(needs.missing(&held, &roles, &open).is_empty());
    }

    #[test]
    fn a_kind_whose_crd_comes_along_is_known() {
        let mut crd = object(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "",
            "things.g",
        );
        crd["spec"] = json!({"group": "g", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1"}]});
        let thing = object("g/v1", "Thing", "ns", "t");
        let error = needs(std::slice::from_ref(&thing), &known).unwrap_err();
        assert_eq!(
            error.to_string(),
            "could not get REST mapping for object 0 in manifest with GVK g/v1, Kind=Thing (name: t): no matches for kind \"Thing\" in version \"g/v1\""
        );
        let needs = needs(&[crd, thing], &known).unwrap();
        let missing = needs.missing(&HeldRules::default(), &BTreeMap::new(), &BTreeSet::new());
        assert!(
            missing
                .to_string()
                .contains("Namespace:\"ns\" APIGroups:[g] Resources:[things] Verbs:[create]")
        );
        assert_eq!(
            super::needs(&[json!({})], &known).unwrap_err().to_string(),
            "cannot tell which permissions manifest 0 needs"
        );
    }

    proptest! {
        /// A rule covers each of its own single rights, and a rule without verbs covers none.
        #[test]
        fn a_rule_covers_itself(
            groups in prop::collection::vec("[a-c*]", 1..3),
            resources in prop::collection::vec("[a-c]|[a-c]/[xy]|\\*|\\*/x", 1..3),
            names in prop::collection::vec("[a-c]", 0..3),
            verbs in prop::collection::vec("[a-c*]", 1..3),
        ) {
            let rule = Rule { groups, resources, names, verbs, urls: Vec::new() };
            for right in rule.single_rights() {
                prop_assert!(rule.covers(&right));
                let silent = Rule { verbs: Vec::new(), ..rule.clone() };
                prop_assert!(!silent.covers(&right));
            }
        }
    }
}

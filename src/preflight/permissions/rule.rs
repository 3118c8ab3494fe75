//! Rules of roles and the single rights in them, and whether rules cover a right, as Kubernetes computes it.
//!
//! The authorizer lets a request pass if one rule allows it, and the escalation check lets a role be written if for each
//! single right in it one rule of the writer covers that right
//! ([`k8s.io/component-helpers/auth/rbac/validation`](https://github.com/kubernetes/component-helpers/blob/v0.36.0/auth/rbac/validation/policy_comparator.go)).
//! Both are [`Rule::covers`].

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::authorization::v1::{NonResourceRule, ResourceRule};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};

/// All of a kind: groups, resources, verbs.
pub(super) const ALL: &str = "*";

/// A rule of a role; every list may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// API groups, `*` for all.
    pub groups: BTreeSet<String>,
    /// Resources, `*` for all, `*/status` for that subresource of all.
    pub resources: BTreeSet<String>,
    /// Names; empty for all.
    pub names: BTreeSet<String>,
    /// Verbs, `*` for all.
    pub verbs: BTreeSet<String>,
    /// Paths that are no resources; `*` at the end stands for anything.
    pub urls: BTreeSet<String>,
}

/// A rule that cannot be taken apart further: one verb on one thing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// On objects.
    Resource {
        /// The API group, or `*`.
        group: String,
        /// The resource with its subresource, `*`, or `*/SUBRESOURCE`.
        resource: String,
        /// One object; none for all of them, and for those that do not exist yet.
        name: Option<String>,
        /// The verb, or `*`.
        verb: String,
    },
    /// On a path that is no resource.
    Url {
        /// The path, or its beginning and `*`.
        url: String,
        /// The verb, or `*`.
        verb: String,
    },
}

/// Whether whoever has the rules `held` has everything that `needed` gives.
pub fn covers(held: &[Rule], needed: &Rule) -> bool {
    needed
        .rights()
        .iter()
        .all(|right| held.iter().any(|rule| rule.covers(right)))
}

impl Rule {
    /// Everything on every resource and every path: what a role that aggregates others may be given.
    pub(super) fn everything() -> [Self; 2] {
        let all = || BTreeSet::from([ALL.to_owned()]);
        let resources = Self {
            groups: all(),
            resources: all(),
            verbs: all(),
            ..Self::default()
        };
        let urls = Self {
            verbs: all(),
            urls: all(),
            ..Self::default()
        };
        [resources, urls]
    }

    /// Whether whoever has this rule has `right`.
    pub fn covers(&self, right: &Right) -> bool {
        let has = |list: &BTreeSet<String>, text: &str| list.contains(ALL) || list.contains(text);
        match right {
            Right::Resource {
                group,
                resource,
                name,
                verb,
            } => {
                has(&self.verbs, verb)
                    && has(&self.groups, group)
                    && self
                        .resources
                        .iter()
                        .any(|own| holds_resource(own, resource))
                    && (self.names.is_empty()
                        || name.as_ref().is_some_and(|name| self.names.contains(name)))
            }
            Right::Url { url, verb } => {
                has(&self.verbs, verb) && self.urls.iter().any(|own| holds_url(own, url))
            }
        }
    }

    /// The single rights that the rule gives.
    pub fn rights(&self) -> Vec<Right> {
        let names: Vec<Option<&String>> = if self.names.is_empty() {
            vec![None]
        } else {
            self.names.iter().map(Some).collect()
        };
        let mut rights = Vec::new();
        for verb in &self.verbs {
            for group in &self.groups {
                for resource in &self.resources {
                    rights.extend(names.iter().map(|name| Right::Resource {
                        group: group.clone(),
                        resource: resource.clone(),
                        name: name.cloned(),
                        verb: verb.clone(),
                    }));
                }
            }
            rights.extend(self.urls.iter().map(|url| Right::Url {
                url: url.clone(),
                verb: verb.clone(),
            }));
        }
        rights
    }

    /// The rule as it stands in a role.
    pub fn manifest(&self) -> Value {
        let lists = [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("verbs", &self.verbs),
            ("nonResourceURLs", &self.urls),
        ];
        lists
            .into_iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(key, list)| (key.to_owned(), json!(list)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

impl Right {
    /// A verb on one object, or on all.
    pub(super) fn on(group: &str, resource: &str, name: Option<&str>, verb: &str) -> Self {
        Self::Resource {
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: name.map(str::to_owned),
            verb: verb.to_owned(),
        }
    }

    /// Whether whoever has this right has `other`, too.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let has = |own: &str, text: &str| own == ALL || own == text;
        match (self, other) {
            (
                Self::Resource {
                    group: own_group,
                    resource: own_resource,
                    name: own_name,
                    verb: own_verb,
                },
                Self::Resource {
                    group,
                    resource,
                    name,
                    verb,
                },
            ) => {
                has(own_verb, verb)
                    && has(own_group, group)
                    && holds_resource(own_resource, resource)
                    && (own_name.is_none() || own_name == name)
            }
            (
                Self::Url {
                    url: own_url,
                    verb: own_verb,
                },
                Self::Url { url, verb },
            ) => has(own_verb, verb) && holds_url(own_url, url),
            (Self::Resource { .. }, Self::Url { .. })
            | (Self::Url { .. }, Self::Resource { .. }) => false,
        }
    }

    /// The rule that gives just this.
    pub fn rule(&self) -> Rule {
        let one = |text: &String| BTreeSet::from([text.clone()]);
        match self {
            Self::Resource {
                group,
                resource,
                name,
                verb,
            } => Rule {
                groups: one(group),
                resources: one(resource),
                names: name.iter().cloned().collect(),
                verbs: one(verb),
                urls: BTreeSet::new(),
            },
            Self::Url { url, verb } => Rule {
                verbs: one(verb),
                urls: one(url),
                ..Rule::default()
            },
        }
    }
}

fn holds_resource(own: &str, wanted: &str) -> bool {
    own == ALL
        || own == wanted
        || wanted
            .split_once('/')
            .is_some_and(|(_, sub)| own.strip_prefix("*/") == Some(sub))
}

fn holds_url(own: &str, wanted: &str) -> bool {
    own == wanted || own.ends_with('*') && wanted.starts_with(own.trim_end_matches('*'))
}

/// Joins the rules that differ in one list only, the lists being those that `list` picks.
///
/// What the rules give together does not change: no name is joined with no name.
pub(super) fn join(rules: Vec<Rule>, list: fn(&mut Rule) -> &mut BTreeSet<String>) -> Vec<Rule> {
    let mut joined: BTreeMap<(Rule, bool), BTreeSet<String>> = BTreeMap::new();
    for mut rule in rules {
        let items = std::mem::take(list(&mut rule));
        let is_empty = items.is_empty();
        joined.entry((rule, is_empty)).or_default().extend(items);
    }
    joined
        .into_iter()
        .map(|((mut rule, _), items)| {
            *list(&mut rule) = items;
            rule
        })
        .collect()
}

fn set(list: Option<Vec<String>>) -> BTreeSet<String> {
    list.into_iter().flatten().collect()
}

impl From<PolicyRule> for Rule {
    fn from(rule: PolicyRule) -> Self {
        Self {
            groups: set(rule.api_groups),
            resources: set(rule.resources),
            names: set(rule.resource_names),
            verbs: rule.verbs.into_iter().collect(),
            urls: set(rule.non_resource_urls),
        }
    }
}

impl From<ResourceRule> for Rule {
    fn from(rule: ResourceRule) -> Self {
        Self {
            groups: set(rule.api_groups),
            resources: set(rule.resources),
            names: set(rule.resource_names),
            verbs: rule.verbs.into_iter().collect(),
            urls: BTreeSet::new(),
        }
    }
}

impl From<NonResourceRule> for Rule {
    fn from(rule: NonResourceRule) -> Self {
        Self {
            verbs: rule.verbs.into_iter().collect(),
            urls: set(rule.non_resource_urls),
            ..Self::default()
        }
    }
}

#[cfg(test)]
pub(super) mod tests;

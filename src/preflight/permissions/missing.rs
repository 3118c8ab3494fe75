//! What an account lacks, in the words that people and scripts know.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::Access;
use super::rule::{ALL, Right, Rule, join};
use crate::error::quoted;

/// The rights that an account lacks. Printed as the reference does: a line per rule, sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MissingRules(BTreeSet<Access>);

impl MissingRules {
    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The missing rules by namespace (empty: everywhere), the verbs on the same thing joined, sorted.
    pub fn by_namespace(&self) -> BTreeMap<&str, Vec<Rule>> {
        let mut rights: BTreeMap<&str, Vec<&Right>> = BTreeMap::new();
        for access in &self.0 {
            rights
                .entry(&access.namespace)
                .or_default()
                .push(&access.right);
        }
        rights
            .into_iter()
            .map(|(namespace, rights)| (namespace, compact(&rights)))
            .collect()
    }

    /// A line per rule, sorted.
    pub(super) fn lines(&self) -> Vec<String> {
        let rules = self.by_namespace().into_iter();
        let mut lines: Vec<String> = rules
            .flat_map(|(namespace, rules)| {
                rules.into_iter().map(move |rule| line(namespace, &rule))
            })
            .collect();
        lines.sort();
        lines
    }

    pub(super) fn add(&mut self, access: Access) {
        self.0.insert(access);
    }

    /// Adds further rights.
    pub fn extend(&mut self, accesses: impl IntoIterator<Item = Access>) {
        self.0.extend(accesses);
    }
}

/// Joins the verbs on the same thing; all of them swallow the others.
fn compact(rights: &[&Right]) -> Vec<Rule> {
    let rules = rights.iter().map(|right| right.rule()).collect();
    let mut rules = join(rules, |rule| &mut rule.verbs);
    for rule in &mut rules {
        if rule.verbs.contains(ALL) {
            rule.verbs.retain(|verb| verb == ALL);
        }
    }
    rules
}

impl fmt::Display for MissingRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "service account requires the following permissions to manage cluster extension:",
        )?;
        self.lines()
            .iter()
            .try_for_each(|line| write!(f, "\n  {line}"))
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
        .map(|(what, list)| {
            let items: Vec<&str> = list.iter().map(String::as_str).collect();
            format!("{what}:[{}]", items.join(","))
        })
        .collect();
    format!("Namespace:{} {}", quoted(namespace), parts.join(" "))
}

use proptest::prelude::*;

use super::*;

pub(in crate::preflight::permissions) fn rule(value: &Value) -> Rule {
    serde_json::from_value::<PolicyRule>(value.clone())
        .unwrap()
        .into()
}

/// One request, as the authorizer sees it: no wildcards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::preflight::permissions) enum Asked {
    Resource {
        group: &'static str,
        resource: &'static str,
        subresource: &'static str,
        name: &'static str,
        verb: &'static str,
    },
    Url {
        url: &'static str,
        verb: &'static str,
    },
}

const GROUPS: [&str; 3] = ["", "g", "other"];
const RESOURCES: [&str; 3] = ["r", "s", "other"];
const SUBRESOURCES: [&str; 3] = ["", "x", "other"];
const NAMES: [&str; 4] = ["", "n", "m", "other"];
const VERBS: [&str; 3] = ["get", "put", "other"];
const URLS: [&str; 4] = ["/a", "/a/b", "/a/c", "/other"];

/// Every request that the strategies below can tell apart, and one more of each kind.
pub(in crate::preflight::permissions) fn universe() -> Vec<Asked> {
    let mut all = Vec::new();
    for verb in VERBS {
        all.extend(URLS.map(|url| Asked::Url { url, verb }));
        for group in GROUPS {
            for resource in RESOURCES {
                for subresource in SUBRESOURCES {
                    all.extend(NAMES.map(|name| Asked::Resource {
                        group,
                        resource,
                        subresource,
                        name,
                        verb,
                    }));
                }
            }
        }
    }
    all
}

/// What RBAC documents about rules, written down once more and naively.
pub(in crate::preflight::permissions) fn allows(rule: &Rule, asked: &Asked) -> bool {
    let listed =
        |list: &BTreeSet<String>, text: &str| list.iter().any(|item| item == "*" || item == text);
    match asked {
        Asked::Url { url, verb } => {
            listed(&rule.verbs, verb)
                && rule.urls.iter().any(|owned| match owned.split_once('*') {
                    Some((beginning, _)) => url.starts_with(beginning),
                    None => owned == url,
                })
        }
        Asked::Resource {
            group,
            resource,
            subresource,
            name,
            verb,
        } => {
            let full = if subresource.is_empty() {
                (*resource).to_owned()
            } else {
                format!("{resource}/{subresource}")
            };
            let of_all = format!("*/{subresource}");
            let is_listed = listed(&rule.resources, &full)
                || !subresource.is_empty() && rule.resources.contains(&of_all);
            listed(&rule.verbs, verb)
                && listed(&rule.groups, group)
                && is_listed
                && (rule.names.is_empty() || rule.names.contains(*name))
        }
    }
}

fn some(pattern: &'static str, most: usize) -> impl Strategy<Value = BTreeSet<String>> {
    prop::collection::btree_set(pattern, 0..=most)
}

pub(in crate::preflight::permissions) fn any_rule() -> impl Strategy<Value = Rule> {
    let verbs = || some("get|put|\\*", 2);
    let resource = (
        some("|g|\\*", 2),
        some("r|s|r/x|s/x|\\*|\\*/x", 3),
        some("n|m", 2),
        verbs(),
    )
        .prop_map(|(groups, resources, names, verbs)| Rule {
            groups,
            resources,
            names,
            verbs,
            urls: BTreeSet::new(),
        });
    let url = (some("/a|/a/b|/a/\\*|/a\\*|\\*", 2), verbs()).prop_map(|(urls, verbs)| Rule {
        verbs,
        urls,
        ..Rule::default()
    });
    prop_oneof![4 => resource, 1 => url]
}

#[test]
fn rules_cover_rules_as_kubernetes_computes_it() {
    let resource = |groups: &[&str], resources: &[&str], names: &[&str], verbs: &[&str]| {
        rule(
            &json!({"apiGroups": groups, "resources": resources, "resourceNames": names, "verbs": verbs}),
        )
    };
    let url =
        |urls: &[&str], verbs: &[&str]| rule(&json!({"nonResourceURLs": urls, "verbs": verbs}));
    for (why, held, needed, expected) in [
        (
            "itself",
            vec![resource(&[""], &["pods"], &[], &["get"])],
            resource(&[""], &["pods"], &[], &["get"]),
            true,
        ),
        ("nothing is always held", vec![], Rule::default(), true),
        (
            "all of all",
            vec![resource(&["*"], &["*"], &[], &["*"])],
            resource(&["", "apps"], &["pods", "pods/log"], &["a"], &["get", "*"]),
            true,
        ),
        (
            "two rules together",
            vec![
                resource(&[""], &["pods"], &[], &["get"]),
                resource(&["apps"], &["pods"], &[], &["get"]),
            ],
            resource(&["", "apps"], &["pods"], &[], &["get"]),
            true,
        ),
        (
            "a list of all verbs is not the star",
            vec![resource(
                &[""],
                &["pods"],
                &[],
                &[
                    "get",
                    "list",
                    "watch",
                    "create",
                    "update",
                    "patch",
                    "delete",
                    "deletecollection",
                ],
            )],
            resource(&[""], &["pods"], &[], &["*"]),
            false,
        ),
        (
            "another group",
            vec![resource(&["apps"], &["*"], &[], &["*"])],
            resource(&[""], &["pods"], &[], &["get"]),
            false,
        ),
        (
            "a resource is not its subresource",
            vec![resource(&[""], &["pods"], &[], &["get"])],
            resource(&[""], &["pods/log"], &[], &["get"]),
            false,
        ),
        (
            "a subresource of all",
            vec![resource(&[""], &["*/log"], &[], &["get"])],
            resource(&[""], &["pods/log"], &[], &["get"]),
            true,
        ),
        (
            "a subresource of all is not all",
            vec![resource(&[""], &["*/log"], &[], &["get"])],
            resource(&[""], &["pods"], &[], &["get"]),
            false,
        ),
        (
            "all resources hold their subresources",
            vec![resource(&[""], &["*"], &[], &["get"])],
            resource(&[""], &["*/log"], &[], &["get"]),
            true,
        ),
        (
            "one name of all",
            vec![resource(&[""], &["pods"], &["a"], &["get"])],
            resource(&[""], &["pods"], &[], &["get"]),
            false,
        ),
        (
            "names from two rules",
            vec![
                resource(&[""], &["pods"], &["a"], &["get"]),
                resource(&[""], &["pods"], &["b"], &["get"]),
            ],
            resource(&[""], &["pods"], &["a", "b"], &["get"]),
            true,
        ),
        (
            "a path below",
            vec![url(&["/metrics/*"], &["get"])],
            url(&["/metrics/cadvisor"], &["get"]),
            true,
        ),
        (
            "not the path itself",
            vec![url(&["/metrics/*"], &["get"])],
            url(&["/metrics"], &["get"]),
            false,
        ),
        (
            "a beginning of beginnings",
            vec![url(&["/m*"], &["*"])],
            url(&["/metrics/*"], &["get"]),
            true,
        ),
        (
            "paths are no resources",
            vec![resource(&["*"], &["*"], &[], &["*"])],
            url(&["/metrics"], &["get"]),
            false,
        ),
    ] {
        assert_eq!(covers(&held, &needed), expected, "{why}");
    }
}

proptest! {
    /// Whoever is said to have a rule may do everything that it allows.
    #[test]
    fn cover_is_sound(held in prop::collection::vec(any_rule(), 0..5), needed in any_rule()) {
        if covers(&held, &needed) {
            for asked in universe() {
                if allows(&needed, &asked) {
                    prop_assert!(held.iter().any(|rule| allows(rule, &asked)), "{asked:?}");
                }
            }
        }
    }

    /// A request without wildcards is covered just when the authorizer lets it pass.
    #[test]
    fn a_request_is_covered_when_it_is_allowed(rule in any_rule()) {
        for asked in universe() {
            let right = match &asked {
                Asked::Url { url, verb } => Right::Url { url: (*url).into(), verb: (*verb).into() },
                Asked::Resource { group, resource, subresource, name, verb } => Right::Resource {
                    group: (*group).into(),
                    resource: if subresource.is_empty() { (*resource).into() } else { format!("{resource}/{subresource}") },
                    name: (!name.is_empty()).then(|| (*name).into()),
                    verb: (*verb).into(),
                },
            };
            prop_assert_eq!(rule.covers(&right), allows(&rule, &asked), "{:?}", asked);
        }
    }

    /// A rule holds each of its own rights and is what they are together; one without verbs holds nothing.
    #[test]
    fn a_rule_is_its_rights(rule in any_rule()) {
        let apart: Vec<Rule> = rule.rights().iter().map(Right::rule).collect();
        prop_assert!(covers(std::slice::from_ref(&rule), &rule));
        prop_assert!(covers(&apart, &rule));
        for asked in universe() {
            prop_assert_eq!(allows(&rule, &asked), apart.iter().any(|right| allows(right, &asked)));
        }
        let silent = Rule { verbs: BTreeSet::new(), ..rule.clone() };
        for right in rule.rights() {
            prop_assert!(!silent.covers(&right));
            for other in rule.rights() {
                prop_assert_eq!(right.covers(&other), right.rule().covers(&other));
            }
        }
    }
}

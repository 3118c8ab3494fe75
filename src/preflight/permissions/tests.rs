use serde_json::json;

use super::rule::tests::rule;
use super::*;

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

fn rules(values: &[Value]) -> Vec<Rule> {
    values.iter().map(rule).collect()
}

/// Everything on RBAC objects but giving away what one has not.
fn rbac_writer() -> Value {
    json!({"apiGroups": [RBAC], "resources": ["roles", "clusterroles", "rolebindings", "clusterrolebindings"],
        "verbs": ["create", "get", "patch", "delete"]})
}

fn everywhere(rules: Vec<Rule>) -> HeldRules {
    HeldRules {
        cluster: rules,
        namespaces: BTreeMap::new(),
    }
}

/// The lines about what an account with the rules `cluster` lacks.
#[track_caller]
fn check(manifests: &[Value], cluster: &[Value], expected: &[&str]) {
    let needs = needs(manifests, &built_in).unwrap();
    let missing = needs.missing(
        &everywhere(rules(cluster)),
        &LiveRoles::new(),
        &BTreeSet::new(),
    );
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
    let needs = needs(&manifests, &built_in).unwrap();
    let missing = needs.missing(&HeldRules::default(), &LiveRoles::new(), &BTreeSet::new());
    assert_eq!(
        missing.to_string(),
        "service account requires the following permissions to manage cluster extension:\n\
         \x20 Namespace:\"\" APIGroups:[apiextensions.k8s.io] Resources:[customresourcedefinitions] ResourceNames:[x.y.z] Verbs:[delete,get,patch,update]\n\
         \x20 Namespace:\"\" APIGroups:[apiextensions.k8s.io] Resources:[customresourcedefinitions] Verbs:[create]\n\
         \x20 Namespace:\"ns\" APIGroups:[] Resources:[services] ResourceNames:[s] Verbs:[delete,get,patch,update]\n\
         \x20 Namespace:\"ns\" APIGroups:[] Resources:[services] Verbs:[create]"
    );
}

#[test]
fn rules_allow_by_verb_group_resource_and_name() {
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
}

#[test]
fn rules_of_a_namespace_count_in_it_alone() {
    let needs = needs(&[object("v1", "Service", "ns", "s")], &built_in).unwrap();
    assert_eq!(needs.namespaces(), BTreeSet::from(["ns"]));
    let all = rules(&[json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})]);
    for (namespace, is_enough) in [("ns", true), ("other", false)] {
        let held = HeldRules {
            cluster: Vec::new(),
            namespaces: BTreeMap::from([(namespace.to_owned(), all.clone())]),
        };
        let missing = needs.missing(&held, &LiveRoles::new(), &BTreeSet::new());
        assert_eq!(missing.is_empty(), is_enough, "{namespace}");
    }
}

#[test]
fn what_leaves_is_looked_at_and_deleted() {
    let old = [
        object("v1", "Service", "ns", "old"),
        object("unknown/v1", "Thing", "ns", "gone"),
    ];
    let needs = needs(&[object("v1", "Service", "ns", "s")], &built_in)
        .unwrap()
        .and_to_take_down(&old, &built_in);
    let new = json!({"apiGroups": [""], "resources": ["services"], "resourceNames": ["s"], "verbs": ["get", "patch", "update", "delete"]});
    let create = json!({"apiGroups": [""], "resources": ["services"], "verbs": ["create"]});
    let missing = needs.missing(
        &everywhere(rules(&[new, create])),
        &LiveRoles::new(),
        &BTreeSet::new(),
    );
    let message = missing.to_string();
    let line =
        "Namespace:\"ns\" APIGroups:[] Resources:[services] ResourceNames:[old] Verbs:[delete,get]";
    assert!(message.contains(line), "{message}");
}

#[test]
fn update_is_named_beside_patch_and_never_needed() {
    let service = [object("v1", "Service", "ns", "s")];
    let verbs = |verbs: &[&str]| {
        let create = json!({"apiGroups": [""], "resources": ["services"], "verbs": ["create"]});
        [
            create,
            json!({"apiGroups": [""], "resources": ["services"], "resourceNames": ["s"], "verbs": verbs}),
        ]
    };
    let line = |verbs: &str| {
        format!(
            "Namespace:\"ns\" APIGroups:[] Resources:[services] ResourceNames:[s] Verbs:[{verbs}]"
        )
    };
    check(&service, &verbs(&["get", "patch", "delete"]), &[]);
    check(
        &service,
        &verbs(&["get", "delete"]),
        &[&line("patch,update")],
    );
    check(
        &service,
        &verbs(&["get", "delete", "update"]),
        &[&line("patch")],
    );
    check(&service, &verbs(&["patch"]), &[&line("delete,get")]);
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
    // A request that creates has no name, so this is not enough.
    let by_name = json!({"apiGroups": [RBAC], "resources": ["clusterroles"], "resourceNames": ["r"], "verbs": ["escalate"]});
    let all = json!({"nonResourceURLs": ["*"], "verbs": ["*"]});
    check(
        &[rbac(
            "ClusterRole",
            "",
            "r",
            &json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "*"]}]}),
        )],
        &[rbac_writer(), by_name, all],
        &["Namespace:\"\" APIGroups:[] Resources:[pods] Verbs:[*]"],
    );
}

#[test]
fn a_role_that_gathers_others_needs_everything() {
    let gathering = json!({"aggregationRule": {"clusterRoleSelectors": [{}]}});
    let role = rbac("ClusterRole", "", "r", &gathering);
    let everything = [
        "Namespace:\"\" APIGroups:[*] Resources:[*] Verbs:[*]",
        "Namespace:\"\" Verbs:[*] NonResourceURLs:[*]",
    ];
    check(std::slice::from_ref(&role), &[rbac_writer()], &everything);
    let nothing = json!({"aggregationRule": {"clusterRoleSelectors": []}, "rules": null});
    check(
        &[rbac("ClusterRole", "", "r", &nothing)],
        &[rbac_writer()],
        &[],
    );
    let escalate =
        json!({"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["escalate"]});
    let binding = rbac(
        "RoleBinding",
        "ns",
        "b",
        &json!({"roleRef": {"kind": "ClusterRole", "name": "r"}}),
    );
    let both = [role, binding];
    check(
        &both,
        &[rbac_writer(), escalate.clone()],
        &[
            "Namespace:\"ns\" APIGroups:[rbac.authorization.k8s.io] Resources:[clusterroles] ResourceNames:[r] Verbs:[bind]",
        ],
    );
    let bind =
        json!({"apiGroups": [RBAC], "resources": ["*"], "resourceNames": ["r"], "verbs": ["bind"]});
    check(&both, &[rbac_writer(), escalate, bind], &[]);
    let all = Rule::everything().map(|rule| rule.manifest());
    check(&both, &all, &[]);
}

#[test]
fn a_binding_needs_the_rights_of_its_role_where_it_binds_or_bind() {
    let given = json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    let role = rbac("Role", "ns", "r", &given);
    let elsewhere = rbac(
        "Role",
        "other",
        "r",
        &json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}),
    );
    let binding = rbac(
        "RoleBinding",
        "ns",
        "b",
        &json!({"roleRef": {"kind": "Role", "name": "r"}}),
    );
    let escalate = json!({"apiGroups": [RBAC], "resources": ["roles"], "verbs": ["escalate"]});
    let all = [elsewhere, role, binding];
    check(
        &all,
        &[rbac_writer(), escalate.clone()],
        &["Namespace:\"ns\" APIGroups:[] Resources:[pods] Verbs:[get]"],
    );
    let bind = json!({"apiGroups": [RBAC], "resources": ["roles"], "resourceNames": ["r"], "verbs": ["bind"]});
    check(&all, &[rbac_writer(), escalate, bind], &[]);
}

#[test]
fn a_role_that_is_not_in_the_manifests_counts_with_its_rules() {
    let binding = [rbac(
        "ClusterRoleBinding",
        "",
        "b",
        &json!({"roleRef": {"kind": "ClusterRole", "name": "auth"}}),
    )];
    let needs = needs(&binding, &built_in).unwrap();
    let auth = RoleRef {
        namespace: None,
        name: "auth".into(),
    };
    assert_eq!(needs.referenced_roles(), BTreeSet::from([auth.clone()]));
    let held = everywhere(rules(&[rbac_writer()]));
    let none = BTreeSet::new();
    // Nobody has made it: the API server says not found, unless one may bind it.
    let missing = needs.missing(&held, &LiveRoles::new(), &none);
    assert!(missing.to_string().ends_with(
        ":\n  Namespace:\"\" APIGroups:[rbac.authorization.k8s.io] Resources:[clusterroles] ResourceNames:[auth] Verbs:[bind]"
    ));
    let live = LiveRoles::from([(
        auth,
        rules(&[
            json!({"apiGroups": ["x"], "resources": ["y"], "resourceNames": ["z"], "verbs": ["create"]}),
        ]),
    )]);
    let missing = needs.missing(&held, &live, &none);
    assert!(missing.to_string().ends_with(
        ":\n  Namespace:\"\" APIGroups:[x] Resources:[y] ResourceNames:[z] Verbs:[create]"
    ));
    let open = needs.open(&held, &live);
    let bind = Access {
        namespace: String::new(),
        right: Right::on(RBAC, "clusterroles", Some("auth"), "bind"),
    };
    assert_eq!(open, BTreeSet::from([bind]));
    assert!(needs.missing(&held, &live, &open).is_empty());
}

#[test]
fn nobody_is_told_to_install_what_kubernetes_dropped() {
    for (api_version, is_dropped) in [
        ("apiextensions.k8s.io/v1beta1", true),
        ("policy/v1beta1", true),
        ("v2", true),
        ("snapshot.storage.k8s.io/v1", false),
        ("g/v1", false),
    ] {
        let nobody = |_: &Gvk| None;
        let manifest = object(api_version, "Thing", "ns", "t");
        let text = needs(&[manifest], &nobody).unwrap_err().to_string();
        assert_eq!(text.ends_with(REMOVED_API), is_dropped, "{text}");
        let installs = text.ends_with(": install what defines it first");
        assert_eq!(installs, !is_dropped, "{text}");
    }
    let list = object("v1", "ConfigMapList", "ns", "t");
    let text = needs(&[list], &|_| None).unwrap_err().to_string();
    assert!(text.ends_with(LIST), "{text}");
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
    let error = needs(std::slice::from_ref(&thing), &built_in).unwrap_err();
    assert_eq!(
        error.to_string(),
        "could not get REST mapping for object 0 in manifest with GVK g/v1, Kind=Thing (name: t): no matches for kind \"Thing\" in version \"g/v1\": install what defines it first"
    );
    assert_eq!(error.disposition(), Disposition::Retry);
    let needs = needs(&[thing, crd], &built_in).unwrap();
    let missing = needs.missing(&HeldRules::default(), &LiveRoles::new(), &BTreeSet::new());
    let line = "Namespace:\"ns\" APIGroups:[g] Resources:[things] Verbs:[create]";
    assert!(missing.to_string().contains(line));
}

#[test]
fn manifests_that_are_none_are_refused() {
    let error = needs(&[json!({})], &built_in).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot tell which permissions manifest 0 needs"
    );
    assert_eq!(error.disposition(), Disposition::Terminal(Reason::Blocked));
    // The API server will refuse these; here they give nothing away.
    for broken in [
        rbac("Role", "ns", "r", &json!({"rules": "all"})),
        rbac("Role", "ns", "r", &json!({"rules": [{"verbs": 7}]})),
        rbac(
            "RoleBinding",
            "ns",
            "b",
            &json!({"roleRef": {"kind": "Group", "name": "r"}}),
        ),
        rbac("RoleBinding", "ns", "b", &json!({"roleRef": null})),
    ] {
        check(&[broken], &[rbac_writer()], &[]);
    }
}

/// A bundle in small: a role that gives rights away, its binding, one object, one binding to a role of the cluster.
fn bundle() -> Vec<Value> {
    let given = json!({"rules": [
        {"apiGroups": [""], "resources": ["services", "secrets"], "verbs": ["get", "list"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]});
    vec![
        rbac("ClusterRole", "", "r", &given),
        rbac(
            "RoleBinding",
            "ns",
            "b",
            &json!({"roleRef": {"kind": "ClusterRole", "name": "r"}}),
        ),
        object("v1", "Service", "ns", "s"),
        rbac(
            "RoleBinding",
            "kube-system",
            "auth",
            &json!({"roleRef": {"kind": "Role", "name": "reader"}}),
        ),
    ]
}

#[test]
fn the_least_grants_are_roles_without_what_others_give() {
    let grants = needs(&bundle(), &built_in).unwrap().least();
    insta::assert_yaml_snapshot!(grants.manifests("ns", "installer", "hello"));
}

#[test]
fn the_least_grants_are_enough_and_each_missing_one_is_told() {
    let needs = needs(&bundle(), &built_in).unwrap();
    let held_but = |left_out: Option<(&str, usize)>| {
        let mut held = HeldRules::default();
        for (namespace, rules) in needs.least().by_namespace() {
            let kept = rules.iter().enumerate();
            let kept = kept.filter(|(at, _)| left_out != Some((namespace, *at)));
            let kept = kept.map(|(_, rule)| rule.clone()).collect();
            if namespace.is_empty() {
                held.cluster = kept;
            } else {
                held.namespaces.insert(namespace.clone(), kept);
            }
        }
        held
    };
    let missing = |held: &HeldRules| needs.missing(held, &LiveRoles::new(), &BTreeSet::new());
    assert!(missing(&held_but(None)).is_empty());
    for (namespace, rules) in needs.least().by_namespace() {
        for (at, rule) in rules.iter().enumerate() {
            let told = missing(&held_but(Some((namespace, at))));
            let told: BTreeSet<Right> = told
                .by_namespace()
                .into_values()
                .flatten()
                .flat_map(|rule| rule.rights())
                .filter(|right| !matches!(right, Right::Resource { verb, .. } if verb == "update"))
                .collect();
            // A right on one object that the rule gave among others is told by itself, too.
            assert!(told.iter().all(|right| rule.covers(right)), "{told:?}");
            assert!(
                told.is_superset(&rule.rights().into_iter().collect()),
                "{told:?}"
            );
        }
    }
}

//! Service accounts, roles and their bindings.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::bundle::csv::{Permission, PolicyRule};

use super::Context;
use super::name;

/// One service account for each that has permissions, sorted by name. `default` exists in every namespace.
pub(super) fn service_accounts(ctx: &Context<'_>) -> Vec<Value> {
    let strategy = &ctx.bundle.csv.spec.install.spec;
    let accounts: BTreeSet<&str> = strategy
        .permissions
        .iter()
        .chain(&strategy.cluster_permissions)
        .map(Permission::account)
        .filter(|account| *account != "default")
        .collect();
    accounts
        .into_iter()
        .map(|account| {
            json!({
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": account, "namespace": ctx.install_namespace},
            })
        })
        .collect()
}

/// The permissions as roles in the watched namespace; none when all are watched.
pub(super) fn roles(ctx: &Context<'_>) -> Vec<Value> {
    let Some(namespace) = &ctx.watch_namespace else {
        return Vec::new();
    };
    let permissions = &ctx.bundle.csv.spec.install.spec.permissions;
    permissions
        .iter()
        .flat_map(|permission| role_and_binding(ctx, permission, Some(namespace)))
        .collect()
}

/// The cluster permissions as cluster roles. Where all namespaces are watched, so are the permissions, each with the
/// right to read namespaces added.
pub(super) fn cluster_roles(ctx: &Context<'_>) -> Vec<Value> {
    let strategy = &ctx.bundle.csv.spec.install.spec;
    let lifted: Vec<Permission> = match ctx.watch_namespace {
        Some(_) => Vec::new(),
        None => strategy.permissions.iter().map(lifted).collect(),
    };
    strategy
        .cluster_permissions
        .iter()
        .chain(&lifted)
        .flat_map(|permission| role_and_binding(ctx, permission, None))
        .collect()
}

/// The permission with the right to read namespaces, which enters the hash of its name.
fn lifted(permission: &Permission) -> Permission {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let mut rules = permission.rules.clone().unwrap_or_default();
    rules.push(PolicyRule {
        verbs: Some(texts(&["get", "list", "watch"])),
        api_groups: texts(&[""]),
        resources: texts(&["namespaces"]),
        ..PolicyRule::default()
    });
    Permission {
        service_account_name: permission.service_account_name.clone(),
        rules: Some(rules),
    }
}

/// A role and its binding, in `namespace` or for the whole cluster.
fn role_and_binding(
    ctx: &Context<'_>,
    permission: &Permission,
    namespace: Option<&str>,
) -> [Value; 2] {
    let name = name::for_permission(&ctx.bundle.csv.metadata.name, permission);
    let (role_kind, binding_kind) = match namespace {
        Some(_) => ("Role", "RoleBinding"),
        None => ("ClusterRole", "ClusterRoleBinding"),
    };
    let metadata = match namespace {
        Some(namespace) => json!({"name": name, "namespace": namespace}),
        None => json!({"name": name}),
    };
    let mut role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": role_kind,
        "metadata": metadata,
    });
    if let (Some(rules), Some(members)) = (&permission.rules, role.as_object_mut()) {
        members.insert("rules".to_owned(), rules.iter().map(rule).collect());
    }
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": binding_kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": name},
        "subjects": [{
            "kind": "ServiceAccount",
            "name": permission.account(),
            "namespace": ctx.install_namespace,
        }],
    });
    [role, binding]
}

fn rule(rule: &PolicyRule) -> Value {
    let mut members = serde_json::Map::new();
    let mut add = |key: &str, texts: &[String]| {
        if !texts.is_empty() {
            members.insert(key.to_owned(), Value::from(texts.to_vec()));
        }
    };
    add("apiGroups", &rule.api_groups);
    add("resources", &rule.resources);
    add("resourceNames", &rule.resource_names);
    add("nonResourceURLs", &rule.non_resource_urls);
    if let Some(verbs) = &rule.verbs {
        members.insert("verbs".to_owned(), Value::from(verbs.clone()));
    }
    Value::Object(members)
}

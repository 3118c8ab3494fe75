//! Revisions whose account is missing, or may too little.

use super::*;
use crate::identity::accounts::{Change, Subject};

#[tokio::test]
async fn a_missing_account_and_missing_rights_stop_before_the_first_write() {
    let cluster = Cluster::new().await;
    cluster.ensure(&desired("1.0.0", &[config("1")])).await;
    let installer = namespaced("v1", "ServiceAccount", "installer");
    cluster.server.remove(&installer);
    assert_eq!(cluster.pass("e-1").await, Next::Retry);
    assert_eq!(
        cluster.condition("e-1", "Progressing"),
        "True/Retrying: operation cannot proceed due to the following validation error(s): service account \"installer\" not found in namespace \"n\": kubectl create serviceaccount installer --namespace n"
    );
    cluster.server.add(&installer);
    cluster.server.set_rules("n:installer", &[]);
    assert_eq!(cluster.pass("e-1").await, Next::Retry);
    assert!(cluster.condition("e-1", "Progressing").starts_with(
        "True/Retrying: pre-authorization failed: service account requires the following permissions to manage cluster extension:\n"
    ));
    assert_eq!(cluster.server.object(CONFIG), None);
    let all = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    cluster.server.set_rules("n:installer", &[("n", all)]);
    cluster.passes("e-1").await;
    assert!(cluster.server.object(CONFIG).is_some());
}

#[tokio::test]
async fn a_revision_without_account_is_blocked_and_can_be_deleted() {
    let cluster = Cluster::new().await;
    cluster.server.add(&json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
        "metadata": {"name": "by-hand", "finalizers": [keys::FINALIZER_TEARDOWN]},
        "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent"},
    }));
    assert_eq!(
        cluster.pass("by-hand").await,
        Next::Blocked(Some(BLOCKED_AGAIN))
    );
    assert_eq!(
        cluster.condition("by-hand", "Progressing"),
        "False/Blocked: revision \"by-hand\" is missing required annotations: set olm.operatorframework.io/service-account-name and olm.operatorframework.io/service-account-namespace"
    );
    cluster.server.edit(
        "/apis/olm.operatorframework.io/v1/clusterobjectsets/by-hand",
        &json!({"metadata": {"deletionTimestamp": Timestamp::now().to_string()}}),
    );
    cluster.passes("by-hand").await;
    assert!(cluster.set("by-hand").is_none());
}

#[tokio::test]
async fn that_oxolm_may_not_act_as_the_account_is_told_once_with_the_way_out() {
    let refused = r#"serviceaccounts "installer" is forbidden: User "oxolm" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "n""#;
    let help = "oxolm may not act as this account: add its namespace to the chart's impersonation.namespaces, or set impersonation.scope to cluster";
    let cluster = Cluster::new().await;
    let objects = [config("1"), namespaced("v1", "ServiceAccount", "operator")];
    cluster.ensure(&desired("1.0.0", &objects)).await;
    let rules = "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    cluster.server.fail_with(rules, 403, refused);
    cluster.pass("e-1").await;
    assert_eq!(
        cluster.condition("e-1", "Progressing"),
        format!(
            "True/Retrying: pre-authorization failed: authorization evaluation error: missing rules may be incomplete: failed to \
             resolve or evaluate permissions: cannot review the rights of n/installer: {refused}: {help}"
        )
    );
    for path in [CONFIG, "/api/v1/namespaces/n/serviceaccounts/operator"] {
        cluster
            .server
            .fail_with(&format!("GET {path}"), 403, refused);
    }
    cluster.pass("e-1").await;
    assert_eq!(
        cluster.condition("e-1", "Progressing"),
        format!(
            "True/Retrying: reconciling object: reconciling ServiceAccount.v1 n/operator: getting resource: {refused}: {help}"
        )
    );
}

#[tokio::test]
async fn rights_that_are_lost_later_are_told_all_at_once() {
    let cluster = Cluster::new().await;
    let objects = [config("1"), namespaced("v1", "ServiceAccount", "operator")];
    cluster.ensure(&desired("1.0.0", &objects)).await;
    cluster.passes("e-1").await;
    for object in &objects {
        cluster.server.remove(object);
    }
    for method in ["POST", "PATCH", "PUT"] {
        cluster
            .server
            .forbid("n:installer", &format!("{method} /api/v1/"));
    }
    cluster.server.set_rules("n:installer", &[]);
    assert_eq!(cluster.pass("e-1").await, Next::Retry);
    let told = cluster.condition("e-1", "Progressing");
    assert!(
        told.starts_with("True/Retrying: pre-authorization failed: service account requires the following permissions to manage cluster extension:\n"),
        "{told}"
    );
    assert!(
        told.contains("configmaps") && told.contains("serviceaccounts"),
        "{told}"
    );
}

#[tokio::test]
async fn who_has_all_rights_and_is_refused_is_told_in_the_words_of_the_refusal() {
    let cluster = Cluster::new().await;
    cluster.ensure(&desired("1.0.0", &[config("1")])).await;
    let quota = "configmaps \"c\" is forbidden: exceeded quota";
    let create = "POST /api/v1/namespaces/n/configmaps";
    cluster.server.fail_with(create, 403, quota);
    assert_eq!(cluster.pass("e-1").await, Next::Retry);
    let told = cluster.condition("e-1", "Progressing");
    assert!(told.contains(quota), "{told}");
}

#[tokio::test]
async fn what_an_account_loses_is_told_before_something_goes_wrong() {
    let cluster = Cluster::new().await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b", "namespace": "n"},
        "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": "installer"}],
    });
    cluster.server.add(&binding);
    let accounts = cluster.ctx.identity.accounts();
    let client = cluster.server.client();
    tokio::select! {
        () = accounts.watch(&client) => panic!("the watch ended"),
        () = rights_come_and_go(&cluster, &binding) => {}
    }
}

async fn rights_come_and_go(cluster: &Cluster, binding: &Value) {
    let mut changes = cluster.ctx.identity.accounts().changes();
    let mut told = async |wanted: Change| while changes.recv().await.unwrap() != wanted {};
    let its = Change::RightsOf(Subject::Account(account()));
    told(its.clone()).await;
    cluster
        .install("e-1", &desired("1.0.0", &[config("1")]))
        .await;
    cluster.pass("e-1").await;
    assert_eq!(cluster.condition("e-1", "Warnings"), "");
    cluster.server.set_rules("n:installer", &[]);
    cluster.server.remove(binding);
    told(its.clone()).await;
    cluster.pass("e-1").await;
    let warning = cluster.condition("e-1", "Warnings");
    assert!(
        warning.starts_with("True/PermissionsMissing: Service account n/installer no longer has all rights that it takes to maintain and remove this: pre-authorization failed: "),
        "{warning}"
    );
    assert!(cluster.condition("e-1", "Available").starts_with("True/"));
    let all = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    cluster.server.set_rules("n:installer", &[("n", all)]);
    cluster.server.add(binding);
    told(its).await;
    cluster.pass("e-1").await;
    assert_eq!(cluster.condition("e-1", "Warnings"), "");
    cluster.server.requests();
    cluster.pass("e-1").await;
    assert_eq!(cluster.server.requests(), Vec::<String>::new());
    let installer = namespaced("v1", "ServiceAccount", "installer");
    cluster.server.remove(&installer);
    told(Change::Account(account())).await;
    cluster.pass("e-1").await;
    assert!(
        cluster
            .condition("e-1", "Progressing")
            .ends_with("kubectl create serviceaccount installer --namespace n")
    );
}

//! An extension that goes, with or without its objects.

use super::leaving::{delete, stored_extension, told};
use super::*;

/// So long a refusal lasts that is believed.
const BELIEVED: Duration = Duration::from_secs(5);

#[tokio::test]
async fn an_uninstall_takes_crds_first_and_keeps_one_that_is_used() {
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    cluster.server.add(&json!({"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "n"}}));
    cluster.server.requests();
    assert_eq!(
        cluster.uninstall().await,
        Uninstall::Waiting(vec!["e-1".into()])
    );
    cluster.passes("e-1").await;
    assert_eq!(cluster.uninstall().await, Uninstall::Done);
    assert!(cluster.server.object(CRD).is_some(), "it has a resource");
    assert_eq!(cluster.server.object(CONFIG), None);
    let deletions: Vec<_> = cluster
        .writes()
        .into_iter()
        .filter(|write| write.contains("n:installer DELETE"))
        .collect();
    assert_eq!(deletions.len(), 8);
    assert!(deletions[0].contains("deployments"), "{deletions:?}");
    assert!(
        deletions[7].contains("/serviceaccounts/operator"),
        "{deletions:?}"
    );

    // The same extension takes the kept CRD back; for another one it is a collision.
    let mut other = desired("1.0.0", &[crd()]);
    other.extension = Extension {
        name: "other".into(),
        uid: "other".into(),
        ..extension()
    };
    cluster
        .ctx
        .revisions()
        .ensure(&[], &other, &|_| false)
        .await
        .unwrap();
    cluster.passes("other-1").await;
    assert!(cluster.condition("other-1", "Progressing").ends_with(
        "Conflicting Owner: ClusterExtension e (package p, namespace n, service account n/installer), which is gone and left it"
    ));
    cluster.install("e-1", &desired("1.0.0", &operator())).await;

    // Without resources it goes, and before everything else.
    cluster.server.remove(&json!({"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "n"}}));
    cluster.writes();
    cluster.uninstall().await;
    cluster.passes("e-1").await;
    assert_eq!(cluster.server.object(CRD), None);
    let deletions: Vec<_> = cluster
        .writes()
        .into_iter()
        .filter(|write| write.contains("n:installer DELETE"))
        .collect();
    assert!(
        deletions[0].contains("customresourcedefinitions"),
        "{deletions:?}"
    );
}

/// The operator that finishes a resource's finalizer goes after the CRDs, so that it has the time.
#[tokio::test]
async fn an_uninstall_waits_for_resources_that_somebody_deletes_with_it() {
    for has_others in [false, true] {
        let cluster = Cluster::new().await;
        cluster.install("e-1", &desired("1.0.0", &operator())).await;
        let thing = |name: &str, finalizers: &[&str]| {
            json!({"apiVersion": "g/v1", "kind": "Thing",
                "metadata": {"name": name, "namespace": "n", "finalizers": finalizers}})
        };
        cluster.server.add(&thing("t", &["g/f"]));
        if has_others {
            cluster.server.add(&thing("stays", &[]));
        }
        let url = path("g", "v1", Some("n"), "things");
        let parameters = kube::api::DeleteParams::background();
        let deleted = request::delete(&cluster.server.client(), &url, "t", &parameters).await;
        deleted.unwrap();

        cluster.uninstall().await;
        cluster.passes("e-1").await;
        assert!(cluster.server.object(DEPLOYMENT).is_some());
        let told = cluster.condition("e-1", "Progressing");
        assert!(
            told.contains("things.g (its resource n/t waits for g/f)"),
            "{told}"
        );
        let revision = "/apis/olm.operatorframework.io/v1/clusterobjectsets/e-1";
        let finalizers = cluster.server.object(revision).unwrap()["metadata"]["finalizers"].clone();
        let mut foreground = finalizers.as_array().unwrap().clone();
        foreground.push(json!("foregroundDeletion"));
        cluster
            .server
            .edit(revision, &json!({"metadata": {"finalizers": foreground}}));
        cluster.passes("e-1").await;
        let told = cluster.condition("e-1", "Progressing");
        assert!(
            told.contains("waits for g/f; --cascade=foreground has deleted the operator already"),
            "{told}"
        );
        cluster
            .server
            .edit(revision, &json!({"metadata": {"finalizers": finalizers}}));

        cluster.server.edit(
            &format!("{url}/t"),
            &json!({"metadata": {"finalizers": []}}),
        );
        cluster.passes("e-1").await;
        assert_eq!(cluster.uninstall().await, Uninstall::Done);
        assert_eq!(cluster.server.object(CRD).is_some(), has_others);
        assert_eq!(cluster.server.object(DEPLOYMENT), None);
    }
}

/// The namespace controller has not come to the resource yet.
#[tokio::test]
async fn an_uninstall_waits_for_resources_whose_namespace_is_deleted_with_it() {
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    let thing = json!({"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "apps"}});
    cluster.server.add(&thing);
    let leaving = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps",
        "deletionTimestamp": Timestamp::now().to_string(), "finalizers": ["kubernetes"]}});
    cluster.server.add(&leaving);
    cluster.uninstall().await;
    cluster.passes("e-1").await;
    assert!(cluster.server.object(DEPLOYMENT).is_some());
    let told = cluster.condition("e-1", "Progressing");
    assert!(
        told.contains("things.g (its resource apps/t goes with its namespace)"),
        "{told}"
    );
    cluster.server.remove(&thing);
    cluster.passes("e-1").await;
    assert_eq!(cluster.uninstall().await, Uninstall::Done);
    assert_eq!(cluster.server.object(CRD), None);
    assert_eq!(cluster.server.object(DEPLOYMENT), None);
}

/// Gives the definition a second version, of another structure if they are to `differ`, and a webhook that converts.
pub(super) fn name_webhook(cluster: &Cluster, differ: bool) {
    let version = |name: &str, kind: &str| {
        json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema":
            {"type": "object", "properties": {"x": {"type": kind}}}}})
    };
    let other = if differ { "integer" } else { "string" };
    let conversion =
        json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}});
    let versions = [version("v1", "string"), version("v2", other)];
    let change = json!({"spec": {"conversion": conversion, "versions": versions}});
    cluster.server.edit(CRD, &change);
}

#[tokio::test]
async fn a_kept_crd_no_longer_names_a_webhook_that_goes() {
    for (differ, expected) in [(false, "None"), (true, "Webhook")] {
        let cluster = Cluster::new().await;
        cluster.install("e-1", &desired("1.0.0", &operator())).await;
        name_webhook(&cluster, differ);
        cluster.server.add(&json!({"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "n"}}));
        cluster.uninstall().await;
        cluster.passes("e-1").await;
        let kept = cluster.server.object(CRD).unwrap();
        assert_eq!(kept["spec"]["conversion"]["strategy"], expected);
    }
}

#[tokio::test]
async fn a_teardown_waits_for_finalizers_and_says_for_which() {
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    cluster.server.edit(
        DEPLOYMENT,
        &json!({"metadata": {"finalizers": ["somebody/else"]}}),
    );
    cluster.uninstall().await;
    let next = cluster.pass("e-1").await;
    assert_eq!(
        next,
        Next::After(TEARDOWN_AGAIN),
        "{:#?}",
        cluster.server.requests()
    );
    assert_eq!(
        cluster.condition("e-1", "Progressing"),
        "True/Retrying: uninstalling: waiting for Deployment.apps/v1 n/operator (waits for somebody/else)"
    );
    let available = cluster.condition("e-1", "Available");
    assert!(
        available.starts_with("Unknown/Reconciling: uninstalling: "),
        "{available}"
    );
    assert!(
        cluster.server.object(CONFIG).is_some(),
        "earlier phases wait"
    );
    cluster
        .server
        .edit(DEPLOYMENT, &json!({"metadata": {"finalizers": null}}));
    cluster.passes("e-1").await;
    assert!(cluster.set("e-1").is_none());
    assert_eq!(cluster.server.object(CONFIG), None);
}

/// Who reads the events afterwards has nothing else.
#[tokio::test]
async fn an_uninstall_that_is_over_names_what_is_left_and_what_holds_it() {
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    let thing = json!({"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "n",
        "finalizers": ["g/f"], "deletionTimestamp": Timestamp::now().to_string()}});
    cluster.server.add(&thing);
    let held = json!({"metadata": {"finalizers": ["somebody/else"]}});
    cluster.server.edit(DEPLOYMENT, &held);
    cluster.uninstall().await;
    cluster.pass("e-1").await;
    let deleted = Timestamp::now() - jiff::SignedDuration::from_mins(11);
    let set = "/apis/olm.operatorframework.io/v1/clusterobjectsets/e-1";
    let long_ago = json!({"metadata": {"deletionTimestamp": deleted.to_string()}});
    cluster.server.edit(set, &long_ago);
    cluster.ctx.memory.age(Duration::from_mins(2));
    cluster.pass("e-1").await;
    assert!(cluster.set("e-1").is_none());
    let [crd, late, later] = &told(&cluster)[..] else {
        panic!("{:?}", told(&cluster));
    };
    assert!(
        crd.starts_with("CustomResourceDefinition things.g is kept: its resource n/t waits for g/f, which nothing"),
        "{crd}"
    );
    assert!(
        late.ends_with("not gone in time: Deployment.apps/v1 n/operator (waits for somebody/else)"),
        "{late}"
    );
    assert!(
        later.contains("would have come after those: ")
            && later.contains("ServiceAccount.v1 n/operator"),
        "{later}"
    );
}

#[tokio::test]
async fn an_account_without_rights_never_holds_an_uninstall() {
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    cluster.server.forbid("n:installer", "");
    cluster.uninstall().await;
    cluster.passes("e-1").await;
    assert!(cluster.set("e-1").is_some(), "not believed yet");
    cluster.ctx.memory.age(BELIEVED);
    cluster.passes("e-1").await;
    assert!(cluster.set("e-1").is_none());
    assert!(
        cluster.server.object(CONFIG).is_some(),
        "left to the garbage collector"
    );
}

/// An API server that has just started knows no roles, we may not act as the account for a while, admission has its reasons:
/// none of these means that the account lost its rights.
#[tokio::test]
async fn a_refusal_that_does_not_last_leaves_nothing_behind() {
    let deletion = format!("DELETE {CRD}");
    let user = "system:serviceaccount:n:installer";
    for (line, told) in [
        (
            deletion.as_str(),
            format!("User \"{user}\" cannot delete resource \"customresourcedefinitions\""),
        ),
        (
            "LIST /apis/g/v1/things",
            format!("User \"{user}\" cannot list resource \"things\""),
        ),
        (
            &deletion,
            "ValidatingAdmissionPolicy 'freeze' with binding 'freeze' denied request".to_owned(),
        ),
        (
            &format!("GET {CRD}"),
            "serviceaccounts \"installer\" is forbidden: User \"oxolm\" cannot impersonate resource \"serviceaccounts\"".to_owned(),
        ),
    ] {
        let cluster = Cluster::new().await;
        cluster.install("e-1", &desired("1.0.0", &operator())).await;
        cluster.uninstall().await;
        cluster.server.fail_with(line, 403, &told);
        cluster.pass("e-1").await;
        assert!(cluster.set("e-1").is_some(), "{told}");
        cluster.ctx.memory.age(BELIEVED);
        cluster.passes("e-1").await;
        assert!(cluster.set("e-1").is_none(), "{told}");
        assert_eq!(cluster.server.object(CRD), None, "{told}");
    }
}

/// What another active revision has is not taken down with one that is given up, whatever this process remembers.
#[tokio::test]
async fn what_another_revision_wants_stays_though_nobody_remembers_it() {
    let cluster = Cluster::new().await;
    cluster.server.add(&stored_extension());
    cluster
        .install("e-1", &desired("1.0.0", &[config("1"), crd()]))
        .await;
    let mut next = operator();
    next.push(namespaced("v1", "ConfigMap", "new"));
    cluster.ensure(&desired("2.0.0", &next)).await;
    cluster.passes("e-2").await;
    let before = cluster.server.object(CONFIG).unwrap();
    assert_eq!(before["metadata"]["ownerReferences"][0]["name"], "e-2");

    let cluster = cluster.restarted().await;
    delete(&cluster, OBJECT_SETS, "e-2").await;
    cluster.passes("e-2").await;
    assert!(cluster.set("e-2").is_none());
    let uid = |object: Option<Value>| object.map(|object| object["metadata"]["uid"].clone());
    assert_eq!(uid(cluster.server.object(CONFIG)), uid(Some(before)));
    assert!(cluster.server.object(CRD).is_some());
    let only_of_it = "/api/v1/namespaces/n/configmaps/new";
    assert_eq!(cluster.server.object(only_of_it), None);
    cluster.passes("e-1").await;
    assert_eq!(
        cluster.server.object(CONFIG).unwrap()["metadata"]["ownerReferences"][0]["name"],
        "e-1"
    );
}

#[tokio::test]
async fn orphaning_leaves_everything_where_it_is() {
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    let path = "/apis/olm.operatorframework.io/v1/clusterobjectsets/e-1";
    cluster.server.edit(
        path,
        &json!({"metadata": {"finalizers": [keys::FINALIZER_TEARDOWN, "orphan"], "deletionTimestamp": Timestamp::now().to_string()}}),
    );
    cluster.server.requests();
    cluster.passes("e-1").await;
    assert!(
        !cluster
            .writes()
            .iter()
            .any(|write| write.contains("DELETE"))
    );
    let finalizers = cluster.server.object(path).unwrap()["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!(["orphan"]));
    // A new extension of the same name takes the objects back, also those whose owner is gone.
    cluster
        .server
        .edit(CONFIG, &json!({"metadata": {"ownerReferences": null}}));
}

#[tokio::test]
async fn what_is_said_with_the_deletion_counts() {
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    cluster.server.add(&json!({"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "n"}}));
    let delete = "delete".to_owned();
    for _ in 0..2 {
        let existing = cluster.revisions();
        let operations = cluster.ctx.revisions();
        operations
            .uninstall(&existing, Some(&delete))
            .await
            .unwrap();
        cluster.settle().await;
    }
    cluster.passes("e-1").await;
    assert!(cluster.set("e-1").is_none());
    assert_eq!(cluster.server.object(CRD), None);
}

/// An account that may not change a definition any more keeps no archived revision from being done.
#[tokio::test]
async fn an_archived_revision_waits_for_nobodys_rights() {
    let cluster = Cluster::new().await;
    cluster.server.add(&stored_extension());
    let objects = [crd(), config("1")];
    cluster.install("e-1", &desired("1.0.0", &objects)).await;
    let thing =
        json!({"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "n"}});
    cluster.server.add(&thing);
    name_webhook(&cluster, false);
    cluster
        .server
        .forbid("n:installer", "PATCH /apis/apiextensions.k8s.io");
    cluster
        .install("e-2", &desired("2.0.0", &objects[1..]))
        .await;
    cluster.passes("e-1").await;
    let told = cluster.condition("e-1", "Progressing");
    assert!(told.contains("/Archived"), "{told}");
    assert!(cluster.server.object(CRD).is_some());
}

/// Deleted in the foreground, a revision loses what somebody else owns, too: the garbage collector takes its reference away,
/// and deletes the rest.
#[tokio::test]
async fn what_somebody_else_owns_besides_goes_in_a_foreground_deletion() {
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    let other = json!([{"apiVersion": "g/v1", "kind": "Thing", "name": "t", "uid": "t", "controller": false}]);
    let let_go = json!({"metadata": {"ownerReferences": other}});
    cluster.server.edit(CONFIG, &let_go);
    for secret in cluster.server.paths("/secrets/") {
        let stored = cluster.server.object(&secret).unwrap();
        cluster.server.remove(&stored);
    }
    cluster.uninstall().await;
    cluster.passes("e-1").await;
    assert_eq!(cluster.server.object(CONFIG), None);
    assert_eq!(cluster.uninstall().await, Uninstall::Done);
}

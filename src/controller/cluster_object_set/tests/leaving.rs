//! Extensions that are deleted in the middle of an upgrade.

use super::uninstall::name_webhook;
use super::*;

pub(super) fn stored_extension() -> Value {
    json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": "e", "uid": "ext", "finalizers": ["x/y"]}})
}

/// Revision 1 has the CRD; revision 2 wants it, and waits for a claim that comes first.
async fn before_the_takeover() -> Cluster {
    let cluster = Cluster::new().await;
    cluster.server.add(&stored_extension());
    cluster.install("e-1", &desired("1.0.0", &[crd()])).await;
    let claim = namespaced("v1", "PersistentVolumeClaim", "data");
    cluster.ensure(&desired("1.1.0", &[claim, crd()])).await;
    cluster.passes("e-2").await;
    assert!(cluster.server.object(CRD).is_some());
    cluster
}

pub(super) async fn delete(cluster: &Cluster, plural: &str, name: &str) {
    let url = path(GROUP, VERSION, None, plural);
    let parameters = kube::api::DeleteParams::background();
    let deleted = request::delete(&cluster.server.client(), &url, name, &parameters).await;
    deleted.unwrap();
}

#[tokio::test]
async fn a_crd_that_was_about_to_be_taken_over_goes_with_the_extension() {
    for order in [["e-1", "e-2"], ["e-2", "e-1"]] {
        let cluster = before_the_takeover().await;
        delete(&cluster, "clusterextensions", "e").await;
        for name in order {
            delete(&cluster, OBJECT_SETS, name).await;
            cluster.passes(name).await;
        }
        assert_eq!(cluster.server.object(CRD), None, "{order:?}");
        assert!(cluster.set("e-1").is_none() && cluster.set("e-2").is_none());
    }
}

/// A bundle may come with resources of its own definitions.
#[tokio::test]
async fn resources_of_the_revision_itself_do_not_keep_a_crd() {
    let thing = |name: &str| namespaced("g/v1", "Thing", name);
    for is_used in [false, true] {
        let cluster = Cluster::new().await;
        let content = desired("1.0.0", &[crd(), thing("a"), thing("b")]);
        cluster.install("e-1", &content).await;
        if is_used {
            cluster.server.add(&thing("of-a-user"));
        }
        delete(&cluster, OBJECT_SETS, "e-1").await;
        cluster.passes("e-1").await;
        assert_eq!(cluster.server.object(CRD).is_some(), is_used);
        let is_there = |name: &str| {
            let path = format!("/apis/g/v1/namespaces/n/things/{name}");
            cluster.server.object(&path).is_some()
        };
        // What a definition takes with it, this API server forgets to take.
        assert!(!is_used || !is_there("a") && is_there("of-a-user"));
    }
}

#[tokio::test]
async fn a_crd_stays_for_the_other_revision_of_an_extension_that_stays() {
    let cluster = before_the_takeover().await;
    delete(&cluster, OBJECT_SETS, "e-1").await;
    cluster.passes("e-1").await;
    assert!(cluster.server.object(CRD).is_some());
    assert!(cluster.set("e-1").is_none());
}

/// With `--cascade=foreground` the garbage collector takes what has an owner at once, the Secrets among it.
#[tokio::test]
async fn a_crd_is_decided_on_also_when_the_garbage_collector_was_faster() {
    for (is_leaving, things, stays) in [
        (true, [].as_slice(), false),
        (true, ["of-a-user"].as_slice(), true),
        // The first of them is the revision's own: there may be more than that.
        (true, ["a", "of-a-user"].as_slice(), true),
        // The revision alone, or its objects are to stay.
        (false, [].as_slice(), true),
    ] {
        let cluster = Cluster::new().await;
        cluster.server.add(&stored_extension());
        let own = namespaced("g/v1", "Thing", "a");
        let content = if things.contains(&"a") {
            vec![crd(), own]
        } else {
            vec![crd(), config("1")]
        };
        cluster.install("e-1", &desired("1.0.0", &content)).await;
        for name in things.iter().filter(|name| **name != "a") {
            cluster.server.add(&namespaced("g/v1", "Thing", name));
        }
        if is_leaving {
            delete(&cluster, "clusterextensions", "e").await;
        }
        delete_after_its_secrets(&cluster).await;
        assert!(cluster.set("e-1").is_none());
        assert_eq!(
            cluster.server.object(CRD).is_some(),
            stays,
            "{is_leaving} {things:?}"
        );
        assert_eq!(reasons(&cluster).contains(&json!("CrdKept")), stays);
    }
}

/// Deletes revision `e-1`, whose Secrets the garbage collector takes first.
async fn delete_after_its_secrets(cluster: &Cluster) {
    delete(cluster, OBJECT_SETS, "e-1").await;
    for path in cluster.server.paths("/namespaces/system/secrets/") {
        let secret = cluster.server.object(&path).unwrap();
        cluster.server.remove(&secret);
    }
    cluster.passes("e-1").await;
}

/// Its finalizer holds an object that the garbage collector deleted.
#[tokio::test]
async fn what_is_held_is_waited_for_also_when_the_garbage_collector_was_faster() {
    let cluster = Cluster::new().await;
    cluster.server.add(&stored_extension());
    let objects = [config("1"), namespaced("v1", "ServiceAccount", "operator")];
    cluster.install("e-1", &desired("1.0.0", &objects)).await;
    let held = json!({"metadata": {"finalizers": ["me.io/hold"], "deletionTimestamp": Timestamp::now().to_string()}});
    cluster.server.edit(CONFIG, &held);
    cluster.server.remove(&objects[1]);
    delete(&cluster, "clusterextensions", "e").await;
    delete_after_its_secrets(&cluster).await;
    assert_eq!(
        cluster.condition("e-1", "Progressing"),
        "True/Retrying: uninstalling: waiting for ConfigMap.v1 n/config (waits for me.io/hold)"
    );
    cluster
        .server
        .edit(CONFIG, &json!({"metadata": {"finalizers": null}}));
    cluster.passes("e-1").await;
    assert!(cluster.set("e-1").is_none());
    assert_eq!(told(&cluster), Vec::<String>::new());
}

/// Its CRDs have no label of an extension to be found by.
#[tokio::test]
async fn crds_of_a_revision_by_hand_are_told_when_its_secrets_went_first() {
    let cluster = Cluster::new().await;
    let data = k8s_openapi::ByteString(crd().to_string().into_bytes());
    let mut secret = namespaced("v1", "Secret", "content");
    secret["immutable"] = json!(true);
    secret["data"] = json!({"crd": data});
    cluster.server.add(&secret);
    let reference = json!({"ref": {"name": "content", "namespace": "n", "key": "crd"}});
    cluster.server.add(&json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
        "metadata": {"name": "by-hand", "annotations": {keys::SERVICE_ACCOUNT_NAME: "installer", keys::SERVICE_ACCOUNT_NAMESPACE: "n"}},
        "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent",
            "phases": [{"name": "1", "objects": [reference]}]},
    }));
    cluster.passes("by-hand").await;
    assert!(cluster.server.object(CRD).is_some());
    let mut another = crd();
    another["metadata"]["name"] = json!("others.g");
    cluster.server.add(&another);
    cluster.server.remove(&secret);
    delete(&cluster, OBJECT_SETS, "by-hand").await;
    cluster.passes("by-hand").await;
    assert!(cluster.set("by-hand").is_none());
    assert_eq!(
        told(&cluster),
        [
            "CustomResourceDefinition things.g is kept: the Secrets of its revision were gone first; delete it where nobody needs it.",
            "objects are left to the garbage collector: Secret n/content is gone",
        ]
    );
}

/// Nobody collects a CRD: it is said to stay.
#[tokio::test]
async fn a_crd_that_the_account_may_not_delete_any_more_is_kept() {
    let cluster = Cluster::new().await;
    cluster.server.add(&stored_extension());
    cluster
        .install("e-1", &desired("1.0.0", &[crd(), config("1")]))
        .await;
    for line in ["GET", "LIST", "DELETE", "PATCH"] {
        cluster.server.forbid("n:installer", line);
    }
    delete(&cluster, "clusterextensions", "e").await;
    delete(&cluster, OBJECT_SETS, "e-1").await;
    cluster.passes("e-1").await;
    cluster.ctx.memory.age(Duration::from_secs(5));
    cluster.passes("e-1").await;
    assert!(cluster.server.object(CRD).is_some());
    assert_eq!(
        told(&cluster),
        [
            "CustomResourceDefinition things.g is kept: the service account may no longer delete it.",
            "objects are left to the garbage collector: the service account may no longer delete them: ConfigMap.v1 n/config",
        ]
    );
}

/// What is told of what stays.
pub(super) fn told(cluster: &Cluster) -> Vec<String> {
    let paths = cluster.server.paths("/events/").into_iter();
    let events = paths.map(|path| cluster.server.object(&path).unwrap());
    events
        .filter(|event| event["reason"] == "CrdKept" || event["reason"] == "LeftToGarbageCollector")
        .map(|event| event["note"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_conversion_webhook_that_is_dead_holds_no_uninstall() {
    for (differ, why) in [
        (
            true,
            "it has resources, and its conversion webhook does not answer, so not all of them can be read or deleted: \
             install the operator again, or give it a webhook that answers",
        ),
        (false, "it has resources"),
    ] {
        let cluster = Cluster::new().await;
        cluster.server.add(&stored_extension());
        let own = namespaced("g/v1", "Thing", "a");
        let content = desired("1.0.0", &[crd(), own, config("1")]);
        cluster.install("e-1", &content).await;
        name_webhook(&cluster, differ);
        delete(&cluster, "clusterextensions", "e").await;
        delete(&cluster, OBJECT_SETS, "e-1").await;
        let dead = "conversion webhook for g/v2, Kind=Thing failed: Post \"https://a.b.svc:443/\": refused";
        let things = "/apis/g/v1/namespaces/n/things";
        for line in [
            "LIST /apis/g/v1/things".to_owned(),
            format!("GET {things}/a"),
        ] {
            cluster.server.fail_with(&line, 500, dead);
        }
        cluster.passes("e-1").await;
        assert!(cluster.set("e-1").is_none());
        assert_eq!(cluster.server.object(CONFIG), None);
        assert!(cluster.server.object(CRD).is_some());
        assert_eq!(
            told(&cluster),
            [
                format!("CustomResourceDefinition things.g is kept: {why}."),
                "objects are left to the garbage collector: their conversion webhook does not answer: Thing.g/v1 n/a".to_owned(),
            ]
        );
    }
}

fn reasons(cluster: &Cluster) -> Vec<Value> {
    let events = cluster.server.paths("/events/").into_iter();
    events
        .map(|path| cluster.server.object(&path).unwrap()["reason"].clone())
        .collect()
}

/// What the cache holds may be older than what another pass did: its Secrets are gone because all is in order.
#[tokio::test]
async fn a_pass_that_comes_too_late_tells_nothing() {
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    delete(&cluster, OBJECT_SETS, "e-1").await;
    cluster.settle().await;
    let stale = Arc::new(cluster.set("e-1").unwrap());
    cluster.passes("e-1").await;
    assert!(cluster.set("e-1").is_none());
    for path in cluster.server.paths("/namespaces/system/secrets/") {
        let secret = cluster.server.object(&path).unwrap();
        cluster.server.remove(&secret);
    }
    assert_eq!(reconcile(cluster.ctx.clone(), stale).await, Next::OnChange);
    let reasons = reasons(&cluster);
    assert!(
        !reasons.contains(&json!("LeftToGarbageCollector")),
        "{reasons:?}"
    );
}

/// Resources go while their operator still runs, whichever revision has the one and the other.
#[tokio::test]
async fn crds_of_all_revisions_go_first() {
    for (order, is_in_both) in [
        (["e-1", "e-2"], false),
        (["e-2", "e-1"], false),
        (["e-1", "e-2"], true),
        (["e-2", "e-1"], true),
    ] {
        let cluster = Cluster::new().await;
        cluster.server.add(&stored_extension());
        let mut installed = vec![config("1"), namespaced("apps/v1", "Deployment", "operator")];
        installed.extend(is_in_both.then(crd));
        cluster.install("e-1", &desired("1.0.0", &installed)).await;
        let claim = namespaced("v1", "PersistentVolumeClaim", "data");
        let mut next = vec![config("1"), crd()];
        next.push(namespaced("apps/v1", "Deployment", "next"));
        cluster
            .ensure(&desired("1.1.0", &[&next[..], &[claim]].concat()))
            .await;
        cluster.passes("e-2").await;
        cluster.server.edit(
            "/api/v1/namespaces/n/persistentvolumeclaims/data",
            &json!({"status": {"phase": "Bound"}}),
        );
        cluster.passes("e-2").await;
        let held = json!({"metadata": {"finalizers": ["customresourcecleanup"]}});
        cluster.server.edit(CRD, &held);
        delete(&cluster, "clusterextensions", "e").await;
        for name in order {
            delete(&cluster, OBJECT_SETS, name).await;
            cluster.passes(name).await;
            assert!(cluster.server.object(DEPLOYMENT).is_some(), "{name}");
            assert!(cluster.server.object(CONFIG).is_some(), "{name}");
            let told = cluster.condition(name, "Progressing");
            assert!(told.contains("things.g"), "{told}");
        }
        let crd = cluster.server.object(CRD).unwrap();
        assert!(crd["metadata"]["deletionTimestamp"].is_string());
        let gone = json!({"metadata": {"finalizers": null}});
        cluster.server.edit(CRD, &gone);
        for name in order {
            cluster.passes(name).await;
            assert!(cluster.set(name).is_none(), "{name}");
        }
        assert_eq!(cluster.server.object(DEPLOYMENT), None);
        assert_eq!(cluster.server.object(CRD), None);
    }
}

/// A kind of this API on its way out.
fn leaving_kind(plural: &str) -> Value {
    let name = format!("{plural}.{GROUP}");
    let mut kind = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &name);
    kind["metadata"]["deletionTimestamp"] = json!(Timestamp::now().to_string());
    kind["metadata"]["finalizers"] = json!(["customresourcecleanup"]);
    kind
}

/// Who deletes the kind of revisions deletes all of them at once, and asked for no extension to go; nor did who deletes the
/// kind of extensions as well.
#[tokio::test]
async fn nothing_goes_with_the_kind_of_revisions() {
    for (is_extension_deleted, stays) in [(false, true), (true, false), (true, true)] {
        let cluster = Cluster::new().await;
        cluster.server.add(&stored_extension());
        cluster.install("e-1", &desired("1.0.0", &operator())).await;
        cluster.server.add(&leaving_kind(OBJECT_SETS));
        if is_extension_deleted && stays {
            cluster.server.add(&leaving_kind("clusterextensions"));
        }
        if is_extension_deleted {
            delete(&cluster, "clusterextensions", "e").await;
        }
        delete(&cluster, OBJECT_SETS, "e-1").await;
        cluster.passes("e-1").await;
        assert!(cluster.set("e-1").is_none());
        for path in [CONFIG, DEPLOYMENT, CRD] {
            let left = cluster.server.object(path);
            assert_eq!(left.is_some(), stays, "{path}");
            let metadata = left.unwrap_or_default()["metadata"].clone();
            let owners = metadata["ownerReferences"].as_array().cloned();
            assert_eq!(owners.unwrap_or_default(), Vec::<Value>::new());
        }
    }
}

/// The end of an extension that was let go is seen before its revision is.
#[tokio::test]
async fn a_revision_that_was_let_go_is_not_taken_down_with_its_extension() {
    for is_let_go in [false, true] {
        let cluster = Cluster::new().await;
        cluster.install("e-1", &desired("1.0.0", &operator())).await;
        cluster.server.add(&leaving_kind(OBJECT_SETS));
        delete(&cluster, OBJECT_SETS, "e-1").await;
        let stale = Arc::new(cluster.set("e-1").unwrap());
        if is_let_go {
            let path = format!("/apis/olm.operatorframework.io/v1/{OBJECT_SETS}/e-1");
            let none = json!({"metadata": {"ownerReferences": null}});
            cluster.server.edit(&path, &none);
        }
        reconcile(cluster.ctx.clone(), stale).await;
        assert_eq!(cluster.server.object(DEPLOYMENT).is_some(), is_let_go);
    }
}

/// What never was read cannot have been applied, and what it is will not get better.
#[tokio::test]
async fn a_revision_whose_content_never_was_any_goes_at_once() {
    let cluster = Cluster::new().await;
    cluster.server.add(
        &json!({"apiVersion": "v1", "kind": "Secret", "immutable": true,
        "metadata": {"name": "s", "namespace": "n"}, "data": {"k": "bm90IEpTT04="}}),
    );
    cluster.server.add(&json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
        "metadata": {"name": "by-hand", "annotations": {
            keys::SERVICE_ACCOUNT_NAME: "installer", keys::SERVICE_ACCOUNT_NAMESPACE: "n",
        }},
        "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent",
            "phases": [{"name": "p", "objects": [{"ref": {"name": "s", "namespace": "n", "key": "k"}}]}]},
    }));
    cluster.passes("by-hand").await;
    let told = cluster.condition("by-hand", "Progressing");
    assert!(told.contains("resolving ref"), "{told}");
    delete(&cluster, OBJECT_SETS, "by-hand").await;
    cluster.passes("by-hand").await;
    assert!(cluster.set("by-hand").is_none());
}

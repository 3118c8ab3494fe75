//! Revisions that go before a later one has taken over what both have.

use super::content::by_hand;
use super::leaving::{delete, stored_extension, told};
use super::*;

/// Revision 1 has the Deployment and the CRD; revision 2 wants both, and waits for a claim that comes first.
async fn stuck() -> Cluster {
    let cluster = Cluster::new().await;
    cluster.server.add(&stored_extension());
    let objects = [crd(), namespaced("apps/v1", "Deployment", "operator")];
    cluster.install("e-1", &desired("1.0.0", &objects)).await;
    let claim = namespaced("v1", "PersistentVolumeClaim", "data");
    let objects = [claim, objects[0].clone(), objects[1].clone()];
    cluster.ensure(&desired("1.1.0", &objects)).await;
    cluster.passes("e-2").await;
    assert_eq!(cluster.owner(DEPLOYMENT), "e-1");
    cluster
}

fn uid(cluster: &Cluster, path: &str) -> Value {
    cluster.server.object(path).unwrap()["metadata"]["uid"].clone()
}

#[tokio::test]
async fn what_a_later_revision_never_reached_is_its_own_when_the_earlier_one_goes() {
    let cluster = stuck().await;
    let before = uid(&cluster, DEPLOYMENT);
    delete(&cluster, OBJECT_SETS, "e-1").await;
    cluster.passes("e-1").await;
    assert!(cluster.set("e-1").is_none());
    assert_eq!(cluster.owner(DEPLOYMENT), "e-2");
    assert_eq!(uid(&cluster, DEPLOYMENT), before);
    let crd = cluster.server.object(CRD).unwrap();
    let mark = crd.pointer("/metadata/annotations").unwrap();
    assert_eq!(mark[keys::REVISION], "2");
    assert!(mark[keys::OWNER].as_str().unwrap().contains("\"e-2\""));

    delete(&cluster, OBJECT_SETS, "e-2").await;
    cluster.passes("e-2").await;
    assert!(cluster.set("e-2").is_none());
    assert_eq!(cluster.server.object(DEPLOYMENT), None);
    assert_eq!(cluster.server.object(CRD), None);
}

/// Both are deleted with one command: whoever looks first may not know of the other deletion yet.
#[tokio::test]
async fn revisions_that_are_deleted_together_leave_nothing_in_any_order() {
    for order in [["e-1", "e-2"], ["e-2", "e-1"]] {
        for are_seen in [true, false] {
            let cluster = stuck().await;
            for name in order {
                delete(&cluster, OBJECT_SETS, name).await;
                if !are_seen {
                    cluster.pass(name).await;
                }
            }
            for _ in 0..4 {
                for name in order {
                    if cluster.set(name).is_some() {
                        cluster.pass(name).await;
                    }
                }
            }
            let case = format!("{order:?} {are_seen}");
            assert!(
                order.iter().all(|name| cluster.set(name).is_none()),
                "{case}"
            );
            assert_eq!(cluster.server.object(DEPLOYMENT), None, "{case}");
            assert_eq!(cluster.server.object(CRD), None, "{case}");
        }
    }
}

/// What the API server says counts, not what was seen: it may be taken down already.
#[tokio::test]
async fn nothing_is_given_to_a_revision_that_goes_itself() {
    let cluster = stuck().await;
    delete(&cluster, OBJECT_SETS, "e-1").await;
    let path = "/apis/olm.operatorframework.io/v1/clusterobjectsets/e-2";
    let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    cluster.settle().await;
    let set = Arc::new(cluster.set("e-1").unwrap());
    cluster.server.edit(path, &leaving);
    reconcile(cluster.ctx.clone(), set).await;
    assert_eq!(cluster.owner(DEPLOYMENT), "e-1");
    assert!(cluster.set("e-1").is_some());
}

/// An upgrade dropped the CRD, a way back never reached it, and another way forth succeeds.
#[tokio::test]
async fn a_crd_that_two_archived_revisions_have_goes_or_is_told_once() {
    for is_used in [false, true] {
        for order in [["e-1", "e-2"], ["e-2", "e-1"]] {
            for is_late in [false, true] {
                let cluster = stuck().await;
                if is_used {
                    cluster
                        .server
                        .add(&namespaced("g/v1", "Thing", "of-a-user"));
                }
                for name in order {
                    cluster.ctx.revisions().archive(name).await.unwrap();
                    if !is_late {
                        cluster.passes(name).await;
                    }
                }
                for name in order {
                    cluster.passes(name).await;
                }
                let case = format!("{is_used} {order:?} {is_late}");
                assert_eq!(cluster.server.object(CRD).is_some(), is_used, "{case}");
                assert_eq!(told(&cluster).len(), usize::from(is_used), "{case}");
                assert_eq!(cluster.server.object(DEPLOYMENT), None, "{case}");
            }
        }
    }
}

/// Whoever writes revisions by hand tells by a common owner, or by a label, that they belong together.
#[tokio::test]
async fn a_revision_by_hand_takes_over_also_while_the_earlier_one_goes() {
    let owners =
        json!([{"apiVersion": "v1", "kind": "Thing", "name": "t", "uid": "t", "controller": true}]);
    let labels = json!({keys::OWNER_NAME: "mine", keys::OWNER_KIND: "ClusterExtension"});
    for family in [
        json!({"ownerReferences": owners}),
        json!({"labels": labels}),
    ] {
        for is_gone_first in [false, true] {
            let cluster = Cluster::new().await;
            let add = |name: &str, number: i64| {
                let mut set = by_hand(name, &[config("1"), crd()]);
                set["spec"]["revision"] = json!(number);
                json_patch::merge(&mut set, &json!({"metadata": family}));
                cluster.server.add(&set);
            };
            add("one", 1);
            cluster.passes("one").await;
            let before = uid(&cluster, CONFIG);
            if is_gone_first {
                let held = json!({"metadata": {"finalizers": ["x/y", keys::FINALIZER_TEARDOWN]}});
                let path = "/apis/olm.operatorframework.io/v1/clusterobjectsets/one";
                cluster.server.edit(path, &held);
                delete(&cluster, OBJECT_SETS, "one").await;
            }
            add("two", 2);
            if is_gone_first {
                cluster.passes("one").await;
            }
            cluster.passes("two").await;
            let told = cluster.condition("two", "Progressing");
            assert!(told.starts_with("True/Succeeded"), "{family} {told}");
            assert_eq!(cluster.owner(CONFIG), "two");
            assert_eq!(uid(&cluster, CONFIG), before);
            let mark = cluster.server.object(CRD).unwrap();
            let mark = mark["metadata"]["annotations"][keys::OWNER].clone();
            assert!(mark.as_str().unwrap().contains("\"two\""));
        }
    }
}

/// A backup without the revisions: what a former one had is there again, and the new one has not come to it.
#[tokio::test]
async fn what_is_of_a_revision_that_is_gone_stays_and_is_named() {
    let cluster = stuck().await;
    let marks =
        json!({"metadata": {"annotations": {keys::REVISION: "7"}, "ownerReferences": null}});
    cluster.server.edit(DEPLOYMENT, &marks);
    for name in ["e-1", "e-2"] {
        delete(&cluster, OBJECT_SETS, name).await;
    }
    for name in ["e-1", "e-2"] {
        cluster.passes(name).await;
    }
    assert!(cluster.server.object(DEPLOYMENT).is_some());
    let left = told(&cluster).join("\n");
    assert!(left.contains("Deployment.apps/v1 n/operator"), "{left}");
}

/// What another one is known to want is its own all the same.
#[tokio::test]
async fn what_a_revision_holds_that_nobody_can_read_is_not_left_without_owner() {
    for (lost, heir) in [("e-2", "e-2"), ("e-3", "e-2")] {
        let cluster = stuck().await;
        if lost == "e-3" {
            let claim = namespaced("v1", "PersistentVolumeClaim", "data");
            cluster
                .ensure(&desired("1.2.0", &[claim, config("1")]))
                .await;
        }
        for path in cluster.server.paths("/namespaces/system/secrets/") {
            if path.contains(&format!("/{lost}-")) {
                cluster
                    .server
                    .remove(&cluster.server.object(&path).unwrap());
            }
        }
        let cluster = cluster.restarted().await;
        delete(&cluster, OBJECT_SETS, "e-1").await;
        cluster.passes("e-1").await;
        assert!(cluster.set("e-1").is_none());
        assert_eq!(cluster.owner(DEPLOYMENT), heir, "{lost}");
    }
}

//! What is advised where objects are there already.

use super::*;
use crate::api::cluster_object_set::CollisionProtection;

/// The advice about a Deployment that is there with this metadata, beside its name.
async fn advice(cluster: &Cluster, protection: CollisionProtection, metadata: &Value) -> String {
    let mut there = namespaced("apps/v1", "Deployment", "operator");
    for (field, value) in metadata.as_object().unwrap() {
        there["metadata"][field] = value.clone();
    }
    cluster.server.add(&there);
    let content = Desired {
        collision_protection: protection,
        ..desired("1.0.0", &[namespaced("apps/v1", "Deployment", "operator")])
    };
    cluster.ensure(&content).await;
    let name = cluster.server.paths("/clusterobjectsets/e-").pop().unwrap();
    let name = name.rsplit('/').next().unwrap().to_owned();
    assert_eq!(cluster.pass(&name).await, Next::Retry);
    let events = cluster.server.paths("/events/").into_iter();
    let mut notes = events
        .map(|path| cluster.server.object(&path).unwrap())
        .filter(|event| event["reason"] == "Collision");
    let note = notes.next().unwrap()["note"].as_str().unwrap().to_owned();
    note.lines().next().unwrap().to_owned()
}

#[tokio::test]
async fn what_helps_is_advised() {
    use CollisionProtection::{IfNoController, Prevent};
    let marked = json!({"annotations": {keys::REVISION: "1"}});
    let owned = json!({"ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "k", "uid": "other", "controller": true}]});
    let unmark = "delete those without owner that have annotation olm.operatorframework.io/revision of an earlier revision, or \
         remove it from them";
    let take_over = "let ClusterExtension e take them over: annotate it with oxolm.dev/adopt";
    for (protection, metadata, expected) in [
        (
            Prevent,
            json!({}),
            format!("delete them, or {take_over} unowned (objects without owner) or all"),
        ),
        (
            Prevent,
            marked.clone(),
            format!("{unmark} and {take_over} unowned"),
        ),
        (IfNoController, marked, unmark.to_owned()),
        (
            Prevent,
            owned.clone(),
            format!("delete them, or {take_over} unowned (objects without owner) or all"),
        ),
        (
            IfNoController,
            owned,
            format!("delete them, or {take_over} all"),
        ),
    ] {
        let cluster = Cluster::new().await;
        assert_eq!(
            advice(&cluster, protection, &metadata).await,
            format!("objects are there already and somebody else's: {expected}")
        );
    }
}

#[tokio::test]
async fn a_revision_on_its_way_out_is_waited_for() {
    let cluster = Cluster::new().await;
    let content = desired("0.9.0", &[config("1")]);
    cluster.install("e-1", &content).await;
    let path = "/apis/olm.operatorframework.io/v1/clusterobjectsets/e-1";
    let archived = json!({"spec": {"lifecycleState": "Archived"}});
    cluster.server.edit(path, &archived);
    cluster.settle().await;
    let uid = cluster.set("e-1").unwrap().metadata.uid.unwrap();
    let owned = json!({"ownerReferences": [{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
        "name": "e-1", "uid": uid, "controller": true}]});
    assert_eq!(
        advice(&cluster, CollisionProtection::Prevent, &owned).await,
        "objects are there already and still another revision's: this waits until revision e-1, which is on its way out, \
         has given them up"
    );
}

#[tokio::test]
async fn who_loses_an_object_sees_it_at_once() {
    let cluster = Cluster::new().await;
    let by_hand = |name: &str, protection: &str| {
        json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
            "metadata": {"name": name, "annotations": {
                keys::SERVICE_ACCOUNT_NAME: "installer", keys::SERVICE_ACCOUNT_NAMESPACE: "n",
            }},
            "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": protection,
                "phases": [{"name": "p", "objects": [{"object": config("1")}]}]},
        })
    };
    cluster.server.add(&by_hand("first", "Prevent"));
    cluster.passes("first").await;
    cluster.woken();
    cluster.server.add(&by_hand("second", "None"));
    cluster.passes("second").await;
    assert!(cluster.woken().contains("first"));
    cluster.pass("first").await;
    let told = cluster.condition("first", "Progressing");
    assert!(
        told.contains("Conflicting Owner: ClusterObjectSet.olm.operatorframework.io/v1 second"),
        "{told}"
    );
}

/// Both may take what others have; who took it last keeps it, whether or not both had come to rest before.
#[tokio::test]
async fn two_that_take_from_each_other_do_so_once() {
    for has_rested in [true, false] {
        let cluster = Cluster::new().await;
        let by_hand = |name: &str| {
            let claim = namespaced("v1", "PersistentVolumeClaim", "data");
            let object = if has_rested { config(name) } else { claim };
            json!({
                "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
                "metadata": {"name": name, "annotations": {
                    keys::SERVICE_ACCOUNT_NAME: "installer", keys::SERVICE_ACCOUNT_NAMESPACE: "n",
                }},
                "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "None",
                    "phases": [{"name": "p", "objects": [{"object": object}]}]},
            })
        };
        cluster.server.add(&by_hand("first"));
        cluster.passes("first").await;
        cluster.woken();
        cluster.server.add(&by_hand("second"));
        cluster.passes("second").await;
        assert!(cluster.woken().contains("first"));
        cluster.writes();
        for _ in 0..3 {
            cluster.pass("first").await;
            cluster.pass("second").await;
            cluster.settle().await;
        }
        let told = cluster.condition("first", "Progressing");
        assert!(
            told.contains("Conflicting Owner: ClusterObjectSet.olm.operatorframework.io/v1 second"),
            "{told}"
        );
        let writes = cluster.writes();
        assert!(
            !writes.iter().any(|write| write.starts_with("n:installer")),
            "{writes:?}"
        );
    }
}

/// The garbage collector takes only the reference to a revision that is deleted in the foreground, where somebody else owns
/// the object, too.
#[tokio::test]
async fn what_its_taker_let_go_of_is_taken_back_or_down() {
    for is_deleted in [false, true] {
        let cluster = Cluster::new().await;
        cluster
            .install("e-1", &desired("1.0.0", &[config("1")]))
            .await;
        let marks = json!({"metadata": {
            "labels": {keys::OWNER_NAME: "other"},
            "annotations": {keys::REVISION: "2", keys::PACKAGE_NAME: "other"},
        }});
        cluster.server.edit(CONFIG, &marks);
        let metadata = cluster.server.object(CONFIG).unwrap()["metadata"].clone();
        let mut owners = metadata["ownerReferences"].clone();
        owners[0]["controller"] = json!(false);
        let let_go = json!({"metadata": {"ownerReferences": owners}});
        cluster.server.edit(CONFIG, &let_go);
        if is_deleted {
            cluster.uninstall().await;
        }
        cluster.passes("e-1").await;
        let stored = cluster.server.object(CONFIG);
        if is_deleted {
            assert_eq!(stored, None);
            continue;
        }
        let metadata = stored.unwrap()["metadata"].clone();
        assert_eq!(metadata["ownerReferences"][0]["controller"], true);
        assert_eq!(metadata["labels"][keys::OWNER_NAME], "e");
        let progressing = cluster.condition("e-1", "Progressing");
        assert!(progressing.starts_with("True/Succeeded"), "{progressing}");
    }
}

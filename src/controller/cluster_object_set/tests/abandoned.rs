//! Revisions that were orphaned, and then lost their namespace.

use super::*;

const SETS: &str = "/apis/olm.operatorframework.io/v1/clusterobjectsets/";
const NAMESPACE: &str = "/api/v1/namespaces/n";

/// Two revisions of an extension that is gone, without owner, and their account gone as well.
async fn orphans() -> Cluster {
    let cluster = Cluster::new().await;
    cluster
        .install("e-1", &desired("1.0.0", &[config("1")]))
        .await;
    cluster.install("e-2", &desired("2.0.0", &operator())).await;
    cluster.passes("e-1").await;
    for name in ["e-1", "e-2"] {
        let orphaned = json!({"metadata": {"ownerReferences": null}});
        cluster.server.edit(&format!("{SETS}{name}"), &orphaned);
    }
    cluster.passes("e-2").await;
    let account = namespaced("v1", "ServiceAccount", "installer");
    cluster.server.remove(&account);
    cluster
}

fn remove_namespace(cluster: &Cluster) {
    cluster.server.remove(&object("v1", "Namespace", "n"));
}

#[tokio::test]
async fn all_revisions_go_when_nobody_can_take_them_back() {
    for is_still_terminating in [false, true] {
        let cluster = orphans().await;
        if is_still_terminating {
            let deleted = json!({"metadata": {"deletionTimestamp": Timestamp::now().to_string(), "finalizers": ["kubernetes"]}});
            cluster.server.edit(NAMESPACE, &deleted);
        } else {
            remove_namespace(&cluster);
        }
        cluster.passes("e-2").await;
        cluster.passes("e-1").await;
        cluster.passes("e-2").await;
        assert_eq!(cluster.server.paths(SETS), Vec::<String>::new());
        let events = cluster.server.paths("/events/").into_iter();
        let reason = |path: String| cluster.server.object(&path).unwrap()["reason"].clone();
        let told: Vec<Value> = events.map(reason).collect();
        assert!(told.contains(&json!("Abandoned")), "{told:?}");
    }
}

#[tokio::test]
async fn what_may_be_taken_back_stays() {
    type Change = fn(&Cluster);
    let cases: [(&str, Change); 5] = [
        ("the namespace is there", |_| {}),
        ("the extension is there", |cluster| {
            remove_namespace(cluster);
            cluster.server.add(&json!({
                "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
                "metadata": {"name": "e", "uid": "another"},
            }));
        }),
        ("a backup brought it", |cluster| {
            remove_namespace(cluster);
            let restored = json!({"status": null});
            cluster.server.edit(&format!("{SETS}e-2"), &restored);
        }),
        ("it has an owner", |cluster| {
            remove_namespace(cluster);
            let owner = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "e", "uid": "ext", "controller": true});
            let owned = json!({"metadata": {"ownerReferences": [owner]}});
            cluster.server.edit(&format!("{SETS}e-2"), &owned);
        }),
        ("somebody wrote it by hand", |cluster| {
            remove_namespace(cluster);
            let label = json!({"metadata": {"labels": null}});
            cluster.server.edit(&format!("{SETS}e-2"), &label);
        }),
    ];
    for (case, change) in cases {
        let cluster = orphans().await;
        change(&cluster);
        cluster.passes("e-2").await;
        cluster.passes("e-1").await;
        for name in ["e-1", "e-2"] {
            let set = cluster.set(name).unwrap();
            assert_eq!(set.metadata.deletion_timestamp, None, "{case}");
        }
    }
}

/// No extension is left that would tell.
#[tokio::test]
async fn an_orphan_says_that_its_account_is_gone() {
    let cluster = orphans().await;
    cluster.passes("e-2").await;
    let told = cluster.condition("e-2", "Progressing");
    assert!(told.starts_with("True/Retrying: "), "{told}");
    let remedy = "kubectl create serviceaccount installer --namespace n";
    assert!(told.contains(remedy), "{told}");
}

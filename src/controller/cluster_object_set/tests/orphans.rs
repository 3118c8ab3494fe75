//! Revisions without owner: orphaned, or restored from a backup.

use super::*;

const SET: &str = "/apis/olm.operatorframework.io/v1/clusterobjectsets/e-1";

fn deletions(cluster: &Cluster) -> Vec<String> {
    let writes = cluster.writes().into_iter();
    writes.filter(|write| write.contains("DELETE")).collect()
}

/// Revision 2 took the place of revision 1, which is archived.
async fn upgraded() -> Cluster {
    let cluster = Cluster::new().await;
    cluster
        .install("e-1", &desired("1.0.0", &[config("1")]))
        .await;
    cluster
        .install("e-2", &desired("2.0.0", &[config("2")]))
        .await;
    cluster.passes("e-1").await;
    cluster
}

#[tokio::test]
async fn secrets_of_an_archived_revision_that_was_restored_go_with_it() {
    let cluster = upgraded().await;
    let secrets = cluster.server.paths("/namespaces/system/secrets/e-1-");
    assert_eq!(secrets.len(), 1);
    let restored = json!({"metadata": {"ownerReferences": null}});
    cluster.server.edit(&secrets[0], &restored);
    cluster.uninstall().await;
    assert_eq!(cluster.server.object(&secrets[0]), None);
}

#[tokio::test]
async fn an_object_that_is_being_orphaned_is_not_given_its_owner_again() {
    let cluster = Cluster::new().await;
    cluster
        .install("e-1", &desired("1.0.0", &[config("1")]))
        .await;
    let stale = Arc::new(cluster.set("e-1").unwrap());
    let deleted = json!({"metadata": {"deletionTimestamp": Timestamp::now().to_string(), "finalizers": [keys::FINALIZER_TEARDOWN, "orphan"]}});
    cluster.server.edit(SET, &deleted);
    let orphaned = json!({"metadata": {"ownerReferences": null}});
    cluster.server.edit(CONFIG, &orphaned);
    // The watch of the object is ahead of that of the revision.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    cluster.server.requests();
    assert_eq!(reconcile(cluster.ctx.clone(), stale).await, Next::Retry);
    let stored = cluster.server.object(CONFIG).unwrap();
    assert_eq!(stored["metadata"].get("ownerReferences"), None);
    assert_eq!(deletions(&cluster), Vec::<String>::new());
}

#[tokio::test]
async fn secrets_that_are_being_orphaned_are_not_given_their_owner_again() {
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    let stale = Arc::new(cluster.set("e-1").unwrap());
    // The garbage collector is done already.
    orphan_everything(&cluster);
    let deleted = json!({"metadata": {"deletionTimestamp": Timestamp::now().to_string(), "finalizers": [keys::FINALIZER_TEARDOWN]}});
    cluster.server.edit(SET, &deleted);
    let next = cluster.restarted().await;
    next.server.requests();
    assert_eq!(reconcile(next.ctx.clone(), stale).await, Next::Retry);
    let secrets = next.server.paths("/namespaces/system/secrets/");
    let stored = next.server.object(&secrets[0]).unwrap();
    assert_eq!(stored["metadata"].get("ownerReferences"), None);
    // So it is still seen that everything shall stay.
    next.passes("e-1").await;
    assert!(next.set("e-1").is_none());
    assert_eq!(deletions(&next), Vec::<String>::new());
    assert!(next.server.object(CRD).is_some());
}

/// Does what the garbage collector does when the revision is deleted with `--cascade=orphan`.
fn orphan_everything(cluster: &Cluster) {
    let orphaned = json!({"metadata": {"ownerReferences": null}});
    for path in cluster.server.paths("/") {
        let is_object = cluster.server.object(&path).is_some_and(|object| {
            object.pointer("/metadata/ownerReferences/0/name") == Some(&json!("e-1"))
        });
        if is_object {
            cluster.server.edit(&path, &orphaned);
        }
    }
}

#[tokio::test]
async fn a_revision_that_was_orphaned_meanwhile_is_not_deleted() {
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    let stale = cluster.revisions();
    let orphaned = json!({"metadata": {"ownerReferences": null}});
    cluster.server.edit(SET, &orphaned);
    let uninstall = async |existing: &[Revision]| {
        let operations = cluster.ctx.revisions();
        operations.uninstall(existing, None).await.unwrap()
    };
    cluster.server.requests();
    let waiting = Uninstall::Waiting(vec!["e-1".into()]);
    assert_eq!(uninstall(&stale).await, waiting);
    // Read again, nothing is left to wait for.
    assert_eq!(uninstall(&cluster.revisions()).await, Uninstall::Done);
    let metadata = cluster.server.object(SET).unwrap()["metadata"].clone();
    assert_eq!(metadata.get("deletionTimestamp"), None);
    assert_eq!(cluster.server.paths("/namespaces/system/secrets/").len(), 1);
}

#[tokio::test]
async fn what_was_orphaned_while_nobody_was_here_stays() {
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    orphan_everything(&cluster);
    // The garbage collector has removed its finalizer again; only ours is left.
    let deleted = json!({"metadata": {"deletionTimestamp": Timestamp::now().to_string()}});
    cluster.server.edit(SET, &deleted);
    let next = cluster.restarted().await;
    next.server.requests();
    next.passes("e-1").await;
    assert!(next.set("e-1").is_none());
    assert_eq!(deletions(&next), Vec::<String>::new());
    assert!(next.server.object(CRD).is_some());
    // The next revision of the same extension takes everything over where it stands.
    let before = next.server.object(DEPLOYMENT).unwrap()["metadata"]["uid"].clone();
    next.install("e-1", &desired("1.0.0", &operator())).await;
    assert_eq!(
        next.server.object(DEPLOYMENT).unwrap()["metadata"]["uid"],
        before
    );
    assert_eq!(next.owner(CONFIG), "e-1");
}

#[tokio::test]
async fn all_revisions_without_owner_are_taken_back_also_archived_ones() {
    let cluster = upgraded().await;
    for name in ["e-1", "e-2"] {
        let path = SET.replace("e-1", name);
        let restored = json!({"metadata": {"ownerReferences": null}, "status": null});
        cluster.server.edit(&path, &restored);
    }
    let added = cluster.server.add(&json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": "e"}, "spec": {},
    }));
    let uid = added["metadata"]["uid"].as_str().unwrap().to_owned();
    let again = Extension {
        uid: uid.clone(),
        ..extension()
    };
    let sets = ["e-1", "e-2"].map(|name| cluster.set(name).unwrap());
    let existing = revisions_of(&sets, &again);
    assert_eq!(existing.len(), 2);
    let revisions = cluster.ctx.revisions();
    // One that is gone by now, as the API server knows, takes nothing back.
    let gone = Extension {
        uid: "gone".into(),
        ..extension()
    };
    revisions.take_back(&gone, &existing).await.unwrap();
    assert_eq!(cluster.set("e-2").unwrap().metadata.owner_references, None);
    revisions.take_back(&again, &existing).await.unwrap();
    for name in ["e-1", "e-2"] {
        let owners = cluster.set(name).unwrap().metadata.owner_references;
        assert_eq!(owners.unwrap()[0].uid, uid, "{name}");
    }
    // Nothing is left to take back.
    cluster.server.requests();
    let sets = ["e-1", "e-2"].map(|name| cluster.set(name).unwrap());
    let existing = revisions_of(&sets, &again);
    revisions.take_back(&again, &existing).await.unwrap();
    assert_eq!(cluster.server.requests(), Vec::<String>::new());
    // Let go again, they have no owner, and stay.
    revisions.let_go(&existing).await.unwrap();
    for name in ["e-1", "e-2"] {
        let metadata = cluster.set(name).unwrap().metadata;
        assert_eq!(metadata.owner_references, None, "{name}");
        assert_eq!(metadata.deletion_timestamp, None, "{name}");
    }
}

#[tokio::test]
async fn a_secret_that_somebody_put_there_again_orphans_nothing() {
    for has_other_objects in [true, false] {
        let cluster = Cluster::new().await;
        let content = if has_other_objects {
            operator()
        } else {
            vec![crd()]
        };
        cluster.install("e-1", &desired("1.0.0", &content)).await;
        let secrets = cluster.server.paths("/namespaces/system/secrets/");
        let put_back = json!({"metadata": {"ownerReferences": null}});
        cluster.server.edit(&secrets[0], &put_back);
        cluster.uninstall().await;
        cluster.passes("e-1").await;
        assert!(cluster.set("e-1").is_none());
        // With nothing else that could have an owner, the Secret decides.
        assert_eq!(cluster.server.object(CRD).is_none(), has_other_objects);
        assert_eq!(cluster.server.object(CONFIG), None);
        // The garbage collector takes what has an owner.
        let secret = cluster.server.object(&secrets[0]).unwrap();
        let owner = secret.pointer("/metadata/ownerReferences/0/name");
        assert_eq!(owner.is_some(), has_other_objects, "{secret}");
    }
}

/// That no one can tell must not take down what somebody wants to keep.
#[tokio::test]
async fn whether_a_revision_was_orphaned_is_asked_again() {
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    orphan_everything(&cluster);
    cluster.uninstall().await;
    cluster
        .server
        .fail_next("GET /api/v1/namespaces/n/serviceaccounts/operator", 500);
    assert_eq!(cluster.pass("e-1").await, Next::Retry);
    assert!(
        cluster
            .condition("e-1", "Progressing")
            .starts_with("True/Retrying: cannot tell whether the revision was orphaned: ")
    );
    cluster.passes("e-1").await;
    assert!(cluster.set("e-1").is_none());
    assert_eq!(
        deletions(&cluster)
            .iter()
            .filter(|line| line.contains("n:installer"))
            .count(),
        0
    );
}

/// A backup keeps no status; the mark of success stays.
#[tokio::test]
async fn what_succeeded_is_known_without_its_status() {
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    let set = cluster.server.object(SET).unwrap();
    assert_eq!(set["metadata"]["annotations"][keys::SUCCEEDED], "true");
    cluster.ensure(&desired("2.0.0", &operator())).await;
    cluster.server.edit(SET, &json!({"status": null}));
    let states = states(&cluster.revisions());
    assert_eq!(states.installed.unwrap().name, "e-1");
    assert_eq!(states.rolling_out.len(), 1);
}

/// An older backup over what was upgraded since.
#[tokio::test]
async fn an_older_revision_that_comes_back_is_archived_not_rolled_out() {
    let cluster = upgraded().await;
    let active = json!({"spec": {"lifecycleState": "Active"}, "metadata": {"finalizers": null}, "status": null});
    cluster.server.edit(SET, &active);
    cluster.server.requests();
    cluster.passes("e-1").await;
    assert_eq!(
        cluster.server.object(SET).unwrap()["spec"]["lifecycleState"],
        "Archived"
    );
    let requests = cluster.server.requests();
    assert!(
        !requests.iter().any(|line| line.contains("/configmaps")),
        "{requests:?}"
    );
    let owner =
        cluster.server.object(CONFIG).unwrap()["metadata"]["ownerReferences"][0]["name"].clone();
    assert_eq!(owner, "e-2");
}

//! What a revision holds: made once, in Secrets or inline, and never changed.

use super::*;

#[tokio::test]
async fn tampering_with_secrets_blocks_and_putting_them_right_heals() {
    let cluster = Cluster::new().await;
    cluster
        .install("e-1", &desired("1.0.0", &[config("1")]))
        .await;
    let secrets = cluster.server.paths("/namespaces/system/secrets/");
    let original = cluster.server.object(&secrets[0]).unwrap();
    cluster
        .server
        .edit(&secrets[0], &json!({"immutable": false}));
    // Somebody touches the revision, or the process starts again.
    let next = cluster.restarted().await;
    assert_eq!(next.pass("e-1").await, Next::Blocked(Some(BLOCKED_AGAIN)));
    assert!(
        next.condition("e-1", "Progressing")
            .starts_with("False/Blocked: the following secrets are not immutable")
    );
    next.server
        .edit(&secrets[0], &json!({"immutable": original["immutable"]}));
    next.passes("e-1").await;
    assert!(
        next.condition("e-1", "Progressing")
            .starts_with("True/Succeeded")
    );
}

#[tokio::test]
async fn a_revision_is_made_once_whatever_interrupts_it() {
    let cluster = Cluster::new().await;
    let wanted = desired("1.0.0", &[config("1")]);
    let revisions = cluster.ctx.revisions();
    cluster.server.fail_next(
        "POST /apis/olm.operatorframework.io/v1/clusterobjectsets",
        500,
    );
    let error = revisions
        .ensure(&[], &wanted, &|_| false)
        .await
        .unwrap_err();
    assert_eq!(
        chain(&error),
        "creating new Revision: e-1: the test wants this to fail"
    );
    assert_eq!(cluster.server.paths("/secrets/").len(), 1);

    // Other content now: the Secret that was left is removed.
    let wanted = desired("1.0.0", &[config("2")]);
    cluster.ensure(&wanted).await;
    let secrets = cluster.server.paths("/secrets/");
    assert_eq!(secrets.len(), 1);
    let owners = &cluster.server.object(&secrets[0]).unwrap()["metadata"]["ownerReferences"];
    assert_eq!(owners[0]["name"], "e-1");

    // Interrupted after the ClusterObjectSet was made, before anybody saw it: the same one is found again.
    let again = revisions.ensure(&[], &wanted, &|_| false).await.unwrap();
    assert_eq!(
        again,
        Ensured::Created {
            name: "e-1".into(),
            number: 1
        }
    );

    // Somebody else's of that name: the next number.
    let mut other = wanted.clone();
    other.extension.uid = "somebody-else".into();
    let passed_over = revisions.ensure(&[], &other, &|_| false).await.unwrap();
    assert_eq!(
        passed_over,
        Ensured::Created {
            name: "e-2".into(),
            number: 2
        }
    );
    assert_eq!(cluster.server.paths("/secrets/").len(), 2);
}

#[tokio::test]
async fn a_revision_by_hand_with_inline_objects_is_applied() {
    let cluster = Cluster::new().await;
    cluster.server.add(&json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
        "metadata": {"name": "by-hand", "annotations": {keys::SERVICE_ACCOUNT_NAME: "installer", keys::SERVICE_ACCOUNT_NAMESPACE: "n"}},
        "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent",
            "phases": [{"name": "1", "objects": [{"object": config("1")}, {"object": crd()}]}]},
    }));
    cluster.passes("by-hand").await;
    assert!(
        cluster
            .condition("by-hand", "Progressing")
            .starts_with("True/Succeeded: Revision  has rolled out.")
    );
    assert_eq!(cluster.owner(CONFIG), "by-hand");
    let mut invalid = config("1");
    invalid["metadata"] = json!({"name": "x", "namespace": "n", "finalizers": ["f"]});
    cluster.server.add(&json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
        "metadata": {"name": "wrong", "annotations": {keys::SERVICE_ACCOUNT_NAME: "installer", keys::SERVICE_ACCOUNT_NAMESPACE: "n"}},
        "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent",
            "phases": [{"name": "p", "objects": [{"object": invalid}]}]},
    }));
    cluster.pass("wrong").await;
    assert_eq!(
        cluster.condition("wrong", "Progressing"),
        "False/Blocked: revision validation error: revision \"wrong\" (1): phase \"p\": ConfigMap.v1 n/x: metadata.finalizers must be empty"
    );
}

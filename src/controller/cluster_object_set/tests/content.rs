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

/// As after a restore that left out the namespace that oxolm runs in.
#[tokio::test]
async fn secrets_that_are_gone_are_made_again_for_the_newest_revision() {
    let cluster = Cluster::new().await;
    let wanted = desired("1.0.0", &[config("1")]);
    cluster.install("e-1", &wanted).await;
    let path = cluster
        .server
        .paths("/namespaces/system/secrets/")
        .remove(0);
    let original = cluster.server.object(&path).unwrap();
    cluster.server.remove(&original);
    let next = cluster.restarted().await;
    assert_eq!(next.pass("e-1").await, Next::Retry);
    let name = original["metadata"]["name"].as_str().unwrap();
    assert_eq!(
        next.condition("e-1", "Progressing"),
        format!(
            "True/Retrying: resolving ref in phase \"configuration\": getting Secret system/{name}: not found: restore it from a \
             backup; the newest revision of a ClusterExtension gets its own back as soon as its bundle can be pulled"
        )
    );
    let stale = next.revisions();
    let unchanged = Ensured::Unchanged { name: "e-1".into() };
    assert_eq!(next.ensure(&wanted).await, unchanged);
    let again = next.server.object(&path).unwrap();
    assert_eq!(again["data"], original["data"]);
    assert_eq!(
        again["metadata"]["ownerReferences"],
        original["metadata"]["ownerReferences"]
    );
    next.passes("e-1").await;
    assert!(
        next.condition("e-1", "Progressing")
            .starts_with("True/Succeeded")
    );
    // Nobody asks any more.
    next.server.requests();
    assert_eq!(next.ensure(&wanted).await, unchanged);
    assert_eq!(next.server.requests(), Vec::<String>::new());
    // One that is on its way out by now gets none.
    next.server.remove(&again);
    let deleted = json!({"metadata": {"deletionTimestamp": Timestamp::now().to_string()}});
    next.server.edit(
        "/apis/olm.operatorframework.io/v1/clusterobjectsets/e-1",
        &deleted,
    );
    let revisions = next.ctx.revisions();
    let ensured = revisions.ensure(&stale, &wanted, &|_| false).await;
    assert_eq!(ensured.unwrap(), unchanged);
    assert_eq!(next.server.object(&path), None);
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

/// A revision that somebody wrote, with these objects.
pub(super) fn by_hand(name: &str, objects: &[Value]) -> Value {
    let objects: Vec<Value> = (objects.iter())
        .map(|object| json!({"object": object}))
        .collect();
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
        "metadata": {"name": name, "annotations": {keys::SERVICE_ACCOUNT_NAME: "installer", keys::SERVICE_ACCOUNT_NAMESPACE: "n"}},
        "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent",
            "phases": [{"name": "p", "objects": objects}]},
    })
}

#[tokio::test]
async fn a_revision_by_hand_with_inline_objects_is_applied() {
    let cluster = Cluster::new().await;
    cluster
        .server
        .add(&by_hand("by-hand", &[config("1"), crd()]));
    cluster.passes("by-hand").await;
    assert!(
        cluster
            .condition("by-hand", "Progressing")
            .starts_with("True/Succeeded: Revision by-hand has rolled out.")
    );
    assert_eq!(cluster.owner(CONFIG), "by-hand");
}

#[tokio::test]
async fn what_is_wrong_with_objects_is_told_before_the_first_write() {
    let cluster = Cluster::new().await;
    let mut invalid = config("1");
    invalid["metadata"] = json!({"name": "x", "namespace": "n", "finalizers": ["f"]});
    let nowhere = object("v1", "ConfigMap", "y");
    // The definition that comes along says that a Thing is in a namespace, and nobody knows an Unknown yet.
    let objects = [
        object("v1", "Namespace", "first"),
        invalid,
        nowhere,
        object("g/v1", "Thing", "z"),
        crd(),
        object("unknown/v1", "Unknown", "u"),
    ];
    cluster.server.add(&by_hand("wrong", &objects));
    cluster.pass("wrong").await;
    assert_eq!(
        cluster.condition("wrong", "Progressing"),
        "False/Blocked: revision validation error: revision \"wrong\" (1): phase \"p\": ConfigMap.v1 n/x: metadata.finalizers \
         must be empty; phase \"p\": ConfigMap.v1 /y: metadata.namespace must be set; phase \"p\": Thing.g/v1 /z: \
         metadata.namespace must be set"
    );
    assert_eq!(
        cluster.server.paths("/namespaces/first"),
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn an_archived_revision_without_its_secrets_says_how_to_be_rid_of_it() {
    let cluster = Cluster::new().await;
    let install = async |number: usize, version: &str| {
        let name = format!("e-{number}");
        let content = desired(version, &[config(version)]);
        cluster.install(&name, &content).await;
    };
    install(1, "1.0.0").await;
    let path = &cluster.server.paths("/namespaces/system/secrets/e-1-")[0];
    let secret = cluster.server.object(path).unwrap();
    cluster.server.remove(&secret);
    install(2, "2.0.0").await;
    cluster.passes("e-1").await;
    let name = secret["metadata"]["name"].as_str().unwrap();
    assert_eq!(
        cluster.condition("e-1", "Progressing"),
        format!(
            "True/Retrying: Secret system/{name} is gone, so what only this archived revision holds cannot be told: restore \
             the Secret from a backup, or give the revision up: kubectl delete clusterobjectset e-1"
        )
    );
    let deleted = json!({"metadata": {"deletionTimestamp": Timestamp::now().to_string()}});
    let path = "/apis/olm.operatorframework.io/v1/clusterobjectsets/e-1";
    cluster.server.edit(path, &deleted);
    cluster.passes("e-1").await;
    assert!(cluster.set("e-1").is_none());
}

//! Objects that admission changes on their way in.

use super::*;

#[tokio::test]
async fn what_admission_changes_is_told_and_not_written_again() {
    const TOLD: &str = "True/ChangedOnTheWay: ConfigMap.v1 n/config: something in the cluster, an admission webhook or policy perhaps, \
                        changes what is applied: data.key.";
    let cluster = Cluster::new().await;
    let server = &cluster.server;
    server.mutate(CONFIG, &json!({"data": {"key": "9", "more": "1"}}));
    cluster.ensure(&desired("1.0.0", &[config("1")])).await;
    cluster.passes("e-1").await;
    assert_eq!(cluster.condition("e-1", "Warnings"), TOLD);
    assert!(cluster.condition("e-1", "Succeeded").starts_with("True"));
    server.requests();
    cluster.passes("e-1").await;
    assert_eq!(server.requests(), Vec::<String>::new(), "nothing changed");

    // Whoever knows nothing yet tells the same.
    let cluster = cluster.restarted().await;
    cluster.passes("e-1").await;
    assert_eq!(cluster.condition("e-1", "Warnings"), TOLD);

    // Once it holds still, nothing is told.
    let server = &cluster.server;
    server.mutate(CONFIG, &json!({}));
    server.edit(CONFIG, &json!({"data": {"key": "2"}}));
    cluster.passes("e-1").await;
    assert_eq!(server.object(CONFIG).unwrap()["data"]["key"], "1");
    assert_eq!(cluster.condition("e-1", "Warnings"), "");
}

/// Nobody would know them again, and each pass would make one more.
#[tokio::test]
async fn a_revision_that_admission_makes_nobodys_is_not_kept() {
    const SET: &str = "/apis/olm.operatorframework.io/v1/clusterobjectsets/e-1";
    let cluster = Cluster::new().await;
    let server = &cluster.server;
    let wanted = desired("1.0.0", &[config("1")]);
    let ensure = async |wanted: &Desired| {
        let existing = cluster.revisions();
        let revisions = cluster.ctx.revisions();
        revisions.ensure(&existing, wanted, &|_| false).await
    };
    for change in [
        json!({"metadata": {"annotations": {keys::CONTENT: null}}}),
        json!({"metadata": {"ownerReferences": null}}),
    ] {
        server.mutate(SET, &change);
        for _ in 0..3 {
            let refused = ensure(&wanted).await.unwrap_err().to_string();
            assert!(refused.contains("does not keep"), "{refused}");
            cluster.passes("e-1").await;
            let left = server.paths("/clusterobjectsets/");
            assert_eq!(left, Vec::<String>::new());
            assert_eq!(server.paths("/secrets/"), Vec::<String>::new());
        }
    }

    // What it only forgets of a revision that is known is told, too.
    server.mutate(SET, &json!({"metadata": {"labels": null}}));
    ensure(&wanted).await.unwrap();
    let refused = ensure(&wanted).await.unwrap_err().to_string();
    assert!(refused.contains("does not keep"), "{refused}");

    server.mutate(SET, &json!({}));
    let patched = ensure(&wanted).await.unwrap();
    assert_eq!(patched, Ensured::Patched { name: "e-1".into() });
    cluster.passes("e-1").await;
    assert!(cluster.condition("e-1", "Succeeded").starts_with("True"));
}

#[tokio::test]
async fn what_admission_took_all_marks_from_stays_and_is_told() {
    let cluster = Cluster::new().await;
    let bare = json!({"metadata": {"labels": null, "annotations": null, "ownerReferences": null}});
    cluster.server.mutate(CONFIG, &bare);
    cluster
        .install("e-1", &desired("1.0.0", &[config("1")]))
        .await;
    cluster.uninstall().await;
    cluster.passes("e-1").await;
    assert_eq!(cluster.uninstall().await, Uninstall::Done);
    assert!(cluster.server.object(CONFIG).is_some());
    let events = cluster.server.paths("/events/").into_iter();
    let told = events.map(|path| cluster.server.object(&path).unwrap()["note"].to_string());
    let told: Vec<String> = told.collect();
    let wanted = "nothing on them tells of a revision that is there: ConfigMap.v1 n/config";
    assert!(told.iter().any(|note| note.contains(wanted)), "{told:?}");
}

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

//! Changes that come while we look.

use super::*;

#[tokio::test]
async fn drift_that_is_read_while_a_status_is_looked_at_is_still_repaired() {
    let cluster = Cluster::new().await;
    let mut operator = namespaced("apps/v1", "Deployment", "operator");
    operator["spec"] = json!({"replicas": 1});
    cluster.install("e-1", &desired("1.0.0", &[operator])).await;
    cluster
        .server
        .set_status(DEPLOYMENT, &json!({"replicas": 1}));
    cluster.settle().await;
    // The watch has not told yet when the pass begins, which reads the object for its status.
    cluster
        .server
        .edit(DEPLOYMENT, &json!({"spec": {"replicas": 3}}));
    reconcile(cluster.ctx.clone(), Arc::new(cluster.set("e-1").unwrap())).await;
    cluster.passes("e-1").await;
    let stored = cluster.server.object(DEPLOYMENT).unwrap();
    assert_eq!(stored["spec"]["replicas"], 1);
}

#[tokio::test]
async fn who_wakes_a_revision_before_our_own_write_arrived_is_not_forgotten() {
    let cluster = Cluster::new().await;
    let operator = namespaced("apps/v1", "Deployment", "operator");
    cluster.ensure(&desired("1.0.0", &[operator])).await;
    let before = Arc::new(cluster.set("e-1").unwrap());
    cluster.pass("e-1").await;
    // What the cache still had when the Deployment became available. Our write of the status wakes nobody when it arrives.
    let next = reconcile(cluster.ctx.clone(), before).await;
    assert_eq!(next, Next::After(WRITE_ARRIVES));
}

//! Kinds whose changes the controller may not see.

use super::*;

#[tokio::test]
async fn an_unwatched_object_that_is_not_available_is_looked_at_soon() {
    let cluster = Cluster::new().await;
    let claims = "/api/v1/persistentvolumeclaims";
    cluster.server.forbid_controller(&format!("LIST {claims}"));
    let claim = namespaced("v1", "PersistentVolumeClaim", "data");
    cluster.ensure(&desired("1.0.0", &[claim])).await;
    cluster.passes("e-1").await;
    let path = "/api/v1/namespaces/n/persistentvolumeclaims/data";
    cluster
        .server
        .set_status(path, &json!({"phase": "Pending"}));
    let next = cluster.pass("e-1").await;
    assert!(
        matches!(next, Next::After(delay) if delay <= LOOK_LATEST),
        "{next:?}"
    );
    assert!(
        cluster
            .condition("e-1", "Warnings")
            .starts_with("True/NotWatched: Changes of PersistentVolumeClaim.v1 are not watched")
    );
    cluster.server.set_status(path, &json!({"phase": "Bound"}));
    assert_eq!(cluster.pass("e-1").await, Next::After(REREAD));
    assert!(cluster.condition("e-1", "Succeeded").starts_with("True"));
}

#[test]
fn the_longer_it_takes_the_less_often_is_looked() {
    for (age, expected) in [
        (0, LOOK_SOONEST),
        (19, LOOK_SOONEST),
        (100, Duration::from_secs(10)),
        (100_000, LOOK_LATEST),
    ] {
        assert_eq!(look_again(Duration::from_secs(age)), expected, "{age}");
    }
}

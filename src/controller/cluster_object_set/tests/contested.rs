//! An object that somebody else writes as often as it is brought back.

use super::*;

#[tokio::test(start_paused = true)]
async fn who_writes_our_objects_again_and_again_is_told_of() {
    const TOLD: &str = "True/Contested: Somebody changes or deletes ConfigMap.v1 n/config again and again, and each time it is \
                        brought back.";
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    let warnings = || cluster.condition("e-1", "Warnings");
    let quiet = warnings();
    for number in 0..6 {
        assert_eq!(warnings(), quiet, "{number}");
        let change = json!({"data": {"key": format!("not {number}")}});
        cluster.server.edit(CONFIG, &change);
        cluster.passes("e-1").await;
        tokio::time::advance(Duration::from_secs(4)).await;
    }
    assert_eq!(warnings(), TOLD);
    tokio::time::advance(Duration::from_mins(10)).await;
    cluster.passes("e-1").await;
    assert_eq!(warnings(), quiet);
}

/// A pass that fails knows nothing of the one before, and whoever answers its writes wakes the next one.
#[tokio::test(start_paused = true)]
async fn a_fight_beside_a_failure_is_slowed_down() {
    let cluster = Cluster::new().await;
    let service = "/api/v1/namespaces/n/services/operator";
    let objects = [config("1"), namespaced("v1", "Service", "operator")];
    cluster.ensure(&desired("1.0.0", &objects)).await;
    let mut passes = 0;
    let mut paused = false;
    while !paused {
        let posted = format!("POST {}", service.trim_end_matches("/operator"));
        cluster.server.fail_with(
            &posted,
            422,
            "Service \"operator\" is invalid: spec.ports: Required value",
        );
        if cluster.server.object(CONFIG).is_some() {
            cluster.server.edit(CONFIG, &json!({"data": {"key": "9"}}));
        }
        cluster.server.requests();
        cluster.pass("e-1").await;
        paused = cluster.server.requests().is_empty();
        passes += 1;
        assert!(passes < 40, "nobody slows it down");
    }
}

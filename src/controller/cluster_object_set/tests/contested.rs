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
    for number in 0..20 {
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

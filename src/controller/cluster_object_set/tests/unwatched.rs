//! Kinds whose changes the controller may not see.

use super::*;

#[tokio::test]
async fn an_unwatched_object_that_is_not_available_is_looked_at_soon() {
    let cluster = Cluster::new().await;
    let claims = "/api/v1/persistentvolumeclaims";
    cluster.server.forbid_controller(&format!("LIST {claims}"));
    let own = "LIST /api/v1/namespaces/n/persistentvolumeclaims";
    cluster.server.forbid("n:installer", own);
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

#[tokio::test]
async fn what_the_controller_may_not_watch_the_account_does() {
    let cluster = Cluster::new().await;
    let server = &cluster.server;
    server.forbid_controller("LIST /api/v1/configmaps");
    cluster.ensure(&desired("1.0.0", &[config("1")])).await;
    for _ in 0..5 {
        cluster.pass("e-1").await;
        // What is soon not so is not told.
        let told = cluster.condition("e-1", "Warnings");
        assert!(!told.contains("not watched"), "{told}");
    }
    assert_eq!(
        cluster.condition("e-1", "Warnings"),
        "True/WatchedAsAccount: Changes of ConfigMap.v1 are watched as service account n/installer."
    );
    assert_eq!(cluster.pass("e-1").await, Next::OnChange);
    server.requests();
    assert_eq!(cluster.pass("e-1").await, Next::OnChange);
    assert_eq!(server.requests(), Vec::<String>::new(), "nothing changed");
    let path = "/api/v1/namespaces/n/configmaps/config";
    server.edit(path, &json!({"data": {"key": "2"}}));
    cluster.passes("e-1").await;
    let data = server.object(path).unwrap()["data"]["key"].clone();
    assert_eq!(data, "1");
}

/// Nobody may watch all Secrets of the namespace, but the account this one.
#[tokio::test]
async fn a_secret_is_watched_by_its_name() {
    let cluster = Cluster::new().await;
    let server = &cluster.server;
    server.forbid_controller("LIST /api/v1/secrets");
    server.forbid_controller("WATCH /api/v1/secrets");
    let all = "/api/v1/namespaces/n/secrets";
    for verb in ["LIST", "WATCH"] {
        server.forbid("n:installer", &format!("{verb} {all}"));
    }
    let mut secret = namespaced("v1", "Secret", "serving");
    secret["data"] = json!({"a": "MQ=="});
    cluster.ensure(&desired("1.0.0", &[secret])).await;
    for _ in 0..8 {
        cluster.pass("e-1").await;
    }
    assert_eq!(
        cluster.condition("e-1", "Warnings"),
        "True/WatchedAsAccount: Changes of Secret.v1 are watched as service account n/installer."
    );
    assert_eq!(cluster.pass("e-1").await, Next::OnChange);
    let path = format!("{all}/serving");
    let stored = server.object(&path).unwrap();
    server.remove(&stored);
    cluster.passes("e-1").await;
    assert!(server.object(&path).is_some(), "it is made again");

    // With the right to see none, it is looked for now and then.
    server.forbid("n:installer", &format!("LIST {all}?serving"));
    server.forbid("n:installer", &format!("WATCH {all}?serving"));
    let next = cluster.restarted().await;
    for _ in 0..8 {
        next.pass("e-1").await;
    }
    let told = next.condition("e-1", "Warnings");
    assert!(
        told.starts_with("True/NotWatched: Changes of Secret.v1"),
        "{told}"
    );
}

#[tokio::test]
async fn what_nobody_may_watch_is_read_on_a_slow_timer() {
    let cluster = Cluster::new().await;
    let server = &cluster.server;
    server.forbid_controller("LIST /api/v1/configmaps");
    server.forbid("n:installer", "LIST /api/v1/namespaces/n/configmaps");
    cluster.ensure(&desired("1.0.0", &[config("1")])).await;
    cluster.passes("e-1").await;
    let told = cluster.condition("e-1", "Warnings");
    assert!(
        told.starts_with("True/NotWatched: Changes of ConfigMap.v1 are not watched: they are looked for every 10 minutes as service account n/installer"),
        "{told}"
    );
    let path = "/api/v1/namespaces/n/configmaps/config";
    server.edit(path, &json!({"data": {"key": "2"}}));
    let data = || server.object(path).unwrap()["data"]["key"].clone();
    assert_eq!(cluster.pass("e-1").await, Next::After(REREAD));
    assert_eq!(data(), "2", "it is not time yet");
    cluster.ctx.memory.age(REREAD);
    cluster.passes("e-1").await;
    assert_eq!(data(), "1");
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

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

/// A phase that waits for an earlier one is created without another look at what was not there; who came first is found
/// all the same.
#[tokio::test]
async fn what_was_not_there_is_created_unless_somebody_came_first() {
    const CLAIM: &str = "/api/v1/namespaces/n/persistentvolumeclaims/data";
    const SERVICE: &str = "/api/v1/namespaces/n/services/operator";
    for is_overtaken in [false, true] {
        let cluster = Cluster::new().await;
        let claim = namespaced("v1", "PersistentVolumeClaim", "data");
        let service = namespaced("v1", "Service", "operator");
        let content = desired("1.0.0", &[claim, service.clone()]);
        cluster.ensure(&content).await;
        cluster.passes("e-1").await;
        assert_eq!(cluster.server.object(SERVICE), None);
        if is_overtaken {
            cluster.server.add(&service);
        }
        cluster.server.set_status(CLAIM, &json!({"phase": "Bound"}));
        cluster.passes("e-1").await;
        let log = cluster.server.log();
        let looks = log
            .iter()
            .filter(|one| one.line == format!("GET {SERVICE}"));
        let looks = looks.count();
        if is_overtaken {
            assert!(looks > 1);
            assert_eq!(
                cluster.condition("e-1", "Progressing"),
                "True/Retrying: revision object collisions in phase 1\nObject Service.v1 n/operator\nAction: \"Collision\"\nConflicting Owner: nil"
            );
        } else {
            assert_eq!(looks, 1);
            assert_eq!(cluster.owner(SERVICE), "e-1");
        }
    }
}

/// Two revisions that never got ready and have an object in common: it goes with them, whoever is archived first.
#[tokio::test]
async fn what_two_replaced_revisions_have_goes_with_the_last() {
    const EXTRA: &str = "/apis/apps/v1/namespaces/n/deployments/extra";
    for order in [None, Some(["e-9", "e-10"]), Some(["e-10", "e-9"])] {
        let cluster = Cluster::new().await;
        let extra = namespaced("apps/v1", "Deployment", "extra");
        let ensure = async |version: &str, objects: &[Value]| {
            let (existing, wanted) = (cluster.revisions(), desired(version, objects));
            let is_taken = |name: &str| name.len() == 3 && name != "e-9";
            let revisions = cluster.ctx.revisions();
            revisions
                .ensure(&existing, &wanted, &is_taken)
                .await
                .unwrap();
        };
        ensure("3.0.0", &[config("1"), extra.clone()]).await;
        cluster.passes("e-9").await;
        ensure("3.0.0", &[config("2"), extra]).await;
        cluster.passes("e-10").await;
        assert_eq!(cluster.owner(EXTRA), "e-10");

        match order {
            None => {
                ensure("2.0.0", &[config("3")]).await;
                cluster.server.requests();
                cluster.passes("e-11").await;
                let archived: Vec<String> = cluster.writes();
                let archived = archived
                    .iter()
                    .filter(|it| it.contains("/clusterobjectsets/") && !it.contains("e-11"));
                let archived: Vec<&str> = archived.filter_map(|it| it.rsplit('/').next()).collect();
                assert_eq!(archived, ["e-9", "e-10"]);
                cluster.passes("e-9").await;
                cluster.passes("e-10").await;
            }
            Some(order) => {
                // Somebody archives both by hand before the other one has looked.
                for name in order {
                    cluster.ctx.revisions().archive(name).await.unwrap();
                    cluster.pass(name).await;
                }
            }
        }
        assert_eq!(cluster.server.object(EXTRA), None, "{order:?}");
    }
}

/// While an upgrade rolls out, the installed revision tells how its objects are that the next one has taken over: a change of
/// their status wakes that one only.
#[tokio::test]
async fn the_installed_revision_sees_what_the_next_one_sees() {
    let cluster = Cluster::new().await;
    let mut operator = namespaced("apps/v1", "Deployment", "operator");
    operator["spec"] = json!({"replicas": 1});
    cluster
        .install("e-1", &desired("1.0.0", &[operator.clone()]))
        .await;
    operator["spec"] = json!({"replicas": 2});
    cluster.ensure(&desired("1.1.0", &[operator])).await;
    cluster.passes("e-2").await;
    let shows = async |words: &str| {
        assert!(cluster.woken().contains("e-1"), "{words}");
        cluster.passes("e-1").await;
        let told = cluster.condition("e-1", "Available");
        assert!(told.contains(words), "{told}");
        cluster.woken();
    };
    shows(".status outdated").await;
    let generation = cluster.server.object(DEPLOYMENT).unwrap()["metadata"]["generation"].clone();
    cluster.server.set_status(
        DEPLOYMENT,
        &json!({"observedGeneration": generation, "replicas": 2, "updatedReplicas": 1,
            "conditions": [{"type": "Available", "status": "True"}]}),
    );
    cluster.passes("e-2").await;
    shows("updatedReplicas").await;
    cluster.passes("e-2").await;
    assert!(!cluster.woken().contains("e-1"));
}

//! What becomes of objects that somebody changes, and of what a restart finds.

use super::*;

#[tokio::test]
async fn the_next_phase_waits_and_drift_is_repaired_behind_it() {
    let cluster = Cluster::new().await;
    let mut claim = namespaced("v1", "PersistentVolumeClaim", "data");
    claim["spec"] = json!({"size": 1});
    let manifests = [claim, namespaced("v1", "Service", "operator")];
    cluster.ensure(&desired("1.0.0", &manifests)).await;
    cluster.passes("e-1").await;
    let (pvc, service) = (
        "/api/v1/namespaces/n/persistentvolumeclaims/data",
        "/api/v1/namespaces/n/services/operator",
    );
    cluster.server.set_status(pvc, &json!({"phase": "Pending"}));
    cluster.passes("e-1").await;
    assert_eq!(cluster.server.object(service), None);
    assert_eq!(
        cluster.condition("e-1", "Available"),
        "False/ProbeFailure: Object PersistentVolumeClaim.v1 n/data: value at key \"status.phase\" != \"Bound\"; expected: \"Bound\" got: \"Pending\""
    );
    cluster.server.set_status(pvc, &json!({"phase": "Bound"}));
    cluster.passes("e-1").await;
    assert!(cluster.server.object(service).is_some());
    assert!(cluster.condition("e-1", "Succeeded").starts_with("True"));
    // Once complete, an early phase that fails does not stop the repair of a later one.
    cluster.server.set_status(pvc, &json!({"phase": "Lost"}));
    let owner = cluster.server.object(service).unwrap();
    cluster.server.remove(&owner);
    cluster.passes("e-1").await;
    assert!(cluster.server.object(service).is_some());
    assert!(
        cluster
            .condition("e-1", "Available")
            .starts_with("False/ProbeFailure")
    );
}

#[tokio::test]
async fn drift_is_repaired_and_what_users_add_stays() {
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    cluster.server.requests();
    cluster.server.edit(
        CONFIG,
        &json!({"data": {"mine": "x"}, "metadata": {"labels": {"mine": "x"}}}),
    );
    cluster.passes("e-1").await;
    assert_eq!(
        cluster.server.requests(),
        Vec::<String>::new(),
        "nothing of ours changed"
    );
    cluster
        .server
        .edit(CONFIG, &json!({"data": {"key": "changed"}}));
    cluster.passes("e-1").await;
    let stored = cluster.server.object(CONFIG).unwrap();
    assert_eq!(stored["data"], json!({"key": "1", "mine": "x"}));
    assert_eq!(stored["metadata"]["labels"]["mine"], "x");
    assert_eq!(cluster.writes(), [format!("n:installer PATCH {CONFIG}")]);
    cluster.server.remove(&stored);
    cluster.passes("e-1").await;
    assert_eq!(
        cluster.server.object(CONFIG).unwrap()["data"],
        json!({"key": "1"})
    );
}

#[tokio::test]
async fn a_restart_reads_everything_and_writes_nothing() {
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    let next = cluster.restarted().await;
    next.server.requests();
    next.passes("e-1").await;
    assert_eq!(next.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn lists_that_do_not_fit_together_are_ours_again() {
    let cluster = Cluster::new().await;
    let service = |port: u16| {
        let mut service = namespaced("v1", "Service", "operator");
        service["spec"] = json!({"ports": [{"name": "http", "port": port}]});
        service
    };
    cluster.ensure(&desired("1.0.0", &[service(80)])).await;
    cluster.passes("e-1").await;
    let server = &cluster.server;
    let path = "/api/v1/namespaces/n/services/operator";
    let change = json!({"spec": {"ports": [{"name": "http", "port": 99}]}});
    server.edit(path, &change);
    let refusal = "Service \"operator\" is invalid: spec.ports[1].name: Duplicate value: \"http\"";
    server.fail_with(&format!("PATCH {path}"), 422, refusal);
    cluster.passes("e-1").await;
    let ports = |object: &Value| object["spec"]["ports"].clone();
    let live = server.object(path).unwrap();
    assert_eq!(ports(&live), ports(&service(80)));
    assert!(
        cluster
            .condition("e-1", "Progressing")
            .starts_with("True/Succeeded")
    );
    let entries = live["metadata"]["managedFields"].as_array().unwrap();
    let ours = entries
        .iter()
        .filter(|entry| entry["manager"] == keys::FIELD_MANAGER_OBJECTS);
    let operations: Vec<&Value> = ours.map(|entry| &entry["operation"]).collect();
    assert_eq!(operations, ["Apply"], "nothing else keeps our fields");
}

/// The parameters of another strategy are a default, which no apply takes away.
#[tokio::test]
async fn what_excludes_ours_goes_in_an_upgrade() {
    let cluster = Cluster::new().await;
    let operator = |strategy: Value| {
        let mut deployment = namespaced("apps/v1", "Deployment", "operator");
        deployment["spec"] = json!({"replicas": 1, "strategy": strategy});
        deployment
    };
    let first = desired("1.0.0", &[operator(json!({}))]);
    cluster.install("e-1", &first).await;
    let server = &cluster.server;
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}});
    server.edit(
        DEPLOYMENT,
        &json!({"spec": {"strategy": rolling, "paused": true}}),
    );
    let second = desired("1.1.0", &[operator(json!({"type": "Recreate"}))]);
    cluster.ensure(&second).await;
    let refusal = "Deployment.apps \"operator\" is invalid: spec.strategy.rollingUpdate: Forbidden: may not be specified \
                   when strategy `type` is 'Recreate'";
    server.fail_with(&format!("PATCH {DEPLOYMENT}"), 422, refusal);
    // The process ends before the apply that follows.
    server.fail_write_after(3);
    cluster.pass("e-2").await;
    assert_eq!(cluster.owner(DEPLOYMENT), "e-2");
    cluster.passes("e-1").await;
    assert_eq!(cluster.owner(DEPLOYMENT), "e-2");
    cluster.passes("e-2").await;
    let spec = server.object(DEPLOYMENT).unwrap()["spec"].clone();
    assert_eq!(spec["strategy"], json!({"type": "Recreate"}));
    assert_eq!(spec["paused"], true, "what fits together stays");
    assert_eq!(cluster.owner(DEPLOYMENT), "e-2");
}

#[tokio::test]
async fn a_list_that_names_something_twice_is_kept_up() {
    let cluster = Cluster::new().await;
    let deployment = |values: &[&str]| {
        let env: Vec<Value> = (values.iter())
            .map(|value| json!({"name": "A", "value": value}))
            .collect();
        let mut deployment = namespaced("apps/v1", "Deployment", "operator");
        let container = json!({"name": "m", "env": env});
        deployment["spec"] =
            json!({"replicas": 1, "template": {"spec": {"containers": [container]}}});
        deployment
    };
    let refuse = || {
        let refusal = "failed to create typed patch object (n/operator; apps/v1, Kind=Deployment): \
             .spec.template.spec.containers[name=\"m\"].env: duplicate entries for key [name=\"A\"]";
        let line = format!("PATCH {DEPLOYMENT}");
        cluster.server.fail_with(&line, 500, refusal);
    };
    let first = deployment(&["1", "2"]);
    cluster.ensure(&desired("1.0.0", &[first])).await;
    cluster.passes("e-1").await;
    let server = &cluster.server;
    // What changes between our write and the claim of its fields, and a process that ends there, make no difference.
    for (replicas, lost) in [
        (3, None),
        (4, None),
        (5, Some(422)),
        (6, Some(500)),
        (7, None),
    ] {
        server.edit(DEPLOYMENT, &json!({"spec": {"replicas": replicas}}));
        refuse();
        if let Some(code) = lost {
            server.fail_after(1, &format!("PATCH {DEPLOYMENT}"), code);
        }
        cluster.passes("e-1").await;
        let live = server.object(DEPLOYMENT).unwrap();
        assert_eq!(live["spec"]["replicas"], 1, "{replicas}");
        let entries = live["metadata"]["managedFields"].as_array().unwrap();
        let ours = (entries.iter()).filter(|entry| entry["manager"] == keys::FIELD_MANAGER_OBJECTS);
        let operations: Vec<&Value> = ours.map(|entry| &entry["operation"]).collect();
        assert_eq!(operations, ["Apply"]);
    }
    server.requests();
    cluster.passes("e-1").await;
    assert_eq!(server.requests(), Vec::<String>::new(), "nothing changed");

    // A later version takes it over, with other values.
    refuse();
    let second = deployment(&["3", "4"]);
    cluster
        .ensure(&desired("2.0.0", std::slice::from_ref(&second)))
        .await;
    cluster.passes("e-2").await;
    let live = server.object(DEPLOYMENT).unwrap();
    assert_eq!(live["spec"], second["spec"]);
    assert_eq!(cluster.owner(DEPLOYMENT), "e-2");
}

#[tokio::test]
async fn what_is_refused_in_one_phase_does_not_stop_the_repair_of_others() {
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    let server = &cluster.server;
    for refusals in [1, 2] {
        server.edit(CONFIG, &json!({"data": {"key": "2"}}));
        server.remove(&namespaced("v1", "Service", "operator"));
        server.fail_with(&format!("PATCH {CONFIG}"), 422, "it is refused");
        cluster.pass("e-1").await;
        let told = cluster.condition("e-1", "Progressing");
        assert!(told.contains("it is refused"), "{refusals}: {told}");
        let service = "/api/v1/namespaces/n/services/operator";
        assert!(server.object(service).is_some(), "{refusals}");
    }
    // So it is with what somebody took.
    let owned = json!({"ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "k", "uid": "other", "controller": true}]});
    server.edit(CONFIG, &json!({"metadata": owned}));
    server.remove(&namespaced("v1", "Service", "operator"));
    cluster.passes("e-1").await;
    let told = cluster.condition("e-1", "Progressing");
    assert!(told.contains("Collision"), "{told}");
    assert!(
        server
            .object("/api/v1/namespaces/n/services/operator")
            .is_some()
    );
}

/// As after `kubectl apply --server-side` of the object as it was read, or when `managedFields` were cleared.
#[tokio::test]
async fn owners_that_somebody_else_wrote_do_not_stop_an_upgrade() {
    let cluster = Cluster::new().await;
    cluster
        .install("e-1", &desired("1.0.0", &[config("1")]))
        .await;
    let server = &cluster.server;
    let mut live = server.object(CONFIG).unwrap();
    let entries = live["metadata"]["managedFields"].as_array_mut().unwrap();
    let mut other = entries[0].clone();
    other["manager"] = json!("kubectl");
    entries.push(other);
    let entries = live["metadata"]["managedFields"].clone();
    server.remove(&config("1"));
    live["metadata"]["managedFields"] = entries;
    server.add(&live);
    cluster.passes("e-1").await;

    cluster.ensure(&desired("2.0.0", &[config("2")])).await;
    cluster.passes("e-2").await;
    assert!(
        cluster
            .condition("e-2", "Progressing")
            .starts_with("True/Succeeded")
    );
    let live = server.object(CONFIG).unwrap();
    assert_eq!(live["data"]["key"], "2");
    let owners = live["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(owners.len(), 1, "{owners:?}");
    assert_eq!(cluster.owner(CONFIG), "e-2");
}

/// `kubectl replace -f` takes our marks away, and leaves the fields that it did not change ours.
#[tokio::test]
async fn what_somebody_replaced_is_ours_still() {
    for (is_ours, expected) in [(true, "True/Succeeded"), (false, "True/Retrying")] {
        let cluster = Cluster::new().await;
        cluster.install("e-1", &desired("1.0.0", &operator())).await;
        let mut replaced = cluster.server.object(CONFIG).unwrap();
        let metadata = replaced["metadata"].as_object_mut().unwrap();
        for marks in ["labels", "annotations", "ownerReferences"] {
            metadata.insert(marks.to_owned(), Value::Null);
        }
        if !is_ours {
            // Nothing is as it was.
            replaced["data"]["key"] = json!("replaced");
        }
        replaced["data"]["more"] = json!("replaced");
        cluster.server.edit(CONFIG, &replaced);
        let cluster = cluster.restarted().await;
        cluster.passes("e-1").await;
        let progressing = cluster.condition("e-1", "Progressing");
        assert!(progressing.starts_with(expected), "{progressing}");
        let metadata = cluster.server.object(CONFIG).unwrap()["metadata"].clone();
        assert_eq!(
            metadata["ownerReferences"].is_array(),
            is_ours,
            "{metadata}"
        );
    }
}

//! Webhooks that somebody has to answer.

use super::*;

const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/n/endpointslices/operator-1";

fn webhooks() -> Value {
    let mut configuration = object(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "hooks",
    );
    configuration["webhooks"] = json!([{"name": "a.g", "clientConfig": {"service": {"namespace": "n", "name": "operator"}}}]);
    configuration
}

fn slice(ready: bool) -> Value {
    let mut slice = namespaced("discovery.k8s.io/v1", "EndpointSlice", "operator-1");
    slice["metadata"]["labels"] = json!({"kubernetes.io/service-name": "operator"});
    slice["endpoints"] = json!([{"conditions": {"ready": ready}}]);
    slice
}

async fn with_webhooks() -> Cluster {
    let cluster = Cluster::new().await;
    let objects = [
        webhooks(),
        namespaced("v1", "Service", "operator"),
        namespaced("apps/v1", "Deployment", "operator"),
    ];
    cluster.ensure(&desired("1.0.0", &objects)).await;
    cluster.passes("e-1").await;
    cluster.make_available(DEPLOYMENT);
    cluster
}

#[tokio::test]
async fn a_webhook_that_nobody_answers_is_not_available() {
    let cluster = with_webhooks().await;
    cluster.passes("e-1").await;
    let unanswered = "False/ProbeFailure: Object ValidatingWebhookConfiguration.admissionregistration.k8s.io/v1 /hooks: \
                      Service n/operator has no ready endpoint";
    assert_eq!(cluster.condition("e-1", "Available"), unanswered);
    let next = cluster.pass("e-1").await;
    assert!(
        matches!(next, Next::After(delay) if delay <= LOOK_LATEST),
        "nobody tells that somebody answers: {next:?}"
    );
    cluster.server.add(&slice(false));
    cluster.pass("e-1").await;
    assert_eq!(cluster.condition("e-1", "Available"), unanswered);
    cluster.server.edit(SLICE, &slice(true));
    cluster.pass("e-1").await;
    assert!(
        cluster
            .condition("e-1", "Available")
            .starts_with("True/ProbesSucceeded")
    );
    cluster.server.requests();
    assert_eq!(cluster.pass("e-1").await, Next::OnChange);
    assert_eq!(cluster.server.requests(), Vec::<String>::new());

    // Who answered is gone; its Deployment says that something happened.
    cluster.server.edit(SLICE, &slice(false));
    cluster
        .server
        .edit(DEPLOYMENT, &json!({"metadata": {"labels": {"x": "y"}}}));
    cluster.make_available(DEPLOYMENT);
    cluster.pass("e-1").await;
    assert_eq!(cluster.condition("e-1", "Available"), unanswered);
}

#[tokio::test]
async fn endpoints_that_nobody_may_list_are_not_asked_for() {
    let cluster = Cluster::new().await;
    let line = "LIST /apis/discovery.k8s.io/v1/namespaces/n/endpointslices";
    cluster.server.forbid_controller(line);
    cluster.server.forbid("n:installer", line);
    cluster.ensure(&desired("1.0.0", &[webhooks()])).await;
    cluster.passes("e-1").await;
    assert!(
        cluster
            .condition("e-1", "Available")
            .starts_with("True/ProbesSucceeded")
    );
}

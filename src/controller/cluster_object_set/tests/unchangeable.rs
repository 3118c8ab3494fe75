//! Objects that cannot become what a later revision wants.

use super::*;

const NEVER: &str = "is invalid: field is immutable";

#[tokio::test]
async fn what_is_deleted_for_a_later_revision_is_not_put_back_by_the_earlier_one() {
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    let mut second = operator();
    second[1] = config("2");
    cluster.ensure(&desired("2.0.0", &second)).await;
    let patch = format!("PATCH {DEPLOYMENT}");
    cluster.server.fail_with(&patch, 422, NEVER);
    assert_eq!(cluster.pass("e-2").await, Next::Retry);
    assert!(cluster.condition("e-2", "Progressing").ends_with(&format!(
        "{NEVER}\nonce it is deleted, Deployment.apps/v1 operator is made anew as it should be: kubectl delete \
         Deployment.v1.apps operator --namespace n"
    )));
    let deployment = cluster.server.object(DEPLOYMENT).unwrap();
    cluster.server.remove(&deployment);
    cluster.passes("e-1").await;
    assert_eq!(cluster.server.object(DEPLOYMENT), None);
    cluster.pass("e-2").await;
    assert_eq!(cluster.owner(DEPLOYMENT), "e-2");
    cluster.make_available(DEPLOYMENT);
    cluster.passes("e-2").await;
    assert!(cluster.condition("e-2", "Succeeded").starts_with("True"));
}

/// The operator that would answer comes with the version that its dead webhook refuses.
#[tokio::test]
async fn a_dead_webhook_of_the_extension_itself_can_be_deleted_for_an_upgrade() {
    const WEBHOOK: &str =
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hook";
    let cluster = Cluster::new().await;
    let mut hook = object(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "hook",
    );
    hook["webhooks"] = json!([{"name": "w.example.com"}]);
    let first = desired("1.0.0", &[config("1"), hook.clone()]);
    cluster.install("e-1", &first).await;
    let second = desired("2.0.0", &[config("2"), hook]);
    cluster.ensure(&second).await;
    let refusal = "Internal error occurred: failed calling webhook \"w.example.com\": failed to call webhook: no endpoints";
    cluster
        .server
        .fail_with(&format!("PATCH {CONFIG}"), 500, refusal);
    cluster.pass("e-2").await;
    let told = cluster.condition("e-2", "Progressing");
    assert!(
        told.ends_with(
            "the webhook is one of the extension's own; once its configuration is deleted, the rollout goes on, and makes it anew: \
             kubectl delete ValidatingWebhookConfiguration.v1.admissionregistration.k8s.io hook"
        ),
        "{told}"
    );
    let hook = cluster.server.object(WEBHOOK).unwrap();
    cluster.server.remove(&hook);
    cluster.passes("e-1").await;
    assert_eq!(cluster.server.object(WEBHOOK), None);
    cluster.passes("e-2").await;
    assert_eq!(cluster.owner(WEBHOOK), "e-2");
    assert!(cluster.condition("e-2", "Succeeded").starts_with("True"));
}

#[tokio::test]
async fn what_is_put_back_while_nobody_waits_for_it_is_the_installed_ones() {
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    let mut second = operator();
    second[1] = config("2");
    cluster.ensure(&desired("2.0.0", &second)).await;
    let deployment = cluster.server.object(DEPLOYMENT).unwrap();
    cluster.server.remove(&deployment);
    cluster.passes("e-1").await;
    assert_eq!(cluster.owner(DEPLOYMENT), "e-1");
}

#[tokio::test]
async fn what_is_nothing_but_its_content_is_made_anew() {
    let cluster = Cluster::new().await;
    let binding = |role: &str| {
        let mut binding = namespaced("rbac.authorization.k8s.io/v1", "RoleBinding", "b");
        binding["roleRef"] =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role});
        binding
    };
    let frozen = |data: &str| {
        let mut config = config(data);
        config["immutable"] = json!(true);
        config
    };
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/n/rolebindings/b";
    let first = desired("1.0.0", &[binding("r"), frozen("1")]);
    cluster.install("e-1", &first).await;
    let users = json!({"metadata": {"labels": {"team": "a"}, "annotations": {"backup": "yes"}}});
    for path in [path, CONFIG] {
        cluster.server.edit(path, &users);
    }
    let second = desired("2.0.0", &[binding("s"), frozen("2")]);
    cluster.ensure(&second).await;
    for path in [path, CONFIG] {
        let patch = format!("PATCH {path}");
        cluster.server.fail_with(&patch, 422, NEVER);
    }
    cluster.passes("e-2").await;
    let binding = cluster.server.object(path).unwrap();
    assert_eq!(binding["roleRef"]["name"], "s");
    assert_eq!(
        cluster.server.object(CONFIG).unwrap()["data"],
        json!({"key": "2"})
    );
    assert_eq!(cluster.owner(path), "e-2");
    assert!(cluster.condition("e-2", "Succeeded").starts_with("True"));
    for path in [path, CONFIG] {
        let metadata = cluster.server.object(path).unwrap()["metadata"].clone();
        assert_eq!(metadata["labels"]["team"], "a");
        assert_eq!(metadata["annotations"]["backup"], "yes");
        let entries = metadata["managedFields"].as_array().unwrap();
        let ours = entries
            .iter()
            .find(|entry| entry["manager"] == keys::FIELD_MANAGER_OBJECTS);
        assert!(!ours.unwrap().to_string().contains("f:team"), "{ours:?}");
    }
    let events = cluster.server.paths("/events/").into_iter();
    let events = events.map(|path| cluster.server.object(&path).unwrap());
    let notes: Vec<Value> = events
        .filter(|event| event["reason"] == "Replaced")
        .map(|event| event["note"].clone())
        .collect();
    let told = "deleted and made anew: ConfigMap.v1 n/config, RoleBinding.rbac.authorization.k8s.io/v1 n/b";
    assert_eq!(notes, [told]);
}

/// What is installed is not to go for what is not allowed to come.
#[tokio::test]
async fn nothing_is_deleted_for_what_would_not_be_created() {
    for (code, told, stays) in [
        (403, "exceeded quota: q", true),
        (
            400,
            "admission webhook \"w\" does not support dry run",
            false,
        ),
    ] {
        let cluster = Cluster::new().await;
        let frozen = |data: &str| {
            let mut config = config(data);
            config["immutable"] = json!(true);
            config
        };
        let first = desired("1.0.0", &[frozen("1")]);
        cluster.install("e-1", &first).await;
        let second = desired("2.0.0", &[frozen("2")]);
        cluster.ensure(&second).await;
        let uid = || cluster.server.object(CONFIG).unwrap()["metadata"]["uid"].clone();
        let before = uid();
        let server = &cluster.server;
        server.fail_with(&format!("PATCH {CONFIG}"), 422, NEVER);
        server.fail_with("POST /api/v1/namespaces/n/configmaps", code, told);
        cluster.pass("e-2").await;
        assert_eq!(uid() == before, stays, "{told}");
        let progressing = cluster.condition("e-2", "Progressing");
        assert_eq!(progressing.contains(told), stays, "{progressing}");
    }
}

/// Somebody holds what is to be made anew: that is waited for, and told.
#[tokio::test]
async fn what_is_held_is_deleted_once() {
    let cluster = Cluster::new().await;
    let frozen = |data: &str| {
        let mut config = config(data);
        config["immutable"] = json!(true);
        config
    };
    cluster
        .install("e-1", &desired("1.0.0", &[frozen("1")]))
        .await;
    let server = &cluster.server;
    server.edit(CONFIG, &json!({"metadata": {"finalizers": ["g/f"]}}));
    cluster.ensure(&desired("2.0.0", &[frozen("2")])).await;
    server.requests();
    let mut deleted = 0;
    for _ in 0..3 {
        for _ in 0..2 {
            server.fail_with(&format!("PATCH {CONFIG}"), 422, NEVER);
        }
        cluster.pass("e-2").await;
        let requests = server.requests();
        deleted += requests
            .iter()
            .filter(|line| line.contains("DELETE"))
            .count();
    }
    assert_eq!(deleted, 1);
    let told = cluster.condition("e-2", "Progressing");
    assert!(
        told.contains("it is being deleted, and waits for g/f"),
        "{told}"
    );
    // The installed revision does not put it back before the one that waits for it.
    let held = server.object(CONFIG).unwrap();
    server.remove(&held);
    cluster.pass("e-1").await;
    assert_eq!(server.object(CONFIG), None);
    cluster.passes("e-2").await;
    let made = server.object(CONFIG).unwrap();
    assert_eq!(made["data"], json!({"key": "2"}));
}

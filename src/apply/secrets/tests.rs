use super::*;
use crate::error::{Classify as _, Disposition, chain};
use crate::revision::{Account, SECRET_IS_MISSING};
use crate::testing::api_server::ApiServer;

fn secret(namespace: &str, name: &str, revision: &str, immutable: bool) -> Value {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}});
    let data = |text: &str| json!(k8s_openapi::ByteString(text.as_bytes().to_vec()));
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": keys::OBJECT_DATA_SECRET_TYPE, "immutable": immutable,
        "metadata": {"name": name, "namespace": namespace, "labels": {keys::REVISION_NAME: revision}},
        "data": {"good": data(&object.to_string()), "bad": data("hunter2")},
    })
}

fn set(references: &Value) -> ClusterObjectSet {
    serde_json::from_value(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet", "metadata": {"name": "e-1"},
        "spec": {
            "lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent",
            "phases": [{"name": "p", "objects": references}],
        },
    }))
    .unwrap()
}

fn to(namespace: &str, name: &str, key: &str) -> Value {
    json!({"ref": {"namespace": namespace, "name": name, "key": key}})
}

async fn resolve(server: &ApiServer, set: &ClusterObjectSet) -> Result<Resolved, ContentError> {
    let identity = crate::identity::Identity::new(
        server.client(),
        std::sync::Arc::default(),
        crate::identity::ExcludedNamespaces::default(),
        crate::identity::DefaultAccount::None,
    );
    let account = Account {
        namespace: "n".into(),
        name: "a".into(),
    };
    let reader = Reader {
        own: &server.client(),
        account: &identity.client_for(&account).unwrap(),
        system_namespace: "system",
        given: Vec::new(),
    };
    reader.resolve(set).await
}

#[tokio::test]
async fn a_secret_is_read_once_by_the_controller_in_the_system_namespace_and_else_by_the_account() {
    let server = ApiServer::new();
    server.add(&secret("system", "s", "e-1", true));
    server.add(&secret("other", "s", "whatever", true));
    let mut references = json!([
        to("system", "s", "good"),
        to("system", "s", "good"),
        to("other", "s", "good")
    ]);
    references[1]["ref"]["namespace"].take();
    references[1]["collisionProtection"] = json!("None");
    let resolved = resolve(&server, &set(&references)).await.unwrap();
    assert_eq!(resolved.content.phases[0].items.len(), 3);
    assert_eq!(resolved.digests.len(), 1);
    assert_eq!(
        server.requests(),
        [
            "controller GET /api/v1/namespaces/system/secrets/s",
            "n:a GET /api/v1/namespaces/other/secrets/s",
        ]
    );
}

#[tokio::test]
async fn what_must_not_or_cannot_be_read_is_told_without_quoting_it() {
    let server = ApiServer::new();
    server.add(&secret("system", "s", "e-1", true));
    server.add(&secret("system", "foreign", "e-2", true));
    server.add(&secret("system", "mutable", "e-1", false));
    server.fail_next("GET /api/v1/namespaces/n/secrets/failing", 500);
    let phase = "resolving ref in phase \"p\": ";
    for (reference, expected, is_retried) in [
        (to("system", "none", "good"), format!("{phase}getting Secret system/none: not found: {SECRET_IS_MISSING}"), true),
        (to("n", "failing", "good"), format!("{phase}getting Secret n/failing: the test wants this to fail"), true),
        (to("system", "s", "none"), format!("{phase}key \"none\" not found in Secret system/s"), true),
        (
            to("system", "s", "bad"),
            format!("{phase}unmarshaling object from key \"bad\" in Secret system/s: not a JSON object"),
            true,
        ),
        (
            to("system", "foreign", "good"),
            format!("{phase}Secret system/foreign is not of type olm.operatorframework.io/object-data with label olm.operatorframework.io/revision-name naming this revision"),
            false,
        ),
        (
            to("system", "mutable", "good"),
            "the following secrets are not immutable (referenced secrets must have immutable set to true): system/mutable".to_owned(),
            false,
        ),
        (json!({}), "phase \"p\": object 0 is neither an object nor a reference".to_owned(), false),
        (json!({"object": {"kind": "A"}}), "phase \"p\": object 0: manifest has no apiVersion".to_owned(), false),
    ] {
        let error = resolve(&server, &set(&json!([reference]))).await.unwrap_err();
        assert_eq!(chain(&error), expected);
        assert_eq!(error.disposition() == Disposition::Retry, is_retried, "{expected}");
    }
}

#[tokio::test]
async fn content_that_changed_since_it_was_first_read_is_refused() {
    let server = ApiServer::new();
    let object = |data: &str| json!([{"object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"d": data}}}]);
    let mut set_now = set(&object("1"));
    let digests = resolve(&server, &set_now).await.unwrap().digests;
    set_now.status = Some(crate::api::ClusterObjectSetStatus {
        observed_phases: digests.clone(),
        ..Default::default()
    });
    assert!(resolve(&server, &set_now).await.is_ok());
    let mut changed = set(&object("2"));
    changed.status.clone_from(&set_now.status);
    let error = resolve(&server, &changed).await.unwrap_err().to_string();
    let expected = format!(
        "resolved content of 1 phase(s) has changed: phase \"p\" (expected digest {}, got sha256:",
        digests[0].digest
    );
    assert!(error.starts_with(&expected), "{error}");
    assert!(error.ends_with(
        "; a referenced object source may have been deleted and recreated with different content"
    ));
    changed.spec.phases.clear();
    assert_eq!(
        resolve(&server, &changed).await.unwrap_err().to_string(),
        "number of phases has changed (expected 1 phases, got 0)"
    );
}

#[tokio::test]
async fn secrets_are_created_once_and_owned_later() {
    let server = ApiServer::new();
    server.add(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "system"}}));
    let wanted: Secret = serde_json::from_value(secret("system", "s", "e-1", true)).unwrap();
    let client = server.client();
    assert_eq!(create(&client, &wanted).await.unwrap(), None);
    let found = create(&client, &wanted).await.unwrap();
    assert_eq!(found.unwrap()["metadata"]["name"], "s");
    let owner = OwnerReference {
        uid: "u".into(),
        ..OwnerReference::default()
    };
    own(&client, "system", &["s".to_owned()], &owner)
        .await
        .unwrap();
    let stored = server
        .object("/api/v1/namespaces/system/secrets/s")
        .unwrap();
    assert_eq!(stored["metadata"]["ownerReferences"][0]["uid"], "u");
    assert!(
        own(&client, "system", &["none".to_owned()], &owner)
            .await
            .unwrap_err()
            .is_not_found()
    );
}

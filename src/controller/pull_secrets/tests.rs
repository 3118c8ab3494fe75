use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;
use crate::registry::RegistryClient;
use crate::registry::config::RegistryOptions;
use crate::testing::api_server::ApiServer;
use crate::testing::registry::{FakeRegistry, Login, install_crypto, layer};

const ACCOUNT: &str = "/api/v1/namespaces/olmv1-system/serviceaccounts/oxolm";

fn name(text: &str) -> SecretName {
    text.parse().unwrap()
}

fn account() -> Account {
    account_of("system:serviceaccount:olmv1-system:oxolm").unwrap()
}

fn service_account(secrets: &[&str]) -> Value {
    let secrets: Vec<Value> = secrets.iter().map(|name| json!({"name": name})).collect();
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"namespace": "olmv1-system", "name": "oxolm"},
        "imagePullSecrets": secrets,
    })
}

fn secret(whose: &str, key: &str, content: &str) -> Value {
    let whose = name(whose);
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"namespace": whose.namespace, "name": whose.name},
        "data": {key: STANDARD.encode(content)},
    })
}

fn login(authority: &str, password: &str) -> String {
    json!({"auths": {authority: {"username": "user", "password": password}}}).to_string()
}

struct Fixture {
    api: ApiServer,
    used: mpsc::UnboundedReceiver<Credentials>,
    _stop: tokio_util::sync::DropGuard,
}

fn fixture(api: ApiServer, global: Option<&str>, account: Option<Account>) -> Fixture {
    install_crypto();
    let source = Source {
        client: api.client(),
        global: global.map(name),
        account,
    };
    let stop = CancellationToken::new();
    let (sender, used) = mpsc::unbounded_channel();
    let watching = watch(source, stop.clone(), move |credentials| {
        // The test may be over.
        _ = sender.send(credentials);
    });
    #[expect(clippy::disallowed_methods, reason = "as the runtime does")]
    tokio::spawn(watching);
    Fixture {
        api,
        used,
        _stop: stop.drop_guard(),
    }
}

impl Fixture {
    async fn next(&mut self) -> Credentials {
        let next = timeout(Duration::from_secs(10), self.used.recv()).await;
        next.expect("credentials change in time").unwrap()
    }
}

async fn pulls(client: &RegistryClient, registry: &FakeRegistry) -> Result<(), String> {
    let reference = registry.reference("catalog:latest");
    let canonical = client.canonicalize(&reference).await;
    canonical
        .map(drop)
        .map_err(|error| error.to_string().replace(&registry.authority, "REGISTRY"))
}

#[tokio::test]
async fn a_private_registry_is_pulled_from_as_soon_as_a_secret_says_how() {
    let registry = FakeRegistry::start().await;
    registry.require(Login::Basic);
    registry.put_image("catalog", "latest", &[], &[layer(&[])]);
    let client = RegistryClient::new(RegistryOptions::default()).unwrap();
    let mut fixture = fixture(ApiServer::new(), Some("config/global"), None);

    client.set_credentials(fixture.next().await);
    let missing = "cannot read manifest of REGISTRY/catalog:latest: http://REGISTRY/catalog \
        (no credentials; pull secret config/global does not exist): status 401 Unauthorized: unauthorized";
    assert_eq!(pulls(&client, &registry).await, Err(missing.to_owned()));

    let path = "/api/v1/namespaces/config/secrets/global";
    fixture.api.add(&secret(
        "config/global",
        ".dockerconfigjson",
        &login(&registry.authority, "wrong"),
    ));
    client.set_credentials(fixture.next().await);
    let wrong = "cannot read manifest of REGISTRY/catalog:latest: http://REGISTRY/catalog \
        (credentials from Secret config/global): status 401 Unauthorized: unauthorized";
    assert_eq!(pulls(&client, &registry).await, Err(wrong.to_owned()));

    let right = STANDARD.encode(login(&registry.authority, "secret"));
    fixture
        .api
        .edit(path, &json!({"data": {".dockerconfigjson": right}}));
    client.set_credentials(fixture.next().await);
    assert_eq!(pulls(&client, &registry).await, Ok(()));

    fixture.api.edit(
        path,
        &json!({"data": {".dockerconfigjson": STANDARD.encode("{hunter2")}}),
    );
    client.set_credentials(fixture.next().await);
    let malformed = "cannot read manifest of REGISTRY/catalog:latest: http://REGISTRY/catalog \
        (no credentials; malformed pull secret Secret config/global: not the expected JSON at line 1 column 2): \
        status 401 Unauthorized: unauthorized";
    assert_eq!(pulls(&client, &registry).await, Err(malformed.to_owned()));
}

#[tokio::test]
async fn the_secrets_of_the_own_account_are_followed_and_override_the_global_one() {
    let api = ApiServer::new();
    api.add(&service_account(&["first"]));
    api.add(&secret(
        "config/global",
        ".dockercfg",
        r#"{"quay.io":{"username":"g","password":"p"},"global.io":{"username":"g","password":"p"}}"#,
    ));
    api.add(&secret(
        "olmv1-system/first",
        ".dockerconfigjson",
        &login("quay.io", "p"),
    ));
    api.add(&secret("olmv1-system/second", "other", "x"));
    api.add(&secret("olmv1-system/bystander", ".dockercfg", "{}"));
    let mut fixture = fixture(api, Some("config/global"), Some(account()));
    let credentials = fixture.next().await;
    assert_eq!(credentials.len(), 2);
    assert_eq!(
        credentials.origin_of("quay.io", "a"),
        Some("Secret olmv1-system/first")
    );
    assert_eq!(
        credentials.origin_of("global.io", "a"),
        Some("Secret config/global")
    );

    fixture
        .api
        .edit(ACCOUNT, &json!({"imagePullSecrets": [{"name": "second"}]}));
    let credentials = fixture.next().await;
    assert_eq!(
        credentials.origin_of("quay.io", "a"),
        Some("Secret config/global")
    );
    assert_eq!(
        credentials.problems(),
        ["pull secret olmv1-system/second has neither key .dockerconfigjson nor .dockercfg"]
    );
    // Only what is named is read.
    let read: std::collections::BTreeSet<String> = fixture
        .api
        .log()
        .into_iter()
        .filter(|logged| logged.line.contains("/secrets"))
        .map(|logged| logged.line)
        .collect();
    assert_eq!(
        Vec::from_iter(read),
        [
            "LIST /api/v1/namespaces/config/secrets",
            "LIST /api/v1/namespaces/olmv1-system/secrets",
            "WATCH /api/v1/namespaces/config/secrets",
            "WATCH /api/v1/namespaces/olmv1-system/secrets",
        ]
    );

    fixture
        .api
        .edit(ACCOUNT, &json!({"imagePullSecrets": null}));
    let credentials = fixture.next().await;
    assert!(credentials.problems().is_empty());
    assert_eq!(credentials.len(), 2);
}

#[tokio::test]
async fn a_secret_that_may_not_be_read_is_told_and_does_not_hinder_others() {
    let api = ApiServer::new();
    api.add(&service_account(&["own"]));
    api.add(&secret(
        "olmv1-system/own",
        ".dockerconfigjson",
        &login("quay.io", "p"),
    ));
    api.fail_next("LIST /api/v1/namespaces/config/secrets", 403);
    let mut fixture = fixture(api, Some("config/global"), Some(account()));
    let credentials = fixture.next().await;
    assert_eq!(credentials.len(), 1);
    let [problem] = credentials.problems() else {
        panic!("{:?}", credentials.problems());
    };
    assert!(
        problem.starts_with("cannot read pull secret config/global: "),
        "{problem}"
    );
}

#[test]
fn only_service_accounts_are_accounts() {
    assert_eq!(account().name, "oxolm");
    for user in [
        "",
        "kubernetes-admin",
        "system:serviceaccount:a",
        "system:serviceaccount::b",
        "system:serviceaccount:a:",
        "system:serviceaccount:a:b:c",
    ] {
        assert_eq!(account_of(user), None, "{user}");
    }
}

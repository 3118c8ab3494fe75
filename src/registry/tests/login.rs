//! Credentials and tokens.

use super::*;

#[tokio::test]
async fn basic_and_token_logins_work_and_tokens_are_kept() {
    for (login, expected_token_requests) in [(Login::Basic, 0), (Login::Token, 1)] {
        let registry = FakeRegistry::start().await;
        registry.put_image("a", "v1", &[], &[layer(&[])]);
        registry.require(login);
        let client = login_for(&registry, "secret");
        let image = pulled(&client, &registry).await;
        read_layer(&client, &image, 0).await.unwrap();
        let tokens = registry
            .requests()
            .iter()
            .filter(|line| line.contains("/token"))
            .count();
        assert_eq!(tokens, expected_token_requests, "{login:?}");
    }
}

#[tokio::test]
async fn a_wrong_password_is_never_shown() {
    let cases = [
        (
            Login::Basic,
            "http://HOST/a (credentials from Secret ns/pull): status 401 Unauthorized: unauthorized",
        ),
        (
            Login::Token,
            "http://HOST/a (credentials from Secret ns/pull): cannot get a token from http://HOST/token: status 401 Unauthorized: unauthorized",
        ),
    ];
    for (login, expected) in cases {
        let registry = FakeRegistry::start().await;
        registry.require(login);
        let error = login_for(&registry, "hunter2")
            .canonicalize(&registry.reference("a:v1"))
            .await
            .unwrap_err();
        assert_eq!(
            text(&registry, &error),
            format!("cannot read manifest of HOST/a:v1: {expected}")
        );
        assert!(!format!("{error:?}").contains("hunter2"));
    }
}

#[tokio::test]
async fn no_login_is_a_plain_401() {
    let registry = FakeRegistry::start().await;
    registry.require(Login::Basic);
    let error = client()
        .canonicalize(&registry.reference("a:v1"))
        .await
        .unwrap_err();
    assert!(
        text(&registry, &error)
            .ends_with("(no credentials): status 401 Unauthorized: unauthorized")
    );
}

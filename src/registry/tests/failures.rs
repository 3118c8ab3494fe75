//! Registries that do not answer, or not as they should.

use super::*;

#[tokio::test]
async fn what_is_not_there_is_said_with_endpoint_status_and_credential() {
    let registry = FakeRegistry::start().await;
    let reference = registry.reference("a/b:gone");
    let error = client().canonicalize(&reference).await.unwrap_err();
    assert_eq!(
        text(&registry, &error),
        "cannot read manifest of HOST/a/b:gone: http://HOST/a/b (no credentials): status 404 Not Found: manifest unknown"
    );
    let error = login_for(&registry, "x")
        .canonicalize(&reference)
        .await
        .unwrap_err();
    assert_eq!(
        text(&registry, &error),
        "cannot read manifest of HOST/a/b:gone: http://HOST/a/b (credentials from Secret ns/pull): status 404 Not Found: manifest unknown"
    );
}

#[tokio::test]
async fn nobody_at_home_is_said_without_addresses_of_ours() {
    let registry = FakeRegistry::start().await;
    let reference = registry.reference("a:b");
    let authority = registry.authority.clone();
    drop(registry);
    tokio::task::yield_now().await;
    // The listener closes when its task is gone.
    let error = loop {
        let error = client().canonicalize(&reference).await.unwrap_err();
        if chain(&error).contains("refused") {
            break error;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(
        chain(&error).replace(&authority, "HOST"),
        "cannot read manifest of HOST/a:b: HOST/a (no credentials): pinging container registry: connection refused"
    );
}

#[tokio::test]
async fn busy_registries_are_asked_again_and_others_not() {
    for (status, retry_after, times, expected) in [
        (429, Some(0), 5, Ok(())),
        (429, Some(0), 6, Err("status 429 Too Many Requests")),
        (503, None, 2, Ok(())),
        (500, None, 3, Err("status 500 Internal Server Error")),
        (403, None, 1, Err("status 403 Forbidden")),
    ] {
        let registry = FakeRegistry::start().await;
        registry.put_image("a", "v1", &[], &[]);
        for _ in 0..times {
            registry.fail("manifests", Broken::Status(status, retry_after));
        }
        let result = client().canonicalize(&registry.reference("a:v1")).await;
        match expected {
            Ok(()) => assert!(result.is_ok(), "{status}: {result:?}"),
            Err(expected) => assert!(
                text(&registry, &result.unwrap_err()).ends_with(expected),
                "{status}"
            ),
        }
    }
}

#[tokio::test]
async fn a_registry_that_asks_for_a_long_wait_is_left_alone() {
    let registry = FakeRegistry::start().await;
    registry.put_image("a", "v1", &[], &[]);
    registry.put_image("b", "v1", &[], &[]);
    let busy = Broken::Status(429, Some(61));
    registry.fail("a/manifests", busy);
    let (client, reference) = (client(), registry.reference("a:v1"));
    for _ in 0..2 {
        let error = client.canonicalize(&reference).await.unwrap_err();
        assert!(
            text(&registry, &error)
                .ends_with("status 429 Too Many Requests (it asks to wait up to 2 minutes)"),
            "{error}"
        );
    }
    let asked = registry.requests();
    let manifests = asked.iter().filter(|line| line.contains("a/manifests"));
    assert_eq!(manifests.count(), 1, "{asked:?}");
    // Others are not meant, and who comes with another credential is another client.
    let other = client.canonicalize(&registry.reference("b:v1")).await;
    assert!(other.is_ok(), "{other:?}");
    client.set_credentials(Credentials::default());
    let again = client.canonicalize(&reference).await;
    assert!(again.is_ok(), "{again:?}");
}

#[tokio::test]
async fn one_redirect_is_followed_a_loop_is_not() {
    let registry = FakeRegistry::start().await;
    let bytes = layer(&[("a", "b")]);
    registry.put_image("a", "v1", &[], std::slice::from_ref(&bytes));
    let client = client();
    let image = pulled(&client, &registry).await;
    let there = format!("{{here}}/v2/other/blobs/{}", image.layers[0].digest);
    registry.fail("a/blobs", Broken::Redirect(there.clone()));
    assert_eq!(read_layer(&client, &image, 0).await.unwrap(), bytes);
    for _ in 0..20 {
        registry.fail("blobs", Broken::Redirect(there.clone()));
    }
    let error = read_layer(&client, &image, 0).await.unwrap_err();
    assert!(
        text(&registry, &error).ends_with("redirect refused: too many redirects"),
        "{error}"
    );
}

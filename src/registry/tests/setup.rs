//! Mirrors, certificates, policies and proxies.

use super::*;

#[tokio::test]
async fn mirrors_are_asked_first_and_all_failures_are_told() {
    let registry = FakeRegistry::start().await;
    let mirror = FakeRegistry::start().await;
    registry.put_image("a/b", "v1", &[], &[]);
    let directory = tempfile::tempdir().unwrap();
    let conf = directory.path().join("registries.conf");
    let lines = format!(
        "[[registry]]\nlocation='{}'\n[[registry.mirror]]\nlocation='{}/copy'\n",
        registry.authority, mirror.authority
    );
    std::fs::write(&conf, lines).unwrap();
    let client = RegistryClient::new(RegistryOptions {
        registries_conf: Some(conf.clone()),
        ..options()
    })
    .unwrap();
    let canonical = client
        .canonicalize(&registry.reference("a/b:v1"))
        .await
        .unwrap();
    assert_eq!(
        canonical.repository,
        *registry.reference("a/b:v1").repository()
    );
    assert!(
        mirror
            .requests()
            .contains(&"GET copy/a/b/manifests/v1".to_owned())
    );
    let error = client
        .canonicalize(&registry.reference("a/b:v2"))
        .await
        .unwrap_err();
    assert_eq!(
        text(&registry, &error).replace(&mirror.authority, "MIRROR"),
        "cannot read manifest of HOST/a/b:v2: http://MIRROR/copy/a/b (no credentials): status 404 Not Found: manifest unknown; \
         http://HOST/a/b (no credentials): status 404 Not Found: manifest unknown"
    );
    // The file is read at every pull.
    std::fs::write(
        &conf,
        format!(
            "[[registry]]\nlocation='{}'\nblocked=true",
            registry.authority
        ),
    )
    .unwrap();
    let error = client
        .canonicalize(&registry.reference("a/b:v1"))
        .await
        .unwrap_err();
    assert!(
        text(&registry, &error)
            .starts_with("cannot pull HOST/a/b:v1: registry HOST is blocked in ")
    );
}

#[test]
fn broken_setups_are_refused() {
    install_crypto();
    let directory = tempfile::tempdir().unwrap();
    let setup = |options: RegistryOptions| match RegistryClient::new(options) {
        Err(RegistryError::Setup(error)) => error,
        other => panic!("{other:?}"),
    };
    let proxy = RegistryOptions {
        proxy: Some("::".to_owned()),
        ..options()
    };
    assert!(matches!(setup(proxy), ConfigError::Proxy));
    let with_directory = |path: &std::path::Path| RegistryOptions {
        ca_directory: Some(path.to_owned()),
        ..options()
    };
    assert!(matches!(
        setup(with_directory(&directory.path().join("none"))),
        ConfigError::Read { .. }
    ));
    for (name, content, expected) in [
        ("a.crt", "no certificate", "holds no PEM certificate"),
        ("b.cert", "x", "its .key file is missing"),
        ("c.key", "x", "its .cert file is missing"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(name), content).unwrap();
        assert!(
            setup(with_directory(directory.path()))
                .to_string()
                .ends_with(expected),
            "{name}"
        );
    }
}

#[tokio::test]
async fn https_is_spoken_where_it_is_and_the_ca_directory_is_read_again() {
    let (registry, certificate) = FakeRegistry::start_tls().await;
    registry.put_image("a", "v1", &[], &[]);
    let directory = tempfile::tempdir().unwrap();
    let client = RegistryClient::new(RegistryOptions {
        ca_directory: Some(directory.path().to_owned()),
        ..options()
    })
    .unwrap();
    let reference = registry.reference("a:v1");
    let error = client.canonicalize(&reference).await.unwrap_err();
    assert_eq!(
        text(&registry, &error),
        "cannot read manifest of HOST/a:v1: HOST/a (no credentials): pinging container registry: tls: invalid peer certificate: UnknownIssuer"
    );
    std::fs::write(directory.path().join("own.crt"), certificate).unwrap();
    client.canonicalize(&reference).await.unwrap();
    let error = client
        .canonicalize(&registry.reference("a:v2"))
        .await
        .unwrap_err();
    assert!(text(&registry, &error).contains(": https://HOST/a (no credentials): status 404"));
    std::fs::write(directory.path().join("own.crt"), "broken").unwrap();
    let error = client.canonicalize(&reference).await.unwrap_err();
    assert!(text(&registry, &error).starts_with("cannot pull HOST/a:v1: malformed "));
}

#[tokio::test]
async fn a_registry_s_own_certificate_is_trusted_where_it_lies_in_the_ca_directory() {
    let may_sign = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let (registry, certificate) = FakeRegistry::start_tls_with(may_sign).await;
    registry.put_image("a", "v1", &[], &[]);
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("own.crt"), certificate).unwrap();
    let client = RegistryClient::new(RegistryOptions {
        ca_directory: Some(directory.path().to_owned()),
        ..options()
    });
    let reference = registry.reference("a:v1");
    client.unwrap().canonicalize(&reference).await.unwrap();
}

#[tokio::test]
async fn an_insecure_registry_may_have_any_certificate_or_none() {
    let (tls, _) = FakeRegistry::start_tls().await;
    let plain = FakeRegistry::start().await;
    for registry in [tls, plain] {
        registry.put_image("a", "v1", &[], &[]);
        let directory = tempfile::tempdir().unwrap();
        let conf = directory.path().join("registries.conf");
        std::fs::write(
            &conf,
            format!(
                "[[registry]]\nlocation='{}'\ninsecure=true",
                registry.authority
            ),
        )
        .unwrap();
        let client = RegistryClient::new(RegistryOptions {
            registries_conf: Some(conf),
            ..options()
        })
        .unwrap();
        client
            .canonicalize(&registry.reference("a:v1"))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_policy_that_rejects_is_obeyed_before_any_request() {
    let registry = FakeRegistry::start().await;
    let directory = tempfile::tempdir().unwrap();
    let policy = directory.path().join("policy.json");
    std::fs::write(&policy, r#"{"default":[{"type":"reject"}]}"#).unwrap();
    let client = RegistryClient::new(RegistryOptions {
        policy: Some(policy),
        ..options()
    })
    .unwrap();
    let error = client
        .canonicalize(&registry.reference("a:v1"))
        .await
        .unwrap_err();
    assert!(
        text(&registry, &error)
            .starts_with("cannot pull HOST/a:v1: rejected by the policy for \"default\" in ")
    );
    assert_eq!(registry.requests(), Vec::<String>::new());
}

/// A proxy that answers every request with `status` and tells the first line of each.
async fn proxy(status: &'static str) -> (String, mpsc::UnboundedReceiver<String>) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, lines) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = vec![0; 4096];
            let count = stream.read(&mut bytes).await.unwrap();
            let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
            // The test may be over.
            _ = sender.send(text.lines().next().unwrap_or_default().to_owned());
            _ = stream
                .write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes())
                .await;
        }
    });
    (address, lines)
}

#[tokio::test]
async fn a_proxy_is_asked_for_everything_but_loopback_and_its_refusal_is_told() {
    install_crypto();
    let (address, mut lines) = proxy("403 Forbidden").await;
    let client = RegistryClient::new(RegistryOptions {
        proxy: Some(address),
        retry: RetryPolicy {
            attempts: 1,
            ..RetryPolicy::default()
        },
        ..RegistryOptions::default()
    })
    .unwrap();
    let reference = Reference::parse("registry.invalid/a/b:1").unwrap();
    let error = client.canonicalize(&reference).await.unwrap_err();
    assert_eq!(
        lines.recv().await.unwrap(),
        "CONNECT registry.invalid:443 HTTP/1.1"
    );
    assert_eq!(
        error.to_string(),
        "cannot read manifest of registry.invalid/a/b:1: https://registry.invalid/a/b (no credentials): \
         pinging container registry: the proxy does not connect to the registry"
    );
    let registry = FakeRegistry::start().await;
    registry.put_image("a", "v1", &[], &[]);
    client
        .canonicalize(&registry.reference("a:v1"))
        .await
        .unwrap();
    assert!(lines.try_recv().is_err());
}

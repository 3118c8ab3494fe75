#![expect(clippy::disallowed_methods, reason = "tests read and write files")]
//! The client against a registry on the wire, sound and hostile.

use std::time::Duration;

use serde_json::json;

use super::config::ConfigError;
use super::credential::{PullSecret, PullSecretFormat};
use super::limits::RetryPolicy;
use super::*;
use crate::error::{Classify as _, Disposition, chain};
use crate::registry::build::BuiltImage;
use crate::testing::registry::{FakeRegistry, Fault as Broken, Login, install_crypto, layer};

const DEADLINE: Duration = Duration::from_secs(20);

fn options() -> RegistryOptions {
    RegistryOptions {
        platform: Some(Platform::new("linux", "amd64")),
        retry: RetryPolicy {
            first_delay: Duration::from_millis(1),
            max_delay: Duration::from_millis(2),
            ..RetryPolicy::default()
        },
        ..RegistryOptions::default()
    }
}

fn client() -> RegistryClient {
    install_crypto();
    RegistryClient::new(options()).unwrap()
}

fn with_login(text: &str) -> RegistryClient {
    let client = client();
    let secret = PullSecret {
        origin: "Secret ns/pull".to_owned(),
        format: PullSecretFormat::DockerConfigJson,
        data: text.as_bytes().to_vec(),
    };
    client.set_credentials(Credentials::parse(&[secret]).unwrap());
    client
}

fn login_for(registry: &FakeRegistry, password: &str) -> RegistryClient {
    let entry = json!({"username": "user", "password": password});
    with_login(&json!({"auths": {registry.authority.as_str(): entry}}).to_string())
}

/// The error's text with what varies from run to run replaced.
fn text(registry: &FakeRegistry, error: &RegistryError) -> String {
    assert_eq!(error.disposition(), Disposition::Retry);
    chain(error).replace(&registry.authority, "HOST")
}

/// All bytes of a layer, and how the transfer ended.
async fn read_layer(
    client: &RegistryClient,
    image: &Image,
    index: usize,
) -> Result<Vec<u8>, RegistryError> {
    let (sender, mut receiver) = mpsc::channel(4);
    let reader = async {
        let mut bytes = Vec::new();
        let mut verified = false;
        while let Some(piece) = receiver.recv().await {
            match piece {
                Piece::Bytes(more) => bytes.extend_from_slice(&more),
                Piece::Verified => verified = true,
            }
        }
        (bytes, verified)
    };
    let writer = async {
        let result = client
            .pull_layer(image, &image.layers[index], &sender)
            .await;
        drop(sender);
        result
    };
    let (result, (bytes, verified)) = timeout(DEADLINE, async { tokio::join!(writer, reader) })
        .await
        .unwrap();
    assert_eq!(result.is_ok(), verified, "{result:?}");
    result.map(|_| bytes)
}

#[tokio::test]
async fn a_tag_becomes_the_digest_of_the_manifest_as_served() {
    let registry = FakeRegistry::start().await;
    let digest = registry.put_image("a/b", "v1", &[("k", "v")], &[layer(&[("x", "y")])]);
    let client = client();
    let canonical = client
        .canonicalize(&registry.reference("a/b:v1"))
        .await
        .unwrap();
    assert_eq!(canonical.digest, digest);
    let image = client.image(&canonical).await.unwrap();
    assert_eq!(image.labels["k"], "v");
    assert_eq!(
        read_layer(&client, &image, 0).await.unwrap(),
        layer(&[("x", "y")])
    );
}

#[tokio::test]
async fn a_digest_is_canonical_without_a_request() {
    let registry = FakeRegistry::start().await;
    let digest = Digest::of(b"x");
    let canonical = client()
        .canonicalize(&registry.reference(&format!("a@{digest}")))
        .await
        .unwrap();
    assert_eq!(canonical.digest, digest);
    assert_eq!(registry.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn an_index_keeps_its_digest_and_this_platform_is_pulled() {
    let registry = FakeRegistry::start().await;
    let arm = registry.put_image("a", "arm", &[("arch", "arm64")], &[]);
    let amd = registry.put_image("a", "amd", &[("arch", "amd64")], &[]);
    let entry = |digest: &Digest, architecture: &str| {
        json!({"mediaType": media_type::OCI_MANIFEST, "digest": digest, "size": 1,
               "platform": {"os": "linux", "architecture": architecture}})
    };
    let put = |tag: &str, manifests: serde_json::Value| {
        let index = json!({"schemaVersion": 2, "manifests": manifests}).to_string();
        registry.put_manifest("a", tag, media_type::OCI_INDEX, index)
    };
    let index = put("v1", json!([entry(&arm, "arm64"), entry(&amd, "amd64")]));
    put("other", json!([entry(&arm, "arm64")]));
    put("nested", json!([entry(&index, "amd64")]));
    let client = client();
    let canonical = client
        .canonicalize(&registry.reference("a:v1"))
        .await
        .unwrap();
    assert_eq!(canonical.digest, index);
    assert_eq!(
        client.image(&canonical).await.unwrap().labels["arch"],
        "amd64"
    );
    for (tag, expected) in [
        (
            "other",
            "no image found in image index for linux/amd64: it has linux/arm64",
        ),
        (
            "nested",
            "unsupported manifest type \"an index inside an index\"",
        ),
    ] {
        let canonical = client
            .canonicalize(&registry.reference(&format!("a:{tag}")))
            .await
            .unwrap();
        let error = client.image(&canonical).await.unwrap_err();
        assert!(text(&registry, &error).ends_with(expected), "{error}");
    }
}

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
async fn basic_and_token_logins_work_and_tokens_are_kept() {
    for (login, expected_token_requests) in [(Login::Basic, 0), (Login::Token, 1)] {
        let registry = FakeRegistry::start().await;
        registry.put_image("a", "v1", &[], &[layer(&[])]);
        registry.require(login);
        let client = login_for(&registry, "secret");
        let canonical = client
            .canonicalize(&registry.reference("a:v1"))
            .await
            .unwrap();
        let image = client.image(&canonical).await.unwrap();
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
async fn broken_layers_are_resumed_also_without_ranges() {
    let registry = FakeRegistry::start().await;
    let bytes: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    registry.put_image("a", "v1", &[], std::slice::from_ref(&bytes));
    let client = client();
    let canonical = client
        .canonicalize(&registry.reference("a:v1"))
        .await
        .unwrap();
    let image = client.image(&canonical).await.unwrap();
    registry.forget_requests();
    let blob = image.layers[0].digest.to_string();
    registry.fail(&blob, Broken::CutAfter(100_000));
    registry.fail(&blob, Broken::CutAfter(50_000));
    registry.fail(&blob, Broken::IgnoreRange);
    assert_eq!(read_layer(&client, &image, 0).await.unwrap(), bytes);
    let path = format!("GET a/blobs/{blob}");
    let requests = registry.requests();
    assert_eq!(requests[0], path);
    assert!(
        requests[1..]
            .iter()
            .all(|line| line.starts_with(&format!("{path} bytes="))),
        "{requests:?}"
    );
}

#[tokio::test]
async fn layers_of_the_wrong_size_or_content_are_refused() {
    let good = layer(&[("a", "b")]);
    let mut flipped = good.clone();
    flipped[12] ^= 1;
    let short = good[..good.len() - 1].to_vec();
    let long = [good.clone(), vec![0]].concat();
    for (served, expected) in [
        (flipped, "content does not match digest"),
        (short, "bytes that its descriptor says"),
        (long, "bytes that its descriptor says"),
    ] {
        let registry = FakeRegistry::start().await;
        registry.put_image("a", "v1", &[], std::slice::from_ref(&good));
        let client = client();
        let canonical = client
            .canonicalize(&registry.reference("a:v1"))
            .await
            .unwrap();
        let image = client.image(&canonical).await.unwrap();
        registry.fail("blobs", Broken::Content(served.into()));
        let error = read_layer(&client, &image, 0).await.unwrap_err();
        assert!(text(&registry, &error).contains(expected), "{error}");
    }
}

#[tokio::test]
async fn documents_that_are_not_what_was_asked_for_are_refused() {
    let huge = vec![b' '; usize::try_from(MAX_MANIFEST_BYTES).unwrap() + 1];
    let schema1 = br#"{"schemaVersion":1,"name":"a"}"#.to_vec();
    for (path, served, expected) in [
        ("manifests", b"{}".to_vec(), "content does not match digest"),
        (
            "manifests",
            huge.clone(),
            "manifest exceeds the limit of 4194304 bytes",
        ),
        ("blobs", b"{}".to_vec(), "content does not match digest"),
        (
            "blobs",
            huge,
            "image configuration exceeds the limit of 4194304 bytes",
        ),
    ] {
        let registry = FakeRegistry::start().await;
        let digest = registry.put_image("a", "v1", &[], &[]);
        registry.fail(path, Broken::Content(served.into()));
        let canonical = registry.reference("a:v1").with_digest(digest);
        let error = client().image(&canonical).await.unwrap_err();
        assert!(text(&registry, &error).contains(expected), "{error}");
    }
    let registry = FakeRegistry::start().await;
    registry.put_manifest("a", "v1", "application/json", schema1);
    let error = client()
        .canonicalize(&registry.reference("a:v1"))
        .await
        .unwrap_err();
    assert!(
        text(&registry, &error)
            .starts_with("cannot use image HOST/a:v1: Docker image manifest version 2 schema 1")
    );
}

#[tokio::test]
async fn manifests_beyond_the_limits_are_refused_before_anything_is_pulled() {
    let registry = FakeRegistry::start().await;
    let one = |media_type: &str, size: u64| json!({"mediaType": media_type, "digest": Digest::of(b""), "size": size});
    let config = one(media_type::OCI_CONFIG, 1);
    let layer = one("l", 1);
    for (config, layers, expected) in [
        (
            config.clone(),
            vec![layer.clone(); MAX_LAYERS + 1],
            "its number of layers exceeds the limit of 500",
        ),
        (
            config.clone(),
            vec![one("l", limits::MAX_LAYER_BYTES + 1)],
            "the size of a layer in bytes exceeds",
        ),
        (
            one(media_type::OCI_CONFIG, MAX_CONFIG_BYTES + 1),
            vec![layer],
            "the size of its configuration in bytes exceeds",
        ),
        (
            one("application/vnd.other", 1),
            vec![],
            "unsupported for artifact",
        ),
    ] {
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": layers}).to_string();
        let digest = registry.put_manifest("a", "v1", media_type::OCI_MANIFEST, manifest);
        let error = client()
            .image(&registry.reference("a:v1").with_digest(digest))
            .await
            .unwrap_err();
        assert!(text(&registry, &error).contains(expected), "{error}");
    }
}

#[tokio::test]
async fn one_redirect_is_followed_a_loop_is_not() {
    let registry = FakeRegistry::start().await;
    let bytes = layer(&[("a", "b")]);
    registry.put_image("a", "v1", &[], std::slice::from_ref(&bytes));
    let client = client();
    let canonical = client
        .canonicalize(&registry.reference("a:v1"))
        .await
        .unwrap();
    let image = client.image(&canonical).await.unwrap();
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

#[tokio::test]
async fn a_pushed_image_comes_back_and_is_not_uploaded_twice() {
    for login in [None, Some(Login::Basic), Some(Login::Token)] {
        let registry = FakeRegistry::start().await;
        if let Some(login) = login {
            registry.require(login);
        }
        let files = BTreeMap::from([("configs/a.yaml".to_owned(), b"schema: x".to_vec())]);
        let labels = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
        let built = BuiltImage::build(&files, &labels).unwrap();
        let client = login_for(&registry, "secret");
        let reference = registry.reference("new/image:v1");
        let pushed = client.push(&built, &reference).await.unwrap();
        assert_eq!(client.canonicalize(&reference).await.unwrap(), pushed);
        let image = client.image(&pushed).await.unwrap();
        assert_eq!(image.labels, labels);
        assert_eq!(
            read_layer(&client, &image, 0).await.unwrap(),
            built.blobs[1].1
        );
        registry.forget_requests();
        client.push(&built, &reference).await.unwrap();
        let uploads = registry
            .requests()
            .iter()
            .filter(|line| line.starts_with("POST"))
            .count();
        assert_eq!(uploads, 0);
    }
}

#[tokio::test]
async fn a_push_that_is_refused_says_so() {
    let registry = FakeRegistry::start().await;
    let built = BuiltImage::build(&BTreeMap::new(), &BTreeMap::new()).unwrap();
    registry.fail("uploads", Broken::Status(403, None));
    let error = client()
        .push(&built, &registry.reference("a:v1"))
        .await
        .unwrap_err();
    assert!(
        text(&registry, &error).starts_with("cannot upload blob of HOST/a:v1: "),
        "{error}"
    );
    let other = registry.reference(&format!("a@{}", Digest::of(b"other")));
    let error = client().push(&built, &other).await.unwrap_err();
    assert!(
        text(&registry, &error).contains("content does not match digest"),
        "{error}"
    );
}

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
async fn a_layer_that_ends_with_an_empty_frame_is_whole() {
    let (registry, certificate) = FakeRegistry::start_tls().await;
    let bytes: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    registry.put_image("a", "v1", &[], std::slice::from_ref(&bytes));
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("own.crt"), certificate).unwrap();
    let client = RegistryClient::new(RegistryOptions {
        ca_directory: Some(directory.path().to_owned()),
        ..options()
    })
    .unwrap();
    let reference = registry.reference("a:v1");
    let canonical = client.canonicalize(&reference).await.unwrap();
    let image = client.image(&canonical).await.unwrap();
    assert_eq!(read_layer(&client, &image, 0).await.unwrap(), bytes);
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

#[tokio::test]
async fn a_lower_limit_for_layers_is_kept() {
    let registry = FakeRegistry::start().await;
    let layer = layer(&[("a", "b")]);
    let digest = registry.put_image("a", "v1", &[], std::slice::from_ref(&layer));
    let mut options = options();
    options.max_layer_bytes = layer.len() as u64 - 1;
    let client = RegistryClient::new(options).unwrap();
    let image = registry.reference("a:v1").with_digest(digest);
    let error = client.image(&image).await.unwrap_err();
    let expected = format!(
        "the size of a layer in bytes exceeds the limit of {}",
        layer.len() - 1
    );
    assert!(error.to_string().ends_with(&expected), "{error}");
}

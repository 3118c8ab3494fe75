//! Manifests and indexes, sound and not.

use super::*;

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

//! Layers: resumed, verified, limited.

use super::*;

#[tokio::test]
async fn broken_layers_are_resumed_also_without_ranges() {
    let registry = FakeRegistry::start().await;
    let bytes: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    registry.put_image("a", "v1", &[], std::slice::from_ref(&bytes));
    let client = client();
    let image = pulled(&client, &registry).await;
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
        let image = pulled(&client, &registry).await;
        registry.fail("blobs", Broken::Content(served.into()));
        let error = read_layer(&client, &image, 0).await.unwrap_err();
        assert!(text(&registry, &error).contains(expected), "{error}");
    }
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
    let image = pulled(&client, &registry).await;
    assert_eq!(read_layer(&client, &image, 0).await.unwrap(), bytes);
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

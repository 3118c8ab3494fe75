//! Images on their way to a registry.

use super::*;

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

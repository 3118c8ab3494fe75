#![expect(clippy::disallowed_methods, reason = "tests read and write files")]
//! From the wire to the disk.

use std::collections::BTreeSet;
use std::fs;

use super::*;
use crate::error::chain;
use crate::oci::manifest::Platform;
use crate::registry::config::RegistryOptions;
use crate::registry::limits::RetryPolicy;
use crate::testing::registry::{FakeRegistry, Fault, layer};

const CATALOG: (&str, &str) = (CONFIGS_LABEL, "/configs");

struct Fixture {
    registry: FakeRegistry,
    fetcher: Fetcher,
    _directory: tempfile::TempDir,
}

async fn fixture() -> Fixture {
    let registry = FakeRegistry::start().await;
    let directory = tempfile::tempdir().unwrap();
    let client = RegistryClient::new(RegistryOptions {
        platform: Some(Platform::new("linux", "amd64")),
        retry: RetryPolicy {
            first_delay: Duration::from_millis(1),
            ..RetryPolicy::default()
        },
        ..RegistryOptions::default()
    })
    .unwrap();
    let store = ContentStore::open(directory.path()).unwrap();
    Fixture {
        registry,
        fetcher: Fetcher::new(client, store),
        _directory: directory,
    }
}

impl Fixture {
    async fn canonical(&self, rest: &str) -> CanonicalReference {
        self.fetcher
            .canonicalize(&self.registry.reference(rest))
            .await
            .unwrap()
    }

    fn staged(&self) -> usize {
        fs::read_dir(self.fetcher.store().root().join("tmp"))
            .unwrap()
            .count()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // Empties what is read-only, so that the directory can go.
        _ = self
            .fetcher
            .store()
            .collect_garbage(&BTreeSet::new(), Duration::ZERO);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_is_pulled_once_and_then_comes_from_disk() {
    let fixture = fixture().await;
    let layers = [
        layer(&[("configs/a.yaml", "old")]),
        layer(&[("configs/a.yaml", "new"), ("usr/x", "")]),
    ];
    fixture.registry.put_image("a", "v1", &[CATALOG], &layers);
    let canonical = fixture.canonical("a:v1").await;
    let image = fixture
        .fetcher
        .fetch(&canonical, ImageKind::Catalog)
        .await
        .unwrap();
    let root = image.catalog_root().unwrap();
    assert_eq!(fs::read_to_string(root.join("a.yaml")).unwrap(), "new");
    assert!(!image.root.join("usr").exists());
    fixture.registry.forget_requests();
    let again = fixture
        .fetcher
        .fetch(&canonical, ImageKind::Catalog)
        .await
        .unwrap();
    assert_eq!(again.root, image.root);
    assert_eq!(fixture.registry.requests(), Vec::<String>::new());
    assert_eq!(fixture.staged(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_askers_share_one_flight() {
    let fixture = fixture().await;
    fixture
        .registry
        .put_image("a", "v1", &[], &[layer(&[("manifests/csv.yaml", "x")])]);
    let canonical = fixture.canonical("a:v1").await;
    fixture.registry.forget_requests();
    let asked = (0..20).map(|_| fixture.fetcher.fetch(&canonical, ImageKind::Bundle));
    for image in futures::future::join_all(asked).await {
        assert!(image.unwrap().root.join("manifests/csv.yaml").is_file());
    }
    let manifests = fixture
        .registry
        .requests()
        .iter()
        .filter(|line| line.contains("manifests/sha256"))
        .count();
    assert_eq!(manifests, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flight_that_all_have_left_is_over_and_leaves_nothing() {
    let fixture = fixture().await;
    fixture
        .registry
        .put_image("a", "v1", &[], &[layer(&[("manifests/csv.yaml", "x")])]);
    let canonical = fixture.canonical("a:v1").await;
    fixture.registry.fail("blobs", Fault::Silence);
    {
        let asked = fixture.fetcher.fetch(&canonical, ImageKind::Bundle);
        let gave_up = async {
            while !fixture
                .registry
                .requests()
                .iter()
                .any(|line| line.contains("blobs"))
            {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            result = asked => panic!("{result:?}"),
            () = gave_up => {}
        }
    }
    assert!(
        fixture
            .fetcher
            .fetch(&canonical, ImageKind::Bundle)
            .await
            .is_ok()
    );
    assert_eq!(fixture.staged(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_without_the_label_is_no_catalog_and_is_not_pulled() {
    let fixture = fixture().await;
    fixture
        .registry
        .put_image("a", "v1", &[], &[layer(&[("manifests/csv.yaml", "x")])]);
    let canonical = fixture.canonical("a:v1").await;
    for _ in 0..2 {
        fixture.registry.forget_requests();
        let error = fixture
            .fetcher
            .fetch(&canonical, ImageKind::Catalog)
            .await
            .unwrap_err();
        assert!(matches!(error, FetchError::MissingConfigsLabel));
        assert_eq!(
            chain(&error),
            "error applying image: catalog image is missing the required label \"operators.operatorframework.io.index.configs.v1\""
        );
        assert!(
            fixture
                .registry
                .requests()
                .iter()
                .filter(|line| line.contains("blobs"))
                .count()
                <= 1
        );
        fixture
            .fetcher
            .fetch(&canonical, ImageKind::Bundle)
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_that_breaks_off_says_so_and_not_that_the_archive_is_broken() {
    let fixture = fixture().await;
    let good = layer(&[("configs/a", &"x".repeat(5000))]);
    fixture
        .registry
        .put_image("a", "v1", &[CATALOG], std::slice::from_ref(&good));
    let canonical = fixture.canonical("a:v1").await;
    let mut flipped = good.clone();
    flipped[20] ^= 1;
    let blob = Digest::of(&good).to_string();
    fixture.registry.fail(&blob, Fault::Content(flipped.into()));
    let error = fixture
        .fetcher
        .fetch(&canonical, ImageKind::Catalog)
        .await
        .unwrap_err();
    let text = chain(&error);
    assert!(
        text.starts_with("error copying image: cannot read layer of "),
        "{text}"
    );
    assert!(text.contains("content does not match digest"), "{text}");
    assert_eq!(fixture.staged(), 0);
    // Not published, so the next attempt pulls again.
    fixture
        .fetcher
        .fetch(&canonical, ImageKind::Catalog)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_archive_is_refused_with_its_reason() {
    let fixture = fixture().await;
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    archive
        .append_link(&mut header, "configs/a", "../../etc/passwd")
        .unwrap();
    fixture
        .registry
        .put_image("a", "v1", &[CATALOG], &[archive.into_inner().unwrap()]);
    let canonical = fixture.canonical("a:v1").await;
    let error = fixture
        .fetcher
        .fetch(&canonical, ImageKind::Catalog)
        .await
        .unwrap_err();
    assert_eq!(
        chain(&error),
        "error applying image: link \"configs/a\" leads out of the image"
    );
    assert_eq!(fixture.staged(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_refused_in_the_middle_ends_the_pull() {
    let mut fixture = fixture().await;
    fixture.fetcher = fixture.fetcher.clone().with_limits(Limits {
        kept_bytes: 1000,
        ..Limits::default()
    });
    // Too large for the pieces that may wait, so the rest is still on its way when unpacking stops.
    let noise: String = (0..400_000_u32)
        .map(|n| n.wrapping_mul(2_654_435_761).to_string())
        .collect();
    fixture.registry.put_image(
        "a",
        "v1",
        &[CATALOG],
        &[layer(&[("configs/a", &noise)]), layer(&[])],
    );
    let canonical = fixture.canonical("a:v1").await;
    let error = fixture
        .fetcher
        .fetch(&canonical, ImageKind::Catalog)
        .await
        .unwrap_err();
    assert_eq!(
        chain(&error),
        "error applying image: layer 1 exceeds the limit of 1000 bytes of files"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn links_to_elsewhere_are_fetched_in_a_second_round() {
    let fixture = fixture().await;
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    archive
        .append_link(&mut header, "configs", "/data")
        .unwrap();
    let layers = [
        layer(&[("data/a.yaml", "found")]),
        archive.into_inner().unwrap(),
    ];
    fixture.registry.put_image("a", "v1", &[CATALOG], &layers);
    let canonical = fixture.canonical("a:v1").await;
    let image = fixture
        .fetcher
        .fetch(&canonical, ImageKind::Catalog)
        .await
        .unwrap();
    assert_eq!(
        fs::read_to_string(image.root.join("configs/a.yaml")).unwrap(),
        "found"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_registry_is_named_when_a_tag_has_no_digest() {
    let fixture = fixture().await;
    let reference = fixture.registry.reference("a:gone");
    let error = fixture.fetcher.canonicalize(&reference).await.unwrap_err();
    assert_eq!(error.disposition(), Disposition::Retry);
    assert_eq!(
        chain(&error).replace(&fixture.registry.authority, "HOST"),
        "error creating image source: cannot read manifest of HOST/a:gone: http://HOST/a (no credentials): status 404 Not Found: manifest unknown"
    );
}

#[tokio::test]
async fn pulls_that_hang_give_their_turns_to_others() {
    let mut fixture = fixture().await;
    fixture.fetcher.stall = Duration::from_millis(20);
    let mut hanging = Vec::new();
    for number in 0..CONCURRENT_PULLS + 2 {
        let name = format!("hangs{number}");
        let files = [("configs/a", name.as_str())];
        fixture
            .registry
            .put_image(&name, "v1", &[CATALOG], &[layer(&files)]);
        fixture
            .registry
            .fail(&format!("{name}/blobs"), Fault::Silence);
        let canonical = fixture.canonical(&format!("{name}:v1")).await;
        let fetcher = fixture.fetcher.clone();
        hanging.push(tokio::spawn(async move {
            fetcher.fetch(&canonical, ImageKind::Catalog).await
        }));
    }
    fixture
        .registry
        .put_image("sound", "v1", &[CATALOG], &[layer(&[("configs/a", "")])]);
    let sound = fixture.canonical("sound:v1").await;
    let fetched = fixture.fetcher.fetch(&sound, ImageKind::Catalog);
    let fetched = timeout(Duration::from_secs(20), fetched).await;
    fetched.expect("nobody is in the way").unwrap();
    for task in hanging {
        assert!(!task.is_finished());
        task.abort();
    }
}

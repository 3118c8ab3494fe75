use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::registry::build::{BuiltImage, archive};
use crate::store::CONFIGS_LABEL;
use crate::store::catalog::packages;
use crate::testing::registry::{FakeRegistry, install_crypto};

const CSV: &str = "manifests/csv.yaml";
const ANNOTATIONS: &str = "metadata/annotations.yaml";

fn files(prefix: &str) -> BTreeMap<String, Vec<u8>> {
    [(CSV, "csv"), (ANNOTATIONS, "annotations"), ("tests/x", "")]
        .map(|(path, text)| (format!("{prefix}{path}"), text.as_bytes().to_vec()))
        .into()
}

#[track_caller]
fn is_the_bundle(files: &Files) {
    let expected = [(CSV, "csv"), (ANNOTATIONS, "annotations")]
        .map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
    assert_eq!(*files, Files::from(expected));
}

fn written(directory: &Path, name: &str, bytes: &[u8]) -> String {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

fn failure(result: anyhow::Result<impl std::fmt::Debug>) -> String {
    format!("{:#}", result.unwrap_err())
}

/// The bundle as an image, pushed as `p/b:v1`.
async fn pushed(registry: &FakeRegistry) -> String {
    let image = BuiltImage::build(&files(""), &BTreeMap::new()).unwrap();
    let reference = registry.reference("p/b:v1");
    let client = RegistryClient::new(RegistryOptions::default()).unwrap();
    client.push(&image, &reference).await.unwrap();
    reference.to_string()
}

/// Runs what blocks beside the registry.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

#[test]
fn a_bundle_is_a_directory_or_an_archive() {
    let directory = tempfile::tempdir().unwrap();
    let below = directory.path().join("bundle");
    for (path, bytes) in files("") {
        written(&below, &path, &bytes);
    }
    let sources = Sources::default();
    is_the_bundle(&sources.bundle_files(below.to_str().unwrap()).unwrap());
    let plain = archive(&files("")).unwrap();
    let dotted = archive(&files("./")).unwrap();
    for (name, bytes) in [
        ("plain.tar", plain.clone()),
        ("any-name", gzipped(&plain)),
        ("dotted.tgz", gzipped(&dotted)),
        ("below.tar", archive(&files("my-bundle/")).unwrap()),
    ] {
        let source = written(directory.path(), name, &bytes);
        is_the_bundle(&sources.bundle_files(&source).unwrap());
    }
}

#[test]
fn what_is_no_archive_and_no_file_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let text = written(directory.path(), "x.yaml", &[b'a'; 2048]);
    let whole = gzipped(&archive(&files("")).unwrap());
    let cut = written(directory.path(), "cut.tgz", &whole[..whole.len() / 2]);
    let sources = Sources::default();
    for source in [text, cut] {
        let text = failure(sources.bundle_files(&source));
        let expected = format!("cannot unpack bundle {source}: ");
        assert!(text.starts_with(&expected), "{text}");
    }
    for source in ["nowhere", "./no/where", "/no/where", "~/nowhere"] {
        let hint = match source {
            "nowhere" => {
                ", and an image would be REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@DIGEST"
            }
            _ => "",
        };
        let expected = format!("there is no file or directory {source}{hint}");
        assert_eq!(failure(sources.bundle_files(source)), expected);
        assert_eq!(failure(sources.catalog(source)), expected);
    }
    for source in [
        "registry.example/UPPER:v1",
        "http://registry.example/a:v1",
        "no/registry:v1",
        "registry.example/a",
    ] {
        let expected =
            format!("there is no file or directory {source}, and it names no image (REGISTRY/");
        for text in [
            failure(sources.bundle_files(source)),
            failure(sources.catalog(source)),
        ] {
            assert_eq!(text.matches("no file or directory").count(), 1, "{text}");
            assert!(text.contains(&expected), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_is_pulled_and_leaves_nothing_behind() {
    let registry = FakeRegistry::start().await;
    let reference = pushed(&registry).await;
    let sources = Sources::default();
    let directory = beside(move || {
        is_the_bundle(&sources.bundle_files(&reference).unwrap());
        let unpacked = sources.pull(&reference, ImageKind::Bundle).unwrap();
        unpacked.store.root().to_owned()
    })
    .await;
    assert!(!directory.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_is_a_directory_a_file_or_an_image() {
    let registry = FakeRegistry::start().await;
    let directory = tempfile::tempdir().unwrap();
    let meta = r#"{"schema": "olm.package", "name": "p"}"#;
    let file = written(directory.path(), "catalog.json", meta.as_bytes());
    let image = BuiltImage::build(
        &BTreeMap::from([("configs/p/c.json".to_owned(), meta.as_bytes().to_vec())]),
        &BTreeMap::from([(CONFIGS_LABEL.to_owned(), "/configs".to_owned())]),
    );
    let reference = registry.reference("p/c:v1");
    let client = RegistryClient::new(RegistryOptions::default()).unwrap();
    client.push(&image.unwrap(), &reference).await.unwrap();
    let local = directory.path().display().to_string();
    beside(move || {
        for source in [local, file, reference.to_string()] {
            let catalog = Sources::default().catalog(&source).unwrap();
            let found = packages(catalog.path()).unwrap();
            let names: Vec<_> = found.into_keys().collect();
            assert_eq!(names, ["p"], "{source}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_no_catalog_is_refused() {
    let registry = FakeRegistry::start().await;
    let reference = pushed(&registry).await;
    let text = beside(move || failure(Sources::default().catalog(&reference))).await;
    assert!(text.contains("missing the required label"), "{text}");
}

#[test]
fn credentials_that_cannot_be_read_are_named() {
    install_crypto();
    let sources = Sources {
        authfile: Some("/no/where.json".into()),
        ca_dir: None,
    };
    assert!(failure(sources.client()).starts_with("cannot read /no/where.json: "));
}

#[test]
fn a_catalog_is_called_as_it_is_told_or_as_its_source_is() {
    let directory = tempfile::tempdir().unwrap();
    let file = written(directory.path(), "operators.json", b"");
    let named_file = format!("mine={file}");
    let folder = directory.path().join("v4.20");
    fs::create_dir(&folder).unwrap();
    let folder = folder.to_str().unwrap();
    for (text, expected) in [
        (file.as_str(), ("operators", file.as_str())),
        (&named_file, ("mine", &file)),
        (folder, ("v4.20", folder)),
        (
            "quay.io/org/community:latest",
            ("community", "quay.io/org/community:latest"),
        ),
        ("x=quay.io/org/c:v1", ("x", "quay.io/org/c:v1")),
    ] {
        let (name, source) = named(text).unwrap();
        assert_eq!((name.as_str(), source), expected);
    }
    assert_eq!(
        failure(named("nowhere")),
        "there is no file or directory nowhere, and an image would be REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@DIGEST"
    );
    assert!(failure(named("/")).starts_with("catalog / has no name: "));
    assert_eq!(
        failure(named("missing/")),
        "there is no file or directory missing/, and it names no image (REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@DIGEST): error parsing image reference \"missing/\": invalid reference format"
    );
    assert!(named("quay.io/org/UPPER:v1").is_err());
    assert!(named("no/such=thing").is_err());
}

/// The layout of an image, as a directory and as archives.
fn layouts(directory: &Path, image: &BuiltImage) -> Vec<String> {
    let files = image.layout(None).unwrap();
    let below = directory.join("layout");
    for (path, bytes) in &files {
        written(&below, path, bytes);
    }
    let plain = archive(&files).unwrap();
    vec![
        below.display().to_string(),
        written(directory, "layout.tar", &plain),
        written(directory, "layout.tgz", &gzipped(&plain)),
    ]
}

#[test]
fn an_image_may_lie_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let bundle = BuiltImage::build(&files(""), &BTreeMap::new()).unwrap();
    let sources = Sources::default();
    for source in layouts(directory.path(), &bundle) {
        is_the_bundle(&sources.bundle_files(&source).unwrap());
        assert!(failure(sources.catalog(&source)).contains("is no catalog"));
    }
    let meta = r#"{"schema": "olm.package", "name": "p"}"#;
    let catalog = BuiltImage::build(
        &BTreeMap::from([("configs/p/c.json".to_owned(), meta.as_bytes().to_vec())]),
        &BTreeMap::from([(CONFIGS_LABEL.to_owned(), "/configs".to_owned())]),
    );
    let directory = tempfile::tempdir().unwrap();
    for source in layouts(directory.path(), &catalog.unwrap()) {
        let catalog = sources.catalog(&source).unwrap();
        let found = packages(catalog.path()).unwrap();
        assert!(found.contains_key("p"), "{source}");
    }
}

#[test]
fn a_layout_that_is_not_whole_is_refused() {
    let bundle = BuiltImage::build(&files(""), &BTreeMap::new()).unwrap();
    let digest = bundle.blobs[1].0.digest.clone();
    let blob = format!("layout/blobs/sha256/{}", digest.hex());
    for (path, bytes, expected) in [
        (
            blob.as_str(),
            Some(&b"x"[..]),
            format!("blob {digest} of the layout is damaged"),
        ),
        (&blob, None, "cannot open ".to_owned()),
        (
            "layout/index.json",
            Some(b"{}"),
            "malformed image manifest".to_owned(),
        ),
        (
            "layout/index.json",
            Some(b"{"),
            "malformed manifest".to_owned(),
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let source = layouts(directory.path(), &bundle).swap_remove(0);
        match bytes {
            Some(bytes) => _ = written(directory.path(), path, bytes),
            None => fs::remove_file(directory.path().join(path)).unwrap(),
        }
        let text = failure(Sources::default().bundle_files(&source));
        assert!(text.contains(&expected), "{text}");
    }
}

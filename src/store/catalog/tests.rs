use std::os::unix::fs::symlink;

use super::*;
use crate::error::chain;
use crate::fbc::index::Filter;
use crate::store::checksum::Summing;
use crate::store::limits::Limits;
use crate::store::{Added, CONFIGS_LABEL, Wanted};

/// A store and, in it, an image with these files below `configs`.
struct House {
    directory: tempfile::TempDir,
    content: ContentStore,
    catalogs: CatalogStore,
}

impl House {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let content = ContentStore::open(directory.path()).unwrap();
        let catalogs = CatalogStore::new(content.clone()).unwrap();
        Self {
            directory,
            content,
            catalogs,
        }
    }

    /// As after a restart: nothing is known.
    fn again(self) -> Self {
        let content = ContentStore::open(self.directory.path()).unwrap();
        let catalogs = CatalogStore::new(content.clone()).unwrap();
        Self {
            directory: self.directory,
            content,
            catalogs,
        }
    }

    fn image(&self, name: &str, files: &[(&str, &str)]) -> UnpackedImage {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, text) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            archive
                .append_data(&mut header, format!("configs/{path}"), text.as_bytes())
                .unwrap();
        }
        let layer = archive.into_inner().unwrap();
        let labels = BTreeMap::from([(CONFIGS_LABEL.to_owned(), "/configs".to_owned())]);
        let wanted = Wanted::of(&labels).unwrap();
        let digest = Digest::of(name.as_bytes());
        let added = self
            .content
            .add(
                &digest,
                &labels,
                &wanted,
                &Limits::default(),
                [layer.as_slice()],
            )
            .unwrap();
        match added {
            Added::Image(image) => image,
            Added::Elsewhere(_) => panic!("there are no links"),
        }
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.directory.path().join(CATALOGS).join(digest.hex())
    }
}

const PACKAGE: (&str, &str) = (
    "p/catalog.yaml",
    "schema: olm.package\nname: p\n---\nschema: olm.channel\npackage: p\nname: stable\nentries: [{name: p.v1}]\n",
);
const BUNDLE: (&str, &str) = (
    "p/bundles.json",
    "{\"schema\":\"olm.bundle\",\"package\":\"p\",\"name\":\"p.v1\",\"image\":\"i\"}",
);
const BROKEN: (&str, &str) = (
    "q.yaml",
    "schema: olm.channel\npackage: q\nname: c\nentries: 5\n",
);
const BLOBS_TEXT: &str = "{\"image\":\"i\",\"name\":\"p.v1\",\"package\":\"p\",\"schema\":\"olm.bundle\"}\n\
    {\"name\":\"p\",\"schema\":\"olm.package\"}\n\
    {\"entries\":[{\"name\":\"p.v1\"}],\"name\":\"stable\",\"package\":\"p\",\"schema\":\"olm.channel\"}\n\
    {\"entries\":5,\"name\":\"c\",\"package\":\"q\",\"schema\":\"olm.channel\"}\n";

fn all(catalog: &StoredCatalog, encoding: Encoding) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(catalog.size_bytes(encoding)).unwrap()];
    catalog.read_at(encoding, &mut bytes, 0).unwrap();
    bytes
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    io::Read::read_to_end(&mut flate2::read::GzDecoder::new(bytes), &mut text).unwrap();
    text
}

#[test]
fn a_catalog_is_published_in_the_order_of_its_files() {
    let house = House::new();
    let ignore = (".indexignore", "README.md\n");
    let image = house.image(
        "a",
        &[PACKAGE, BUNDLE, BROKEN, ignore, ("README.md", "# [")],
    );
    let catalog = house.catalogs.publish(&image).unwrap();
    assert_eq!(
        String::from_utf8(all(&catalog, Encoding::Identity)).unwrap(),
        BLOBS_TEXT
    );
    assert_eq!(
        gunzip(&all(&catalog, Encoding::Gzip)),
        BLOBS_TEXT.as_bytes()
    );
    assert_eq!(catalog.unpacked_at(), image.unpacked_at);
    assert_eq!(catalog.digest(), &image.digest);
    let mut content = Summing::new();
    content.update(BLOBS_TEXT.as_bytes());
    assert_eq!(catalog.etag(), content.finish().to_string());
    let filter = Filter {
        schema: Some("olm.channel"),
        package: Some("p"),
        ..Filter::default()
    };
    let [range] = catalog.select(&filter).try_into().unwrap();
    let mut blob = vec![0; usize::try_from(range.end - range.start).unwrap()];
    catalog
        .read_at(Encoding::Identity, &mut blob, range.start)
        .unwrap();
    assert!(blob.starts_with(b"{\"entries\":[{") && blob.ends_with(b"}\n"));
}

#[test]
fn packages_are_read_one_by_one_and_a_broken_one_harms_no_other() {
    let house = House::new();
    let image = house.image("a", &[PACKAGE, BUNDLE, BROKEN]);
    let catalog = house.catalogs.publish(&image).unwrap();
    assert_eq!(catalog.package_names().collect::<Vec<_>>(), ["p", "q"]);
    let package = catalog.package("p").unwrap().unwrap();
    assert_eq!(package.channels[0].entries[0].name, "p.v1");
    assert_eq!(package.bundles[0].image, "i");
    assert_eq!(catalog.package("nothing").unwrap(), None);
    assert_eq!(
        catalog.package("q").unwrap_err().to_string(),
        "olm.channel \"c\" of package \"q\": `entries` must be a list"
    );
}

#[test]
fn a_published_catalog_survives_a_restart() {
    let house = House::new();
    let image = house.image("a", &[PACKAGE]);
    let (etag, digest) = {
        let catalog = house.catalogs.publish(&image).unwrap();
        (catalog.etag().to_owned(), catalog.digest().clone())
    };
    let house = house.again();
    let catalog = house.catalogs.open(&digest).unwrap().unwrap();
    assert_eq!(catalog.etag(), etag);
    assert_eq!(catalog.unpacked_at(), image.unpacked_at);
    assert!(catalog.package("p").unwrap().is_some());
    assert!(
        house
            .catalogs
            .open(&Digest::of(b"other"))
            .unwrap()
            .is_none()
    );
}

#[test]
fn what_is_damaged_on_disk_is_not_used_and_published_again() {
    for name in [DESCRIPTION, BLOBS, GZIP, ZSTD, PACKAGES, INDEX] {
        for how in ["changed", "gone", "shorter"] {
            let house = House::new();
            let image = house.image("a", &[PACKAGE]);
            drop(house.catalogs.publish(&image).unwrap());
            let path = house.path(&image.digest).join(name);
            let mut bytes = fs::read(&path).unwrap();
            fs::remove_file(&path).unwrap();
            match how {
                "changed" => {
                    bytes[3] ^= 1;
                    fs::write(&path, &bytes).unwrap();
                }
                "shorter" => fs::write(&path, &bytes[..bytes.len() - 1]).unwrap(),
                _ => {}
            }
            let house = house.again();
            assert!(
                house.catalogs.open(&image.digest).unwrap().is_none(),
                "{name} {how}"
            );
            assert!(!house.path(&image.digest).exists(), "{name} {how}");
            house.catalogs.publish(&image).unwrap();
        }
    }
}

#[test]
fn content_that_cannot_be_read_leaves_nothing_behind() {
    let house = House::new();
    let image = house.image(
        "a",
        &[PACKAGE, ("p/secret.yaml", "key: hunter2\nother: [\n")],
    );
    let error = house.catalogs.publish(&image).unwrap_err();
    assert!(error.is_content());
    assert_eq!(
        chain(&error),
        "error walking FBC root: p/secret.yaml: line 2, column 8: unclosed bracket '['"
    );
    assert!(!house.path(&image.digest).exists());
    let staging = house.directory.path().join("tmp");
    assert_eq!(fs::read_dir(staging).unwrap().count(), 0);
}

#[test]
fn garbage_is_collected_and_open_catalogs_stay_readable() {
    let house = House::new();
    let (a, b) = (house.image("a", &[PACKAGE]), house.image("b", &[BUNDLE]));
    let catalog = house.catalogs.publish(&a).unwrap();
    drop(house.catalogs.publish(&b).unwrap());
    fs::create_dir(house.directory.path().join(CATALOGS).join("stray")).unwrap();
    let removed = house
        .catalogs
        .collect_garbage(&BTreeSet::from([b.digest.clone()]), Duration::ZERO)
        .unwrap();
    assert_eq!(removed, std::slice::from_ref(&a.digest));
    assert!(!house.path(&a.digest).exists());
    assert!(catalog.package("p").unwrap().is_some());
    assert!(house.catalogs.open(&a.digest).unwrap().is_none());
    assert!(house.catalogs.open(&b.digest).unwrap().is_some());
    assert_eq!(
        fs::read_dir(house.directory.path().join(CATALOGS))
            .unwrap()
            .count(),
        1
    );
}

#[test]
fn an_image_without_label_has_no_catalog() {
    let house = House::new();
    let mut image = house.image("a", &[PACKAGE]);
    image.labels.clear();
    let error = house.catalogs.publish(&image).unwrap_err();
    assert_eq!(
        error.to_string(),
        "image has no label operators.operatorframework.io.index.configs.v1"
    );
}

#[test]
fn an_empty_catalog_is_a_catalog() {
    let house = House::new();
    let catalog = house.catalogs.publish(&house.image("a", &[])).unwrap();
    assert_eq!(catalog.size_bytes(Encoding::Identity), 0);
    assert_eq!(catalog.select(&Filter::default()), []);
    assert_eq!(gunzip(&all(&catalog, Encoding::Gzip)), b"");
}

#[test]
fn a_directory_or_a_file_of_a_person_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("catalog");
    fs::create_dir_all(root.join("p")).unwrap();
    fs::write(root.join("p/b.yaml"), PACKAGE.1).unwrap();
    fs::write(root.join("a.json"), BUNDLE.1).unwrap();
    symlink("p/b.yaml", root.join("link.yaml")).unwrap();
    let read = |path: &Path| -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        read_directory_or_file(path, &mut |file, located| {
            found.push(format!("{file}:{} {}", located.line, located.meta.name));
        })
        .map_err(|error| chain(&error))?;
        Ok(found)
    };
    assert_eq!(
        read(&root).unwrap(),
        [
            "a.json:1 p.v1",
            "link.yaml:1 p",
            "link.yaml:4 stable",
            "p/b.yaml:1 p",
            "p/b.yaml:4 stable"
        ]
    );
    assert_eq!(read(&root.join("a.json")).unwrap(), ["a.json:1 p.v1"]);
    assert_eq!(packages(&root).unwrap().len(), 1);
    assert!(read(&root.join("nothing")).is_err());

    fs::write(directory.path().join("outside.yaml"), "name: x\n").unwrap();
    symlink("../outside.yaml", root.join("z.yaml")).unwrap();
    assert_eq!(
        read(&root).unwrap_err(),
        "error walking FBC root: z.yaml is neither a file nor a directory of the catalog"
    );
}

#[test]
fn an_ignore_file_without_end_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let big = "x\n".repeat(1 << 20);
    fs::write(directory.path().join(".indexignore"), big).unwrap();
    let error = packages(directory.path()).unwrap_err();
    assert!(matches!(error, CatalogError::IgnoreFile { .. }), "{error}");
}

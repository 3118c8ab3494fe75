//! The store and the unpacking of archives, sound and hostile.

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use proptest::prelude::*;
use tar::{Builder, EntryType, Header};

use super::unpack::LinkProblem;
use super::wanted::MAX_ROUNDS;
use super::*;
use crate::error::chain;

/// An archive under construction.
struct Layer(Builder<Vec<u8>>);

impl Layer {
    fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    /// Adds an entry whose name is written as it is, however strange.
    fn raw(mut self, name: &str, kind: EntryType, link: &str, content: &[u8]) -> Self {
        let mut header = Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    fn file(self, name: &str, content: &str) -> Self {
        self.raw(name, EntryType::Regular, "", content.as_bytes())
    }

    fn directory(self, name: &str) -> Self {
        self.raw(name, EntryType::Directory, "", b"")
    }

    fn link(self, name: &str, target: &str) -> Self {
        self.raw(name, EntryType::Symlink, target, b"")
    }

    fn hard(self, name: &str, target: &str) -> Self {
        self.raw(name, EntryType::Link, target, b"")
    }

    fn pax(mut self, records: &[(&str, &[u8])]) -> Self {
        self.0
            .append_pax_extensions(records.iter().copied())
            .unwrap();
        self
    }

    fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

struct Fixture {
    directory: tempfile::TempDir,
    store: ContentStore,
    limits: Limits,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = ContentStore::open(&directory.path().join("store")).unwrap();
        Self {
            directory,
            store,
            limits: Limits::default(),
        }
    }

    fn add(&self, label: &str, layers: &[Vec<u8>]) -> Result<UnpackedImage, String> {
        let labels = BTreeMap::from([(CONFIGS_LABEL.to_owned(), label.to_owned())]);
        let digest = Digest::of(&layers.concat());
        let mut wanted = Wanted::of(&labels).map_err(|error| chain(&error))?;
        for _ in 0..MAX_ROUNDS {
            let readers = layers.iter().map(Vec::as_slice);
            match self
                .store
                .add(&digest, &labels, &wanted, &self.limits, readers)
            {
                Ok(Added::Image(image)) => return Ok(image),
                Ok(Added::Elsewhere(more)) => wanted = more,
                Err(error) => return Err(chain(&error)),
            }
        }
        panic!("links lead elsewhere for ever")
    }

    /// Every path below the store's directory that is not the store's own, and below it what is not finished.
    fn traces(&self) -> Vec<String> {
        let below = |path: &Path| -> Vec<String> {
            fs::read_dir(path)
                .unwrap()
                .map(|e| e.unwrap().file_name().into_string().unwrap())
                .collect()
        };
        let mut found = below(self.directory.path());
        found.retain(|name| name != "store");
        found.extend(below(&self.store.staging()));
        found
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // Read-only directories would outlive a TempDir for whoever is not root.
        _ = removal::remove_tree(self.directory.path());
    }
}

/// `path=content` of every file, sorted.
fn files(image: &UnpackedImage) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo = vec![image.root.clone()];
    while let Some(directory) = todo.pop() {
        assert_eq!(
            fs::metadata(&directory).unwrap().mode() & 0o7777,
            0o500,
            "{}",
            directory.display()
        );
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let metadata = fs::symlink_metadata(entry.path()).unwrap();
            if metadata.is_dir() {
                todo.push(entry.path());
            } else {
                assert!(metadata.is_file(), "{}", entry.path().display());
                assert_eq!(metadata.mode() & 0o7777, 0o400);
                let name = entry
                    .path()
                    .strip_prefix(&image.root)
                    .unwrap()
                    .display()
                    .to_string();
                found.push(format!(
                    "{name}={}",
                    fs::read_to_string(entry.path()).unwrap()
                ));
            }
        }
    }
    found.sort();
    found
}

#[track_caller]
fn unpacks(label: &str, layers: Vec<Layer>, expected: &[&str]) {
    let fixture = Fixture::new();
    let image = fixture
        .add(
            label,
            &layers.into_iter().map(Layer::bytes).collect::<Vec<_>>(),
        )
        .unwrap();
    assert_eq!(files(&image), expected);
    assert_eq!(fixture.traces(), Vec::<String>::new());
}

#[track_caller]
fn refuses(layer: Vec<u8>, expected: &str) {
    let fixture = Fixture::new();
    let error = fixture.add("/configs", &[layer]).unwrap_err();
    assert_eq!(error, expected);
    assert_eq!(fixture.traces(), Vec::<String>::new());
    assert_eq!(
        fixture
            .store
            .collect_garbage(&BTreeSet::new(), Duration::ZERO)
            .unwrap(),
        []
    );
}

#[test]
fn only_what_catalogs_and_bundles_need_is_kept() {
    let layer = || {
        Layer::new()
            .file("configs/a/b.yaml", "1")
            .file("configsx/no", "2")
            .file("usr/bin/opm", "3")
            .file("manifests/csv.yaml", "4")
            .file("metadata/annotations.yaml", "5")
            .file("top", "6")
    };
    let bundle = ["manifests/csv.yaml=4", "metadata/annotations.yaml=5"];
    unpacks(
        "/configs",
        vec![layer()],
        &["configs/a/b.yaml=1", bundle[0], bundle[1]],
    );
    unpacks(
        "configs/a/",
        vec![layer()],
        &["configs/a/b.yaml=1", bundle[0], bundle[1]],
    );
    unpacks("/top", vec![layer()], &[bundle[0], bundle[1], "top=6"]);
    for label in ["/", ""] {
        let all = [
            "configs/a/b.yaml=1",
            "configsx/no=2",
            bundle[0],
            bundle[1],
            "top=6",
            "usr/bin/opm=3",
        ];
        unpacks(label, vec![layer()], &all);
    }
}

#[test]
fn a_label_that_leads_out_is_refused() {
    let error = Fixture::new().add("../x", &[]).unwrap_err();
    assert_eq!(
        error,
        format!("label {CONFIGS_LABEL} of the image leads out of it: \"../x\"")
    );
}

#[test]
fn an_image_without_content_is_an_empty_catalog() {
    let fixture = Fixture::new();
    for layers in [vec![], vec![Layer::new().bytes()], vec![vec![]]] {
        let image = fixture.add("/configs/deep", &layers).unwrap();
        assert_eq!(files(&image), Vec::<String>::new());
        assert!(image.catalog_root().unwrap().is_dir());
        fixture.store.remove(&image.digest).unwrap();
    }
}

#[test]
fn layers_are_merged_with_their_whiteouts() {
    let base = || {
        Layer::new()
            .directory("configs/")
            .file("configs/keep", "1")
            .file("configs/gone", "2")
            .file("configs/changed", "3")
            .file("configs/d/a", "4")
            .file("configs/d/b", "5")
    };
    unpacks(
        "/configs",
        vec![
            base(),
            Layer::new()
                .file("configs/.wh.gone", "")
                .file("configs/changed", "new"),
        ],
        &[
            "configs/changed=new",
            "configs/d/a=4",
            "configs/d/b=5",
            "configs/keep=1",
        ],
    );
    // Opaque counts for lower layers only, wherever it stands in its own.
    unpacks(
        "/configs/d",
        vec![
            base(),
            Layer::new()
                .file("configs/d/new", "n")
                .file("configs/d/.wh..wh..opq", "")
                .file("configs/d/.wh..wh.plnk", ""),
        ],
        &["configs/d/new=n"],
    );
    for upper in ["configs", ".wh.configs", "configs/.wh.d"] {
        let top = match upper {
            "configs" => Layer::new().file("configs", "now a file"),
            whiteout => Layer::new().file(whiteout, ""),
        };
        let expected: &[&str] = if upper == "configs" {
            &["configs=now a file"]
        } else {
            &[]
        };
        let label = if upper == "configs" {
            "/configs"
        } else {
            "/configs/d"
        };
        unpacks(label, vec![base(), top], expected);
    }
}

#[test]
fn names_are_kept_inside_the_root() {
    let strange = || {
        Layer::new()
            .file("/configs/absolute", "1")
            .file("./configs/./dot", "2")
            .file("configs/../configs/up", "3")
            .file("../configs/out", "no")
            .file("configs/../../configs/out", "no")
            .file("configs/twice", "first")
            .file("configs/twice", "second")
            .file("configs/Case", "C")
            .file("configs/case", "c")
            .file("configs/v7dir/", "")
    };
    unpacks(
        "/configs",
        vec![strange()],
        &[
            "configs/Case=C",
            "configs/absolute=1",
            "configs/case=c",
            "configs/dot=2",
            "configs/twice=second",
            "configs/up=3",
        ],
    );
}

#[test]
fn links_are_replaced_by_what_they_lead_to_inside_the_image() {
    unpacks(
        "/configs",
        vec![
            Layer::new()
                .file("configs/real", "r")
                .link("configs/soft", "real")
                .hard("configs/hard", "configs/real"),
            Layer::new()
                .link("configs/absolute", "/data/x")
                .file("data/x", "x")
                .link("configs/chain", "absolute"),
            Layer::new()
                .file("data/y", "y")
                .hard("configs/far", "data/y"),
            Layer::new()
                .file("other/z", "z")
                .link("configs/z", "../other/z"),
        ],
        &[
            "configs/absolute=x",
            "configs/chain=x",
            "configs/far=y",
            "configs/hard=r",
            "configs/real=r",
            "configs/soft=r",
            "configs/z=z",
        ],
    );
    // The catalog's own directory may be a link.
    unpacks(
        "/configs",
        vec![
            Layer::new()
                .file("data/v1/a", "1")
                .link("configs", "/data/v1"),
        ],
        &["configs/a=1"],
    );
    // An entry below a link goes where the link leads.
    unpacks(
        "/configs",
        vec![
            Layer::new().directory("configs/").link("etc", "configs"),
            Layer::new().file("etc/a", "1"),
        ],
        &["configs/a=1"],
    );
}

#[test]
fn hostile_archives_are_refused_and_leave_nothing() {
    let outside = "/etc/passwd";
    for (layer, expected) in [
        (
            Layer::new().link("configs/a", "../../etc/passwd"),
            "link \"configs/a\" leads out of the image",
        ),
        (
            Layer::new().link("configs/a", outside),
            "link \"configs/a\" leads to nothing in the image",
        ),
        (
            Layer::new().hard("configs/a", outside),
            "link \"configs/a\" leads to nothing in the image",
        ),
        (
            Layer::new().hard("configs/a", "../x"),
            "link \"configs/a\" leads out of the image",
        ),
        (
            Layer::new().hard("configs/a", "configs/a"),
            "link \"configs/a\" leads to nothing in the image",
        ),
        (
            Layer::new()
                .directory("configs/d/")
                .hard("configs/a", "configs/d"),
            "link \"configs/a\" leads to a directory",
        ),
        (
            Layer::new().file("configs/d/x", "").link("configs/a", "d"),
            "link \"configs/a\" leads to a directory",
        ),
        (
            Layer::new().link("configs/a", "a"),
            "link \"configs/a\" leads through too many links",
        ),
        (
            Layer::new()
                .link("configs/d", "../..")
                .file("configs/d/x", "no"),
            "layer 1: entry \"configs/d/x\" leads out of the image",
        ),
        (
            Layer::new().file("configs/f", "").file("configs/f/x", "no"),
            "layer 1: entry \"configs/f/x\" lies below a file",
        ),
        (
            Layer::new().file("configs/.wh...", ""),
            "layer 1: entry \"configs/.wh...\" leads out of the image",
        ),
        (
            Layer::new().raw("configs/null", EntryType::Char, "", b""),
            "layer 1: refusing entry \"configs/null\": it is a device",
        ),
        (
            Layer::new().raw("configs/pipe", EntryType::Fifo, "", b""),
            "layer 1: refusing entry \"configs/pipe\": it is a named pipe",
        ),
        (
            Layer::new().raw("configs/odd", EntryType::new(b'Y'), "", b""),
            "layer 1: refusing entry \"configs/odd\": it is a file of an unknown kind",
        ),
        (
            Layer::new()
                .pax(&[("GNU.sparse.major", b"1")])
                .file("configs/sparse", "x"),
            "layer 1: refusing entry \"configs/sparse\": it is a sparse file",
        ),
        (
            Layer::new().pax(&[("path", b"configs/\xff")]).file("x", ""),
            "layer 1: entry \"configs/\u{fffd}\" is not a valid path",
        ),
        (
            Layer::new()
                .pax(&[("path", format!("configs/{}", "a".repeat(300)).as_bytes())])
                .file("x", ""),
            &format!("layer 1: entry \"configs/{}\" is too long", "a".repeat(300)),
        ),
    ] {
        refuses(layer.bytes(), expected);
    }
    // What nobody wants may be as strange as it likes.
    unpacks(
        "/configs",
        vec![
            Layer::new()
                .raw("dev/null", EntryType::Char, "", b"")
                .link("etc/out", "../../../..")
                .file("etc/out/x", "no")
                .file("etc/f", "")
                .file("etc/f/x", "no")
                .pax(&[("path", b"etc/\xff")])
                .file("x", ""),
        ],
        &[],
    );
}

#[test]
fn pax_records_override_names_and_sizes() {
    let fixture = Fixture::new();
    let bytes = Layer::new()
        .pax(&[("path", b"configs/long")])
        .file("short", "content")
        .bytes();
    assert_eq!(
        files(&fixture.add("/configs", &[bytes]).unwrap()),
        ["configs/long=content"]
    );
    let desynchronised = Layer::new()
        .pax(&[("size", b"99999999")])
        .file("configs/a", "x")
        .bytes();
    let error = fixture.add("/configs", &[desynchronised]).unwrap_err();
    assert!(error.starts_with("cannot read layer 1"), "{error}");
}

#[test]
fn broken_archives_are_errors() {
    let whole = Layer::new().file("configs/a", &"x".repeat(2000)).bytes();
    let mut flipped = whole.clone();
    flipped[150] ^= 7;
    for (bytes, expected) in [
        (whole[..700].to_vec(), "cannot read layer 1"),
        (whole[..300].to_vec(), "cannot read layer 1"),
        (
            flipped,
            "cannot read layer 1: archive header checksum mismatch",
        ),
        (vec![0x1f, 0x8b, 8, 0], "cannot read layer 1"),
        (
            b"BZh9....".to_vec(),
            "layer 1 is compressed with bzip2, which is not supported: use gzip, zstd or none",
        ),
    ] {
        let fixture = Fixture::new();
        let error = fixture.add("/configs", &[bytes]).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
        assert_eq!(fixture.traces(), Vec::<String>::new());
    }
}

#[test]
fn each_limit_is_kept() {
    let many = |count: u32| {
        (0..count)
            .fold(Layer::new(), |layer, n| layer.file(&format!("usr/{n}"), ""))
            .bytes()
    };
    let zeros = Layer::new()
        .file("configs/zeros", &"0".repeat(1 << 20))
        .bytes();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&zeros).unwrap();
    let bomb = encoder.finish().unwrap();
    let mut long_name = Header::new_gnu();
    long_name.set_entry_type(EntryType::GNULongName);
    long_name.set_size(3 << 20);
    long_name.set_cksum();
    let long_name = [
        long_name.as_bytes().to_vec(),
        vec![b'a'; 3 << 20],
        zeros.clone(),
    ]
    .concat();
    let limits = Limits::default;
    for (limits, bytes, expected) in [
        (
            Limits {
                entries: 100,
                ..limits()
            },
            many(101),
            "100 entries",
        ),
        (
            Limits {
                kept_bytes: 1000,
                ..limits()
            },
            zeros.clone(),
            "1000 bytes of files",
        ),
        (
            Limits {
                uncompressed_bytes: 1000,
                ..limits()
            },
            zeros,
            "1000 uncompressed bytes",
        ),
        (
            Limits {
                expansion_ratio: 10,
                expansion_grace_bytes: 1000,
                ..limits()
            },
            bomb,
            "10 uncompressed bytes per compressed byte",
        ),
        (limits(), long_name, "2097152 bytes of headers of one entry"),
    ] {
        let mut fixture = Fixture::new();
        fixture.limits = limits;
        let error = fixture.add("/configs", &[bytes]).unwrap_err();
        assert_eq!(error, format!("layer 1 exceeds the limit of {expected}"));
        assert_eq!(fixture.traces(), Vec::<String>::new());
    }
}

#[test]
fn a_sparse_file_cannot_grow_without_bound() {
    let mut header = Header::new_gnu();
    header.set_path("configs/sparse").unwrap();
    header.set_entry_type(EntryType::GNUSparse);
    header.set_size(0);
    let gnu = header.as_gnu_mut().unwrap();
    gnu.set_real_size(1 << 50);
    gnu.sparse[0]
        .offset
        .copy_from_slice(b"\x80\0\0\0\0\x04\0\0\0\0\0\0");
    gnu.sparse[0].numbytes.copy_from_slice(b"00000000000\0");
    header.set_cksum();
    let mut fixture = Fixture::new();
    fixture.limits.kept_bytes = 1 << 20;
    let bytes = [header.as_bytes().to_vec(), vec![0; 1024]].concat();
    let error = fixture
        .add("/configs", std::slice::from_ref(&bytes))
        .unwrap_err();
    assert!(
        error.contains("bytes of files") || error.starts_with("cannot read layer 1"),
        "{error}"
    );
    assert_eq!(
        files(&fixture.add("/other", &[bytes]).unwrap()),
        Vec::<String>::new()
    );
}

#[test]
fn what_is_published_survives_a_restart_and_damage_is_a_miss() {
    let fixture = Fixture::new();
    let layer = || {
        Layer::new()
            .file("configs/a", "1")
            .file("configs/b", "2")
            .bytes()
    };
    let image = fixture.add("/configs", &[layer()]).unwrap();
    let root = fixture.store.root().to_owned();
    let again = ContentStore::open(&root)
        .unwrap()
        .get(&image.digest)
        .unwrap()
        .unwrap();
    assert_eq!(
        (again.root.clone(), again.labels.clone(), again.unpacked_at),
        (image.root, image.labels, image.unpacked_at)
    );
    let damages: [fn(&Path); 5] = [
        |image| {
            fs::remove_file(image.join("rootfs/configs/a")).unwrap();
        },
        |image| fs::write(image.join("rootfs/configs/a"), "x").unwrap(),
        |image| fs::write(image.join("rootfs/configs/more"), "x").unwrap(),
        |image| fs::write(image.join("image.json"), "{").unwrap(),
        |image| {
            fs::remove_file(image.join("rootfs/configs/b")).unwrap();
            std::os::unix::fs::symlink("a", image.join("rootfs/configs/b")).unwrap();
        },
    ];
    for damage in damages {
        let path = fixture.store.image(&again.digest);
        for name in ["rootfs", "rootfs/configs"] {
            fs::set_permissions(path.join(name), fs::Permissions::from_mode(0o700)).unwrap();
        }
        for name in ["rootfs/configs/a", "image.json"] {
            fs::set_permissions(path.join(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
        damage(&path);
        let store = ContentStore::open(&root).unwrap();
        assert!(store.get(&again.digest).unwrap().is_none());
        assert!(!path.exists());
        fixture.store.remove(&again.digest).unwrap();
        fixture.add("/configs", &[layer()]).unwrap();
    }
}

#[test]
fn what_was_not_finished_is_swept_at_start() {
    let fixture = Fixture::new();
    let left = fixture.store.staging().join("left");
    fs::create_dir_all(left.join("deep")).unwrap();
    fs::set_permissions(&left, fs::Permissions::from_mode(0o500)).unwrap();
    fs::write(fixture.store.staging().join("file"), "").unwrap();
    ContentStore::open(fixture.store.root()).unwrap();
    assert_eq!(fixture.traces(), Vec::<String>::new());
}

#[test]
fn who_shares_a_directory_has_a_place_of_its_own_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let first = ContentStore::share(directory.path()).unwrap();
    let work = first.staging().join("work");
    fs::create_dir(&work).unwrap();
    let second = ContentStore::share(directory.path()).unwrap();
    let third = ContentStore::share(directory.path()).unwrap();
    assert!(work.exists(), "another's unfinished work is swept");
    let roots = [&first, &second, &third].map(|store| store.root().to_owned());
    assert_eq!(
        roots,
        ["", "replica-1", "replica-2"].map(|name| directory.path().join(name))
    );
    fs::write(second.staging().join("file"), "12345").unwrap();
    assert_eq!(
        [first.used_bytes().unwrap(), second.used_bytes().unwrap()],
        [0, 5]
    );
    // Who comes after somebody finds what that one left; a clone holds the place, too.
    let kept = second.clone();
    drop(second);
    let fourth = ContentStore::share(directory.path()).unwrap();
    assert_eq!(fourth.root(), directory.path().join("replica-3"));
    drop(kept);
    let fifth = ContentStore::share(directory.path()).unwrap();
    assert_eq!(fifth.root(), directory.path().join("replica-1"));
}

#[test]
fn a_file_in_the_place_of_an_image_is_a_miss() {
    let fixture = Fixture::new();
    let digest = Digest::of(b"x");
    fs::write(fixture.store.image(&digest), "").unwrap();
    assert!(fixture.store.get(&digest).unwrap().is_none());
    assert!(!fixture.store.image(&digest).exists());
}

#[test]
fn garbage_is_what_nobody_keeps_or_holds() {
    let fixture = Fixture::new();
    let add = |content: &str| {
        fixture
            .add(
                "/configs",
                &[Layer::new().file("configs/a", content).bytes()],
            )
            .unwrap()
    };
    let (kept, held, dropped) = (add("1"), add("2"), add("3"));
    let keep = BTreeSet::from([kept.digest.clone()]);
    let gone = dropped.digest.clone();
    drop(dropped);
    fs::write(fixture.store.images().join("not-ours"), "").unwrap();
    assert_eq!(
        fixture
            .store
            .collect_garbage(&keep, Duration::ZERO)
            .unwrap(),
        [gone]
    );
    let second = held.clone();
    drop(held);
    assert_eq!(
        fixture
            .store
            .collect_garbage(&keep, Duration::ZERO)
            .unwrap(),
        []
    );
    assert_eq!(files(&second), ["configs/a=2"]);
    let digest = second.digest.clone();
    drop(second);
    assert_eq!(
        fixture
            .store
            .collect_garbage(&keep, Duration::ZERO)
            .unwrap(),
        [digest]
    );
    assert_eq!(fixture.traces(), Vec::<String>::new());
}

#[test]
fn adding_twice_is_adding_once() {
    let fixture = Fixture::new();
    let layer = || vec![Layer::new().file("configs/a", "1").bytes()];
    let first = fixture.add("/configs", &layer()).unwrap();
    let second = fixture.add("/configs", &layer()).unwrap();
    assert_eq!(first.root, second.root);
    assert_eq!(fixture.traces(), Vec::<String>::new());
}

#[test]
fn disk_errors_name_the_place_and_never_a_random_name() {
    let fixture = Fixture::new();
    let staging = fixture.store.staging();
    fs::remove_dir(&staging).unwrap();
    fs::write(&staging, "").unwrap();
    let error = fixture.add("/configs", &[]).unwrap_err();
    assert!(
        error.starts_with(&format!(
            "cannot create a directory in {}",
            staging.display()
        )),
        "{error}"
    );
    let error = ContentStore::open(&staging).unwrap_err();
    assert!(matches!(error, StoreError::Disk { .. }), "{error}");
}

#[test]
fn link_problems_are_told_apart() {
    let texts = [LinkProblem::Dangling, LinkProblem::Directory].map(|problem| problem.to_string());
    assert_eq!(
        texts,
        ["leads to nothing in the image", "leads to a directory"]
    );
}

#[test]
fn the_ratio_counts_all_layers_together() {
    let mut fixture = Fixture::new();
    fixture.limits.expansion_ratio = 10;
    fixture.limits.expansion_grace_bytes = 1000;
    let large = Layer::new().file("configs/a", &"x".repeat(100_000)).bytes();
    let small = Layer::new().file("configs/b", "y").bytes();
    let image = fixture.add("/configs", &[large, small]).unwrap();
    assert_eq!(files(&image).len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn mutated_archives_never_panic_and_never_leave_the_root(
        changes in proptest::collection::vec((0_usize..6000, any::<u8>()), 1..6), cut in 0_usize..6000
    ) {
        let mut bytes = Layer::new()
            .directory("configs/")
            .file("configs/a", "content")
            .link("configs/l", "a")
            .hard("configs/h", "configs/a")
            .pax(&[("path", b"configs/p")])
            .file("x", "")
            .file("configs/.wh.q", "")
            .bytes();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
            // With a sum that fits, so that the change is looked at.
            let header = at / 512 * 512;
            let mut block = Header::new_ustar();
            block.as_mut_bytes().copy_from_slice(&bytes[header..header + 512]);
            if block.as_ustar().is_some() {
                block.set_cksum();
                bytes[header..header + 512].copy_from_slice(block.as_bytes());
            }
        }
        bytes.truncate(bytes.len().min(cut));
        let fixture = Fixture::new();
        if let Ok(image) = fixture.add("/configs", &[bytes]) {
            files(&image);
        }
        prop_assert_eq!(fixture.traces(), Vec::<String>::new());
    }
}

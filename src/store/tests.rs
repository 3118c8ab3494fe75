//! The store and the unpacking of archives, sound and hostile.

mod hostile;
mod kept;
mod unpacked;

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use proptest::prelude::*;
use tar::{Builder, EntryType, Header};

use super::unpacked::LinkProblem;
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
                let content = fs::read(entry.path()).unwrap();
                found.push(format!("{name}={}", String::from_utf8_lossy(&content)));
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

//! From layers to files: the archives are read in order into a [`Tree`], and only what is wanted of its end state is
//! written, as plain files and directories.
//!
//! Foreign archives are hostile until proven otherwise. An entry's name never becomes a path on disk before the whole tree
//! stands: content goes to numbered files, and links exist in the tree only, where they cannot lead out of the root. Layers follow
//! the [OCI layer spec](https://github.com/opencontainers/image-spec/blob/v1.1.0/layer.md), whiteouts and opaque directories included.
//! Differs from the reference: a whiteout of a directory above the wanted one counts, and a link is replaced by what it leads to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tar::{Archive, EntryType};

use super::checksum::Summing;
use super::layer::{Unsupported, decompress};
use super::limits::{KEPT_BYTES, Limits};
use super::meter::{Compressed, MAX_HEADER_BYTES, Meter, Uncompressed};
use super::tree::{Kind, Node, Parts, PathError, Tree, clean};
use super::unpacked::{Content, Finished, LinkProblem, PathProblem, UnpackError, disk};
use super::write::Writer;
use super::{FileDescription, Wanted};

/// The prefix of names that take away.
const WHITEOUT: &str = ".wh.";
/// The name that takes away all that lower layers put into its directory.
const OPAQUE: &str = ".wh..wh..opq";
/// The prefix of names that only some storage drivers understand.
const WHITEOUT_META: &str = ".wh..wh.";

/// Applies layers.
pub(super) struct Unpacker<'a> {
    /// Where numbered files go.
    data: PathBuf,
    wanted: &'a Wanted,
    limits: &'a Limits,
    tree: Tree<Content>,
    layer: usize,
    entries: u64,
    kept_bytes: u64,
    meter: Rc<Meter<'a>>,
    files: u64,
    elsewhere: BTreeSet<String>,
}

impl<'a> Unpacker<'a> {
    /// An empty tree; numbered files go below `staging`.
    pub(super) fn new(
        staging: &Path,
        wanted: &'a Wanted,
        limits: &'a Limits,
    ) -> Result<Self, UnpackError> {
        let data = staging.join("data");
        let shown = staging.parent().unwrap_or(staging);
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&data)
            .map_err(disk(shown))?;
        Ok(Self {
            data,
            wanted,
            limits,
            tree: Tree::new(),
            layer: 0,
            entries: 0,
            kept_bytes: 0,
            meter: Rc::new(Meter::new(limits)),
            files: 0,
            elsewhere: BTreeSet::new(),
        })
    }

    /// Applies one layer, and reads `raw` to its end.
    pub(super) fn layer(&mut self, mut raw: impl Read) -> Result<(), UnpackError> {
        self.layer += 1;
        let meter = Rc::clone(&self.meter);
        let result = self.archive(&mut raw, &meter);
        if let Some((what, limit)) = meter.exceeded.get() {
            return Err(self.limit(what, limit));
        }
        let drained = io::copy(&mut raw, &mut io::sink());
        // Read to the end also after a failure: what looks like a broken archive may be a broken transfer, and only the
        // end of it tells. A layer that is too large is not worth that.
        result?;
        drained.map_err(|source| self.unreadable(source))?;
        Ok(())
    }

    fn archive(&mut self, raw: &mut impl Read, meter: &Meter<'_>) -> Result<(), UnpackError> {
        let layer = self.layer;
        let plain = decompress(Compressed(raw, meter))
            .map_err(|source| self.unreadable(source))?
            .map_err(|Unsupported(compression)| UnpackError::Compression { layer, compression })?;
        let mut archive = Archive::new(Uncompressed(plain, meter));
        let mut entries = archive
            .entries()
            .map_err(|source| self.unreadable(source))?;
        let mut unread = 0_u64;
        loop {
            meter
                .until_entry
                .set(Some(unread.saturating_add(MAX_HEADER_BYTES)));
            let Some(entry) = entries.next() else {
                return Ok(());
            };
            meter.until_entry.set(None);
            let mut entry = entry.map_err(|source| self.unreadable(source))?;
            self.entries += 1;
            if self.entries > self.limits.entries {
                return Err(self.limit("entries", self.limits.entries));
            }
            // A sparse file is larger than its data.
            unread = if entry.header().entry_type().is_gnu_sparse() {
                entry
                    .header()
                    .entry_size()
                    .map_err(|source| self.unreadable(source))?
            } else {
                entry.size()
            };
            self.entry(&mut entry)?;
        }
    }

    fn entry<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>) -> Result<(), UnpackError> {
        let kind = entry.header().entry_type();
        if matches!(kind, EntryType::XGlobalHeader) {
            return Ok(());
        }
        let raw_name = entry.path_bytes().into_owned();
        let name = String::from_utf8_lossy(&raw_name).into_owned();
        let path = match clean(&raw_name) {
            Ok(Some(path)) if !path.is_empty() => path,
            // The root itself, or a name that leads out of it: nobody can want it.
            Ok(_) => return Ok(()),
            Err(_) if !self.is_wanted_text(&name) => return Ok(()),
            Err(problem) => return Err(self.bad_path(&name, problem)),
        };
        let is_wanted_name = self.wanted.covers(&path);
        let place = match self.tree.place(&path) {
            Ok(place) => place,
            Err(_) if !is_wanted_name => return Ok(()),
            Err(problem) => return Err(self.bad_path(&name, problem)),
        };
        let is_wanted = is_wanted_name || self.wanted.covers(&place);
        if let Some(last) = path.last().filter(|last| last.starts_with(WHITEOUT)) {
            return self.whiteout(&name, last, &place);
        }
        let is_directory = kind.is_dir() || (kind.is_file() && raw_name.ends_with(b"/"));
        let node = if is_directory {
            if !is_wanted {
                self.tree.remove_non_directory(&place);
                return Ok(());
            }
            Kind::Directory(BTreeMap::new())
        } else if kind.is_symlink() {
            let target = entry.link_name_bytes().unwrap_or_default().into_owned();
            match String::from_utf8(target) {
                Ok(target) => Kind::Link(target),
                Err(_) if !is_wanted => return Ok(()),
                Err(_) => return Err(self.bad_path(&name, PathError::Invalid)),
            }
        } else if !is_wanted {
            self.tree.remove(&place);
            return Ok(());
        } else if kind.is_hard_link() {
            let target = entry.link_name_bytes().unwrap_or_default().into_owned();
            match self.hard_link(&name, &target)? {
                Some(kind) => kind,
                None => return Ok(()),
            }
        } else if kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse() {
            self.refuse_pax_sparse(&name, entry)?;
            Kind::File(self.keep(entry)?)
        } else {
            return Err(UnpackError::Kind {
                layer: self.layer,
                name,
                kind: kind_name(kind),
            });
        };
        let layer = self.layer;
        match self.tree.insert(&place, Node { layer, kind: node }) {
            Err(problem) if is_wanted => Err(self.bad_path(&name, problem)),
            // Outside of what is wanted, an archive may contradict itself.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn whiteout(&mut self, name: &str, last: &str, place: &[String]) -> Result<(), UnpackError> {
        let parents = place.split_last().map_or(place, |(_, parents)| parents);
        if last == OPAQUE {
            self.tree.remove_older_below(parents, self.layer);
            return Ok(());
        }
        if last.starts_with(WHITEOUT_META) {
            return Ok(());
        }
        let hidden = last.strip_prefix(WHITEOUT).unwrap_or_default();
        if matches!(hidden, "" | "." | "..") {
            return Err(self.bad_path(name, PathError::Escapes));
        }
        let mut path: Parts = parents.to_vec();
        path.push(hidden.to_owned());
        self.tree.remove_older(&path, self.layer);
        Ok(())
    }

    /// What a hard link stands for. `None` when its target was not kept, which is noted.
    fn hard_link(
        &mut self,
        name: &str,
        target: &[u8],
    ) -> Result<Option<Kind<Content>>, UnpackError> {
        let bad = |problem| UnpackError::Link {
            name: name.to_owned(),
            problem,
        };
        let bad_path = |problem| bad(LinkProblem::Path(PathProblem(problem)));
        let path = clean(target)
            .map_err(bad_path)?
            .ok_or_else(|| bad_path(PathError::Escapes))?;
        let place = self.tree.place(&path).map_err(bad_path)?;
        match self.tree.get(&place).map(|node| &node.kind) {
            Some(Kind::File(content)) => Ok(Some(Kind::File(content.clone()))),
            Some(Kind::Link(target)) => Ok(Some(Kind::Link(target.clone()))),
            Some(Kind::Directory(_)) => Err(bad(LinkProblem::Directory)),
            None if self.wanted.covers(&place) || self.wanted.is_last_round() => {
                Err(bad(LinkProblem::Dangling))
            }
            None => {
                self.elsewhere.insert(place.join("/"));
                Ok(None)
            }
        }
    }

    /// A file in the sparse format of newer GNU tar is not the file that it stands for.
    fn refuse_pax_sparse<R: Read>(
        &self,
        name: &str,
        entry: &mut tar::Entry<'_, R>,
    ) -> Result<(), UnpackError> {
        let records = entry
            .pax_extensions()
            .map_err(|source| self.unreadable(source))?;
        for record in records.into_iter().flatten() {
            let record = record.map_err(|source| self.unreadable(source))?;
            if record.key_bytes().starts_with(b"GNU.sparse.") {
                return Err(UnpackError::Kind {
                    layer: self.layer,
                    name: name.to_owned(),
                    kind: "sparse file",
                });
            }
        }
        Ok(())
    }

    /// Writes the content of an entry to a numbered file.
    fn keep(&mut self, content: &mut impl Read) -> Result<Content, UnpackError> {
        let number = self.files;
        self.files += 1;
        let shown = self
            .data
            .parent()
            .and_then(Path::parent)
            .unwrap_or(&self.data)
            .to_owned();
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o400)
            .open(self.data.join(number.to_string()))
            .map_err(disk(&shown))?;
        let mut summing = Summing::new();
        let mut size = 0_u64;
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = content
                .read(&mut buffer)
                .map_err(|source| self.unreadable(source))?;
            let bytes = buffer.get(..count).unwrap_or_default();
            if bytes.is_empty() {
                break;
            }
            size += bytes.len() as u64;
            if self.kept_bytes.saturating_add(size) > self.limits.kept_bytes {
                return Err(self.limit(KEPT_BYTES, self.limits.kept_bytes));
            }
            summing.update(bytes);
            file.write_all(bytes).map_err(disk(&shown))?;
        }
        self.kept_bytes += size;
        let checksum = summing.finish();
        Ok(Content {
            number,
            description: FileDescription { size, checksum },
        })
    }

    /// Writes the wanted part of the tree to `target`.
    pub(super) fn finish(self, target: &Path) -> Result<Finished, UnpackError> {
        Writer::new(&self.data, &self.tree, self.wanted, target).write(self.elsewhere)
    }

    fn is_wanted_text(&self, name: &str) -> bool {
        let parts: Parts = name
            .split('/')
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect();
        self.wanted.covers(&parts)
    }

    fn unreadable(&self, source: io::Error) -> UnpackError {
        UnpackError::Read {
            layer: self.layer,
            source,
        }
    }

    fn limit(&self, what: &'static str, limit: u64) -> UnpackError {
        UnpackError::Limit {
            layer: self.layer,
            what,
            limit,
        }
    }

    fn bad_path(&self, name: &str, problem: PathError) -> UnpackError {
        UnpackError::Path {
            layer: self.layer,
            name: name.to_owned(),
            problem: PathProblem(problem),
        }
    }
}

fn kind_name(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Char | EntryType::Block => "device",
        EntryType::Fifo => "named pipe",
        _ => "file of an unknown kind",
    }
}

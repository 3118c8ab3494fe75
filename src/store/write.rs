//! From the tree of an image to its files on disk: only what is wanted, links replaced by what they lead to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::tree::{Kind, Node, Parts, Tree};
use super::unpacked::{Content, Finished, LinkProblem, PathProblem, UnpackError, disk};
use super::{FileDescription, Wanted};

/// Writes a tree to disk.
pub(super) struct Writer<'a> {
    data: &'a Path,
    tree: &'a Tree<Content>,
    wanted: &'a Wanted,
    target: &'a Path,
    /// In the order made.
    directories: Vec<PathBuf>,
    files: BTreeMap<String, FileDescription>,
    elsewhere: BTreeSet<String>,
}

impl<'a> Writer<'a> {
    /// Writes what is `wanted` of `tree` to `target`, which does not exist yet; numbered files lie in `data`.
    pub(super) fn new(
        data: &'a Path,
        tree: &'a Tree<Content>,
        wanted: &'a Wanted,
        target: &'a Path,
    ) -> Self {
        Self {
            data,
            tree,
            wanted,
            target,
            directories: Vec::new(),
            files: BTreeMap::new(),
            elsewhere: BTreeSet::new(),
        }
    }

    /// Writes it. `elsewhere` is where links are known to lead already.
    pub(super) fn write(mut self, elsewhere: BTreeSet<String>) -> Result<Finished, UnpackError> {
        self.elsewhere = elsewhere;
        self.directory(self.target)?;
        for root in self.wanted.outermost() {
            self.root(&root)?;
        }
        self.seal()?;
        Ok(if self.elsewhere.is_empty() {
            Finished::Tree(self.files)
        } else {
            Finished::Elsewhere(self.elsewhere)
        })
    }

    /// Writes what the wanted path `root` leads to.
    fn root(&mut self, root: &[String]) -> Result<(), UnpackError> {
        let name = root.join("/");
        let real = self
            .tree
            .follow(root)
            .map_err(|problem| UnpackError::Link {
                name: name.clone(),
                problem: LinkProblem::Path(PathProblem(problem)),
            })?;
        let mut path = self.target.to_owned();
        let Some(node) = self.tree.get(&real) else {
            if !self.wanted.covers(&real) && !self.wanted.is_last_round() {
                self.elsewhere.insert(real.join("/"));
            } else if self.wanted.catalog.as_ref() == Some(&name) {
                // An image without content is an empty catalog.
                for part in root {
                    path.push(part);
                    self.directory(&path)?;
                }
            }
            return Ok(());
        };
        if !self.wanted.covers(&real) && !self.wanted.is_last_round() {
            // Only links of that place are known, not its files.
            self.elsewhere.insert(real.join("/"));
            return Ok(());
        }
        for part in root.split_last().map_or(root, |(_, parents)| parents) {
            path.push(part);
            self.directory(&path)?;
        }
        self.node(node, real, root.to_vec())
    }

    /// Writes a node of the tree, found at `real`, as `name`.
    fn node(&mut self, node: &Node<Content>, real: Parts, name: Parts) -> Result<(), UnpackError> {
        let mut todo = vec![(node, real, name)];
        while let Some((node, real, name)) = todo.pop() {
            match &node.kind {
                Kind::File(content) => self.file(content, &name)?,
                Kind::Link(_) => self.link(&real, &name)?,
                Kind::Directory(children) => {
                    self.directory(&self.target.join(name.join("/")))?;
                    for (part, child) in children {
                        let below =
                            |path: &Parts| [path.as_slice(), std::slice::from_ref(part)].concat();
                        todo.push((child, below(&real), below(&name)));
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes what a link leads to in its place.
    fn link(&mut self, real: &[String], name: &[String]) -> Result<(), UnpackError> {
        let bad = |problem| UnpackError::Link {
            name: name.join("/"),
            problem,
        };
        let target = self
            .tree
            .follow(real)
            .map_err(|problem| bad(LinkProblem::Path(PathProblem(problem))))?;
        match self.tree.get(&target).map(|node| &node.kind) {
            Some(Kind::File(content)) => self.file(content, name),
            Some(Kind::Directory(_)) => Err(bad(LinkProblem::Directory)),
            // Following ends at something else than a link, or at nothing.
            Some(Kind::Link(_)) | None => {
                if self.wanted.covers(&target) || self.wanted.is_last_round() {
                    return Err(bad(LinkProblem::Dangling));
                }
                self.elsewhere.insert(target.join("/"));
                Ok(())
            }
        }
    }

    fn file(&mut self, content: &Content, name: &[String]) -> Result<(), UnpackError> {
        let name = name.join("/");
        let source = self.data.join(content.number.to_string());
        let target = self.target.join(&name);
        // Linked, not moved: several names may share one content.
        if fs::hard_link(&source, &target).is_err() {
            fs::copy(&source, &target).map_err(disk(Path::new(&name)))?;
        }
        self.files.insert(name, content.description.clone());
        Ok(())
    }

    fn directory(&mut self, path: &Path) -> Result<(), UnpackError> {
        match fs::DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => {
                self.directories.push(path.to_owned());
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => {
                let name = path.strip_prefix(self.target).unwrap_or(path);
                Err(disk(name)(error))
            }
        }
    }

    /// Makes the directories read-only, inner ones first.
    fn seal(&self) -> Result<(), UnpackError> {
        for path in self.directories.iter().rev() {
            let name = path.strip_prefix(self.target).unwrap_or(path);
            fs::set_permissions(path, fs::Permissions::from_mode(0o500)).map_err(disk(name))?;
        }
        Ok(())
    }
}

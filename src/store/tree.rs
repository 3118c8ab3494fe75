//! The file system of an image while its layers are applied, as a value: names, links and directories, no disk.
//!
//! Since nothing here touches the disk, no archive can make anything outside its own tree, whatever it says. Content lies in
//! numbered files elsewhere; the tree only says where it belongs.

use std::collections::{BTreeMap, VecDeque};

/// How many links one path may lead through: the limit of Linux.
const MAX_LINKS: usize = 40;

/// The longest path in bytes: the limit of Linux.
const MAX_PATH_BYTES: usize = 4096;

/// The longest part of a path in bytes: the limit of Linux.
const MAX_PART_BYTES: usize = 255;

/// How deep directories may lie; none that is used is deeper than a tenth of it.
const MAX_DEPTH: usize = 128;

/// A path below the root: its parts, none of them empty, `.` or `..`.
pub(super) type Parts = Vec<String>;

/// A file, a link or a directory, and the layer that it is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node<C> {
    pub(super) layer: usize,
    pub(super) kind: Kind<C>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind<C> {
    Directory(BTreeMap<String, Node<C>>),
    File(C),
    /// The target as written.
    Link(String),
}

/// Why a path leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathError {
    /// `..` above the root.
    #[error("leads out of the image")]
    Escapes,
    /// Links that go round in circles.
    #[error("leads through too many links")]
    Loop,
    /// Not text, or with a byte that no path has.
    #[error("is not a valid path")]
    Invalid,
    /// Longer than the operating system accepts.
    #[error("is too long")]
    TooLong,
    /// Below something that is no directory.
    #[error("lies below a file")]
    BelowFile,
}

/// The root of an image.
#[derive(Debug)]
pub(super) struct Tree<C> {
    root: Node<C>,
}

/// The parts of a path as archives write it, cleaned without looking at links. `None` when it leads above the root.
pub(super) fn clean(path: &[u8]) -> Result<Option<Parts>, PathError> {
    let text = std::str::from_utf8(path).or(Err(PathError::Invalid))?;
    check(text)?;
    let mut parts = Parts::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return Ok(None);
                }
            }
            name if name.len() > MAX_PART_BYTES => return Err(PathError::TooLong),
            name => parts.push(name.to_owned()),
        }
    }
    if parts.len() > MAX_DEPTH {
        return Err(PathError::TooLong);
    }
    Ok(Some(parts))
}

fn check(text: &str) -> Result<(), PathError> {
    if text.contains('\0') {
        Err(PathError::Invalid)
    } else if text.len() > MAX_PATH_BYTES {
        Err(PathError::TooLong)
    } else {
        Ok(())
    }
}

impl<C> Tree<C> {
    pub(super) fn new() -> Self {
        Self {
            root: Node::directory(0),
        }
    }

    /// What lies at exactly this path, links not followed.
    pub(super) fn get(&self, path: &[String]) -> Option<&Node<C>> {
        let mut node = &self.root;
        for part in path {
            let Kind::Directory(children) = &node.kind else {
                return None;
            };
            node = children.get(part)?;
        }
        Some(node)
    }

    fn get_mut(&mut self, path: &[String]) -> Option<&mut Node<C>> {
        let mut node = &mut self.root;
        for part in path {
            let Kind::Directory(children) = &mut node.kind else {
                return None;
            };
            node = children.get_mut(part)?;
        }
        Some(node)
    }

    /// The path after following every link in it, the last part included. What it names need not exist.
    pub(super) fn follow(&self, path: &[String]) -> Result<Parts, PathError> {
        let mut todo: VecDeque<String> = path.iter().cloned().collect();
        let mut real = Parts::new();
        let mut links = 0;
        while let Some(part) = todo.pop_front() {
            match part.as_str() {
                "" | "." => continue,
                ".." => {
                    real.pop().ok_or(PathError::Escapes)?;
                    continue;
                }
                _ => real.push(part),
            }
            if real.len() > MAX_DEPTH {
                return Err(PathError::TooLong);
            }
            let Some(Kind::Link(target)) = self.get(&real).map(|node| &node.kind) else {
                continue;
            };
            links += 1;
            if links > MAX_LINKS {
                return Err(PathError::Loop);
            }
            check(target)?;
            if target.starts_with('/') {
                // As in a container: absolute means from the root of the image.
                real.clear();
            } else {
                real.pop();
            }
            for part in target.split('/').rev() {
                todo.push_front(part.to_owned());
            }
        }
        Ok(real)
    }

    /// Where an entry of this name belongs: its directories' links are followed, its own name is kept.
    pub(super) fn place(&self, path: &[String]) -> Result<Parts, PathError> {
        let Some((name, parents)) = path.split_last() else {
            return Ok(Parts::new());
        };
        let mut real = self.follow(parents)?;
        real.push(name.clone());
        Ok(real)
    }

    /// Puts a node at a path, making directories as need be. A directory upon a directory keeps what is in it.
    pub(super) fn insert(&mut self, path: &[String], new: Node<C>) -> Result<(), PathError> {
        let Some((name, parents)) = path.split_last() else {
            return Ok(());
        };
        let layer = new.layer;
        let mut node = &mut self.root;
        for part in parents {
            let Kind::Directory(children) = &mut node.kind else {
                return Err(PathError::BelowFile);
            };
            node = children
                .entry(part.clone())
                .or_insert_with(|| Node::directory(layer));
        }
        let Kind::Directory(children) = &mut node.kind else {
            return Err(PathError::BelowFile);
        };
        match children.get_mut(name) {
            Some(old) if old.is_directory() && new.is_directory() => old.layer = layer,
            _ => {
                children.insert(name.clone(), new);
            }
        }
        Ok(())
    }

    /// Takes away what layers below `layer` put at a path.
    pub(super) fn remove_older(&mut self, path: &[String], layer: usize) {
        let Some((name, parents)) = path.split_last() else {
            return;
        };
        let Some(Kind::Directory(children)) = self.get_mut(parents).map(|node| &mut node.kind)
        else {
            return;
        };
        if children
            .get_mut(name)
            .is_some_and(|node| !node.keep_newer(layer))
        {
            children.remove(name);
        }
    }

    /// Takes away what layers below `layer` put into the directory at a path.
    pub(super) fn remove_older_below(&mut self, path: &[String], layer: usize) {
        if let Some(Kind::Directory(children)) = self.get_mut(path).map(|node| &mut node.kind) {
            children.retain(|_, node| node.keep_newer(layer));
        }
    }

    /// Takes away whatever is at a path unless it is a directory, and says whether nothing is there now.
    pub(super) fn remove_non_directory(&mut self, path: &[String]) {
        let Some((name, parents)) = path.split_last() else {
            return;
        };
        if let Some(Kind::Directory(children)) = self.get_mut(parents).map(|node| &mut node.kind)
            && children.get(name).is_some_and(|node| !node.is_directory())
        {
            children.remove(name);
        }
    }

    /// Takes away whatever is at a path.
    pub(super) fn remove(&mut self, path: &[String]) {
        let Some((name, parents)) = path.split_last() else {
            return;
        };
        if let Some(Kind::Directory(children)) = self.get_mut(parents).map(|node| &mut node.kind) {
            children.remove(name);
        }
    }
}

impl<C> Node<C> {
    pub(super) fn directory(layer: usize) -> Self {
        Self {
            layer,
            kind: Kind::Directory(BTreeMap::new()),
        }
    }

    fn is_directory(&self) -> bool {
        matches!(self.kind, Kind::Directory(_))
    }

    /// Drops what is from layers below `layer`; says whether anything of this layer is left.
    fn keep_newer(&mut self, layer: usize) -> bool {
        match &mut self.kind {
            Kind::Directory(children) => {
                children.retain(|_, node| node.keep_newer(layer));
                self.layer >= layer || !children.is_empty()
            }
            Kind::File(_) | Kind::Link(_) => self.layer >= layer,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(path: &str) -> Parts {
        clean(path.as_bytes()).unwrap().unwrap()
    }

    fn put(tree: &mut Tree<u32>, layer: usize, path: &str, kind: Kind<u32>) {
        tree.insert(&parts(path), Node { layer, kind }).unwrap();
    }

    fn follow(tree: &Tree<u32>, path: &str) -> Result<String, PathError> {
        tree.follow(&parts(path)).map(|real| real.join("/"))
    }

    #[test]
    fn names_are_cleaned_without_leaving_the_root() {
        for (name, expected) in [
            ("a/b", Some("a/b")),
            ("/a//./b/", Some("a/b")),
            ("a/../b", Some("b")),
            ("./", Some("")),
            ("../a", None),
            ("a/../../b", None),
        ] {
            let found = clean(name.as_bytes()).unwrap().map(|p| p.join("/"));
            assert_eq!(found.as_deref(), expected, "{name}");
        }
        assert_eq!(clean(b"\xff"), Err(PathError::Invalid));
        assert_eq!(clean(b"a\0b"), Err(PathError::Invalid));
        assert_eq!(clean(&[b'a'; 256]), Err(PathError::TooLong));
        assert_eq!(clean(&b"a/".repeat(200)), Err(PathError::TooLong));
        assert_eq!(clean(&b"/".repeat(5000)), Err(PathError::TooLong));
    }

    #[test]
    fn links_are_followed_inside_the_root() {
        let mut tree = Tree::new();
        for (path, target) in [
            ("abs", "/d/e"),
            ("d/rel", "../x/./y"),
            ("out", "../../etc/passwd"),
            ("loop", "loop/a"),
            ("chain", "abs/f"),
        ] {
            put(&mut tree, 0, path, Kind::Link(target.to_owned()));
        }
        for (path, expected) in [
            ("abs/f", Ok("d/e/f")),
            ("d/rel", Ok("x/y")),
            ("chain/g", Ok("d/e/f/g")),
            ("nothing/here", Ok("nothing/here")),
            ("out", Err(PathError::Escapes)),
            ("loop", Err(PathError::Loop)),
        ] {
            assert_eq!(follow(&tree, path), expected.map(str::to_owned), "{path}");
        }
        assert_eq!(
            tree.place(&parts("abs/loop")).unwrap().join("/"),
            "d/e/loop"
        );
    }

    #[test]
    fn a_new_layer_hides_only_what_is_older() {
        let mut tree = Tree::new();
        put(&mut tree, 0, "d/old", Kind::File(1));
        put(&mut tree, 0, "d/sub/old", Kind::File(2));
        put(&mut tree, 1, "d/sub/new", Kind::File(3));
        tree.remove_older_below(&parts("d"), 1);
        assert!(tree.get(&parts("d/old")).is_none());
        assert!(tree.get(&parts("d/sub/old")).is_none());
        assert!(tree.get(&parts("d/sub/new")).is_some());
        tree.remove_older(&parts("d"), 1);
        assert!(tree.get(&parts("d/sub/new")).is_some());
        tree.remove_older(&parts("d"), 2);
        assert!(tree.get(&parts("d")).is_none());
        tree.remove_older(&parts("absent/x"), 2);
    }

    #[test]
    fn files_have_nothing_below_them_and_directories_are_kept() {
        let mut tree = Tree::new();
        put(&mut tree, 0, "f", Kind::File(1));
        let below = tree.insert(
            &parts("f/x"),
            Node {
                layer: 0,
                kind: Kind::File(2),
            },
        );
        assert_eq!(below, Err(PathError::BelowFile));
        put(&mut tree, 0, "d/x", Kind::File(1));
        put(&mut tree, 0, "d", Kind::Directory(BTreeMap::new()));
        assert!(tree.get(&parts("d/x")).is_some());
        put(&mut tree, 0, "d", Kind::File(3));
        assert!(tree.get(&parts("d/x")).is_none());
    }

    proptest! {
        #[test]
        fn whatever_links_there_are_no_path_leaves_the_root(
            links in proptest::collection::vec(("[ab](/[ab]){0,2}", "/{0,1}(\\.\\.|[ab])(/(\\.\\.|[ab])){0,3}"), 0..8),
            path in "[ab](/[ab]){0,3}",
        ) {
            let mut tree: Tree<u32> = Tree::new();
            for (name, target) in links {
                if let Ok(place) = tree.place(&parts(&name)) {
                    let node = Node { layer: 0, kind: Kind::Link(target) };
                    // A link below a link's name is refused; that is fine here.
                    _ = tree.insert(&place, node);
                }
            }
            if let Ok(real) = tree.follow(&parts(&path)) {
                prop_assert!(real.iter().all(|part| !["", ".", ".."].contains(&part.as_str())));
                prop_assert!(!matches!(tree.get(&real).map(|n| &n.kind), Some(Kind::Link(_))));
            }
        }
    }
}

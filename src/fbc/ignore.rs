//! `.indexignore`: which files of a catalog are not read.
//!
//! The patterns are those of gitignore, evaluated as the reference does: for each file on its own, the last
//! pattern that matches decides. So `!` can bring back a file below an ignored directory, unlike in git.
//! A pattern without a slash matches any component of the path; one with a slash is anchored to the
//! directory of its file, and matches what lies below what it names.

use std::iter::Peekable;
use std::str::Chars;

/// The name of the files that hold the patterns. They are never read as catalog content.
pub const FILE_NAME: &str = ".indexignore";

/// The patterns of all `.indexignore` files of a catalog, later ones having precedence.
#[derive(Debug, Clone, Default)]
pub struct Ignore {
    patterns: Vec<Pattern>,
}

#[derive(Debug, Clone)]
struct Pattern {
    /// The directory whose files it concerns, by component.
    directory: Vec<String>,
    /// Brings files back instead of ignoring them.
    includes: bool,
    directories_only: bool,
    form: Form,
}

#[derive(Debug, Clone)]
enum Form {
    /// Without a slash: any component.
    Name(Option<Glob>),
    /// With a slash: from the directory on.
    Path(Vec<Part>),
}

#[derive(Debug, Clone)]
enum Part {
    /// Nothing between two slashes, or before the first.
    Empty,
    /// `**`
    AnyDirectories,
    /// `**` inside something longer, or a glob that cannot be read: it never matches.
    Never,
    Name(Glob),
}

impl Ignore {
    /// Adds the patterns of the file in `directory` (components joined by `/`, empty for the root).
    ///
    /// The reference adds them in the lexical order of the walk that finds the files.
    pub fn add(&mut self, directory: &str, text: &str) {
        let directory: Vec<String> = components(directory).map(str::to_owned).collect();
        let lines = text.lines().map(str::trim);
        self.patterns.extend(
            lines
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
                .map(|line| Pattern::parse(line, directory.clone())),
        );
    }

    /// Whether the file at `path` (components joined by `/`) is not to be read.
    pub fn is_ignored(&self, path: &str) -> bool {
        let path: Vec<&str> = components(path).collect();
        if path.last() == Some(&FILE_NAME) {
            return true;
        }
        let last = self
            .patterns
            .iter()
            .rev()
            .find(|pattern| pattern.matches(&path));
        last.is_some_and(|pattern| !pattern.includes)
    }
}

fn components(path: &str) -> impl Iterator<Item = &str> {
    path.split('/')
        .filter(|part| !part.is_empty() && *part != ".")
}

impl Pattern {
    fn parse(line: &str, directory: Vec<String>) -> Self {
        let (includes, line) = match line.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let (directories_only, line) = match line.strip_suffix('/') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let form = if line.contains('/') {
            Form::Path(line.split('/').map(Part::parse).collect())
        } else {
            Form::Name(Glob::parse(line))
        };
        Self {
            directory,
            includes,
            directories_only,
            form,
        }
    }

    fn matches(&self, path: &[&str]) -> bool {
        let Some(below) = path.strip_prefix(
            self.directory
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .as_slice(),
        ) else {
            return false;
        };
        // How many components are left behind what matched: with none, the file itself matched.
        let left = match &self.form {
            Form::Name(None) => None,
            Form::Name(Some(glob)) => below
                .iter()
                .position(|name| glob.matches(name))
                .map(|at| below.len() - at - 1),
            Form::Path(parts) => match_path(parts, below),
        };
        left.is_some_and(|left| left > 0 || !self.directories_only)
    }
}

/// Matches the parts against the leading components; gives the number of components left.
///
/// `**` takes the first component that fits what follows it and does not try later ones, as the reference.
fn match_path(parts: &[Part], path: &[&str]) -> Option<usize> {
    let mut path = path.iter();
    let mut has_matched = false;
    let mut may_skip = false;
    for (at, part) in parts.iter().enumerate() {
        match part {
            Part::Empty => may_skip = false,
            Part::AnyDirectories if at + 1 == parts.len() => break,
            Part::AnyDirectories => may_skip = true,
            Part::Never => return None,
            Part::Name(glob) if may_skip => {
                may_skip = false;
                if path.len() == 0 {
                    return None;
                }
                has_matched = path.any(|name| glob.matches(name));
            }
            Part::Name(glob) => {
                if !glob.matches(path.next()?) {
                    return None;
                }
                has_matched = true;
            }
        }
    }
    has_matched.then_some(path.len())
}

impl Part {
    fn parse(text: &str) -> Self {
        match text {
            "" => Self::Empty,
            "**" => Self::AnyDirectories,
            _ if text.contains("**") => Self::Never,
            _ => Glob::parse(text).map_or(Self::Never, Self::Name),
        }
    }
}

/// A pattern for one component, as Go's `filepath.Match`.
#[derive(Debug, Clone)]
struct Glob {
    tokens: Vec<Token>,
}

#[derive(Debug, Clone)]
enum Token {
    /// `*`
    AnyText,
    /// `?`
    AnyCharacter,
    Character(char),
    /// `[a-z]`, `[^a-z]`
    Class {
        is_negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Glob {
    /// `None` for a pattern that cannot be read, which never matches.
    fn parse(text: &str) -> Option<Self> {
        let mut characters = text.chars().peekable();
        let mut tokens = Vec::new();
        while let Some(character) = characters.next() {
            tokens.push(match character {
                '*' => Token::AnyText,
                '?' => Token::AnyCharacter,
                '[' => class(&mut characters)?,
                '\\' => Token::Character(characters.next()?),
                character => Token::Character(character),
            });
        }
        Some(Self { tokens })
    }

    fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut token, mut at) = (0, 0);
        // Where to go on when what follows the last `*` does not fit: the `*` takes one character more.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            match (self.tokens.get(token), name.get(at)) {
                (None, None) => return true,
                (Some(Token::AnyText), _) => {
                    retry = Some((token, at));
                    token += 1;
                }
                (Some(expected), Some(character)) if expected.fits(*character) => {
                    token += 1;
                    at += 1;
                }
                _ => match retry {
                    Some((star, from)) if from < name.len() => {
                        retry = Some((star, from + 1));
                        token = star + 1;
                        at = from + 1;
                    }
                    _ => return false,
                },
            }
        }
    }
}

impl Token {
    fn fits(&self, character: char) -> bool {
        match self {
            Self::AnyText | Self::AnyCharacter => true,
            Self::Character(expected) => *expected == character,
            Self::Class { is_negated, ranges } => {
                let is_inside = ranges
                    .iter()
                    .any(|(low, high)| (*low..=*high).contains(&character));
                is_inside != *is_negated
            }
        }
    }
}

/// Reads a class behind its `[`.
fn class(characters: &mut Peekable<Chars<'_>>) -> Option<Token> {
    let is_negated = characters.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    loop {
        if !ranges.is_empty() && characters.next_if_eq(&']').is_some() {
            return Some(Token::Class { is_negated, ranges });
        }
        let low = class_character(characters)?;
        let high = match characters.next_if_eq(&'-') {
            Some(_) => class_character(characters)?,
            None => low,
        };
        ranges.push((low, high));
    }
}

fn class_character(characters: &mut Peekable<Chars<'_>>) -> Option<char> {
    let character = match characters.next()? {
        '-' | ']' => return None,
        '\\' => characters.next()?,
        character => character,
    };
    // A class must be closed: something follows.
    characters.peek().map(|_| character)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::mutation::{edits, mutated};

    #[track_caller]
    fn check(patterns: &str, ignored: &[&str], read: &[&str]) {
        let mut ignore = Ignore::default();
        ignore.add("", patterns);
        for path in ignored {
            assert!(ignore.is_ignored(path), "{path} is read with {patterns:?}");
        }
        for path in read {
            assert!(
                !ignore.is_ignored(path),
                "{path} is ignored with {patterns:?}"
            );
        }
    }

    #[test]
    fn patterns_match_as_in_the_reference() {
        check(
            "README.md\n",
            &["README.md", "a/README.md", "README.md/x"],
            &["README.mdx"],
        );
        check(" *.md \n# c\n\n", &["a.md", "b/c.md"], &["a.MD", "# c"]);
        check("sub/", &["sub/a", "x/sub/a"], &["sub", "x/sub", "subs/a"]);
        check("/sub", &["sub", "sub/a/b"], &["x/sub"]);
        check("a/b", &["a/b", "a/b/c"], &["x/a/b", "a/bb"]);
        check("a/b/", &["a/b/c"], &["a/b"]);
        check("a/*/c", &["a/b/c"], &["a/c", "a/b/d/c"]);
        check("**/x.yaml", &["x.yaml", "a/b/x.yaml"], &["a/y.yaml"]);
        check("a/**/d", &["a/d", "a/b/c/d"], &["d"]);
        check("a/**", &["a/b", "a/b/c", "a"], &["b"]);
        check("**/x/y", &["x/y", "a/x/y"], &["x/x/y"]);
        check("a/b**", &[], &["a/b", "a/bc"]);
        check("**", &["a", "a/b"], &[]);
        check("?.yaml", &["a.yaml", "x/b.yaml"], &["ab.yaml", ".yaml"]);
        check("[a-c]x", &["ax", "cx"], &["dx", "x"]);
        check("[^a-c]x", &["dx"], &["ax"]);
        check("\\*x", &["*x"], &["ax"]);
        check("*a*b*c", &["abc", "xaxbxc", "aabbcc"], &["acb", "ab"]);
        check("[", &[], &["["]);
        check("[]a]", &[], &["]", "a"]);
        check("[a-]", &[], &["a", "-"]);
        check("x\\", &[], &["x", "x\\"]);
    }

    #[test]
    fn the_last_match_decides_even_below_an_ignored_directory() {
        check(
            "**/*\n!*.json\n!*.yaml\n**/objects/*.json\n**/objects/*.yaml\n",
            &["README.md", "objects/a.yaml", "p/objects/b.json"],
            &["a.yaml", "p/b.json", "p/objects/deep/c.yaml"],
        );
        check("sub/\n!keep.yaml\n", &["sub/a.yaml"], &["sub/keep.yaml"]);
    }

    #[test]
    fn patterns_hold_below_their_directory_and_the_inner_file_has_precedence() {
        let mut ignore = Ignore::default();
        ignore.add("", "*.yaml\n");
        ignore.add("sub", "!c.yaml\n/d.json\n");
        for (path, expected) in [
            ("c.yaml", true),
            ("sub/c.yaml", false),
            ("sub/deep/c.yaml", false),
            ("sub/d.json", true),
            ("sub/deep/d.json", false),
            ("d.json", false),
            ("sub/.indexignore", true),
        ] {
            assert_eq!(ignore.is_ignored(path), expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_and_mutated_files_never_panic_and_the_last_line_decides(
            text in "\\PC{0,80}", edits in edits(), path in "[a-z]{1,4}(/[a-z]{1,4}){0,3}"
        ) {
            let real = b"**/*\n!*.json\n!*.yaml\n**/objects/*.json\n/a/[b-d]?/**\n# c\nsub/\n";
            let real = String::from_utf8_lossy(&mutated(real, &edits)).into_owned();
            for text in [text, real] {
                let mut ignore = Ignore::default();
                ignore.add("", &text);
                // Only the absence of a panic matters here.
                _ = ignore.is_ignored(&path);
                ignore.add("", "**\n");
                prop_assert!(ignore.is_ignored(&path));
                ignore.add("", "!**\n");
                prop_assert_eq!(ignore.is_ignored(&path), path.ends_with(FILE_NAME));
            }
        }
    }
}

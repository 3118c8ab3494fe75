//! Names of images: `registry/repository:tag` and `registry/repository@sha256:…`, in strict form only.
//!
//! The grammar is that of [distribution/reference](https://github.com/distribution/reference/blob/v0.6.0/reference.go).
//! As in the reference implementation the text must already be in normal form (`docker.io/library/alpine:3`, not
//! `alpine:3`), and holds exactly one of tag and digest. Whoever wants a short form spells it out.

use std::fmt;
use std::sync::LazyLock;

use regex::Regex;

use super::digest::{Digest, InvalidDigest};
use crate::error::{Classify, Disposition, Reason};

/// The longest name (registry and repository together) that registries accept, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// The registry that names without a registry belong to.
const DEFAULT_REGISTRY: &str = "docker.io";

/// Name, optional tag, optional digest, each by its own grammar.
static GRAMMAR: LazyLock<Regex> = LazyLock::new(|| {
    let label = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
    let host = format!(r"(?:{label}(?:\.{label})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?");
    let part = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
    let tag = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}";
    let algorithm = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*";
    let pattern = format!(
        "^({host})/({part}(?:/{part})*)(?::({tag}))?(?:@({algorithm}:[0-9a-fA-F]{{32,}}))?$"
    );
    Regex::new(&pattern).expect("the grammar is a constant")
});

/// An image as a user names it: repository with a tag or with a digest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    repository: Repository,
    target: Target,
}

/// A registry and a repository in it, both parsed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Repository {
    registry: String,
    path: String,
}

/// What selects the image in its repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// Whatever the tag points at today.
    Tag(String),
    /// Exactly this manifest.
    Digest(Digest),
}

/// An image by digest: the same bytes wherever and whenever it is pulled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CanonicalReference {
    /// Where the image lives, by its logical name (mirrors do not change it).
    pub repository: Repository,
    /// The digest of the top-level manifest: of the index if the image is for several platforms.
    pub digest: Digest,
}

/// A text that does not name an image in strict form. The texts are those of the reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The grammar or the normal form is violated.
    #[error("error parsing image reference {reference:?}")]
    Unparsable {
        /// The text as given.
        reference: String,
        /// The rule that is violated.
        source: Malformed,
    },
    /// The name is sound, but selects no image or two.
    #[error("error creating reference")]
    Ambiguous {
        /// Nothing selected, or too much.
        source: Selection,
    },
}

/// The rule of the grammar that a text violates.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The text matches no form.
    #[error("invalid reference format")]
    Format,
    /// The repository contains upper-case letters.
    #[error("invalid reference format: repository name must be lowercase")]
    Uppercase,
    /// The text is a bare image id.
    #[error("invalid repository name ({0}), cannot specify 64-byte hexadecimal strings")]
    Identifier(String),
    /// The name is longer than registries accept.
    #[error("repository name must not be more than {MAX_NAME_BYTES} characters")]
    TooLong,
    /// The text is a short form of another name.
    #[error("repository name must be canonical")]
    NotCanonical,
    /// The digest is not one that oxolm verifies.
    #[error(transparent)]
    Digest(InvalidDigest),
}

/// What is wrong with the selection of an image in its repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Selection {
    /// Only a name.
    #[error("Docker reference {0} has neither a tag nor a digest")]
    Nothing(String),
    /// A tag and a digest.
    #[error("Docker references with both a tag and digest are currently not supported")]
    Both,
}

impl Classify for ReferenceError {
    fn disposition(&self) -> Disposition {
        Disposition::Terminal(Reason::Blocked)
    }
}

impl Reference {
    /// Parses `registry/repository:tag` or `registry/repository@sha256:…`.
    ///
    /// # Errors
    /// When the text is anything else, a short form included.
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        let unparsable = |source| ReferenceError::Unparsable {
            reference: text.to_owned(),
            source,
        };
        let Parts {
            normal,
            repository,
            tag,
            digest,
        } = Parts::of(text).map_err(unparsable)?;
        let digest = digest
            .map(|digest| Digest::parse(&digest))
            .transpose()
            .map_err(|error| unparsable(Malformed::Digest(error)))?;
        if normal != text {
            return Err(unparsable(Malformed::NotCanonical));
        }
        let target = match (tag, digest) {
            (Some(tag), None) => Target::Tag(tag),
            (None, Some(digest)) => Target::Digest(digest),
            (None, None) => {
                let source = Selection::Nothing(repository.to_string());
                return Err(ReferenceError::Ambiguous { source });
            }
            (Some(_), Some(_)) => {
                let source = Selection::Both;
                return Err(ReferenceError::Ambiguous { source });
            }
        };
        Ok(Self { repository, target })
    }

    /// Registry and repository.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Tag or digest.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Whether the reference always means the same bytes.
    pub fn is_digest(&self) -> bool {
        matches!(self.target, Target::Digest(_))
    }

    /// The canonical form, if the reference holds a digest already.
    pub fn canonical(&self) -> Option<CanonicalReference> {
        match &self.target {
            Target::Tag(_) => None,
            Target::Digest(digest) => Some(CanonicalReference {
                repository: self.repository.clone(),
                digest: digest.clone(),
            }),
        }
    }

    /// The canonical form of this image, once its digest is known.
    pub fn with_digest(&self, digest: Digest) -> CanonicalReference {
        CanonicalReference {
            repository: self.repository.clone(),
            digest,
        }
    }
}

impl Repository {
    /// Host and optional port of the registry, as written.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The path of the repository in its registry.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl CanonicalReference {
    /// Parses `registry/repository@sha256:…`.
    ///
    /// # Errors
    /// When the text is not a reference, or one by tag.
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        Reference::parse(text)?
            .canonical()
            .ok_or_else(|| ReferenceError::Unparsable {
                reference: text.to_owned(),
                source: Malformed::NotCanonical,
            })
    }
}

/// A name taken apart, its digest not looked at yet.
struct Parts {
    normal: String,
    repository: Repository,
    tag: Option<String>,
    digest: Option<String>,
}

impl Parts {
    fn of(text: &str) -> Result<Self, Malformed> {
        if text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(Malformed::Identifier(text.to_owned()));
        }
        let normal = normal_form(text)?;
        let parts = GRAMMAR.captures(&normal).ok_or(Malformed::Format)?;
        let part = |index: usize| parts.get(index).map(|found| found.as_str().to_owned());
        let repository = Repository {
            registry: part(1).unwrap_or_default(),
            path: part(2).unwrap_or_default(),
        };
        if repository.registry.len() + 1 + repository.path.len() > MAX_NAME_BYTES {
            return Err(Malformed::TooLong);
        }
        let (tag, digest) = (part(3), part(4));
        Ok(Self {
            normal,
            repository,
            tag,
            digest,
        })
    }
}

/// Whether container engines take `text` for the name of an image: short forms, neither tag nor digest, both, and the
/// digests of other algorithms included.
///
/// # Errors
/// The rule that is violated.
pub fn check_pull_spec(text: &str) -> Result<(), Malformed> {
    let Some(digest) = Parts::of(text)?.digest else {
        return Ok(());
    };
    let is_sound = |length: usize, hex: &str| {
        hex.len() == length && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_known = match digest.split_once(':') {
        Some(("sha256", hex)) => is_sound(64, hex),
        Some(("sha384", hex)) => is_sound(96, hex),
        Some(("sha512", hex)) => is_sound(128, hex),
        _ => false,
    };
    if is_known {
        Ok(())
    } else {
        Err(Malformed::Digest(InvalidDigest(digest)))
    }
}

/// The full form of `text`: short names belong to the default registry, its plain names to `library`.
fn normal_form(text: &str) -> Result<String, Malformed> {
    let (registry, rest) = match text.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
        _ => (DEFAULT_REGISTRY, text),
    };
    let registry = if registry == "index.docker.io" {
        DEFAULT_REGISTRY
    } else {
        registry
    };
    let name = rest.split_once(':').map_or(rest, |(name, _)| name);
    if name.chars().any(char::is_uppercase) {
        return Err(Malformed::Uppercase);
    }
    if registry == DEFAULT_REGISTRY && !rest.contains('/') {
        Ok(format!("{registry}/library/{rest}"))
    } else {
        Ok(format!("{registry}/{rest}"))
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.path)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Target::Tag(tag) => write!(f, "{}:{tag}", self.repository),
            Target::Digest(digest) => write!(f, "{}@{digest}", self.repository),
        }
    }
}

impl fmt::Display for Target {
    /// As it stands in the path of the distribution API.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => f.write_str(tag),
            Self::Digest(digest) => write!(f, "{digest}"),
        }
    }
}

impl fmt::Display for CanonicalReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.repository, self.digest)
    }
}

impl From<CanonicalReference> for Reference {
    fn from(canonical: CanonicalReference) -> Self {
        Self {
            repository: canonical.repository,
            target: Target::Digest(canonical.digest),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::chain;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn full_names_with_one_selector_are_references() {
        for text in [
            "docker.io/library/alpine:3",
            "quay.io/operatorhubio/catalog:latest",
            "localhost/a:b",
            "localhost:5000/a/b/c__d/e-f---g.h_i:V1.2_x-",
            "127.0.0.1:5000/a:_",
            "[::1]:5000/a:1",
            "REGISTRY.example.com/a:1",
            &format!("quay.io/a/b@sha256:{HEX}"),
        ] {
            let reference = Reference::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(reference.to_string(), text);
        }
    }

    #[test]
    fn pull_specs_are_what_engines_take() {
        for yes in [
            "alpine",
            "quay.io/a/b",
            "quay.io/a/b:1",
            &format!("quay.io/a/b:1@sha256:{HEX}"),
            &format!("a@sha512:{HEX}{HEX}"),
        ] {
            assert_eq!(check_pull_spec(yes), Ok(()), "{yes}");
        }
        for no in [
            "Alpine",
            "quay.io/a b",
            "quay.io/a:",
            HEX,
            &format!("a@md5:{HEX}"),
            &format!("a@sha512:{HEX}"),
            &format!("a@sha256:{}", HEX.to_uppercase()),
        ] {
            assert!(check_pull_spec(no).is_err(), "{no}");
        }
    }

    #[test]
    fn what_is_not_strict_is_refused_with_the_reason() {
        let long = format!("quay.io/{}:1", "a".repeat(250));
        let tag = format!("quay.io/a:{}", "t".repeat(129));
        let parse = |text: &str, cause: &str| {
            (
                text.to_owned(),
                format!("error parsing image reference {text:?}: {cause}"),
            )
        };
        let create = |text: &str, cause: &str| {
            (
                text.to_owned(),
                format!("error creating reference: {cause}"),
            )
        };
        for (text, expected) in [
            parse("", "invalid reference format"),
            parse("quay.io/", "invalid reference format"),
            parse("quay.io//a:b", "invalid reference format"),
            parse("quay.io/a:b\n", "invalid reference format"),
            parse("-quay.io/a:b", "invalid reference format"),
            parse("quay.io/a:-b", "invalid reference format"),
            parse("quay.io/a@sha256:abc", "invalid reference format"),
            parse(&tag, "invalid reference format"),
            parse(
                "quay.io/foo/BAR:latest",
                "invalid reference format: repository name must be lowercase",
            ),
            parse("alpine:3", "repository name must be canonical"),
            parse("foo/bar:latest", "repository name must be canonical"),
            parse("docker.io/alpine:3", "repository name must be canonical"),
            parse(
                "index.docker.io/library/alpine:3",
                "repository name must be canonical",
            ),
            parse(
                &long,
                "repository name must not be more than 255 characters",
            ),
            parse(
                HEX,
                &format!(
                    "invalid repository name ({HEX}), cannot specify 64-byte hexadecimal strings"
                ),
            ),
            parse(
                &format!("quay.io/a@sha256:{}", HEX.to_uppercase()),
                &format!(
                    "invalid digest \"sha256:{}\": expected sha256: and 64 lower-case hexadecimal digits",
                    HEX.to_uppercase()
                ),
            ),
            create(
                "quay.io/a/b",
                "Docker reference quay.io/a/b has neither a tag nor a digest",
            ),
            create(
                &format!("quay.io/a:b@sha256:{HEX}"),
                "Docker references with both a tag and digest are currently not supported",
            ),
        ] {
            let error = Reference::parse(&text).expect_err(&text);
            assert_eq!(chain(&error), expected);
            assert_eq!(error.disposition(), Disposition::Terminal(Reason::Blocked));
        }
    }

    #[test]
    fn only_a_digest_makes_a_canonical_reference() {
        let text = format!("quay.io/a@sha256:{HEX}");
        assert_eq!(CanonicalReference::parse(&text).unwrap().to_string(), text);
        assert!(CanonicalReference::parse("quay.io/a:b").is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics_and_what_parses_prints_as_it_was(text in "\\PC{0,80}") {
            if let Ok(reference) = Reference::parse(&text) {
                prop_assert_eq!(reference.to_string(), text);
            }
        }

        #[test]
        fn parse_and_print_are_inverse(
            text in "(quay\\.io|localhost:5000|a-b\\.c|\\[::1\\]:5)/[a-z0-9]{1,8}(/[a-z0-9]{1,3}(__|-{1,3}|\\.)[a-z]{1,3}){0,2}(:[A-Za-z0-9_][\\w.-]{0,9}|@sha256:[0-9a-f]{64})"
        ) {
            prop_assume!(text.is_ascii());
            let reference = Reference::parse(&text).unwrap();
            prop_assert_eq!(reference.to_string(), text);
        }
    }
}

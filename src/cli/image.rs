#![expect(clippy::disallowed_methods, reason = "shell: reads directories")]
//! `oxolm image`: images of catalogs and bundles, without a container engine.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};
use serde::Deserialize;

use super::Answer;
use super::source::Sources;
use crate::oci::reference::Reference;
use crate::registry::build::{BuiltImage, archive};
use crate::store::CONFIGS_LABEL;

/// Where the content of a catalog lies in its image.
const CATALOG_DIRECTORY: &str = "configs";

/// The directories of a bundle.
const BUNDLE_DIRECTORIES: [&str; 2] = ["manifests", "metadata"];

/// The file of a bundle that holds its annotations.
const ANNOTATIONS: &str = "metadata/annotations.yaml";

/// The prefix of annotations that are labels of a bundle image, too.
const BUNDLE_PREFIX: &str = "operators.operatorframework.io.";

/// Labels that every bundle image has.
const BUNDLE_LABELS: [(&str, &str); 3] = [
    (
        "operators.operatorframework.io.bundle.manifests.v1",
        "manifests/",
    ),
    (
        "operators.operatorframework.io.bundle.mediatype.v1",
        "registry+v1",
    ),
    (
        "operators.operatorframework.io.bundle.metadata.v1",
        "metadata/",
    ),
];

/// Build and push images of catalogs and bundles, without a container engine.
///
/// The same files always make the same image: one layer, sorted, without times and owners.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(super) struct Image {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write an image as an OCI layout: a directory, or an archive if the name ends in .tar.
    #[command(after_help = "Example:\n  oxolm image build ./my-catalog -o my-catalog.tar")]
    Build(Build),
    /// Build an image and push it; prints the reference by digest.
    ///
    /// Registries on this machine (127.0.0.0/8, localhost) may speak plain HTTP; all others must speak HTTPS.
    #[command(
        after_help = "Example:\n  oxolm image push ./my-bundle quay.io/me/my-bundle:v1.0.0 --kind bundle"
    )]
    Push(Push),
}

#[derive(Debug, Args)]
struct Build {
    #[command(flatten)]
    content: Content,
    /// The layout to write: a new or empty directory, or a file NAME.tar
    #[arg(short, long, value_name = "FILE.tar|LAYOUT")]
    output: PathBuf,
}

#[derive(Debug, Args)]
struct Push {
    #[command(flatten)]
    content: Content,
    /// Where to push, in full: registry/repository:tag
    #[arg(value_name = "REF")]
    reference: String,
    #[command(flatten)]
    sources: Sources,
}

#[derive(Debug, Args)]
struct Content {
    /// The directory that the image is made of
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// What the directory holds [default: bundle if it has metadata/annotations.yaml, else catalog]
    #[arg(long)]
    kind: Option<Kind>,
    /// A further label of the image; may be given several times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    labels: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A file-based catalog
    Catalog,
    /// A registry+v1 bundle: manifests/ and metadata/
    Bundle,
}

pub(super) fn run(arguments: &Image) -> anyhow::Result<Answer> {
    match &arguments.command {
        Command::Build(build) => write(build),
        Command::Push(push) => upload(push),
    }
}

fn write(arguments: &Build) -> anyhow::Result<Answer> {
    let image = arguments.content.image()?;
    let layout = image.layout(None)?;
    let output = &arguments.output;
    if output
        .extension()
        .is_some_and(|extension| extension == "tar")
    {
        fs::write(output, archive(&layout)?)
            .with_context(|| format!("cannot write {}", output.display()))?;
    } else {
        let is_free =
            fs::read_dir(output).map_or(!output.exists(), |mut entries| entries.next().is_none());
        ensure!(
            is_free,
            "{} exists and is not an empty directory",
            output.display()
        );
        for (path, bytes) in &layout {
            let path = output.join(path);
            let parent = path.parent().unwrap_or(output);
            fs::create_dir_all(parent)
                .with_context(|| format!("cannot create {}", parent.display()))?;
            fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    writeln!(anstream::stdout(), "{}", image.digest)?;
    Ok(Answer::Yes)
}

fn upload(arguments: &Push) -> anyhow::Result<Answer> {
    let reference = Reference::parse(&arguments.reference)?;
    let image = arguments.content.image()?;
    let client = arguments.sources.client()?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
    let pushed = runtime.block_on(client.push(&image, &reference))?;
    writeln!(anstream::stdout(), "{pushed}")?;
    Ok(Answer::Yes)
}

impl Content {
    fn image(&self) -> anyhow::Result<BuiltImage> {
        let directory = &self.directory;
        let kind = self.kind.unwrap_or_else(|| {
            if directory.join(ANNOTATIONS).exists() {
                Kind::Bundle
            } else {
                Kind::Catalog
            }
        });
        let mut files = BTreeMap::new();
        let mut labels = BTreeMap::new();
        match kind {
            Kind::Catalog => {
                read_files(directory, CATALOG_DIRECTORY, &mut files)?;
                ensure!(!files.is_empty(), "{} holds no files", directory.display());
                labels.insert(CONFIGS_LABEL.to_owned(), format!("/{CATALOG_DIRECTORY}"));
            }
            Kind::Bundle => {
                for name in BUNDLE_DIRECTORIES {
                    let path = directory.join(name);
                    ensure!(
                        path.is_dir(),
                        "{} has no directory {name}, so it is no bundle",
                        directory.display()
                    );
                    read_files(&path, name, &mut files)?;
                }
                let annotations = files.get(ANNOTATIONS);
                let annotations = annotations
                    .with_context(|| format!("{} has no {ANNOTATIONS}", directory.display()))?;
                labels = bundle_labels(annotations)?;
            }
        }
        labels.extend(self.labels.iter().cloned());
        Ok(BuiltImage::build(&files, &labels)?)
    }
}

fn bundle_labels(annotations: &[u8]) -> anyhow::Result<BTreeMap<String, String>> {
    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        annotations: BTreeMap<String, String>,
    }
    let text =
        std::str::from_utf8(annotations).with_context(|| format!("{ANNOTATIONS} is not text"))?;
    let file: File =
        serde_saphyr::from_str(text).with_context(|| format!("cannot read {ANNOTATIONS}"))?;
    let mut labels: BTreeMap<_, _> = BUNDLE_LABELS
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    let mut own = file.annotations;
    own.retain(|key, _| key.starts_with(BUNDLE_PREFIX));
    labels.extend(own);
    Ok(labels)
}

/// Reads every file below `directory` as `prefix/…`.
fn read_files(
    directory: &Path,
    prefix: &str,
    files: &mut BTreeMap<String, Vec<u8>>,
) -> anyhow::Result<()> {
    let shown = directory.display();
    for entry in
        fs::read_dir(directory).with_context(|| format!("cannot read directory {shown}"))?
    {
        let entry = entry.with_context(|| format!("cannot read directory {shown}"))?;
        let path = entry.path();
        let name = entry.file_name();
        let name = name
            .to_str()
            .with_context(|| format!("the name of {} is not text", path.display()))?;
        let name = format!("{prefix}/{name}");
        let kind = entry
            .file_type()
            .with_context(|| format!("cannot read {}", path.display()))?;
        if kind.is_dir() {
            read_files(&path, &name, files)?;
        } else if kind.is_file() {
            let bytes =
                fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            files.insert(name, bytes);
        } else {
            bail!("{} is neither a file nor a directory", path.display());
        }
    }
    Ok(())
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a label is KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(directory: &Path) -> Content {
        Content {
            directory: directory.to_owned(),
            kind: None,
            labels: vec![("x".to_owned(), "y=z".to_owned())],
        }
    }

    fn put(directory: &Path, path: &str, text: &str) {
        let path = directory.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn labels(image: &BuiltImage) -> BTreeMap<String, String> {
        crate::oci::manifest::labels(&image.blobs[0].1).unwrap()
    }

    #[test]
    fn a_directory_with_annotations_is_a_bundle() {
        let directory = tempfile::tempdir().unwrap();
        put(directory.path(), "manifests/csv.yaml", "a: b");
        let error = |content: &Content| format!("{:#}", content.image().unwrap_err());
        let mut bundle = content(directory.path());
        bundle.kind = Some(Kind::Bundle);
        assert!(error(&bundle).ends_with("has no directory metadata, so it is no bundle"));
        put(directory.path(), "metadata/properties.yaml", "");
        assert!(error(&bundle).ends_with("has no metadata/annotations.yaml"));
        put(directory.path(), ANNOTATIONS, "annotations: [");
        assert!(error(&bundle).starts_with("cannot read metadata/annotations.yaml"));
        let annotations =
            "annotations:\n  operators.operatorframework.io.bundle.package.v1: p\n  other: o\n";
        put(directory.path(), ANNOTATIONS, annotations);
        put(directory.path(), "tests/x.yaml", "");
        let found = labels(&content(directory.path()).image().unwrap());
        let keys: Vec<_> = found
            .iter()
            .map(|(k, v)| format!("{}={v}", k.trim_start_matches(BUNDLE_PREFIX)))
            .collect();
        let expected = [
            "bundle.manifests.v1=manifests/",
            "bundle.mediatype.v1=registry+v1",
            "bundle.metadata.v1=metadata/",
            "bundle.package.v1=p",
            "x=y=z",
        ];
        assert_eq!(keys, expected);
    }

    #[test]
    fn another_directory_is_a_catalog() {
        let directory = tempfile::tempdir().unwrap();
        let empty = content(directory.path()).image().unwrap_err();
        assert!(empty.to_string().ends_with("holds no files"));
        put(directory.path(), "p/catalog.yaml", "schema: olm.package");
        let found = labels(&content(directory.path()).image().unwrap());
        assert_eq!(found[CONFIGS_LABEL], "/configs");
        std::os::unix::fs::symlink("p", directory.path().join("link")).unwrap();
        let error = content(directory.path()).image().unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("is neither a file nor a directory")
        );
    }

    #[test]
    fn a_layout_is_written_as_directory_or_archive() {
        let directory = tempfile::tempdir().unwrap();
        put(directory.path(), "in/a.yaml", "schema: x");
        for name in ["out", "out.tar"] {
            let build = Build {
                content: content(&directory.path().join("in")),
                output: directory.path().join(name),
            };
            assert_eq!(write(&build).unwrap(), Answer::Yes);
        }
        let index = fs::read(directory.path().join("out/index.json")).unwrap();
        let bytes = fs::read(directory.path().join("out.tar")).unwrap();
        assert!(bytes.windows(index.len()).any(|window| window == index));
        let again = Build {
            content: content(&directory.path().join("in")),
            output: directory.path().join("out"),
        };
        assert!(
            write(&again)
                .unwrap_err()
                .to_string()
                .ends_with("exists and is not an empty directory")
        );
    }

    #[test]
    fn labels_are_pairs() {
        assert_eq!(parse_label("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(parse_label("=b").is_err());
        assert!(parse_label("a").is_err());
    }
}

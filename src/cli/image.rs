#![expect(clippy::disallowed_methods, reason = "shell: reads directories")]
//! `oxolm image`: images of catalogs, bundles and programs, without a container engine.

mod elf;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};
use serde::Deserialize;

use super::Answer;
use super::directory::check_new_or_empty;
use super::source::{self, Sources};
use crate::oci::manifest::Platform;
use crate::oci::reference::Reference;
use crate::registry::build::{BuiltImage, Program, archive};
use crate::store::CONFIGS_LABEL;

/// As whom a program runs: nobody in particular, and not root.
const USER: &str = "65532:65532";

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

/// Build and push images of catalogs, bundles and programs, without a container engine.
///
/// The same files always make the same image: one layer, sorted, without times and owners.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        oxolm image push ./my-catalog registry.example.com/my-catalog:v1 --kind catalog"
)]
pub(super) struct Image {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write an image as an OCI layout: a directory, or an archive if the name ends in .tar.
    #[command(
        after_help = "Examples:\n  oxolm image build ./my-catalog -o my-catalog.tar\n  oxolm image build amd64/operator arm64/operator --add ca-certificates.crt=etc/ssl/certs/ca-certificates.crt -o operator.tar"
    )]
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
    /// The directory of a catalog or bundle; or a static program, for several platforms one for each
    #[arg(value_name = "SRC", required = true)]
    sources: Vec<PathBuf>,
    #[command(flatten)]
    content: Content,
    /// The layout to write: a new or empty directory, or a file NAME.tar
    #[arg(short, long, value_name = "FILE.tar|LAYOUT")]
    output: PathBuf,
}

#[derive(Debug, Args)]
struct Push {
    /// The directory of a catalog or bundle, a static program, or an OCI layout that was built before
    #[arg(value_name = "SRC")]
    source: PathBuf,
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
    /// What SRC is [default: program if it is one, bundle if it has metadata/annotations.yaml, else catalog]
    #[arg(long)]
    kind: Option<Kind>,
    /// Beside a program: a further file, at this path in the image; may be given several times
    #[arg(long = "add", value_name = "FILE=PATH", value_parser = parse_addition)]
    additions: Vec<(PathBuf, String)>,
    /// As whom a program runs
    #[arg(long, value_name = "UID:GID", default_value = USER)]
    user: String,
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
    /// A static Linux program; the image holds nothing else but what is added
    Program,
}

pub(super) fn run(arguments: &Image) -> anyhow::Result<Answer> {
    match &arguments.command {
        Command::Build(build) => write(build),
        Command::Push(push) => upload(push),
    }
}

fn write(arguments: &Build) -> anyhow::Result<Answer> {
    let image = arguments.content.image(&arguments.sources)?;
    let layout = image.layout(None)?;
    let output = &arguments.output;
    if output
        .extension()
        .is_some_and(|extension| extension == "tar")
    {
        fs::write(output, archive(&layout)?)
            .with_context(|| format!("cannot write {}", output.display()))?;
    } else {
        check_new_or_empty(output)?;
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
    let image = match source::image_on_disk(&arguments.source)? {
        Some(built) => {
            arguments.content.check_is_plain()?;
            built
        }
        None => arguments
            .content
            .image(std::slice::from_ref(&arguments.source))?,
    };
    let client = arguments.sources.client()?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
    let pushed = runtime.block_on(client.push(&image, &reference))?;
    writeln!(anstream::stdout(), "{pushed}")?;
    Ok(Answer::Yes)
}

impl Content {
    fn image(&self, sources: &[PathBuf]) -> anyhow::Result<BuiltImage> {
        let labels: BTreeMap<_, _> = self.labels.iter().cloned().collect();
        let (first, more) = sources
            .split_first()
            .context("nothing to make an image of")?;
        let kind = match self.kind {
            Some(kind) => kind,
            None => Kind::of(first)?,
        };
        if kind == Kind::Program {
            return self.programs(sources, &labels);
        }
        ensure!(
            more.is_empty(),
            "only programs can be several, one for each platform"
        );
        ensure!(
            self.additions.is_empty() && self.user == USER,
            "--add and --user are for programs, and {} is none",
            first.display()
        );
        let (files, mut found) = match kind {
            Kind::Bundle => bundle(first)?,
            Kind::Catalog | Kind::Program => catalog(first)?,
        };
        found.extend(labels);
        Ok(BuiltImage::build(&files, &found)?)
    }

    /// An index of the programs, of which each is for another platform.
    fn programs(
        &self,
        sources: &[PathBuf],
        labels: &BTreeMap<String, String>,
    ) -> anyhow::Result<BuiltImage> {
        let mut added = BTreeMap::new();
        for (file, path) in &self.additions {
            let bytes =
                fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
            added.insert(path.clone(), bytes);
        }
        let mut images: Vec<(Platform, BuiltImage)> = Vec::new();
        let mut path = None;
        for source in sources {
            let shown = source.display();
            let bytes = fs::read(source).with_context(|| format!("cannot read {shown}"))?;
            let architecture = elf::architecture_of_static(&bytes)
                .map_err(|why| anyhow!("{shown} cannot be an image's program: {why}"))?;
            let platform = Platform::new("linux", architecture);
            let name = source.file_name().and_then(OsStr::to_str);
            let name = name.with_context(|| format!("the name of {shown} is not text"))?;
            ensure!(
                path.is_none_or(|path| path == name),
                "programs for several platforms must have one name: {shown} has another"
            );
            path = Some(name);
            ensure!(
                images.iter().all(|(other, _)| *other != platform),
                "{shown} is a second program for {}",
                platform.architecture
            );
            let mut files = added.clone();
            files.insert(name.to_owned(), bytes);
            let program = Program {
                path: name.to_owned(),
                platform: platform.clone(),
                user: self.user.clone(),
            };
            images.push((platform, BuiltImage::program(&files, labels, &program)?));
        }
        Ok(BuiltImage::index(images)?)
    }

    /// An image that was built before is pushed as it is.
    fn check_is_plain(&self) -> anyhow::Result<()> {
        ensure!(
            self.kind.is_none()
                && self.labels.is_empty()
                && self.additions.is_empty()
                && self.user == USER,
            "an OCI layout is pushed as it is: --kind, --label, --add and --user are for \"oxolm image build\""
        );
        Ok(())
    }
}

impl Kind {
    fn of(source: &Path) -> anyhow::Result<Self> {
        if source.is_dir() {
            let is_bundle = source.join(ANNOTATIONS).exists();
            return Ok(if is_bundle {
                Self::Bundle
            } else {
                Self::Catalog
            });
        }
        let mut start = Vec::new();
        fs::File::open(source)
            .and_then(|file| file.take(4).read_to_end(&mut start))
            .with_context(|| format!("cannot read {}", source.display()))?;
        ensure!(
            elf::is_program(&start),
            "{} is neither a directory nor a Linux program",
            source.display()
        );
        Ok(Self::Program)
    }
}

type FilesAndLabels = (BTreeMap<String, Vec<u8>>, BTreeMap<String, String>);

fn catalog(directory: &Path) -> anyhow::Result<FilesAndLabels> {
    let mut files = BTreeMap::new();
    read_files(directory, CATALOG_DIRECTORY, &mut files)?;
    ensure!(!files.is_empty(), "{} holds no files", directory.display());
    let label = (CONFIGS_LABEL.to_owned(), format!("/{CATALOG_DIRECTORY}"));
    Ok((files, BTreeMap::from([label])))
}

fn bundle(directory: &Path) -> anyhow::Result<FilesAndLabels> {
    let mut files = BTreeMap::new();
    for name in BUNDLE_DIRECTORIES {
        let path = directory.join(name);
        ensure!(
            path.is_dir(),
            "{} has no directory {name}, so it is no bundle",
            directory.display()
        );
        read_files(&path, name, &mut files)?;
    }
    let annotations = files
        .get(ANNOTATIONS)
        .with_context(|| format!("{} has no {ANNOTATIONS}", directory.display()))?;
    let labels = bundle_labels(annotations)?;
    Ok((files, labels))
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

fn parse_addition(text: &str) -> Result<(PathBuf, String), String> {
    match text.split_once('=') {
        Some((file, path)) if !file.is_empty() && !path.is_empty() && !path.ends_with('/') => {
            let path = path.trim_start_matches('/');
            let leads_out = Path::new(path)
                .components()
                .any(|part| !matches!(part, Component::Normal(_)));
            if leads_out {
                return Err(format!("{path:?} is no path below the root of an image"));
            }
            Ok((file.into(), path.to_owned()))
        }
        _ => Err("a further file is FILE=PATH".to_owned()),
    }
}

#[cfg(test)]
mod tests;

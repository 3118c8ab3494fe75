#![expect(
    clippy::disallowed_methods,
    reason = "the command writes the catalog that it is asked for"
)]
//! `oxolm catalog prune`

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use serde_json::{Value, json};

use super::list::entry;
use super::open::From;
use super::select::{self, Selection};
use super::{Answer, Member as _, Streams, printable};
use crate::cli::directory::check_new_or_empty;
use crate::fbc::meta::Meta;
use crate::fbc::prune::{Pruned, prune};
use crate::fbc::validate::{Severity, Validator};
use crate::store::catalog;

/// The file of each package.
const FILE: &str = "catalog.jsonl";

/// Write a smaller catalog: some packages, and of them some versions.
///
/// The upgrade graph stays sound: whoever could be upgraded to a bundle that stays still can, also from a bundle that goes.
/// What had to be changed for that is told on standard error. The result lies in DIR/PACKAGE/catalog.jsonl.
///
/// Exit code 0: done; 1: the server would refuse the catalog, there is no such package or version, or the result has errors that
/// the catalog had before; 2: SRC or DIR cannot be used.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  oxolm catalog prune quay.io/operatorhubio/catalog:latest cert-manager@\">=1.16\" argocd-operator -d ./small\n  \
        oxolm image push ./small registry.example.com/catalog:v1 --kind catalog"
)]
pub(super) struct Prune {
    /// The catalog: a directory, a file, an image, or cluster:NAME
    #[arg(value_name = "SRC")]
    source: String,
    /// The packages that stay, and which of their versions
    #[arg(value_name = "PACKAGE[@RANGE]", required = true)]
    selections: Vec<Selection>,
    /// Where the catalog is written: a new or empty directory
    #[arg(short, long, value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    from: From,
}

pub(super) fn run(arguments: &Prune, streams: &mut Streams<'_>) -> anyhow::Result<Answer> {
    let directory = &arguments.directory;
    check_new_or_empty(directory)?;
    let opened = arguments.from.open(&arguments.source)?;
    let packages = catalog::packages(opened.path())?;
    let Some(chosen) = select::bundles(&packages, &arguments.selections, streams)? else {
        return Ok(Answer::No);
    };
    let mut pruned: BTreeMap<&str, Pruned> = BTreeMap::new();
    for (name, keep) in &chosen {
        if let Some(Ok(package)) = packages.get(*name) {
            let result = prune(package, keep);
            for note in &result.notes {
                writeln!(streams.complaints, "package {name}: {}", printable(note))
                    .context("cannot write the answer")?;
            }
            pruned.insert(name, result);
        }
    }
    let mut writer = Writer {
        directory,
        files: BTreeMap::new(),
    };
    let mut written = Ok(());
    catalog::read_directory_or_file(opened.path(), &mut |_, located| {
        let package = located.meta.package_name();
        if let Some(result) = pruned.get(package)
            && written.is_ok()
            && let Some(blob) = blob(&located.meta, result)
        {
            written = writer.write(package, &blob);
        }
    })?;
    written?;
    writer.finish()?;
    errors_of(directory, streams)
}

/// The blob as it stays; `None` if it goes.
fn blob(meta: &Meta, pruned: &Pruned) -> Option<Vec<u8>> {
    let value = || serde_json::from_slice::<Value>(&meta.blob).ok();
    match meta.schema.as_str() {
        Meta::PACKAGE => {
            let mut package = value()?;
            if let Some(channel) = &pruned.default_channel {
                set(&mut package, "defaultChannel", json!(channel));
            }
            Some(package.to_string().into_bytes())
        }
        Meta::CHANNEL => {
            let left = pruned.channels.iter().find(|one| one.name == meta.name)?;
            let mut channel = value()?;
            let entries = left.entries.iter().map(|one| {
                let mut entry = entry(one);
                if let Some(members) = entry.as_object_mut() {
                    members.retain(|_, value| *value != json!("") && *value != json!([]));
                }
                entry
            });
            set(&mut channel, "entries", entries.collect());
            Some(channel.to_string().into_bytes())
        }
        Meta::BUNDLE => pruned
            .bundles
            .contains(&meta.name)
            .then(|| meta.blob.clone()),
        Meta::DEPRECATIONS => {
            let mut deprecations = value()?;
            let stays = |one: &Value| {
                let name = one
                    .member("reference")
                    .member("name")
                    .as_str()
                    .unwrap_or_default();
                match one.member("reference").member("schema").as_str() {
                    Some(Meta::BUNDLE) => pruned.bundles.contains(name),
                    Some(Meta::CHANNEL) => pruned.channels.iter().any(|left| left.name == name),
                    _ => true,
                }
            };
            let entries = deprecations.member("entries").as_array().cloned();
            let entries: Vec<Value> = entries.into_iter().flatten().filter(stays).collect();
            if entries.is_empty() {
                return None;
            }
            set(&mut deprecations, "entries", json!(entries));
            Some(deprecations.to_string().into_bytes())
        }
        _ => Some(meta.blob.clone()),
    }
}

/// Sets a member, under the name that it has already in whatever case.
fn set(object: &mut Value, name: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.retain(|key, _| !key.eq_ignore_ascii_case(name));
        members.insert(name.to_owned(), value);
    }
}

struct Writer<'a> {
    directory: &'a Path,
    files: BTreeMap<String, BufWriter<File>>,
}

impl Writer<'_> {
    fn write(&mut self, package: &str, blob: &[u8]) -> anyhow::Result<()> {
        let path = self.directory.join(package);
        let failed = || format!("cannot write to {}", path.display());
        if !self.files.contains_key(package) {
            fs::create_dir_all(&path).with_context(failed)?;
            let file = File::create(path.join(FILE)).with_context(failed)?;
            self.files.insert(package.to_owned(), BufWriter::new(file));
        }
        let file = self.files.get_mut(package).context("the file is open")?;
        file.write_all(blob)
            .and_then(|()| file.write_all(b"\n"))
            .with_context(failed)
    }

    fn finish(self) -> anyhow::Result<()> {
        for (package, mut file) in self.files {
            file.flush()
                .with_context(|| format!("cannot write the files of {package}"))?;
        }
        Ok(())
    }
}

/// Whether the result is sound; complains about what the catalog had wrong before.
fn errors_of(directory: &Path, streams: &mut Streams<'_>) -> anyhow::Result<Answer> {
    let mut validator = Validator::default();
    catalog::examine(directory, &mut |file, document| match document {
        Ok((meta, line)) => validator.add(&Arc::from(file), line, meta.as_ref()),
        Err(error) => validator.refuse(file, None, error.to_string()),
    })?;
    let findings = validator.finish();
    let errors: BTreeSet<String> = findings
        .iter()
        .filter(|one| one.severity == Severity::Error)
        .map(|one| format!("{} {:?}: {}", one.schema, one.name, one.message))
        .collect();
    for error in &errors {
        writeln!(streams.complaints, "{}", printable(error)).context("cannot write the answer")?;
    }
    Ok(if errors.is_empty() {
        Answer::Yes
    } else {
        Answer::No
    })
}

#![expect(
    clippy::disallowed_methods,
    reason = "the command writes the files that it is asked for"
)]
//! `oxolm render`: the objects of a bundle.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde_json::Value;

use super::Answer;
use super::directory::check_new_or_empty;
use super::objects::{Certificates, Form, configuration, json_text, refusal, yaml_stream};
use super::source::Sources;
use crate::bundle::RegistryV1;
use crate::render::{self, RenderOptions};
use crate::revision::phase::{self, ObjectMarks};

/// The longest name of a file that is made of the name of an object, in bytes.
const LONGEST_NAME: usize = 200;

/// Print the objects of a bundle, in the order in which they are applied.
///
/// They are those of an extension with this namespace and configuration, before anything says whose they are.
///
/// Exit code 0: rendered; 1: refused, with the message of the extension's condition; 2: SRC or FILE cannot be used.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        oxolm render ./my-bundle --namespace my-operator\n  \
        oxolm render quay.io/me/my-bundle:v1.0.0 -n my-operator --config config.yaml -o json"
)]
pub(super) struct Render {
    /// The bundle: a directory, a tar archive, or an image
    #[arg(value_name = "SRC")]
    source: String,
    /// The namespace it is installed in [default: the one that the bundle suggests]
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// The extension's spec.config.inline, as YAML or JSON [default: the extension has no spec.config]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Who makes the certificates of webhooks
    #[arg(long, value_enum, default_value_t = Certificates::CertManager)]
    certificates: Certificates,
    /// How to print the objects; json is one array
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,
    /// Write a file for each object to this new or empty directory instead
    #[arg(long, value_name = "DIR")]
    split: Option<PathBuf>,
    #[command(flatten)]
    sources: Sources,
}

/// Runs `oxolm render`.
pub(super) fn run(arguments: &Render) -> anyhow::Result<Answer> {
    let objects = match arguments.installable() {
        Ok(objects) => objects,
        Err(error) => {
            let message = refusal(&error).ok_or(error)?;
            writeln!(anstream::stderr(), "{message}").context("cannot write the answer")?;
            return Ok(Answer::No);
        }
    };
    match &arguments.split {
        Some(directory) => arguments.write(directory, &objects)?,
        None => anstream::stdout()
            .write_all(arguments.print(&objects)?.as_bytes())
            .context("cannot write to standard output")?,
    }
    Ok(Answer::Yes)
}

impl Render {
    /// The rendered objects in apply order.
    fn objects(&self) -> anyhow::Result<Vec<Value>> {
        let config = self.config.as_deref().map(configuration).transpose()?;
        let bundle = RegistryV1::load(&self.sources.bundle_files(&self.source)?)?;
        let suggested = bundle.suggested_namespace();
        let namespace = self
            .namespace
            .as_deref()
            .or(suggested.as_deref())
            .context("the bundle suggests no namespace: name one with --namespace")?;
        let options = RenderOptions {
            install_namespace: namespace,
            config: config.as_ref(),
            certificates: self.certificates.into(),
        };
        let mut objects = render::render(&bundle, &options)?.objects;
        phase::sort(&mut objects);
        Ok(objects)
    }

    /// The objects of a bundle that the controller would not block: it puts them into a revision.
    fn installable(&self) -> anyhow::Result<Vec<Value>> {
        let objects = self.objects()?;
        phase::phases(&objects, &ObjectMarks::default())?;
        Ok(objects)
    }

    fn print(&self, objects: &[Value]) -> anyhow::Result<String> {
        match self.output {
            Form::Yaml => yaml_stream(objects),
            Form::Json => json_text(&objects),
        }
    }

    /// Writes each object to a file of `directory`, whose name begins with the object's place.
    fn write(&self, directory: &Path, objects: &[Value]) -> anyhow::Result<()> {
        let shown = directory.display();
        check_new_or_empty(directory)?;
        fs::create_dir_all(directory).with_context(|| format!("cannot make directory {shown}"))?;
        let digits = objects.len().to_string().len().max(2);
        for (index, object) in objects.iter().enumerate() {
            let (text, ending) = match self.output {
                Form::Yaml => (yaml_stream([object])?, "yaml"),
                Form::Json => (json_text(object)?, "json"),
            };
            let place = index + 1;
            let path = directory.join(format!("{place:0digits$}-{}.{ending}", file_name(object)));
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

/// Kind and name of an object, fit for the name of a file.
fn file_name(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let kind = text("/kind").unwrap_or_default().to_lowercase();
    let name = text("/metadata/name").unwrap_or_default();
    format!("{kind}-{name}")
        .chars()
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '_' => c,
            _ => '_',
        })
        .take(LONGEST_NAME)
        .collect()
}

#[cfg(test)]
mod tests;

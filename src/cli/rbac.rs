//! `oxolm rbac`: the rights that an installing account needs.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Answer;
use super::objects::{Certificates, Form, configuration, refusal, yaml_stream};
use super::source::Sources;
use crate::bundle::RegistryV1;
use crate::preflight::permissions::{Needs, Right, built_in, defined_kinds, needs};
use crate::render::{self, RenderOptions};

/// Tell which rights an account needs to install a bundle.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(super) struct Rbac {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the least roles and bindings with which an account can install, maintain and remove a bundle.
    ///
    /// The rights are those on the objects of the bundle, by name, and those that the bundle gives to its own accounts:
    /// nobody may give away what he has not. The namespace and the account are not made.
    #[command(
        after_help = "Example:\n  oxolm rbac generate ./my-bundle --namespace my-operator \
        --service-account installer | kubectl apply -f -"
    )]
    Generate(Generate),
}

#[derive(Debug, Args)]
struct Generate {
    /// Bundles of one package, as directories or images; several, for an upgrade from one to another
    #[arg(value_name = "SRC", required = true)]
    sources: Vec<String>,
    /// The namespace that it is installed in, and that the account is in
    #[arg(short, long, value_name = "NS")]
    namespace: String,
    /// The account
    #[arg(long, value_name = "NAME")]
    service_account: String,
    /// The extension's spec.config.inline, as YAML or JSON
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Who makes the certificates of webhooks
    #[arg(long, value_enum, default_value_t = Certificates::SelfSigned)]
    certificates: Certificates,
    /// How to print it; json is one List
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,
    #[command(flatten)]
    images: Sources,
}

/// Runs `oxolm rbac`.
pub(super) fn run(arguments: &Rbac) -> anyhow::Result<Answer> {
    let Command::Generate(arguments) = &arguments.command;
    match generate(arguments) {
        Ok(text) => {
            anstream::stdout()
                .write_all(text.as_bytes())
                .context("cannot write to standard output")?;
            Ok(Answer::Yes)
        }
        // The bundle was read, and the answer is no.
        Err(error) if refusal(&error).is_some() => {
            writeln!(anstream::stderr(), "oxolm: {error:#}")?;
            Ok(Answer::No)
        }
        Err(error) => Err(error),
    }
}

/// What is printed.
fn generate(arguments: &Generate) -> anyhow::Result<String> {
    let config = arguments.config.as_deref().map(configuration).transpose()?;
    let bundles = arguments
        .sources
        .iter()
        .map(|source| Bundle::read(source, arguments, config.as_ref()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let packages: BTreeSet<&str> = bundles
        .iter()
        .map(|bundle| bundle.package.as_str())
        .collect();
    let package = packages.first().copied().unwrap_or_default();
    ensure!(
        packages.len() == 1,
        "these are bundles of several packages: {}",
        Vec::from_iter(packages).join(", ")
    );
    let needs = bundles
        .iter()
        .fold(Needs::default(), |all, bundle| all.and(&bundle.needs));
    let account = &arguments.service_account;
    let manifests = needs
        .least()
        .manifests(&arguments.namespace, account, package);
    match arguments.output {
        Form::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": manifests});
            Ok(format!("{list:#}\n"))
        }
        Form::Yaml => Ok(header(arguments, &bundles) + &yaml_stream(&manifests)?),
    }
}

/// One bundle and what it takes.
#[derive(Debug)]
struct Bundle {
    package: String,
    name: String,
    needs: Needs,
    /// The resources that it defines and that nobody who installs it may list, `plural.group`.
    unlisted: BTreeSet<String>,
}

impl Bundle {
    fn read(source: &str, arguments: &Generate, config: Option<&Value>) -> anyhow::Result<Self> {
        let files = arguments.images.bundle_files(source)?;
        let bundle =
            RegistryV1::load(&files).with_context(|| format!("cannot read bundle {source}"))?;
        let options = RenderOptions {
            install_namespace: &arguments.namespace,
            config,
            certificates: arguments.certificates.into(),
        };
        let rendered = render::render(&bundle, &options)
            .with_context(|| format!("cannot render bundle {source}"))?;
        let mut manifests = rendered.objects;
        manifests.extend(rendered.secrets);
        let needs = needs(&manifests, &built_in)
            .with_context(|| format!("cannot tell the rights that bundle {source} needs"))?;
        let held = needs.least();
        let unlisted = defined_kinds(&manifests)
            .into_values()
            .filter(|kind| {
                let list = Right::Resource {
                    group: kind.group.clone(),
                    resource: kind.plural.clone(),
                    name: None,
                    verb: "list".to_owned(),
                };
                let everywhere = held.by_namespace().get("").into_iter().flatten();
                !everywhere.into_iter().any(|rule| rule.covers(&list))
            })
            .map(|kind| format!("{}.{}", kind.plural, kind.group))
            .collect();
        Ok(Self {
            package: bundle.package,
            name: bundle.csv.metadata.name,
            needs,
            unlisted,
        })
    }
}

/// The comment above the roles.
fn header(arguments: &Generate, bundles: &[Bundle]) -> String {
    let names: Vec<&str> = bundles.iter().map(|bundle| bundle.name.as_str()).collect();
    let mut text = format!(
        "# What service account {}/{} needs to install, maintain and remove {}, and no more.\n\
         # Rules with resourceNames are about the objects of the bundle. The others are there to create them, or are given\n\
         # to the accounts of the bundle itself: nobody may give away what he has not.\n",
        arguments.namespace,
        arguments.service_account,
        names.join(" and "),
    );
    let unlisted: BTreeSet<&String> = bundles.iter().flat_map(|bundle| &bundle.unlisted).collect();
    if !unlisted.is_empty() {
        text.push_str(
            "# The account may not list these resources everywhere. Their definitions are therefore kept when the extension is\n\
             # removed, since nobody knows whether any are left:\n",
        );
        for resource in unlisted {
            text.push_str("#   ");
            text.push_str(resource);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests;

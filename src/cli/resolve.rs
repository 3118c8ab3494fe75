//! `oxolm resolve`: which bundle would be chosen, and why, without a cluster or with one.

mod batch;
mod live;
mod print;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};

use super::Answer;
use super::catalogs::{self, Source, views};
use super::cluster::ClusterOptions;
use super::range::check_spec_range;
use super::source::Sources;
use crate::controller::cluster_extension::choose::Package;
use crate::fbc::package::{PackageContents, PackageError};
use crate::resolve::{Installed, MajorUpgrades, Query, UpgradePolicy, report, selector};

/// Say which bundle of a package would be chosen, and why not another.
///
/// The catalogs are files, or those of a cluster (--cluster). --extension takes the whole question from an extension
/// there; what is given beside it is asked instead: "what if its version were 2.x?".
///
/// Exit code 0: resolved; 1: not resolved; 2: the input cannot be used.
///
/// -o json and -o yaml print {package, resolved, bundle, version, release, image, catalog, reason, message, error,
/// availableUpdate, path[], deprecations[], catalogs[], candidates[]}. `error` is what condition Progressing would say,
/// `reason` and `message` what condition Resolved would.
///
/// `--batch` reads one question per line: {"id", "package", "version", "channels":[], "policy", "selector",
/// "installed":{"name","version","release"?,"catalog"?}, "catalogs":[{"name","path","priority","labels":{},
/// "availability","serving","cached"}]}, and answers each with {"id","bundle","version","release","catalog",
/// "deprecation":[{"schema","name","message"}]} or {"id","error":{"reason","message"}}.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        oxolm resolve my-operator --catalog ./my-catalog --version '>=1.0' --installed my-operator.v1.0.0@1.0.0\n  \
        oxolm resolve my-operator --cluster\n  \
        oxolm resolve --extension my-operator --version 2.x"
)]
pub(super) struct Resolve {
    /// The package
    #[arg(required_unless_present_any = ["batch", "extension"])]
    package: Option<String>,
    /// A catalog: a directory or a file of JSON or YAML, or an image; may be repeated
    #[arg(
        long = "catalog",
        value_name = "[NAME=]PATH|IMAGE",
        required_unless_present_any = ["batch", "cluster", "context", "extension"],
        conflicts_with_all = ["cluster", "context", "extension"]
    )]
    catalogs: Vec<String>,
    /// Choose from the catalogs of the cluster that the kubeconfig names
    #[arg(long)]
    cluster: bool,
    /// Ask what the extension of this name in the cluster asks, and start from what it has installed
    #[arg(long, value_name = "NAME")]
    extension: Option<String>,
    #[command(flatten)]
    live: ClusterOptions,
    /// Only versions in this range
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    version: Option<String>,
    /// Only bundles of this channel; may be repeated
    #[arg(long = "channel", value_name = "CHANNEL")]
    channels: Vec<String>,
    /// Whether the catalog's upgrade edges bind
    #[arg(long, value_enum)]
    policy: Option<Policy>,
    /// Only catalogs with these labels, as kubectl writes them; a catalog's own label is
    /// olm.operatorframework.io/metadata.name
    #[arg(long)]
    selector: Option<String>,
    /// The priority of a catalog; may be repeated
    #[arg(long = "priority", value_name = "NAME=N", allow_hyphen_values = true)]
    priorities: Vec<String>,
    /// What is installed; without a version, the catalogs say which it is
    #[arg(long, value_name = "NAME[@VERSION]")]
    installed: Option<String>,
    /// What a higher major version takes
    #[arg(long, value_enum, default_value_t)]
    major_upgrades: Majors,
    /// Show every candidate, not the nearest ones only
    #[arg(long)]
    all: bool,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Answer the questions of a file, one per line; - is standard input
    #[arg(long, value_name = "FILE|-", conflicts_with_all = [
        "package", "catalogs", "cluster", "extension", "version", "channels", "policy", "selector", "priorities", "installed", "all", "output",
    ])]
    batch: Option<PathBuf>,
    #[command(flatten)]
    images: Sources,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Policy {
    /// They bind
    #[default]
    #[value(name = "CatalogProvided")]
    CatalogProvided,
    /// They do not
    #[value(name = "SelfCertified")]
    SelfCertified,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Majors {
    /// An edge, as any other upgrade
    #[default]
    Edges,
    /// That the edges do not bind
    Forced,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    #[default]
    Text,
    Json,
    Yaml,
}

/// The packages of a catalog, or why one cannot be read.
type Packages = BTreeMap<String, Result<PackageContents, PackageError>>;

pub(super) fn run(arguments: &Resolve) -> anyhow::Result<Answer> {
    if let Some(source) = &arguments.batch {
        return batch::run(source, arguments.major_upgrades());
    }
    let (mut query, sources) = if arguments.asks_a_cluster() {
        live::question(arguments)?
    } else {
        let query = arguments.amend(Query::default())?;
        let sources = arguments.sources(&query.package)?;
        (query, sources)
    };
    if let Some(installed) = &mut query.installed
        && installed.version.is_empty()
    {
        installed.version = recorded_version(&sources, &installed.name)?;
    }
    let catalogs = views(&sources);
    let report = report::explain(&query, &catalogs);
    match arguments.output {
        Output::Text => print::text(&query, &report, arguments.all)?,
        Output::Json => print::json(&query, &report)?,
        Output::Yaml => print::yaml(&query, &report)?,
    }
    Ok(match report.resolution.outcome {
        Ok(_) => Answer::Yes,
        Err(_) => Answer::No,
    })
}

fn recorded_version(sources: &[Source], bundle: &str) -> anyhow::Result<String> {
    let contents = sources.iter().filter_map(|source| match &source.package {
        Package::Contents(contents) => Some(contents),
        Package::NotServed | Package::None | Package::Unreadable(_) => None,
    });
    contents
        .flat_map(|contents| &contents.bundles)
        .find(|candidate| candidate.name == bundle)
        .and_then(|candidate| {
            let property = candidate.package_property.as_ref()?;
            Some(property.get("version")?.as_str()?.to_owned())
        })
        .with_context(|| {
            format!(
                "no catalog has a bundle {bundle:?} with a version: give it as {bundle}@VERSION"
            )
        })
}

impl Resolve {
    fn major_upgrades(&self) -> MajorUpgrades {
        match self.major_upgrades {
            Majors::Edges => MajorUpgrades::Edges,
            Majors::Forced => MajorUpgrades::Forced,
        }
    }

    fn asks_a_cluster(&self) -> bool {
        self.cluster || self.extension.is_some() || self.live.name_a_cluster()
    }

    /// The question, with what the arguments ask instead.
    fn amend(&self, mut query: Query) -> anyhow::Result<Query> {
        if let Some(package) = &self.package {
            query.package.clone_from(package);
        }
        if let Some(version) = self.version.as_ref().filter(|text| !text.is_empty()) {
            check_spec_range(version).context("--version")?;
            query.version.clone_from(version);
        }
        if !self.channels.is_empty() {
            query.channels.clone_from(&self.channels);
        }
        if let Some(selector) = &self.selector {
            query.selector = Some(selector::parse_text(selector)?);
        }
        if let Some(policy) = self.policy {
            query.policy = match policy {
                Policy::CatalogProvided => UpgradePolicy::CatalogProvided,
                Policy::SelfCertified => UpgradePolicy::SelfCertified,
            };
        }
        if let Some(text) = &self.installed {
            let (name, version) = text.rsplit_once('@').unwrap_or((text, ""));
            query.installed = Some(Installed {
                name: name.to_owned(),
                version: version.to_owned(),
                ..Installed::default()
            });
        }
        query.major_upgrades = self.major_upgrades();
        Ok(query)
    }

    /// The priorities of `--priority`, by catalog.
    fn priorities(&self) -> anyhow::Result<BTreeMap<&str, i32>> {
        let of = |text| {
            let (name, number): (&str, &str) = str::rsplit_once(text, '=')?;
            Some((name, number.parse().ok()?))
        };
        self.priorities
            .iter()
            .map(|text| {
                of(text).with_context(|| format!("--priority {text}: expected NAME=N, N a number"))
            })
            .collect()
    }

    fn sources(&self, package: &str) -> anyhow::Result<Vec<Source>> {
        let mut sources = catalogs::of_files(&self.catalogs, &self.images, package)?;
        self.prioritize(&mut sources)?;
        Ok(sources)
    }

    fn prioritize(&self, sources: &mut [Source]) -> anyhow::Result<()> {
        for (name, priority) in self.priorities()? {
            let source = sources
                .iter_mut()
                .find(|source| source.catalog.name == name);
            let source =
                source.with_context(|| format!("--priority {name}: there is no such catalog"))?;
            source.catalog.priority = priority;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

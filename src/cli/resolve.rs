//! `oxolm resolve`: which bundle would be chosen, and why, without a cluster.

mod batch;
mod print;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, ensure};
use clap::{Args, ValueEnum};

use super::Answer;
use super::source::{self, Sources};
use crate::error::quoted;
use crate::fbc::package::{PackageContents, PackageError};
use crate::resolve::{
    Availability, Catalog, Content, Installed, MajorUpgrades, Query, UpgradePolicy, report,
    selector,
};
use crate::store::catalog;

/// Say which bundle of a package would be chosen, and why not another.
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
#[command(arg_required_else_help = true)]
pub(super) struct Resolve {
    /// The package
    #[arg(required_unless_present = "batch")]
    package: Option<String>,
    /// A catalog: a directory or a file of JSON or YAML, or an image; may be repeated
    #[arg(
        long = "catalog",
        value_name = "[NAME=]PATH|IMAGE",
        required_unless_present = "batch"
    )]
    catalogs: Vec<String>,
    /// Only versions in this range
    #[arg(
        long,
        value_name = "RANGE",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    version: String,
    /// Only bundles of this channel; may be repeated
    #[arg(long = "channel", value_name = "CHANNEL")]
    channels: Vec<String>,
    /// Whether the catalog's upgrade edges bind
    #[arg(long, value_enum, default_value_t)]
    policy: Policy,
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
        "package", "catalogs", "version", "channels", "policy", "selector", "priorities", "installed", "all", "output",
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
    let sources = arguments.sources()?;
    let mut query = arguments.query()?;
    if let Some(installed) = &mut query.installed
        && installed.version.is_empty()
    {
        installed.version = recorded_version(&sources, &query.package, &installed.name)?;
    }
    let catalogs: Vec<Catalog<'_>> = sources
        .iter()
        .map(|source| Catalog {
            name: source.name.clone(),
            labels: BTreeMap::new(),
            priority: source.priority,
            availability: Availability::Available,
            serving: true,
            content: content(&source.packages, &query.package),
        })
        .collect();
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

/// What a catalog that was read holds of a package.
fn content<'a>(packages: &'a Packages, package: &str) -> Content<'a> {
    match packages.get(package) {
        None => Content::NoSuchPackage,
        Some(Ok(contents)) => Content::Package(contents),
        Some(Err(error)) => Content::Unreadable(format!(
            "error loading package {}: {error}",
            quoted(package)
        )),
    }
}

/// A catalog to choose from.
struct Source {
    name: String,
    priority: i32,
    packages: Packages,
}

fn recorded_version(sources: &[Source], package: &str, bundle: &str) -> anyhow::Result<String> {
    sources
        .iter()
        .filter_map(|source| source.packages.get(package)?.as_ref().ok())
        .flat_map(|contents| &contents.bundles)
        .find(|candidate| candidate.name == bundle)
        .and_then(|candidate| {
            Some(
                candidate
                    .package_property
                    .as_ref()?
                    .get("version")?
                    .as_str()?
                    .to_owned(),
            )
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

    fn query(&self) -> anyhow::Result<Query> {
        let selector = self
            .selector
            .as_deref()
            .map(selector::parse_text)
            .transpose()?;
        let installed = self.installed.as_deref().map(|text| {
            let (name, version) = text.rsplit_once('@').unwrap_or((text, ""));
            Installed {
                name: name.to_owned(),
                version: version.to_owned(),
                ..Installed::default()
            }
        });
        Ok(Query {
            package: self.package.clone().unwrap_or_default(),
            version: self.version.clone(),
            channels: self.channels.clone(),
            selector,
            policy: match self.policy {
                Policy::CatalogProvided => UpgradePolicy::CatalogProvided,
                Policy::SelfCertified => UpgradePolicy::SelfCertified,
            },
            installed,
            major_upgrades: self.major_upgrades(),
        })
    }

    fn sources(&self) -> anyhow::Result<Vec<Source>> {
        let mut priorities: BTreeMap<&str, i32> = BTreeMap::new();
        for text in &self.priorities {
            let (name, number) = text
                .rsplit_once('=')
                .with_context(|| format!("--priority {text}: expected NAME=N"))?;
            let number = number
                .parse()
                .with_context(|| format!("--priority {text}: expected NAME=N"))?;
            priorities.insert(name, number);
        }
        let mut sources: Vec<Source> = Vec::new();
        for text in &self.catalogs {
            let (name, source) = source::named(text)?;
            ensure!(
                sources.iter().all(|source| source.name != name),
                "two catalogs are called {name:?}: name them with --catalog NAME=…"
            );
            sources.push(Source {
                priority: priorities.remove(name.as_str()).unwrap_or_default(),
                packages: catalog::packages(self.images.catalog(source)?.path())
                    .with_context(|| format!("cannot read catalog {source}"))?,
                name,
            });
        }
        match priorities.first_key_value() {
            Some((name, _)) => Err(anyhow!("--priority {name}: there is no such catalog")),
            None => Ok(sources),
        }
    }
}

#[cfg(test)]
mod tests;

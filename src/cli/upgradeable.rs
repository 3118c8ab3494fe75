//! `oxolm upgradeable`

#![expect(clippy::doc_markdown, reason = "help texts are plain")]

mod content;

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use kube::ResourceExt as _;
use serde::Serialize;

use super::Answer;
use super::cluster::{Cluster, ClusterOptions};
use super::source::Sources;
use crate::controller::cluster_extension::choose;
use crate::controller::cluster_operator::{active_bundles, current_minor};
use crate::resolve::{Installed, MajorUpgrades, Query};
use crate::revision;
use crate::upgradeable::way::{Way, way};
use crate::upgradeable::{ActiveBundle, Minor, maximum_of, verdict};
use content::{Content, Shelf};

/// Say which extensions block the update of OpenShift to its next minor version, and which bundle would not.
///
/// Of the cluster of the kubeconfig, or, with --installed, of a list of bundles in catalogs.
///
/// -o json prints {"openshift", "next", "upgradeable", "message", "extensions": [{"extension", "bundle", "maximum", "blocks",
/// "problem", "way": {"bundle", "version", "catalog", "channels": [], "hops", "maximum"}, "unread": []}]}; "message" is what
/// the ClusterOperator says, "hops" is null where the bundle must be forced, "way" where there is none; "unread" names the
/// catalogs that could not be asked, and why.
///
/// Exit code 0: nothing blocks; 1: something does; 2: the input cannot be used.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  oxolm upgradeable\n  oxolm upgradeable --openshift 4.18 \
    --catalog quay.io/operatorhubio/catalog:latest --installed argocd-operator.v0.6.0"
)]
pub(super) struct Upgradeable {
    /// The cluster's version [default: what its ClusterVersion says]
    #[arg(long, value_name = "VERSION")]
    openshift: Option<String>,
    /// A bundle that is installed, by its name or as PACKAGE@VERSION; may be repeated
    #[arg(
        long = "installed",
        value_name = "BUNDLE",
        value_delimiter = ',',
        requires = "openshift",
        requires = "catalogs"
    )]
    installed: Vec<String>,
    /// A catalog that has the bundles: a directory or a file of JSON or YAML, or an image; may be repeated
    #[arg(
        long = "catalog",
        value_name = "[NAME=]PATH|IMAGE",
        requires = "installed"
    )]
    catalogs: Vec<String>,
    #[command(flatten)]
    live: ClusterOptions,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    images: Sources,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    #[default]
    Text,
    Json,
}

/// A bundle that is installed or rolling out, and what its extension asks.
struct Subject {
    bundle: ActiveBundle,
    query: Query,
}

pub(super) fn run(arguments: &Upgradeable) -> anyhow::Result<Answer> {
    let report = if arguments.installed.is_empty() {
        of_cluster(arguments)?
    } else {
        of_list(arguments)?
    };
    let mut out = anstream::stdout();
    match arguments.output {
        Output::Text => print(&report, &mut out),
        Output::Json => serde_json::to_writer_pretty(&mut out, &report)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(out)),
    }
    .context("cannot write the answer")?;
    Ok(if report.upgradeable {
        Answer::Yes
    } else {
        Answer::No
    })
}

fn minor(text: &str) -> anyhow::Result<Minor> {
    Minor::of_cluster_version(text)
        .or_else(|| Minor::of_cluster_version(&format!("{text}.0")))
        .with_context(|| format!("--openshift {text}: expected a version such as 4.18 or 4.18.3"))
}

fn of_cluster(arguments: &Upgradeable) -> anyhow::Result<Report> {
    let cluster = arguments.live.connect()?;
    let current = match &arguments.openshift {
        Some(text) => minor(text)?,
        None => version_of(&cluster)?,
    };
    let (extensions, sets) = (cluster.extensions()?, cluster.sets()?);
    let subjects = active_bundles(&extensions, &sets)
        .into_iter()
        .map(|bundle| {
            let extension = extensions
                .iter()
                .find(|one| one.name_any() == bundle.extension);
            let query = extension.map(|extension| {
                let identity = revision::Extension {
                    name: extension.name_any(),
                    uid: extension.uid().unwrap_or_default(),
                    account: None,
                };
                let revisions = revision::revisions_of(&sets, &identity);
                let installed = revisions
                    .into_iter()
                    .map(|revision| revision.bundle)
                    .find(|installed| installed.name == bundle.bundle);
                choose::query(extension, installed.as_ref(), MajorUpgrades::Edges)
            });
            Subject {
                bundle,
                query: query.unwrap_or_default(),
            }
        });
    let subjects: Vec<Subject> = subjects.collect();
    let mut shelf = BTreeMap::new();
    // Only those that block are looked up: a catalog may be large.
    for subject in subjects
        .iter()
        .filter(|subject| blocks(current, &subject.bundle))
    {
        let package = &subject.query.package;
        if !shelf.contains_key(package) {
            shelf.insert(package.clone(), content::of_cluster(&cluster, package)?);
        }
    }
    Ok(report(current, &subjects, &|package| shelf.get(package)))
}

fn version_of(cluster: &Cluster) -> anyhow::Result<Minor> {
    let version = cluster.openshift_version()?;
    let version = version.context(
        "this cluster has no ClusterVersion: it is not OpenShift; --openshift VERSION asks all the same",
    )?;
    current_minor(&version).context("the ClusterVersion names no version")
}

fn of_list(arguments: &Upgradeable) -> anyhow::Result<Report> {
    let current = minor(arguments.openshift.as_deref().unwrap_or_default())?;
    let shelf = Shelf::open(&arguments.catalogs, &arguments.images)?;
    let mut subjects = Vec::new();
    for text in &arguments.installed {
        let content::Found {
            package,
            name,
            version,
            properties,
        } = shelf.bundle(text)?;
        subjects.push(Subject {
            bundle: ActiveBundle {
                extension: package.clone(),
                bundle: name.clone(),
                properties: Some(properties),
                override_text: None,
            },
            query: Query {
                package,
                installed: Some(Installed {
                    name: name.clone(),
                    version,
                    ..Installed::default()
                }),
                ..Query::default()
            },
        });
    }
    Ok(report(current, &subjects, &|package| {
        shelf.package(package)
    }))
}

fn blocks(current: Minor, bundle: &ActiveBundle) -> bool {
    !verdict(current, std::slice::from_ref(bundle)).upgradeable
}

/// The answer in the stable form of `-o json`.
#[derive(Debug, Serialize)]
struct Report {
    openshift: String,
    next: String,
    upgradeable: bool,
    message: String,
    extensions: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    extension: String,
    bundle: String,
    maximum: Option<String>,
    blocks: bool,
    problem: Option<String>,
    way: Option<WayOut>,
    /// The catalogs that could not be asked for a way.
    unread: Vec<String>,
}

#[derive(Debug, Serialize)]
struct WayOut {
    bundle: String,
    version: String,
    catalog: String,
    channels: Vec<String>,
    hops: Option<usize>,
    maximum: Option<String>,
}

fn report<'a>(
    current: Minor,
    subjects: &[Subject],
    content_of: &dyn Fn(&str) -> Option<&'a Content>,
) -> Report {
    let bundles: Vec<ActiveBundle> = subjects.iter().map(|one| one.bundle.clone()).collect();
    let decided = verdict(current, &bundles);
    let mut extensions: Vec<Row> = subjects
        .iter()
        .map(|subject| row(current, subject, content_of))
        .collect();
    extensions.sort_by(|a, b| {
        (!a.blocks, &a.extension, &a.bundle).cmp(&(!b.blocks, &b.extension, &b.bundle))
    });
    Report {
        openshift: current.to_string(),
        next: current.next().to_string(),
        upgradeable: decided.upgradeable,
        message: decided.message,
        extensions,
    }
}

fn row<'a>(
    current: Minor,
    subject: &Subject,
    content_of: &dyn Fn(&str) -> Option<&'a Content>,
) -> Row {
    let maximum = maximum_of(&subject.bundle);
    let blocks = blocks(current, &subject.bundle);
    let content = content_of(&subject.query.package).filter(|_| blocks);
    let found = content.and_then(|content| {
        let maximum_of = |catalog: &str, bundle: &str| content.maximum(catalog, bundle);
        way(current, &subject.query, &content.catalogs(), &maximum_of)
    });
    Row {
        extension: subject.bundle.extension.clone(),
        bundle: subject.bundle.bundle.clone(),
        problem: maximum.as_ref().err().map(ToString::to_string),
        maximum: maximum.ok().flatten().map(|maximum| maximum.to_string()),
        blocks,
        way: found.map(WayOut::from),
        unread: content.map(Content::unread).unwrap_or_default(),
    }
}

impl From<Way> for WayOut {
    fn from(way: Way) -> Self {
        Self {
            bundle: way.bundle,
            version: way.version.to_string(),
            catalog: way.catalog,
            channels: way.channels,
            hops: way.hops,
            maximum: way.maximum.map(|maximum| maximum.to_string()),
        }
    }
}

fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let Report {
        openshift, next, ..
    } = report;
    let blocking = report.extensions.iter().filter(|row| row.blocks).count();
    if report.upgradeable {
        writeln!(
            out,
            "OpenShift {openshift} may be updated to {next}: none of {} installed bundles blocks it",
            report.extensions.len()
        )?;
    } else {
        writeln!(
            out,
            "OpenShift {openshift} cannot be updated to {next}: {blocking} of {} installed bundles block it",
            report.extensions.len()
        )?;
    }
    for row in report.extensions.iter().filter(|row| row.blocks) {
        let why = match (&row.maximum, &row.problem) {
            (Some(maximum), _) => format!("supports OpenShift up to {maximum}"),
            (None, Some(problem)) => problem.clone(),
            (None, None) => String::new(),
        };
        writeln!(out, "\n{}: {} {why}", row.extension, row.bundle)?;
        match &row.way {
            Some(way) => writeln!(out, "  → {}", advice(&row.extension, way))?,
            None if !row.unread.is_empty() => writeln!(
                out,
                "  → what would help cannot be told, as catalogs could not be read: {}",
                row.unread.join("; ")
            )?,
            None => writeln!(
                out,
                "  → no catalog has a newer bundle that supports {next}: ask its author, uninstall it, or, if you know \
                 better, annotate the ClusterExtension with oxolm.dev/max-openshift-version: \"{next}\""
            )?,
        }
    }
    Ok(())
}

fn advice(extension: &str, way: &WayOut) -> String {
    let WayOut {
        version, catalog, ..
    } = way;
    let channels = match way.channels.as_slice() {
        [one] => format!("channel {one}"),
        several => format!("channels {}", several.join(", ")),
    };
    match way.hops {
        Some(1) => format!(
            "upgrade {extension} to {version} or above, reachable in 1 hop, {channels} of catalog {catalog}"
        ),
        Some(hops) => format!(
            "upgrade {extension} to {version} or above, reachable in {hops} hops, {channels} of catalog {catalog}"
        ),
        None => format!(
            "no edges lead there, but {version} of catalog {catalog} ({channels}) would do: force it with \
             upgradeConstraintPolicy: SelfCertified and version: \"{version}\""
        ),
    }
}

#[cfg(test)]
mod tests;

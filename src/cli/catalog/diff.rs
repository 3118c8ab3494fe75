//! `oxolm catalog diff`

use std::io;

use anyhow::Context as _;
use clap::Args;
use serde_json::{Value, json};

use super::list::deprecation;
use super::open::{self, From};
use super::{Answer, Output, Streams, print_json, printable};
use crate::error::chain;
use crate::fbc::diff::{CatalogDiff, PackageDiff, Packages};
use crate::fbc::edges::Edge;
use crate::fbc::package::Deprecation;

/// Say what changed from one catalog to another, and whose way up is lost.
///
/// A bundle's way up is lost if it could be upgraded with OLD, and cannot with NEW: whoever has it installed is stuck.
///
/// -o json prints {"same", "added": [], "removed": [], "changed": [{"package", "defaultChannel": {"old", "new"},
/// "channels": {"added": [], "removed": []}, "bundles": {"added": [], "removed": [], "imageChanged": [{"name", "old",
/// "new"}]}, "deprecated": [{"schema", "name", "message"}], "undeprecated": [], "edges": {"added": [{"channel", "from", "to",
/// "type"}], "removed": []}, "stuck": []}]}; of an edge of type skipRange "from" is the range.
///
/// Exit code 0: no differences; 1: differences, or the server would refuse a catalog; 2: OLD or NEW cannot be used.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  oxolm catalog diff cluster:operatorhubio quay.io/operatorhubio/catalog:latest --package argocd-operator"
)]
pub(super) struct Diff {
    /// A catalog: a directory, a file, an image, or cluster:NAME
    #[arg(value_name = "OLD")]
    old: String,
    /// The one that it is compared with
    #[arg(value_name = "NEW")]
    new: String,
    /// Only this package; may be repeated
    #[arg(long = "package", value_name = "PACKAGE")]
    packages: Vec<String>,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    from: From,
}

pub(super) fn run(arguments: &Diff, streams: &mut Streams<'_>) -> anyhow::Result<Answer> {
    let old = arguments.readable(&arguments.old, streams)?;
    let new = arguments.readable(&arguments.new, streams)?;
    let diff = CatalogDiff::of(&old, &new);
    match arguments.output {
        Output::Json => print_json(&document(&diff), streams),
        Output::Text => print(&diff, streams),
    }
    .context("cannot write the answer")?;
    Ok(if diff.is_empty() {
        Answer::Yes
    } else {
        Answer::No
    })
}

impl Diff {
    /// The packages that can be compared; the others are complained about.
    fn readable(&self, source: &str, streams: &mut Streams<'_>) -> anyhow::Result<Packages> {
        let all: open::Packages = self.from.packages(source)?;
        let wanted = |name: &String| self.packages.is_empty() || self.packages.contains(name);
        let mut readable = Packages::new();
        for (name, package) in all.into_iter().filter(|(name, _)| wanted(name)) {
            match package {
                Ok(contents) => {
                    readable.insert(name, contents);
                }
                Err(error) => writeln!(streams.complaints, "{source}: {}", chain(&error))
                    .context("cannot write the answer")?,
            }
        }
        Ok(readable)
    }
}

fn document(diff: &CatalogDiff) -> Value {
    json!({
        "same": diff.is_empty(),
        "added": diff.added,
        "removed": diff.removed,
        "changed": diff.changed.iter().map(package_document).collect::<Vec<_>>(),
    })
}

fn package_document(diff: &PackageDiff) -> Value {
    let edges = |edges: &[(String, Edge)]| -> Vec<Value> {
        let edges = edges.iter();
        edges
            .map(|(channel, edge)| {
                json!({"channel": channel, "from": edge.from, "to": edge.to, "type": edge.kind.as_str()})
            })
            .collect()
    };
    let images = diff.images_changed.iter();
    let images = images.map(|(name, old, new)| json!({"name": name, "old": old, "new": new}));
    let deprecations = |all: &[Deprecation]| all.iter().map(deprecation).collect::<Vec<Value>>();
    json!({
        "package": diff.name,
        "defaultChannel": diff.default_channel.as_ref().map(|(old, new)| json!({"old": old, "new": new})),
        "channels": {"added": diff.channels_added, "removed": diff.channels_removed},
        "bundles": {
            "added": diff.bundles_added,
            "removed": diff.bundles_removed,
            "imageChanged": images.collect::<Vec<_>>(),
        },
        "deprecated": deprecations(&diff.deprecated),
        "undeprecated": deprecations(&diff.undeprecated),
        "edges": {"added": edges(&diff.edges_added), "removed": edges(&diff.edges_removed)},
        "stuck": diff.stuck,
    })
}

fn print(diff: &CatalogDiff, streams: &mut Streams<'_>) -> io::Result<()> {
    if diff.is_empty() {
        return writeln!(streams.out, "no differences");
    }
    for name in &diff.added {
        writeln!(streams.out, "+ package {}", printable(name))?;
    }
    for name in &diff.removed {
        writeln!(streams.out, "- package {}", printable(name))?;
    }
    for package in &diff.changed {
        writeln!(streams.out, "  package {}", printable(&package.name))?;
        for line in lines(package) {
            writeln!(streams.out, "    {}", printable(&line))?;
        }
    }
    Ok(())
}

fn lines(diff: &PackageDiff) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some((old, new)) = &diff.default_channel {
        lines.push(format!("~ default channel {old:?} -> {new:?}"));
    }
    let mut all = |sign: char, what: &str, names: &[String]| {
        lines.extend(names.iter().map(|name| format!("{sign} {what} {name}")));
    };
    all('+', "channel", &diff.channels_added);
    all('-', "channel", &diff.channels_removed);
    all('+', "bundle", &diff.bundles_added);
    all('-', "bundle", &diff.bundles_removed);
    for (name, old, new) in &diff.images_changed {
        lines.push(format!("! bundle {name} has another image: {old} -> {new}"));
    }
    let deprecation = |sign: char, one: &Deprecation| {
        let what = format!("{} {}", one.schema, one.name);
        format!("{sign} deprecation of {}: {}", what.trim(), one.message)
    };
    lines.extend(diff.deprecated.iter().map(|one| deprecation('+', one)));
    lines.extend(diff.undeprecated.iter().map(|one| deprecation('-', one)));
    let edge = |sign: char, (channel, edge): &(String, Edge)| {
        format!(
            "{sign} edge in {channel}: {} -> {} ({})",
            edge.from,
            edge.to,
            edge.kind.as_str()
        )
    };
    lines.extend(diff.edges_added.iter().map(|one| edge('+', one)));
    lines.extend(diff.edges_removed.iter().map(|one| edge('-', one)));
    let stuck = diff.stuck.iter();
    lines.extend(stuck.map(|name| format!("! {name} lost its way up")));
    lines
}

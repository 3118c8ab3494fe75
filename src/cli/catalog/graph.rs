//! `oxolm catalog graph`

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::open::From;
use super::{Answer, Streams, print_json, printable};
use crate::fbc::edges::EdgeKind;
use crate::fbc::meta::Meta;
use crate::fbc::package::{Channel, PackageContents};
use crate::version::release::BundleVersion;

/// Draw the upgrade graph of a package.
///
/// -o mermaid (the default) is what GitHub, GitLab and mermaid.live draw: an arrow leads from what is installed to what it can
/// be upgraded to. -o json prints {"package", "defaultChannel", "channels": [{"name", "heads": [], "nodes": [{"name",
/// "version", "inCatalog", "deprecated"}], "edges": [{"from", "to", "type"}]}]}; type is replaces, skips or skipRange.
///
/// Exit code 0: done; 1: the server would refuse the catalog, or there is no such package; 2: SRC cannot be used.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  oxolm catalog graph ./catalog my-operator > graph.mmd")]
pub(super) struct Graph {
    /// The catalog: a directory, a file, an image, or cluster:NAME
    #[arg(value_name = "SRC")]
    source: String,
    /// The package
    package: String,
    /// Only this channel; may be repeated
    #[arg(long = "channel", value_name = "CHANNEL")]
    channels: Vec<String>,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,
    #[command(flatten)]
    from: From,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    #[default]
    Mermaid,
    Json,
}

pub(super) fn run(arguments: &Graph, streams: &mut Streams<'_>) -> anyhow::Result<Answer> {
    let packages = arguments.from.packages(&arguments.source)?;
    let Some(package) = super::package(&packages, &arguments.package, streams)? else {
        return Ok(Answer::No);
    };
    for name in &arguments.channels {
        if package.channels.iter().all(|channel| channel.name != *name) {
            let message = format!("package {:?} has no channel {name:?}", package.name);
            writeln!(streams.complaints, "{message}").context("cannot write the answer")?;
            return Ok(Answer::No);
        }
    }
    let wanted = |channel: &&Channel| {
        arguments.channels.is_empty() || arguments.channels.contains(&channel.name)
    };
    let channels: Vec<&Channel> = package.channels.iter().filter(wanted).collect();
    match arguments.output {
        Form::Json => print_json(&document(package, &channels), streams),
        Form::Mermaid => mermaid(package, &channels, streams),
    }
    .context("cannot write the answer")?;
    Ok(Answer::Yes)
}

/// The bundles of a channel, and what its edges name beside them.
fn nodes<'a>(
    channel: &'a Channel,
    versions: &'a BTreeMap<&'a str, BundleVersion>,
) -> BTreeSet<String> {
    let own = channel.entries.iter().map(|entry| entry.name.clone());
    let edges = channel.edges(versions).into_iter();
    own.chain(edges.flat_map(|edge| [edge.from, edge.to]))
        .collect()
}

fn document(package: &PackageContents, channels: &[&Channel]) -> Value {
    let versions = package.versions();
    let channel = |channel: &&Channel| {
        let node = |name: &String| {
            json!({
                "name": name,
                "version": versions.get(name.as_str()).map(ToString::to_string),
                "inCatalog": package.bundles.iter().any(|bundle| bundle.name == *name),
                "deprecated": package.deprecation(Meta::BUNDLE, name).is_some(),
            })
        };
        let edges = channel
            .edges(&versions)
            .into_iter()
            .map(|edge| json!({"from": edge.from, "to": edge.to, "type": edge.kind.as_str()}));
        json!({
            "name": channel.name,
            "heads": channel.heads(),
            "nodes": nodes(channel, &versions).iter().map(node).collect::<Vec<_>>(),
            "edges": edges.collect::<Vec<_>>(),
        })
    };
    json!({
        "package": package.name,
        "defaultChannel": package.default_channel,
        "channels": channels.iter().map(channel).collect::<Vec<_>>(),
    })
}

fn mermaid(
    package: &PackageContents,
    channels: &[&Channel],
    streams: &mut Streams<'_>,
) -> io::Result<()> {
    let versions = package.versions();
    writeln!(streams.out, "graph LR")?;
    writeln!(
        streams.out,
        "  classDef deprecated fill:#fdd,stroke:#c00;\n  classDef head stroke-width:3px;\n  \
         classDef absent stroke-dasharray:4;"
    )?;
    for (number, channel) in channels.iter().enumerate() {
        let names: Vec<String> = nodes(channel, &versions).into_iter().collect();
        let id = |name: &str| {
            let at = names.iter().position(|one| one == name);
            format!("c{number}n{}", at.unwrap_or_default())
        };
        let title = format!("{} {}", package.name, channel.name);
        writeln!(streams.out, "  subgraph c{number}[{}]", label(&title))?;
        let heads = channel.heads();
        for name in &names {
            let is_there = package.bundles.iter().any(|bundle| bundle.name == *name);
            let class = if package.deprecation(Meta::BUNDLE, name).is_some() {
                ":::deprecated"
            } else if heads.contains(&name.as_str()) {
                ":::head"
            } else if is_there {
                ""
            } else {
                ":::absent"
            };
            writeln!(streams.out, "    {}[{}]{class}", id(name), label(name))?;
        }
        for edge in channel.edges(&versions) {
            let arrow = match edge.kind {
                EdgeKind::Replaces => "-->|replaces|",
                EdgeKind::Skips => "-.->|skips|",
                EdgeKind::SkipRange => "-.->|skipRange|",
            };
            writeln!(
                streams.out,
                "    {} {arrow} {}",
                id(&edge.from),
                id(&edge.to)
            )?;
        }
        writeln!(streams.out, "  end")?;
    }
    Ok(())
}

/// Text in quotes, as Mermaid takes it.
fn label(text: &str) -> String {
    let escaped = printable(text).replace('#', "#35;").replace('"', "#quot;");
    format!("\"{escaped}\"")
}

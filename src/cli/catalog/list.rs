//! `oxolm catalog list`

use std::collections::BTreeMap;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::open::{From, Packages};
use super::{Answer, Output, Streams, print_json, table};
use crate::error::chain;
use crate::fbc::meta::Meta;
use crate::fbc::package::{Bundle, Channel, ChannelEntry, Deprecation, PackageContents};
use crate::version::release::BundleVersion;

/// List the packages of a catalog, or the channels and bundles of a package.
///
/// -o json prints [{"name", "defaultChannel", "channels", "bundles", "problem"}] with numbers of channels and bundles, and
/// of a package {"name", "defaultChannel", "channels": [{"name", "heads": [], "entries": [{"name", "replaces", "skips": [],
/// "skipRange"}]}], "bundles": [{"name", "version", "release", "image", "channels": [], "properties": []}], "deprecations":
/// [{"schema", "name", "message"}]}; "properties" has the types of all properties.
///
/// Exit code 0: done; 1: the server would refuse the catalog, or it has no such package, or the package cannot be read;
/// 2: SRC cannot be used.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  oxolm catalog list quay.io/operatorhubio/catalog:latest\n  \
        oxolm catalog list cluster:operatorhubio cert-manager"
)]
pub(super) struct List {
    /// The catalog: a directory, a file, an image, or cluster:NAME
    #[arg(value_name = "SRC")]
    source: String,
    /// Only this package
    package: Option<String>,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    from: From,
}

pub(super) fn run(arguments: &List, streams: &mut Streams<'_>) -> anyhow::Result<Answer> {
    let packages = arguments.from.packages(&arguments.source)?;
    let Some(name) = &arguments.package else {
        list_packages(&packages, arguments.output, streams).context("cannot write the answer")?;
        return Ok(Answer::Yes);
    };
    let Some(package) = super::package(&packages, name, streams)? else {
        return Ok(Answer::No);
    };
    match arguments.output {
        Output::Json => print_json(&document(package), streams),
        Output::Text => tables(package, streams),
    }
    .context("cannot write the answer")?;
    Ok(Answer::Yes)
}

/// A package in the stable form of `-o json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    name: &'a str,
    default_channel: Option<&'a str>,
    channels: usize,
    bundles: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

fn list_packages(
    packages: &Packages,
    output: Output,
    streams: &mut Streams<'_>,
) -> std::io::Result<()> {
    let listed = packages.iter().map(|(name, package)| {
        let contents = package.as_ref().ok();
        Listed {
            name,
            default_channel: contents.and_then(|contents| contents.default_channel.as_deref()),
            channels: contents.map_or(0, |contents| contents.channels.len()),
            bundles: contents.map_or(0, |contents| contents.bundles.len()),
            problem: package.as_ref().err().map(|error| chain(error)),
        }
    });
    let listed: Vec<Listed<'_>> = listed.collect();
    if output == Output::Json {
        return print_json(&listed, streams);
    }
    let rows = listed.iter().map(|package| {
        let problem = package.problem.as_deref();
        [
            package.name.to_owned(),
            problem.or(package.default_channel).unwrap_or("").to_owned(),
            package.channels.to_string(),
            package.bundles.to_string(),
        ]
    });
    let header = ["PACKAGE", "DEFAULT CHANNEL", "CHANNELS", "BUNDLES"];
    table(header, rows, streams)
}

fn tables(package: &PackageContents, streams: &mut Streams<'_>) -> std::io::Result<()> {
    let versions = package.versions();
    let channels = package.channels.iter().map(|channel| {
        let default = if package.default_channel.as_ref() == Some(&channel.name) {
            " (default)"
        } else {
            ""
        };
        let deprecated = package.deprecation(Meta::CHANNEL, &channel.name);
        [
            format!("{}{default}", channel.name),
            channel.heads().join(" "),
            channel.entries.len().to_string(),
            deprecated.unwrap_or_default().to_owned(),
        ]
    });
    table(
        ["CHANNEL", "HEAD", "ENTRIES", "DEPRECATED"],
        channels,
        streams,
    )?;
    writeln!(streams.out)?;
    let rows = package.channels.iter().flat_map(|channel| {
        sorted(channel, &versions).into_iter().map(|entry| {
            let version = versions.get(entry.name.as_str());
            [
                channel.name.clone(),
                entry.name.clone(),
                version.map(ToString::to_string).unwrap_or_default(),
                entry.replaces.clone(),
                entry.skips.join(" "),
                entry.skip_range.clone(),
                package
                    .deprecation(Meta::BUNDLE, &entry.name)
                    .map_or("", |_| "yes")
                    .to_owned(),
            ]
        })
    });
    let header = [
        "CHANNEL",
        "BUNDLE",
        "VERSION",
        "REPLACES",
        "SKIPS",
        "SKIP RANGE",
        "DEPRECATED",
    ];
    table(header, rows, streams)
}

/// The entries of a channel, the highest version first.
fn sorted<'a>(
    channel: &'a Channel,
    versions: &BTreeMap<&str, BundleVersion>,
) -> Vec<&'a ChannelEntry> {
    let mut entries: Vec<&ChannelEntry> = channel.entries.iter().collect();
    entries.sort_by_key(|entry| {
        std::cmp::Reverse((versions.get(entry.name.as_str()), entry.name.as_str()))
    });
    entries
}

/// The stable form of a package.
fn document(package: &PackageContents) -> Value {
    let channel = |channel: &Channel| {
        let entries: Vec<Value> = channel.entries.iter().map(entry).collect();
        json!({"name": channel.name, "heads": channel.heads(), "entries": entries})
    };
    let bundle = |bundle: &Bundle| {
        let version = bundle.version();
        json!({
            "name": bundle.name,
            "version": version.as_ref().map(|version| version.version.to_string()),
            "release": version.and_then(|version| version.release).map(|release| release.to_string()),
            "image": bundle.image,
            "channels": channels_of(package, &bundle.name),
            "properties": bundle.property_types,
        })
    };
    json!({
        "name": package.name,
        "defaultChannel": package.default_channel,
        "channels": package.channels.iter().map(channel).collect::<Vec<_>>(),
        "bundles": package.bundles.iter().map(bundle).collect::<Vec<_>>(),
        "deprecations": package.deprecations.iter().map(deprecation).collect::<Vec<_>>(),
    })
}

pub(super) fn entry(entry: &ChannelEntry) -> Value {
    json!({
        "name": entry.name,
        "replaces": entry.replaces,
        "skips": entry.skips,
        "skipRange": entry.skip_range,
    })
}

pub(super) fn deprecation(deprecation: &Deprecation) -> Value {
    json!({
        "schema": deprecation.schema,
        "name": deprecation.name,
        "message": deprecation.message,
    })
}

fn channels_of<'a>(package: &'a PackageContents, bundle: &str) -> Vec<&'a str> {
    let has = |channel: &&Channel| channel.entries.iter().any(|entry| entry.name == bundle);
    let channels = package.channels.iter().filter(has);
    channels.map(|channel| channel.name.as_str()).collect()
}

//! `oxolm catalog show`

use std::io;

use anyhow::Context as _;
use clap::Args;
use serde_json::{Value, json};

use super::list::{deprecation, entry};
use super::open::From;
use super::{Answer, Member as _, Output, Streams, print_json, printable};
use crate::fbc::meta::Meta;
use crate::fbc::package::{PackageContents, Packages};
use crate::store::catalog;

/// How much of a description is shown, in characters.
const LONGEST: usize = 400;

/// Show what a catalog says about a package, or about one of its bundles.
///
/// -o json prints {"package", "displayName", "description", "defaultChannel", "channels": [{"name", "heads": [],
/// "deprecated"}], "bundles", "deprecations": []}, and of a bundle {"package", "name", "version", "release", "image",
/// "relatedImages": [{"name", "image"}], "channels": [{"channel", "name", "replaces", "skips": [], "skipRange"}],
/// "deprecations": [], "properties": [{"type", "value"}]}, the properties as in the catalog.
///
/// Exit code 0: done; 1: the server would refuse the catalog, or there is no such package or bundle; 2: SRC cannot be used.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  oxolm catalog show quay.io/operatorhubio/catalog:latest cert-manager cert-manager.v1.16.5"
)]
pub(super) struct Show {
    /// The catalog: a directory, a file, an image, or cluster:NAME
    #[arg(value_name = "SRC")]
    source: String,
    /// The package
    package: String,
    /// One of its bundles, by name or version
    bundle: Option<String>,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    from: From,
}

pub(super) fn run(arguments: &Show, streams: &mut Streams<'_>) -> anyhow::Result<Answer> {
    let opened = arguments.from.open(&arguments.source)?;
    let mut packages = Packages::default();
    let mut blobs: Vec<Meta> = Vec::new();
    catalog::read_directory_or_file(opened.path(), &mut |_, located| {
        if located.meta.package_name() == arguments.package {
            packages.add(&located.meta);
            if matches!(located.meta.schema.as_str(), Meta::PACKAGE | Meta::BUNDLE) {
                blobs.push(located.meta);
            }
        }
    })?;
    let packages = packages.finish();
    let Some(package) = super::package(&packages, &arguments.package, streams)? else {
        return Ok(Answer::No);
    };
    let document = match &arguments.bundle {
        None => package_document(package, &blobs),
        Some(wanted) => {
            let Some(document) = bundle_document(package, &blobs, wanted) else {
                let name = &package.name;
                writeln!(
                    streams.complaints,
                    "package {name:?} has no bundle {wanted:?}"
                )
                .context("cannot write the answer")?;
                return Ok(Answer::No);
            };
            document
        }
    };
    match arguments.output {
        Output::Json => print_json(&document, streams),
        Output::Text => print(&document, streams),
    }
    .context("cannot write the answer")?;
    Ok(Answer::Yes)
}

/// The blob as JSON; blobs in normal form always are.
fn value(meta: &Meta) -> Value {
    serde_json::from_slice(&meta.blob).unwrap_or_default()
}

fn package_document(package: &PackageContents, blobs: &[Meta]) -> Value {
    let blob = blobs.iter().find(|meta| meta.schema == Meta::PACKAGE);
    let blob = blob.map(value).unwrap_or_default();
    let versions = package.versions();
    let newest = versions.iter().max_by(|a, b| a.1.cmp(b.1));
    let newest = newest.and_then(|(name, _)| blobs.iter().find(|meta| meta.name == **name));
    let metadata = newest.map(|meta| csv_metadata(&value(meta)).clone());
    let metadata = metadata.unwrap_or_default();
    let channels = package.channels.iter().map(|channel| {
        json!({
            "name": channel.name,
            "heads": channel.heads(),
            "deprecated": package.deprecation(Meta::CHANNEL, &channel.name),
        })
    });
    json!({
        "package": package.name,
        "displayName": metadata.member("displayName"),
        "description": blob.member("description").as_str().or(metadata.member("description").as_str()),
        "defaultChannel": package.default_channel,
        "channels": channels.collect::<Vec<_>>(),
        "bundles": package.bundles.len(),
        "deprecations": package.deprecations.iter().map(deprecation).collect::<Vec<_>>(),
    })
}

/// `wanted` is a bundle's name, or its version.
fn bundle_document(package: &PackageContents, blobs: &[Meta], wanted: &str) -> Option<Value> {
    let is_wanted = |name: &str, version: Option<String>| {
        name == wanted || version.is_some_and(|version| version == wanted)
    };
    let bundle = package
        .bundles
        .iter()
        .find(|one| one.name == wanted)
        .or_else(|| {
            let mut all = package.bundles.iter();
            all.find(|one| {
                is_wanted(
                    &one.name,
                    one.version().map(|version| version.version.to_string()),
                )
            })
        })?;
    let meta = blobs
        .iter()
        .rfind(|meta| meta.schema == Meta::BUNDLE && meta.name == bundle.name)?;
    let blob = value(meta);
    let version = bundle.version();
    let channels = package.channels.iter().flat_map(|channel| {
        let own = channel.entries.iter().filter(|one| one.name == bundle.name);
        own.map(|one| {
            let mut document = entry(one);
            if let Some(members) = document.as_object_mut() {
                members.insert("channel".to_owned(), json!(channel.name));
            }
            document
        })
    });
    let deprecations = package.deprecations.iter().filter(|one| {
        one.schema != Meta::BUNDLE && one.schema != Meta::CHANNEL || one.name == bundle.name
    });
    Some(json!({
        "package": package.name,
        "name": bundle.name,
        "version": version.as_ref().map(|version| version.version.to_string()),
        "release": version.and_then(|version| version.release).map(|release| release.to_string()),
        "image": bundle.image,
        "relatedImages": blob.member("relatedImages").as_array().cloned().unwrap_or_default(),
        "channels": channels.collect::<Vec<_>>(),
        "deprecations": deprecations.map(deprecation).collect::<Vec<_>>(),
        "properties": blob.member("properties").as_array().cloned().unwrap_or_default(),
    }))
}

fn csv_metadata(blob: &Value) -> &Value {
    let properties = blob.member("properties").as_array().map(Vec::as_slice);
    let mut all = properties.unwrap_or_default().iter();
    all.find(|one| *one.member("type") == "olm.csv.metadata")
        .map_or(&Value::Null, |one| one.member("value"))
}

/// The document as lines `name: value`; lists are indented.
fn print(document: &Value, streams: &mut Streams<'_>) -> io::Result<()> {
    let metadata = csv_metadata(document);
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut line = |name: &str, text: String| {
        if !text.is_empty() {
            lines.push((name.to_owned(), text));
        }
    };
    for (name, field) in [
        ("Package", "package"),
        ("Bundle", "name"),
        ("Version", "version"),
        ("Release", "release"),
        ("Image", "image"),
        ("Display name", "displayName"),
        ("Description", "description"),
        ("Default channel", "defaultChannel"),
        ("Bundles", "bundles"),
    ] {
        line(name, scalar(document.member(field)));
    }
    for (name, field) in [
        ("Display name", "displayName"),
        ("Maturity", "maturity"),
        ("Kubernetes", "minKubeVersion"),
    ] {
        line(name, scalar(metadata.member(field)));
    }
    line(
        "Provider",
        scalar(metadata.member("provider").member("name")),
    );
    line(
        "Install modes",
        list(metadata.member("installModes"), |mode| {
            (mode.member("supported") == &Value::Bool(true)).then(|| scalar(mode.member("type")))
        })
        .join(", "),
    );
    for channel in document.member("channels").as_array().into_iter().flatten() {
        line("Channel", channel_line(channel));
    }
    for property in document
        .member("properties")
        .as_array()
        .into_iter()
        .flatten()
    {
        if let Some((name, text)) = property_line(property) {
            line(name, text);
        }
    }
    for one in document
        .member("deprecations")
        .as_array()
        .into_iter()
        .flatten()
    {
        let what = format!(
            "{} {}",
            scalar(one.member("schema")),
            scalar(one.member("name"))
        );
        line(
            "Deprecated",
            format!("{}: {}", what.trim(), scalar(one.member("message"))),
        );
    }
    for image in document
        .member("relatedImages")
        .as_array()
        .into_iter()
        .flatten()
    {
        line("Related image", scalar(image.member("image")));
    }
    for (name, text) in lines {
        writeln!(streams.out, "{:17}{}", format!("{name}:"), printable(&text))?;
    }
    Ok(())
}

fn channel_line(channel: &Value) -> String {
    let heads = list(channel.member("heads"), |head| Some(scalar(head)));
    if !heads.is_empty() {
        let deprecated = match channel.member("deprecated").as_str() {
            None => String::new(),
            Some(message) => format!(" (deprecated: {message})"),
        };
        return format!(
            "{} head {}{deprecated}",
            scalar(channel.member("name")),
            heads.join(" ")
        );
    }
    let mut text = scalar(channel.member("channel"));
    for (name, value) in [
        ("replaces", scalar(channel.member("replaces"))),
        (
            "skips",
            list(channel.member("skips"), |one| Some(scalar(one))).join(" "),
        ),
        ("skipRange", scalar(channel.member("skipRange"))),
    ] {
        if !value.is_empty() {
            text = format!("{text} {name} {value}");
        }
    }
    text
}

/// What people want to know of a property; nothing of those that are shown elsewhere.
fn property_line(property: &Value) -> Option<(&'static str, String)> {
    let value = property.member("value");
    let kind = || {
        let group = scalar(value.member("group"));
        let version = scalar(value.member("version"));
        format!("{group}/{version} {}", scalar(value.member("kind")))
    };
    match property.member("type").as_str()? {
        "olm.gvk" => Some(("Provides", kind())),
        "olm.gvk.required" => Some(("Requires", kind())),
        "olm.package.required" => Some((
            "Requires",
            format!(
                "package {} {}",
                scalar(value.member("packageName")),
                scalar(value.member("versionRange"))
            ),
        )),
        "olm.constraint" => Some(("Requires", format!("constraint {value}"))),
        "olm.maxOpenShiftVersion" => Some(("OpenShift", format!("at most {}", scalar(value)))),
        _ => None,
    }
}

fn list(value: &Value, of: impl Fn(&Value) -> Option<String>) -> Vec<String> {
    let all = value.as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter_map(of).collect()
}

/// A value on one line, not too long.
fn scalar(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    };
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}

//! `oxolm catalog mirror-list`

use std::collections::BTreeMap;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use super::open::{From, Images};
use super::select::{self, Selection};
use super::{Answer, Output, Streams, print_json};
use crate::fbc::meta::Meta;
use crate::fbc::package::{Packages, images};
use crate::store::catalog;

/// List every image that packages need, by digest: for mirrors and clusters without a network.
///
/// These are the images of the bundles and those that they relate to, and the catalog's own image if SRC is one. An image that
/// the catalog names by tag is looked up in its registry.
///
/// -o json prints [{"image", "bundles": []}].
///
/// Exit code 0: done; 1: the server would refuse the catalog, there is no such package or version, or a tag cannot be looked
/// up; 2: SRC cannot be used.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  oxolm catalog mirror-list quay.io/operatorhubio/catalog:latest cert-manager@\">=1.16\" argocd-operator"
)]
pub(super) struct MirrorList {
    /// The catalog: a directory, a file, an image, or cluster:NAME
    #[arg(value_name = "SRC")]
    source: String,
    /// Only these packages, and only versions in the range [default: all]
    #[arg(value_name = "PACKAGE[@RANGE]")]
    selections: Vec<Selection>,
    /// Print images that are named by tag as they are, and ask no registry
    #[arg(long)]
    tags: bool,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    from: From,
}

pub(super) fn run(arguments: &MirrorList, streams: &mut Streams<'_>) -> anyhow::Result<Answer> {
    let opened = arguments.from.open(&arguments.source)?;
    let mut packages = Packages::default();
    // By package and bundle; of bundles equal in name the last one counts.
    let mut found: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    catalog::read_directory_or_file(opened.path(), &mut |_, located| {
        let meta = located.meta;
        packages.add(&meta);
        if meta.schema == Meta::BUNDLE {
            let images = images(&meta);
            found.insert((meta.package, meta.name), images);
        }
    })?;
    let packages = packages.finish();
    let Some(chosen) = select::bundles(&packages, &arguments.selections, streams)? else {
        return Ok(Answer::No);
    };
    let mut needed = Images::new();
    if let Some(own) = opened.image() {
        needed.entry(own).or_default();
    }
    for ((package, bundle), images) in &found {
        let is_chosen = chosen.get(package.as_str());
        if !is_chosen.is_some_and(|bundles| bundles.contains(bundle.as_str())) {
            continue;
        }
        for image in images {
            needed.entry(image.clone()).or_default().insert(bundle);
        }
    }
    let mut answer = Answer::Yes;
    if !arguments.tags {
        let (by_digest, problems) = arguments.from.by_digest(needed)?;
        needed = by_digest;
        for problem in problems {
            writeln!(streams.complaints, "{problem}").context("cannot write the answer")?;
            answer = Answer::No;
        }
    }
    match arguments.output {
        Output::Text => needed
            .keys()
            .try_for_each(|image| writeln!(streams.out, "{}", super::printable(image))),
        Output::Json => {
            let all = needed
                .iter()
                .map(|(image, bundles)| json!({"image": image, "bundles": bundles}));
            print_json(&all.collect::<Vec<_>>(), streams)
        }
    }
    .context("cannot write the answer")?;
    Ok(answer)
}

//! `oxolm uninstall-cleanup`: what goes before and after oxolm itself is removed from a cluster.

#![expect(clippy::doc_markdown, reason = "help texts are plain")]

use std::io::Write as _;

use anyhow::Context as _;
use clap::Args;
use kube::ResourceExt;

use super::Answer;
use super::cluster::{ClusterOptions, UnknownKind};
use crate::apply::certificates::release::Release;
use crate::controller::cluster_operator;

/// Say whether oxolm can be removed from a cluster, and remove what it would leave behind.
///
/// It is refused while there are ClusterExtensions, which are named: what they installed would run on with nobody to
/// maintain it, and they could not be deleted any more before oxolm is back. Nothing of an extension is ever touched.
/// Where the definitions of the API are to go as well (--with-crds), ClusterCatalogs stand in the way, too: without
/// oxolm nobody lets go of them, and the definitions would wait for that.
///
/// On OpenShift the ClusterOperator of oxolm goes; left behind, it could block the cluster's updates for ever. With
/// --tls-secret the certificate goes that oxolm made for its own servers. The chart runs this before it is uninstalled,
/// with --check, and afterwards; without helm, run it when the Deployment and its Pods are gone.
///
/// Exit code 0: done, or nothing stands in the way; 1: there are extensions, or catalogs; 2: the cluster cannot be asked.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  oxolm uninstall-cleanup --check\n  \
        kubectl delete deployment oxolm -n olmv1-system --cascade=foreground\n  \
        oxolm uninstall-cleanup --tls-secret olmv1-system/oxolm-catalogs-self-tls")]
pub(super) struct UninstallCleanup {
    /// Only say whether extensions stand in the way
    #[arg(long)]
    check: bool,
    /// Leave extensions, and what they installed, as they are
    #[arg(long)]
    force: bool,
    /// The definitions of the API are about to go, too, so neither extensions nor catalogs can be left
    #[arg(long, conflicts_with = "force")]
    with_crds: bool,
    /// The Secret of `oxolm run --tls-secret`, which goes too
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = secret)]
    tls_secret: Option<(String, String)>,
    /// The context of the kubeconfig [default: the current one, or the Pod's account]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// Runs `oxolm uninstall-cleanup`.
pub(super) fn run(arguments: &UninstallCleanup) -> anyhow::Result<Answer> {
    let cluster = ClusterOptions::of_context(arguments.context.as_deref()).connect()?;
    let names = names(cluster.extensions())?;
    let mut out = anstream::stdout();
    if !names.is_empty() && !arguments.force {
        writeln!(out, "{}", refusal(&names))?;
        return Ok(Answer::No);
    }
    if arguments.with_crds {
        let catalogs = self::names(cluster.catalogs())?;
        if !catalogs.is_empty() {
            writeln!(out, "{}", catalogs_refusal(&catalogs))?;
            return Ok(Answer::No);
        }
    }
    if !names.is_empty() {
        writeln!(
            out,
            "left as they are, with nobody to maintain them: {}",
            listed(&names)
        )?;
    }
    if arguments.check {
        writeln!(out, "nothing stands in the way of removing oxolm")?;
        return Ok(Answer::Yes);
    }
    let removed = cluster.ask(async |client| cluster_operator::remove(&client).await);
    let removed = removed.context("cannot remove the ClusterOperator")?;
    for name in &removed {
        writeln!(out, "removed ClusterOperator {name}")?;
    }
    let mut is_clean = removed.is_empty();
    if let Some((namespace, name)) = arguments.tls_secret.clone() {
        let secret = format!("{namespace}/{name}");
        let removed = cluster.ask(async |client| {
            let hosts = Vec::new();
            let release = Release {
                client,
                namespace,
                name,
                hosts,
            };
            release.remove().await
        })?;
        if removed {
            writeln!(out, "removed Secret {secret}")?;
            is_clean = false;
        }
    }
    if is_clean {
        writeln!(out, "nothing is left behind")?;
    }
    Ok(Answer::Yes)
}

fn secret(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name))
            if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
        {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("expected NAMESPACE/NAME".to_owned()),
    }
}

/// The names of what there is; none where the API is gone.
fn names<K: kube::Resource>(objects: anyhow::Result<Vec<K>>) -> anyhow::Result<Vec<String>> {
    match objects {
        Ok(objects) => Ok(objects.iter().map(ResourceExt::name_any).collect()),
        Err(error) if error.is::<UnknownKind>() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// What helm thinks of a release whose uninstall was refused.
const AFTER_REFUSAL: &str = "Nothing was removed, but helm takes no upgrade of this release until helm rollback RELEASE \
    REVISION, with the newest revision of helm history, has put it right.";

fn refusal(names: &[String]) -> String {
    format!(
        "oxolm cannot be removed: {}. Delete what is no longer wanted (kubectl delete clusterextension NAME) and try again; \
         to leave it installed with nobody to maintain it, use --force (with helm: helm uninstall --no-hooks). \
         {AFTER_REFUSAL}",
        still_there("ClusterExtension", names)
    )
}

fn catalogs_refusal(names: &[String]) -> String {
    format!(
        "oxolm cannot be removed together with its API: {}. Delete them first (kubectl delete clustercatalog --all): \
         once oxolm is gone nobody lets go of them, and the definitions stay in deletion. Or keep the definitions (with \
         helm: crds.keep=true). {AFTER_REFUSAL}",
        still_there("ClusterCatalog", names)
    )
}

fn still_there(kind: &str, names: &[String]) -> String {
    let (plural, verb) = if names.len() == 1 {
        ("", "is")
    } else {
        ("s", "are")
    };
    format!(
        "{} {kind}{plural} {verb} still there: {}",
        names.len(),
        listed(names)
    )
}

/// How many extensions are named; there may be a thousand.
const NAMED: usize = 20;

fn listed(names: &[String]) -> String {
    let named: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    match names.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_a_namespace() {
        assert_eq!(secret("n/s"), Ok(("n".to_owned(), "s".to_owned())));
        for wrong in ["", "s", "/s", "n/", "n/s/t"] {
            assert!(secret(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_stands_in_the_way_is_named() {
        let names = |count: usize| -> Vec<String> { (0..count).map(|i| format!("e{i}")).collect() };
        assert!(
            refusal(&names(1)).starts_with(
                "oxolm cannot be removed: 1 ClusterExtension is still there: e0. Delete"
            )
        );
        assert!(refusal(&names(2)).contains("2 ClusterExtensions are still there: e0, e1. "));
        assert!(catalogs_refusal(&names(1)).starts_with(
            "oxolm cannot be removed together with its API: 1 ClusterCatalog is still there: e0. Delete"
        ));
        assert!(listed(&names(22)).ends_with("e19 and 2 more"));
    }
}

//! `oxolm status`
#![expect(
    clippy::disallowed_methods,
    reason = "shell: says how long work is under way"
)]

use std::collections::BTreeSet;
use std::io::{self, Write};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};

use super::Answer;
use super::cluster::{Cluster, ClusterOptions};
use super::installed::owner;
use super::table::table;
use crate::api::cluster_object_set::LifecycleState;
use crate::api::{ClusterCatalog, ClusterExtension, ClusterObjectSet};
use crate::apply::survey::{State, Surveyed, survey};
use crate::error::chain;
use crate::revision::{Account, revisions_of, states};
use crate::status::overview::{self, Overview, Urgency};

/// Show all extensions and catalogs, what is wrong first, each with the next thing to do; also the revisions that
/// belong to no extension.
///
/// With NAME: one extension, with its revisions and their objects, the newest first; or the revision of that name. Content
/// is read from Secrets of oxolm's namespace, with the rights of whoever asks; so are the Pods of a workload that is not
/// ready, for what they say of it.
///
/// -o json prints {"extensions": [{"name", "state", "urgency", "version", "bundle", "catalog", "account",
/// "availableUpdate", "why", "next"}], "catalogs": [{"name", "state", "urgency", "why", "next"}], "revisions": as catalogs};
/// with NAME the extension alone, with "revisions":
/// [{"name", "state", "urgency", "why", "next", "objects": [{"phase", "kind", "namespace", "name", "state", "why"}]}].
/// "account" is the service account that installs, as NAMESPACE/NAME. "urgency" is Broken, Failing, Notice, Working or Fine.
///
/// A rollout or an uninstall that takes more than five minutes counts as failing: something may hold it up.
///
/// Exit code 0: nothing is broken or failing; 1: something is; 2: the cluster cannot be asked.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  oxolm status\n  oxolm status argocd\n  oxolm status -o json | jq '.extensions[] | select(.urgency == \"Broken\")'"
)]
pub(super) struct Status {
    /// The extension, or a revision
    name: Option<String>,
    /// The context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The namespace that oxolm runs in
    #[arg(long, value_name = "NAME", default_value = "olmv1-system")]
    system_namespace: String,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    #[default]
    Text,
    Json,
}

pub(super) fn run(arguments: &Status) -> anyhow::Result<Answer> {
    let cluster = ClusterOptions::of_context(arguments.context.as_deref()).connect()?;
    let mut out = io::BufWriter::new(anstream::stdout());
    let is_well = match &arguments.name {
        Some(name) => one(arguments, &cluster, name, &mut out)?,
        None => all(arguments, &cluster, &mut out)?,
    };
    out.flush().context("cannot write the answer")?;
    Ok(if is_well { Answer::Yes } else { Answer::No })
}

fn is_well(overview: &Overview) -> bool {
    overview.urgency > Urgency::Failing
}

/// Every extension and catalog, and the revisions that belong to no extension.
fn all(arguments: &Status, cluster: &Cluster, out: &mut impl Write) -> anyhow::Result<bool> {
    let now = Timestamp::now();
    let extensions = sorted(cluster.extensions()?, |one| overview::extension(one, now));
    let catalogs = sorted(cluster.catalogs()?, overview::catalog);
    let sets = cluster.sets()?;
    let alone = sorted(alone(&extensions, &sets), |one| {
        overview::revision(one, now)
    });
    let overviews = || {
        let of_extensions = extensions.iter().map(|(_, overview)| overview);
        let of_catalogs = catalogs.iter().map(|(_, overview)| overview);
        let of_revisions = alone.iter().map(|(_, overview)| overview);
        of_extensions.chain(of_catalogs).chain(of_revisions)
    };
    let written = match arguments.output {
        Output::Json => {
            let listed = json!({
                "extensions": extensions.iter().map(|extension| described(extension, &sets)).collect::<Vec<_>>(),
                "catalogs": catalogs.iter().map(|(catalog, overview)| with_name(&catalog.name_any(), overview)).collect::<Vec<_>>(),
                "revisions": alone.iter().map(|(set, overview)| with_name(&set.name_any(), overview)).collect::<Vec<_>>(),
            });
            print_json(&listed, out)
        }
        Output::Text => tables(&extensions, &catalogs, &alone, &sets, out),
    };
    written.context("cannot write the answer")?;
    Ok(overviews().all(is_well))
}

/// The revisions that belong to none of these extensions: somebody wrote them by hand, or their extension was orphaned.
fn alone(
    extensions: &[(ClusterExtension, Overview)],
    sets: &[ClusterObjectSet],
) -> Vec<ClusterObjectSet> {
    let owned: BTreeSet<String> = extensions
        .iter()
        .flat_map(|(extension, _)| revisions_of(sets, &owner(extension)))
        .map(|revision| revision.name)
        .collect();
    let alone = sets.iter().filter(|set| !owned.contains(&set.name_any()));
    alone.cloned().collect()
}

/// The objects with their overviews, the most urgent first, then by name.
fn sorted<T: kube::ResourceExt>(
    objects: Vec<T>,
    overview: impl Fn(&T) -> Overview,
) -> Vec<(T, Overview)> {
    let mut found: Vec<(T, Overview)> = objects
        .into_iter()
        .map(|object| {
            let overview = overview(&object);
            (object, overview)
        })
        .collect();
    found.sort_by_key(|(object, overview)| (overview.urgency, object.name_any()));
    found
}

fn tables(
    extensions: &[(ClusterExtension, Overview)],
    catalogs: &[(ClusterCatalog, Overview)],
    alone: &[(ClusterObjectSet, Overview)],
    sets: &[ClusterObjectSet],
    out: &mut impl Write,
) -> io::Result<()> {
    let count = |of: &mut dyn Iterator<Item = &Overview>| of.filter(|one| !is_well(one)).count();
    let bad = count(&mut extensions.iter().map(|(_, overview)| overview));
    let bad_catalogs = count(&mut catalogs.iter().map(|(_, overview)| overview));
    let (some, others) = (extensions.len(), catalogs.len());
    if alone.is_empty() {
        writeln!(
            out,
            "{bad} of {some} extensions and {bad_catalogs} of {others} catalogs need somebody"
        )?;
    } else {
        let bad_revisions = count(&mut alone.iter().map(|(_, overview)| overview));
        writeln!(
            out,
            "{bad} of {some} extensions, {bad_catalogs} of {others} catalogs and {bad_revisions} of {} revisions without \
             extension need somebody",
            alone.len()
        )?;
    }
    if !extensions.is_empty() {
        writeln!(out)?;
        let rows = extensions.iter().map(|(extension, overview)| {
            let installed = installed(extension, sets);
            let account = installed.account;
            [
                extension.name_any(),
                installed.version,
                installed.catalog,
                account.map_or_else(|| "-".to_owned(), |account| account.to_string()),
                overview.state.to_owned(),
                installed.update,
            ]
        });
        table(
            [
                "EXTENSION",
                "VERSION",
                "CATALOG",
                "ACCOUNT",
                "STATE",
                "UPDATE",
            ],
            rows,
            out,
        )?;
    }
    if !catalogs.is_empty() {
        writeln!(out)?;
        let rows = catalogs
            .iter()
            .map(|(catalog, overview)| [catalog.name_any(), overview.state.to_owned()]);
        table(["CATALOG", "STATE"], rows, out)?;
    }
    if !alone.is_empty() {
        writeln!(out)?;
        let rows = alone.iter().map(|(set, overview)| {
            let account = Account::of(&set.metadata);
            [
                set.name_any(),
                account.map_or_else(|| "-".to_owned(), |account| account.to_string()),
                overview.state.to_owned(),
            ]
        });
        table(["REVISION", "ACCOUNT", "STATE"], rows, out)?;
    }
    for (extension, overview) in extensions {
        explain(
            &format!("extension {}", extension.name_any()),
            overview,
            out,
        )?;
    }
    for (catalog, overview) in catalogs {
        explain(&format!("catalog {}", catalog.name_any()), overview, out)?;
    }
    for (set, overview) in alone {
        explain(&format!("revision {}", set.name_any()), overview, out)?;
    }
    Ok(())
}

/// Why something is not fine, and what to do.
fn explain(what: &str, overview: &Overview, out: &mut impl Write) -> io::Result<()> {
    if overview.why.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{what}: {}", overview.state)?;
    for line in overview.why.lines() {
        writeln!(out, "  {line}")?;
    }
    match &overview.next {
        Some(next) if overview.urgency < Urgency::Working => writeln!(out, "  → {next}"),
        _ => Ok(()),
    }
}

fn print_json(value: &impl serde::Serialize, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

/// What an extension has, for a table: empty where there is nothing.
#[derive(Default)]
struct Installed {
    version: String,
    bundle: String,
    catalog: String,
    update: String,
    /// Who installs it, as far as revisions and spec tell: the default account is the controller's to know.
    account: Option<Account>,
}

fn installed(extension: &ClusterExtension, sets: &[ClusterObjectSet]) -> Installed {
    let status = extension.status.clone().unwrap_or_default();
    let update = status.available_update.map(|update| update.version);
    let install = status.install.map(|install| Installed {
        version: install.bundle.version,
        bundle: install.bundle.name,
        catalog: install.catalog.unwrap_or_default(),
        ..Installed::default()
    });
    let owner = owner(extension);
    let revision = states(&revisions_of(sets, &owner)).installed;
    Installed {
        update: update.unwrap_or_default(),
        account: revision
            .and_then(|revision| revision.account)
            .or(owner.account),
        ..install.unwrap_or_default()
    }
}

fn with_name(name: &str, overview: &Overview) -> Map<String, Value> {
    let fields = [
        ("name", json!(name)),
        ("state", json!(overview.state)),
        ("urgency", json!(format!("{:?}", overview.urgency))),
        ("why", json!(overview.why)),
        ("next", json!(overview.next)),
    ];
    fields
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect()
}

fn described(
    (extension, overview): &(ClusterExtension, Overview),
    sets: &[ClusterObjectSet],
) -> Map<String, Value> {
    let mut described = with_name(&extension.name_any(), overview);
    let installed = installed(extension, sets);
    let account = installed.account.map(|account| account.to_string());
    for (field, value) in [
        ("version", installed.version),
        ("bundle", installed.bundle),
        ("catalog", installed.catalog),
        ("account", account.unwrap_or_default()),
        ("availableUpdate", installed.update),
    ] {
        let known = Some(value).filter(|value| !value.is_empty());
        described.insert(field.to_owned(), json!(known));
    }
    described
}

/// A revision, how it is, and its objects or why they cannot be told.
struct Surveys {
    set: ClusterObjectSet,
    overview: Overview,
    objects: Result<Vec<Surveyed>, String>,
}

/// One extension with its revisions; or one revision, where no extension has that name.
fn one(
    arguments: &Status,
    cluster: &Cluster,
    name: &str,
    out: &mut impl Write,
) -> anyhow::Result<bool> {
    let (extension, sets) = match cluster.extension(name) {
        Ok(found) => found,
        Err(error) => {
            let sets = cluster.sets().unwrap_or_default();
            let set = sets.into_iter().find(|set| set.name_any() == name);
            return revision(arguments, cluster, &set.ok_or(error)?, out);
        }
    };
    let overview = overview::extension(&extension, Timestamp::now());
    let mut revisions = Vec::new();
    for revision in revisions_of(&sets, &owner(&extension)).iter().rev() {
        let Some(set) = sets.iter().find(|set| set.name_any() == revision.name) else {
            continue;
        };
        revisions.push(surveys(arguments, cluster, set));
    }
    let is_well = is_well(&overview);
    let written = match arguments.output {
        Output::Json => {
            let mut described = described(&(extension, overview), &sets);
            let revisions = revisions.iter().map(revision_json).collect();
            described.insert("revisions".to_owned(), revisions);
            print_json(&described, out)
        }
        Output::Text => print_one((&extension, &overview), &sets, &revisions, out),
    };
    written.context("cannot write the answer")?;
    Ok(is_well)
}

/// One revision with its objects.
fn revision(
    arguments: &Status,
    cluster: &Cluster,
    set: &ClusterObjectSet,
    out: &mut impl Write,
) -> anyhow::Result<bool> {
    let revision = surveys(arguments, cluster, set);
    let written = match arguments.output {
        Output::Json => print_json(&revision_json(&revision), out),
        Output::Text => print_revision(&revision, out),
    };
    written.context("cannot write the answer")?;
    Ok(is_well(&revision.overview))
}

/// Looks at the objects of a revision, as far as it has any.
fn surveys(arguments: &Status, cluster: &Cluster, set: &ClusterObjectSet) -> Surveys {
    let objects = if set.spec.lifecycle_state == LifecycleState::Archived {
        Ok(Vec::new())
    } else {
        let namespace = arguments.system_namespace.as_str();
        let surveyed = cluster.ask(|client| async move { survey(&client, namespace, set).await });
        surveyed.map_err(|error| chain(&error))
    };
    Surveys {
        set: set.clone(),
        overview: overview::revision(set, Timestamp::now()),
        objects,
    }
}

fn print_one(
    (extension, overview): (&ClusterExtension, &Overview),
    sets: &[ClusterObjectSet],
    revisions: &[Surveys],
    out: &mut impl Write,
) -> io::Result<()> {
    let installed = installed(extension, sets);
    write!(out, "{}: {}", extension.name_any(), overview.state)?;
    if !installed.bundle.is_empty() {
        write!(out, ", {} ({})", installed.bundle, installed.version)?;
    }
    if !installed.catalog.is_empty() {
        write!(out, " from catalog {}", installed.catalog)?;
    }
    if let Some(account) = installed.account {
        write!(out, ", by service account {account}")?;
    }
    if !installed.update.is_empty() {
        write!(out, "; {} is available", installed.update)?;
    }
    writeln!(out)?;
    explain("extension", overview, out)?;
    for revision in revisions {
        writeln!(out)?;
        print_revision(revision, out)?;
    }
    Ok(())
}

fn print_revision(revision: &Surveys, out: &mut impl Write) -> io::Result<()> {
    let Surveys {
        set,
        overview,
        objects,
    } = revision;
    writeln!(out, "revision {}: {}", set.name_any(), overview.state)?;
    for line in overview.why.lines() {
        writeln!(out, "  {line}")?;
    }
    match objects {
        Err(why) => writeln!(out, "  its objects cannot be told: {why}")?,
        Ok(objects) if objects.is_empty() => {}
        Ok(objects) => {
            let rows = objects.iter().map(|object| {
                let (state, why) = words(&object.state);
                [
                    object.phase.clone(),
                    object.key.gvk.kind.clone(),
                    object.key.namespace.clone(),
                    object.key.name.clone(),
                    if why.is_empty() {
                        state.to_owned()
                    } else {
                        format!("{state}: {why}")
                    },
                ]
            });
            table(["PHASE", "KIND", "NAMESPACE", "NAME", "STATE"], rows, out)?;
        }
    }
    Ok(())
}

fn words(state: &State) -> (&'static str, String) {
    match state {
        State::Ready => ("ready", String::new()),
        State::NotReady(why) => ("not ready", why.clone()),
        State::Leaving(finalizers) if finalizers.is_empty() => ("being deleted", String::new()),
        State::Leaving(finalizers) => (
            "being deleted",
            format!("held by its finalizers {}", finalizers.join(", ")),
        ),
        State::Missing => ("missing", String::new()),
        State::Foreign(Some(owner)) => ("not its own", format!("{owner} controls it")),
        State::Foreign(None) => ("not its own", "nobody controls it".to_owned()),
        State::Unreadable(why) => ("unknown", why.clone()),
    }
}

fn revision_json(revision: &Surveys) -> Value {
    let mut described = with_name(&revision.set.name_any(), &revision.overview);
    match &revision.objects {
        Ok(objects) => {
            let objects = objects.iter().map(|object| {
                let (state, why) = words(&object.state);
                json!({
                    "phase": object.phase,
                    "kind": object.key.gvk.kind,
                    "namespace": object.key.namespace,
                    "name": object.key.name,
                    "state": state,
                    "why": why,
                })
            });
            described.insert("objects".to_owned(), objects.collect());
        }
        Err(why) => {
            described.insert("problem".to_owned(), json!(why));
        }
    }
    Value::Object(described)
}

#[cfg(test)]
mod tests;

//! `oxolm check-install`: whether oxolm does on a cluster what it is there for. `helm test` runs it.

#![expect(clippy::disallowed_types, reason = "shell: asks the API server")]

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;
use futures::StreamExt as _;
use kube::{Client, ResourceExt as _};
use owo_colors::OwoColorize as _;
use url::Url;

use super::Answer;
use super::cluster::{ClusterOptions, served_at};
use crate::api::cluster_catalog::AvailabilityMode;
use crate::api::condition::{self, ConditionType};
use crate::api::{ClusterCatalog, GROUP};
use crate::error::chain;

/// How long the content server may take: one that is just starting has nothing to say yet.
const PATIENCE: Duration = Duration::from_secs(30);

/// The kinds of the API.
const KINDS: [&str; 3] = ["ClusterCatalog", "ClusterExtension", "ClusterObjectSet"];

/// Check that oxolm works on a cluster: its API is there, and its catalogs are served.
///
/// The content server is asked as a client in the cluster asks it; its certificate is not looked at. A catalog that is
/// not serving is a failure, unless its spec says that it is not available.
///
/// Exit code 0: all is well; 1: something is not; 2: the cluster cannot be asked.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  oxolm check-install\n  \
    kubectl port-forward -n olmv1-system service/catalogd-service 8443:443 &\n  \
    oxolm check-install --catalogs-url https://localhost:8443")]
pub(super) struct CheckInstall {
    /// Where the catalogs are served
    #[arg(
        long,
        value_name = "URL",
        default_value = "https://catalogd-service.olmv1-system.svc"
    )]
    catalogs_url: Url,
    /// The context of the kubeconfig [default: the current one, or the Pod's account]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// One thing that was looked at: what should be, and why it is not.
type Look = (String, Result<(), String>);

/// Runs `oxolm check-install`.
pub(super) fn run(arguments: &CheckInstall) -> anyhow::Result<Answer> {
    let cluster = ClusterOptions::of_context(arguments.context.as_deref()).connect()?;
    let mut looks = vec![cluster.ask(async |client| {
        let api = format!("API {GROUP}/v1 is served");
        (api, served_kinds(&client).await)
    })];
    // Without the API there is nothing to list.
    if looks.iter().all(|(_, result)| result.is_ok()) {
        let catalogs = cluster.catalogs()?;
        let base = &arguments.catalogs_url;
        looks.extend(cluster.ask(async |_| content(base, &catalogs).await)?);
    }
    let mut out = anstream::stdout();
    for (what, result) in &looks {
        match result {
            Ok(()) => writeln!(out, "{:<6} {what}", "ok".green())?,
            Err(why) => writeln!(out, "{:<6} {what}: {why}", "failed".red())?,
        }
    }
    Ok(if looks.iter().all(|(_, result)| result.is_ok()) {
        Answer::Yes
    } else {
        Answer::No
    })
}

async fn served_kinds(client: &Client) -> Result<(), String> {
    let version = format!("{GROUP}/v1");
    let found = client.list_api_group_resources(&version).await;
    let found = found.map_err(|error| chain(&error))?;
    let is_there = |kind: &str| found.resources.iter().any(|one| one.kind == kind);
    let missing: Vec<&str> = KINDS.into_iter().filter(|kind| !is_there(kind)).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("it lacks {}", missing.join(", ")))
    }
}

/// The content server, and every catalog on it.
async fn content(base: &Url, catalogs: &[ClusterCatalog]) -> anyhow::Result<Vec<Look>> {
    let client = reqwest::Client::builder()
        .connect_timeout(PATIENCE)
        .read_timeout(PATIENCE)
        .tls_danger_accept_invalid_certs(true)
        .build()
        .context("cannot make a client")?;
    let base = base.as_str().trim_end_matches('/');
    let answers = match client.get(base).send().await {
        Ok(_) => Ok(()),
        Err(error) => Err(chain(&error)),
    };
    let is_there = answers.is_ok();
    let mut looks = vec![(format!("catalogs are served at {base}"), answers)];
    let wanted = catalogs
        .iter()
        .filter(|catalog| catalog.spec.availability_mode == AvailabilityMode::Available);
    for catalog in wanted.filter(|_| is_there) {
        let name = catalog.name_any();
        let result = if served_at(catalog).is_some() {
            let read = begins(&client, &format!("{base}/catalogs/{name}/api/v1/all")).await;
            read.map_err(|error| chain(error.as_ref()))
        } else {
            Err(not_serving(catalog))
        };
        looks.push((format!("ClusterCatalog {name} is served"), result));
    }
    Ok(looks)
}

/// Whether the server sends something.
async fn begins(client: &reqwest::Client, url: &str) -> anyhow::Result<()> {
    let answer = client.get(url).send().await?;
    ensure!(
        answer.status().is_success(),
        "{url} answers {}",
        answer.status()
    );
    let first = answer.bytes_stream().next().await.transpose()?;
    ensure!(first.is_some(), "{url} sends nothing");
    Ok(())
}

fn not_serving(catalog: &ClusterCatalog) -> String {
    let conditions = catalog.status.as_ref().map(|status| &status.conditions);
    let progressing = conditions.and_then(|all| condition::find(all, ConditionType::Progressing));
    match progressing.filter(|condition| !condition.message.is_empty()) {
        Some(condition) => format!("it is not serving: {}", condition.message),
        None => "it is not serving, and nobody has looked at it yet".to_owned(),
    }
}

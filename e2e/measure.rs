//! What installations cost: no story, but figures, for `hack/bench`.
//!
//! `measure catalogs [IDLE_SECONDS]` serves the real catalog, and then three of its size; `measure memory [IDLE_SECONDS]` looks
//! at what oxolm holds without catalogs, and with three and fifty extensions; `measure COUNT [IDLE_SECONDS]` installs COUNT
//! extensions at once, replays the same writes with a bare client, and looks at what oxolm does while nothing happens. Each
//! figure is a line; requests come from the API server's audit log, time and memory from the process.

mod catalogs;
#[path = "../hack/benches/figure.rs"]
mod figure;
mod load;
mod memory;
mod replay;
mod stored;
mod usage;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::harness::Cluster;
use crate::measure::figure::{calibrate, figure};
use crate::measure::load::Load;
use crate::measure::stored::Stored;
use crate::measure::usage::{Audit, Usage};

/// Runs the measurement that `arguments` ask for.
pub(crate) async fn run(arguments: &[String]) -> ExitCode {
    match measured(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("cannot measure: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measured(arguments: &[String]) -> anyhow::Result<()> {
    let (subject, arguments) = match arguments.split_first() {
        Some((first, rest)) if first == "catalogs" => ("catalogs", rest),
        Some((first, rest)) if first == "memory" => ("memory", rest),
        _ => ("installs", arguments),
    };
    let number = |at: usize, default: usize| -> anyhow::Result<usize> {
        match arguments.get(at) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .with_context(|| format!("{text:?} is no number")),
        }
    };
    calibrate();
    if subject == "catalogs" {
        let seconds = u64::try_from(number(0, 30)?)?;
        return catalogs::measure(Duration::from_secs(seconds)).await;
    }
    if subject == "memory" {
        let seconds = u64::try_from(number(0, 60)?)?;
        return memory::measure(Duration::from_secs(seconds)).await;
    }
    let (count, idle_seconds) = (number(0, 1)?, number(1, 30)?);
    let cluster = Arc::new(Cluster::prepare(&[]).await?);
    println!("{count} extensions: making their bundles and catalog");
    let load = Load::prepare(cluster.clone(), count).await?;
    cluster.controller.restart(&cluster.client).await?;
    load.add_catalog().await?;
    let name = |what: &str| format!("{count} extensions: {what}");
    // Goals were set for these counts.
    let by_count = |goals: &[(usize, f64)]| {
        let of = goals.iter().find(|(of, _)| *of == count);
        of.map(|(_, goal)| *goal)
    };
    idle(&cluster, Duration::from_secs(5)).await?;

    let before = Usage::of(&cluster)?;
    let mut audit = Audit::open()?;
    let started = Instant::now();
    load.add_extensions().await?;
    load.until_installed().await?;
    let took = started.elapsed();
    // Statuses are written after what they tell.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let after = Usage::of(&cluster)?;
    let mut requests = audit.requests()?;
    // The lease is renewed whatever is installed.
    requests.retain(|request| !request.resource.ends_with("/leases"));
    figure(
        &name("until all are installed"),
        took.as_secs_f64(),
        "s",
        by_count(&[(50, 15.0)]),
    );
    figure(
        &name("CPU time"),
        after.cpu_seconds - before.cpu_seconds,
        "s",
        by_count(&[(1, 0.1), (50, 5.0), (1000, 60.0)]),
    );
    figure(
        &name("resident memory at the end"),
        after.resident_mebibytes,
        "MiB",
        by_count(&[(1000, 100.0)]),
    );
    figure(
        &name("resident memory, highest"),
        after.highest_mebibytes,
        "MiB",
        None,
    );
    let objects = load.count_objects();
    figure(&name("objects in all"), count_of(objects), "objects", None);
    figure(
        &name("requests per object"),
        count_of(requests.len()) / count_of(objects),
        "requests",
        Some(6.0),
    );
    figure(
        &name("requests per object, first status to last"),
        count_of(usage::from_status_to_status(&requests)) / count_of(objects),
        "requests",
        Some(6.0),
    );
    usage::print_by_kind(&requests);
    let stored = Stored::of(&cluster.client).await?;
    figure(
        &name("bytes stored per extension"),
        count_of(stored.ours) / count_of(count),
        "B",
        None,
    );
    figure(
        &name("bytes stored, by the reference's"),
        count_of(stored.ours) / count_of(stored.references),
        "times",
        Some(0.5),
    );

    let idling = Duration::from_secs(u64::try_from(idle_seconds)?);
    audit.requests()?;
    let before = Usage::of(&cluster)?;
    idle(&cluster, idling).await?;
    let after = Usage::of(&cluster)?;
    let requests = audit.requests()?;
    let (leases, others): (Vec<_>, Vec<_>) = requests
        .into_iter()
        .filter(|request| request.verb != "watch")
        .partition(|request| request.resource.ends_with("/leases"));
    let seconds = idling.as_secs_f64();
    figure(
        &name("idle requests"),
        count_of(others.len()) / seconds,
        "1/s",
        Some(0.1),
    );
    figure(
        &name("idle lease requests"),
        count_of(leases.len()) / seconds,
        "1/s",
        Some(0.5),
    );
    figure(
        &name("idle CPU"),
        (after.cpu_seconds - before.cpu_seconds) / seconds * 100.0,
        "% of a core",
        Some(1.0),
    );
    usage::print_by_kind(&others);

    let writes = replay::record(&cluster.client, &load).await?;
    println!("uninstalling, then replaying {} writes", writes.len());
    let started = Instant::now();
    load.uninstall().await?;
    figure(
        &name("until all are uninstalled"),
        started.elapsed().as_secs_f64(),
        "s",
        None,
    );
    cluster.controller.kill()?;
    let replayed = replay::replay(&cluster.client, &load, writes).await?;
    figure(
        &name("a bare client's replay"),
        replayed.as_secs_f64(),
        "s",
        None,
    );
    figure(
        &name("installed, by the replay"),
        took.as_secs_f64() / replayed.as_secs_f64(),
        "times",
        Some(1.5),
    );
    Ok(())
}

/// Waits; oxolm must not end meanwhile.
async fn idle(cluster: &Cluster, time: Duration) -> anyhow::Result<()> {
    tokio::time::sleep(time).await;
    Usage::of(cluster).map(|_| ())
}

fn count_of(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

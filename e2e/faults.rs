//! oxolm killed, and the API server taken away, at random moments: no story, but fault runs, for `hack/test faults`.
//!
//! Four extensions live side by side, each one step further than the next: while one is installed, another is
//! upgraded, the third goes back to the old version and the fourth is uninstalled. Every fault hits all four. Then
//! each must end as it ended when nothing happened: the same objects, owned by the same managers, the same revisions
//! and the same status; after an uninstall nothing.

mod lane;
mod state;

use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use futures::future::try_join_all;

use crate::harness::Cluster;
use crate::harness::chance::Chance;
use crate::harness::wait::STEP_DEADLINE;

use lane::{LOOK_AGAIN, Lane, STEPS};

/// How often oxolm is killed unless `--runs` says otherwise.
const RUNS: usize = 20;
/// After so many kills the API server is taken away once.
const KILLS_PER_OUTAGE: usize = 10;
/// How long the API server is gone at most, beside the time that it needs to start.
const OUTAGE_MILLISECONDS: usize = 1500;

/// A fault comes within this time of a step's beginning: so long the longest ones take.
const STEP_MILLISECONDS: usize = 3000;

/// What happens.
#[derive(Clone, Copy)]
enum Fault {
    /// `kill -9` of oxolm, which is then started again.
    Kill,
    /// The API server crashes and comes back.
    Outage,
}

/// Runs as many faults as `arguments` ask for: `[--runs COUNT] [--seed NUMBER]`.
pub(crate) async fn run(arguments: &[String]) -> ExitCode {
    let mut passed = 0;
    let failure = match Plan::parse(arguments) {
        Err(error) => Some(error),
        Ok(plan) => {
            println!("seed {}: {} kills", plan.seed, plan.runs);
            let result = plan.follow(&mut passed).await;
            result.err().map(|error| {
                let Plan { runs, seed } = plan;
                error.context(format!(
                    "to have it again: hack/test faults --runs {runs} --seed {seed}"
                ))
            })
        }
    };
    if let Some(error) = &failure {
        println!("\nfault {} ... FAILED\n{error:#}", passed + 1);
    }
    let (verdict, failed) = if failure.is_some() {
        ("FAILED", 1)
    } else {
        ("ok", 0)
    };
    println!("\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored;");
    ExitCode::from(failed)
}

/// How many kills, and the seed that decides when.
struct Plan {
    runs: usize,
    seed: u64,
}

impl Plan {
    fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        let mut plan = Self {
            runs: RUNS,
            seed: now.as_secs(),
        };
        let mut arguments = arguments.iter();
        while let Some(option) = arguments.next() {
            let number = || arguments.clone().next().and_then(|text| text.parse().ok());
            let number: u64 =
                number().with_context(|| format!("{option} needs a number after it"))?;
            arguments.next();
            match option.as_str() {
                "--runs" => plan.runs = usize::try_from(number)?,
                "--seed" => plan.seed = number,
                _ => bail!("unknown option {option}: there are --runs and --seed"),
            }
        }
        Ok(plan)
    }

    async fn follow(&self, passed: &mut usize) -> anyhow::Result<()> {
        let cluster = Arc::new(Cluster::prepare(&[]).await?);
        cluster.controller.restart(&cluster.client).await?;
        let prepared = (0..STEPS.len()).map(|number| Lane::prepare(cluster.clone(), number));
        let mut lanes = try_join_all(prepared).await?;
        let learned = try_join_all(lanes.iter_mut().map(Lane::learn)).await?;
        let longest = learned.into_iter().max().unwrap_or_default();
        println!("without a fault, a step takes up to {longest:?}");

        let mut chance = Chance::new(self.seed);
        let kills = (1..=self.runs).flat_map(|kill| {
            let outage = kill.is_multiple_of(KILLS_PER_OUTAGE);
            std::iter::once(Fault::Kill).chain(outage.then_some(Fault::Outage))
        });
        for (round, fault) in kills.enumerate() {
            let moment = chance.below(STEP_MILLISECONDS);
            let moment = Duration::from_millis(u64::try_from(moment)?);
            let started = Instant::now();
            try_join_all(lanes.iter().map(Lane::begin)).await?;
            tokio::time::sleep(moment).await;
            strike(&cluster, fault, &mut chance).await?;
            let what = match fault {
                Fault::Kill => "oxolm killed",
                Fault::Outage => "the API server stopped",
            };
            let ended = tokio::select! {
                ended = try_join_all(lanes.iter_mut().map(Lane::end)) => ended,
                error = keep_alive(&cluster) => Err(error),
            };
            ended.with_context(|| format!("{what} after {moment:?}"))?;
            *passed += 1;
            let (number, took) = (round + 1, started.elapsed().as_secs_f64());
            println!("fault {number}: {what} after {moment:?} ... ok ({took:.1} s)");
        }
        try_join_all(lanes.iter().map(Lane::clear)).await?;
        Ok(())
    }
}

async fn strike(cluster: &Cluster, fault: Fault, chance: &mut Chance) -> anyhow::Result<()> {
    match fault {
        Fault::Kill => {
            cluster.controller.kill()?;
            // Another story tells that the next one waits for it to expire.
            cluster.controller.free_lease(&cluster.client).await?;
            cluster.controller.restart(&cluster.client).await
        }
        Fault::Outage => {
            let gone = Duration::from_millis(u64::try_from(chance.below(OUTAGE_MILLISECONDS))?);
            hack_cluster("stop").await?;
            tokio::time::sleep(gone).await;
            hack_cluster("start").await
        }
    }
}

/// Starts oxolm whenever it ends, as the kubelet would: a leader that cannot renew its lease does.
async fn keep_alive(cluster: &Cluster) -> anyhow::Error {
    loop {
        if let Err(error) = cluster.controller.revive(&cluster.client).await {
            return error;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Has `hack/cluster` stop or start the API server.
async fn hack_cluster(command: &str) -> anyhow::Result<()> {
    let data = std::env::var("OXOLM_CLUSTER_DATA").context("hack/cluster env prints it")?;
    let mut script = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/hack/cluster"));
    script
        .args([command, "kube-apiserver", "--data", &data])
        .stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || script.output());
    let output = tokio::time::timeout(2 * STEP_DEADLINE, output)
        .await
        .context("hack/cluster does not end")???;
    ensure!(
        output.status.success(),
        "hack/cluster {command}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

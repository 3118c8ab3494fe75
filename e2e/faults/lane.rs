//! One extension that goes round: installed, upgraded, led back, uninstalled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::json;

use crate::faults::state::State;
use crate::harness::Cluster;
use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::{self, STEP_DEADLINE};

/// The time between two looks at what there is.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How long a step may take after a fault: a new leader may have to wait for the lease of the old one.
const ENDS_WITHIN: Duration = Duration::from_mins(2);
/// What did not change for so long is how a step ends.
const SETTLED: Duration = Duration::from_secs(2);

/// What is done, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Install,
    Upgrade,
    GoBack,
    Uninstall,
}

pub(super) const STEPS: [Step; 4] = [Step::Install, Step::Upgrade, Step::GoBack, Step::Uninstall];

pub(super) struct Lane {
    stage: Stage,
    state: State,
    /// The step that comes next, or is under way.
    at: usize,
    /// How each step ends.
    ends: Vec<Vec<String>>,
}

/// A version with a map that only it has.
fn bundle(version: &'static str, map: &str) -> Bundle {
    let map = format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: PACKAGE-{map}}}}}\n");
    Bundle {
        manifests: vec![("map.yaml", map)],
        ..Bundle::new(version)
    }
}

impl Lane {
    /// A lane that begins with step `number`.
    pub(super) async fn prepare(cluster: Arc<Cluster>, number: usize) -> anyhow::Result<Self> {
        let name = format!("fault-{number}");
        let bundles = [bundle("1.0.0", "old"), bundle("1.1.0", "new")];
        let stage = Stage::offering(cluster, &name, &bundles).await?;
        let state = State::of(&stage).await?;
        Ok(Self {
            stage,
            state,
            at: number,
            ends: Vec::new(),
        })
    }

    /// Goes round once without a fault and keeps how each step ends, then goes on to where the lane begins. The longest
    /// time that a step took.
    pub(super) async fn learn(&mut self) -> anyhow::Result<Duration> {
        let begins_at = std::mem::take(&mut self.at);
        let mut longest = Duration::ZERO;
        for step in STEPS {
            let started = Instant::now();
            self.begin().await?;
            self.until_told(step).await?;
            longest = longest.max(started.elapsed());
            if step == Step::Uninstall {
                // The garbage collector may come late.
                self.ends.push(Vec::new());
                self.end().await?;
            } else {
                self.ends.push(self.settled().await?);
                self.at += 1;
            }
        }
        while self.at != begins_at {
            self.begin().await?;
            self.end().await?;
        }
        Ok(longest)
    }

    /// Asks for the next step.
    pub(super) async fn begin(&self) -> anyhow::Result<()> {
        let version =
            |version: &str| json!({"version": version, "upgradeConstraintPolicy": "SelfCertified"});
        match STEPS[self.at] {
            Step::Install => self.stage.add_extension(&version("1.0.0")).await,
            Step::Upgrade => self.stage.change_extension(&version("1.1.0")).await,
            Step::GoBack => self.stage.change_extension(&version("1.0.0")).await,
            Step::Uninstall => {
                let path = format!(
                    "/apis/olm.operatorframework.io/v1/clusterextensions/{}",
                    self.stage.name
                );
                self.stage.remove(&path, &json!({})).await
            }
        }
    }

    /// Waits until the step that was begun has ended as it did without a fault.
    pub(super) async fn end(&mut self) -> anyhow::Result<()> {
        let (step, name) = (STEPS[self.at], self.stage.name.clone());
        let wanted = &self.ends[self.at];
        let started = Instant::now();
        loop {
            let found = self.state.read(&self.stage).await?;
            if found == *wanted {
                break;
            }
            if started.elapsed() > ENDS_WITHIN {
                let told = self.stage.cluster.controller.last_lines(25);
                bail!(
                    "{step:?} of {name} ends otherwise than without a fault:\n{}\noxolm said:\n{told}",
                    differences(wanted, &found)
                );
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        self.at = (self.at + 1) % STEPS.len();
        Ok(())
    }

    /// Takes away what the lane stands on.
    pub(super) async fn clear(&self) -> anyhow::Result<()> {
        self.stage.clear().await
    }

    /// Waits until the status tells that a step is over.
    async fn until_told(&self, step: Step) -> anyhow::Result<()> {
        let version = match step {
            Step::Install | Step::GoBack => "1.0.0",
            Step::Upgrade => "1.1.0",
            Step::Uninstall => {
                let (cluster, extensions) = (&self.stage.cluster, self.stage.extensions());
                return wait::until_gone(cluster, &extensions, &self.stage.name).await;
            }
        };
        self.stage.until_installed(version).await?;
        self.stage.until_active(1).await?;
        Ok(())
    }

    /// What there is when nothing changes any more.
    async fn settled(&self) -> anyhow::Result<Vec<String>> {
        let started = Instant::now();
        let (mut last, mut since) = (Vec::new(), Instant::now());
        while started.elapsed() < STEP_DEADLINE {
            let found = self.state.read(&self.stage).await?;
            if found != last {
                (last, since) = (found, Instant::now());
            } else if since.elapsed() > SETTLED {
                return Ok(last);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Err(anyhow::anyhow!("something is always changing")).context(self.stage.name.clone())
    }
}

/// The lines that only one side has.
fn differences(wanted: &[String], found: &[String]) -> String {
    let only = |sign: &str, these: &[String], those: &[String]| {
        let lines: Vec<String> = these
            .iter()
            .filter(|line| !those.contains(line))
            .map(|line| format!("{sign} {line}"))
            .collect();
        lines.join("\n")
    };
    format!("{}\n{}", only("-", wanted, found), only("+", found, wanted))
}

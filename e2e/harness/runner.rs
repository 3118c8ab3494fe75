//! Runs stories side by side and prints what `cargo test` would print.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{FutureExt as _, LocalBoxFuture};
use futures::stream::{self, StreamExt as _};

use super::Cluster;

/// How long a story may take: a rollout on a busy machine takes a minute, five of them are a story.
const STORY_DEADLINE: Duration = Duration::from_mins(5);

/// How many stories run side by side.
const STORIES_AT_ONCE: usize = 4;

/// How a story ended, if it did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything was as it should be.
    Passed,
    /// It could not be told here, and why.
    Skipped(&'static str),
}

/// A story: a name, and what happens in it.
#[derive(Clone, Copy)]
pub(crate) struct Story {
    pub(crate) name: &'static str,
    pub(crate) tell: fn(Arc<Cluster>) -> LocalBoxFuture<'static, anyhow::Result<Outcome>>,
}

/// A story from its name and an `async fn(Arc<Cluster>) -> anyhow::Result<Outcome>`.
macro_rules! story {
    ($name:literal, $tell:path) => {
        $crate::harness::Story {
            name: $name,
            tell: |cluster| Box::pin($tell(cluster)),
        }
    };
}
pub(crate) use story;

/// Stories that are told together.
#[derive(Clone, Copy)]
pub(crate) struct Chapter {
    pub(crate) stories: &'static [Story],
    /// How many at the same time.
    pub(crate) at_once: usize,
}

/// Stories side by side; they wait more than they work.
pub(crate) const fn side_by_side(stories: &'static [Story]) -> Chapter {
    Chapter {
        stories,
        at_once: STORIES_AT_ONCE,
    }
}

/// Stories one after the other: they stop oxolm, and nobody else could wait that long.
pub(crate) const fn one_by_one(stories: &'static [Story]) -> Chapter {
    Chapter {
        stories,
        at_once: 1,
    }
}

/// Runs the stories that `arguments` choose, on a cluster that `prepare` gives, and says how it went.
///
/// Arguments as for `cargo test`: parts of names, `--exact`, `--skip PART`, `--list`; other options are ignored, so
/// that what a person passes to all tests does not hurt.
pub(crate) async fn run(
    chapters: &[Chapter],
    arguments: Vec<String>,
    prepare: impl AsyncFnOnce() -> anyhow::Result<Cluster>,
) -> ExitCode {
    let choice = Choice::parse(arguments);
    let all: usize = chapters.iter().map(|chapter| chapter.stories.len()).sum();
    let chosen: Vec<(Vec<Story>, usize)> = chapters
        .iter()
        .map(|chapter| {
            let stories = chapter.stories.iter().copied();
            let taken = stories.filter(|story| choice.takes(story.name));
            (taken.collect(), chapter.at_once)
        })
        .collect();
    let count: usize = chosen.iter().map(|(stories, _)| stories.len()).sum();
    if choice.lists {
        for story in chosen.iter().flat_map(|(stories, _)| stories) {
            println!("{}: test", story.name);
        }
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {count} tests");
    let started = Instant::now();
    let mut tally = Tally::default();
    let told = async { tell_all(Arc::new(prepare().await?), &chosen, &mut tally).await };
    if let Err(error) = told.await {
        println!("the cluster is not usable: {error:#}");
        println!(
            "\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out"
        );
        return ExitCode::from(101);
    }
    tally.print(all - count, started.elapsed())
}

/// The chapters one after the other. oxolm is started after the first.
async fn tell_all(
    cluster: Arc<Cluster>,
    chapters: &[(Vec<Story>, usize)],
    tally: &mut Tally,
) -> anyhow::Result<()> {
    for (at, (stories, at_once)) in chapters.iter().enumerate() {
        if at == 1 {
            cluster.controller.restart(&cluster.client).await?;
        }
        let mut results = stream::iter(stories)
            .map(|story| tell(story, cluster.clone()))
            .buffer_unordered(*at_once);
        while let Some((name, result)) = results.next().await {
            tally.add(name, result);
        }
    }
    Ok(())
}

/// One story under its deadline; a panic is a failure.
async fn tell(story: &Story, cluster: Arc<Cluster>) -> (&'static str, Result<Outcome, String>) {
    let telling = AssertUnwindSafe((story.tell)(cluster)).catch_unwind();
    let result = match tokio::time::timeout(STORY_DEADLINE, telling).await {
        Ok(Ok(Ok(outcome))) => Ok(outcome),
        Ok(Ok(Err(error))) => Err(format!("{error:#}")),
        Ok(Err(panic)) => Err(panic_text(panic.as_ref())),
        Err(_) => Err(format!("not over after {} s", STORY_DEADLINE.as_secs())),
    };
    (story.name, result)
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panicked: {}", text.unwrap_or("no text"))
}

/// Which stories are wanted.
#[derive(Debug, Default)]
struct Choice {
    parts: Vec<String>,
    skipped: Vec<String>,
    exact: bool,
    lists: bool,
}

impl Choice {
    fn parse(arguments: Vec<String>) -> Self {
        let mut choice = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--exact" => choice.exact = true,
                "--list" => choice.lists = true,
                "--skip" => choice.skipped.extend(arguments.next()),
                option if option.starts_with('-') => {}
                _ => choice.parts.push(argument),
            }
        }
        choice
    }

    fn takes(&self, name: &str) -> bool {
        let fits = |part: &String| {
            if self.exact {
                name == part
            } else {
                name.contains(part.as_str())
            }
        };
        (self.parts.is_empty() || self.parts.iter().any(fits)) && !self.skipped.iter().any(fits)
    }
}

/// What came of the stories.
#[derive(Debug, Default)]
struct Tally {
    passed: usize,
    skipped: usize,
    failures: BTreeMap<&'static str, String>,
}

impl Tally {
    fn add(&mut self, name: &'static str, result: Result<Outcome, String>) {
        match result {
            Ok(Outcome::Passed) => {
                self.passed += 1;
                println!("test {name} ... ok");
            }
            Ok(Outcome::Skipped(reason)) => {
                self.skipped += 1;
                println!("test {name} ... skipped ({reason})");
            }
            Err(failure) => {
                println!("test {name} ... FAILED");
                self.failures.insert(name, failure);
            }
        }
    }

    fn print(&self, filtered: usize, elapsed: Duration) -> ExitCode {
        if !self.failures.is_empty() {
            println!("\nfailures:");
            for (name, failure) in &self.failures {
                println!("\n---- {name} ----\n{failure}");
            }
        }
        let verdict = if self.failures.is_empty() {
            "ok"
        } else {
            "FAILED"
        };
        println!(
            "\ntest result: {verdict}. {} passed; {} failed; {} ignored; 0 measured; {filtered} filtered out; finished in {:.2}s\n",
            self.passed,
            self.failures.len(),
            self.skipped,
            elapsed.as_secs_f64(),
        );
        if self.failures.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(101)
        }
    }
}

//! Who waits for a pass since when, and whose pass is under way: what client-go tells of its work queues, and how it
//! counts it.
//!
//! Asking twice is waiting once. What comes back by itself after a delay begins to wait when the delay is over.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

use crate::controller::metrics::Controller;
use crate::metrics::{
    LONGEST_SECONDS, Labels, Metric, QUEUE_ADDS, QUEUE_DEPTH, QUEUE_RETRIES, QUEUE_SECONDS,
    UNFINISHED_SECONDS, WORK_SECONDS,
};

/// The upper bounds of times in and after the queue, in seconds: those of client-go.
const SECONDS: [f64; 12] = [
    1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0,
];

/// What one queue tells.
#[derive(Debug)]
pub(super) struct Waiting {
    state: Mutex<State>,
    adds: Counter,
    retries: Counter,
    waited: Histogram,
    worked: Histogram,
}

#[derive(Debug, Default)]
struct State {
    /// When each began to wait, or will.
    due: BTreeMap<Box<str>, Due>,
    /// When each pass under way began.
    running: BTreeMap<Box<str>, Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Due {
    at: Instant,
    /// Whether nobody asked for it, but a delay will be over.
    is_scheduled: bool,
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            adds: Counter::default(),
            retries: Counter::default(),
            waited: Histogram::new(SECONDS),
            worked: Histogram::new(SECONDS),
        }
    }
}

impl Waiting {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody asks for a pass.
    pub(super) fn add(&self, name: &str, now: Instant) {
        let mut state = self.state();
        let due = Due {
            at: now,
            is_scheduled: false,
        };
        match state.due.get_mut(name) {
            Some(known) if known.at <= now => return,
            Some(known) => *known = due,
            None => {
                state.due.insert(name.into(), due);
            }
        }
        self.adds.inc();
    }

    /// A pass begins.
    pub(super) fn begin(&self, name: &str, now: Instant) {
        let mut state = self.state();
        if let Some(due) = state.due.remove(name) {
            let waited = now.saturating_duration_since(due.at);
            self.waited.observe(waited.as_secs_f64());
            if due.is_scheduled {
                self.adds.inc();
            }
        }
        state.running.insert(name.into(), now);
    }

    /// A pass is over; the object comes back after the delay, if there is one.
    pub(super) fn end(&self, name: &str, now: Instant, again: Option<Duration>) {
        let mut state = self.state();
        if let Some(began) = state.running.remove(name) {
            let worked = now.saturating_duration_since(began);
            self.worked.observe(worked.as_secs_f64());
        }
        if let Some(delay) = again {
            let due = Due {
                at: now + delay,
                is_scheduled: true,
            };
            // Who was asked for meanwhile waits already.
            state.due.entry(name.into()).or_insert(due);
        }
    }

    /// The pass is to be tried again because it failed.
    pub(super) fn retry(&self) {
        self.retries.inc();
    }

    /// There is no such object any more.
    pub(super) fn forget(&self, name: &str) {
        self.state().due.remove(name);
    }

    /// How many wait.
    fn depth(&self, now: Instant) -> usize {
        let state = self.state();
        state.due.values().filter(|due| due.at <= now).count()
    }

    /// How long each pass under way has taken so far.
    fn unfinished(&self, now: Instant) -> Vec<Duration> {
        let state = self.state();
        let began = state.running.values();
        began
            .map(|began| now.saturating_duration_since(*began))
            .collect()
    }
}

/// Tells of several queues at once.
#[derive(Debug, Default)]
pub struct WorkQueues(Vec<(Controller, Arc<Waiting>)>);

impl WorkQueues {
    pub(super) fn of(queues: Vec<(Controller, Arc<Waiting>)>) -> Self {
        Self(queues)
    }

    /// Writes one metric: `each` writes the series of a queue.
    fn tell(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        metric: &Metric,
        each: impl Fn(&Waiting, MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let mut family = metric.begin(encoder)?;
        for (controller, waiting) in &self.0 {
            let label = controller.label();
            let labels: Labels<2> = [("controller", label), ("name", label)];
            each(waiting, family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Collector for WorkQueues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = Instant::now();
        let encoder = &mut encoder;
        self.tell(encoder, &QUEUE_DEPTH, |waiting, series| {
            let depth = i64::try_from(waiting.depth(now)).unwrap_or(i64::MAX);
            ConstGauge::new(depth).encode(series)
        })?;
        self.tell(encoder, &QUEUE_ADDS, |waiting, series| {
            waiting.adds.encode(series)
        })?;
        self.tell(encoder, &QUEUE_SECONDS, |waiting, series| {
            waiting.waited.encode(series)
        })?;
        self.tell(encoder, &WORK_SECONDS, |waiting, series| {
            waiting.worked.encode(series)
        })?;
        self.tell(encoder, &UNFINISHED_SECONDS, |waiting, series| {
            let all: Duration = waiting.unfinished(now).iter().sum();
            ConstGauge::new(all.as_secs_f64()).encode(series)
        })?;
        self.tell(encoder, &LONGEST_SECONDS, |waiting, series| {
            let longest = waiting.unfinished(now).into_iter().max();
            ConstGauge::new(longest.unwrap_or_default().as_secs_f64()).encode(series)
        })?;
        self.tell(encoder, &QUEUE_RETRIES, |waiting, series| {
            waiting.retries.encode(series)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_twice_is_waiting_once_and_a_delay_is_no_wait() {
        let waiting = Waiting::default();
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        waiting.add("a", at(0));
        waiting.add("a", at(1));
        waiting.add("b", at(1));
        assert_eq!((waiting.depth(at(2)), waiting.adds.get()), (2, 2));
        waiting.begin("a", at(4));
        assert_eq!(waiting.unfinished(at(9)), [Duration::from_secs(5)]);
        waiting.end("a", at(10), Some(Duration::from_mins(1)));
        assert_eq!((waiting.depth(at(69)), waiting.adds.get()), (1, 2));
        assert_eq!(waiting.depth(at(70)), 2);
        // A change comes before the delay is over.
        waiting.add("a", at(20));
        assert_eq!((waiting.depth(at(20)), waiting.adds.get()), (2, 3));
        waiting.forget("a");
        waiting.forget("b");
        assert_eq!(waiting.depth(at(99)), 0);
        assert!(waiting.unfinished(at(99)).is_empty());
    }

    #[test]
    fn who_is_asked_for_during_a_pass_waits_for_the_next() {
        let waiting = Waiting::default();
        let start = Instant::now();
        waiting.add("a", start);
        waiting.begin("a", start);
        waiting.add("a", start);
        waiting.end("a", start, Some(Duration::from_hours(1)));
        assert_eq!((waiting.depth(start), waiting.adds.get()), (1, 2));
    }
}

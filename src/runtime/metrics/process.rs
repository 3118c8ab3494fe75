//! `process_*`, read when somebody asks, under the names of Prometheus' Go client.

#![expect(clippy::disallowed_methods, reason = "the process's figures are files")]

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::metrics::{
    Metric, PROCESS_CPU, PROCESS_MAX_FDS, PROCESS_OPEN_FDS, PROCESS_RECEIVED, PROCESS_RESIDENT,
    PROCESS_SENT, PROCESS_START, PROCESS_VIRTUAL, PROCESS_VIRTUAL_MAX,
};

/// The kernel's clock ticks per second, as it tells them to processes.
const TICKS_PER_SECOND: f64 = 100.0;
/// The size of a page of memory in `/proc/self/statm`, in bytes.
const PAGE_BYTES: u64 = 4096;

/// The figures of this process. What the system does not tell is left out.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        if let Some(stat) = Stat::read() {
            let metric = PROCESS_CPU.begin(encoder)?;
            ConstCounter::new(stat.cpu_seconds).encode(metric)?;
            if let Some(seconds) = stat.start_seconds() {
                ConstGauge::new(seconds).encode(PROCESS_START.begin(encoder)?)?;
            }
        }
        if let Some(pages) = pages() {
            gauge(encoder, &PROCESS_VIRTUAL, Some(pages.0))?;
            gauge(encoder, &PROCESS_RESIDENT, Some(pages.1))?;
        }
        gauge(encoder, &PROCESS_VIRTUAL_MAX, limit("Max address space"))?;
        gauge(encoder, &PROCESS_MAX_FDS, limit("Max open files"))?;
        gauge(encoder, &PROCESS_OPEN_FDS, open_fds())?;
        if let Some((received, sent)) = network_bytes() {
            ConstCounter::new(received).encode(PROCESS_RECEIVED.begin(encoder)?)?;
            ConstCounter::new(sent).encode(PROCESS_SENT.begin(encoder)?)?;
        }
        Ok(())
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, metric: &Metric, value: Option<i64>) -> fmt::Result {
    match value {
        Some(value) => ConstGauge::new(value).encode(metric.begin(encoder)?),
        None => Ok(()),
    }
}

/// Of `/proc/self/stat`.
struct Stat {
    cpu_seconds: f64,
    /// When the process started, in seconds since the system did.
    started_after: f64,
}

impl Stat {
    fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let (_, after_name) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
        Some(Self {
            cpu_seconds: (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND,
            started_after: ticks(19)? / TICKS_PER_SECOND,
        })
    }

    fn start_seconds(&self) -> Option<f64> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
        let booted: f64 = line.trim().parse().ok()?;
        Some(booted + self.started_after)
    }
}

/// The bytes of all memory and of the resident memory.
fn pages() -> Option<(i64, i64)> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let mut bytes = statm.split_whitespace().map(|pages| {
        let pages: u64 = pages.parse().ok()?;
        i64::try_from(pages.saturating_mul(PAGE_BYTES)).ok()
    });
    Some((bytes.next()??, bytes.next()??))
}

/// The soft limit of this name; -1: there is none.
fn limit(name: &str) -> Option<i64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(-1),
        soft => soft.parse().ok(),
    }
}

fn open_fds() -> Option<i64> {
    let count = fs::read_dir("/proc/self/fd").ok()?.count();
    // Reading the folder has opened one.
    i64::try_from(count.saturating_sub(1)).ok()
}

/// The bytes of all packets that came and went.
fn network_bytes() -> Option<(u64, u64)> {
    let netstat = fs::read_to_string("/proc/self/net/netstat").ok()?;
    // One line has the names, the next the figures.
    let mut lines = netstat
        .lines()
        .filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, figures) = (lines.next()?, lines.next()?);
    let figure = |wanted: &str| {
        let mut pairs = names.split_whitespace().zip(figures.split_whitespace());
        let (_, figure) = pairs.find(|(name, _)| *name == wanted)?;
        figure.parse().ok()
    };
    Some((figure("InOctets")?, figure("OutOctets")?))
}

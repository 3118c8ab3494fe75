//! What a process uses, and what it asks the API server.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};

use anyhow::Context as _;
use serde_json::Value;

use crate::harness::Cluster;

/// The user that oxolm is.
const OXOLM: &str = "system:serviceaccount:olmv1-system:oxolm";

/// Of oxolm's process, from /proc.
pub(super) struct Usage {
    pub(super) cpu_seconds: f64,
    pub(super) resident_mebibytes: f64,
    pub(super) highest_mebibytes: f64,
}

impl Usage {
    pub(super) fn of(cluster: &Cluster) -> anyhow::Result<Self> {
        let process = cluster.controller.process().context("oxolm runs")?;
        let read = |file: &str| fs::read_to_string(format!("/proc/{process}/{file}"));
        let status = read("status").context("oxolm has ended")?;
        let mebibytes = |name: &str| -> Option<f64> {
            let line = status.lines().find(|line| line.starts_with(name))?;
            let kibibytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
            Some(kibibytes / 1024.0)
        };
        Ok(Self {
            cpu_seconds: cpu_seconds(&read("stat")?).context("/proc has times")?,
            resident_mebibytes: mebibytes("VmRSS:").context("/proc has sizes")?,
            highest_mebibytes: mebibytes("VmHWM:").context("/proc has sizes")?,
        })
    }
}

/// User and system time of `/proc/PID/stat`, which counts hundredths of a second.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    Some(
        ticks
            .filter_map(|field| field.parse::<f64>().ok())
            .sum::<f64>()
            / 100.0,
    )
}

/// One request of oxolm, in its own name or an account's.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) verb: String,
    /// `group/resource/subresource`
    pub(super) resource: String,
    pub(super) path: String,
    pub(super) name: String,
}

/// The audit log, from where it was last read.
pub(super) struct Audit {
    log: BufReader<File>,
}

impl Audit {
    pub(super) fn open() -> anyhow::Result<Self> {
        let path = std::env::var("OXOLM_AUDIT_LOG")
            .context("OXOLM_AUDIT_LOG is not set: hack/cluster env prints it")?;
        let mut log = BufReader::new(File::open(path)?);
        log.seek(SeekFrom::End(0))?;
        Ok(Self { log })
    }

    /// The log from its beginning.
    pub(super) fn whole() -> anyhow::Result<Vec<Request>> {
        let mut audit = Self::open()?;
        audit.log.seek(SeekFrom::Start(0))?;
        audit.requests()
    }

    /// What oxolm asked since the last call.
    pub(super) fn requests(&mut self) -> anyhow::Result<Vec<Request>> {
        let mut requests = Vec::new();
        let mut line = String::new();
        while self.log.read_line(&mut line)? > 0 {
            if let Ok(event) = serde_json::from_str::<Value>(&line)
                && event["user"]["username"] == OXOLM
            {
                requests.push(request(&event));
            }
            line.clear();
        }
        Ok(requests)
    }
}

fn request(event: &Value) -> Request {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = &event["objectRef"];
    let mut resource = format!("{}/{}", text(&of["apiGroup"]), text(&of["resource"]));
    if let Some(subresource) = of["subresource"].as_str() {
        resource = format!("{resource}/{subresource}");
    }
    Request {
        verb: text(&event["verb"]),
        resource,
        path: text(&event["requestURI"]),
        name: text(&of["name"]),
    }
}

/// How many requests there are from the first that writes a status to the last that does.
pub(super) fn from_status_to_status(requests: &[Request]) -> usize {
    let is_status = |request: &Request| request.resource.ends_with("/status");
    let first = requests.iter().position(is_status);
    let last = requests.iter().rposition(is_status);
    match (first, last) {
        (Some(first), Some(last)) => last - first + 1,
        (None, _) | (_, None) => 0,
    }
}

/// How many requests of each verb and kind.
pub(super) fn print_by_kind(requests: &[Request]) {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for request in requests {
        *counts
            .entry((&request.verb, &request.resource))
            .or_default() += 1;
    }
    for ((verb, resource), count) in counts {
        println!("  {count:>6}  {verb:<7} {resource}");
    }
}

//! A client that reads a catalog again and again, each time with a new connection, from inside the cluster's network.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::harness::controller::entrance;

const PAUSE: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(5);

/// What a reader saw.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Report {
    /// Reads that gave the whole content.
    pub(super) reads: u64,
    /// Those that did not: milliseconds since the beginning, and why.
    pub(super) failures: Vec<(u64, String)>,
    /// The last read was whole.
    pub(super) ends_well: bool,
}

/// A running reader.
pub(super) struct Reader {
    child: Option<Child>,
    folder: tempfile::TempDir,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.end();
        if let Some(mut child) = self.child.take() {
            _ = child.wait();
        }
    }
}

impl Reader {
    /// Begins to read `url`; returns when the first read was whole.
    pub(super) async fn begin(url: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let enter = entrance()?.context("the cluster has a network of its own")?;
        let child = Command::new(enter)
            .arg(std::env::current_exe()?)
            .args(["reader", url])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a reader")?;
        let reader = Self {
            child: Some(child),
            folder,
        };
        let begun = async {
            while !reader.folder.path().join("begun").exists() {
                tokio::time::sleep(PAUSE).await;
            }
        };
        let begun = tokio::time::timeout(PATIENCE * 2, begun).await;
        begun.with_context(|| format!("{url} is not read"))?;
        Ok(reader)
    }

    /// Ends reading.
    pub(super) async fn finish(mut self) -> anyhow::Result<Report> {
        self.end();
        let child = self.child.take().context("the reader runs")?;
        let output = tokio::task::spawn_blocking(move || child.wait_with_output()).await??;
        let report: Report = serde_json::from_slice(&output.stdout)?;
        ensure!(report.reads > 0, "nothing was read: {report:?}");
        Ok(report)
    }

    fn end(&self) {
        _ = std::fs::write(self.folder.path().join("end"), "");
    }
}

/// The process that reads: `URL FOLDER`, until there is a file `end` in the folder; prints a [`Report`].
pub(crate) async fn run(arguments: &[String]) -> ExitCode {
    match read(arguments).await {
        Ok(report) => {
            println!("{}", serde_json::to_string(&report).unwrap_or_default());
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("reader: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn read(arguments: &[String]) -> anyhow::Result<Report> {
    let [url, folder] = arguments else {
        bail!("expected URL FOLDER");
    };
    let folder = Path::new(folder);
    _ = rustls::crypto::ring::default_provider().install_default();
    let (mut report, mut whole) = (Report::default(), None);
    let begun = Instant::now();
    while !folder.join("end").exists() {
        let read = tokio::time::timeout(PATIENCE, read_once(url)).await;
        let read = read.unwrap_or_else(|_| bail!("no answer"));
        let read = read.and_then(|length| {
            ensure!(
                *whole.get_or_insert(length) == length,
                "{length} bytes only"
            );
            Ok(())
        });
        report.ends_well = read.is_ok();
        match read {
            Ok(()) => {
                report.reads += 1;
                mark(&folder.join("begun"))?;
            }
            Err(error) => {
                let at = u64::try_from(begun.elapsed().as_millis())?;
                report.failures.push((at, format!("{error:#}")));
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(report)
}

fn mark(path: &PathBuf) -> anyhow::Result<()> {
    if !path.exists() {
        std::fs::write(path, "")?;
    }
    Ok(())
}

/// The number of bytes of one answer.
async fn read_once(url: &str) -> anyhow::Result<usize> {
    // Who answers is told by the network here, not by a certificate.
    let client = reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .no_proxy()
        .build()?;
    let answer = client.get(url).send().await?.error_for_status()?;
    Ok(answer.bytes().await?.len())
}

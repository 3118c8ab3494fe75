//! An oxolm beside the one that leads.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

use super::stage::Stage;

/// The process, with a cache and a log of its own; it ends with this value.
pub(crate) struct Beside {
    child: Child,
    folder: tempfile::TempDir,
}

impl Drop for Beside {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Beside {
    /// Starts it as the chart does, with `arguments`.
    pub(crate) fn start(stage: &Stage, arguments: &[&str]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let log = File::create(folder.path().join("log"))?;
        let child = stage
            .cluster
            .controller
            .command()
            .arg("--cache-dir")
            .arg(folder.path().join("cache"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start oxolm")?;
        Ok(Self { child, folder })
    }

    /// Tells it to stop, as the kubelet does, and waits.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status()?;
        self.child.wait()?;
        Ok(())
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> anyhow::Result<String> {
        Ok(fs::read_to_string(self.folder.path().join("log"))?)
    }

    /// Where it listens, by the line of its log that begins so.
    pub(crate) fn address(&self, line: &str) -> anyhow::Result<String> {
        let log = self.log()?;
        let told = log.lines().find(|told| told.contains(line));
        let (_, after) = told
            .and_then(|told| told.split_once("address="))
            .with_context(|| format!("not {line} yet: {log}"))?;
        let address = after.split_whitespace().next();
        Ok(address.unwrap_or_default().to_owned())
    }
}

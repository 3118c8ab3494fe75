//! What benches share: the real catalog, percentiles, and memory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::figure::milliseconds;

/// Bytes in a MiB.
pub(crate) const MIB: f64 = 1024.0 * 1024.0;

/// Where the conformance data lies: `OXOLM_CONFORMANCE`, else beside the checkout.
pub(crate) fn data(set: &str) -> Option<PathBuf> {
    let root = std::env::var_os("OXOLM_CONFORMANCE").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    );
    Some(root.join(set)).filter(|path| path.is_dir())
}

/// The real catalog as a directory of YAML, or none where the data is not there, which is said.
pub(crate) fn real_catalog() -> Option<tempfile::TempDir> {
    let Some(found) = data("catalogs") else {
        println!("skipped: there is no real catalog (OXOLM_CONFORMANCE)");
        return None;
    };
    let folder = tempfile::tempdir().expect("there is a temporary directory");
    for entry in fs::read_dir(found).expect("the data can be listed") {
        let path = entry.expect("the data can be listed").path();
        if path.to_string_lossy().ends_with(".tar.gz") {
            let file = File::open(path).expect("the archive can be opened");
            let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
            archive.unpack(folder.path()).expect("the archive is whole");
        }
    }
    Some(folder)
}

/// The value below which `percent` of `times` lie, in milliseconds.
pub(crate) fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(at).copied().map_or(0.0, milliseconds)
}

/// A field of `/proc/self/status` in bytes.
pub(crate) fn memory(field: &str) -> f64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kibibytes = line.and_then(|line| {
        line.trim_start_matches(':')
            .split_whitespace()
            .next()?
            .parse::<f64>()
            .ok()
    });
    kibibytes.unwrap_or_default() * 1024.0
}

/// What `run` makes, and how much more memory the process had meanwhile than before, in MiB.
pub(crate) fn peak<T>(run: impl FnOnce() -> T) -> (T, f64) {
    // Resets the peak.
    fs::write("/proc/self/clear_refs", "5").expect("a process may reset its own peak");
    let before = memory("VmRSS");
    let made = run();
    (made, (memory("VmHWM") - before) / MIB)
}

/// Names what memory a process is to measure, instead of anything else.
pub(crate) const MEMORY: &str = "OXOLM_BENCH_MEMORY";

/// The memory that `what` takes over idle in a process of its own, in MiB: nothing is left of what was done before.
pub(crate) fn peak_elsewhere(what: &str) -> f64 {
    let program = std::env::current_exe().expect("this is a program");
    let output = std::process::Command::new(program)
        .env(MEMORY, what)
        .output();
    let output = output.expect("it runs").stdout;
    let text = String::from_utf8(output).expect("it prints a number");
    text.trim().parse().expect("it prints a number")
}

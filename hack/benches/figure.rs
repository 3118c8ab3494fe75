//! Figures that `hack/bench` gathers into one table, and the calibration beside which absolute ones are to be read.

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

/// One figure, as `hack/bench` reads it: its name, value and unit, and the goal in the same unit.
pub(crate) fn figure(name: &str, value: f64, unit: &str, goal: Option<f64>) {
    let goal = goal.map_or_else(|| "-".to_owned(), |goal| goal.to_string());
    println!("figure\t{name}\t{value:.4}\t{unit}\t{goal}");
}

/// How long hashing 64 MiB takes here, in milliseconds: what absolute goals are to be read beside.
pub(crate) fn calibrate() -> f64 {
    let block = vec![0x5a_u8; 1 << 20];
    let (started, before) = (Instant::now(), cpu());
    let mut hash = Sha256::new();
    for _ in 0..64 {
        hash.update(black_box(&block));
    }
    black_box(hash.finalize());
    let took = milliseconds(started.elapsed());
    let used = milliseconds(cpu().saturating_sub(before));
    figure("calibration: SHA-256 of 64 MiB", took, "ms", None);
    figure("calibration: the same, CPU", used, "ms", None);
    took
}

/// The CPU time of this thread.
pub(crate) fn cpu() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

/// A time in milliseconds.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

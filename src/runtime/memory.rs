//! How much of what was freed the process keeps.
//!
//! glibc's allocator gives threads arenas of their own, eight for each core, and stops giving large buffers back once
//! it has seen a few: after three large catalogs were read that is some 6 MiB that nobody needs again. Its knobs are read when a
//! process starts, from the environment, or set by a call that only unsafe code can make; so the process begins again with
//! them set. Another allocator would be a larger dependency for the same effect.

#![expect(
    clippy::disallowed_methods,
    reason = "the process's own environment and program"
)]

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Few arenas, because few threads allocate at the same time; and buffers of more than 128 KiB, which are read into and written
/// from for a moment, go back to the system at once, which is glibc's own default until it has freed the first.
const SETTINGS: [(&str, &str); 3] = [
    ("MALLOC_ARENA_MAX", "2"),
    ("MALLOC_MMAP_THRESHOLD_", "131072"),
    ("MALLOC_TRIM_THRESHOLD_", "131072"),
];

/// Begins the process again, under the same process id, unless the allocator's knobs are set; what somebody else set stays.
/// To be called before there are threads. Returns when there is nothing to do, or when it cannot be done.
pub fn give_back_what_is_freed() {
    let missing = missing(|name| std::env::var_os(name));
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    if missing.is_empty() || cfg!(not(target_env = "gnu")) {
        return;
    }
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    // It returns only when it fails: then the process takes a little more memory, and nothing else changes.
    _ = command.args(arguments).envs(missing).exec();
}

/// The settings that `environment` lacks.
fn missing(environment: impl Fn(&str) -> Option<OsString>) -> Vec<(&'static str, &'static str)> {
    let settings = SETTINGS.into_iter();
    settings
        .filter(|(name, _)| environment(name).is_none())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_set_stays_and_it_is_done_once() {
        let own = |name: &str| (name == "MALLOC_ARENA_MAX").then(|| OsString::from("8"));
        let names: Vec<_> = missing(own).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"]);
        assert!(missing(|_| Some(OsString::from("0"))).is_empty());
    }
}

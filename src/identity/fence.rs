//! Who leads writes only as long as nobody else can lead.
//!
//! A process that is paused (a suspended machine, a frozen container) goes on where it was, in the middle of passes, long
//! after another one took the lease, and before it can learn that. So each write is held against the last renewal, on
//! clocks that run on during a pause.

#![expect(clippy::disallowed_methods, reason = "a pause is seen by clocks only")]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::{Method, Uri};
use jiff::Timestamp;

/// A write that comes too late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "nothing is written: the lease was not renewed in time, and another replica may lead by now"
)]
pub struct TooLate;

/// Until when may be written. All clones are one; before the first lease everything may.
#[derive(Debug, Clone, Default)]
pub struct Fence(Arc<Mutex<Option<Deadline>>>);

/// One clock stands still while a machine is suspended, the other can be set.
#[derive(Debug, Clone, Copy)]
struct Deadline {
    on_clock: Instant,
    of_day: Timestamp,
}

impl Fence {
    /// From now on, what is written within `holds` is written in time.
    pub fn hold(&self, holds: Duration) {
        *self.deadline() = Some(Deadline {
            on_clock: Instant::now() + holds,
            of_day: Timestamp::now()
                .saturating_add(holds)
                .unwrap_or(Timestamp::MAX),
        });
    }

    /// Whether a request may be sent: reading, and whatever is about the lease itself, may always.
    ///
    /// # Errors
    /// When it would write, and the time is over.
    pub(crate) fn admit(&self, method: &Method, uri: &Uri) -> Result<(), TooLate> {
        let is_of_lease = uri.path().starts_with("/apis/coordination.k8s.io/");
        if *method == Method::GET || is_of_lease || !self.is_over() {
            Ok(())
        } else {
            Err(TooLate)
        }
    }

    fn is_over(&self) -> bool {
        self.deadline().is_some_and(|deadline| {
            Instant::now() >= deadline.on_clock || Timestamp::now() >= deadline.of_day
        })
    }

    fn deadline(&self) -> MutexGuard<'_, Option<Deadline>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn what_writes_is_admitted_in_time() {
        let fence = Fence::default();
        let object: Uri = "/api/v1/namespaces/n/configmaps/a".parse().unwrap();
        let lease: Uri = "/apis/coordination.k8s.io/v1/namespaces/n/leases/l"
            .parse()
            .unwrap();
        let told = || {
            [
                fence.admit(&Method::GET, &object),
                fence.admit(&Method::PATCH, &object),
                fence.admit(&Method::PUT, &lease),
            ]
        };
        assert_eq!(told(), [Ok(()); 3], "nobody leads yet");
        fence.hold(HOUR);
        assert_eq!(told(), [Ok(()); 3]);
        fence.hold(Duration::ZERO);
        assert_eq!(told(), [Ok(()), Err(TooLate), Ok(())]);
        fence.hold(HOUR);
        assert_eq!(told(), [Ok(()); 3], "the lease is ours again");
    }

    #[test]
    fn either_clock_ends_it() {
        let (clock, day) = (Instant::now(), Timestamp::now());
        let later = day.saturating_add(HOUR).unwrap();
        for (on_clock, of_day, expected) in [
            (clock + HOUR, later, false),
            (clock, later, true),
            (clock + HOUR, day, true),
        ] {
            let fence = Fence(Arc::new(Mutex::new(Some(Deadline { on_clock, of_day }))));
            assert_eq!(fence.is_over(), expected);
        }
    }
}

//! Which objects are to be looked at, and when.
//!
//! A [`Queue`] takes names from anywhere and runs one pass per object at a time. A pass answers with [`Next`]; failed
//! ones come back after a delay that doubles from [`FIRST_DELAY`] to [`LAST_DELAY`], with jitter, and starts again
//! after a success. A change that concerns an object wakes it at once, whatever delay it had.

#![expect(clippy::disallowed_methods, reason = "a queue is a task")]

mod waiting;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Debug;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt, channel::mpsc};
use kube::Resource;
use kube::runtime::controller::{self, Action, Config, applier};
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span};

use self::waiting::Waiting;
pub use self::waiting::WorkQueues;
use crate::controller::metrics::{Controller, Metrics};
use crate::controller::next::Next;

/// The delay after the first failure.
pub const FIRST_DELAY: Duration = Duration::from_millis(100);
/// The longest delay between two attempts.
pub const LAST_DELAY: Duration = Duration::from_mins(5);

/// What there is to tell of these queues.
pub fn work_queues<const N: usize>(queues: [(Controller, &Queue); N]) -> WorkQueues {
    let waiting =
        |(controller, queue): (Controller, &Queue)| (controller, Arc::clone(&queue.waiting));
    WorkQueues::of(queues.into_iter().map(waiting).collect())
}

/// Wakes objects of one kind. Cheap to clone; also usable before anybody listens.
#[derive(Debug, Clone)]
pub struct Queue {
    sender: mpsc::UnboundedSender<String>,
    waiting: Arc<Waiting>,
}

/// The listening end of a [`Queue`].
#[derive(Debug)]
pub struct Listener {
    receiver: mpsc::UnboundedReceiver<String>,
    waiting: Arc<Waiting>,
}

#[cfg(test)]
impl Listener {
    /// The next name that is woken.
    pub(crate) async fn next(&mut self) -> Option<String> {
        self.receiver.next().await
    }
}

/// A queue and its listening end.
pub fn queue() -> (Queue, Listener) {
    let (sender, receiver) = mpsc::unbounded();
    let waiting = Arc::new(Waiting::default());
    let queue = Queue {
        sender,
        waiting: Arc::clone(&waiting),
    };
    (queue, Listener { receiver, waiting })
}

impl Queue {
    /// Asks for a pass over the object of that name, soon. Asking twice is asking once.
    pub fn wake(&self, name: &str) {
        self.waiting.add(name, Instant::now());
        // A closed queue means that the process is stopping.
        _ = self.sender.unbounded_send(name.to_owned());
    }
}

/// Consecutive failures per object.
#[derive(Debug, Default)]
struct Failures(Mutex<BTreeMap<String, u32>>);

impl Failures {
    fn delay_after(&self, name: &str, next: Next) -> Option<Duration> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match next {
            Next::OnChange | Next::Blocked(None) => {
                counts.remove(name);
                None
            }
            Next::After(delay) | Next::Blocked(Some(delay)) => {
                counts.remove(name);
                Some(delay)
            }
            Next::Retry => {
                let count = counts.entry(name.to_owned()).or_default();
                let delay = backoff(*count);
                *count = count.saturating_add(1);
                Some(jittered(delay, name, *count))
            }
        }
    }
}

impl Failures {
    fn forget(&self, name: &str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.remove(name);
    }
}

/// The delay after `failures` failures before this one.
fn backoff(failures: u32) -> Duration {
    FIRST_DELAY
        .saturating_mul(1_u32.checked_shl(failures.min(20)).unwrap_or(u32::MAX))
        .min(LAST_DELAY)
}

/// Up to a tenth less, by name and count, so that objects that failed together do not come back together.
fn jittered(delay: Duration, name: &str, count: u32) -> Duration {
    let spread = name.bytes().fold(count, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    }) % 100;
    delay.mul_f64(1.0 - f64::from(spread) / 1000.0)
}

/// How long a pass may take before another one begins beside it.
const LONG: Duration = Duration::from_secs(5);

/// How a queue is worked off.
#[derive(Debug, Clone)]
pub struct Work {
    /// Which reconciler it is.
    pub controller: Controller,
    /// How many objects at the same time.
    pub concurrency: u16,
    /// How many more whose passes take longer than [`LONG`]: they wait for somebody who does not answer, the backend of an
    /// aggregated API perhaps, and others must not wait with them.
    pub hanging: u16,
    /// Where passes are counted.
    pub metrics: Metrics,
    /// When it ends.
    pub stop: CancellationToken,
}

/// Runs `pass` for every name that is woken, never two for one object at a time, until told to stop. A name without an
/// object in `store` is dropped.
pub async fn run<K, Fut>(
    listener: Listener,
    store: Store<K>,
    work: Work,
    pass: impl Fn(Arc<K>) -> Fut + Send + Sync + 'static,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
    Fut: Future<Output = Next> + Send + 'static,
{
    let failures = Arc::new(Failures::default());
    let room = Arc::new(Room::of(&work));
    let waiting = listener.waiting;
    let requests = listener
        .receiver
        .map(|name| Ok::<_, Infallible>(ObjectRef::<K>::new(&name)))
        .take_until(work.stop.cancelled_owned());
    let (controller, metrics) = (work.controller, work.metrics);
    metrics.at_most(controller, work.concurrency);
    let (counts, seen) = (Arc::clone(&failures), Arc::clone(&waiting));
    let reconcile = move |object: Arc<K>, failures: Arc<Failures>| {
        let name = object.meta().name.clone().unwrap_or_default();
        // In place of the runtime's own span, which says the same in four times the letters.
        let span = info_span!(parent: None, "pass", kind = %K::kind(&()), name);
        let answer = span.in_scope(|| pass(object)).instrument(span);
        let (metrics, waiting) = (metrics.clone(), Arc::clone(&seen));
        let room = Arc::clone(&room);
        Box::pin(async move {
            let place = room.enter().await;
            let started = Instant::now();
            waiting.begin(&name, started);
            metrics.begin(controller);
            // A task of its own: a pass that panics must not take the others with it.
            let next = room.stay(place, tokio::spawn(answer)).await.ok();
            metrics.end(controller, next, started.elapsed());
            let next = next.unwrap_or(Next::Retry);
            if next == Next::Retry {
                waiting.retry();
            }
            let delay = failures.delay_after(&name, next);
            waiting.end(&name, Instant::now(), delay);
            let action = delay.map_or_else(Action::await_change, Action::requeue);
            Ok::<_, Infallible>(action)
        })
    };
    applier(
        reconcile,
        |_, never: &Infallible, _| match *never {},
        failures,
        store,
        requests,
        Config::default().concurrency(work.concurrency.saturating_add(work.hanging)),
    )
    .for_each(|ended| {
        // The only error left is an object that is gone, which needs no pass.
        if let Err(controller::Error::ObjectNotFound(gone)) = ended {
            waiting.forget(&gone.name);
            counts.forget(&gone.name);
        }
        std::future::ready(())
    })
    .await;
}

/// Where passes are made: places for those that go on, and some for those that hang.
struct Room {
    places: Semaphore,
    hanging: Semaphore,
}

impl Room {
    fn of(work: &Work) -> Self {
        Self {
            places: Semaphore::new(work.concurrency.into()),
            hanging: Semaphore::new(work.hanging.into()),
        }
    }

    /// A place; none once the room is closed, which it never is.
    async fn enter(&self) -> Option<SemaphorePermit<'_>> {
        self.places.acquire().await.ok()
    }

    /// What `pass` comes to. When that takes long it makes place for another one, as far as there is room.
    async fn stay<T>(
        &self,
        place: Option<SemaphorePermit<'_>>,
        mut pass: impl Future<Output = T> + Unpin,
    ) -> T {
        tokio::select! {
            ended = &mut pass => return ended,
            () = tokio::time::sleep(LONG) => {}
        }
        let hanging = self.hanging.try_acquire().ok();
        let _place = hanging.or(place);
        pass.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn passes_that_hang_do_not_hold_up_others() {
        for (hanging, waits) in [(2, 0), (1, 1), (0, 2)] {
            let room = Room {
                places: Semaphore::new(2),
                hanging: Semaphore::new(hanging),
            };
            let pass = async |time: Duration| {
                let place = room.enter().await;
                let pass = Box::pin(tokio::time::sleep(time));
                room.stay(place, pass).await;
            };
            let started = Instant::now();
            let hung = async { tokio::join!(pass(LONG * 7), pass(LONG * 7)) };
            let others = async {
                tokio::time::sleep(LONG / 10).await;
                tokio::join!(pass(LONG / 2), pass(LONG / 2));
                started.elapsed()
            };
            let (_, took) = tokio::join!(hung, others);
            let expected = match waits {
                // Side by side, as soon as both have hung for long.
                0 => LONG + LONG / 2,
                // One after the other.
                1 => LONG + LONG / 2 * 2,
                _ => LONG * 7 + LONG / 2,
            };
            assert_eq!(took, expected, "{hanging}");
        }
    }

    #[test]
    fn delays_double_up_to_five_minutes_and_start_again() {
        let failures = Failures::default();
        let mut last = Duration::ZERO;
        for _ in 0..40 {
            let delay = failures.delay_after("a", Next::Retry).unwrap();
            assert!(
                delay <= LAST_DELAY && delay >= last.mul_f64(0.89),
                "{delay:?} after {last:?}"
            );
            last = delay;
        }
        assert!(last >= LAST_DELAY.mul_f64(0.9));
        assert_eq!(failures.delay_after("a", Next::OnChange), None);
        assert!(failures.delay_after("a", Next::Retry).unwrap() <= FIRST_DELAY);
    }
}

//! One leader at a time, by the reference's own lease.
//!
//! The rules are those of client-go's leader election: the record is only ever changed with its `resourceVersion`;
//! somebody else's lease counts as expired when it has not changed for its own duration *on our clock* (clocks of
//! other machines are never compared); who cannot renew for [`RENEW_DEADLINE`] stops leading; a clean stop gives the
//! lease back, so that the next one need not wait.
//!
//! Because the name is the reference's, oxolm and a running operator-controller can never lead at the same time.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the lease lives in the API server and in time"
)]

use std::pin::pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::api::keys;

/// How long a lease holds without a renewal.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a leader tries to renew before it stops leading.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// The time between two renewals, and between two looks at somebody else's lease while it is far from expiring. A renewal
/// is two requests: all of them, and the looks at the leases of rivals, are to stay below one in two seconds.
pub const RENEW_PERIOD: Duration = Duration::from_millis(4500);
/// The time between two looks of who waits; a released lease is seen at once where it can be watched, else after this.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// How every identity of ours begins; whoever holds the lease with another one is another controller.
pub const IDENTITY_PREFIX: &str = "oxolm_";

/// The status of a write to an object that somebody else has written since it was read.
const CONFLICT: u16 = 409;

/// The times of one seat.
#[derive(Debug, Clone, Copy)]
struct Timing {
    lease: Duration,
    renew_deadline: Duration,
    renew: Duration,
    retry: Duration,
}

impl Timing {
    const REAL: Self = Self {
        lease: LEASE_DURATION,
        renew_deadline: RENEW_DEADLINE,
        renew: RENEW_PERIOD,
        retry: RETRY_PERIOD,
    };
}

/// A seat to wait for.
#[derive(Debug, Clone)]
pub struct Seat {
    api: Api<Lease>,
    identity: String,
    timing: Timing,
}

/// What was last seen of the lease, and when on our clock.
#[derive(Debug, Default)]
struct Seen {
    record: Option<(String, Option<MicroTime>)>,
    since: Option<Instant>,
}

impl Seen {
    /// Notes `spec`; how long it has been unchanged.
    fn unchanged_for(&mut self, spec: &LeaseSpec, now: Instant) -> Duration {
        let record = (
            spec.holder_identity.clone().unwrap_or_default(),
            spec.renew_time.clone(),
        );
        if self.record.as_ref() != Some(&record) {
            self.record = Some(record);
            self.since = Some(now);
        }
        self.since
            .map_or(Duration::ZERO, |since| now.duration_since(since))
    }
}

/// Whether a lease may be taken: nobody's, ours, or unchanged for its whole duration.
fn is_free(spec: &LeaseSpec, identity: &str, unchanged_for: Duration) -> bool {
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    let duration = spec
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
        .unwrap_or(0);
    holder.is_empty() || holder == identity || unchanged_for >= Duration::from_secs(duration.max(1))
}

impl Seat {
    /// The seat in `namespace`, for a process that calls itself `name` (a Pod's or host's).
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        let nonce = Timestamp::now().as_nanosecond();
        let identity = format!("{IDENTITY_PREFIX}{name}_{nonce:x}_{}", std::process::id());
        Self {
            api: Api::namespaced(client, namespace),
            identity,
            timing: Timing::REAL,
        }
    }

    /// Waits until this process leads; since when. None when `stop` came first.
    ///
    /// It leads from the moment that it asked: to others the lease may be as old as that.
    pub async fn acquire(
        &self,
        stop: &CancellationToken,
        mut on_wait: impl FnMut(&str),
    ) -> Option<Instant> {
        let mut seen = Seen::default();
        let mut released = pin!(self.released());
        loop {
            let asked = Instant::now();
            let attempt = tokio::time::timeout(self.timing.renew_deadline, self.attempt(&mut seen));
            match attempt.await {
                Ok(Ok(None)) => {
                    info!(identity = self.identity, "leading");
                    return Some(asked);
                }
                Ok(Ok(Some(holder))) => {
                    on_wait(&format!("lease {} is held by {holder}", keys::LEASE_NAME));
                }
                Ok(Err(kube::Error::Api(status))) if status.code == CONFLICT => {
                    on_wait(&format!("lease {} was just taken", keys::LEASE_NAME));
                    debug!("another replica was faster");
                }
                Ok(Err(error)) => {
                    let error = crate::error::chain(&error);
                    on_wait(&format!("cannot take lease {}: {error}", keys::LEASE_NAME));
                    warn!(error, "cannot take the lease");
                }
                Err(_elapsed) => {
                    let silence = "the API server does not answer";
                    on_wait(&format!(
                        "cannot take lease {}: {silence}",
                        keys::LEASE_NAME
                    ));
                    warn!(error = silence, "cannot take the lease");
                }
            }
            tokio::select! {
                () = stop.cancelled() => return None,
                () = tokio::time::sleep(self.timing.retry) => {}
                Some(()) = released.next() => {}
            }
        }
    }

    /// Tells whenever the lease is given back or deleted; nothing where it cannot be watched.
    fn released(&self) -> impl Stream<Item = ()> + use<> {
        let config =
            watcher::Config::default().fields(&format!("metadata.name={}", keys::LEASE_NAME));
        let events = watcher(self.api.clone(), config).default_backoff();
        events.filter_map(async |event| match event {
            Ok(watcher::Event::Apply(lease)) => {
                let holder = lease.spec.and_then(|spec| spec.holder_identity);
                holder.unwrap_or_default().is_empty().then_some(())
            }
            Ok(watcher::Event::Delete(_)) => Some(()),
            _ => None,
        })
    }

    /// One attempt to take or renew; `Some` names who holds it.
    async fn attempt(&self, seen: &mut Seen) -> Result<Option<String>, kube::Error> {
        let Some(mut lease) = self.api.get_opt(keys::LEASE_NAME).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(keys::LEASE_NAME.to_owned()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.record(None)),
            };
            self.api.create(&PostParams::default(), &lease).await?;
            return Ok(None);
        };
        let spec = lease.spec.take().unwrap_or_default();
        if !is_free(
            &spec,
            &self.identity,
            seen.unchanged_for(&spec, Instant::now()),
        ) {
            return Ok(Some(spec.holder_identity.unwrap_or_default()));
        }
        lease.spec = Some(self.record(Some(&spec)));
        self.api
            .replace(keys::LEASE_NAME, &PostParams::default(), &lease)
            .await?;
        Ok(None)
    }

    fn record(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let kept = before.filter(|spec| spec.holder_identity.as_deref() == Some(&self.identity));
        let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.timing.lease.as_secs()).ok(),
            acquire_time: kept
                .and_then(|spec| spec.acquire_time.clone())
                .or_else(|| Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if kept.is_some() {
                transitions
            } else {
                transitions.saturating_add(1)
            }),
            ..LeaseSpec::default()
        }
    }

    /// Renews what was acquired at `renewed`, until `stop` comes (the lease is given back then) or it is lost.
    pub async fn keep(&self, mut renewed: Instant, stop: &CancellationToken) -> Kept {
        loop {
            let lost = renewed + self.timing.renew_deadline;
            let again = (Instant::now() + self.timing.renew).min(lost);
            tokio::select! {
                () = stop.cancelled() => return Kept::Stopped,
                () = tokio::time::sleep_until(again) => {}
            }
            let asked = Instant::now();
            let mut seen = Seen::default();
            // However long it waits for an answer, it ends in time: the lease is somebody else's soon.
            match tokio::time::timeout_at(lost, self.attempt(&mut seen)).await {
                Ok(Ok(None)) => {
                    renewed = asked;
                    debug!("renewed the lease");
                    continue;
                }
                Ok(Ok(Some(holder))) => return Kept::Lost(format!("{holder} took the lease")),
                Ok(Err(error)) => warn!(
                    error = crate::error::chain(&error),
                    "cannot renew the lease"
                ),
                Err(_elapsed) => warn!("cannot renew the lease: the API server does not answer"),
            }
            if renewed.elapsed() >= self.timing.renew_deadline {
                return Kept::Lost(format!(
                    "could not be renewed for {} s",
                    self.timing.renew_deadline.as_secs()
                ));
            }
        }
    }

    /// Gives the lease back, so that another replica leads at once.
    pub async fn release(&self) {
        let released = async {
            let Some(mut lease) = self.api.get_opt(keys::LEASE_NAME).await? else {
                return Ok(());
            };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() != Some(&self.identity) {
                return Ok(());
            }
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            self.api
                .replace(keys::LEASE_NAME, &PostParams::default(), &lease)
                .await
                .map(|_| ())
        };
        match tokio::time::timeout(self.timing.renew_deadline, released).await {
            Ok(Ok(())) => info!("released the lease"),
            Ok(Err(error)) => warn!(
                error = crate::error::chain(&error as &kube::Error),
                "cannot release the lease"
            ),
            Err(_elapsed) => warn!("cannot release the lease: the API server does not answer"),
        }
    }
}

/// How leading ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// The process was told to stop.
    Stopped,
    /// Somebody else leads, or may soon.
    Lost(String),
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;
    use crate::testing::api_server::{ApiServer, Wire};

    fn spec(holder: &str, seconds: i32) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(seconds),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_lease_is_free_when_nobodys_ours_or_unchanged_for_its_duration() {
        let second = Duration::from_secs(1);
        assert!(is_free(&spec("", 15), "oxolm_a", Duration::ZERO));
        assert!(is_free(&spec("oxolm_a", 15), "oxolm_a", Duration::ZERO));
        assert!(!is_free(&spec("oxolm_b", 15), "oxolm_a", second * 14));
        assert!(is_free(&spec("oxolm_b", 15), "oxolm_a", second * 15));
        assert!(!is_free(
            &spec("controller_x", 137),
            "oxolm_a",
            second * 136
        ));
    }

    #[test]
    fn only_a_change_of_holder_or_renewal_restarts_our_clock() {
        let mut seen = Seen::default();
        let start = Instant::now();
        let mut lease = spec("oxolm_b", 15);
        assert_eq!(seen.unchanged_for(&lease, start), Duration::ZERO);
        let later = start + Duration::from_secs(9);
        assert_eq!(seen.unchanged_for(&lease, later), Duration::from_secs(9));
        lease.renew_time = Some(MicroTime(Timestamp::from_second(7).unwrap()));
        assert_eq!(seen.unchanged_for(&lease, later), Duration::ZERO);
    }

    /// A third of the real times: a lease holds for 5 s.
    fn seat(server: &ApiServer, wire: &Wire, name: &str) -> Seat {
        let mut seat = Seat::new(server.client_over(wire), "system", name);
        let real = Timing::REAL;
        seat.timing = Timing {
            lease: real.lease / 3,
            renew_deadline: real.renew_deadline / 3,
            renew: real.renew / 3,
            retry: real.retry / 3,
        };
        seat
    }

    fn server() -> ApiServer {
        let server = ApiServer::new();
        server
            .add(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "system"}}));
        server
    }

    /// Waits until `seat` leads, and notes that it does for as long as it does.
    async fn lead(seat: &Seat, leading: &AtomicUsize) {
        let stop = CancellationToken::new();
        let since = seat.acquire(&stop, |_| {}).await.unwrap();
        assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0, "two lead");
        assert!(matches!(seat.keep(since, &stop).await, Kept::Lost(_)));
        leading.fetch_sub(1, Ordering::SeqCst);
    }

    /// Until `seat` leads.
    async fn led(seat: &Seat) {
        let stop = CancellationToken::new();
        seat.acquire(&stop, |_| {}).await.unwrap();
    }

    #[tokio::test]
    async fn a_leader_that_is_cut_off_ends_before_another_begins() {
        let (server, cut_off, whole) = (server(), Wire::default(), Wire::default());
        let (first, second) = (seat(&server, &cut_off, "a"), seat(&server, &whole, "b"));
        let leading = AtomicUsize::new(0);
        let follower = async {
            while leading.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
            // One renewal fails at once, the next is never answered.
            let path = "/apis/coordination.k8s.io/v1/namespaces/system/leases/9c4404e7.operatorframework.io";
            server.fail_next(&format!("GET {path}"), 503);
            tokio::time::sleep(first.timing.renew * 3 / 2).await;
            cut_off.cut();
            led(&second).await;
            assert_eq!(leading.load(Ordering::SeqCst), 0, "two lead");
        };
        tokio::join!(lead(&first, &leading), follower);
    }

    #[tokio::test]
    async fn who_learns_too_late_that_it_may_lead_does_not() {
        let (server, cut_off, whole) = (server(), Wire::default(), Wire::default());
        let (first, second) = (seat(&server, &cut_off, "a"), seat(&server, &whole, "b"));
        let leading = AtomicUsize::new(0);
        // It makes the lease, and is not told.
        cut_off.cut_by(http::Method::POST);
        let follower = async {
            tokio::time::sleep(second.timing.retry).await;
            led(&second).await;
            cut_off.mend();
            // Whoever leads now renews; the other one sees it.
            let stop = CancellationToken::new();
            let kept = second.keep(Instant::now(), &stop);
            let until = tokio::time::sleep(second.timing.lease);
            tokio::select! { kept = kept => panic!("{kept:?}"), () = until => {} }
        };
        tokio::select! {
            () = lead(&first, &leading) => panic!("it led"),
            () = follower => {}
        }
        assert_eq!(leading.load(Ordering::SeqCst), 0);
    }
}

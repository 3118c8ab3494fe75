//! One leader at a time, by the reference's own lease.
//!
//! The rules are those of client-go's leader election: the record is only ever changed with its `resourceVersion`;
//! somebody else's lease counts as expired when it has not changed for its own duration *on our clock* (clocks of
//! other machines are never compared); who cannot renew for [`RENEW_DEADLINE`] stops leading; a clean stop gives the
//! lease back, so that the next one need not wait.
//!
//! It asks less than client-go does. Who leads renews with one request: it writes over the record that it wrote last, and
//! reads only when that fails. Who waits watches the lease ([`waiting`]), and asks only when it may be free.
//!
//! Because the name is the reference's, oxolm and a running operator-controller can never lead at the same time.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the lease lives in the API server and in time"
)]

mod waiting;

use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::api::keys;
use crate::identity::fence::Fence;

/// How long a lease holds without a renewal.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a leader tries to renew before it stops leading.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// The time between two renewals. All requests about leases, the looks at those of rivals too, are to stay below one in two
/// seconds.
pub const RENEW_PERIOD: Duration = Duration::from_secs(3);
/// The time after which a renewal that failed is tried again, and between two looks of who waits where the lease cannot be
/// watched.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// How long after a renewal is written: by then nobody else can lead, and what is on its way has a second to arrive.
const WRITES: Duration = LEASE_DURATION.saturating_sub(Duration::from_secs(1));
/// How every identity of ours begins; whoever holds the lease with another one is another controller.
pub const IDENTITY_PREFIX: &str = "oxolm_";

/// The status of a write to an object that somebody else has written since it was read.
const CONFLICT: u16 = 409;

/// A seat to wait for.
#[derive(Debug, Clone)]
pub struct Seat {
    api: Api<Lease>,
    identity: String,
    /// Which writes are in time.
    fence: Fence,
}

/// The lease while it is ours.
#[derive(Debug)]
pub struct Term {
    /// Since when it is: to others it may be as old as the question that gave it to us.
    since: Instant,
    /// As the API server has it.
    lease: Lease,
}

/// How an attempt to take or renew ended.
#[derive(Debug)]
enum Attempt {
    /// The lease is ours, and so the API server has it.
    Ours(Box<Lease>),
    /// Somebody else's.
    Held(String),
}

/// What was last seen of the lease, and when on our clock.
#[derive(Debug, Default)]
struct Seen {
    record: Option<(String, Option<MicroTime>)>,
    since: Option<Instant>,
    holds_for: Duration,
    /// Whether a watch tells when it changes.
    is_watched: bool,
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
        self.holds_for = duration(spec);
        self.since
            .map_or(Duration::ZERO, |since| now.duration_since(since))
    }

    /// When the lease is free unless it changes; none if nothing was seen yet.
    fn expires(&self) -> Option<Instant> {
        self.since.map(|since| since + self.holds_for)
    }
}

/// How long a lease holds without a renewal.
fn duration(spec: &LeaseSpec) -> Duration {
    let seconds = spec.lease_duration_seconds;
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Duration::from_secs(seconds.unwrap_or(0).max(1))
}

/// Whether a lease may be taken: nobody's, ours, or unchanged for its whole duration.
fn is_free(spec: &LeaseSpec, identity: &str, unchanged_for: Duration) -> bool {
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    holder.is_empty() || holder == identity || unchanged_for >= duration(spec)
}

impl Seat {
    /// The seat in `namespace`, for a process that calls itself `name` (a Pod's or host's).
    pub fn new(client: Client, namespace: &str, name: &str, fence: Fence) -> Self {
        let nonce = Timestamp::now().as_nanosecond();
        let identity = format!("{IDENTITY_PREFIX}{name}_{nonce:x}_{}", std::process::id());
        Self {
            api: Api::namespaced(client, namespace),
            identity,
            fence,
        }
    }

    /// The lease is ours since somebody asked at `since`.
    fn held(&self, since: Instant) {
        self.fence.hold(WRITES.saturating_sub(since.elapsed()));
    }

    /// Waits until this process leads. None when `stop` came first.
    pub async fn acquire(&self, stop: &CancellationToken) -> Option<Term> {
        let mut seen = Seen::default();
        let mut news = waiting::news(self.api.clone()).boxed();
        loop {
            let since = Instant::now();
            let attempt = tokio::time::timeout(RENEW_DEADLINE, self.attempt(&mut seen));
            let cannot = |error: &str| warn!(error, "cannot take the lease");
            let next = match attempt.await {
                Ok(Ok(Attempt::Ours(lease))) => {
                    info!(identity = self.identity, "leading");
                    self.held(since);
                    return Some(Term {
                        since,
                        lease: *lease,
                    });
                }
                Ok(Ok(Attempt::Held(_))) => waiting::Next::WhenFree,
                Ok(Err(kube::Error::Api(status))) if status.code == CONFLICT => {
                    debug!("another replica was faster");
                    waiting::Next::Soon
                }
                Ok(Err(error)) => {
                    cannot(&crate::error::chain(&error));
                    waiting::Next::Soon
                }
                Err(_elapsed) => {
                    cannot("the API server does not answer");
                    waiting::Next::Soon
                }
            };
            tokio::select! {
                () = stop.cancelled() => return None,
                () = waiting::until_worth_asking(&mut news, &mut seen, next, RETRY_PERIOD) => {}
            }
        }
    }

    /// One attempt to take or renew, which reads the lease first.
    async fn attempt(&self, seen: &mut Seen) -> Result<Attempt, kube::Error> {
        let Some(lease) = self.api.get_opt(keys::LEASE_NAME).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(keys::LEASE_NAME.to_owned()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.record(None)),
            };
            let made = self.api.create(&PostParams::default(), &lease).await?;
            return Ok(Attempt::Ours(Box::new(made)));
        };
        let nothing = LeaseSpec::default();
        let spec = lease.spec.as_ref().unwrap_or(&nothing);
        if !is_free(
            spec,
            &self.identity,
            seen.unchanged_for(spec, Instant::now()),
        ) {
            let holder = spec.holder_identity.clone();
            return Ok(Attempt::Held(holder.unwrap_or_default()));
        }
        self.take(lease).await
    }

    /// Writes ourselves over the lease, if it is still as `lease` is.
    async fn take(&self, mut lease: Lease) -> Result<Attempt, kube::Error> {
        lease.spec = Some(self.record(lease.spec.as_ref()));
        let parameters = PostParams::default();
        let taken = (self.api).replace(keys::LEASE_NAME, &parameters, &lease);
        Ok(Attempt::Ours(Box::new(taken.await?)))
    }

    /// One renewal. `known` is the lease as we wrote it last; without it, or when somebody else has written since (a label,
    /// perhaps), it is read.
    async fn renewal(&self, known: Option<Lease>) -> Result<Attempt, kube::Error> {
        if let Some(lease) = known {
            match self.take(lease).await {
                Err(kube::Error::Api(status))
                    if status.code == CONFLICT || status.is_not_found() => {}
                other => return other,
            }
        }
        self.attempt(&mut Seen::default()).await
    }

    fn record(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let kept = before.filter(|spec| spec.holder_identity.as_deref() == Some(&self.identity));
        let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
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

    /// Renews what was acquired, until `stop` comes (the lease is to be given back then) or it is lost.
    pub async fn keep(&self, term: Term, stop: &CancellationToken) -> Kept {
        let (mut renewed, mut known) = (term.since, Some(term.lease));
        let mut again = renewed + RENEW_PERIOD;
        loop {
            let lost = renewed + RENEW_DEADLINE;
            tokio::select! {
                () = stop.cancelled() => return Kept::Stopped,
                () = tokio::time::sleep_until(again.min(lost)) => {}
            }
            let asked = Instant::now();
            // However long it waits for an answer, it ends in time: the lease is somebody else's soon. What became of a
            // write that failed is not known: then it is read.
            match tokio::time::timeout_at(lost, self.renewal(known.take())).await {
                Ok(Ok(Attempt::Ours(lease))) => {
                    (renewed, known) = (asked, Some(*lease));
                    self.held(asked);
                    again = asked + RENEW_PERIOD;
                    debug!("renewed the lease");
                    continue;
                }
                Ok(Ok(Attempt::Held(holder))) => {
                    return Kept::Lost(format!("was taken by {holder}"));
                }
                Ok(Err(error)) => warn!(
                    error = crate::error::chain(&error),
                    "cannot renew the lease"
                ),
                Err(_elapsed) => warn!("cannot renew the lease: the API server does not answer"),
            }
            again = Instant::now() + RETRY_PERIOD;
            if renewed.elapsed() >= RENEW_DEADLINE {
                return Kept::Lost(format!(
                    "could not be renewed for {} s",
                    RENEW_DEADLINE.as_secs()
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
        match tokio::time::timeout(RENEW_DEADLINE, released).await {
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
mod tests;

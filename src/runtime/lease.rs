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

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::api::keys;

/// How long a lease holds without a renewal.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a leader tries to renew before it stops leading.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// The time between two renewals, and between two looks at somebody else's lease while it is far from expiring.
pub const RENEW_PERIOD: Duration = Duration::from_secs(4);
/// The time between two looks of who waits; a released lease is seen after this at the latest.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// How every identity of ours begins; whoever holds the lease with another one is another controller.
pub const IDENTITY_PREFIX: &str = "oxolm_";

/// A seat to wait for.
#[derive(Debug, Clone)]
pub struct Seat {
    api: Api<Lease>,
    identity: String,
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
        }
    }

    /// Waits until this process leads. False when `stop` came first.
    pub async fn acquire(&self, stop: &CancellationToken, mut on_wait: impl FnMut(&str)) -> bool {
        let mut seen = Seen::default();
        loop {
            match self.attempt(&mut seen).await {
                Ok(None) => {
                    info!(identity = self.identity, "leading");
                    return true;
                }
                Ok(Some(holder)) => {
                    on_wait(&format!("lease {} is held by {holder}", keys::LEASE_NAME));
                }
                Err(error) => {
                    let error = crate::error::chain(&error);
                    on_wait(&format!("cannot take lease {}: {error}", keys::LEASE_NAME));
                    warn!(error, "cannot take the lease");
                }
            }
            tokio::select! {
                () = stop.cancelled() => return false,
                () = tokio::time::sleep(RETRY_PERIOD) => {}
            }
        }
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

    /// Renews until `stop` comes (the lease is given back then) or it is lost.
    pub async fn keep(&self, stop: &CancellationToken) -> Kept {
        let mut renewed = Instant::now();
        loop {
            tokio::select! {
                () = stop.cancelled() => return Kept::Stopped,
                () = tokio::time::sleep(RENEW_PERIOD) => {}
            }
            let mut seen = Seen::default();
            let attempt = tokio::time::timeout(RENEW_DEADLINE, self.attempt(&mut seen)).await;
            match attempt {
                Ok(Ok(None)) => {
                    renewed = Instant::now();
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
mod tests {
    use super::*;

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
}

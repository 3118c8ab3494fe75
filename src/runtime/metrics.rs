//! `/metrics` for Prometheus, and `/log-level`.
//!
//! ```text
//! GET                /metrics     every metric of `crate::metrics`
//! GET, PUT, DELETE   /log-level   the level of the logs: tell it, change it, make it what it was at the start
//! ```
//!
//! Over HTTPS with the certificate of the content server, for whoever has the right: the API server says who a bearer
//! token belongs to, and whether that user may `get` (`put`, `delete`) the path. Without TLS nobody is asked, so there
//! is no way to change anything then.

mod access;
mod exposition;
mod objects;
mod process;
mod routes;

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::objects::Objects;
use crate::api::keys;
use crate::controller::metrics as controller;
use crate::controller::queue::WorkQueues;
use crate::fetch;
use crate::identity::connection::Requests;
use crate::metrics::{BUILD_INFO, CACHE_BYTES, LEADER};
use crate::runtime::telemetry::LogLevel;
use crate::serve::{self, ServeError, Tls};
use crate::store::ContentStore;

/// How many connections are open at once: some Prometheus servers, and people.
const CONNECTIONS: usize = 64;

/// How long the size of the cache is taken to be what it was.
const CACHE_MEASURED_EVERY: Duration = Duration::from_mins(1);

/// Where metrics are served, and to whom.
#[derive(Debug)]
pub struct Options {
    /// The address; port 0 lets the system choose.
    pub address: SocketAddr,
    /// The certificate, and who is asked for rights; none: plain HTTP, for everybody.
    pub secure: Option<(Tls, Reviews)>,
    /// What the process was told to log.
    pub log_level: LogLevel,
}

/// Asks the API server who somebody is and may do.
#[derive(Clone)]
#[expect(clippy::disallowed_types, reason = "the API server is asked")]
pub struct Reviews(pub Client);

impl fmt::Debug for Reviews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reviews")
    }
}

/// Serves `registry` until `stop`; gives the address that was bound.
///
/// # Errors
/// When the address cannot be bound.
pub async fn serve(
    options: Options,
    registry: Registry,
    stop: CancellationToken,
) -> Result<SocketAddr, ServeError> {
    let (tls, reviews) = options.secure.unzip();
    let router = routes::router(registry, options.log_level, reviews);
    let served = serve::Options {
        address: options.address,
        tls,
        connections: CONNECTIONS,
    };
    let (address, _ends_with_stop) = serve::start(served, router, stop).await?;
    Ok(address)
}

/// What the parts of the process count.
#[derive(Debug)]
pub struct Counters {
    /// The registry that tells everything.
    pub registry: Registry,
    /// Of the reconcilers.
    pub passes: controller::Metrics,
    /// Of the content server.
    pub served: serve::Metrics,
    /// Of the fetcher.
    pub pulls: fetch::Metrics,
}

impl Counters {
    /// A registry with the figures of the process itself, and all that is counted.
    pub fn new(requests: &Requests) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(process::Process));
        requests.register(&mut registry);
        Self {
            passes: controller::Metrics::register(&mut registry),
            served: serve::Metrics::register(&mut registry),
            pulls: fetch::Metrics::register(&mut registry),
            registry,
        }
    }

    /// The registry, with what is read when somebody asks.
    pub fn with(self, queues: WorkQueues, replica: Replica, objects: Objects) -> Registry {
        let mut registry = self.registry;
        registry.register_collector(Box::new(queues));
        registry.register_collector(Box::new(replica));
        registry.register_collector(Box::new(objects));
        registry
    }
}

/// What is told of this replica.
#[derive(Debug)]
pub struct Replica {
    is_leading: Arc<AtomicBool>,
    store: ContentStore,
    measured: Mutex<Option<(Instant, u64)>>,
}

impl Replica {
    /// Tells whether it leads, and how large its cache is.
    pub fn new(is_leading: Arc<AtomicBool>, store: ContentStore) -> Self {
        Self {
            is_leading,
            store,
            measured: Mutex::default(),
        }
    }

    /// How large the cache was a minute ago at most; nothing when it cannot be measured.
    fn cache_bytes(&self) -> Option<u64> {
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, bytes)) = *measured
            && at.elapsed() < CACHE_MEASURED_EVERY
        {
            return Some(bytes);
        }
        let bytes = self.store.used_bytes().ok()?; // A disk that cannot be read is told of elsewhere.
        *measured = Some((Instant::now(), bytes));
        Some(bytes)
    }
}

impl Collector for Replica {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut leader = LEADER.begin(&mut encoder)?;
        let leads = i64::from(self.is_leading.load(Ordering::Acquire));
        ConstGauge::new(leads).encode(leader.encode_family(&[("name", keys::LEASE_NAME)])?)?;
        let mut build = BUILD_INFO.begin(&mut encoder)?;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        ConstGauge::new(1_i64).encode(build.encode_family(&version)?)?;
        let cache = CACHE_BYTES.begin(&mut encoder)?;
        match self.cache_bytes() {
            Some(bytes) => ConstGauge::new(i64::try_from(bytes).unwrap_or(i64::MAX)).encode(cache),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;

//! `/metrics` in the [OpenMetrics](https://github.com/prometheus/OpenMetrics) text format, plain HTTP.

#![expect(
    clippy::disallowed_methods,
    reason = "the server is a task, and the process's figures are files"
)]

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The kernel's clock ticks per second, as it tells them to processes.
const TICKS_PER_SECOND: f64 = 100.0;
/// The size of a page of memory in `/proc/self/statm`, in bytes.
const PAGE_BYTES: u64 = 4096;

/// A registry with the figures of the process itself.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Process));
    registry
}

/// Serves `registry` on `address` until `stop`; gives the address that was bound.
///
/// # Errors
/// When the address cannot be bound.
pub async fn serve(
    address: SocketAddr,
    registry: Registry,
    stop: CancellationToken,
) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    let router = Router::new()
        .route("/metrics", get(metrics))
        .with_state(Arc::new(registry));
    tokio::spawn(async move {
        let served = axum::serve(listener, router)
            .with_graceful_shutdown(stop.cancelled_owned())
            .await;
        if let Err(error) = served {
            tracing::error!(%error, "metrics server ended");
        }
    });
    Ok(bound)
}

async fn metrics(State(registry): State<Arc<Registry>>) -> impl IntoResponse {
    let mut body = String::new();
    // Writing to a string cannot fail; a metric that cannot be encoded leaves the rest.
    _ = text::encode(&mut body, &registry);
    (
        [(
            CONTENT_TYPE,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )],
        body,
    )
}

/// `process_*`, read when somebody asks.
#[derive(Debug)]
struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        if let Some(seconds) = cpu_seconds() {
            let counter = ConstCounter::new(seconds);
            let metric = encoder.encode_descriptor(
                "process_cpu",
                "CPU time of the process",
                Some(&Unit::Seconds),
                counter.metric_type(),
            )?;
            counter.encode(metric)?;
        }
        if let Some(bytes) = resident_bytes() {
            let gauge = ConstGauge::new(bytes);
            let metric = encoder.encode_descriptor(
                "process_resident_memory",
                "Resident memory of the process",
                Some(&Unit::Bytes),
                gauge.metric_type(),
            )?;
            gauge.encode(metric)?;
        }
        Ok(())
    }
}

/// `utime` and `stime` of `/proc/self/stat`.
fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

fn resident_bytes() -> Option<i64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    i64::try_from(pages.saturating_mul(PAGE_BYTES)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_tells_its_figures() {
        let mut text_out = String::new();
        text::encode(&mut text_out, &registry()).unwrap();
        assert!(
            text_out.contains("process_cpu_seconds_total "),
            "{text_out}"
        );
        assert!(
            text_out.contains("process_resident_memory_bytes "),
            "{text_out}"
        );
    }
}

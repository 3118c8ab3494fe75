//! How long requests take, under the name and with the buckets of the reference, so that dashboards go on working.

use std::sync::Arc;

use axum::body::Body;
use http::Response;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::lasting::Lasting;
use crate::metrics::CATALOG_REQUESTS;

/// The upper bounds, in seconds.
const SECONDS: [f64; 19] = [
    0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.6, 2.0, 2.4, 2.8, 3.2, 3.6, 4.0, 10.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCode {
    code: u16,
}

/// The histogram of requests. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Family<ByCode, Histogram>>);

impl Default for Metrics {
    fn default() -> Self {
        Self(Arc::new(Family::new_with_constructor(|| {
            Histogram::new(SECONDS)
        })))
    }
}

impl Metrics {
    /// Registers the histogram with `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        CATALOG_REQUESTS.register(registry, Family::clone(&metrics.0));
        // There from the start.
        drop(metrics.0.get_or_create(&ByCode { code: 200 }));
        metrics
    }

    /// The response, which counts when it was sent, or given up.
    pub(super) fn observe(&self, started: Instant, response: Response<Body>) -> Response<Body> {
        let timer = Timer {
            metrics: self.clone(),
            code: response.status().as_u16(),
            started,
        };
        response.map(|body| {
            Body::new(Lasting {
                body,
                _until_sent: timer,
            })
        })
    }
}

/// Counts when it goes.
struct Timer {
    metrics: Metrics,
    code: u16,
    started: Instant,
}

impl Drop for Timer {
    fn drop(&mut self) {
        let by = ByCode { code: self.code };
        let seconds = self.started.elapsed().as_secs_f64();
        self.metrics.0.get_or_create(&by).observe(seconds);
    }
}

//! How long pulls take.

use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::ImageKind;
use crate::metrics::{Labels, OPERATION_SECONDS, PULL_SECONDS, outcome};

/// The histogram of pulls. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Metrics(Family<Labels<2>, Histogram>);

impl Default for Metrics {
    fn default() -> Self {
        let family: Family<Labels<2>, Histogram> =
            Family::new_with_constructor(|| Histogram::new(OPERATION_SECONDS));
        for kind in ["catalog", "bundle"] {
            for is_ok in [true, false] {
                drop(family.get_or_create(&[("kind", kind), ("outcome", outcome(is_ok))]));
            }
        }
        Self(family)
    }
}

impl Metrics {
    /// Has `registry` tell them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        PULL_SECONDS.register(registry, metrics.0.clone());
        metrics
    }

    /// An image that was not on disk was pulled and unpacked, or not.
    pub(super) fn pulled(&self, kind: ImageKind, is_ok: bool, length: Duration) {
        let kind = match kind {
            ImageKind::Catalog => "catalog",
            ImageKind::Bundle => "bundle",
        };
        let labels = [("kind", kind), ("outcome", outcome(is_ok))];
        self.0.get_or_create(&labels).observe(length.as_secs_f64());
    }
}

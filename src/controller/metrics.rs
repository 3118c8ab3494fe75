//! What the reconcilers count. Names are those of controller-runtime where it has one, so that dashboards go on working.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::controller::queue::Next;

/// The upper bounds of durations, in seconds.
const SECONDS: [f64; 12] = [
    0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0,
];

/// Which reconciler; the words are the `controller` labels of the reference where it has such a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Controller {
    /// `ClusterCatalog`
    ClusterCatalog,
    /// `ClusterExtension`
    ClusterExtension,
    /// `ClusterObjectSet`
    ClusterObjectSet,
}

impl Controller {
    fn label(self) -> &'static str {
        match self {
            Self::ClusterCatalog => "catalogd-clustercatalog-controller",
            Self::ClusterExtension => "controller-operator-cluster-extension-controller",
            Self::ClusterObjectSet => "controller-operator-cluster-object-set-controller",
        }
    }
}

impl EncodeLabelValue for Controller {
    fn encode(
        &self,
        encoder: &mut prometheus_client::encoding::LabelValueEncoder<'_>,
    ) -> Result<(), std::fmt::Error> {
        EncodeLabelValue::encode(&self.label(), encoder)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByController {
    controller: Controller,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByResult {
    controller: Controller,
    result: &'static str,
}

/// Counters of the passes of all reconcilers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    passes: Family<ByResult, Counter>,
    errors: Family<ByController, Counter>,
    panics: Family<ByController, Counter>,
    seconds: Family<ByController, Histogram>,
    active: Family<ByController, Gauge>,
}

impl Metrics {
    /// Registers the counters with `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let inner = Inner {
            passes: Family::default(),
            errors: Family::default(),
            panics: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            active: Family::default(),
        };
        registry.register(
            "controller_runtime_reconcile",
            "Reconciliations by result",
            inner.passes.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_errors",
            "Failed reconciliations",
            inner.errors.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_panics",
            "Reconciliations that panicked",
            inner.panics.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "Length of reconciliations in seconds",
            inner.seconds.clone(),
        );
        registry.register(
            "controller_runtime_active_workers",
            "Reconciliations under way",
            inner.active.clone(),
        );
        Self(Arc::new(inner))
    }

    /// A pass begins.
    pub(super) fn begin(&self, controller: Controller) {
        self.0
            .active
            .get_or_create(&ByController { controller })
            .inc();
    }

    /// A pass ended; `None`: it panicked.
    pub(super) fn end(&self, controller: Controller, next: Option<Next>, length: Duration) {
        let by = ByController { controller };
        self.0.active.get_or_create(&by).dec();
        self.0
            .seconds
            .get_or_create(&by)
            .observe(length.as_secs_f64());
        let result = match next {
            Some(Next::OnChange) => "success",
            Some(Next::After(_)) => "requeue_after",
            Some(Next::Retry) | None => "error",
        };
        self.0
            .passes
            .get_or_create(&ByResult { controller, result })
            .inc();
        if result == "error" {
            self.0.errors.get_or_create(&by).inc();
        }
        if next.is_none() {
            self.0.panics.get_or_create(&by).inc();
        }
    }
}

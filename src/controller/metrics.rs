//! What the reconcilers count. Names are those of controller-runtime where it has one, so that dashboards go on working.
//!
//! Every series of a closed set is there from the start, at zero: what was never counted could not be told from what
//! nobody asked.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::controller::next::Next;
use crate::metrics::{
    ACTIVE_WORKERS, APPLY_SECONDS, DRIFT_REPAIRS, Labels, MAX_CONCURRENT, OPERATION_SECONDS,
    PREFLIGHT_FINDINGS, RECONCILE_ERRORS, RECONCILE_PANICS, RECONCILE_SECONDS, RECONCILES,
    RENDER_SECONDS, RESOLUTION_SECONDS, TERMINAL_ERRORS, TRANSITIONS, outcome,
};
use crate::status::news::News;

/// The upper bounds of passes, in seconds: those of controller-runtime.
const PASS_SECONDS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];

/// Which reconciler; the words are the `controller` labels of the reference where it has such a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// `ClusterCatalog`
    ClusterCatalog,
    /// `ClusterExtension`
    ClusterExtension,
    /// `ClusterObjectSet`
    ClusterObjectSet,
}

impl Controller {
    /// All of them.
    pub const ALL: [Self; 3] = [
        Self::ClusterCatalog,
        Self::ClusterExtension,
        Self::ClusterObjectSet,
    ];

    /// Its name in labels.
    pub fn label(self) -> &'static str {
        match self {
            Self::ClusterCatalog => "catalogd-clustercatalog-controller",
            Self::ClusterExtension => "controller-operator-cluster-extension-controller",
            Self::ClusterObjectSet => "controller-operator-cluster-object-set-controller",
        }
    }
}

/// A check before the first write that may refuse a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// The account lacks rights.
    Permissions,
    /// A changed CRD could harm resources or clients.
    CrdUpgrade,
    /// An object is not valid.
    Objects,
    /// An object belongs to somebody else.
    Collisions,
    /// The cluster is too old.
    Kubernetes,
}

impl Check {
    const ALL: [Self; 5] = [
        Self::Permissions,
        Self::CrdUpgrade,
        Self::Objects,
        Self::Collisions,
        Self::Kubernetes,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Permissions => "permissions",
            Self::CrdUpgrade => "crd-upgrade",
            Self::Objects => "objects",
            Self::Collisions => "collisions",
            Self::Kubernetes => "kubernetes-version",
        }
    }
}

/// What was done to an object that had drifted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// It was gone.
    Created,
    /// It was changed.
    Updated,
}

impl Repair {
    const ALL: [Self; 2] = [Self::Created, Self::Updated];

    fn label(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
        }
    }
}

/// The figures of all reconcilers. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    passes: Family<Labels<2>, Counter>,
    errors: Family<Labels<1>, Counter>,
    terminal: Family<Labels<1>, Counter>,
    panics: Family<Labels<1>, Counter>,
    seconds: Family<Labels<1>, Histogram>,
    active: Family<Labels<1>, Gauge>,
    most: Family<Labels<1>, Gauge>,
    resolution: Family<Labels<1>, Histogram>,
    rendering: Family<Labels<1>, Histogram>,
    applying: Family<Labels<1>, Histogram>,
    repairs: Family<Labels<1>, Counter>,
    findings: Family<Labels<1>, Counter>,
    transitions: Family<[(&'static str, String); 2], Counter>,
}

fn operations() -> Family<Labels<1>, Histogram> {
    Family::new_with_constructor(|| Histogram::new(OPERATION_SECONDS))
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self(Arc::new(Inner {
            passes: Family::default(),
            errors: Family::default(),
            terminal: Family::default(),
            panics: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(PASS_SECONDS)),
            active: Family::default(),
            most: Family::default(),
            resolution: operations(),
            rendering: operations(),
            applying: operations(),
            repairs: Family::default(),
            findings: Family::default(),
            transitions: Family::default(),
        }));
        metrics.begin_at_zero();
        metrics
    }
}

impl Metrics {
    /// Has `registry` tell them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let inner = &metrics.0;
        RECONCILES.register(registry, inner.passes.clone());
        RECONCILE_ERRORS.register(registry, inner.errors.clone());
        TERMINAL_ERRORS.register(registry, inner.terminal.clone());
        RECONCILE_PANICS.register(registry, inner.panics.clone());
        RECONCILE_SECONDS.register(registry, inner.seconds.clone());
        ACTIVE_WORKERS.register(registry, inner.active.clone());
        MAX_CONCURRENT.register(registry, inner.most.clone());
        RESOLUTION_SECONDS.register(registry, inner.resolution.clone());
        RENDER_SECONDS.register(registry, inner.rendering.clone());
        APPLY_SECONDS.register(registry, inner.applying.clone());
        DRIFT_REPAIRS.register(registry, inner.repairs.clone());
        PREFLIGHT_FINDINGS.register(registry, inner.findings.clone());
        TRANSITIONS.register(registry, inner.transitions.clone());
        metrics
    }

    fn begin_at_zero(&self) {
        let inner = &self.0;
        for controller in Controller::ALL {
            let by = [("controller", controller.label())];
            for result in ["success", "requeue_after", "error"] {
                inner
                    .passes
                    .get_or_create(&with(by, ("result", result)))
                    .inc_by(0);
            }
            inner.errors.get_or_create(&by).inc_by(0);
            inner.terminal.get_or_create(&by).inc_by(0);
            inner.panics.get_or_create(&by).inc_by(0);
            inner.active.get_or_create(&by).set(0);
            inner.most.get_or_create(&by).set(0);
            drop(inner.seconds.get_or_create(&by));
        }
        for is_ok in [true, false] {
            let by = [("outcome", outcome(is_ok))];
            for family in [&inner.resolution, &inner.rendering, &inner.applying] {
                drop(family.get_or_create(&by));
            }
        }
        for action in Repair::ALL {
            let by = [("action", action.label())];
            inner.repairs.get_or_create(&by).inc_by(0);
        }
        for check in Check::ALL {
            let by = [("check", check.label())];
            inner.findings.get_or_create(&by).inc_by(0);
        }
        for news in [News::Installed, News::Upgraded, News::RolledBack] {
            self.transition("ClusterExtension", news.as_str(), 0);
        }
    }

    /// How many passes of a reconciler there may be at the same time.
    pub(super) fn at_most(&self, controller: Controller, passes: u16) {
        let by = [("controller", controller.label())];
        self.0.most.get_or_create(&by).set(passes.into());
    }

    /// A pass begins.
    pub(super) fn begin(&self, controller: Controller) {
        let by = [("controller", controller.label())];
        self.0.active.get_or_create(&by).inc();
    }

    /// A pass ended; `None`: it panicked.
    pub(super) fn end(&self, controller: Controller, next: Option<Next>, length: Duration) {
        let inner = &self.0;
        let by = [("controller", controller.label())];
        inner.active.get_or_create(&by).dec();
        inner
            .seconds
            .get_or_create(&by)
            .observe(length.as_secs_f64());
        let result = match next {
            Some(Next::OnChange) => "success",
            Some(Next::After(_)) => "requeue_after",
            Some(Next::Retry | Next::Blocked(_)) | None => "error",
        };
        inner
            .passes
            .get_or_create(&with(by, ("result", result)))
            .inc();
        if result == "error" {
            inner.errors.get_or_create(&by).inc();
        }
        if matches!(next, Some(Next::Blocked(_))) {
            inner.terminal.get_or_create(&by).inc();
        }
        if next.is_none() {
            inner.panics.get_or_create(&by).inc();
        }
    }

    /// A bundle was chosen, or could not be.
    pub(super) fn resolved(&self, is_ok: bool, length: Duration) {
        observe(&self.0.resolution, is_ok, length);
    }

    /// A bundle was rendered, or could not be.
    pub(super) fn rendered(&self, is_ok: bool, length: Duration) {
        observe(&self.0.rendering, is_ok, length);
    }

    /// The objects of a revision were gone through, or not to the end.
    pub(super) fn applied(&self, is_ok: bool, length: Duration) {
        observe(&self.0.applying, is_ok, length);
    }

    /// An object was brought back.
    pub(super) fn repaired(&self, repair: Repair) {
        let by = [("action", repair.label())];
        self.0.repairs.get_or_create(&by).inc();
    }

    /// A rollout was refused before the first write.
    pub(super) fn refused(&self, check: Check) {
        let by = [("check", check.label())];
        self.0.findings.get_or_create(&by).inc();
    }

    /// Something was told about an object of a kind of ours. Reasons are words of ours, too.
    pub(super) fn told(&self, kind: &str, reason: &str) {
        self.transition(kind, reason, 1);
    }

    fn transition(&self, kind: &str, reason: &str, times: u64) {
        let by = [("kind", kind.to_owned()), ("reason", reason.to_owned())];
        self.0.transitions.get_or_create(&by).inc_by(times);
    }
}

fn with([first]: Labels<1>, second: (&'static str, &'static str)) -> Labels<2> {
    [first, second]
}

fn observe(family: &Family<Labels<1>, Histogram>, is_ok: bool, length: Duration) {
    family
        .get_or_create(&[("outcome", outcome(is_ok))])
        .observe(length.as_secs_f64());
}

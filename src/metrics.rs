//! Every metric that oxolm has: name, type, labels, unit, and whether people may rely on it.
//!
//! Whoever counts something registers it through its entry here, so nothing is counted that is not in the table;
//! `config/metrics.md` is made of it. Names and labels are those of controller-runtime, client-go and catalogd where
//! they have them, so that dashboards and alerts go on working; ours begin with `olm_`.

mod table;

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{self, Registry};

pub use self::table::*;

/// Labels whose values are words of ours.
pub type Labels<const N: usize> = [(&'static str, &'static str); N];

/// The upper bounds of durations of whole operations (a pull, a rollout), in seconds.
pub const OPERATION_SECONDS: [f64; 13] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0,
];

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its whole name, as it is asked for.
    pub name: &'static str,
    /// What kind of figure it is.
    pub kind: Kind,
    /// The labels of each of its series, sorted.
    pub labels: &'static [&'static str],
    /// What it is measured in; empty for mere numbers.
    pub unit: &'static str,
    /// Whether people may rely on it.
    pub stability: Stability,
    /// What it tells.
    pub help: &'static str,
}

/// What kind of figure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, until the process ends.
    Counter,
    /// It is as it is now.
    Gauge,
    /// How often, by size, and the sum of all.
    Histogram,
}

/// Whether people may rely on a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stability {
    /// It is that of others, and stays as theirs is.
    Theirs,
    /// Name, labels and unit stay within a major version.
    Stable,
    /// It may change with any version.
    Alpha,
}

impl fmt::Display for Stability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Theirs => "as elsewhere",
            Self::Stable => "stable",
            Self::Alpha => "alpha",
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        })
    }
}

impl Metric {
    /// The name of the family, to which the text format adds what the type wants.
    fn family(&self) -> &'static str {
        match self.kind {
            Kind::Counter => self.name.trim_end_matches("_total"),
            Kind::Gauge | Kind::Histogram => self.name,
        }
    }

    /// Has `registry` tell `metric` under this name.
    pub fn register(&self, registry: &mut Registry, metric: impl registry::Metric) {
        registry.register(self.family(), self.help.trim_end_matches('.'), metric);
    }

    /// Begins the metric in what a collector writes.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin<'a>(
        &self,
        encoder: &'a mut DescriptorEncoder<'_>,
    ) -> Result<MetricEncoder<'a>, fmt::Error> {
        let kind = match self.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        };
        encoder.encode_descriptor(self.family(), self.help, None, kind)
    }
}

/// How an operation ended, as a label.
pub const fn outcome(is_ok: bool) -> &'static str {
    if is_ok { "succeeded" } else { "failed" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_their_type_and_unit() {
        for (at, metric) in ALL.iter().enumerate() {
            let Metric { name, labels, .. } = metric;
            assert!(ALL.iter().skip(at + 1).all(|other| other.name != *name));
            assert_eq!(
                name.ends_with("_total"),
                metric.kind == Kind::Counter,
                "{name}"
            );
            let unit = metric.unit;
            assert!(
                unit.is_empty() || name.trim_end_matches("_total").ends_with(unit),
                "{name}"
            );
            assert!(labels.is_sorted(), "{name}");
            assert!(metric.help.ends_with('.'), "{name}");
            assert_ne!(
                name.starts_with("olm_"),
                metric.stability == Stability::Theirs,
                "{name}"
            );
        }
    }
}

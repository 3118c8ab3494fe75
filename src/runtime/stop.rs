//! The order of a stop: reconciling ends and the lease is given back at once; catalogs are served until everybody has heard of it.
//!
//! Who deletes a Pod tells it and the proxies of all nodes at the same time. For a moment some of them go on sending new
//! connections to it; they are answered.

#![expect(
    clippy::disallowed_methods,
    reason = "signals are waited for by a task, and the environment tells whether this is a Pod"
)]

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::health::Readiness;

/// How long a Pod that was told to stop goes on serving: longer than proxies take to hear of it.
const FAREWELL: Duration = Duration::from_secs(5);

/// What every Pod finds in its environment.
const IN_POD: &str = "KUBERNETES_SERVICE_HOST";

/// What stops, and in which order.
#[derive(Debug, Clone, Default)]
pub(super) struct Stop {
    /// Ends watches and reconciling.
    pub(super) work: CancellationToken,
    /// Ends catalogs, probes and metrics.
    pub(super) serving: CancellationToken,
    /// When the Pod was told to end.
    told: Arc<OnceLock<Instant>>,
}

impl Stop {
    /// A stop that begins with a signal; `readiness` says so from then on.
    ///
    /// # Errors
    /// When signals cannot be received.
    pub(super) fn on_signals(readiness: &Readiness) -> std::io::Result<Self> {
        let stop = Self::default();
        for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
            let mut received = signal(kind)?;
            let (stop, readiness) = (stop.clone(), readiness.clone());
            tokio::spawn(async move {
                if received.recv().await.is_some() {
                    info!("stopping");
                    readiness.hold("process", "stopping");
                    if kind == SignalKind::terminate() && std::env::var_os(IN_POD).is_some() {
                        stop.told.get_or_init(Instant::now);
                    }
                    stop.work.cancel();
                }
            });
        }
        Ok(stop)
    }

    /// Ends serving, in a Pod not before everybody can have heard of its end; then waits for open answers.
    pub(super) async fn end_serving(&self, catalogs: JoinHandle<()>) {
        if let Some(told) = self.told.get() {
            tokio::time::sleep_until(*told + FAREWELL).await;
        }
        self.serving.cancel();
        // It has a deadline of its own; a panic in it was reported.
        _ = catalogs.await;
    }
}

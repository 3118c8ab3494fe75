//! `/healthz` and `/readyz`, plain HTTP.
//!
//! A replica is ready once every part that has registered here says so; the body names what is missing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio_util::sync::CancellationToken;

use crate::serve::{self, Options, ServeError};

/// How many connections are open at once: a kubelet has one or two.
const CONNECTIONS: usize = 64;

/// What stands between this replica and being ready, by part.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Mutex<BTreeMap<&'static str, String>>>);

impl Readiness {
    /// `part` is not ready, because of `why`.
    pub fn hold(&self, part: &'static str, why: impl Into<String>) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(part, why.into());
    }

    /// `part` is ready.
    pub fn release(&self, part: &'static str) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(part);
    }

    /// Lines `part: why`, empty when everything is ready.
    pub fn missing(&self) -> String {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().fold(String::new(), |lines, (part, why)| {
            lines + part + ": " + why + "\n"
        })
    }
}

/// Serves both probes on `address` until `stop`; gives the address that was bound.
///
/// # Errors
/// When the address cannot be bound.
pub async fn serve(
    address: SocketAddr,
    readiness: Readiness,
    stop: CancellationToken,
) -> Result<SocketAddr, ServeError> {
    let options = Options {
        address,
        tls: None,
        connections: CONNECTIONS,
    };
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(readiness);
    let (bound, _ends_with_stop) = serve::start(options, router, stop).await?;
    Ok(bound)
}

async fn ready(State(readiness): State<Readiness>) -> (StatusCode, String) {
    let missing = readiness.missing();
    if missing.is_empty() {
        (StatusCode::OK, "ok\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_names_what_is_missing() {
        let readiness = Readiness::default();
        assert_eq!(readiness.missing(), "");
        readiness.hold("catalogs", "2 of 3 are on disk");
        readiness.hold("lease", "held by somebody else");
        assert_eq!(
            readiness.missing(),
            "catalogs: 2 of 3 are on disk\nlease: held by somebody else\n"
        );
        readiness.release("catalogs");
        readiness.release("lease");
        assert_eq!(readiness.missing(), "");
    }
}

//! Registries that ask to be left alone for longer than a pull can wait: until then they are not asked, and whoever asks is
//! told so at once.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::endpoint::Endpoint;
use super::error::Fault;

/// Who asked to wait, by address and repository.
#[derive(Debug, Default)]
pub(super) struct Pauses(Mutex<BTreeMap<(String, String), Pause>>);

#[derive(Debug, Clone)]
struct Pause {
    until: Instant,
    said: Fault,
}

impl Pauses {
    /// `endpoint` answered with `fault`, and asked to wait so long.
    pub(super) fn begin(&self, endpoint: &Endpoint, fault: &Fault, wait: Duration) {
        let now = Instant::now();
        let mut all = self.lock();
        all.retain(|_, pause| pause.until > now);
        let pause = Pause {
            until: now + wait,
            said: fault.clone(),
        };
        all.insert(key(endpoint), pause);
    }

    /// What `endpoint` answered when it asked to wait, while it still wants that.
    pub(super) fn current(&self, endpoint: &Endpoint) -> Option<Fault> {
        let all = self.lock();
        let pause = all.get(&key(endpoint))?;
        (pause.until > Instant::now()).then(|| pause.said.clone())
    }

    /// Other credentials may have another allowance.
    pub(super) fn end_all(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), Pause>> {
        // Each critical section is one operation of a map, so a poisoned one is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(endpoint: &Endpoint) -> (String, String) {
    (endpoint.address().to_owned(), endpoint.path.clone())
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;
    use crate::registry::endpoint::Security;

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_over_when_its_time_is() {
        let (pauses, wait) = (Pauses::default(), Duration::from_mins(2));
        let endpoint = Endpoint {
            authority: "a.example".to_owned(),
            path: "b".to_owned(),
            security: Security::Verified,
        };
        let fault = Fault::Status {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code: None,
            retry_after: Some(wait),
        };
        pauses.begin(&endpoint, &fault, wait);
        tokio::time::advance(Duration::from_secs(119)).await;
        let said = pauses.current(&endpoint).map(|said| said.to_string());
        assert_eq!(
            said.as_deref(),
            Some("status 503 Service Unavailable (it asks to wait up to 2 minutes)")
        );
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(pauses.current(&endpoint).is_none());
    }
}

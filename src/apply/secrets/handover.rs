//! The Secrets of a new revision on the way from who makes them to who applies what they hold: read by nobody, since
//! this process has written them just now.
//!
//! ```text
//! announced ── the revision is made, and owns them ──▶ given ──▶ taken
//!     └── anything else: the sender is dropped, and they are read
//! ```

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// How long somebody waits for Secrets that are about to be owned; then they are read.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long Secrets are kept that nobody takes.
const KEPT: Duration = Duration::from_mins(1);

/// The Secrets of one revision.
#[derive(Debug)]
pub struct Given {
    /// The UID of the revision.
    pub uid: String,
    /// As they are on the API server.
    pub secrets: Vec<Secret>,
}

/// What was announced, by the name of the revision.
#[derive(Debug, Default)]
pub struct Handover(Mutex<BTreeMap<String, Announced>>);

#[derive(Debug)]
struct Announced {
    since: Instant,
    given: oneshot::Receiver<Given>,
}

impl Handover {
    /// Says that the Secrets of revision `name` will be given: before it is made, so that nobody applies it sooner.
    pub fn announce(&self, name: &str) -> oneshot::Sender<Given> {
        let (sender, given) = oneshot::channel();
        let since = Instant::now();
        let mut announced = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        announced.retain(|_, one| one.since.elapsed() < KEPT);
        announced.insert(name.to_owned(), Announced { since, given });
        sender
    }

    /// The Secrets of revision `name` with that UID, once; none when they have to be read.
    pub async fn take(&self, name: &str, uid: &str) -> Vec<Secret> {
        let announced = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
        let Some(announced) = announced else {
            return Vec::new();
        };
        match tokio::time::timeout(PATIENCE, announced.given).await {
            Ok(Ok(given)) if given.uid == uid => given.secrets,
            // Another revision of that name, or it was not made as announced.
            Ok(Ok(_) | Err(_)) | Err(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(uid: &str) -> Given {
        Given {
            uid: uid.to_owned(),
            secrets: vec![Secret::default()],
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_given_is_taken_once_and_only_for_that_revision() {
        let handover = Handover::default();
        assert!(handover.take("e-1", "1").await.is_empty());
        handover.announce("e-1").send(given("1")).unwrap();
        assert_eq!(handover.take("e-1", "1").await.len(), 1);
        assert!(handover.take("e-1", "1").await.is_empty());
        handover.announce("e-1").send(given("1")).unwrap();
        assert!(handover.take("e-1", "2").await.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_not_given_them_reads_them() {
        let handover = Handover::default();
        drop(handover.announce("e-1"));
        let began = Instant::now();
        assert!(handover.take("e-1", "1").await.is_empty());
        assert_eq!(began.elapsed(), Duration::ZERO);
        let _late = handover.announce("e-1");
        assert!(handover.take("e-1", "1").await.is_empty());
        assert_eq!(began.elapsed(), PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_takes_is_dropped() {
        let handover = Handover::default();
        handover.announce("e-1").send(given("1")).unwrap();
        tokio::time::advance(KEPT).await;
        let _other = handover.announce("f-1");
        assert!(handover.take("e-1", "1").await.is_empty());
    }
}

//! What was let in before, and why: kept until shortly before it expires.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::header::HeaderValue;
use tokio::time::Instant;

use super::endpoint::Endpoint;

/// What a request wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    Pull,
    Push,
}

/// What to put into the header `Authorization`.
#[derive(Debug, Clone)]
pub(super) struct Authorization {
    pub(super) header: HeaderValue,
    /// `None` for what does not expire.
    pub(super) expires: Option<Instant>,
}

/// An address, a repository, and what is to be done there.
type Key = (String, String, Access);

/// What satisfied which endpoint.
#[derive(Debug, Default)]
pub(super) struct Authorizations(Mutex<BTreeMap<Key, Authorization>>);

impl Authorizations {
    /// What satisfied this endpoint before, while it lasts.
    pub(super) fn known(&self, endpoint: &Endpoint, access: Access) -> Option<HeaderValue> {
        let (mut all, key) = (self.lock(), key(endpoint, access));
        let known = all.get(&key)?;
        let is_over = |expires| expires <= Instant::now();
        if known.expires.is_some_and(is_over) {
            all.remove(&key);
            return None;
        }
        Some(known.header.clone())
    }

    pub(super) fn remember(
        &self,
        endpoint: &Endpoint,
        access: Access,
        authorization: Authorization,
    ) {
        self.lock().insert(key(endpoint, access), authorization);
    }

    pub(super) fn forget_all(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Authorization>> {
        // Each critical section is one operation of a map, so a poisoned one is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(endpoint: &Endpoint, access: Access) -> Key {
    (endpoint.address().to_owned(), endpoint.path.clone(), access)
}

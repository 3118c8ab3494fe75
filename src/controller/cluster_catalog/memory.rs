//! What is known of each catalog beside its object.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use super::underway::UnderWay;
use crate::api::cluster_catalog::ClusterCatalogStatus;
use crate::oci::reference::CanonicalReference;
use crate::store::catalog::StoredCatalog;

/// What is known of each catalog beside its object: the last successful poll, and what is served.
#[derive(Debug, Default)]
pub struct Memory {
    pub(super) under_way: UnderWay,
    pub(super) polls: Mutex<BTreeMap<String, Poll>>,
    pub(super) written: Mutex<BTreeMap<String, ClusterCatalogStatus>>,
    pub(super) served: Mutex<BTreeMap<String, Arc<ServedCatalog>>>,
}

/// Content that is being served, and the reference that it came from.
#[derive(Debug)]
pub(super) struct ServedCatalog {
    pub(super) reference: CanonicalReference,
    pub(super) content: Arc<StoredCatalog>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Poll {
    pub(super) reference: String,
    pub(super) at: Instant,
}

impl Memory {
    pub(super) fn get(&self, name: &str) -> Option<Poll> {
        self.polls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned()
    }

    pub(super) fn set(&self, name: &str, reference: &str) {
        let poll = Poll {
            reference: reference.to_owned(),
            at: Instant::now(),
        };
        self.polls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), poll);
    }

    pub(super) fn forget(&self, name: &str) {
        self.polls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }

    /// This status is about to be written.
    pub(super) fn writes(&self, name: &str, status: &ClusterCatalogStatus) {
        self.written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), status.clone());
    }

    /// Whether this status is the one that was written last.
    pub(super) fn has_written(&self, name: &str, status: Option<&ClusterCatalogStatus>) -> bool {
        let all = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        status.is_some() && all.get(name) == status
    }

    pub(super) fn served(&self, name: &str) -> Option<Arc<ServedCatalog>> {
        self.served
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned()
    }
}

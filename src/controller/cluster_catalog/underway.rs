//! Passes under way: a change of what one is for ends it, however long its pull would still take.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use kube::ResourceExt;
use tokio_util::sync::CancellationToken;

use crate::api::ClusterCatalog;
use crate::api::cluster_catalog::AvailabilityMode;
use crate::controller::informer::Change;

/// The passes under way, by catalog.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<BTreeMap<String, CancellationToken>>);

impl UnderWay {
    /// A pass over `catalog` begins; it is to end when this is cancelled. There is never more than one.
    pub(super) fn begin(&self, catalog: &ClusterCatalog) -> CancellationToken {
        let end = CancellationToken::new();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(catalog.name_any(), end.clone());
        end
    }

    /// Ends the pass over a catalog that has gone, is going, or is now for something else.
    pub(super) fn changed(&self, change: &Change<ClusterCatalog>) {
        let name = match change {
            Change::Applied { old: None, .. } => return,
            Change::Applied {
                old: Some(old),
                new,
            } => {
                let is_deleted = new.metadata.deletion_timestamp.is_some()
                    && old.metadata.deletion_timestamp.is_none();
                let is_for_something_else = wanted(old) != wanted(new);
                if !is_deleted && !is_for_something_else {
                    return;
                }
                new.name_any()
            }
            Change::Deleted { old } => old.name_any(),
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(end) = all.remove(&name) {
            end.cancel();
        }
    }
}

/// What a pass over the catalog is for.
fn wanted(catalog: &ClusterCatalog) -> (Option<&str>, bool) {
    let image = catalog.spec.source.image.as_ref();
    let is_available = catalog.spec.availability_mode == AvailabilityMode::Available;
    (image.map(|image| image.reference.as_str()), is_available)
}

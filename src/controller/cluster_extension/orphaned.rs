//! Extensions that were seen to be deleted with `--cascade=orphan`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::ResourceExt as _;

use crate::api::ClusterExtension;
use crate::controller::informer::Change;

/// The finalizer of `kubectl delete --cascade=orphan`.
const ORPHAN: &str = "orphan";

/// Whether `--cascade=orphan` is asked for, as far as the extension still says so.
fn is_orphaned(extension: &ClusterExtension) -> bool {
    extension.finalizers().iter().any(|one| one == ORPHAN)
}

/// The UIDs of extensions that had the finalizer of `--cascade=orphan`.
///
/// The garbage collector takes it away within milliseconds: the watch tells of it, and a pass hardly ever sees it. A revision
/// that was made meanwhile, and that the garbage collector did not know, would be taken down then.
#[derive(Debug, Clone, Default)]
pub struct Orphaned(Arc<Mutex<BTreeSet<String>>>);

impl Orphaned {
    /// Notes what a change tells.
    pub fn note(&self, change: &Change<ClusterExtension>) {
        match change {
            Change::Applied { new, .. } if is_orphaned(new) => {
                self.lock().extend(new.uid());
            }
            Change::Applied { .. } => {}
            Change::Deleted { old } => {
                self.lock().remove(&old.uid().unwrap_or_default());
            }
        }
    }

    /// Whether `--cascade=orphan` is, or was, asked for.
    pub(super) fn has(&self, extension: &ClusterExtension) -> bool {
        is_orphaned(extension) || self.lock().contains(&extension.uid().unwrap_or_default())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Statuses on their way back: what was written of an extension until the watch has told it.
//!
//! A pass that begins before that would see the status as it was, and tell the same news again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::ResourceExt as _;
use tokio::time::Instant;

use crate::api::{ClusterExtension, ClusterExtensionStatus};

/// How long a watch is given; after that only memory would be lost.
const KEPT: Duration = Duration::from_mins(1);

/// The statuses that were written last, by extension.
#[derive(Debug, Default)]
pub(super) struct Reported(Mutex<BTreeMap<String, Written>>);

#[derive(Debug)]
struct Written {
    version: u64,
    at: Instant,
    status: ClusterExtensionStatus,
}

impl Reported {
    /// This status was written; `answer` is what the API server said to that.
    pub(super) fn note(&self, answer: &ClusterExtension, status: &ClusterExtensionStatus) {
        let Some(version) = version(answer) else {
            return;
        };
        let written = Written {
            version,
            at: Instant::now(),
            status: status.clone(),
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, one| one.at.elapsed() < KEPT);
        all.insert(answer.name_any(), written);
    }

    /// The extension with the status that was written last, where what was `seen` is older.
    pub(super) fn newest(&self, seen: Arc<ClusterExtension>) -> Arc<ClusterExtension> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = seen.name_any();
        let Some(written) = all.get(&name) else {
            return seen;
        };
        if version(&seen).is_none_or(|seen| seen >= written.version) {
            all.remove(&name);
            return seen;
        }
        let mut newest = ClusterExtension::clone(&seen);
        newest.status = Some(written.status.clone());
        Arc::new(newest)
    }
}

/// The resource version, where it can be compared, as it can with every API server that there is.
fn version(extension: &ClusterExtension) -> Option<u64> {
    extension.resource_version()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn extension(version: &str) -> Arc<ClusterExtension> {
        let object = json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": "e", "resourceVersion": version},
            "spec": {"namespace": "n", "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}},
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_written_counts_until_it_comes_back() {
        let reported = Reported::default();
        let status = ClusterExtensionStatus {
            active_revisions: vec![],
            ..ClusterExtensionStatus::default()
        };
        let seen = |version| reported.newest(extension(version)).status.clone();
        assert_eq!(seen("9"), None);
        reported.note(&extension("10"), &status);
        assert_eq!(seen("9"), Some(status.clone()));
        assert_eq!(seen("10"), None);
        assert_eq!(seen("9"), None);
        reported.note(&extension("not a number"), &status);
        assert_eq!(seen("9"), None);
        reported.note(&extension("10"), &status);
        tokio::time::advance(KEPT).await;
        let mut other = ClusterExtension::clone(&extension("11"));
        other.metadata.name = Some("f".to_owned());
        reported.note(&other, &status);
        assert_eq!(seen("9"), None);
    }
}

//! The check of CRDs before a new revision, and what becomes of its findings.
//!
//! What was let pass is noted on the revision, and is a warning as long as that is the newest one. An upgrade that stored
//! resources refused is tried again soon after one of them changed: a watch waits for that as the account of the
//! extension, with its right to watch them. Without that right, the growing delay of failures remains.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::select_all;
use kube::{Client, ResourceExt};
use serde_json::Value;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};
use tracing::debug;

use super::Context;
use super::roll_out::{RolloutError, Wish};
use crate::api::cluster_extension::CrdUpgradeSafetyEnforcement;
use crate::api::condition::Reason;
use crate::api::keys;
use crate::apply::crd_upgrade::{CrdUpgradeCheck, CrdUpgradeError, Looked, Resources};
use crate::controller::queue::Queue;
use crate::error::chain;
use crate::preflight::permissions::Access;
use crate::revision::Revision;
use crate::status::cluster_extension::Warning;

/// The least time between two looks at stored resources, which may change many times a second.
const LEAST_PAUSE: Duration = Duration::from_secs(2);

/// How much longer than a look the pause after it is: looking at many resources must not become all that is done.
const PAUSE_PER_LOOK: u32 = 5;

/// What is said about the CRDs of the newest revision.
pub(super) fn noted(revisions: &[Revision]) -> Vec<Warning> {
    let newest = revisions.last().filter(|revision| revision.is_active());
    newest.map_or_else(Vec::new, |revision| {
        warnings(revision.noted(keys::CRD_FINDINGS))
    })
}

fn warnings(sentences: Vec<String>) -> Vec<Warning> {
    let warning = |sentence| Warning {
        reason: Reason::CrdFindings,
        sentence,
    };
    sentences.into_iter().map(warning).collect()
}

impl Wish {
    /// Asks what the upgrade of CRDs would break; what stops nothing becomes warnings, and is handed out.
    pub(super) async fn check_crds(
        &self,
        ctx: &Context,
        objects: &[Value],
        said: &mut Vec<Warning>,
    ) -> Result<Vec<String>, RolloutError> {
        if self.extension.spec.crd_upgrade_safety() == CrdUpgradeSafetyEnforcement::None {
            return Ok(Vec::new());
        }
        let account = ctx.identity.client_for(&self.account)?;
        let user = self.account.to_string();
        let check = self.crd_check(ctx, &account, &user);
        let mut sentences = Vec::new();
        let started = Instant::now();
        let mut result = check.check(objects, &mut sentences).await;
        if let Err(CrdUpgradeError::Refused {
            paragraphs, live, ..
        }) = &mut result
        {
            // Whose they are comes first: nothing was to be upgraded.
            let strangers = self.strangers(ctx, live);
            paragraphs.splice(0..0, strangers);
        }
        // Those of the installed revision are not about this one.
        said.retain(|warning| warning.reason != Reason::CrdFindings);
        said.extend(warnings(sentences.clone()));
        if let Err(CrdUpgradeError::Refused { looked, .. }) = &result {
            let pause = LEAST_PAUSE.max(started.elapsed() * PAUSE_PER_LOOK);
            let wait = wait(looked.clone(), account, pause);
            let refused = &ctx.memory.refused;
            refused.wake(&self.identity.name, &ctx.queue, wait);
        }
        result?;
        Ok(sentences)
    }

    /// The rights that are missing to look at stored resources, if there is need to.
    pub(super) async fn unlisted(
        &self,
        ctx: &Context,
        account: &Client,
        objects: &[Value],
    ) -> Vec<Access> {
        if self.extension.spec.crd_upgrade_safety() == CrdUpgradeSafetyEnforcement::None {
            return Vec::new();
        }
        let user = self.account.to_string();
        let check = self.crd_check(ctx, account, &user);
        // A CRD that cannot be read is told by the check itself, whose turn comes.
        check.unlisted(objects).await.unwrap_or_default()
    }

    fn crd_check<'a>(
        &self,
        ctx: &'a Context,
        account: &'a Client,
        user: &'a str,
    ) -> CrdUpgradeCheck<'a> {
        CrdUpgradeCheck {
            own: &ctx.client,
            account,
            user,
            resources: self.resources(),
        }
    }

    /// Annotation `oxolm.dev/crd-upgrade-safety`: whether stored resources have a say about CRDs.
    fn resources(&self) -> Resources {
        let annotation = self.extension.annotations().get(keys::CRD_UPGRADE_SAFETY);
        if annotation.map(String::as_str) == Some(keys::CRD_UPGRADE_SAFETY_SCHEMA_ONLY) {
            Resources::Ignored
        } else {
            Resources::Looked
        }
    }
}

/// Waits until any of the resources is another than when it was looked at, and at least `pause`; false when that
/// cannot be found out.
async fn wait(looked: Vec<Looked>, account: Client, pause: Duration) -> bool {
    if looked.is_empty() {
        return false;
    }
    sleep(pause).await;
    let account = &account;
    let one = |looked: Looked| {
        async move {
            loop {
                match looked.changes(account).await {
                    Ok(true) => return true,
                    // A server that ends watches at once must not be asked all the time.
                    Ok(false) => sleep(LEAST_PAUSE).await,
                    Err(error) => {
                        debug!(path = looked.path, error = chain(&error), "cannot watch");
                        return false;
                    }
                }
            }
        }
        .boxed()
    };
    let mut waiting: Vec<_> = looked.into_iter().map(one).collect();
    while !waiting.is_empty() {
        let (has_changed, _, rest) = select_all(waiting).await;
        if has_changed {
            return true;
        }
        waiting = rest;
    }
    false
}

/// The extensions whose upgrade stored resources refused, each with the task that waits for a change of these.
#[derive(Debug, Default)]
pub(super) struct Refused(Mutex<BTreeMap<String, AbortHandle>>);

impl Refused {
    /// Wakes `extension` when `wait` says so.
    fn wake(
        &self,
        extension: &str,
        queue: &Queue,
        wait: impl Future<Output = bool> + Send + 'static,
    ) {
        let (name, queue) = (extension.to_owned(), queue.clone());
        let task = tokio::spawn(async move {
            if wait.await {
                queue.wake(&name);
            }
        });
        let before = self
            .waiting()
            .insert(extension.to_owned(), task.abort_handle());
        if let Some(before) = before {
            before.abort();
        }
    }

    /// Nothing is waited for any more.
    pub(super) fn forget(&self, extension: &str) {
        if let Some(task) = self.waiting().remove(extension) {
            task.abort();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<String, AbortHandle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// With whoever waited goes the waiting.
impl Drop for Refused {
    fn drop(&mut self) {
        self.waiting().values().for_each(AbortHandle::abort);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use serde_json::json;

    use super::*;
    use crate::controller::queue::queue;
    use crate::testing::api_server::ApiServer;

    const THING: &str = "/apis/g/v1/namespaces/n/things/t";

    fn looked(server: &ApiServer) -> Vec<Looked> {
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.g"},
            "spec": {"group": "g", "names": {"kind": "Thing", "plural": "things"}, "scope": "Namespaced",
                "versions": [{"name": "v1", "served": true, "storage": true}]},
        });
        server.add(&crd);
        let thing = json!({"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "n"}});
        let resource_version = server.add(&thing)["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .to_owned();
        let path = "/apis/g/v1/things".to_owned();
        vec![Looked {
            path,
            resource_version,
        }]
    }

    #[tokio::test]
    async fn a_changed_resource_ends_the_wait() {
        let server = ApiServer::new();
        let waiting = wait(looked(&server), server.client(), Duration::ZERO);
        // Also when it was changed before the watch began.
        server.edit(THING, &json!({"spec": {"size": 1}}));
        assert!(waiting.await);
    }

    #[tokio::test]
    async fn what_cannot_be_watched_is_not_waited_for() {
        let server = ApiServer::new();
        server.fail_next("WATCH /apis/g/v1/things", 403);
        assert!(!wait(looked(&server), server.client(), Duration::ZERO).await);
        assert!(!wait(Vec::new(), server.client(), Duration::ZERO).await);
    }

    #[tokio::test]
    async fn the_extension_is_woken_unless_forgotten() {
        let (queue, mut listener) = queue();
        let refused = Refused::default();
        refused.wake("gone", &queue, pending());
        refused.forget("gone");
        refused.wake("e", &queue, ready(true));
        assert_eq!(listener.next().await.as_deref(), Some("e"));
        assert_eq!(
            refused.waiting().keys().collect::<Vec<_>>(),
            ["e"],
            "what is forgotten does not wait"
        );
    }
}

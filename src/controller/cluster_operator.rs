//! The `OpenShift` gate: the verdict over all installed bundles, on a `ClusterOperator`.
//!
//! Where `config.openshift.io/v1` is served, also when that begins later, oxolm owns one `ClusterOperator` and sets
//! its `Upgradeable`. `OpenShift`'s cluster-version operator reads the condition of every `ClusterOperator` and blocks
//! updates to the next minor version while one is False. One that somebody else writes is never touched.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the ClusterOperator is written, in time"
)]

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::api::cluster_object_set::LifecycleState;
use crate::api::{ClusterExtension, ClusterObjectSet, keys};
use crate::controller::informer::Informer;
use crate::controller::queue::Queue;
use crate::error::chain;
use crate::status::cluster_operator::{Operator, cluster_operator_status};
use crate::upgradeable::{ActiveBundle, Minor, Verdict, verdict};

const GROUP: &str = "config.openshift.io";
/// The time between two looks whether this is an `OpenShift` cluster.
const LOOK_FOR_OPENSHIFT: Duration = Duration::from_secs(30);
/// The shortest time between two passes.
const PAUSE: Duration = Duration::from_millis(500);
/// The time after which a failed pass is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// The name that the reference's operator has.
const SHARED_NAME: &str = "olm";
/// The name that is ours alone.
const OWN_NAME: &str = "oxolm";

/// What the gate needs.
pub struct Context {
    /// Writes as oxolm itself.
    pub client: Client,
    /// All extensions.
    pub extensions: Informer<ClusterExtension>,
    /// All revisions.
    pub sets: Informer<ClusterObjectSet>,
    /// Told when an extension or a revision changed.
    pub changed: Arc<Notify>,
    /// What is known of the cluster, for whoever asks.
    pub known: Arc<Known>,
    /// Wakes extensions: their owners are told whether they block the cluster's update.
    pub queue: Queue,
}

/// What is known of the cluster, where it is `OpenShift` and has told.
#[derive(Debug, Default)]
pub struct Known(Mutex<Facts>);

#[derive(Debug, Default)]
struct Facts {
    /// The minor version.
    current: Option<Minor>,
    /// The extensions that block the update, once that was decided.
    blocking: Option<Arc<BTreeSet<String>>>,
}

impl Known {
    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cluster's minor version.
    pub fn current(&self) -> Option<Minor> {
        self.facts().current
    }

    /// The names of the extensions that block the cluster's update; none where it is not known yet.
    pub fn blocking(&self) -> Option<Arc<BTreeSet<String>>> {
        self.facts().blocking.clone()
    }

    /// Takes note of the version; whether it is another than before.
    fn learn(&self, current: Minor) -> bool {
        self.facts().current.replace(current) != Some(current)
    }

    fn decide(&self, verdict: &Verdict) {
        let blockers = verdict.blockers.iter();
        self.block(blockers.map(|blocker| blocker.extension.clone()));
    }

    /// These extensions block the update, and no others.
    pub(crate) fn block(&self, names: impl Iterator<Item = String>) {
        self.facts().blocking = Some(Arc::new(names.collect()));
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

/// A failed pass.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The API server did not say which version the cluster has.
    #[error("cannot read the ClusterVersion")]
    Version(#[source] kube::Error),
    /// The cluster does not say it.
    #[error("the ClusterVersion names no version")]
    NoVersion,
    /// It could not be found out whose the `ClusterOperator` is.
    #[error("cannot read ClusterOperator {0}")]
    Read(&'static str, #[source] kube::Error),
    /// The API server did not take it.
    #[error("cannot write ClusterOperator {0}")]
    Write(&'static str, #[source] kube::Error),
}

fn resource(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1", kind))
}

/// Whether `config.openshift.io/v1` is served with the kinds that the gate needs.
pub async fn is_openshift(client: &Client) -> bool {
    match client
        .list_api_group_resources("config.openshift.io/v1")
        .await
    {
        Ok(found) => ["ClusterVersion", "ClusterOperator"]
            .iter()
            .all(|kind| found.resources.iter().any(|one| one.kind == *kind)),
        Err(_) => false,
    }
}

/// Keeps the gate until `stop`.
pub async fn run(ctx: Arc<Context>, stop: CancellationToken) {
    while !is_openshift(&ctx.client).await {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK_FOR_OPENSHIFT) => {}
        }
    }
    info!("this is OpenShift: installed bundles decide whether the cluster may be updated");
    for kind in ["ClusterVersion", "ClusterOperator"] {
        tokio::spawn(watch(
            ctx.client.clone(),
            kind,
            ctx.changed.clone(),
            stop.clone(),
        ));
    }
    let mut written = None;
    let mut told = String::new();
    loop {
        let wait = match pass(&ctx).await {
            Ok(upgradeable) => {
                if written != Some(upgradeable) {
                    info!(upgradeable, "the cluster's update is decided");
                    written = Some(upgradeable);
                }
                told.clear();
                None
            }
            Err(error) => {
                let error = chain(&error);
                // It is tried often; the same trouble is told once.
                if error == told {
                    debug!(error, "still cannot say whether the cluster may be updated");
                } else {
                    warn!(error, "cannot say whether the cluster may be updated");
                    told = error;
                }
                Some(RETRY)
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = ctx.changed.notified() => tokio::time::sleep(PAUSE).await,
            () = async { match wait { Some(wait) => tokio::time::sleep(wait).await, None => std::future::pending().await } } => {}
        }
    }
}

async fn watch(client: Client, kind: &'static str, changed: Arc<Notify>, stop: CancellationToken) {
    let api: Api<DynamicObject> = Api::all_with(client, &resource(kind));
    let events = watcher(api, watcher::Config::default())
        .default_backoff()
        .take_until(stop.cancelled());
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(_) => changed.notify_one(),
            Err(error) => warn!(kind, error = chain(&error), "watch was interrupted"),
        }
    }
}

/// Decides and writes, if anything is to be written.
async fn pass(ctx: &Context) -> Result<bool, GateError> {
    let versions: Api<DynamicObject> =
        Api::all_with(ctx.client.clone(), &resource("ClusterVersion"));
    let version = versions.get("version").await.map_err(GateError::Version)?;
    let current = current_minor(&version.data).ok_or(GateError::NoVersion)?;
    if ctx.known.learn(current) {
        for extension in ctx.extensions.all() {
            ctx.queue.wake(&extension.name_any());
        }
    }
    let verdict = verdict(
        current,
        &active_bundles(&ctx.extensions.all(), &ctx.sets.all()),
    );
    ctx.known.decide(&verdict);
    let upgradeable = verdict.upgradeable;
    let operators: Api<DynamicObject> =
        Api::all_with(ctx.client.clone(), &resource("ClusterOperator"));
    let shared = operators
        .get_opt(SHARED_NAME)
        .await
        .map_err(|error| GateError::Read(SHARED_NAME, error))?;
    let name = name_of(shared.as_ref(), &version.data);
    let existing = match name {
        SHARED_NAME => shared,
        _ => operators
            .get_opt(name)
            .await
            .map_err(|error| GateError::Read(name, error))?,
    };
    if name == OWN_NAME {
        remove_ours(&operators, SHARED_NAME).await?;
    }
    write(&operators, name, existing, &verdict).await?;
    Ok(upgradeable)
}

/// The higher of the version that is wanted and the newest that was completed.
pub fn current_minor(cluster_version: &Value) -> Option<Minor> {
    let text = |path: &str| cluster_version.pointer(path).and_then(Value::as_str);
    let desired = text("/status/desired/version").and_then(Minor::of_cluster_version);
    let completed = cluster_version
        .pointer("/status/history")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .find(|entry| entry.get("state").and_then(Value::as_str) == Some("Completed"))
        .and_then(|entry| entry.get("version").and_then(Value::as_str))
        .and_then(Minor::of_cluster_version);
    desired.max(completed)
}

/// `oxolm` where somebody else's `olm` is, or where `OpenShift`'s own OLM v1 is enabled; else `olm`.
fn name_of(shared: Option<&DynamicObject>, cluster_version: &Value) -> &'static str {
    let is_foreign = shared.is_some_and(|operator| !is_ours(operator));
    let has_capability = cluster_version
        .pointer("/status/capabilities/enabledCapabilities")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|capability| capability == "OperatorLifecycleManagerV1");
    if is_foreign || has_capability {
        OWN_NAME
    } else {
        SHARED_NAME
    }
}

fn is_ours(operator: &DynamicObject) -> bool {
    operator.annotations().contains_key(keys::CLUSTER_OPERATOR)
}

/// Removes the `ClusterOperator`s that are oxolm's; for when oxolm itself is gone. One that is going may write once
/// more, so they are looked for until there was none twice.
///
/// # Errors
/// When the API server does not say whether there are any, or does not let them go.
pub async fn remove(client: &Client) -> Result<Vec<&'static str>, GateError> {
    let mut removed = Vec::new();
    if !is_openshift(client).await {
        return Ok(removed);
    }
    let operators: Api<DynamicObject> = Api::all_with(client.clone(), &resource("ClusterOperator"));
    let mut looks_without_any = 0;
    while looks_without_any < 2 {
        let before = removed.len();
        for name in [SHARED_NAME, OWN_NAME] {
            if remove_ours(&operators, name).await? {
                removed.push(name);
            }
        }
        if removed.len() == before {
            looks_without_any += 1;
        } else {
            looks_without_any = 0;
        }
        tokio::time::sleep(PAUSE).await;
    }
    removed.sort_unstable();
    removed.dedup();
    Ok(removed)
}

/// Removes it, if it is there and ours.
async fn remove_ours(
    operators: &Api<DynamicObject>,
    name: &'static str,
) -> Result<bool, GateError> {
    let existing = operators
        .get_opt(name)
        .await
        .map_err(|error| GateError::Read(name, error))?;
    if !existing.is_some_and(|operator| is_ours(&operator)) {
        return Ok(false);
    }
    operators
        .delete(name, &kube::api::DeleteParams::default())
        .await
        .map_err(|error| GateError::Write(name, error))?;
    Ok(true)
}

async fn write(
    operators: &Api<DynamicObject>,
    name: &'static str,
    existing: Option<DynamicObject>,
    verdict: &Verdict,
) -> Result<(), GateError> {
    let failed = |error| GateError::Write(name, error);
    let operator = match existing {
        Some(operator) if is_ours(&operator) => operator,
        // Somebody else took the name; theirs is never touched, and the next pass looks again.
        Some(_) => return Ok(()),
        None => {
            let mut operator =
                DynamicObject::new(name, &resource("ClusterOperator")).data(json!({ "spec": {} }));
            operator
                .annotations_mut()
                .insert(keys::CLUSTER_OPERATOR.to_owned(), "true".to_owned());
            operators
                .create(&PostParams::default(), &operator)
                .await
                .map_err(failed)?
        }
    };
    let before = operator.data.get("status").cloned().unwrap_or(Value::Null);
    let described = Operator {
        version: env!("CARGO_PKG_VERSION"),
        verdict,
    };
    let after = cluster_operator_status(&before, &described, Timestamp::now());
    if before == after {
        return Ok(());
    }
    let patch =
        json!({ "metadata": { "resourceVersion": operator.resource_version() }, "status": after });
    operators
        .patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map_err(failed)?;
    Ok(())
}

/// Every bundle that is installed or rolling out.
pub fn active_bundles<E, S>(extensions: &[E], sets: &[S]) -> Vec<ActiveBundle>
where
    E: Borrow<ClusterExtension>,
    S: Borrow<ClusterObjectSet>,
{
    let override_of = |uid: &str| {
        let owner = extensions
            .iter()
            .map(Borrow::borrow)
            .find(|extension: &&ClusterExtension| extension.metadata.uid.as_deref() == Some(uid))?;
        owner
            .annotations()
            .get(keys::MAX_OPENSHIFT_VERSION)
            .cloned()
    };
    let active = sets
        .iter()
        .map(Borrow::borrow)
        .filter(|set: &&ClusterObjectSet| set.spec.lifecycle_state == LifecycleState::Active);
    active
        .filter_map(|set| {
            let owner = set
                .owner_references()
                .iter()
                .find(|owner| owner.controller == Some(true))?;
            Some(ActiveBundle {
                extension: owner.name.clone(),
                bundle: set
                    .annotations()
                    .get(keys::BUNDLE_NAME)
                    .cloned()
                    .unwrap_or_default(),
                properties: set.annotations().get(keys::OLM_PROPERTIES).cloned(),
                override_text: override_of(&owner.uid),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(ours: bool) -> DynamicObject {
        let mut operator = DynamicObject::new("olm", &resource("ClusterOperator"));
        if ours {
            operator
                .annotations_mut()
                .insert(keys::CLUSTER_OPERATOR.to_owned(), "true".to_owned());
        }
        operator
    }

    #[test]
    fn the_shared_name_is_left_to_whoever_has_it() {
        let with = json!({"status": {"capabilities": {"enabledCapabilities": ["OperatorLifecycleManagerV1"]}}});
        assert_eq!(name_of(None, &json!({})), "olm");
        assert_eq!(name_of(Some(&operator(true)), &json!({})), "olm");
        assert_eq!(name_of(Some(&operator(false)), &json!({})), "oxolm");
        assert_eq!(name_of(None, &with), "oxolm");
    }

    #[test]
    fn the_higher_of_desired_and_completed_counts() {
        let version = |desired: &str, history: Value| json!({"status": {"desired": {"version": desired}, "history": history}});
        let completed = |version: &str| json!([{"state": "Partial", "version": "4.99.0"}, {"state": "Completed", "version": version}]);
        let text = |value: &Value| current_minor(value).map(|minor| minor.to_string());
        assert_eq!(
            text(&version("4.18.1", completed("4.17.9"))).as_deref(),
            Some("4.18")
        );
        assert_eq!(
            text(&version("4.17.1", completed("4.18.9"))).as_deref(),
            Some("4.18")
        );
        assert_eq!(text(&version("", json!([]))), None);
    }
}

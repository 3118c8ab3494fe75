//! Waiting for what shall come, with a deadline and a failure that says what there was instead.

use std::time::Duration;

use anyhow::bail;
use kube::Api;
use oxolm::api::condition::{self, ConditionType};
use oxolm::api::{ClusterCatalog, ClusterExtension, ClusterObjectSet, Condition};
use serde_json::Value;

use super::Cluster;

/// How long one step may take.
pub(crate) const STEP_DEADLINE: Duration = Duration::from_mins(1);
/// The time between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// An object with conditions.
pub(crate) trait Conditions {
    fn conditions(&self) -> &[Condition];
}

impl Conditions for ClusterExtension {
    fn conditions(&self) -> &[Condition] {
        self.status
            .as_ref()
            .map_or(&[], |status| &status.conditions)
    }
}

impl Conditions for ClusterObjectSet {
    fn conditions(&self) -> &[Condition] {
        self.status
            .as_ref()
            .map_or(&[], |status| &status.conditions)
    }
}

impl Conditions for ClusterCatalog {
    fn conditions(&self) -> &[Condition] {
        self.status
            .as_ref()
            .map_or(&[], |status| &status.conditions)
    }
}

/// `Status/Reason` of a condition, or `absent`.
pub(crate) fn shape(object: &impl Conditions, kind: ConditionType) -> String {
    condition::find(object.conditions(), kind).map_or_else(
        || "absent".to_owned(),
        |one| format!("{}/{}", one.status, one.reason),
    )
}

/// The message of a condition, or nothing.
pub(crate) fn message(object: &impl Conditions, kind: ConditionType) -> String {
    condition::find(object.conditions(), kind)
        .map(|one| one.message.clone())
        .unwrap_or_default()
}

/// Waits until `holds` of the object of that name.
pub(crate) async fn until<K>(
    cluster: &Cluster,
    api: &Api<K>,
    name: &str,
    what: &str,
    holds: impl Fn(&K) -> bool,
) -> anyhow::Result<K>
where
    K: Clone + serde::de::DeserializeOwned + serde::Serialize + std::fmt::Debug,
{
    let mut last = None;
    let looked = async {
        loop {
            if let Some(object) = api.get_opt(name).await? {
                if holds(&object) {
                    return anyhow::Ok(object);
                }
                last = Some(object);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    if let Ok(object) = tokio::time::timeout(STEP_DEADLINE, looked).await {
        return object;
    }
    let last = serde_json::to_value(&last)?;
    bail!(
        "{name}: not in {} s: {what}\n{}\noxolm said:\n{}",
        STEP_DEADLINE.as_secs(),
        serde_json::to_string_pretty(last.get("status").unwrap_or(&Value::Null))?,
        cluster.controller.last_lines(25)
    )
}

/// Waits until no object has that name.
pub(crate) async fn until_gone<K>(cluster: &Cluster, api: &Api<K>, name: &str) -> anyhow::Result<()>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let is_gone = async || Ok(api.get_opt(name).await?.is_none());
    until_true(cluster, &format!("{name} is gone"), is_gone).await
}

/// Waits until the answer is yes.
pub(crate) async fn until_true(
    cluster: &Cluster,
    what: &str,
    holds: impl AsyncFn() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let looked = async {
        while !holds().await? {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout(STEP_DEADLINE, looked).await {
        Ok(result) => result,
        Err(_) => bail!(
            "not in {} s: {what}\noxolm said:\n{}",
            STEP_DEADLINE.as_secs(),
            cluster.controller.last_lines(25)
        ),
    }
}

//! Secrets that could change, and Secrets that did.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::condition::ConditionType;
use serde_json::json;

use super::secrets::{referring, secret};
use super::{apply_set, config_map, config_map_path, delete_set, set_path};
use crate::harness::stage::Stage;
use crate::harness::wait::message;
use crate::harness::{Cluster, Outcome};

/// Content that could be changed behind a revision's back is not applied; made immutable, it is.
pub(crate) async fn a_mutable_secret_blocks(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "mutable-secret").await?;
    let map = config_map(&stage, "map", &json!({}), &json!({"a": "b"}));
    let content = |is_immutable| secret(&stage, "content", is_immutable, &[("map", map.clone())]);
    stage.apply(&content(false)).await?;
    let spec = json!({"phases": referring(&stage, "content", &["map"])});
    apply_set(&stage, "mutable-secret", &spec).await?;
    let set = stage
        .until_set(
            "mutable-secret",
            ConditionType::Progressing,
            "False/Blocked",
        )
        .await?;
    let told = message(&set, ConditionType::Progressing);
    let expected = "the following secrets are not immutable (referenced secrets must have immutable set to true): \
                    mutable-secret/content";
    ensure!(told == expected, "{told}");
    let path = config_map_path(&stage, "map");
    ensure!(!stage.exists(&path).await?, "nothing is applied");

    stage.apply(&content(true)).await?;
    let touch = json!({"metadata": {"annotations": {"example.com/look": "again"}}});
    stage.merge(&set_path("mutable-secret"), &touch).await?;
    stage.until_rolled_out("mutable-secret").await?;
    ensure!(stage.exists(&path).await?, "it is applied");
    delete_set(&stage, "mutable-secret").await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// Another content under the same name is not applied, also not when it is to be taken down; the first content,
/// restored, is as good as ever. A blocked revision can be archived.
pub(crate) async fn changed_content_blocks_until_it_is_restored(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "changed-secret").await?;
    let replace = async |value: &str| {
        let map = config_map(&stage, "map", &json!({}), &json!({"a": value}));
        let content = secret(&stage, "content", true, &[("map", map)]);
        stage.delete(&content).await?;
        stage.apply(&content).await
    };
    let touch = async |value: &str| {
        let touch = json!({"metadata": {"annotations": {"example.com/look": value}}});
        stage.merge(&set_path("changed-secret"), &touch).await
    };
    replace("first").await?;
    let spec = json!({"phases": referring(&stage, "content", &["map"])});
    apply_set(&stage, "changed-secret", &spec).await?;
    stage.until_rolled_out("changed-secret").await?;

    replace("second").await?;
    touch("1").await?;
    let set = stage
        .until_set(
            "changed-secret",
            ConditionType::Progressing,
            "False/Blocked",
        )
        .await?;
    let told = message(&set, ConditionType::Progressing);
    let begin =
        "resolved content of 1 phase(s) has changed: phase \"objects\" (expected digest sha256:";
    let end =
        "; a referenced object source may have been deleted and recreated with different content";
    ensure!(told.starts_with(begin) && told.ends_with(end), "{told}");
    let map = stage.get(&config_map_path(&stage, "map")).await?;
    ensure!(map["data"]["a"] == "first", "{map}");

    replace("first").await?;
    touch("2").await?;
    stage.until_rolled_out("changed-secret").await?;

    let archive = json!({"spec": {"lifecycleState": "Archived"}});
    stage.merge(&set_path("changed-secret"), &archive).await?;
    let set = stage.until_archived("changed-secret").await?;
    ensure!(message(&set, ConditionType::Available) == "revision is archived");
    stage
        .until_exists(&config_map_path(&stage, "map"), false)
        .await?;
    delete_set(&stage, "changed-secret").await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

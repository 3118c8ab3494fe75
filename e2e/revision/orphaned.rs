//! A revision by hand that is deleted with `--cascade=orphan`, and written again.

use std::sync::Arc;

use anyhow::ensure;
use serde_json::json;

use super::{apply_set, config_map, config_map_path, delete_set, set_path};
use crate::harness::stage::Stage;
use crate::harness::{Cluster, Outcome, wait};

/// What it left is taken back where it stands by one of the same name and account.
pub(crate) async fn a_revision_by_hand_is_taken_back(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "by-hand").await?;
    let map = config_map(&stage, "left", &json!({}), &json!({"a": "b"}));
    let spec = json!({"phases": [{"name": "one", "objects": [{"object": map}]}]});
    apply_set(&stage, "by-hand", &spec).await?;
    stage.until_rolled_out("by-hand").await?;
    let path = config_map_path(&stage, "left");
    let uid = stage.get(&path).await?["metadata"]["uid"].clone();

    let orphan = json!({"propagationPolicy": "Orphan"});
    stage.remove(&set_path("by-hand"), &orphan).await?;
    wait::until_gone(&stage.cluster, &stage.sets(), "by-hand").await?;
    apply_set(&stage, "by-hand", &spec).await?;
    stage.until_rolled_out("by-hand").await?;
    let taken = stage.get(&path).await?;
    ensure!(taken["metadata"]["uid"] == uid, "{taken}");
    let owner = &taken["metadata"]["ownerReferences"][0]["name"];
    ensure!(*owner == "by-hand", "{taken}");
    delete_set(&stage, "by-hand").await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

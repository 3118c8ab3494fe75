//! A version that changes nothing but its number.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::cluster_object_set::LifecycleState;

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::{Cluster, Outcome};

/// The status reaches the new version, through a revision of its own.
pub(crate) async fn identical_content_is_a_new_revision(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "identical").await?;
    let bundles = ["1.0.0", "1.0.4"].map(|version| Bundle {
        setting: Some("same"),
        ..Bundle::new(version)
    });
    stage.offer(&bundles).await?;
    stage.install("1.0.0").await?;
    let before = stage.get(&stage.deployment_path()).await?["metadata"]["uid"].clone();
    stage.change_to("1.0.4").await?;
    let second = stage.sets().get("identical-2").await?;
    ensure!(second.spec.lifecycle_state == LifecycleState::Active);
    let after = stage.get(&stage.deployment_path()).await?["metadata"]["uid"].clone();
    ensure!(before == after, "the operator is not made anew");
    stage.clear().await?;
    Ok(Outcome::Passed)
}

//! The chart's hooks, which really run here: `helm test`, and an uninstallation that is refused.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::{READY, greeter};
use crate::harness::cluster::helm;
use crate::harness::release::RELEASE;
use crate::harness::stage::Stage;
use crate::harness::{Cluster, Outcome};

/// The definition that holds all extensions.
const EXTENSIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterextensions.olm.operatorframework.io";

/// The last story: nothing of oxolm is left behind it.
pub(super) async fn its_hooks_test_it_and_refuse_its_end(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let tested = helm(&["test", RELEASE, "--timeout", "1m"]).await?;
    ensure!(tested.contains("Succeeded"), "{tested}");
    let stage = Stage::set(cluster, "hooks").await?;
    greeter::install(&stage).await?;
    let refused = helm(&["uninstall", RELEASE, "--wait", "--timeout", "1m"]).await;
    let refused = refused.err().context("helm uninstall is not refused")?;
    let names_it = "1 ClusterExtension is still there: hooks";
    ensure!(format!("{refused:#}").contains(names_it), "{refused:#}");
    // Nothing was taken away, and what the message says makes helm go on with the release.
    let history: serde_json::Value =
        serde_json::from_str(&helm(&["history", RELEASE, "--output", "json"]).await?)?;
    let newest = history
        .as_array()
        .and_then(|history| history.last())
        .context("helm knows the release")?;
    helm(&[
        "rollback",
        RELEASE,
        &newest["revision"].to_string(),
        "--wait",
        "--timeout",
        READY,
    ])
    .await?;
    stage
        .change_extension(&json!({"channels": ["stable"]}))
        .await?;
    stage.until_installed("1.0.0").await?;
    let delete = json!({"metadata": {"annotations": {"oxolm.dev/crd-deletion": "delete"}}});
    stage.patch_extension(&delete).await?;
    stage.clear().await?;
    helm(&["uninstall", RELEASE, "--wait", "--timeout", "1m"]).await?;
    ensure!(stage.exists(EXTENSIONS).await?, "the definitions are kept");
    let deployment = format!("/apis/apps/v1/namespaces/olmv1-system/deployments/{RELEASE}");
    ensure!(!stage.exists(&deployment).await?, "the Deployment stays");
    Ok(Outcome::Passed)
}

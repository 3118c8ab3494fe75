//! The account goes before the extension.

use std::sync::Arc;

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::{Cluster, Outcome};

/// An account that was deleted can still be impersonated, and bindings to its name still count.
pub(crate) async fn without_its_account_everything_goes(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::offering(cluster, "account-gone", &[Bundle::new("1.0.0")]).await?;
    stage.install_newest("1.0.0").await?;
    stage.delete("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: installer, namespace: account-gone}\n",
    )
    .await?;
    stage.uninstall().await?;
    stage.has_nothing().await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

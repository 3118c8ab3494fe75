//! A status that somebody else wrote: a restore, a leader that was paused.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::condition::ConditionType;
use serde_json::{Value, json};

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::{shape, until_true};
use crate::harness::{Cluster, Outcome};

/// It is put right at once, and nothing is installed because of it.
pub(crate) async fn what_somebody_else_wrote_is_put_right(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let name = "statuses";
    let stage = Stage::offering(cluster, name, &[Bundle::new("1.0.0")]).await?;
    stage.install("1.0.0").await?;
    let condition = |kind: &str| json!({"type": kind, "status": "False", "reason": "X", "message": "x", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let of =
        |plural: &str, name: &str| format!("/apis/olm.operatorframework.io/v1/{plural}/{name}");
    let set = of("clusterobjectsets", "statuses-1");
    let extension = of("clusterextensions", name);
    let nothing: [&str; 0] = [];
    for (path, change) in [
        (&set, json!({"conditions": [condition("Succeeded")]})),
        (&set, json!({"conditions": nothing})),
        (
            &extension,
            json!({"install": {"bundle": {"name": "evil", "version": "9.9.9"}}}),
        ),
        (&extension, json!({"conditions": [condition("Installed")]})),
    ] {
        let change = json!({"status": change});
        stage.merge(&format!("{path}/status"), &change).await?;
        let is_right = async || {
            let found: Value = stage.get(&extension).await?;
            let found: oxolm::api::ClusterExtension = serde_json::from_value(found)?;
            let of_set: Value = stage.get(&set).await?;
            let install = found.status.as_ref().and_then(|it| it.install.as_ref());
            let conditions = of_set["status"]["conditions"].to_string();
            Ok(
                install.is_some_and(|install| install.bundle.version == "1.0.0")
                    && shape(&found, ConditionType::Installed) == "True/Succeeded"
                    && shape(&found, ConditionType::Ready) == "True/Ready"
                    && conditions.contains("Revision 1.0.0 has rolled out")
                    && !conditions.contains("\"X\""),
            )
        };
        until_true(&stage.cluster, "the status is put right", is_right).await?;
    }
    let sets = stage.sets().list(&kube::api::ListParams::default()).await?;
    let made = sets.iter().filter(|set| {
        let name = set.metadata.name.as_deref();
        name.is_some_and(|name| name.starts_with("statuses-"))
    });
    ensure!(made.count() == 1, "another revision was made");
    stage.clear().await?;
    Ok(Outcome::Passed)
}

//! A webhook that nobody answers.

use std::sync::Arc;

use oxolm::api::ClusterObjectSet;
use oxolm::api::condition::ConditionType;
use serde_json::json;

use super::DEFINITIONS;
use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::{self, message, shape};
use crate::harness::{Cluster, Outcome};

/// An operator that is scaled to zero is as it should be; its webhook has nobody to answer, and that is told. The next
/// version has an operator.
pub(crate) async fn a_webhook_that_nobody_answers_is_told(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set(cluster, "unanswered").await?;
    let bundles = [("1.0.0", 0), ("1.1.0", 1)].map(|(version, replicas)| Bundle {
        definitions: DEFINITIONS,
        replicas,
        ..Bundle::new(version)
    });
    stage.offer(&bundles[..1]).await?;
    stage.add_extension(&json!({})).await?;
    // Before that it is told of other objects, which were not ready yet.
    let expected = "Object ValidatingWebhookConfiguration.admissionregistration.k8s.io/v1 unanswered/unanswered.example.com: \
                    Service unanswered/unanswered-manager-service has no ready endpoint";
    let is_told = |set: &ClusterObjectSet| {
        shape(set, ConditionType::Available) == "False/ProbeFailure"
            && message(set, ConditionType::Available) == expected
    };
    let (cluster, sets) = (&stage.cluster, stage.sets());
    wait::until(cluster, &sets, "unanswered-1", expected, is_told).await?;
    stage.offer(&bundles).await?;
    stage.until_installed("1.1.0").await?;
    stage.uninstall().await?;
    stage.has_nothing().await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

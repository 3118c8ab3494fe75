//! A webhook that nobody answers.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::condition::ConditionType;
use serde_json::json;

use super::DEFINITIONS;
use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::message;
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
    let set = stage
        .until_set(
            "unanswered-1",
            ConditionType::Available,
            "False/ProbeFailure",
        )
        .await?;
    let told = message(&set, ConditionType::Available);
    let expected = "Object ValidatingWebhookConfiguration.admissionregistration.k8s.io/v1 unanswered/unanswered.example.com: \
                    Service unanswered/unanswered-manager-service has no ready endpoint";
    ensure!(told == expected, "{told}");
    stage.offer(&bundles).await?;
    stage.until_installed("1.1.0").await?;
    stage.uninstall().await?;
    stage.has_nothing().await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

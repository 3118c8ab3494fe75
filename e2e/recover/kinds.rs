//! Kinds that the chart lets oxolm watch beside those that every operator has.

use std::sync::Arc;

use kube::api::DeleteParams;

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::{Cluster, Outcome};

/// What a bundle ships beside its operator comes back when somebody deletes it.
pub(crate) async fn what_comes_beside_the_operator_is_kept_up(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let beside = Bundle {
        manifests: vec![
            (
                "budget.yaml",
                "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: PACKAGE-beside}\n\
                 spec: {minAvailable: 1, selector: {matchLabels: {app: PACKAGE}}}\n"
                    .to_owned(),
            ),
            (
                "traffic.yaml",
                "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: PACKAGE-beside}\n\
                 spec: {podSelector: {matchLabels: {app: PACKAGE}}, policyTypes: [Ingress]}\n"
                    .to_owned(),
            ),
            (
                "priority.yaml",
                "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: PACKAGE-beside}\nvalue: 7\n"
                    .to_owned(),
            ),
        ],
        ..Bundle::new("1.0.0")
    };
    let stage = Stage::offering(cluster, "beside", &[beside]).await?;
    stage.install_newest("1.0.0").await?;
    let name = "beside";
    for path in [
        format!("/apis/policy/v1/namespaces/{name}/poddisruptionbudgets/{name}-beside"),
        format!("/apis/networking.k8s.io/v1/namespaces/{name}/networkpolicies/{name}-beside"),
        format!("/apis/scheduling.k8s.io/v1/priorityclasses/{name}-beside"),
    ] {
        let options = serde_json::to_value(DeleteParams::default())?;
        stage.remove(&path, &options).await?;
        stage.until_exists(&path, true).await?;
    }
    stage.clear().await?;
    Ok(Outcome::Passed)
}

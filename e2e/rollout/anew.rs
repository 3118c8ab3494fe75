//! Objects that Kubernetes does not let be changed, and that are made anew instead.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use oxolm::api::condition::ConditionType;
use serde_json::{Value, json};

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::until_true;
use crate::harness::{Cluster, Outcome, objects};

/// Refuses content of version 1.1.0, new or not.
const POLICY: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: made-anew}
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: made-anew}}
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  validations:
  - {expression: "!has(object.data) || !('frozen' in object.data) || object.data.frozen != '1.1.0'", message: not this one}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: made-anew}
spec: {policyName: made-anew, validationActions: [Deny]}
"#;

/// How long the API server may take to know a policy.
const PAUSE: Duration = Duration::from_millis(200);

fn bundle(version: &'static str, role: &str) -> Bundle {
    let rbac = "rbac.authorization.k8s.io";
    let frozen = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: PACKAGE-frozen}\nimmutable: true\ndata: {frozen: VERSION}\n";
    let binding = format!(
        "apiVersion: {rbac}/v1\nkind: RoleBinding\nmetadata: {{name: PACKAGE-binding}}\n\
         roleRef: {{apiGroup: {rbac}, kind: ClusterRole, name: {role}}}\n\
         subjects: [{{kind: ServiceAccount, name: PACKAGE-manager, namespace: made-anew}}]\n"
    );
    Bundle {
        manifests: vec![
            ("frozen.yaml", frozen.to_owned()),
            ("binding.yaml", binding),
        ],
        ..Bundle::new(version)
    }
}

/// Nothing is deleted before it is known that what comes in its place would be let in; what others wrote in the metadata stays.
pub(crate) async fn what_is_made_anew_is_let_in_first(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let bundles = [bundle("1.0.0", "view"), bundle("1.1.0", "edit")];
    let stage = Stage::offering(cluster, "made-anew", &bundles).await?;
    stage.install("1.0.0").await?;
    let frozen = "/api/v1/namespaces/made-anew/configmaps/made-anew-frozen";
    let binding =
        "/apis/rbac.authorization.k8s.io/v1/namespaces/made-anew/rolebindings/made-anew-binding";
    let users = json!({"metadata": {"labels": {"team": "a"}, "annotations": {"example.com/backup": "yes"}}});
    for path in [frozen, binding] {
        stage.merge(path, &users).await?;
    }
    let before = stage.get(frozen).await?;
    stage.apply(POLICY).await?;
    until_refused(&stage).await?;

    stage.change_extension(&json!({"version": "1.1.0"})).await?;
    let kind = ConditionType::Progressing;
    stage
        .until_condition(kind, "True/Retrying", "not this one")
        .await?;
    let kept = stage.get(frozen).await?;
    ensure!(kept["metadata"]["uid"] == before["metadata"]["uid"]);
    ensure!(kept["data"] == json!({"frozen": "1.0.0"}), "{kept}");

    stage.delete(POLICY).await?;
    stage.until_installed("1.1.0").await?;
    let made = stage.get(frozen).await?;
    ensure!(made["metadata"]["uid"] != before["metadata"]["uid"]);
    ensure!(made["data"] == json!({"frozen": "1.1.0"}), "{made}");
    ensure!(stage.get(binding).await?["roleRef"]["name"] == "edit");
    has_what_others_wrote(&stage, &[frozen, binding]).await?;

    stage
        .change_extension(&json!({"version": "1.0.0", "upgradeConstraintPolicy": "SelfCertified"}))
        .await?;
    stage.until_installed("1.0.0").await?;
    has_what_others_wrote(&stage, &[frozen, binding]).await?;
    stage.uninstall().await?;
    for path in [frozen, binding] {
        stage.until_exists(path, false).await?;
    }
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// A policy is in force a moment after it was made.
async fn until_refused(stage: &Stage) -> anyhow::Result<()> {
    let number = std::cell::Cell::new(0);
    let is_refused = async || {
        number.set(number.get() + 1);
        let probe = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"frozen": "1.1.0"},
            "metadata": {"name": format!("probe-{}", number.get()), "namespace": "made-anew"}});
        let answer = objects::apply(&stage.cluster.client, &probe.to_string()).await;
        tokio::time::sleep(PAUSE).await;
        Ok(answer.is_err())
    };
    until_true(&stage.cluster, "the policy is in force", is_refused).await
}

async fn has_what_others_wrote(stage: &Stage, paths: &[&str]) -> anyhow::Result<()> {
    for path in paths {
        let metadata: Value = stage.get(path).await?["metadata"].take();
        ensure!(metadata["labels"]["team"] == "a", "{metadata}");
        ensure!(
            metadata["annotations"]["example.com/backup"] == "yes",
            "{metadata}"
        );
    }
    Ok(())
}

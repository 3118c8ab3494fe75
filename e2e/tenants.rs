//! Who may write extensions, and which: RBAC and policies of an administrator's own.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use kube::Client;
use serde_json::{Value, json};

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::until_true;
use crate::harness::{Cluster, Outcome, objects};

/// What user `tenants-jane` may do, and what an administrator forbids everybody in label `story: tenants`.
const RULES: &str = r#"apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tenants-writer}
rules:
- {apiGroups: [olm.operatorframework.io], resources: [clusterextensions], verbs: [get, create, update, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tenants-writer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tenants-writer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenants-jane}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tenants-impersonator}
rules:
- {apiGroups: [""], resources: [serviceaccounts], resourceNames: [installer], verbs: [impersonate]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tenants-impersonator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tenants-impersonator}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenants-jane}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: tenants}
spec:
  failurePolicy: Fail
  matchConstraints:
    objectSelector: {matchLabels: {tenant: jane}}
    resourceRules:
    - {apiGroups: [olm.operatorframework.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [clusterextensions]}
  validations:
  - {expression: "object.spec.source.catalog.packageName == 'tenants'", message: only package tenants}
  - {expression: "object.spec.namespace == 'tenants'", message: only namespace tenants}
  - expression: "has(object.spec.source.catalog.selector) && has(object.spec.source.catalog.selector.matchLabels) && object.spec.source.catalog.selector.matchLabels.exists(key, key == 'story')"
    message: only selected catalogs
  - expression: "!has(object.spec.source.catalog.upgradeConstraintPolicy) || object.spec.source.catalog.upgradeConstraintPolicy != 'SelfCertified'"
    message: only edges of the catalog
  - expression: "!has(object.spec.install) || !has(object.spec.install.preflight) || object.spec.install.preflight.crdUpgradeSafety.enforcement != 'None'"
    message: only safe definitions
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: tenants}
spec: {policyName: tenants, validationActions: [Deny]}
"#;

/// How long the API server may take to know a policy.
const PAUSE: Duration = Duration::from_millis(200);

/// Who is no administrator installs what the policy allows, and is told what it does not.
pub(crate) async fn a_policy_decides_what_is_installed(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::offering(cluster, "tenants", &[Bundle::new("1.0.0")]).await?;
    stage.apply(RULES).await?;
    let jane = stage.cluster.client_of("tenants-jane").await?;
    let catalog = |change: Value| json!({"source": {"catalog": change}});
    let safety = json!({"install": {"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}}});
    for (change, message) in [
        (
            catalog(json!({"packageName": "other"})),
            "only package tenants",
        ),
        (json!({"namespace": "default"}), "only namespace tenants"),
        (catalog(json!({"selector": null})), "only selected catalogs"),
        (
            catalog(json!({"upgradeConstraintPolicy": "SelfCertified"})),
            "only edges of the catalog",
        ),
        (safety, "only safe definitions"),
    ] {
        let is_refused = async || {
            let answer = write(&stage, &jane, &change).await?;
            // A policy is in force a moment after it was made.
            tokio::time::sleep(PAUSE).await;
            Ok(answer.is_some_and(|answer| answer.contains(message)))
        };
        until_true(&stage.cluster, &format!("refused: {message}"), is_refused).await?;
    }
    let mut extension = stage.extension("tenants");
    json_patch::merge(&mut extension, &labelled());
    objects::apply(&jane, &extension.to_string()).await?;
    stage.until_installed("1.0.0").await?;
    stage.delete(RULES).await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

fn labelled() -> Value {
    json!({"metadata": {"labels": {"tenant": "jane"}}})
}

/// Asks `client` to create the extension with a changed spec; the message of a refusal.
async fn write(stage: &Stage, client: &Client, change: &Value) -> anyhow::Result<Option<String>> {
    let mut extension = stage.extension("tenants");
    json_patch::merge(&mut extension, &labelled());
    json_patch::merge(&mut extension, &json!({ "spec": change }));
    let url = "/apis/olm.operatorframework.io/v1/clusterextensions?dryRun=All";
    let request = http::Request::post(url)
        .header("Content-Type", "application/json")
        .body(extension.to_string().into_bytes())?;
    match client.request::<Value>(request).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status.message)),
        Err(error) => bail!(error),
    }
}

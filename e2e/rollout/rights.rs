//! An upgrade whose operator may do more than before.

use std::sync::Arc;

use anyhow::ensure;
use oxolm::api::condition::ConditionType;
use oxolm::api::keys;
use serde_json::json;

use crate::harness::package::Bundle;
use crate::harness::stage::Stage;
use crate::harness::wait::{message, shape, until_true};
use crate::harness::{Cluster, Outcome};

const ROLE: &str = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: PACKAGE-more}\n\
    rules: [{apiGroups: [''], resources: [secrets], verbs: [get, list]}]\n";
const BINDING: &str = "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: PACKAGE-more}\n\
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: PACKAGE-more}\n\
    subjects: [{kind: ServiceAccount, name: PACKAGE-manager}]\n";

const GAINED: &str = "Version 1.1.0 gives the operator rights that version 1.0.0 does not give it: \
    Namespace:\"rights\" APIGroups:[] Resources:[secrets] Verbs:[get,list].";

/// Status and an Event name the rules that an upgrade gains, also while the account may not give them, and as long as
/// that revision is the newest one.
pub(crate) async fn rights_that_are_gained_are_told(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set_without_rights(cluster, "rights").await?;
    let more = Bundle {
        manifests: vec![
            ("role.yaml", ROLE.to_owned()),
            ("binding.yaml", BINDING.to_owned()),
        ],
        ..Bundle::new("1.1.0")
    };
    let bundles = [Bundle::new("1.0.0"), more, Bundle::new("1.2.0")];
    stage.grant_for(&bundles[..1]).await?;
    stage.offer(&bundles[..1]).await?;
    stage.add_extension(&json!({})).await?;
    let installed = stage.until_installed("1.0.0").await?;
    ensure!(shape(&installed, ConditionType::Warnings) == "absent");

    stage.offer(&bundles[..2]).await?;
    stage
        .until_condition(
            ConditionType::Progressing,
            "True/Retrying",
            "pre-authorization failed",
        )
        .await?;
    let told = stage
        .until_condition(ConditionType::Warnings, "True/PermissionsGained", GAINED)
        .await?;
    ensure!(message(&told, ConditionType::Warnings) == GAINED);
    ensure!(
        !stage
            .exists("/apis/olm.operatorframework.io/v1/clusterobjectsets/rights-2")
            .await?
    );
    let is_told = async || {
        let events = stage.get("/api/v1/namespaces/default/events").await?;
        let events = events["items"].as_array().cloned().unwrap_or_default();
        Ok(events.iter().any(|event| {
            event["involvedObject"]["name"] == "rights"
                && event["reason"] == "PermissionsGained"
                && event["message"] == GAINED
        }))
    };
    until_true(&stage.cluster, "an Event tells it", is_told).await?;

    stage.grant_everything().await?;
    stage.until_installed("1.1.0").await?;
    stage
        .until_condition(ConditionType::Warnings, "True/PermissionsGained", GAINED)
        .await?;
    let set = stage.sets().get("rights-2").await?;
    let annotations = set.metadata.annotations.unwrap_or_default();
    ensure!(annotations.contains_key(keys::PERMISSIONS_GAINED));

    stage.offer(&bundles).await?;
    let fewer = stage.until_installed("1.2.0").await?;
    ensure!(
        shape(&fewer, ConditionType::Warnings) == "absent",
        "{}",
        message(&fewer, ConditionType::Warnings)
    );
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// The roles of the new version alone are not enough: what it drops is deleted with the account's rights, too.
pub(crate) async fn rights_to_take_down_the_old_version_are_asked_for(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set_without_rights(cluster, "leaving").await?;
    let more = Bundle {
        manifests: vec![
            ("role.yaml", ROLE.to_owned()),
            ("binding.yaml", BINDING.to_owned()),
        ],
        ..Bundle::new("1.0.0")
    };
    let bundles = [more, Bundle::new("1.1.0")];
    stage.grant_for(&bundles[..1]).await?;
    stage.offer(&bundles[..1]).await?;
    stage.add_extension(&json!({})).await?;
    stage.until_installed("1.0.0").await?;

    stage.grant_for(&bundles[1..]).await?;
    stage.offer(&bundles).await?;
    let lacking = "Namespace:\"leaving\" APIGroups:[rbac.authorization.k8s.io] Resources:[roles] \
        ResourceNames:[leaving-more] Verbs:[delete,get]";
    stage
        .until_condition(ConditionType::Progressing, "True/Retrying", lacking)
        .await?;
    let role = "/apis/rbac.authorization.k8s.io/v1/namespaces/leaving/roles/leaving-more";
    ensure!(stage.exists(role).await?, "nothing was touched");

    // What the command finds installed counts as if it were named.
    let reference = stage.package.push_bundle(&bundles[1]).await?;
    let arguments = [reference.as_str(), "--extension", &stage.name];
    let arguments = arguments.map(str::to_owned).to_vec();
    let (_, roles) = stage.roles_for(arguments, None).await?;
    stage.apply(&roles).await?;
    stage.until_installed("1.1.0").await?;
    stage.until_exists(role, false).await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

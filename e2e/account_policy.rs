//! Story: who may name an account. One table says who may do what, with the exact answer.

mod attempts;
mod people;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use oxolm::api::policy::{Policy, Settings, policies};
use oxolm::api::{ClusterExtension, ClusterObjectSet};
use serde_json::{Value, json};

use self::attempts::{Attempt, Write, default_attempts, extension_attempts, revision_attempts};
use self::people::{EXTENSION, PEOPLE, REVISION};
use crate::harness::release::{RELEASE, SYSTEM_NAMESPACE};
use crate::harness::{Cluster, Outcome, objects};

/// How long the API server may take to notice a changed policy.
const POLICY_DEADLINE: Duration = Duration::from_secs(30);

/// Tells the whole story: the policies as shipped, the table, and the table with default accounts.
pub(crate) async fn who_may_name_an_account(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let client = &cluster.client;
    objects::apply(client, PEOPLE).await?;
    objects::apply(client, EXTENSION).await?;
    let extension = wire::<ClusterExtension>(client)
        .get("account-policy-others")
        .await?;
    let uid = extension.metadata.uid.unwrap_or_default();
    objects::apply(client, &REVISION.replace("UID", &uid)).await?;
    let told = tell(&cluster).await;
    let restored = put_in_force(client, &shipped()?).await;
    objects::delete(client, REVISION).await?;
    objects::delete(client, EXTENSION).await?;
    objects::delete(client, PEOPLE).await?;
    told?;
    restored?;
    Ok(Outcome::Passed)
}

async fn tell(cluster: &Cluster) -> anyhow::Result<()> {
    for policy in policies(&shipped()?) {
        ensure!(
            is_in_force(&cluster.client, &policy).await?,
            "{} in the cluster is not the shipped one",
            policy.name()
        );
    }
    let mut wrong = Vec::new();
    let attempts = extension_attempts().into_iter().chain(revision_attempts());
    for attempt in attempts {
        wrong.extend(judge(cluster, &attempt).await?);
    }
    for (default_account, attempts) in default_attempts() {
        let settings = Settings {
            default_account: default_account.to_owned(),
            ..shipped()?
        };
        put_in_force(&cluster.client, &settings).await?;
        settle(cluster, attempts.first().context("a table is empty")?).await?;
        for attempt in &attempts {
            wrong.extend(
                judge(cluster, attempt)
                    .await?
                    .map(|text| format!("default account {default_account}: {text}")),
            );
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        bail!("{}", wrong.join("\n"))
    }
}

/// What is wrong with the answer that `attempt` gets, if something is.
async fn judge(cluster: &Cluster, attempt: &Attempt) -> anyhow::Result<Option<String>> {
    let client = cluster.client_of(attempt.who).await?;
    let answer = match write(&client, &attempt.write).await {
        Ok(_) => None,
        Err(kube::Error::Api(status)) => Some(status.message),
        Err(error) => return Err(error).context(attempt.why),
    };
    let is_as_expected = match (&answer, &attempt.refused) {
        (None, None) => true,
        (Some(answer), Some(message)) => answer.ends_with(message.as_str()),
        _ => false,
    };
    Ok((!is_as_expected).then(|| {
        format!(
            "{} ({}):\n  expected {:?}\n  answered {answer:?}",
            attempt.why, attempt.who, attempt.refused
        )
    }))
}

/// Waits until `attempt`, which is refused only under the policies just put in force, gets its answer.
async fn settle(cluster: &Cluster, attempt: &Attempt) -> anyhow::Result<()> {
    let settled = async {
        while judge(cluster, attempt).await?.is_some() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    };
    tokio::time::timeout(POLICY_DEADLINE, settled)
        .await
        .with_context(|| format!("the API server still answers otherwise: {}", attempt.why))?
}

/// Asks without storing anything.
async fn write(client: &Client, write: &Write) -> kube::Result<DynamicObject> {
    match write {
        Write::NewExtension(namespace, account) => {
            let mut extension = json!({
                "apiVersion": "olm.operatorframework.io/v1",
                "kind": "ClusterExtension",
                "metadata": {"name": "account-policy-new"},
                "spec": {
                    "namespace": namespace,
                    "source": {"sourceType": "Catalog", "catalog": {"packageName": "package"}},
                },
            });
            if let Some(name) = account {
                json_patch::merge(
                    &mut extension,
                    &json!({"spec": {"serviceAccount": {"name": name}}}),
                );
            }
            create::<ClusterExtension>(client, extension).await
        }
        Write::NewRevision(metadata) => {
            let mut revision = json!({
                "apiVersion": "olm.operatorframework.io/v1",
                "kind": "ClusterObjectSet",
                "metadata": {"name": "account-policy-new"},
                "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent"},
            });
            json_patch::merge(&mut revision, &json!({"metadata": metadata}));
            create::<ClusterObjectSet>(client, revision).await
        }
        Write::Extension(patch) => {
            wire::<ClusterExtension>(client)
                .patch("account-policy-others", &dry_patch(), &Patch::Merge(patch))
                .await
        }
        Write::Unnamed(patch) => {
            wire::<ClusterExtension>(client)
                .patch("account-policy-unnamed", &dry_patch(), &Patch::Merge(patch))
                .await
        }
        Write::ExtensionStatus(patch) => {
            wire::<ClusterExtension>(client)
                .patch_status("account-policy-others", &dry_patch(), &Patch::Merge(patch))
                .await
        }
        Write::Revision(patch) => {
            wire::<ClusterObjectSet>(client)
                .patch(
                    "account-policy-others-1",
                    &dry_patch(),
                    &Patch::Merge(patch),
                )
                .await
        }
    }
}

async fn create<K: Resource<DynamicType = ()>>(
    client: &Client,
    value: Value,
) -> kube::Result<DynamicObject> {
    let object = serde_json::from_value(value).map_err(kube::Error::SerdeError)?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    wire::<K>(client).create(&dry_run, &object).await
}

fn dry_patch() -> PatchParams {
    PatchParams {
        dry_run: true,
        ..PatchParams::default()
    }
}

fn wire<K: Resource<DynamicType = ()>>(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &ApiResource::erase::<K>(&()))
}

/// The settings that the chart ships with.
fn shipped() -> anyhow::Result<Settings> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/oxolm/values.yaml");
    let values: Value = serde_saphyr::from_str(&std::fs::read_to_string(path)?)?;
    let excluded: Vec<&str> = values["impersonation"]["excludedNamespaces"]
        .as_array()
        .context("no excludedNamespaces in the chart's values")?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    Ok(Settings {
        controller: format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{RELEASE}"),
        default_account: String::new(),
        excluded_namespaces: excluded.join(","),
    })
}

async fn is_in_force(client: &Client, policy: &Policy) -> anyhow::Result<bool> {
    let found = Api::<ValidatingAdmissionPolicy>::all(client.clone())
        .get(policy.name())
        .await?;
    let binding = Api::<ValidatingAdmissionPolicyBinding>::all(client.clone())
        .get(policy.name())
        .await?;
    Ok(policy.is_in_force(&found, &binding))
}

/// Replaces the specs of the policies by those of `settings`.
async fn put_in_force(client: &Client, settings: &Settings) -> anyhow::Result<()> {
    let api: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    for policy in policies(settings) {
        let patch = json!({"spec": policy.policy.spec});
        api.patch(policy.name(), &PatchParams::default(), &Patch::Merge(patch))
            .await?;
    }
    Ok(())
}

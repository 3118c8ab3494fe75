//! What the real bundles are rendered to: the API server takes every object, from an account with just the generated
//! roles.
//!
//! The bundles come from the conformance folder (`OXOLM_CONFORMANCE`); without it the story is skipped. All writes are
//! dry runs. Kinds that the API server does not serve are listed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, stream};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use oxolm::api::object::{Gvk, ObjectKey};
use oxolm::apply::discovery::Discovery;
use oxolm::preflight::permissions::{built_in, needs};
use oxolm::render::Manifests;
use serde_json::Value;

use crate::harness::objects::{apply, delete};
use crate::harness::{Cluster, Outcome, real};

/// The namespaces that bundles are rendered for.
const NAMESPACE: &str = "rendered";
const WATCHED: &str = "rendered-watched";
/// How long the API server may take to learn of new roles.
const ROLES_DEADLINE: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(250);
const AT_ONCE: usize = 4;

/// Every rendered object is taken in a dry run.
pub(crate) async fn every_object_is_taken(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let Some(bundles) = real::bundles()? else {
        return Ok(Outcome::Skipped(real::MISSING));
    };
    let stage = format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAMESPACE}}}\n---\n\
         apiVersion: v1\nkind: Namespace\nmetadata: {{name: {WATCHED}}}\n---\n\
         apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: installer, namespace: {NAMESPACE}}}\n"
    );
    apply(&cluster.client, &stage).await?;
    let account = cluster
        .client_of(&format!("system:serviceaccount:{NAMESPACE}:installer"))
        .await?;
    let (mut refused, mut unserved, mut taken) = (Vec::new(), BTreeSet::new(), 0_usize);
    for ((package, version), files) in &bundles {
        let Some(real::Rendered { manifests, .. }) = real::rendered(files, NAMESPACE, WATCHED)
        else {
            continue;
        };
        let answers = try_bundle(&cluster.client, &account, &manifests, &mut unserved).await;
        for answer in answers.with_context(|| format!("{package} {version}"))? {
            match answer {
                Ok(()) => taken += 1,
                Err(error) => refused.push(format!("{package} {version}: {error}")),
            }
        }
    }
    delete(&cluster.client, &stage).await?;
    println!("{taken} objects were taken; kinds that are not served: {unserved:?}");
    ensure!(refused.is_empty(), "refused:\n{}", refused.join("\n"));
    ensure!(taken > 0, "nothing was rendered");
    Ok(Outcome::Passed)
}

/// Tries all objects of a bundle as an account that has just the roles for them.
async fn try_bundle(
    admin: &Client,
    account: &Client,
    manifests: &Manifests,
    unserved: &mut BTreeSet<String>,
) -> anyhow::Result<Vec<Result<(), String>>> {
    let mut all = manifests.objects.clone();
    all.extend(manifests.secrets.iter().cloned());
    let roles = needs(&all, &built_in)?
        .least()
        .manifests(NAMESPACE, "installer", "rendered");
    let roles: Vec<String> = roles.iter().map(ToString::to_string).collect();
    let roles = roles.join("\n---\n");
    apply(admin, &roles).await?;
    let discovery = Discovery::new(admin.clone());
    let mut tries = Vec::new();
    for object in all {
        let key = ObjectKey::of(&object)?;
        let Some(api) = api(&discovery, &key, is_binding(&key.gvk), admin, account).await? else {
            unserved.insert(key.gvk.to_string());
            continue;
        };
        tries.push((api, key, object));
    }
    let answers = stream::iter(tries)
        .map(|(api, key, object)| async move {
            take(&api, &key.name, &object)
                .await
                .map_err(|error| format!("{key}: {error}"))
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    delete(admin, &roles).await?;
    Ok(answers)
}

/// A dry run makes no roles, and a binding is only taken where its role is, or from somebody who may bind anything.
fn is_binding(gvk: &Gvk) -> bool {
    gvk.kind.ends_with("Binding") && gvk.group == "rbac.authorization.k8s.io"
}

/// Where an object lives; none when its kind is not served.
async fn api(
    discovery: &Discovery,
    key: &ObjectKey,
    as_admin: bool,
    admin: &Client,
    account: &Client,
) -> anyhow::Result<Option<Api<DynamicObject>>> {
    let Some(resource) = discovery.resource(&key.gvk).await? else {
        return Ok(None);
    };
    let gvk = GroupVersionKind::gvk(&key.gvk.group, &key.gvk.version, &key.gvk.kind);
    let kind = ApiResource::from_gvk_with_plural(&gvk, &resource.plural);
    let client = if as_admin { admin } else { account }.clone();
    Ok(Some(if resource.is_namespaced {
        Api::namespaced_with(client, &key.namespace, &kind)
    } else {
        Api::all_with(client, &kind)
    }))
}

/// Applies the object in a dry run; what is forbidden is tried again until the API server must know the roles.
async fn take(api: &Api<DynamicObject>, name: &str, object: &Value) -> Result<(), kube::Error> {
    let parameters = PatchParams::apply("oxolm").force().dry_run();
    let started = Instant::now();
    loop {
        match api.patch(name, &parameters, &Patch::Apply(object)).await {
            Err(kube::Error::Api(status))
                if status.code == 403 && started.elapsed() < ROLES_DEADLINE =>
            {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            answer => return answer.map(|_taken| ()),
        }
    }
}

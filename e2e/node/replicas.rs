//! Two replicas: one leads, both serve. What happens when the leader goes, or all of them are replaced.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::Api;
use kube::api::DeleteParams;
use oxolm::api::keys;
use serde_json::json;

use super::reader::Reader;
use super::{READY, greeter, pods};
use crate::harness::cluster::helm;
use crate::harness::controller::entrance;
use crate::harness::release::{RELEASE, SYSTEM_NAMESPACE};
use crate::harness::stage::Stage;
use crate::harness::wait::until_true;
use crate::harness::{Cluster, Outcome};

/// How long it is read before and after something happens.
const READING: Duration = Duration::from_secs(2);

/// Somebody else goes on at once, and no read fails.
pub(super) async fn a_leader_that_is_told_to_stop_hands_over(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let scene = Scene::begin(cluster, "handover").await?;
    let leader = scene.leader().await?;
    let pods: Api<Pod> = Api::namespaced(scene.stage.cluster.client.clone(), SYSTEM_NAMESPACE);
    let since = Instant::now();
    pods.delete(&leader, &DeleteParams::default()).await?;
    scene.is_reconciled(&leader, since, "told to stop").await?;
    scene.end(true).await
}

/// Somebody else goes on when the lease has expired; catalogs are served as soon as the node's proxy knows.
pub(super) async fn a_killed_leader_is_replaced(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let scene = Scene::begin(cluster, "killed").await?;
    let leader = scene.leader().await?;
    let since = Instant::now();
    kill(&leader)?;
    scene.is_reconciled(&leader, since, "killed").await?;
    scene.end(false).await
}

/// The Pods are replaced one by one, and no read fails.
pub(super) async fn a_rolling_update_fails_no_read(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let scene = Scene::begin(cluster, "rolling").await?;
    let before = scene.pod_names().await?;
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/oxolm");
    let annotation = "podAnnotations.story=rolling";
    helm(&[
        "upgrade",
        RELEASE,
        chart,
        "--reuse-values",
        "--set",
        annotation,
        "--wait",
        "--timeout",
        READY,
    ])
    .await?;
    let after = scene.pod_names().await?;
    ensure!(
        before.iter().all(|name| !after.contains(name)) || after.len() > 2,
        "{before:?} and {after:?}"
    );
    scene.end(true).await
}

/// An installed operator, and a client that reads its catalog.
struct Scene {
    stage: Stage,
    reader: Reader,
}

impl Scene {
    async fn begin(cluster: Arc<Cluster>, name: &str) -> anyhow::Result<Self> {
        let stage = Stage::set(cluster, name).await?;
        greeter::install(&stage).await?;
        let services: Api<Service> =
            Api::namespaced(stage.cluster.client.clone(), SYSTEM_NAMESPACE);
        let service = services.get("catalogd-service").await?;
        let address = service
            .spec
            .and_then(|spec| spec.cluster_ip)
            .context("the service has an address")?;
        let reader =
            Reader::begin(&format!("https://{address}/catalogs/{name}/api/v1/all")).await?;
        tokio::time::sleep(READING).await;
        Ok(Self { stage, reader })
    }

    /// The name of the Pod that leads.
    async fn leader(&self) -> anyhow::Result<String> {
        let leases: Api<Lease> =
            Api::namespaced(self.stage.cluster.client.clone(), SYSTEM_NAMESPACE);
        let lease = leases.get(keys::LEASE_NAME).await?;
        let holder = lease
            .spec
            .and_then(|spec| spec.holder_identity)
            .unwrap_or_default();
        let names = self.pod_names().await?;
        let leader = names
            .into_iter()
            .find(|name| holder.contains(name.as_str()));
        leader.with_context(|| format!("{holder} is no Pod"))
    }

    async fn pod_names(&self) -> anyhow::Result<Vec<String>> {
        let pods = pods(&self.stage.cluster.client).await?;
        Ok(pods.iter().map(kube::ResourceExt::name_any).collect())
    }

    /// Something that only a leader does: an object that is deleted comes back; says how long after `since`.
    async fn is_reconciled(&self, leader: &str, since: Instant, what: &str) -> anyhow::Result<()> {
        let path = format!(
            "/api/v1/namespaces/{0}/serviceaccounts/greeter",
            self.stage.name
        );
        let before = self.stage.get(&path).await?["metadata"]["uid"].clone();
        self.stage.remove(&path, &json!({})).await?;
        let is_back = async || {
            let now = self.stage.get(&path).await;
            Ok(now.is_ok_and(|object| object["metadata"]["uid"] != before))
        };
        until_true(&self.stage.cluster, "what was deleted is back", is_back).await?;
        println!(
            "leader {what}: another reconciles after {} ms",
            since.elapsed().as_millis()
        );
        let now = self.leader().await?;
        ensure!(now != leader, "{leader} leads again");
        Ok(())
    }

    async fn end(self, unbroken: bool) -> anyhow::Result<Outcome> {
        tokio::time::sleep(READING).await;
        let report = self.reader.finish().await?;
        println!("{} reads, {} failed", report.reads, report.failures.len());
        ensure!(report.ends_well, "{report:?}");
        ensure!(!unbroken || report.failures.is_empty(), "{report:?}");
        let annotation = json!({"metadata": {"annotations": {"oxolm.dev/crd-deletion": "delete"}}});
        self.stage.patch_extension(&annotation).await?;
        self.stage.clear().await?;
        let is_whole = async || {
            let pods = pods(&self.stage.cluster.client).await?;
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            Ok(pods.len() == 2 && ready == 2)
        };
        until_true(&self.stage.cluster, "two replicas are ready", is_whole).await?;
        Ok(Outcome::Passed)
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|conditions| {
        conditions
            .iter()
            .any(|one| one.type_ == "Ready" && one.status == "True")
    }) && pod.metadata.deletion_timestamp.is_none()
}

/// `kill -9` of the process in a Pod, from its node.
fn kill(pod: &str) -> anyhow::Result<()> {
    let enter = entrance()?.context("the cluster has processes of its own")?;
    // A process whose file cannot be told has ended.
    let script = "for folder in /proc/[0-9]*; do
        [ \"$(readlink $folder/exe)\" = /oxolm ] && grep -qz \"^HOSTNAME=$1$\" $folder/environ && kill -9 ${folder#/proc/} && exit 0
    done 2>/dev/null
    exit 1";
    let status = Command::new(enter)
        .args(["sh", "-c", script, "kill", pod])
        .status()?;
    ensure!(status.success(), "no process of {pod} was found");
    Ok(())
}

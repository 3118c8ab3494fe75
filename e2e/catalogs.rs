//! A catalog by tag: polled, served over TLS, and asked with `oxolm resolve --cluster`.

mod companion;
mod credentials;
mod disk;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use oxolm::api::ClusterCatalog;
use oxolm::api::condition::{self, ConditionType};
use serde_json::{Value, json};

use crate::harness::controller::entrance;
use crate::harness::package::{Bundle, entry};
use crate::harness::release::{RELEASE, SYSTEM_NAMESPACE};
use crate::harness::stage::Stage;
use crate::harness::{Cluster, Outcome};

pub(crate) use self::companion::one_catalog_by_every_way;
pub(crate) use self::credentials::pull_secrets_are_used_as_they_change;
pub(crate) use self::disk::a_full_disk_is_survived;

/// A tag is looked at once a minute at most; jitter and a busy machine come on top.
const POLL_DEADLINE: Duration = Duration::from_mins(2);

/// A tag that moves is seen, its new content is served to whoever may use the proxy, and the answer to
/// `oxolm resolve` changes with it.
pub(crate) async fn a_moved_tag_is_served_and_asked(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    if entrance()?.is_none() {
        return Ok(Outcome::Skipped(
            "the cluster has no network namespace of its own",
        ));
    }
    let stage = Stage::set(cluster, "polled").await?;
    for version in ["1.0.0", "1.1.0"] {
        stage.package.push_bundle(&Bundle::new(version)).await?;
    }
    let old = [entry("1.0.0", "")];
    stage.package.push_catalog("latest", &old).await?;
    stage.add_catalog(&stage.package.catalog("latest")).await?;
    let patch = json!({"spec": {"source": {"image": {"pollIntervalMinutes": 1}}}});
    stage
        .catalogs()
        .patch("polled", &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    let first = stage.until_catalog("it is served", is_serving).await?;
    let pod = Door::open(&stage.cluster, &stage.name).await?;

    let all = "/catalogs/polled/api/v1/all";
    let (status, tag, body) = get(&stage.cluster, all, "").await?;
    ensure!(status == StatusCode::OK, "/all answers {status}");
    ensure!(
        blobs(&body)? == ["olm.package", "olm.channel", "olm.bundle"],
        "/all has every blob: {body}"
    );
    let (status, _, body) = get(&stage.cluster, all, &tag).await?;
    ensure!(
        status == StatusCode::NOT_MODIFIED && body.is_empty(),
        "{tag} is current: {status}"
    );
    let answer = ask(&["polled", "--cluster", "--selector", "story=polled"]).await?;
    ensure!(answer["bundle"] == "polled.v1.0.0", "{answer}");

    stage.install_newest("1.0.0").await?;
    let new = [entry("1.0.0", ""), entry("1.1.0", "")];
    stage.package.push_catalog("latest", &new).await?;
    let moved = until_moved(&stage, &first).await?;
    ensure!(
        resolved(&moved).contains("/polled/catalog@sha256:"),
        "the status names the digest: {}",
        resolved(&moved)
    );
    let (status, new_tag, _) = get(&stage.cluster, all, &tag).await?;
    ensure!(
        status == StatusCode::OK && new_tag != tag,
        "the new content has another ETag: {new_tag}"
    );

    // No edge leads from the installed 1.0.0: the question of the extension says so, and what if it were forced.
    let answer = ask(&["--extension", "polled"]).await?;
    ensure!(answer["bundle"] == "polled.v1.0.0", "{answer}");
    let answer = ask(&["--extension", "polled", "--version", "1.1.0"]).await?;
    ensure!(answer["reason"] == "NoUpgradePath", "{answer}");
    let forced = ask(&["--extension", "polled", "--policy", "SelfCertified"]).await?;
    ensure!(forced["bundle"] == "polled.v1.1.0", "{forced}");

    pod.close().await?;
    stage.clear().await?;
    Ok(Outcome::Passed)
}

pub(crate) fn is_serving(catalog: &ClusterCatalog) -> bool {
    catalog
        .status
        .as_ref()
        .is_some_and(|status| condition::is_true(&status.conditions, ConditionType::Serving))
}

fn resolved(catalog: &ClusterCatalog) -> String {
    let status = catalog.status.as_ref();
    let source = status.and_then(|status| status.resolved_source.as_ref());
    let image = source.and_then(|source| source.image.as_ref());
    image.map_or_else(String::new, |image| image.reference.clone())
}

async fn until_moved(stage: &Stage, first: &ClusterCatalog) -> anyhow::Result<ClusterCatalog> {
    let looked = async {
        loop {
            let catalog = stage.catalogs().get("polled").await?;
            if resolved(&catalog) != resolved(first) {
                return anyhow::Ok(catalog);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(POLL_DEADLINE, looked)
        .await
        .context("the moved tag is not seen")?
}

/// A Pod like those of the chart, whose address leads to the oxolm under test: the way in for the Service.
pub(crate) struct Door {
    pods: Api<Pod>,
    name: String,
}

impl Door {
    /// `story` tells it from the doors of stories that run at the same time.
    pub(crate) async fn open(cluster: &Cluster, story: &str) -> anyhow::Result<Self> {
        let name = format!("oxolm-door-{story}");
        let deployments: Api<Deployment> =
            Api::namespaced(cluster.client.clone(), SYSTEM_NAMESPACE);
        let template = deployments
            .get(RELEASE)
            .await?
            .spec
            .context("it has a spec")?
            .template;
        let mut pod = Pod {
            metadata: template.metadata.unwrap_or_default(),
            spec: template.spec,
            ..Pod::default()
        };
        pod.metadata.name = Some(name.clone());
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), SYSTEM_NAMESPACE);
        pods.create(&PostParams::default(), &pod).await?;
        let door = Self { pods, name };
        let reached = async {
            // The Service has an endpoint a moment after the Pod is ready.
            while get(cluster, "/catalogs/none/api/v1/all", "").await?.0 != StatusCode::NOT_FOUND {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(Duration::from_mins(1), reached)
            .await
            .context("the Service leads nowhere")??;
        Ok(door)
    }

    pub(crate) async fn close(self) -> anyhow::Result<()> {
        self.pods
            .delete(&self.name, &DeleteParams::default().grace_period(0))
            .await?;
        Ok(())
    }
}

/// Status, `ETag` and body of a path of the content server, through the API server's proxy.
pub(crate) async fn get(
    cluster: &Cluster,
    path: &str,
    known_tag: &str,
) -> anyhow::Result<(StatusCode, String, String)> {
    let mut request = Request::get(format!(
        "/api/v1/namespaces/{SYSTEM_NAMESPACE}/services/https:catalogd-service:443/proxy{path}"
    ));
    if !known_tag.is_empty() {
        request = request.header("If-None-Match", known_tag);
    }
    let answer = cluster.client.send(request.body(Body::empty())?).await?;
    let status = answer.status();
    let tag = answer
        .headers()
        .get("ETag")
        .and_then(|tag| tag.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let body = answer.into_body().collect().await?.to_bytes();
    Ok((status, tag, String::from_utf8(body.to_vec())?))
}

/// The schemas of JSON lines.
fn blobs(lines: &str) -> anyhow::Result<Vec<String>> {
    lines
        .lines()
        .map(|line| {
            let blob: Value = serde_json::from_str(line)?;
            Ok(blob["schema"].as_str().unwrap_or_default().to_owned())
        })
        .collect()
}

/// What `oxolm resolve` answers.
async fn ask(arguments: &[&str]) -> anyhow::Result<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxolm"));
    command
        .arg("resolve")
        .args(arguments)
        .args(["-o", "json"])
        .stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("oxolm resolve: {}", String::from_utf8_lossy(&output.stderr)))
}

//! Stories on a real node, for `hack/test node`: oxolm's own image in its chart's Pods, and an operator that really runs.

mod chart;
mod greeter;
mod operator;
mod reader;
mod replicas;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::config::Kubeconfig;
use kube::{Api, Client};

use crate::harness::cluster::administrator;
use crate::harness::package::{is_node_real, push};
use crate::harness::release::{RELEASE, SYSTEM_NAMESPACE};
use crate::harness::{self, Cluster, Story, objects, one_by_one, story};

pub(crate) use self::reader::run as run_reader;

/// How long helm waits for the Pods: the image is pulled, and two replicas become ready.
const READY: &str = "2m";

/// One after the other: some of them take oxolm away.
const STORIES: &[Story] = &[
    story!(
        "node::an_operator_lives_and_goes",
        operator::an_operator_lives_and_goes
    ),
    story!(
        "node::a_leader_that_is_told_to_stop_hands_over",
        replicas::a_leader_that_is_told_to_stop_hands_over
    ),
    story!(
        "node::a_killed_leader_is_replaced",
        replicas::a_killed_leader_is_replaced
    ),
    story!(
        "node::a_rolling_update_fails_no_read",
        replicas::a_rolling_update_fails_no_read
    ),
    // The last one: oxolm is gone afterwards.
    story!(
        "node::its_hooks_test_it_and_refuse_its_end",
        chart::its_hooks_test_it_and_refuse_its_end
    ),
];

/// Runs the stories that `arguments` choose.
pub(crate) async fn run(arguments: Vec<String>) -> ExitCode {
    harness::run(&[one_by_one(STORIES)], arguments, prepare).await
}

/// The chart, installed with helm, with two replicas under restricted pod security, which trust the registry's CA.
async fn prepare() -> anyhow::Result<Cluster> {
    ensure!(
        is_node_real(),
        "these stories need a real node: hack/test node, or hack/cluster up --node real"
    );
    let client = administrator().await?;
    let registry = std::env::var("OXOLM_REGISTRY")?;
    let tag = push_images(&registry).await?;
    objects::apply(&client, &system_namespace()?).await?;
    let repository = format!("image.repository={registry}/oxolm");
    let tag = format!("image.tag={tag}");
    let options = [
        "replicas=2",
        "registries.authorities=registry-ca",
        &repository,
        &tag,
    ];
    let mut arguments = vec!["--wait", "--timeout", READY];
    for option in options {
        arguments.extend(["--set", option]);
    }
    let prepared = Cluster::prepare_in_pods(client.clone(), &arguments).await;
    let cluster = prepared.with_context(|| "the chart's Pods do not become ready")?;
    check_pods(&client).await?;
    Ok(cluster)
}

/// Pushes oxolm and the operator; the tag of oxolm.
async fn push_images(registry: &str) -> anyhow::Result<&'static str> {
    let path = |name: &str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.with_context(|| format!("{name} is not set: hack/test node sets it"))
    };
    let tag = env!("CARGO_PKG_VERSION");
    push(
        &path("OXOLM_IMAGE")?,
        &format!("{registry}/oxolm:{tag}"),
        &[],
    )
    .await?;
    push(&path("OXOLM_GREETER")?, &greeter::image(registry), &[]).await?;
    Ok(tag)
}

/// The namespace of the chart, restricted, and in it the CA that signed the registry's certificate: the cluster's own.
fn system_namespace() -> anyhow::Result<String> {
    let config = Kubeconfig::read()?;
    let cluster = config
        .clusters
        .first()
        .and_then(|named| named.cluster.clone());
    let encoded = cluster
        .and_then(|cluster| cluster.certificate_authority_data)
        .context("the kubeconfig holds the cluster's CA")?;
    let decoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded)?;
    let authority = serde_json::to_string(&String::from_utf8(decoded)?)?;
    Ok(format!(
        "apiVersion: v1\nkind: Namespace\n\
         metadata: {{name: {SYSTEM_NAMESPACE}, labels: {{pod-security.kubernetes.io/enforce: restricted}}}}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: registry-ca, namespace: {SYSTEM_NAMESPACE}}}\n\
         data: {{registry.crt: {authority}}}\n"
    ))
}

/// Two replicas that are ready, and did not need a second attempt.
async fn check_pods(client: &Client) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let status = deployments.get(RELEASE).await?.status.unwrap_or_default();
    ensure!(status.ready_replicas == Some(2), "{status:?}");
    for pod in pods(client).await? {
        let containers = pod
            .status
            .unwrap_or_default()
            .container_statuses
            .unwrap_or_default();
        for container in containers {
            ensure!(container.restart_count == 0, "{container:?}");
        }
    }
    Ok(())
}

/// The Pods of oxolm.
async fn pods(client: &Client) -> anyhow::Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let selector = ListParams::default().labels("app.kubernetes.io/name=oxolm");
    Ok(pods.list(&selector).await?.items)
}

//! Pull secrets of oxolm's own account: a catalog behind a login is pulled as soon as its Secret says how.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use axum::Router;
use axum::extract::State;
use axum::http::{Method, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::{Patch, PatchParams};
use oxolm::api::ClusterCatalog;
use oxolm::api::condition::ConditionType;
use serde_json::json;
use tokio::net::TcpListener;

use super::{is_serving, resolved};
use crate::harness::beside::Beside;
use crate::harness::package::{Bundle, entry};
use crate::harness::release::{RELEASE, SYSTEM_NAMESPACE};
use crate::harness::stage::Stage;
use crate::harness::wait::message;
use crate::harness::{Cluster, Outcome};

const USER: &str = "puller";
const RIGHT: &str = "hush-hush";
const WRONG: &str = "hush-not";

/// Without a pull secret status says that there is none; with it, the catalog is served; a password that is changed is used
/// for the next pull, and where it comes from is told, never what it is.
pub(crate) async fn pull_secrets_are_used_as_they_change(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let (controller, client) = (&cluster.controller, &cluster.client);
    controller.kill()?;
    controller.free_lease(client).await?;
    let told = tell(&cluster).await;
    controller.restart(client).await?;
    told.map(|()| Outcome::Passed)
}

async fn tell(cluster: &Arc<Cluster>) -> anyhow::Result<()> {
    let stage = Stage::set(cluster.clone(), "guarded").await?;
    let door = Guard::stand().await?;
    // In the network of this process, where the door is.
    let arguments = [
        ["--health-probe-bind-address", "127.0.0.1:0"],
        ["--catalogs-server-addr", "127.0.0.1:0"],
        ["--metrics-bind-address", "0"],
    ];
    let oxolm = Beside::start(&stage, arguments.as_flattened())?;
    stage.package.push_bundle(&Bundle::new("1.0.0")).await?;
    let first = [entry("1.0.0", "")];
    let first = stage.package.push_catalog("first", &first).await?;
    stage.add_catalog(&door.reference(&first)?).await?;
    until_said(&stage, "no credentials").await?;

    keep(&stage, &door.authority, RIGHT).await?;
    name_pull_secret(&stage, &json!([{"name": "guarded"}])).await?;
    let served = stage.until_catalog("it is served", is_serving).await?;

    keep(&stage, &door.authority, WRONG).await?;
    let second = [entry("1.0.0", ""), entry("1.1.0", "1.0.0")];
    let second = stage.package.push_catalog("second", &second).await?;
    stage.change_catalog(&door.reference(&second)?).await?;
    let refused = until_said(&stage, "credentials from Secret olmv1-system/guarded").await?;
    ensure!(is_serving(&refused), "the old content stays served");
    ensure!(resolved(&refused) == resolved(&served), "and is told");
    keep(&stage, &door.authority, RIGHT).await?;
    let is_new = |catalog: &ClusterCatalog| resolved(catalog) != resolved(&served);
    stage
        .until_catalog("the new content is taken", is_new)
        .await?;

    let log = oxolm.log()?;
    for word in [RIGHT, WRONG, &encoded(RIGHT), &encoded(WRONG)] {
        ensure!(!log.contains(word), "{word} in the log:\n{log}");
    }
    name_pull_secret(&stage, &json!(null)).await?;
    stage.delete(&secret("")).await?;
    stage.clear().await?;
    oxolm.stop()
}

/// Waits until status tells why the catalog cannot be pulled, in these words.
async fn until_said(stage: &Stage, words: &str) -> anyhow::Result<ClusterCatalog> {
    let is_said =
        |catalog: &ClusterCatalog| message(catalog, ConditionType::Progressing).contains(words);
    stage.until_catalog(words, is_said).await
}

/// Makes the pull secret, or changes its password.
async fn keep(stage: &Stage, authority: &str, password: &str) -> anyhow::Result<()> {
    let login = json!({"auths": {authority: {"auth": encoded(password)}}});
    stage.apply(&secret(&login.to_string())).await
}

fn secret(login: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: guarded, namespace: {SYSTEM_NAMESPACE}}}\n\
         type: kubernetes.io/dockerconfigjson\nstringData: {{.dockerconfigjson: '{login}'}}\n"
    )
}

/// Has oxolm's own account name these pull secrets.
async fn name_pull_secret(stage: &Stage, names: &serde_json::Value) -> anyhow::Result<()> {
    let accounts: Api<ServiceAccount> =
        Api::namespaced(stage.cluster.client.clone(), SYSTEM_NAMESPACE);
    let patch = Patch::Merge(json!({"imagePullSecrets": names}));
    accounts
        .patch(RELEASE, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

fn encoded(password: &str) -> String {
    BASE64_STANDARD.encode(format!("{USER}:{password}"))
}

/// Lets only those who log in through to the cluster's registry.
struct Guard {
    registry: String,
    authority: String,
}

impl Guard {
    async fn stand() -> anyhow::Result<Self> {
        let registry = std::env::var("OXOLM_REGISTRY").context("hack/cluster env prints it")?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let authority = listener.local_addr()?.to_string();
        let client = reqwest::Client::builder().no_proxy().build()?;
        let router = Router::new()
            .fallback(let_through)
            .with_state((client, registry.clone()));
        tokio::spawn(async { axum::serve(listener, router).await });
        Ok(Self {
            registry,
            authority,
        })
    }

    /// The reference by way of this door.
    fn reference(&self, direct: &str) -> anyhow::Result<String> {
        let rest = direct.strip_prefix(&self.registry);
        let rest = rest.context("it is in the registry of the cluster")?;
        Ok(format!("{}{rest}", self.authority))
    }
}

async fn let_through(
    State((client, registry)): State<(reqwest::Client, String)>,
    request: Request<axum::body::Body>,
) -> Response {
    let shown = request.headers().get(header::AUTHORIZATION);
    let wanted = format!("Basic {}", encoded(RIGHT));
    if shown.is_none_or(|shown| shown.as_bytes() != wanted.as_bytes()) {
        let challenge = [(header::WWW_AUTHENTICATE, "Basic realm=\"guard\"")];
        return (StatusCode::UNAUTHORIZED, challenge).into_response();
    }
    let url = format!("http://{registry}{}", request.uri());
    let accepted = request.headers().get(header::ACCEPT).cloned();
    let mut onward = client.request(request.method().clone(), url);
    if let Some(accepted) = accepted {
        onward = onward.header(header::ACCEPT, accepted);
    }
    let answer = match onward.send().await {
        Ok(answer) => answer,
        Err(error) => return (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    };
    let (status, mut headers) = (answer.status(), answer.headers().clone());
    headers.remove(header::TRANSFER_ENCODING);
    if request.method() == Method::HEAD {
        return (status, headers).into_response();
    }
    match answer.bytes().await {
        Ok(bytes) => (status, headers, bytes).into_response(),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

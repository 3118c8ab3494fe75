//! Metrics of a replica that does not lead: for whoever may get them, and true.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use http::StatusCode;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use reqwest::Method;
use serde_json::json;

use crate::harness::beside::Beside;
use crate::harness::package::Bundle;
use crate::harness::release::RELEASE;
use crate::harness::stage::Stage;
use crate::harness::wait::until_true;
use crate::harness::{Cluster, Outcome};

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A permitted account reads what every replica tells, another one gets 403, and who shows no token 401; so it is with the
/// level of the logs. What is told follows the extension, and ends with it.
pub(crate) async fn for_whoever_may_get_them(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::offering(cluster, "measured", &[Bundle::new("1.0.0")]).await?;
    let replica = Replica::start(&stage)?;
    let reader = account(&stage, "reader", Some("metrics-reader")).await?;
    let stranger = account(&stage, "stranger", None).await?;
    let keeper = account(&stage, "keeper", Some("log-level")).await?;
    stage.install_newest("1.0.0").await?;

    let is_told = |line: &'static str| {
        let (replica, reader) = (&replica, &reader);
        async move || {
            let told = replica.ask(Method::GET, "/metrics", reader, "").await;
            Ok(told.is_ok_and(|(status, text)| {
                status == StatusCode::OK && text.lines().any(|found| found == line)
            }))
        }
    };
    let installed = "olm_clusterextension_condition{name=\"measured\",reason=\"Succeeded\",type=\"Installed\"} 1";
    until_true(
        &stage.cluster,
        "it is told as installed",
        is_told(installed),
    )
    .await?;
    let (_, text) = replica.ask(Method::GET, "/metrics", &reader, "").await?;
    for line in [
        "olm_clusterextension_info{bundle=\"measured.v1.0.0\",catalog=\"measured\",install_namespace=\"measured\",name=\"measured\",package=\"measured\",version=\"1.0.0\"} 1",
        "leader_election_master_status{name=\"9c4404e7.operatorframework.io\"} 0",
        "# TYPE rest_client_requests_total counter",
    ] {
        ensure!(text.lines().any(|told| told == line), "{line} in {text}");
    }
    for (token, expected, says) in [
        (
            &stranger,
            StatusCode::FORBIDDEN,
            "user \"system:serviceaccount:measured:stranger\" may not get /metrics",
        ),
        (&keeper, StatusCode::FORBIDDEN, "may not get /metrics"),
        (&String::new(), StatusCode::UNAUTHORIZED, "send the token"),
        (
            &"wrong".to_owned(),
            StatusCode::UNAUTHORIZED,
            "does not accept the token",
        ),
    ] {
        let (status, text) = replica.ask(Method::GET, "/metrics", token, "").await?;
        ensure!(status == expected && text.contains(says), "{status} {text}");
    }

    let level = async |token, level: &'static str| {
        replica.ask(Method::PUT, "/log-level", token, level).await
    };
    let (status, text) = level(&reader, "debug").await?;
    ensure!(status == StatusCode::FORBIDDEN, "{status} {text}");
    let (status, text) = level(&keeper, "info,oxolm=debug").await?;
    ensure!(
        status == StatusCode::OK && text == "info,oxolm=debug\n",
        "{status} {text}"
    );
    ensure!(
        replica.process.log()?.contains("changed the log level"),
        "the log tells"
    );

    stage.uninstall().await?;
    let is_over = async || {
        let (status, text) = replica.ask(Method::GET, "/metrics", &reader, "").await?;
        let mut extensions = text
            .lines()
            .filter(|line| line.starts_with("olm_clusterextension_"));
        Ok(status == StatusCode::OK && !extensions.any(|line| line.contains("\"measured\"")))
    };
    until_true(&stage.cluster, "nothing is told of what is gone", is_over).await?;
    let bindings: Api<ClusterRoleBinding> = Api::all(stage.cluster.client.clone());
    for name in ["measured-reader", "measured-keeper"] {
        bindings.delete(name, &DeleteParams::default()).await?;
    }
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// An account of the story's namespace, bound to a cluster role of the chart if one is named; a token of it.
async fn account(stage: &Stage, name: &str, role: Option<&str>) -> anyhow::Result<String> {
    let client = &stage.cluster.client;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &stage.name);
    let account = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    accounts.create(&PostParams::default(), &account).await?;
    if let Some(role) = role {
        let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
        let binding = serde_json::from_value(json!({
            "metadata": {"name": format!("{}-{name}", stage.name)},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": format!("{RELEASE}-{role}")},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": stage.name}],
        }))?;
        bindings.create(&PostParams::default(), &binding).await?;
    }
    let request = TokenRequest::default();
    let answer = accounts
        .create_token_request(name, &PostParams::default(), &request)
        .await?;
    let status = answer.status.context("the API server gives a token")?;
    Ok(status.token)
}

/// An oxolm beside the one that leads, and who asks it.
struct Replica {
    process: Beside,
    client: reqwest::Client,
}

impl Replica {
    fn start(stage: &Stage) -> anyhow::Result<Self> {
        let any_port = "127.0.0.1:0";
        let arguments = [
            ["--health-probe-bind-address", any_port],
            ["--catalogs-server-addr", any_port],
            ["--metrics-bind-address", any_port],
        ];
        Ok(Self {
            process: Beside::start(stage, arguments.as_flattened())?,
            client: reqwest::Client::builder()
                .no_proxy()
                .timeout(PATIENCE)
                // Whom to trust is another story's question.
                .tls_danger_accept_invalid_certs(true)
                .build()?,
        })
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: &'static str,
    ) -> anyhow::Result<(StatusCode, String)> {
        let url = format!("https://{}{path}", self.process.address("serving metrics")?);
        let mut request = self.client.request(method, url).body(body);
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await?;
        Ok((answer.status(), answer.text().await?))
    }
}

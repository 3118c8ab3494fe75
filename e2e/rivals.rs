//! Two controllers of one API group never both act, and replicas of oxolm do not stand in each other's way.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use oxolm::api::keys;
use serde_json::json;

use crate::harness::beside::Beside;
use crate::harness::release::SYSTEM_NAMESPACE;
use crate::harness::stage::Stage;
use crate::harness::wait::until_true;
use crate::harness::{Cluster, Outcome};

/// Who holds the reference's leases in these stories.
const SOMEBODY_ELSE: &str = "operator-controller-7d9f_0c1e";

/// How long nothing must happen.
const QUIET: Duration = Duration::from_secs(8);

/// While somebody else renews a lease of the reference, nothing is written, and the replica is not ready and says whose
/// lease it is. Once it is gone, oxolm leads.
pub(crate) async fn somebody_elses_lease_holds_oxolm_back(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::bare(cluster, "rival")?;
    stage.cluster.controller.kill()?;
    let leases = leases(&stage);
    for name in [keys::LEASE_NAME, keys::CATALOGD_LEASE_NAME] {
        remove(&leases, keys::LEASE_NAME).await?;
        take(&leases, name).await?;
        stage.add_catalog("localhost:1/nothing:v1").await?;
        let replica = Replica::start(&stage)?;
        let expected = format!(
            "writing nothing: another controller of this API, {SOMEBODY_ELSE}, holds lease {SYSTEM_NAMESPACE}/{name}; stop it \
             first"
        );
        replica.until(&stage, 503, &expected).await?;
        tokio::time::sleep(QUIET).await;
        replica.until(&stage, 503, &expected).await?;
        let catalog = stage.catalogs().get(&stage.name).await?;
        ensure!(catalog.status.is_none(), "{catalog:?}");
        ensure!(catalog.metadata.finalizers.is_none(), "{catalog:?}");
        ensure!(holder(&leases, name).await? == SOMEBODY_ELSE);

        remove(&leases, name).await?;
        replica.until(&stage, 200, "").await?;
        let leads = async || {
            Ok(holder(&leases, keys::LEASE_NAME)
                .await?
                .starts_with("oxolm_"))
        };
        until_true(&stage.cluster, "oxolm leads", leads).await?;
        let written = async || Ok(stage.catalogs().get(&stage.name).await?.status.is_some());
        until_true(&stage.cluster, "it writes", written).await?;
        stage.remove_catalog().await?;
        drop(replica);
    }
    begin_again(&stage, &leases).await
}

/// Two replicas are ready side by side, and a client that trusts the release's CA alone may ask either; in a rolling update the one that stays is ready throughout, and leads soon.
pub(crate) async fn replicas_stay_ready(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::bare(cluster, "replicas")?;
    stage.cluster.controller.kill()?;
    let leases = leases(&stage);
    remove(&leases, keys::LEASE_NAME).await?;
    let first = Replica::start(&stage)?;
    first.until(&stage, 200, "").await?;
    let leads = async || {
        Ok(holder(&leases, keys::LEASE_NAME)
            .await?
            .starts_with("oxolm_"))
    };
    until_true(&stage.cluster, "the first leads", leads).await?;
    let leader = holder(&leases, keys::LEASE_NAME).await?;
    let second = Replica::start(&stage)?;
    second.until(&stage, 200, "").await?;
    stay_ready(&[&first, &second]).await?;
    let pinned = authority(&stage).await?;
    first.answers_who_trusts(&pinned).await?;
    second.answers_who_trusts(&pinned).await?;
    ensure!(holder(&leases, keys::LEASE_NAME).await? == leader);

    // One after the other is replaced.
    let third = Replica::start(&stage)?;
    third.until(&stage, 200, "").await?;
    first.process.stop()?;
    stay_ready(&[&second, &third]).await?;
    let next = holder(&leases, keys::LEASE_NAME).await?;
    ensure!(
        next.starts_with("oxolm_") && next != leader,
        "another leads: {next:?}"
    );
    let fourth = Replica::start(&stage)?;
    fourth.until(&stage, 200, "").await?;
    second.process.stop()?;
    stay_ready(&[&third, &fourth]).await?;
    fourth.answers_who_trusts(&pinned).await?;
    ensure!(
        holder(&leases, keys::LEASE_NAME)
            .await?
            .starts_with("oxolm_")
    );
    third.process.stop()?;
    fourth.process.stop()?;
    begin_again(&stage, &leases).await
}

/// The CA of the release, as its Secret tells it.
async fn authority(stage: &Stage) -> anyhow::Result<reqwest::Certificate> {
    let secrets: Api<Secret> = Api::namespaced(stage.cluster.client.clone(), SYSTEM_NAMESPACE);
    let secret = secrets.get("oxolm-catalogs-self-tls").await?;
    let authority = secret.data.and_then(|mut data| data.remove("ca.crt"));
    let authority = authority.context("the Secret has the CA")?;
    Ok(reqwest::Certificate::from_pem(&authority.0)?)
}

/// They are ready whenever they are asked, for a while.
async fn stay_ready(replicas: &[&Replica]) -> anyhow::Result<()> {
    let until = tokio::time::Instant::now() + QUIET;
    while tokio::time::Instant::now() < until {
        for replica in replicas {
            let (code, text) = replica.probe().await?;
            ensure!(code == 200, "{code}: {text}");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// oxolm runs as before the story.
async fn begin_again(stage: &Stage, leases: &Api<Lease>) -> anyhow::Result<Outcome> {
    remove(leases, keys::LEASE_NAME).await?;
    let cluster = &stage.cluster;
    cluster.controller.restart(&cluster.client).await?;
    Ok(Outcome::Passed)
}

fn leases(stage: &Stage) -> Api<Lease> {
    Api::namespaced(stage.cluster.client.clone(), SYSTEM_NAMESPACE)
}

/// Takes a lease, as a controller that renewed it just now.
async fn take(leases: &Api<Lease>, name: &str) -> anyhow::Result<()> {
    remove(leases, name).await?;
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ");
    let lease = json!({"metadata": {"name": name}, "spec": {"holderIdentity": SOMEBODY_ELSE,
        "leaseDurationSeconds": 15, "renewTime": now.to_string()}});
    let lease = serde_json::from_value(lease)?;
    leases.create(&PostParams::default(), &lease).await?;
    Ok(())
}

async fn remove(leases: &Api<Lease>, name: &str) -> anyhow::Result<()> {
    match leases.delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other.map(|_| ()).context("cannot delete the lease"),
    }
}

async fn holder(leases: &Api<Lease>, name: &str) -> anyhow::Result<String> {
    let lease = leases.get_opt(name).await?;
    let spec = lease.and_then(|lease| lease.spec);
    Ok(spec
        .and_then(|spec| spec.holder_identity)
        .unwrap_or_default())
}

/// An oxolm beside the one that leads, with probes of its own.
struct Replica {
    process: Beside,
    address: String,
    catalogs: u16,
    client: reqwest::Client,
}

impl Replica {
    fn start(stage: &Stage) -> anyhow::Result<Self> {
        // Free a moment ago, and nobody else here takes ports.
        let free = || TcpListener::bind("127.0.0.1:0")?.local_addr();
        let (address, catalogs) = (free()?.to_string(), free()?);
        let arguments = [
            ["--health-probe-bind-address", &address],
            ["--catalogs-server-addr", &catalogs.to_string()],
            ["--metrics-bind-address", "0"],
        ];
        Ok(Self {
            process: Beside::start(stage, arguments.as_flattened())?,
            address,
            catalogs: catalogs.port(),
            client: reqwest::Client::builder().no_proxy().build()?,
        })
    }

    /// What the readiness probe answers.
    async fn probe(&self) -> anyhow::Result<(u16, String)> {
        let url = format!("http://{}/readyz", self.address);
        let answer = self.client.get(url).send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    /// Whoever trusts nothing but `authority` gets an answer.
    async fn answers_who_trusts(&self, authority: &reqwest::Certificate) -> anyhow::Result<()> {
        let client = reqwest::Client::builder()
            .tls_certs_only([authority.clone()])
            .no_proxy()
            .build()?;
        let url = format!(
            "https://localhost:{}/catalogs/none/api/v1/all",
            self.catalogs
        );
        let answer = client.get(url).send().await?;
        ensure!(answer.status().as_u16() == 404, "{answer:?}");
        Ok(())
    }

    /// Waits until the probe answers so.
    async fn until(&self, stage: &Stage, code: u16, says: &str) -> anyhow::Result<()> {
        let answers = async || {
            let answer = self.probe().await;
            // It may not listen yet.
            Ok(answer.is_ok_and(|(found, text)| found == code && text.contains(says)))
        };
        let what = format!("the probe answers {code} {says:?}");
        until_true(&stage.cluster, &what, answers).await
    }
}

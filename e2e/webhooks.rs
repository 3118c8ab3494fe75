//! Webhooks with certificates that oxolm makes itself, called by the API server.

mod server;
mod unanswered;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use oxolm::api::keys;
use serde_json::{Value, json};

use self::server::Server;
pub(crate) use self::server::run as run_server;
pub(crate) use self::unanswered::a_webhook_that_nobody_answers_is_told;
use crate::harness::package::{Bundle, entry};
use crate::harness::stage::Stage;
use crate::harness::wait::until_true;
use crate::harness::{Cluster, Outcome};

/// The port of the Service: that of the container in the bundle.
const PORT: u16 = 19_443;
/// How long before and after the rotation calls are made.
const CALLING: Duration = Duration::from_secs(3);
/// The Secret, as the Deployment's name gives it.
const SECRET: &str = "webhooks-manager-service-cert";
const CONFIGURATION: &str = "webhooks.example.com";

/// One webhook that validates things.
const DEFINITIONS: &str = "  webhookdefinitions:
  - type: ValidatingAdmissionWebhook
    generateName: PACKAGE.example.com
    deploymentName: PACKAGE-manager
    containerPort: 19443
    targetPort: 19443
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Fail
    webhookPath: /validate
    rules:
    - {apiGroups: [PACKAGE.example.com], apiVersions: [v1], resources: [things], operations: [CREATE, UPDATE]}
";

/// A webhook answers while its certificate is rotated, and no call is refused. The account has the generated rights.
pub(crate) async fn a_certificate_is_rotated_under_calls(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stage = Stage::set_without_rights(cluster, "webhooks").await?;
    let bundles = ["1.0.0", "1.1.0"].map(|version| Bundle {
        definitions: DEFINITIONS,
        ..Bundle::new(version)
    });
    stage.grant_for(&bundles).await?;
    stage.offer(&bundles[..1]).await?;
    stage.add_extension(&json!({})).await?;
    stage.until_installed("1.0.0").await?;
    let set = stage.sets().get("webhooks-1").await?;
    let annotations = set.metadata.annotations.unwrap_or_default();
    ensure!(
        annotations
            .get(keys::WEBHOOK_CERTIFICATES)
            .map(String::as_str)
            == Some("self")
    );

    let server = Server::start(&stage.cluster.client, "webhooks", SECRET, PORT).await?;
    let client = stage.cluster.client.clone();
    let first = server.until_called(|| write(&client, 0)).await?;
    let calls = Calls::begin(client.clone());
    tokio::time::sleep(CALLING).await;
    let patch = json!({"metadata": {"annotations": {keys::ROTATE_CERTIFICATES: "now"}}});
    stage.patch_extension(&patch).await?;
    let is_rotated = async || Ok(server.last_called()? != first);
    until_true(&stage.cluster, "the new certificate is served", is_rotated).await?;
    tokio::time::sleep(CALLING).await;
    // An upgrade takes the certificate over.
    let rotated = server.last_called()?;
    stage.package.push_bundle(&bundles[1]).await?;
    let entries = [entry("1.0.0", ""), entry("1.1.0", "1.0.0")];
    let catalog = stage.package.push_catalog("two", &entries).await?;
    stage.change_catalog(&catalog).await?;
    stage.until_installed("1.1.0").await?;
    stage
        .until("revision 1 is archived", |extension| {
            let status = extension.status.as_ref();
            status.is_some_and(|status| status.active_revisions.len() == 1)
        })
        .await?;
    tokio::time::sleep(CALLING).await;
    let made = calls.end().await?;
    ensure!(made > 20, "only {made} calls were made");
    ensure!(
        server.last_called()? == rotated,
        "the upgrade made another certificate"
    );
    ensure!(
        trusted(&client).await? == 2,
        "the old CA is trusted for ten minutes"
    );
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "webhooks");
    let owners = secrets
        .get(SECRET)
        .await?
        .metadata
        .owner_references
        .unwrap_or_default();
    ensure!(
        owners.len() == 1 && owners[0].name == "webhooks-2",
        "{owners:?}"
    );

    // What somebody takes away comes back.
    let configurations = configurations(&client);
    let nothing = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
    let nothing: Patch<()> = Patch::Json(serde_json::from_value(nothing)?);
    configurations
        .patch(CONFIGURATION, &PatchParams::default(), &nothing)
        .await?;
    let is_back = async || Ok(trusted(&client).await? == 2);
    until_true(&stage.cluster, "the bundle is back", is_back).await?;
    server.until_called(|| write(&client, 1)).await?;
    // Also the Secret: the generated rights let the account watch this one.
    let taken = secrets.get(SECRET).await?.metadata.uid;
    secrets.delete(SECRET, &DeleteParams::default()).await?;
    let is_made_anew = async || {
        let there = secrets.get_opt(SECRET).await?;
        Ok(there.is_some_and(|there| there.metadata.uid != taken))
    };
    until_true(&stage.cluster, "the Secret is made anew", is_made_anew).await?;
    server.until_called(|| write(&client, 2)).await?;

    things(&client)
        .delete("thing", &DeleteParams::default())
        .await?;
    stage.uninstall().await?;
    ensure!(
        secrets.get_opt(SECRET).await?.is_none(),
        "the Secret is left"
    );
    ensure!(configurations.get_opt(CONFIGURATION).await?.is_none());
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// A Secret of that name which is somebody else's is told, and left as it is.
pub(crate) async fn a_foreign_secret_is_a_collision(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    use oxolm::api::condition::ConditionType;
    let stage = Stage::set(cluster, "foreignsecret").await?;
    let secrets: Api<Secret> = Api::namespaced(stage.cluster.client.clone(), "foreignsecret");
    let name = "foreignsecret-manager-service-cert";
    let foreign = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"mine": "1"}});
    secrets
        .create(&PostParams::default(), &serde_json::from_value(foreign)?)
        .await?;
    let bundle = Bundle {
        definitions: DEFINITIONS,
        ..Bundle::new("1.0.0")
    };
    stage.offer(&[bundle]).await?;
    stage.add_extension(&json!({})).await?;
    stage
        .until_condition(ConditionType::Progressing, "True/Retrying", name)
        .await?;
    let data = secrets.get(name).await?.data.unwrap_or_default();
    ensure!(
        data.len() == 1 && data.contains_key("mine"),
        "the Secret was changed"
    );
    stage.uninstall().await?;
    ensure!(
        secrets.get_opt(name).await?.is_some(),
        "the Secret was deleted"
    );
    stage.clear().await?;
    Ok(Outcome::Passed)
}

fn things(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("webhooks.example.com", "v1", "Thing");
    let resource = ApiResource::from_gvk(&kind);
    Api::namespaced_with(client.clone(), "webhooks", &resource)
}

fn configurations(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
    );
    Api::all_with(client.clone(), &ApiResource::from_gvk(&kind))
}

/// How many CAs the API server trusts.
async fn trusted(client: &Client) -> anyhow::Result<usize> {
    use base64::Engine as _;
    let configuration = configurations(client).get(CONFIGURATION).await?;
    let bundle = &configuration.data["webhooks"][0]["clientConfig"]["caBundle"];
    let pem =
        base64::engine::general_purpose::STANDARD.decode(bundle.as_str().unwrap_or_default())?;
    Ok(String::from_utf8(pem)?.matches("BEGIN CERTIFICATE").count())
}

/// Writes the thing, which the API server asks the webhook about.
async fn write(client: &Client, size: usize) -> anyhow::Result<()> {
    let thing = json!({
        "apiVersion": "webhooks.example.com/v1", "kind": "Thing", "metadata": {"name": "thing"}, "spec": {"size": size},
    });
    let parameters = PatchParams::apply("story").force();
    let patch: Patch<Value> = Patch::Apply(thing);
    things(client).patch("thing", &parameters, &patch).await?;
    Ok(())
}

/// Writes without a pause, each of which the webhook is asked about.
struct Calls {
    is_over: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<anyhow::Result<usize>>,
}

impl Calls {
    fn begin(client: Client) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, count) = (is_over.clone(), AtomicUsize::new(1));
        let task = tokio::spawn(async move {
            while !over.load(Ordering::Relaxed) {
                let number = count.fetch_add(1, Ordering::Relaxed);
                write(&client, number)
                    .await
                    .with_context(|| format!("call {number} was refused"))?;
            }
            Ok(count.load(Ordering::Relaxed))
        });
        Self { is_over, task }
    }

    /// How many there were, if none was refused.
    async fn end(self) -> anyhow::Result<usize> {
        self.is_over.store(true, Ordering::Relaxed);
        self.task.await?
    }
}

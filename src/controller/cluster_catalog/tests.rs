#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests break directories and delete objects"
)]
//! Whole passes: a fake API server, a fake registry, a real store. Numbers such as C04 are those of the acceptance list
//! of `e2e/catalogs.md`.

mod failures;
mod polling;
mod served;
mod slow;

use std::fs;

use kube::Api;
use serde_json::{Value, json};

use super::*;
use crate::controller::garbage::{Garbage, Grace, Needed};
use crate::registry::RegistryClient;
use crate::registry::config::RegistryOptions;
use crate::registry::limits::RetryPolicy;
use crate::store::{CONFIGS_LABEL, ContentStore};
use crate::testing::api_server::ApiServer;
use crate::testing::registry::{FakeRegistry, Fault, install_crypto, layer};

const PATH: &str = "/apis/olm.operatorframework.io/v1/clustercatalogs/operators";
const LABEL: (&str, &str) = (CONFIGS_LABEL, "/configs");
const UNPACKED: &str = "Successfully unpacked and stored content from resolved source";

struct Fixture {
    api: ApiServer,
    registry: FakeRegistry,
    ctx: Arc<Context>,
    directory: tempfile::TempDir,
}

async fn fixture() -> Fixture {
    install_crypto();
    let (api, registry) = (ApiServer::new(), FakeRegistry::start().await);
    let directory = tempfile::tempdir().unwrap();
    let ctx = context(&api, directory.path());
    Fixture {
        api,
        registry,
        ctx,
        directory,
    }
}

fn context(api: &ApiServer, directory: &std::path::Path) -> Arc<Context> {
    let client = RegistryClient::new(RegistryOptions {
        retry: RetryPolicy {
            attempts: 1,
            ..RetryPolicy::default()
        },
        ..RegistryOptions::default()
    });
    let content = ContentStore::open(directory).unwrap();
    Arc::new(Context {
        client: api.client(),
        fetcher: Fetcher::new(client.unwrap(), content.clone()),
        store: CatalogStore::new(content).unwrap(),
        served: Served::default(),
        external_address: "catalogs.example".to_owned(),
        leading: Arc::new(AtomicBool::new(true)),
        reporter: Reporter::new(api.client(), "test"),
        memory: Memory::default(),
        on_content: Box::new(|_, _| {}),
    })
}

impl Fixture {
    /// Makes the catalog `operators` of this source.
    fn create(&self, image: &Value) {
        self.api.add(&json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
            "metadata": {"name": "operators"},
            "spec": {"source": {"type": "Image", "image": image}, "availabilityMode": "Available", "priority": 0},
        }));
    }

    fn push(&self, tag: &str, package: &str) -> String {
        let text = format!("schema: olm.package\nname: {package}\n");
        let files = [("configs/p/catalog.yaml", text.as_str())];
        let digest = self
            .registry
            .put_image("c", tag, &[LABEL], &[layer(&files)]);
        format!("{}/c@{digest}", self.registry.authority)
    }

    fn tag(&self, tag: &str) -> String {
        format!("{}/c:{tag}", self.registry.authority)
    }

    fn object(&self) -> Value {
        self.api.object(PATH).unwrap_or_default()
    }

    async fn pass(&self) -> Next {
        self.pass_of(&self.ctx).await
    }

    async fn pass_of(&self, ctx: &Arc<Context>) -> Next {
        let catalog = serde_json::from_value(self.object()).unwrap();
        reconcile(Arc::new(catalog), ctx.clone()).await
    }

    /// Status, reason and message of a condition; empty texts when it is not there.
    fn condition(&self, kind: &str) -> [String; 3] {
        let object = self.object();
        let all = object["status"]["conditions"].as_array().cloned();
        let found = all.unwrap_or_default();
        let found = found.iter().find(|one| one["type"] == kind);
        ["status", "reason", "message"].map(|field| {
            let text = found.and_then(|one| one[field].as_str());
            text.unwrap_or_default()
                .replace(&self.registry.authority, "REGISTRY")
        })
    }

    fn is_served(&self) -> bool {
        self.condition("Serving")[..2] == ["True", "Available"]
    }

    fn packages(&self) -> Vec<String> {
        let served = self.ctx.served.get("operators");
        let names = served.as_ref().map(|served| served.package_names());
        names.into_iter().flatten().map(str::to_owned).collect()
    }

    /// As if the last poll was that long ago.
    fn age_poll(&self, by: Duration) {
        let mut polls = self.ctx.memory.polls.lock().unwrap();
        polls.get_mut("operators").unwrap().at -= by;
    }

    fn writes(&self) -> Vec<String> {
        let all = self.api.requests();
        all.into_iter()
            .filter(|line| !line.contains("events"))
            .collect()
    }
}

//! Whole passes on a fake API server. What an installation goes through is told by the stories of `e2e`.

use kube::Api;
use kube::runtime::watcher;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::controller::queue;
use crate::identity::{DefaultAccount, ExcludedNamespaces};
use crate::registry::RegistryClient;
use crate::registry::config::RegistryOptions;
use crate::store::ContentStore;
use crate::testing::api_server::ApiServer;
use crate::testing::registry::install_crypto;

const PATH: &str = "/apis/olm.operatorframework.io/v1/clusterextensions/e";

struct Fixture {
    server: ApiServer,
    ctx: Arc<Context>,
    stop: CancellationToken,
    _content: tempfile::TempDir,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Fixture {
    async fn new() -> Self {
        install_crypto();
        let server = ApiServer::new();
        let client = server.client();
        let stop = CancellationToken::new();
        let config = watcher::Config::default;
        let catalogs = Informer::start(Api::all(client.clone()), config(), stop.clone(), |_| {});
        let sets = Informer::start(Api::all(client.clone()), config(), stop.clone(), |_| {});
        tokio::join!(catalogs.ready(), sets.ready());
        let content = tempfile::tempdir().unwrap();
        let registry = RegistryClient::new(RegistryOptions::default()).unwrap();
        let accounts = Arc::new(Accounts::default());
        let (queue, _listener) = queue::queue();
        let ctx = Arc::new(Context {
            identity: Identity::new(
                client.clone(),
                accounts.clone(),
                ExcludedNamespaces::default(),
                DefaultAccount::None,
            ),
            catalogs,
            sets,
            served: Served::default(),
            fetcher: Fetcher::new(registry, ContentStore::open(content.path()).unwrap()),
            handover: Arc::default(),
            system_namespace: "system".to_owned(),
            discovery: Arc::new(Discovery::new(client.clone())),
            accounts,
            preflight: Arc::default(),
            reporter: Reporter::new(client.clone(), "oxolm"),
            major_upgrades: MajorUpgrades::default(),
            certificates: None,
            queue,
            memory: Memory::default(),
            openshift: Arc::default(),
            client,
        });
        Self {
            server,
            ctx,
            stop,
            _content: content,
        }
    }

    /// An extension that installed nothing, and is deleted.
    fn add_deleted(&self) {
        self.server.add(&json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": "e", "finalizers": [keys::FINALIZER_UNINSTALL], "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"namespace": "n", "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}},
        }));
    }

    fn stored(&self) -> Option<Value> {
        self.server.object(PATH)
    }

    /// As the cache has it now.
    fn seen(&self) -> Arc<ClusterExtension> {
        Arc::new(serde_json::from_value(self.stored().unwrap()).unwrap())
    }

    async fn pass(&self, seen: Arc<ClusterExtension>) -> Next {
        reconcile(seen, self.ctx.clone()).await
    }
}

#[tokio::test]
async fn an_uninstall_that_is_behind_looks_again() {
    let it = Fixture::new().await;
    it.add_deleted();
    let behind = it.seen();
    it.server.set_status(PATH, &json!({"conditions": []}));
    assert_eq!(it.pass(behind).await, Next::After(BEHIND));
    assert!(it.stored().is_some());
    assert_eq!(it.pass(it.seen()).await, Next::OnChange);
    assert_eq!(it.stored(), None);
}

#[tokio::test]
async fn an_uninstall_that_cannot_be_written_says_so_and_goes_on() {
    let it = Fixture::new().await;
    it.add_deleted();
    it.server.fail_next(&format!("PATCH {PATH}"), 500);
    assert_eq!(it.pass(it.seen()).await, Next::After(LOOK_AGAIN));
    let status = &it.stored().unwrap()["status"]["conditions"];
    assert!(
        status.to_string().contains("the test wants this to fail"),
        "{status}"
    );
    assert_eq!(it.pass(it.seen()).await, Next::OnChange);
    assert_eq!(it.stored(), None);
}

#[tokio::test]
async fn what_is_gone_already_is_gone() {
    let it = Fixture::new().await;
    it.add_deleted();
    let seen = it.seen();
    it.server.remove(&it.stored().unwrap());
    assert_eq!(it.pass(seen).await, Next::OnChange);
    assert_eq!(it.stored(), None);
}

//! Whole passes on a fake API server. What an installation goes through is told by the stories of `e2e`.

use kube::Api;
use kube::runtime::watcher;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::controller::informer::Change;
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
            written: Written::default(),
            orphaned: Orphaned::default(),
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

/// Who deletes a kind asked for no extension to go.
#[tokio::test]
async fn an_extension_that_goes_with_its_kind_leaves_what_it_installed() {
    // What was asked for before counts.
    for (deleted, stays) in [
        ("2026-01-01T00:00:00Z", true),
        ("2026-01-01T00:00:01Z", false),
    ] {
        let it = Fixture::new().await;
        it.add_deleted();
        it.server.edit(PATH, &json!({"metadata": {"uid": "e"}}));
        it.server.add(&json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "clusterextensions.olm.operatorframework.io", "deletionTimestamp": deleted,
                "finalizers": ["customresourcecleanup"]},
        }));
        let mut revision = revision(1, "1.0.0", true);
        revision["metadata"]["finalizers"] = json!([keys::FINALIZER_TEARDOWN]);
        it.server.add(&revision);
        while it.ctx.sets.all().is_empty() {
            tokio::task::yield_now().await;
        }
        let next = it.pass(it.seen()).await;
        let set = it
            .server
            .object("/apis/olm.operatorframework.io/v1/clusterobjectsets/e-1");
        let metadata = set.unwrap()["metadata"].clone();
        assert_eq!(
            metadata.get("deletionTimestamp").is_none(),
            stays,
            "{next:?}"
        );
        assert_eq!(metadata.get("ownerReferences").is_none(), stays);
        assert_eq!(it.stored().is_none(), stays);
    }
}

/// The garbage collector was done with `--cascade=orphan` before anybody looked, and did not know the revision that was made at
/// that moment.
#[tokio::test]
async fn a_revision_that_the_garbage_collector_missed_stays_with_those_that_were_orphaned() {
    for (created, is_orphaned, is_seen, stays) in [
        ("2026-01-01T00:00:01Z", true, false, true),
        ("2025-12-31T23:59:58Z", true, false, true),
        ("2025-12-31T23:59:50Z", true, false, false),
        ("2026-01-01T00:00:01Z", false, false, false),
        ("2025-12-31T23:59:50Z", false, true, true),
    ] {
        let it = Fixture::new().await;
        it.add_deleted();
        it.server.edit(
            PATH,
            &json!({"metadata": {"uid": "e"}, "spec": {"serviceAccount": {"name": "s"}}}),
        );
        if is_seen {
            let mut before = (*it.seen()).clone();
            before.metadata.finalizers = Some(vec!["orphan".to_owned()]);
            let new = Arc::new(before);
            it.ctx.orphaned.note(&Change::Applied { old: None, new });
        }
        let mut first = revision(1, "1.0.0", true);
        if is_orphaned {
            first["metadata"]["ownerReferences"] = json!([]);
        }
        first["metadata"]["labels"] = json!({
            keys::OWNER_KIND: keys::OWNER_KIND_CLUSTER_EXTENSION, keys::OWNER_NAME: "e",
        });
        for mut revision in [first, revision(2, "1.1.0", false)] {
            revision["metadata"]["finalizers"] = json!([keys::FINALIZER_TEARDOWN]);
            it.server.add(&revision);
        }
        let path = "/apis/olm.operatorframework.io/v1/clusterobjectsets/e-2";
        let made = json!({"metadata": {"creationTimestamp": created}});
        it.server.edit(path, &made);
        let wanted: Timestamp = created.parse().unwrap();
        let seen = || {
            Some(
                it.ctx
                    .sets
                    .get("e-2")?
                    .metadata
                    .creation_timestamp
                    .as_ref()?
                    .0,
            )
        };
        while it.ctx.sets.all().len() < 2 || seen() != Some(wanted) {
            tokio::task::yield_now().await;
        }
        let old = it.seen();
        it.pass(old.clone()).await;
        let metadata = it.server.object(path).unwrap()["metadata"].clone();
        let is_deleted = metadata.get("deletionTimestamp").is_some();
        assert_eq!(is_deleted, !stays, "{created} {is_orphaned}");
        assert_eq!(metadata.get("ownerReferences").is_none(), stays);
        assert_eq!(it.stored().is_none(), stays);
        let gone = Change::Deleted { old: old.clone() };
        it.ctx.orphaned.note(&gone);
        assert!(!it.ctx.orphaned.has(&old));
    }
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

/// A revision of the extension with UID `e`.
fn revision(number: i64, version: &str, is_succeeded: bool) -> Value {
    let succeeded = if is_succeeded { "True" } else { "False" };
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
        "metadata": {
            "name": format!("e-{number}"),
            "annotations": {
                keys::BUNDLE_NAME: format!("p.v{version}"), keys::BUNDLE_VERSION: version, keys::PACKAGE_NAME: "p",
                keys::BUNDLE_REFERENCE: format!("127.0.0.1:1/p:v{version}"), keys::CATALOG: "c",
                keys::SERVICE_ACCOUNT_NAME: "s", keys::SERVICE_ACCOUNT_NAMESPACE: "n",
            },
            "ownerReferences": [{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "e",
                "uid": "e", "controller": true}],
        },
        "spec": {"revision": number, "lifecycleState": "Active", "collisionProtection": "Prevent", "phases": []},
        "status": {"conditions": [{"type": "Succeeded", "status": succeeded, "reason": "Succeeded", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    })
}

/// No catalog is there, or one that cannot be read: an upgrade that is on its way goes on, unless somebody asks for what is
/// installed.
#[tokio::test]
async fn a_rollout_is_taken_back_by_nobody_but_its_owner() {
    for (version, is_unreadable, goes_on) in [
        (None, false, true),
        (None, true, true),
        (Some("7.7.7"), true, true),
        (Some("1.0.0"), false, false),
    ] {
        let it = Fixture::new().await;
        it.server
            .add(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}));
        it.server.add(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s", "namespace": "n"}}));
        let mut catalog = json!({"packageName": "p"});
        if let Some(version) = version {
            catalog["version"] = json!(version);
        }
        it.server.add(&json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": "e", "uid": "e", "generation": 1, "finalizers": [keys::FINALIZER_UNINSTALL]},
            "spec": {"namespace": "n", "serviceAccount": {"name": "s"},
                "source": {"sourceType": "Catalog", "catalog": catalog}},
        }));
        if is_unreadable {
            it.server.add(&json!({
                "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": "broken"},
                "spec": {"priority": 10, "source": {"type": "Image", "image": {"ref": "127.0.0.1:1/typo:v1"}}},
            }));
        }
        it.server.add(&revision(1, "1.0.0", true));
        it.server.add(&revision(2, "1.1.0", false));
        while it.ctx.sets.all().len() < 2 || is_unreadable && it.ctx.catalogs.all().is_empty() {
            tokio::task::yield_now().await;
        }
        it.pass(it.seen()).await;
        let status = it.stored().unwrap()["status"].to_string();
        // What would be rolled out is read from its image first.
        let is_read =
            status.contains("error for resolved bundle") || status.contains("p.v1.0.0\\\"");
        println!("{version:?} {is_unreadable} {status}");
        assert_eq!(is_read, !goes_on, "{version:?} {is_unreadable}: {status}");
    }
}

/// Of an extension that a backup brings before its revisions it is not known what is installed.
#[tokio::test]
async fn a_restored_extension_waits_for_its_revisions() {
    let now = Timestamp::now();
    let before = |seconds| (now - SignedDuration::from_secs(seconds)).to_string();
    for (created, finalizers, status, waits) in [
        (
            before(1),
            json!([keys::FINALIZER_UNINSTALL]),
            json!(null),
            true,
        ),
        (
            before(60),
            json!([keys::FINALIZER_UNINSTALL]),
            json!(null),
            false,
        ),
        (before(1), json!([]), json!(null), false),
        (
            before(1),
            json!([keys::FINALIZER_UNINSTALL]),
            json!({"conditions": [{"type": "Installed", "status": "False", "reason": "Absent", "message": "",
                "lastTransitionTime": before(1)}]}),
            false,
        ),
    ] {
        let it = Fixture::new().await;
        it.server.add(&json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": "e", "uid": "e", "finalizers": finalizers},
            "spec": {"namespace": "n", "serviceAccount": {"name": "s"},
                "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}},
            "status": status,
        }));
        let path = "/apis/olm.operatorframework.io/v1/clusterextensions/e";
        let change = json!({"metadata": {"creationTimestamp": created}});
        it.server.edit(path, &change);
        let next = it.pass(it.seen()).await;
        assert_eq!(
            next == Next::After(REVISIONS_ARRIVE),
            waits,
            "{created} {finalizers} {status}"
        );
        // With its revisions it goes on.
        it.server.add(&revision(1, "1.0.0", true));
        while it.ctx.sets.all().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_ne!(it.pass(it.seen()).await, Next::After(REVISIONS_ARRIVE));
    }
}

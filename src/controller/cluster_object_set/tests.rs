//! The whole engine against the fake API server: what is asked, as whom, and what is there afterwards.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use kube::Api;
use kube::runtime::watcher;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use super::*;

const REREAD: Duration = Duration::from_mins(10);
use crate::apply::revisions::{Ensured, Uninstall};
use crate::identity::accounts::Accounts;
use crate::identity::{DefaultAccount, ExcludedNamespaces};
use crate::revision::phase::phases;
use crate::revision::plan::{Desired, object_marks};
use crate::revision::probe::default_probes;
use crate::revision::{Account, BundleIdentity, Extension, Revision, revisions_of, states};
use crate::testing::api_server::ApiServer;

mod abandoned;
mod accounts;
mod altered;
mod answered;
mod collisions;
mod content;
mod contested;
mod drift;
mod faults;
mod handed;
mod leaving;
mod orphans;
mod overtaken;
mod unchangeable;
mod uninstall;
mod unknown;
mod unwatched;

const SYSTEM: &str = "system";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.g";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/n/deployments/operator";
const CONFIG: &str = "/api/v1/namespaces/n/configmaps/config";

/// oxolm as far as revisions go, on a fake cluster with namespace `n` and account `n/installer`.
struct Cluster {
    server: ApiServer,
    ctx: Arc<Context>,
    /// The revisions that are to be looked at.
    woken: Mutex<UnboundedReceiver<String>>,
    stop: CancellationToken,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn object(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
}

fn namespaced(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "n"}})
}

fn crd() -> Value {
    let mut crd = object(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "things.g",
    );
    crd["spec"] = json!({"group": "g", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1", "served": true}]});
    crd
}

fn config(data: &str) -> Value {
    let mut config = namespaced("v1", "ConfigMap", "config");
    config["data"] = json!({"key": data});
    config
}

/// Nine objects, as an operator has them.
fn operator() -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io/v1";
    vec![
        namespaced("v1", "ServiceAccount", "operator"),
        config("1"),
        crd(),
        object(rbac, "ClusterRole", "operator"),
        namespaced(rbac, "Role", "operator"),
        object(rbac, "ClusterRoleBinding", "operator"),
        namespaced(rbac, "RoleBinding", "operator"),
        namespaced("v1", "Service", "operator"),
        namespaced("apps/v1", "Deployment", "operator"),
    ]
}

fn account() -> Account {
    Account {
        namespace: "n".into(),
        name: "installer".into(),
    }
}

fn extension() -> Extension {
    Extension {
        name: "e".into(),
        uid: "ext".into(),
        account: Some(account()),
    }
}

fn desired(version: &str, manifests: &[Value]) -> Desired {
    let bundle = BundleIdentity {
        name: format!("p.v{version}"),
        package: "p".into(),
        version: version.into(),
        ..BundleIdentity::default()
    };
    Desired {
        extension: extension(),
        account: account(),
        namespace: "n".into(),
        phases: phases(manifests, &object_marks("e", &bundle)).unwrap(),
        bundle,
        properties: None,
        webhook_certificates: None,
        rotate_certificates: None,
        crd_deletion: None,
        crd_findings: Vec::new(),
        permissions_gained: Vec::new(),
        progression_probes: default_probes(),
        progress_deadline_minutes: None,
        collision_protection: crate::api::cluster_object_set::CollisionProtection::Prevent,
    }
}

impl Cluster {
    async fn new() -> Self {
        let server = ApiServer::new();
        for namespace in [SYSTEM, "n", "default"] {
            server.add(&object("v1", "Namespace", namespace));
        }
        server.add(&namespaced("v1", "ServiceAccount", "installer"));
        Self::on(server).await
    }

    /// A new process on the same cluster.
    async fn on(server: ApiServer) -> Self {
        let stop = CancellationToken::new();
        let client = server.client();
        let accounts = Arc::new(Accounts::default());
        let api = Api::<ClusterObjectSet>::all(client.clone());
        let sets = Informer::start(api, watcher::Config::default(), stop.clone(), |_| {});
        sets.ready().await;
        let identity = Identity::new(
            client.clone(),
            accounts,
            ExcludedNamespaces::default(),
            DefaultAccount::None,
        );
        let (watches, woken) = DriftWatches::new(client.clone());
        let ctx = Arc::new(Context {
            identity,
            sets,
            discovery: Arc::new(Discovery::new(client.clone())),
            watches: Arc::new(watches),
            preflight: Arc::default(),
            handover: Arc::default(),
            memory: Memory::default(),
            written: Written::default(),
            system_namespace: SYSTEM.into(),
            crd_deletion: CrdDeletion::default(),
            reread: REREAD,
            reporter: Reporter::new(client.clone(), "oxolm"),
            client,
        });
        let woken = Mutex::new(woken);
        Self {
            server,
            ctx,
            woken,
            stop,
        }
    }

    async fn restarted(&self) -> Self {
        Self::on(self.server.clone()).await
    }

    fn revisions(&self) -> Vec<Revision> {
        let sets: Vec<ClusterObjectSet> = self
            .server
            .paths("/clusterobjectsets/")
            .iter()
            .map(|path| serde_json::from_value(self.server.object(path).unwrap()).unwrap())
            .collect();
        revisions_of(&sets, &extension())
    }

    async fn ensure(&self, desired: &Desired) -> Ensured {
        let existing = self.revisions();
        let ensured = self
            .ctx
            .revisions()
            .ensure(&existing, desired, &|_| false)
            .await;
        ensured.unwrap()
    }

    fn set(&self, name: &str) -> Option<ClusterObjectSet> {
        let path = format!("/apis/olm.operatorframework.io/v1/clusterobjectsets/{name}");
        Some(serde_json::from_value(self.server.object(&path)?).unwrap())
    }

    /// One pass, after all watches have seen everything.
    async fn pass(&self, name: &str) -> Next {
        let Some(set) = self.set(name) else {
            return Next::OnChange;
        };
        self.settle().await;
        reconcile(self.ctx.clone(), Arc::new(set)).await
    }

    /// Waits until the cache of revisions is what the server has, and lets the drift watches catch up.
    async fn settle(&self) {
        loop {
            let names = self.server.paths("/clusterobjectsets/");
            let is_current = names.iter().all(|path| {
                let stored = self.server.object(path).unwrap();
                let name = stored["metadata"]["name"].as_str().unwrap();
                let cached = self
                    .ctx
                    .sets
                    .get(name)
                    .and_then(|set| set.resource_version());
                cached.as_deref() == stored["metadata"]["resourceVersion"].as_str()
            });
            if is_current && self.ctx.sets.all().len() == names.len() {
                break;
            }
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    /// Passes until nothing is to be done for now.
    async fn passes(&self, name: &str) {
        for _ in 0..5 {
            self.pass(name).await;
        }
    }

    /// The revisions that were to be looked at since the last call.
    fn woken(&self) -> BTreeSet<String> {
        let mut woken = self.woken.lock().unwrap();
        std::iter::from_fn(|| woken.try_recv().ok()).collect()
    }

    /// What the extension does when it is deleted.
    async fn uninstall(&self) -> Uninstall {
        let existing = self.revisions();
        let operations = self.ctx.revisions();
        operations.uninstall(&existing, None).await.unwrap()
    }

    fn make_available(&self, path: &str) {
        let generation = self.server.object(path).unwrap()["metadata"]["generation"].clone();
        self.server.set_status(
            path,
            &json!({"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1,
                "conditions": [{"type": "Available", "status": "True"}]}),
        );
    }

    /// Installs a version completely.
    async fn install(&self, name: &str, desired: &Desired) {
        self.ensure(desired).await;
        self.passes(name).await;
        if self.server.object(DEPLOYMENT).is_some() {
            self.make_available(DEPLOYMENT);
        }
        self.passes(name).await;
        assert_eq!(
            self.condition(name, "Succeeded"),
            "True/Succeeded: Revision succeeded rolling out."
        );
    }

    fn condition(&self, name: &str, kind: &str) -> String {
        let status = self
            .set(name)
            .and_then(|set| set.status)
            .unwrap_or_default();
        let found = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == kind);
        found.map_or_else(String::new, |c| {
            format!("{}/{}: {}", c.status, c.reason, c.message)
        })
    }

    /// The requests since the last call that change something beside Events.
    fn writes(&self) -> Vec<String> {
        let requests = self.server.requests().into_iter();
        requests
            .filter(|request| !request.contains(" GET ") && !request.contains("/events"))
            .filter(|request| !request.contains("reviews"))
            .collect()
    }

    fn owner(&self, path: &str) -> String {
        let owner = &self.server.object(path).unwrap()["metadata"]["ownerReferences"];
        owner[0]["name"].as_str().unwrap_or_default().to_owned()
    }
}

#[tokio::test]
async fn nine_objects_are_installed_as_the_account_with_few_requests_and_then_none() {
    let cluster = Cluster::new().await;
    cluster.server.requests();
    let ensured = cluster.ensure(&desired("1.0.0", &operator())).await;
    assert_eq!(
        ensured,
        Ensured::Created {
            name: "e-1".into(),
            number: 1
        }
    );
    cluster.passes("e-1").await;
    assert_eq!(
        cluster.condition("e-1", "Available"),
        "False/ProbeFailure: Object Deployment.apps/v1 n/operator: missing .status.conditions"
    );
    cluster.make_available(DEPLOYMENT);
    cluster.passes("e-1").await;
    assert_eq!(
        cluster.condition("e-1", "Progressing"),
        "True/Succeeded: Revision 1.0.0 has rolled out."
    );
    let log = cluster.server.log();
    // What a process asks once for all extensions is not counted: the watch of each kind, the names of kinds.
    let once = |line: &str| {
        line.starts_with("WATCH")
            || line.starts_with("LIST") && !line.contains("/secrets")
            || line.starts_with("GET") && line.matches('/').count() < 4
    };
    let counted = log.iter().filter(|logged| !once(&logged.line)).count();
    assert!(counted <= 40, "{counted} requests: {log:#?}");
    for logged in &log {
        let is_read = ["GET", "LIST", "WATCH"]
            .iter()
            .any(|verb| logged.line.starts_with(verb));
        let is_own = [
            "clusterobjectsets",
            "/namespaces/system/secrets",
            "/events",
            "reviews",
        ]
        .iter()
        .any(|part| logged.line.contains(part));
        assert!(
            is_read || is_own || logged.user == "system:serviceaccount:n:installer",
            "{logged:?}"
        );
    }
    // Nothing changes: nothing is sent. Also not by planning the same content.
    assert_eq!(cluster.pass("e-1").await, Next::OnChange);
    assert_eq!(
        cluster.ensure(&desired("1.0.0", &operator())).await,
        Ensured::Unchanged { name: "e-1".into() }
    );
    assert_eq!(cluster.server.log().len(), log.len());
}

#[tokio::test]
async fn what_is_created_is_owned_by_apply_and_marked() {
    let cluster = Cluster::new().await;
    cluster.install("e-1", &desired("1.0.0", &operator())).await;
    let config = cluster.server.object(CONFIG).unwrap();
    let fields = config["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(fields.len(), 1);
    assert_eq!(fields[0]["operation"], "Apply");
    assert_eq!(fields[0]["manager"], keys::FIELD_MANAGER_OBJECTS);
    let owner = &config["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["name"], &owner["controller"]),
        (&json!("e-1"), &json!(true))
    );
    assert_eq!(owner.get("blockOwnerDeletion"), None);
    assert_eq!(config["metadata"]["annotations"][keys::REVISION], "1");
    let crd = cluster.server.object(CRD).unwrap();
    assert_eq!(crd["metadata"].get("ownerReferences"), None);
}

#[tokio::test]
async fn a_process_that_ends_between_creation_and_claim_is_continued() {
    let cluster = Cluster::new().await;
    cluster.ensure(&desired("1.0.0", &[config("1")])).await;
    cluster.server.fail_next(&format!("PATCH {CONFIG}"), 500);
    cluster.pass("e-1").await;
    assert!(cluster.condition("e-1", "Progressing").starts_with(
        "True/Retrying: reconciling object: reconciling ConfigMap.v1 n/config: migrating managed fields: "
    ));
    let next = cluster.restarted().await;
    next.passes("e-1").await;
    assert_eq!(
        next.condition("e-1", "Progressing"),
        "True/Succeeded: Revision 1.0.0 has rolled out."
    );
    let stored = next.server.object(CONFIG).unwrap();
    let entries = stored["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["operation"], "Apply");
}

#[tokio::test]
async fn a_collision_in_a_late_phase_is_found_before_the_first_write() {
    let cluster = Cluster::new().await;
    cluster
        .server
        .add(&namespaced("apps/v1", "Deployment", "operator"));
    cluster.ensure(&desired("1.0.0", &operator())).await;
    cluster.server.requests();
    assert_eq!(cluster.pass("e-1").await, Next::Retry);
    assert_eq!(
        cluster.condition("e-1", "Progressing"),
        "True/Retrying: revision object collisions in phase 6\nObject Deployment.apps/v1 n/operator\nAction: \"Collision\"\nConflicting Owner: nil"
    );
    let revision = "/apis/olm.operatorframework.io/v1/clusterobjectsets/e-1";
    assert_eq!(
        cluster.writes(),
        [format!("controller PATCH {revision}/status")]
    );
    // What is as it was is not told again.
    let told = || {
        let events = cluster.server.paths("/events/").into_iter();
        let mut told: Vec<(String, i64)> = events
            .map(|path| {
                let event = cluster.server.object(&path).unwrap();
                let count = event["series"]["count"].as_i64().unwrap_or(1);
                (event["reason"].as_str().unwrap().to_owned(), count)
            })
            .collect();
        told.sort();
        told
    };
    let first = told();
    assert_eq!(
        first,
        [("Collision".to_owned(), 1), ("Retrying".to_owned(), 1)]
    );
    for _ in 0..3 {
        assert_eq!(cluster.pass("e-1").await, Next::Retry);
    }
    assert_eq!(told(), first);
    // It heals when the other one is gone.
    cluster
        .server
        .remove(&namespaced("apps/v1", "Deployment", "operator"));
    cluster.passes("e-1").await;
    assert_eq!(cluster.owner(DEPLOYMENT), "e-1");
}

#[tokio::test]
async fn an_upgrade_takes_objects_over_archives_its_predecessor_and_deletes_what_is_dropped() {
    let cluster = Cluster::new().await;
    let extra = namespaced("v1", "ConfigMap", "extra");
    let mut first = operator();
    first.push(extra);
    cluster.install("e-1", &desired("1.0.0", &first)).await;
    let mut second = operator();
    second[1] = config("2");
    cluster.ensure(&desired("2.0.0", &second)).await;
    cluster.passes("e-2").await;
    // The Deployment is not current: both are active, the old one stays installed.
    let deployment = cluster.server.object(DEPLOYMENT).unwrap();
    assert_eq!(cluster.owner(DEPLOYMENT), "e-2");
    assert_eq!(
        deployment["metadata"]["ownerReferences"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    cluster.make_available(DEPLOYMENT);
    cluster.passes("e-2").await;
    assert!(cluster.condition("e-2", "Succeeded").starts_with("True"));
    assert_eq!(
        cluster.server.object(CONFIG).unwrap()["data"],
        json!({"key": "2"})
    );
    cluster.writes();
    cluster.passes("e-1").await;
    assert_eq!(
        cluster.condition("e-1", "Progressing"),
        "False/Archived: revision is archived"
    );
    assert_eq!(
        cluster
            .server
            .object("/api/v1/namespaces/n/configmaps/extra"),
        None
    );
    let deletions: Vec<_> = cluster
        .writes()
        .into_iter()
        .filter(|write| write.contains("DELETE"))
        .collect();
    assert_eq!(
        deletions,
        ["n:installer DELETE /api/v1/namespaces/n/configmaps/extra"]
    );
    assert_eq!(cluster.server.paths("/namespaces/n/deployments/").len(), 1);
    // An archived revision costs nothing any more.
    cluster.server.requests();
    assert_eq!(cluster.pass("e-1").await, Next::OnChange);
    assert_eq!(cluster.server.requests(), Vec::<String>::new());
}

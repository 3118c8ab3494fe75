//! The certificates of one operator with a validating webhook and a conversion, against the fake API server: what is
//! written in which order, and that no caller would ever refuse what a Pod may serve, wherever the process ends.

use jiff::SignedDuration;

use super::x509::usable;
use super::*;
use crate::api::cluster_object_set::CollisionProtection;
use crate::apply::content::ContentPhase;
use crate::apply::discovery::Discovery;
use crate::apply::objects::Item;
use crate::apply::phases::{Pass, PhasesError, Remembered};
use crate::apply::teardown::{CrdDeletion, Occasion, Teardown, Wish};
use crate::apply::watch::DriftWatches;
use crate::revision::Account;
use crate::revision::certificates::LIFE;
use crate::revision::collision::{Claim, CrdOwner, Family, Sibling};
use crate::testing::api_server::ApiServer;

const SECRET: &str = "/api/v1/namespaces/n/secrets/op-service-cert";
const ADMISSION: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/admission";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.g";

fn server() -> ApiServer {
    let server = ApiServer::new();
    server.add(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}));
    server
}

fn start() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

fn account() -> Account {
    Account {
        namespace: "n".into(),
        name: "a".into(),
    }
}

fn minutes(count: i64) -> SignedDuration {
    SignedDuration::from_mins(count)
}

/// When a certificate of [`start`] is renewed.
fn renewal() -> Timestamp {
    start() + LIFE / 3 * 2
}

fn object(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": {
        keys::OWNER_KIND: keys::OWNER_KIND_CLUSTER_EXTENSION, keys::OWNER_NAME: "e"}, "annotations": {keys::PACKAGE_NAME: "p"}}})
}

fn content() -> Content {
    let namespaced = |api_version, kind, name| {
        let mut object = object(api_version, kind, name);
        object["metadata"]["namespace"] = json!("n");
        object
    };
    let config = json!({"service": {"name": "op-service", "namespace": "n"}});
    let account = namespaced("v1", "ServiceAccount", "op");
    let mut crd = object(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "things.g",
    );
    crd["spec"] = json!({"group": "g", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true}],
        "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": config}}});
    let service = namespaced("v1", "Service", "op-service");
    let mut deployment = namespaced("apps/v1", "Deployment", "op");
    deployment["spec"]["template"]["spec"]["volumes"] =
        json!([{"name": "webhook-cert", "secret": {"secretName": "op-service-cert"}}]);
    let mut admission = object(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "admission",
    );
    // As it is rendered, although the kind has no namespace.
    admission["metadata"]["namespace"] = json!("n");
    admission["webhooks"] = json!([{"name": "v.g", "clientConfig": config}]);
    let phases = [
        ("identity", account),
        ("crds", crd),
        ("infrastructure", service),
        ("deploy", deployment),
        ("admission", admission),
    ];
    Content {
        phases: phases
            .map(|(name, object)| ContentPhase {
                name: name.to_owned(),
                items: vec![Item {
                    key: ObjectKey::of(&object).unwrap(),
                    object,
                    protection: CollisionProtection::Prevent,
                }],
            })
            .into(),
        servings: Vec::new(),
    }
    .with_certificates()
}

fn claim(revision: i64, others: &[i64]) -> Claim {
    Claim {
        uid: format!("u{revision}"),
        name: format!("e-{revision}"),
        revision,
        family: Family {
            extension: "e".into(),
            package: "p".into(),
            namespace: "n".into(),
            account: "n/a".into(),
        },
        siblings: others
            .iter()
            .map(|revision| Sibling {
                uid: format!("u{revision}"),
                name: format!("e-{revision}"),
                revision: *revision,
            })
            .collect(),
    }
}

/// One process that keeps one revision.
struct Process {
    server: ApiServer,
    claim: Claim,
    /// Whether all was there once; otherwise the webhook, which nobody answers here, holds back what follows.
    has_succeeded: bool,
    rotation: Option<String>,
    discovery: Discovery,
    watches: DriftWatches,
    remembered: Remembered,
}

impl Process {
    fn on(server: &ApiServer, claim: Claim) -> Self {
        Self {
            server: server.clone(),
            claim,
            has_succeeded: true,
            rotation: None,
            discovery: Discovery::new(server.client()),
            watches: DriftWatches::new(server.client()).0,
            remembered: Remembered::default(),
        }
    }

    /// An operator that was installed at [`start`].
    async fn installed() -> Self {
        let mut process = Self::on(&server(), claim(1, &[]));
        process.pass(start()).await.unwrap();
        process.server.requests();
        process
    }

    /// The same by a new process.
    fn restarted(&self) -> Self {
        Self {
            rotation: self.rotation.clone(),
            ..Self::on(&self.server, self.claim.clone())
        }
    }

    /// One pass, in which everything is read.
    async fn pass(&mut self, now: Timestamp) -> Result<(), PhasesError> {
        let client = self.server.client();
        let pass = Pass {
            objects: Objects {
                own: &client,
                account: &account(),
                client: &client,
                discovery: &self.discovery,
                claim: &self.claim,
                lives: &|_: &CrdOwner| true,
                had: &|_: &ObjectKey| false,
            },
            watches: &self.watches,
            probes: &[],
            has_succeeded: self.has_succeeded,
            rereads_unwatched: true,
            certificates: Wanted {
                rotation: self.rotation.as_deref(),
                is_superseded: self
                    .claim
                    .siblings
                    .iter()
                    .any(|sibling| sibling.revision > self.claim.revision),
            },
            ahead: Duration::ZERO,
            awaited_by: &|_| None,
            bereaved: &|_| {},
            now,
        };
        let result = pass.apply(&content(), &mut self.remembered).await;
        if result.is_err() {
            self.remembered = Remembered::default();
        }
        result.map(|_| ())
    }

    fn until(&self) -> Timestamp {
        self.remembered.certified.until.unwrap()
    }

    /// What writes changed since the last call, each with its path.
    fn writes(&self) -> Vec<String> {
        let requests = self.server.requests().into_iter();
        let writes = requests.filter(|line| !line.contains(" GET "));
        writes.map(|line| line.replace("controller ", "")).collect()
    }

    fn text(&self, path: &str, pointer: &str) -> String {
        let object = self.server.object(path).unwrap_or_default();
        let text = object.pointer(pointer).and_then(Value::as_str);
        String::from_utf8(STANDARD.decode(text.unwrap_or_default()).unwrap()).unwrap()
    }

    /// The certificate and the key in the Secret.
    fn served(&self) -> (String, String) {
        (
            self.text(SECRET, "/data/tls.crt"),
            self.text(SECRET, "/data/tls.key"),
        )
    }

    /// The bundles of all callers.
    fn bundles(&self) -> [String; 2] {
        [
            self.text(CRD, "/spec/conversion/webhook/clientConfig/caBundle"),
            self.text(ADMISSION, "/webhooks/0/clientConfig/caBundle"),
        ]
    }

    /// Every caller accepts what a Pod serves that has seen this state of the Secret.
    #[track_caller]
    fn accepts(&self, (certificate, key): &(String, String), now: Timestamp) {
        let hosts = &content().servings[0].hosts;
        for bundle in self.bundles() {
            let bundle = authorities(bundle.as_bytes(), now);
            let found = usable(certificate.as_bytes(), key.as_bytes(), &bundle, hosts, now);
            assert!(found.is_some(), "a caller refuses");
        }
    }

    /// How many CAs each caller trusts.
    #[track_caller]
    fn trusts(&self, count: usize) {
        for bundle in self.bundles() {
            assert_eq!(bundle.matches("BEGIN CERTIFICATE").count(), count);
        }
    }
}

#[tokio::test]
async fn an_install_makes_one_certificate_and_then_asks_for_nothing() {
    let mut process = Process::on(&server(), claim(1, &[]));
    process.pass(start()).await.unwrap();
    process.accepts(&process.served(), start());
    process.trusts(1);
    let secret = process.server.object(SECRET).unwrap();
    assert_eq!(secret["type"], "kubernetes.io/tls");
    let metadata = &secret["metadata"];
    assert_eq!(metadata["ownerReferences"][0]["uid"], "u1");
    assert_eq!(metadata["labels"][keys::OWNER_NAME], "e");
    assert_eq!(metadata["annotations"][keys::PACKAGE_NAME], "p");
    let managers: Vec<_> = metadata["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    let held = managers
        .iter()
        .filter(|entry| entry["fieldsV1"].to_string().contains("/data/tls.key"))
        .map(|entry| {
            (
                entry["manager"].as_str().unwrap(),
                entry["operation"].as_str().unwrap(),
            )
        });
    let manager = keys::FIELD_MANAGER_WEBHOOK_CERTIFICATES;
    assert_eq!(held.collect::<Vec<_>>(), [(manager, "Apply")]);
    // What the CA signs with is nowhere.
    let keys = process.server.paths("/").into_iter().map(|path| {
        let text = process.server.object(&path).unwrap().to_string();
        text.matches(&STANDARD.encode("-----BEGIN PRIVATE")).count()
    });
    assert_eq!(keys.sum::<usize>(), 1);
    process.writes();
    assert_eq!(process.until(), renewal());
    process.pass(renewal() - minutes(1)).await.unwrap();
    process
        .restarted()
        .pass(renewal() - minutes(1))
        .await
        .unwrap();
    assert_eq!(process.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn a_renewal_tells_the_callers_first_and_forgets_the_old_ca_later() {
    let mut process = Process::installed().await;
    let old = process.served();
    process.pass(renewal()).await.unwrap();
    let patched = [SECRET, CRD, ADMISSION, SECRET].map(|path| format!("PATCH {path}"));
    assert_eq!(process.writes(), patched);
    let new = process.served();
    assert_ne!(new, old);
    process.trusts(2);
    // The kubelet has not brought it to all Pods yet.
    process.accepts(&old, renewal());
    process.accepts(&new, renewal());
    assert_eq!(process.remembered.certified.renewed.len(), 1);
    assert_eq!(process.until(), renewal() + minutes(10));
    process.pass(renewal() + minutes(9)).await.unwrap();
    assert_eq!(process.writes(), Vec::<String>::new());
    process.pass(renewal() + minutes(10)).await.unwrap();
    let patched = [SECRET, CRD, ADMISSION].map(|path| format!("PATCH {path}"));
    assert_eq!(process.writes(), patched);
    process.trusts(1);
    process.accepts(&new, renewal() + minutes(10));
    assert_eq!(process.served(), new);
    assert_eq!(process.until(), renewal() + LIFE / 3 * 2);
}

#[tokio::test]
async fn wherever_a_renewal_ends_no_call_is_refused_and_a_new_process_ends_it() {
    for others in 0.. {
        let mut process = Process::installed().await;
        let old = process.served();
        process.server.fail_write_after(others);
        let result = process.pass(renewal()).await;
        process.accepts(&old, renewal());
        process.accepts(&process.served(), renewal());
        if result.is_ok() {
            assert_eq!(others, 4, "one write was not interrupted");
            return;
        }
        let mut process = process.restarted();
        let now = renewal() + minutes(1);
        process.pass(now).await.unwrap();
        let new = process.served();
        assert_ne!(new, old);
        process.accepts(&old, now);
        process.accepts(&new, now);
        let done = process.until();
        process.pass(done).await.unwrap();
        process.trusts(1);
        process.accepts(&new, done);
    }
}

#[tokio::test]
async fn wherever_the_removal_of_a_ca_ends_it_is_gone_on_with() {
    for others in 0..3 {
        let mut process = Process::installed().await;
        process.pass(renewal()).await.unwrap();
        let now = process.until();
        process.server.fail_write_after(others);
        process.pass(now).await.unwrap_err();
        process.accepts(&process.served(), now);
        process.restarted().pass(now).await.unwrap();
        process.trusts(1);
        process.accepts(&process.served(), now);
    }
}

#[tokio::test]
async fn wherever_an_install_ends_it_is_gone_on_with() {
    for others in 0.. {
        let mut process = Process::on(&server(), claim(1, &[]));
        process.server.fail_write_after(others);
        if process.pass(start()).await.is_ok() {
            assert!(others > 8, "only {others} writes");
            return;
        }
        let before = process.server.object(SECRET).map(|_| process.served());
        let mut process = process.restarted();
        process.pass(start()).await.unwrap();
        process.accepts(&process.served(), start());
        if let Some(before) = before {
            assert_eq!(before, process.served(), "made twice at {others}");
        }
        process.trusts(1);
        process.pass(start()).await.unwrap();
        process.accepts(&process.served(), start());
    }
}

/// What was made while the clock was ahead is not valid yet.
#[tokio::test]
async fn what_a_wrong_clock_made_is_made_again_by_the_right_one() {
    let (ahead, right) = (start() + minutes(120), start());
    let mut process = Process::on(&server(), claim(1, &[]));
    process.pass(ahead).await.unwrap();
    let wrong = process.served();
    let mut process = process.restarted();
    process.pass(right).await.unwrap();
    assert_ne!(process.served(), wrong);
    process.accepts(&process.served(), right);
}

#[tokio::test]
async fn renewals_that_fail_again_and_again_pile_nothing_up() {
    let mut process = Process::installed().await;
    let old = process.served();
    let mut now = renewal();
    for _ in 0..20 {
        process.server.fail_write_after(3);
        process.pass(now).await.unwrap_err();
        process.accepts(&old, now);
        now += minutes(6);
    }
    // The certificate's own, and those of the last ten minutes.
    process.trusts(3);
}

#[tokio::test]
async fn a_demand_renews_once() {
    let mut process = Process::installed().await;
    let old = process.served();
    process.rotation = Some("please".into());
    let mut process = process.restarted();
    process.pass(start() + minutes(20)).await.unwrap();
    let new = process.served();
    assert_ne!(new, old);
    process.accepts(&old, start() + minutes(20));
    let mut process = process.restarted();
    process.pass(start() + minutes(30)).await.unwrap();
    process.pass(start() + minutes(50)).await.unwrap();
    assert_eq!(process.served(), new);
    process.trusts(1);
}

#[tokio::test]
async fn what_somebody_takes_away_comes_back() {
    let process = Process::installed().await;
    let old = process.served();
    let now = start() + minutes(60);
    let change = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": null}}}}});
    process.server.edit(CRD, &change);
    process.restarted().pass(now).await.unwrap();
    process.accepts(&old, now);
    assert_eq!(process.served(), old);
    // Pods still serve what a Secret held that is gone.
    process
        .server
        .remove(&process.server.object(SECRET).unwrap());
    process.restarted().pass(now).await.unwrap();
    assert_ne!(process.served(), old);
    process.accepts(&process.served(), now);
    process.accepts(&old, now);
    process.trusts(2);
    let broken = process.served();
    process
        .server
        .edit(SECRET, &json!({"data": {"tls.crt": "QQ=="}}));
    let mut process = process.restarted();
    process.pass(now).await.unwrap();
    process.accepts(&process.served(), now);
    process.accepts(&broken, now);
}

#[tokio::test]
async fn a_secret_of_somebody_else_is_a_collision_and_nothing_is_written() {
    let server = server();
    let foreign = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "op-service-cert", "namespace": "n"}});
    server.add(&foreign);
    let mut process = Process::on(&server, claim(1, &[]));
    process.has_succeeded = false;
    let error = process.pass(start()).await.unwrap_err();
    assert!(
        error.to_string().contains("Secret.v1 n/op-service-cert"),
        "{error}"
    );
    assert!(matches!(error, PhasesError::Collisions(_)));
    assert_eq!(process.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn the_next_revision_takes_the_certificate_over_as_it_is() {
    let mut first = Process::installed().await;
    let old = first.served();
    let set = object("olm.operatorframework.io/v1", "ClusterObjectSet", "e-2");
    let set = first.server.add(&set);
    let uid = set["metadata"]["uid"].as_str().unwrap();
    let mut second = Process::on(&first.server, claim(2, &[1]));
    second.claim.uid = uid.to_owned();
    first.claim = claim(1, &[2]);
    first.claim.siblings[0].uid = uid.to_owned();
    // Due, but the next revision is coming.
    first.pass(renewal()).await.unwrap();
    assert_eq!(first.served(), old);
    second.pass(renewal()).await.unwrap();
    assert_eq!(second.served(), old);
    let owners = second.server.object(SECRET).unwrap()["metadata"]["ownerReferences"].clone();
    let owners = owners.as_array().unwrap().iter();
    assert_eq!(
        owners
            .map(|owner| owner["uid"].as_str().unwrap())
            .collect::<Vec<_>>(),
        [uid]
    );
    second.accepts(&old, renewal());
    // Now it is due for the second one, and the first one keeps away.
    assert_eq!(second.until(), renewal());
    second.pass(renewal()).await.unwrap();
    let new = second.served();
    assert_ne!(new, old);
    first.restarted().pass(renewal()).await.unwrap();
    assert_eq!(second.served(), new);
    second.accepts(&new, renewal());
    second.accepts(&old, renewal());
}

#[tokio::test]
async fn a_teardown_leaves_nothing() {
    let process = Process::installed().await;
    let client = process.server.client();
    let teardown = Teardown {
        objects: Objects {
            own: &client,
            account: &account(),
            client: &client,
            discovery: &process.discovery,
            claim: &process.claim,
            lives: &|_: &CrdOwner| true,
            had: &|_: &ObjectKey| false,
        },
        watches: &process.watches,
        occasion: Occasion::Deleted,
        crd_deletion: CrdDeletion::Delete,
        wish: &|_| Wish::Nobody,
        numbers_beside: &[],
        fate: &|_, _| None,
        takes_unowned: &[],
        family: None,
        believes_refusals: true,
        waits_for_resources: true,
    };
    for _ in 0..8 {
        teardown.run(&content()).await.unwrap();
    }
    assert_eq!(process.server.paths("/"), ["/api/v1/namespaces/n"]);
}

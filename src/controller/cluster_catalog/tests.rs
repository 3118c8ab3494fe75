#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests break directories and delete objects"
)]
//! Whole passes: a fake API server, a fake registry, a real store. Numbers such as C04 are those of the acceptance list
//! of `e2e/catalogs.md`.

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

#[tokio::test]
async fn a_catalog_is_served_and_its_status_says_so() {
    let fixture = fixture().await;
    let canonical = fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1")}));
    assert_eq!(fixture.pass().await, Next::OnChange);
    let object = fixture.object();
    assert_eq!(
        object["metadata"]["labels"],
        json!({"olm.operatorframework.io/metadata.name": "operators"})
    );
    assert_eq!(
        object["metadata"]["finalizers"],
        json!(["olm.operatorframework.io/delete-server-cache"])
    );
    let status = &object["status"];
    assert_eq!(
        fixture.condition("Progressing"),
        ["True", "Succeeded", UNPACKED]
    );
    assert!(fixture.is_served());
    assert_eq!(status["resolvedSource"]["image"]["ref"], json!(canonical));
    assert_eq!(
        status["urls"]["base"],
        "https://catalogs.example/catalogs/operators"
    );
    assert!(status["lastUnpacked"].is_string());
    assert_eq!(fixture.packages(), ["first"]);
    // The files of the image are not kept beside the published catalog.
    let images = fixture.directory.path().join("images");
    assert_eq!(fs::read_dir(images).unwrap().count(), 0);
}

#[tokio::test]
async fn a_pass_without_news_writes_nothing_and_asks_nobody() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1"), "pollIntervalMinutes": 5}));
    let Next::After(wait) = fixture.pass().await else {
        panic!("no poll is planned");
    };
    let (most, least) = (
        Duration::from_mins(5).mul_f64(1.02),
        Duration::from_secs(297),
    );
    assert!(wait <= most && wait >= least, "{wait:?}");
    fixture.writes();
    fixture.registry.forget_requests();
    // C19: neither labels nor annotations are a reason to pull.
    fixture
        .api
        .edit(PATH, &json!({"metadata": {"annotations": {"a": "b"}}}));
    fixture.pass().await;
    assert_eq!(fixture.writes(), Vec::<String>::new());
    assert_eq!(fixture.registry.requests(), Vec::<String>::new());
    // C15: what is left of the interval is waited for.
    fixture.age_poll(Duration::from_mins(2));
    let Next::After(rest) = fixture.pass().await else {
        panic!("no poll is planned");
    };
    assert!(
        rest <= Duration::from_secs(184) && rest >= Duration::from_secs(177),
        "{rest:?}"
    );
}

#[tokio::test]
async fn a_poll_of_the_same_digest_costs_one_request_and_no_write() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1"), "pollIntervalMinutes": 1}));
    fixture.pass().await;
    let before = fixture.object();
    fixture.writes();
    fixture.registry.forget_requests();
    fixture.age_poll(Duration::from_secs(61));
    fixture.pass().await;
    assert_eq!(fixture.registry.requests(), ["GET c/manifests/v1"]);
    assert_eq!(fixture.writes(), Vec::<String>::new());
    assert_eq!(fixture.object(), before);
}

#[tokio::test]
async fn a_tag_that_was_pushed_again_is_taken_at_the_next_poll() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1"), "pollIntervalMinutes": 1}));
    fixture.pass().await;
    let second = fixture.push("v1", "second");
    fixture.pass().await;
    assert_eq!(fixture.packages(), ["first"]);
    fixture.age_poll(Duration::from_secs(61));
    fixture.pass().await;
    assert_eq!(fixture.packages(), ["second"]);
    let resolved = &fixture.object()["status"]["resolvedSource"]["image"]["ref"];
    assert_eq!(resolved, &json!(second));
}

#[tokio::test]
async fn another_reference_is_taken_at_once_and_a_failure_keeps_the_old_content() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1")}));
    fixture.pass().await;
    let served = fixture.object()["status"].clone();
    fixture.api.edit(
        PATH,
        &json!({"spec": {"source": {"image": {"ref": fixture.tag("v2")}}}}),
    );
    assert_eq!(fixture.pass().await, Next::Retry);
    assert_eq!(
        fixture.condition("Progressing"),
        [
            "True",
            "Retrying",
            "source catalog content: error creating image source: cannot read manifest of REGISTRY/c:v2: \
             http://REGISTRY/c (no credentials): status 404 Not Found: manifest unknown"
        ]
    );
    assert!(fixture.is_served());
    for field in ["resolvedSource", "urls", "lastUnpacked"] {
        assert_eq!(fixture.object()["status"][field], served[field], "{field}");
    }
    // C18: the next attempt does not wait for a poll.
    fixture.push("v2", "second");
    fixture.pass().await;
    assert_eq!(fixture.packages(), ["second"]);
    assert_eq!(fixture.condition("Progressing")[1], "Succeeded");
}

#[tokio::test]
async fn what_time_cannot_heal_is_blocked() {
    let unlabelled = |fixture: &Fixture| {
        let digest = fixture
            .registry
            .put_image("c", "bare", &[], &[layer(&[("configs/a", "")])]);
        format!("{}/c@{digest}", fixture.registry.authority)
    };
    let broken = |fixture: &Fixture| {
        let files = layer(&[("configs/a.yaml", "[secret")]);
        let digest = fixture
            .registry
            .put_image("c", "broken", &[LABEL], &[files]);
        format!("{}/c@{digest}", fixture.registry.authority)
    };
    for (name, reference, expected) in [
        (
            "not canonical",
            Box::new(|_: &Fixture| "alpine:3".to_owned()) as Box<dyn Fn(&Fixture) -> String>,
            ["False", "Blocked", "source catalog content: "],
        ),
        (
            "no label, by digest",
            Box::new(unlabelled),
            [
                "False",
                "Blocked",
                "source catalog content: error applying image: catalog image is missing the required label \
                 \"operators.operatorframework.io.index.configs.v1\"",
            ],
        ),
        (
            "no label, by tag",
            Box::new(move |fixture: &Fixture| {
                unlabelled(fixture);
                fixture.tag("bare")
            }),
            [
                "True",
                "Retrying",
                "source catalog content: error applying image: ",
            ],
        ),
        (
            "invalid content, by digest",
            Box::new(broken),
            [
                "False",
                "Blocked",
                "error storing fbc: error walking FBC root: a.yaml: line 1, column ",
            ],
        ),
        (
            "invalid content, by tag",
            Box::new(move |fixture: &Fixture| {
                broken(fixture);
                fixture.tag("broken")
            }),
            [
                "True",
                "Retrying",
                "error storing fbc: error walking FBC root: a.yaml: line 1, column ",
            ],
        ),
    ] {
        let fixture = fixture().await;
        fixture.create(&json!({"ref": reference(&fixture)}));
        let next = fixture.pass().await;
        let [status, reason, message] = fixture.condition("Progressing");
        assert_eq!([status.as_str(), reason.as_str()], expected[..2], "{name}");
        assert!(message.starts_with(expected[2]), "{name}: {message}");
        assert!(!message.contains("secret"), "{name}: {message}");
        assert_eq!(next == Next::Blocked(None), reason == "Blocked", "{name}");
        assert_eq!(fixture.condition("Serving")[1], "", "{name}");
        assert!(fixture.object()["status"]["urls"].is_null(), "{name}");
    }
}

#[tokio::test]
async fn set_unavailable_it_is_gone_and_it_comes_back() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1")}));
    fixture.pass().await;
    fixture
        .api
        .edit(PATH, &json!({"spec": {"availabilityMode": "Unavailable"}}));
    assert_eq!(fixture.pass().await, Next::OnChange);
    let text = "Catalog availability mode is set to Unavailable";
    assert_eq!(
        fixture.condition("Progressing"),
        ["True", "Succeeded", text]
    );
    assert_eq!(
        fixture.condition("Serving"),
        ["False", "UserSpecifiedUnavailable", text]
    );
    let object = fixture.object();
    for field in ["resolvedSource", "urls", "lastUnpacked"] {
        assert!(object["status"][field].is_null(), "{field}");
    }
    assert_eq!(
        object["metadata"]["finalizers"]
            .as_array()
            .map_or(0, Vec::len),
        0
    );
    assert_eq!(fixture.packages(), Vec::<String>::new());
    fixture
        .api
        .edit(PATH, &json!({"spec": {"availabilityMode": "Available"}}));
    fixture.pass().await;
    assert!(fixture.is_served());
    assert_eq!(fixture.packages(), ["first"]);
}

#[tokio::test]
async fn a_deleted_catalog_is_served_no_more_and_foreign_finalizers_are_left_alone() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1")}));
    fixture.api.edit(
        PATH,
        &json!({"metadata": {"finalizers": ["example.com/foreign"]}}),
    );
    fixture.pass().await;
    let api: Api<ClusterCatalog> = Api::all(fixture.api.client());
    api.delete("operators", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    assert_eq!(fixture.pass().await, Next::OnChange);
    assert_eq!(fixture.packages(), Vec::<String>::new());
    assert_eq!(
        fixture.object()["metadata"]["finalizers"],
        json!(["example.com/foreign"])
    );
    // C12: what is left is not ours.
    fixture.writes();
    assert_eq!(fixture.pass().await, Next::OnChange);
    assert_eq!(fixture.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn a_follower_serves_what_the_leader_says_and_writes_nothing() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1")}));
    fixture.pass().await;
    let other = tempfile::tempdir().unwrap();
    let follower = context(&fixture.api, other.path());
    follower.leading.store(false, Ordering::Release);
    fixture.writes();
    // As if the leader had unpacked it long ago.
    let mut status = fixture.object()["status"].clone();
    status["lastUnpacked"] = json!("2020-02-02T02:02:02Z");
    fixture.api.set_status(PATH, &status);
    assert_eq!(fixture.pass_of(&follower).await, Next::OnChange);
    let served = follower.served.get("operators").unwrap();
    assert_eq!(
        served.unpacked_at().to_string(),
        "2020-02-02T02:02:02Z",
        "replicas tell the same time"
    );
    assert_eq!(fixture.writes(), Vec::<String>::new());
    fixture.api.set_status(PATH, &json!({}));
    fixture.pass_of(&follower).await;
    assert!(follower.served.get("operators").is_none());
}

#[tokio::test]
async fn a_restart_needs_no_registry() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1"), "pollIntervalMinutes": 10}));
    fixture.pass().await;
    fixture.registry.forget_requests();
    let again = context(&fixture.api, fixture.directory.path());
    let catalog = serde_json::from_value(fixture.object()).unwrap();
    assert!(restore(&catalog, &again).await);
    fixture.writes();
    fixture.pass_of(&again).await;
    assert!(again.served.get("operators").is_some());
    assert_eq!(fixture.registry.requests(), Vec::<String>::new());
    assert_eq!(fixture.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn without_room_the_old_content_stays_and_the_condition_says_why() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1")}));
    fixture.pass().await;
    let content = fixture.ctx.fetcher.store();
    content.set_budget(4096);
    let large = "# ".repeat(4096);
    let files = [("configs/large.yaml", large.as_str())];
    fixture
        .registry
        .put_image("c", "large", &[LABEL], &[layer(&files)]);
    fixture.api.edit(
        PATH,
        &json!({"spec": {"source": {"image": {"ref": fixture.tag("large")}}}}),
    );
    assert_eq!(fixture.pass().await, Next::Retry);
    assert_eq!(
        fixture.condition("Progressing"),
        [
            "True",
            "Retrying",
            "source catalog content: error applying image: the content does not fit into the cache: \
             --cache-max-bytes allows 4096 bytes in all, and what is in use leaves too few of them"
        ]
    );
    assert!(fixture.is_served());
    assert_eq!(fixture.packages(), ["first"]);
    // Whoever collects garbage hears of it.
    tokio::time::timeout(Duration::from_secs(5), content.shortage())
        .await
        .unwrap();
    content.set_budget(1 << 20);
    fixture.pass().await;
    assert_eq!(fixture.condition("Progressing")[1], "Succeeded");
}

#[tokio::test]
async fn a_disk_that_takes_nothing_keeps_the_old_content_served() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1")}));
    fixture.pass().await;
    let staging = fixture.directory.path().join("tmp");
    fs::remove_dir(&staging).unwrap();
    fixture.push("v2", "second");
    fixture.api.edit(
        PATH,
        &json!({"spec": {"source": {"image": {"ref": fixture.tag("v2")}}}}),
    );
    for _ in 0..2 {
        assert_eq!(fixture.pass().await, Next::Retry);
        let [status, reason, message] = fixture.condition("Progressing");
        assert_eq!([status.as_str(), reason.as_str()], ["True", "Retrying"]);
        assert_eq!(
            message,
            format!(
                "source catalog content: error applying image: cannot create a directory in {}: No such file or \
                 directory (os error 2)",
                staging.display()
            )
        );
        assert!(fixture.is_served());
        assert_eq!(fixture.packages(), ["first"]);
    }
    fs::create_dir(&staging).unwrap();
    fixture.pass().await;
    assert_eq!(fixture.packages(), ["second"]);
}

#[tokio::test]
async fn garbage_goes_and_what_is_served_or_wanted_stays() {
    let fixture = fixture().await;
    let names = ["v1", "v2", "v3"];
    let digests: Vec<Digest> = names
        .iter()
        .map(|tag| {
            let canonical = fixture.push(tag, tag);
            CanonicalReference::parse(&canonical).unwrap().digest
        })
        .collect();
    fixture.create(&json!({"ref": fixture.tag("v1")}));
    for tag in names {
        let image = json!({"spec": {"source": {"image": {"ref": fixture.tag(tag)}}}});
        fixture.api.edit(PATH, &image);
        fixture.pass().await;
    }
    let (served, wanted) = (fixture.ctx.served.clone(), digests[1].clone());
    let garbage = Garbage::new(
        fixture.ctx.fetcher.store().clone(),
        fixture.ctx.store.clone(),
        move || Needed {
            catalogs: served
                .digests()
                .into_iter()
                .chain([wanted.clone()])
                .collect(),
            ..Needed::default()
        },
    );
    let there = || -> Vec<bool> {
        let catalogs = fixture.directory.path().join("catalogs");
        let is_there = |digest: &Digest| catalogs.join(digest.hex()).exists();
        digests.iter().map(is_there).collect()
    };
    garbage.collect(Grace::Usual).await;
    assert_eq!(there(), [true, true, true]);
    garbage.collect(Grace::None).await;
    assert_eq!(there(), [false, true, true]);
    assert_eq!(fixture.packages(), ["v3"]);
}

#[tokio::test]
async fn an_answer_that_never_comes_delays_no_other_catalog() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.registry.fail("manifests/hangs", Fault::Silence);
    fixture.create(&json!({"ref": fixture.tag("hangs")}));
    let hanging = fixture.pass();
    fixture.api.add(&json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
        "metadata": {"name": "other"},
        "spec": {"source": {"type": "Image", "image": {"ref": fixture.tag("v1")}}, "availabilityMode": "Available"},
    }));
    let path = PATH.replace("operators", "other");
    let other = serde_json::from_value(fixture.api.object(&path).unwrap()).unwrap();
    tokio::select! {
        next = reconcile(Arc::new(other), fixture.ctx.clone()) => assert_eq!(next, Next::OnChange),
        next = hanging => panic!("{next:?}"),
    }
    assert!(fixture.ctx.served.get("other").is_some());
}

#[tokio::test]
async fn our_own_status_is_no_reason_for_another_attempt() {
    let fixture = fixture().await;
    fixture.create(&json!({"ref": fixture.tag("missing")}));
    let read =
        || -> Arc<ClusterCatalog> { Arc::new(serde_json::from_value(fixture.object()).unwrap()) };
    fixture.pass().await;
    let change = |old: &Arc<ClusterCatalog>| Change::Applied {
        old: Some(old.clone()),
        new: read(),
    };
    let before = read();
    assert!(is_echo(&change(&before), &fixture.ctx));
    fixture
        .api
        .edit(PATH, &json!({"metadata": {"annotations": {"a": "b"}}}));
    assert!(!is_echo(&change(&before), &fixture.ctx));
    let before = read();
    // Somebody else's status is to be corrected.
    fixture.api.set_status(PATH, &json!({"conditions": []}));
    assert!(!is_echo(&change(&before), &fixture.ctx));
    fixture.ctx.leading.store(false, Ordering::Release);
    assert!(!is_echo(&change(&read()), &fixture.ctx));
}

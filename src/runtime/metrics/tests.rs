//! What is told, to whom, over real TLS on the loopback.

#![expect(
    clippy::disallowed_types,
    reason = "the test is a client and an API server, too"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;

use http_body_util::BodyExt as _;
use kube::Api;
use kube::client::Body;
use kube::runtime::watcher;
use reqwest::{Method, StatusCode, header};
use serde_json::{Value, json};
use tower::service_fn;

use super::*;
use crate::api::{ClusterCatalog, ClusterExtension};
use crate::controller::cluster_operator::Known;
use crate::controller::informer::Informer;
use crate::controller::metrics::Controller;
use crate::controller::queue;
use crate::metrics::ALL;
use crate::runtime::telemetry::tests::unused;
use crate::serve::{Certificate, Profile, Served};
use crate::store::ContentStore;
use crate::testing::api_server::ApiServer;

/// A registry of the whole process, with an extension and a catalog that have everything.
async fn everything(directory: &std::path::Path) -> Registry {
    let server = ApiServer::new();
    server.add(&json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": "e\"1", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]},
        "spec": {"namespace": "ns", "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}},
        "status": {
            "conditions": [
                condition("Installed", "True", "Succeeded"),
                condition("Progressing", "Unknown", "Strange"),
                condition("Strange", "True", "Succeeded"),
            ],
            "install": {"bundle": {"name": "p.v1", "version": "1.0.0"}, "catalog": "c"},
            "availableUpdate": {"version": "2.0.0", "bundle": "p.v2"},
        },
    }));
    server.add(&json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": "c"},
        "spec": {"source": {"type": "Image", "image": {"ref": "example.com/c:1"}}},
        "status": {"conditions": [condition("Serving", "False", "Unavailable")]},
    }));
    let client = server.client();
    let requests = Requests::default();
    requests.count("200".into(), "10.96.0.1:443", &Method::GET);
    let stop = CancellationToken::new();
    let config = watcher::Config::default;
    let extensions: Informer<ClusterExtension> =
        Informer::start(Api::all(client.clone()), config(), stop.clone(), |_| {});
    let catalogs: Informer<ClusterCatalog> =
        Informer::start(Api::all(client), config(), stop.clone(), |_| {});
    tokio::join!(extensions.ready(), catalogs.ready());
    let counters = Counters::new(&requests);
    let known = Arc::new(Known::default());
    known.block(std::iter::once("e\"1".to_owned()));
    let openshift: Arc<OnceLock<Arc<Known>>> = Arc::default();
    openshift.set(known).unwrap();
    let objects = Objects {
        extensions,
        catalogs,
        served: Served::default(),
        openshift,
    };
    let (queue, _listener) = queue::queue();
    let queues = queue::work_queues([(Controller::ClusterCatalog, &queue)]);
    let store = ContentStore::open(directory).unwrap();
    let replica = Replica::new(Arc::default(), store);
    let registry = counters.with(queues, replica, objects);
    stop.cancel();
    registry
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn text_of(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    text
}

/// The labels of a series, without what histograms add.
fn labels_of(series: &str) -> BTreeSet<&str> {
    let Some((_, labels)) = series.split_once('{') else {
        return BTreeSet::new();
    };
    let names = labels.split("=\"").filter_map(|part| {
        let name = part.rsplit(['{', ',']).next()?;
        name.chars()
            .all(|c| c.is_ascii_lowercase() || c == '_')
            .then_some(name)
    });
    names
        .filter(|name| !name.is_empty() && *name != "le")
        .collect()
}

#[tokio::test]
async fn what_the_code_tells_is_what_the_table_says() {
    let directory = tempfile::tempdir().unwrap();
    let text = text_of(&everything(directory.path()).await);
    let mut told: BTreeMap<String, String> = BTreeMap::new();
    for line in text.lines() {
        if let Some(about) = line.strip_prefix("# TYPE ") {
            let (family, kind) = about.split_once(' ').unwrap();
            let suffix = if kind == "counter" { "_total" } else { "" };
            let before = told.insert(format!("{family}{suffix}"), kind.to_owned());
            assert_eq!(before, None, "{family} is told twice");
        }
    }
    let table: BTreeMap<String, String> = ALL
        .iter()
        .map(|metric| (metric.name.to_owned(), metric.kind.to_string()))
        .collect();
    assert_eq!(told, table);
    for metric in ALL {
        let series = |line: &&str| {
            let rest = line.strip_prefix(metric.name).unwrap_or_default();
            let rest = ["_bucket", "_sum", "_count"]
                .iter()
                .fold(rest, |rest, suffix| {
                    rest.strip_prefix(suffix).unwrap_or(rest)
                });
            rest.starts_with(['{', ' '])
        };
        for line in text.lines().filter(series) {
            let expected: BTreeSet<&str> = metric.labels.iter().copied().collect();
            assert_eq!(labels_of(line), expected, "{line}");
        }
    }
}

#[tokio::test]
async fn objects_are_told_with_what_is_known_of_them() {
    let directory = tempfile::tempdir().unwrap();
    let text = text_of(&everything(directory.path()).await);
    for line in [
        r#"olm_clusterextension_info{bundle="p.v1",catalog="c",install_namespace="ns",name="e\"1",package="p",version="1.0.0"} 1"#,
        r#"olm_clusterextension_condition{name="e\"1",reason="Succeeded",type="Installed"} 1"#,
        r#"olm_clusterextension_condition{name="e\"1",reason="Other",type="Progressing"} -1"#,
        r#"olm_clusterextension_available_update{bundle="p.v2",name="e\"1",version="2.0.0"} 1"#,
        r#"olm_clusterextension_blocks_cluster_upgrade{name="e\"1"} 1"#,
        r#"olm_clusterextension_deletion_timestamp_seconds{name="e\"1"} 1767225600"#,
        r#"olm_clustercatalog_info{availability="Available",name="c"} 1"#,
        r#"olm_clustercatalog_condition{name="c",reason="Unavailable",type="Serving"} 0"#,
        r#"olm_clustercatalog_served{name="c"} 0"#,
        r#"leader_election_master_status{name="9c4404e7.operatorframework.io"} 0"#,
        r#"olm_drift_repairs_total{action="created"} 0"#,
    ] {
        assert!(text.lines().any(|told| told == line), "{line} in {text}");
    }
    assert!(!text.contains("Strange"), "{text}");
    assert!(text.contains("\nprocess_cpu_seconds_total "), "{text}");
    assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
}

/// An API server that knows the tokens `reader`, `writer` and `nobody`; it counts what it was asked.
fn reviewer(asked: &Arc<AtomicUsize>) -> Client {
    let asked = asked.clone();
    let service = service_fn(move |request: http::Request<Body>| {
        asked.fetch_add(1, Ordering::Relaxed);
        async move {
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let mut review: Value = serde_json::from_slice(&body).unwrap();
            let spec = review["spec"].clone();
            review["status"] = if path.ends_with("/tokenreviews") {
                match spec["token"].as_str().unwrap() {
                    "broken" => return Err(std::io::Error::other("the API server is away")),
                    "stranger" => json!({"authenticated": false}),
                    name => {
                        json!({"authenticated": true, "user": {"username": name, "groups": ["g"]}})
                    }
                }
            } else {
                assert_eq!(spec["groups"], json!(["g"]));
                let asked = &spec["nonResourceAttributes"];
                let allowed = match spec["user"].as_str().unwrap() {
                    "reader" => *asked == json!({"path": "/metrics", "verb": "get"}),
                    "writer" => asked["path"] == "/log-level",
                    _ => false,
                };
                json!({"allowed": allowed})
            };
            let answer = http::Response::builder().status(201);
            let body = Body::from(serde_json::to_vec(&review).unwrap());
            Ok::<_, std::io::Error>(answer.body(body).unwrap())
        }
    });
    Client::new(service, "default")
}

struct Running {
    url: String,
    client: reqwest::Client,
    asked: Arc<AtomicUsize>,
    log_level: LogLevel,
    _directory: tempfile::TempDir,
}

impl Running {
    async fn start(is_secure: bool) -> Self {
        _ = rustls::crypto::ring::default_provider().install_default();
        let asked = Arc::new(AtomicUsize::new(0));
        let directory = tempfile::tempdir().unwrap();
        let names = vec!["127.0.0.1".to_owned()];
        let tls = Tls::load(Certificate::SelfMade { names }, Profile::default()).unwrap();
        let log_level = unused();
        let options = Options {
            address: "127.0.0.1:0".parse().unwrap(),
            secure: is_secure.then(|| (tls, Reviews(reviewer(&asked)))),
            log_level: log_level.clone(),
        };
        let registry = everything(directory.path()).await;
        let address = serve(options, registry, CancellationToken::new()).await;
        let scheme = if is_secure { "https" } else { "http" };
        Self {
            url: format!("{scheme}://{}", address.unwrap()),
            client: reqwest::Client::builder()
                .tls_danger_accept_invalid_certs(true)
                .build()
                .unwrap(),
            asked,
            log_level,
            _directory: directory,
        }
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: &str,
    ) -> (StatusCode, String) {
        let mut request = self.client.request(method, format!("{}{path}", self.url));
        if !token.is_empty() {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let response = request.body(body.to_owned()).send().await.unwrap();
        (response.status(), response.text().await.unwrap())
    }

    async fn get(&self, path: &str, token: &str) -> (u16, String) {
        let (status, text) = self.ask(Method::GET, path, token, "").await;
        (status.as_u16(), text)
    }
}

#[tokio::test]
async fn metrics_are_for_whoever_may_get_them() {
    let running = Running::start(true).await;
    let (status, text) = running.get("/metrics", "reader").await;
    assert_eq!(status, 200);
    assert!(
        text.starts_with("# HELP ")
            && text.contains("\n# TYPE controller_runtime_reconcile_total counter\n"),
        "{text}"
    );
    let (status, text) = running.get("/metrics", "").await;
    assert_eq!(status, 401);
    assert_eq!(
        text,
        "Unauthorized: send the token of an account that may get /metrics (Authorization: Bearer TOKEN)\n"
    );
    let (status, text) = running.get("/metrics", "stranger").await;
    assert_eq!(status, 401);
    assert!(text.contains("does not accept the token"), "{text}");
    let (status, text) = running.get("/metrics", "nobody").await;
    assert_eq!(status, 403);
    assert!(
        text.starts_with("Forbidden: user \"nobody\" may not get /metrics: grant verb get on nonResourceURL /metrics"),
        "{text}"
    );
    let (status, text) = running.get("/metrics", "broken").await;
    assert_eq!(status, 503);
    assert!(text.contains("the API server is away"), "{text}");
    assert_eq!(running.get("/other", "reader").await.0, 404);
}

#[tokio::test]
async fn the_api_server_is_not_asked_again_at_once() {
    let running = Running::start(true).await;
    for _ in 0..3 {
        for (token, status) in [("reader", 200), ("nobody", 403), ("stranger", 401)] {
            assert_eq!(running.get("/metrics", token).await.0, status);
        }
    }
    assert_eq!(running.asked.load(Ordering::Relaxed), 2 + 2 + 1);
    // What it said of one path says nothing of another.
    assert_eq!(running.get("/log-level", "reader").await.0, 403);
}

#[tokio::test]
async fn the_log_level_changes_for_whoever_may_change_it() {
    let running = Running::start(true).await;
    let put = async |token: &'static str, level: &'static str| {
        let (status, text) = running.ask(Method::PUT, "/log-level", token, level).await;
        (status.as_u16(), text)
    };
    assert_eq!(put("reader", "debug").await.0, 403);
    assert_eq!(put("", "debug").await.0, 401);
    assert_eq!(running.log_level.current(), "info");
    assert_eq!(put("writer", "debug\n").await, (200, "debug\n".to_owned()));
    assert_eq!(running.log_level.current(), "debug");
    let (status, text) = put("writer", "loud=very").await;
    assert_eq!(status, 400);
    assert!(
        text.starts_with("Bad Request: cannot read log level \"loud=very\": expected"),
        "{text}"
    );
    assert_eq!(put("writer", " ").await.0, 400);
    assert_eq!(running.get("/log-level", "writer").await.1, "debug\n");
    let reset = running
        .ask(Method::DELETE, "/log-level", "writer", "")
        .await;
    assert_eq!(reset, (StatusCode::OK, "info\n".to_owned()));
    assert_eq!(running.log_level.current(), "info");
}

#[tokio::test]
async fn without_tls_everybody_reads_and_nobody_changes() {
    let running = Running::start(false).await;
    assert_eq!(running.get("/metrics", "").await.0, 200);
    assert_eq!(
        running.get("/log-level", "").await,
        (200, "info\n".to_owned())
    );
    let (status, text) = running.ask(Method::PUT, "/log-level", "", "debug").await;
    assert_eq!(status, 403);
    assert!(text.contains("over HTTPS only"), "{text}");
    assert_eq!(running.log_level.current(), "info");
}

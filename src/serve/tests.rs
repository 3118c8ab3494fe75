//! The server over real TLS on the loopback, asked by a real client.

mod answers;
mod parts;
mod served;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::SocketAddr;

use reqwest::header::{self, HeaderMap};
use reqwest::{Client, Method, StatusCode};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::oci::digest::Digest;
use crate::store::catalog::CatalogStore;
use crate::store::limits::Limits;
use crate::store::{Added, CONFIGS_LABEL, ContentStore, Wanted};

const PACKAGE: &str = "{\"name\":\"p\",\"schema\":\"olm.package\"}\n";
const CHANNEL: &str = "{\"name\":\"stable\",\"package\":\"p\",\"schema\":\"olm.channel\"}\n";
const LOST: &str = "{\"name\":\"lost\",\"package\":\"p\"}\n";
const NOTE: &str = "{\"name\":\"n\",\"schema\":\"custom\"}\n";

/// A bundle that is large enough to be compressed.
fn bundle() -> String {
    let description = "x".repeat(2000);
    format!(
        "{{\"description\":\"{description}\",\"name\":\"p.v1\",\"package\":\"p\",\"schema\":\"olm.bundle\"}}\n"
    )
}

fn everything() -> String {
    [PACKAGE, CHANNEL, LOST, &bundle(), NOTE].concat()
}

fn part(text: &str, range: std::ops::Range<usize>) -> String {
    text.get(range).unwrap().to_owned()
}

/// A running server with a catalog `c` that holds [`everything`] and an empty one, `empty`.
struct Running {
    address: SocketAddr,
    served: Served,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
    client: Client,
    registry: prometheus_client::registry::Registry,
    _directory: tempfile::TempDir,
}

fn served_catalog(catalogs: &CatalogStore, content: &ContentStore, text: &str) -> StoredCatalog {
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    archive
        .append_data(&mut header, "configs/catalog.json", text.as_bytes())
        .unwrap();
    let layer = archive.into_inner().unwrap();
    let labels = BTreeMap::from([(CONFIGS_LABEL.to_owned(), "/configs".to_owned())]);
    let digest = Digest::of(text.as_bytes());
    let wanted = Wanted::of(&labels).unwrap();
    let added = content.add(
        &digest,
        &labels,
        &wanted,
        &Limits::default(),
        [layer.as_slice()],
    );
    let Added::Image(image) = added.unwrap() else {
        panic!("there are no links");
    };
    catalogs.publish(&image).unwrap()
}

/// How to serve there, with a certificate of our own.
fn on(address: SocketAddr, profile: Profile) -> Options {
    let certificate = Certificate::SelfMade {
        names: vec!["localhost".to_owned(), "127.0.0.1".to_owned()],
    };
    Options::of_content(address, Tls::load(certificate, profile).unwrap())
}

async fn run() -> Running {
    // Another test may have been first.
    _ = rustls::crypto::ring::default_provider().install_default();
    let directory = tempfile::tempdir().unwrap();
    let content = ContentStore::open(directory.path()).unwrap();
    let catalogs = CatalogStore::new(content.clone()).unwrap();
    let served = Served::default();
    served.set(
        "c",
        Arc::new(served_catalog(&catalogs, &content, &everything())),
    );
    served.set("empty", Arc::new(served_catalog(&catalogs, &content, "")));
    let mut registry = prometheus_client::registry::Registry::default();
    let metrics = Metrics::register(&mut registry);
    let server = Server::bind(
        on("127.0.0.1:0".parse().unwrap(), Profile::default()),
        router(served.clone(), metrics.clone()),
    )
    .await
    .unwrap();
    let address = server.address();
    let stop = CancellationToken::new();
    #[expect(clippy::disallowed_methods, reason = "a test of the shell")]
    let task = tokio::spawn(server.run(stop.clone()));
    let client = Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    Running {
        address,
        served,
        stop,
        task,
        client,
        registry,
        _directory: directory,
    }
}

/// What came back.
#[derive(Debug)]
struct Got {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Got {
    fn header(&self, name: header::HeaderName) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    fn unzipped(&self) -> String {
        let mut text = String::new();
        flate2::read::MultiGzDecoder::new(self.body.as_slice())
            .read_to_string(&mut text)
            .unwrap();
        text
    }
}

impl Running {
    async fn ask(&self, method: Method, path: &str, headers: &[(header::HeaderName, &str)]) -> Got {
        let url = format!("https://{}{path}", self.address);
        let mut request = self.client.request(method, url);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let response = request.send().await.unwrap();
        Got {
            status: response.status(),
            headers: response.headers().clone(),
            body: response.bytes().await.unwrap().to_vec(),
        }
    }

    async fn get(&self, path: &str) -> Got {
        self.ask(Method::GET, path, &[]).await
    }

    async fn get_with(&self, path: &str, name: header::HeaderName, value: &str) -> Got {
        self.ask(Method::GET, path, &[(name, value)]).await
    }
}

const ALL: &str = "/catalogs/c/api/v1/all";
const METAS: &str = "/catalogs/c/api/v1/metas";

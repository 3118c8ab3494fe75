//! The server over real TLS on the loopback, asked by a real client.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::SocketAddr;

use reqwest::header::{self, HeaderMap};
use reqwest::{Client, Method, StatusCode};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::oci::digest::Digest;
use crate::store::catalog::CatalogStore;
use crate::store::unpack::Limits;
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

#[tokio::test]
async fn all_sends_everything_with_its_validators() {
    let server = run().await;
    let got = server.get(ALL).await;
    assert_eq!(got.status, 200);
    assert_eq!(got.text(), everything());
    assert_eq!(got.header(header::CONTENT_TYPE), "application/jsonl");
    assert_eq!(
        got.header(header::CONTENT_LENGTH),
        everything().len().to_string()
    );
    assert_eq!(got.header(header::ACCEPT_RANGES), "bytes");
    assert_eq!(got.header(header::VARY), "Accept-Encoding");
    let catalog = server.served.get("c").unwrap();
    assert_eq!(got.header(header::ETAG), format!("\"{}\"", catalog.etag()));
    let modified = httpdate::parse_http_date(got.header(header::LAST_MODIFIED)).unwrap();
    assert_eq!(
        jiff::Timestamp::try_from(modified).unwrap(),
        catalog.unpacked_at()
    );
    let empty = server.get("/catalogs/empty/api/v1/all").await;
    assert_eq!((empty.status.as_u16(), empty.text().as_str()), (200, ""));
}

#[tokio::test]
async fn head_sends_the_headers_alone() {
    let server = run().await;
    for path in [ALL, METAS] {
        let got = server
            .ask(Method::HEAD, path, &[(header::ACCEPT_ENCODING, "gzip")])
            .await;
        assert_eq!((got.status.as_u16(), got.body.len()), (200, 0));
        assert_eq!(
            got.header(header::CONTENT_LENGTH),
            everything().len().to_string()
        );
        assert_eq!(got.header(header::CONTENT_ENCODING), "");
    }
}

#[tokio::test]
async fn metas_sends_what_fits_every_parameter() {
    let server = run().await;
    let bundle = bundle();
    for (query, expected) in [
        ("", everything()),
        ("?", everything()),
        ("?schema=", everything()),
        ("?schema=olm.package", PACKAGE.to_owned()),
        ("?schema=olm.package&name=p", PACKAGE.to_owned()),
        (
            "?schema=olm.channel&package=p&name=stable",
            CHANNEL.to_owned(),
        ),
        ("?package=p", format!("{CHANNEL}{bundle}")),
        ("?package=p&name=p.v1", bundle.clone()),
        ("?name=n&name=p", NOTE.to_owned()),
        ("?schema=custom&package=", NOTE.to_owned()),
        ("?schema=nothing", String::new()),
        ("?package=P", String::new()),
        ("?schema=olm%2Epackage", PACKAGE.to_owned()),
    ] {
        let got = server.get(&format!("{METAS}{query}")).await;
        assert_eq!(got.status, 200, "{query}");
        assert_eq!(got.header(header::CONTENT_TYPE), "application/jsonl");
        assert_eq!(got.text(), expected, "{query}");
    }
}

#[tokio::test]
async fn wrong_requests_are_answered_as_the_reference_does() {
    let server = run().await;
    let not_found = "404 page not found\n";
    for (method, path, status, body) in [
        (Method::GET, "/", 404, not_found),
        (Method::GET, "/catalogs/", 404, not_found),
        (Method::GET, "/catalogs/c/", 404, not_found),
        (Method::GET, "/catalogs/c/api/", 404, not_found),
        (Method::GET, "/catalogs/c/api/v1c", 404, not_found),
        (Method::GET, "/catalogs/c/api/v1/all/", 404, not_found),
        (Method::GET, "/catalogs/c/file.txt", 404, not_found),
        (Method::GET, "/catalogs/c.jsonl", 404, not_found),
        (Method::POST, "/catalogs/c/api/v1/graphql", 404, not_found),
        (
            Method::GET,
            "/catalogs/x/api/v1/all",
            404,
            "404 Not Found\n",
        ),
        (
            Method::GET,
            "/catalogs/x/api/v1/metas",
            404,
            "404 Not Found\n",
        ),
        (
            Method::GET,
            "/catalogs/x/api/v1/metas?foo=1",
            400,
            "400 Bad Request\n",
        ),
        (
            Method::GET,
            "/catalogs/c/api/v1/metas?Schema=x",
            400,
            "400 Bad Request\n",
        ),
        (Method::POST, ALL, 405, "Method Not Allowed\n"),
        (Method::PUT, METAS, 405, "Method Not Allowed\n"),
        (
            Method::DELETE,
            "/catalogs/X/api/v1/all",
            405,
            "Method Not Allowed\n",
        ),
    ] {
        let got = server.ask(method, path, &[]).await;
        assert_eq!(
            (got.status.as_u16(), got.text().as_str()),
            (status, body),
            "{path}"
        );
        assert_eq!(
            got.header(header::CONTENT_TYPE),
            "text/plain; charset=utf-8"
        );
        assert_eq!(got.header(header::X_CONTENT_TYPE_OPTIONS), "nosniff");
        assert_eq!(got.header(header::VARY), "Accept-Encoding");
        assert_eq!(got.header(header::ALLOW), "");
    }
    for name in ["C", "-c", "c_d", "c%2Fd", "a..b", "%ff"] {
        let got = server.get(&format!("/catalogs/{name}/api/v1/all")).await;
        assert_eq!(got.status, 400, "{name}");
        assert!(got.text().contains("RFC 1123 subdomain"), "{name}");
    }
    assert_eq!(server.get("/catalogs/%63/api/v1/all").await.status, 200);
}

#[tokio::test]
async fn an_unclean_path_is_sent_to_the_clean_one() {
    let server = run().await;
    let got = server.get("/catalogs//c/api/v1/metas?name=p").await;
    assert_eq!(got.status, 301);
    assert_eq!(
        got.header(header::LOCATION),
        "/catalogs/c/api/v1/metas?name=p"
    );
}

#[tokio::test]
async fn who_has_it_already_is_told_so() {
    let server = run().await;
    for path in [ALL, "/catalogs/c/api/v1/metas?package=p"] {
        let first = server.get(path).await;
        let (etag, modified) = (
            first.header(header::ETAG),
            first.header(header::LAST_MODIFIED),
        );
        for (name, value, status) in [
            (header::IF_NONE_MATCH, etag, 304),
            (header::IF_MODIFIED_SINCE, modified, 304),
            (header::IF_MODIFIED_SINCE, "yesterday", 200),
            (header::IF_NONE_MATCH, "\"other\"", 200),
            (header::IF_MATCH, "\"other\"", 412),
            (header::IF_MATCH, etag, 200),
            (
                header::IF_UNMODIFIED_SINCE,
                "Sun, 06 Nov 1994 08:49:37 GMT",
                412,
            ),
        ] {
            let got = server.get_with(path, name.clone(), value).await;
            assert_eq!(got.status.as_u16(), status, "{path} {name}: {value}");
            assert_eq!(got.body.is_empty(), status != 200, "{path} {name}: {value}");
            assert_eq!(got.header(header::ETAG), etag);
        }
    }
}

#[tokio::test]
async fn ranges_are_sent() {
    let server = run().await;
    let whole = everything();
    let got = server.get_with(ALL, header::RANGE, "bytes=5-9").await;
    assert_eq!(
        (got.status.as_u16(), got.text()),
        (206, part(&whole, 5..10))
    );
    assert_eq!(
        got.header(header::CONTENT_RANGE),
        format!("bytes 5-9/{}", whole.len())
    );
    // A range over the gap between two blobs that are not neighbours in the file.
    let got = server
        .get_with(
            "/catalogs/c/api/v1/metas?package=p",
            header::RANGE,
            "bytes=50-69",
        )
        .await;
    let found = format!("{CHANNEL}{}", bundle());
    assert_eq!(
        (got.status.as_u16(), got.text()),
        (206, part(&found, 50..70))
    );
    let got = server.get_with(ALL, header::RANGE, "bytes=99999-").await;
    assert_eq!(got.status, 416);
    assert_eq!(
        got.header(header::CONTENT_RANGE),
        format!("bytes */{}", whole.len())
    );
    let got = server
        .ask(
            Method::GET,
            ALL,
            &[
                (header::RANGE, "bytes=0-4"),
                (header::IF_RANGE, "\"other\""),
            ],
        )
        .await;
    assert_eq!((got.status.as_u16(), got.text()), (200, whole.clone()));
    let got = server
        .ask(
            Method::GET,
            ALL,
            &[
                (header::RANGE, "bytes=0-4"),
                (header::ACCEPT_ENCODING, "gzip"),
            ],
        )
        .await;
    assert_eq!((got.status.as_u16(), got.text()), (206, part(&whole, 0..5)));
}

#[tokio::test]
async fn several_ranges_are_sent_as_parts() {
    let server = run().await;
    let whole = everything();
    let got = server.get_with(ALL, header::RANGE, "bytes=0-1,7-9").await;
    assert_eq!(got.status, 206);
    let kind = got.header(header::CONTENT_TYPE);
    let boundary = kind
        .strip_prefix("multipart/byteranges; boundary=")
        .unwrap();
    let size = whole.len();
    assert_eq!(
        got.text(),
        format!(
            "--{boundary}\r\nContent-Range: bytes 0-1/{size}\r\nContent-Type: application/jsonl\r\n\r\n{}\r\n\
             --{boundary}\r\nContent-Range: bytes 7-9/{size}\r\nContent-Type: application/jsonl\r\n\r\n{}\r\n\
             --{boundary}--\r\n",
            part(&whole, 0..2),
            part(&whole, 7..10)
        )
    );
    assert_eq!(
        got.header(header::CONTENT_LENGTH),
        got.body.len().to_string()
    );
}

#[tokio::test]
async fn large_answers_are_compressed_for_whoever_takes_it() {
    let server = run().await;
    for (path, expected) in [
        (ALL, everything()),
        (METAS, everything()),
        ("/catalogs/c/api/v1/metas?schema=olm.bundle", bundle()),
    ] {
        let got = server
            .get_with(path, header::ACCEPT_ENCODING, "br, gzip")
            .await;
        assert_eq!(got.header(header::CONTENT_ENCODING), "gzip", "{path}");
        assert_eq!(got.header(header::ACCEPT_RANGES), "");
        assert_eq!(got.unzipped(), expected, "{path}");
        let etag = got.header(header::ETAG).to_owned();
        assert!(etag.ends_with("-gzip\""));
        let again = server.get_with(path, header::IF_NONE_MATCH, &etag).await;
        assert_eq!(again.status, 304);
    }
    let small = "/catalogs/c/api/v1/metas?schema=custom";
    let got = server
        .get_with(small, header::ACCEPT_ENCODING, "gzip")
        .await;
    assert_eq!(
        (got.header(header::CONTENT_ENCODING), got.text()),
        ("", NOTE.to_owned())
    );
}

#[tokio::test]
async fn many_ask_at_once() {
    let server = run().await;
    let asked = (0..100).map(|number| {
        let path = match number % 3 {
            0 => ALL,
            1 => METAS,
            _ => "/catalogs/c/api/v1/metas?schema=olm.package",
        };
        server.get(path)
    });
    for got in futures::future::join_all(asked).await {
        assert_eq!(got.status, 200);
    }
}

#[tokio::test]
async fn what_is_no_longer_served_is_not_found() {
    let server = run().await;
    assert_eq!(server.served.names(), ["c", "empty"]);
    server.served.remove("c");
    server.served.remove("c");
    assert_eq!(server.get(ALL).await.status, 404);
}

#[tokio::test]
async fn the_server_ends_when_it_is_told_to() {
    let server = run().await;
    assert_eq!(server.get(ALL).await.status, 200);
    server.stop.cancel();
    server.task.await.unwrap();
    let url = format!("https://{}{ALL}", server.address);
    assert!(server.client.get(url).send().await.is_err());
}

#[tokio::test]
async fn an_address_that_is_taken_is_an_error() {
    let server = run().await;
    let error = Server::bind(
        on(server.address, Profile::default()),
        router(Served::default(), Metrics::default()),
    )
    .await
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot listen on {}", server.address)
    );
}

#[tokio::test]
async fn zstd_comes_from_the_disk_or_is_made_on_the_way() {
    let server = run().await;
    for (path, expected) in [
        (ALL, everything()),
        (METAS, everything()),
        ("/catalogs/c/api/v1/metas?schema=olm.bundle", bundle()),
    ] {
        let got = server
            .get_with(path, header::ACCEPT_ENCODING, "gzip, zstd")
            .await;
        assert_eq!(got.header(header::CONTENT_ENCODING), "zstd", "{path}");
        assert_eq!(got.header(header::VARY), "Accept-Encoding");
        let mut text = String::new();
        let mut body = got.body.as_slice();
        while !body.is_empty() {
            let mut frame = ruzstd::decoding::StreamingDecoder::new(&mut body).unwrap();
            frame.read_to_string(&mut text).unwrap();
        }
        assert_eq!(text, expected, "{path}");
        let etag = got.header(header::ETAG).to_owned();
        assert!(etag.ends_with("-zstd\""));
        let again = server.get_with(path, header::IF_NONE_MATCH, &etag).await;
        assert_eq!(again.status, 304);
    }
}

#[tokio::test]
async fn requests_are_counted_by_their_code_when_they_are_over() {
    let server = run().await;
    server.get(ALL).await;
    server.get(METAS).await;
    server.get("/catalogs/none/api/v1/all").await;
    let mut text = String::new();
    for _ in 0..500 {
        text.clear();
        prometheus_client::encoding::text::encode(&mut text, &server.registry).unwrap();
        if text.contains("_count{code=\"200\"} 2\n") {
            break;
        }
        // The last byte is sent before its request is counted.
        tokio::task::yield_now().await;
    }
    for line in [
        "catalogd_http_request_duration_seconds_count{code=\"200\"} 2",
        "catalogd_http_request_duration_seconds_count{code=\"404\"} 1",
        "catalogd_http_request_duration_seconds_bucket{le=\"0.1\",code=\"404\"} 1",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

/// A client that speaks at most this version.
fn client_of(version: reqwest::tls::Version) -> Client {
    Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .tls_version_max(version)
        .build()
        .unwrap()
}

#[tokio::test]
async fn profiles_decide_which_tls_is_spoken() {
    use reqwest::tls::Version;
    _ = rustls::crypto::ring::default_provider().install_default();
    for (profile, version, is_answered) in [
        (Profile::Intermediate, Version::TLS_1_2, true),
        (Profile::Intermediate, Version::TLS_1_3, true),
        (Profile::Modern, Version::TLS_1_3, true),
        (Profile::Modern, Version::TLS_1_2, false),
    ] {
        let options = on("127.0.0.1:0".parse().unwrap(), profile);
        let stop = CancellationToken::new();
        let router = router(Served::default(), Metrics::default());
        let (address, _task) = start(options, router, stop.clone()).await.unwrap();
        let asked = client_of(version).get(format!("https://{address}/")).send();
        assert_eq!(asked.await.is_ok(), is_answered, "{profile:?} {version:?}");
        stop.cancel();
    }
}

#[test]
fn other_profiles_are_refused_with_the_list_of_what_there_is() {
    assert_eq!("Modern".parse(), Ok(Profile::Modern));
    assert_eq!("INTERMEDIATE".parse(), Ok(Profile::Intermediate));
    let error = "old".parse::<Profile>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown TLS profile \"old\": there are modern (TLS 1.3) and intermediate (TLS 1.2 and 1.3)"
    );
}

#![expect(clippy::disallowed_methods, reason = "a server for tests")]
//! A registry on the wire, on 127.0.0.1, with whatever faults a test asks for.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::sync::{Arc, Mutex, Once};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{StreamExt as _, stream};
use http::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, LOCATION, RANGE, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use http::{Method, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::oci::digest::Digest;
use crate::oci::manifest::media_type;
use crate::oci::reference::Reference;

/// Installs the crypto provider that HTTP clients need; harmless when called again.
pub(crate) fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error only means that it is installed.
        _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// A registry that ends with the value.
pub(crate) struct FakeRegistry {
    /// Host and port.
    pub(crate) authority: String,
    state: Shared,
    server: tokio::task::JoinHandle<()>,
}

type Shared = Arc<Mutex<Content>>;

#[derive(Default)]
struct Content {
    authority: String,
    /// By `repository/tag` and `repository/digest`.
    manifests: BTreeMap<String, (String, Bytes)>,
    blobs: BTreeMap<String, Bytes>,
    faults: VecDeque<(String, Fault)>,
    login: Option<Login>,
    log: Vec<String>,
}

/// How clients must prove who they are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Login {
    /// `user:secret` with each request.
    Basic,
    /// A token of `/token`, which wants `user:secret`.
    Token,
}

/// What goes wrong, once, with the next request whose path contains a text.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// This status; with `Retry-After` if there is a number of seconds.
    Status(u16, Option<u64>),
    /// This many bytes, then the connection breaks.
    CutAfter(usize),
    /// Other content, with status 200.
    Content(Bytes),
    /// A redirect to this address; `{here}` stands for the registry's.
    Redirect(String),
    /// No `Range` is honoured.
    IgnoreRange,
    /// The answer never comes.
    Silence,
}

impl FakeRegistry {
    pub(crate) async fn start() -> Self {
        Self::serve(None).await
    }

    /// Speaks TLS, and HTTP/2 in it, with a certificate of its own making, which is returned as PEM.
    pub(crate) async fn start_tls() -> (Self, String) {
        Self::start_tls_with(rcgen::IsCa::NoCa).await
    }

    /// The same, with a certificate that may sign others, or not.
    pub(crate) async fn start_tls_with(is_ca: rcgen::IsCa) -> (Self, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.is_ca = is_ca;
        let made = params.self_signed(&key).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        install_crypto();
        let mut config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let registry = Self::serve(Some(TlsAcceptor::from(Arc::new(config)))).await;
        (registry, made.pem())
    }

    async fn serve(tls: Option<TlsAcceptor>) -> Self {
        install_crypto();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let state = Shared::default();
        state.lock().unwrap().authority.clone_from(&authority);
        let app = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&state));
        let server = tokio::spawn(async move {
            match tls {
                None => axum::serve(listener, app).await.unwrap(),
                Some(tls) => serve_tls(&listener, &tls, &app).await,
            }
        });
        Self {
            authority,
            state,
            server,
        }
    }

    /// `repository:tag` or `repository@digest` here.
    pub(crate) fn reference(&self, rest: &str) -> Reference {
        Reference::parse(&format!("{}/{rest}", self.authority)).unwrap()
    }

    pub(crate) fn require(&self, login: Login) {
        self.state.lock().unwrap().login = Some(login);
    }

    /// Lets the next request whose path contains `path` go wrong.
    pub(crate) fn fail(&self, path: &str, fault: Fault) {
        self.state
            .lock()
            .unwrap()
            .faults
            .push_back((path.to_owned(), fault));
    }

    /// Method and path of every request so far, without the repository's `/v2/`.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.lock().unwrap().log.clone()
    }

    pub(crate) fn forget_requests(&self) {
        self.state.lock().unwrap().log.clear();
    }

    pub(crate) fn put_blob(&self, bytes: impl Into<Bytes>) -> Digest {
        let bytes = bytes.into();
        let digest = Digest::of(&bytes);
        self.state
            .lock()
            .unwrap()
            .blobs
            .insert(digest.to_string(), bytes);
        digest
    }

    /// Serves `bytes` as the manifest of `repository:tag` and by its digest.
    pub(crate) fn put_manifest(
        &self,
        repository: &str,
        tag: &str,
        content_type: &str,
        bytes: impl Into<Bytes>,
    ) -> Digest {
        let bytes = bytes.into();
        let digest = Digest::of(&bytes);
        let mut content = self.state.lock().unwrap();
        for name in [tag, digest.as_str()] {
            let found = (content_type.to_owned(), bytes.clone());
            content
                .manifests
                .insert(format!("{repository}/{name}"), found);
        }
        digest
    }

    /// Serves an image of these labels and layers as `repository:tag`.
    pub(crate) fn put_image(
        &self,
        repository: &str,
        tag: &str,
        labels: &[(&str, &str)],
        layers: &[Vec<u8>],
    ) -> Digest {
        let labels: BTreeMap<_, _> = labels.iter().copied().collect();
        let config = json!({"os": "linux", "config": {"Labels": labels}}).to_string();
        let describe = |media_type: &str, bytes: &[u8]| {
            let digest = self.put_blob(bytes.to_vec());
            json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
        };
        let layers: Vec<_> = layers
            .iter()
            .map(|layer| describe(media_type::OCI_LAYER_GZIP, layer))
            .collect();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": media_type::OCI_MANIFEST,
            "config": describe(media_type::OCI_CONFIG, config.as_bytes()),
            "layers": layers,
        });
        self.put_manifest(
            repository,
            tag,
            media_type::OCI_MANIFEST,
            manifest.to_string(),
        )
    }
}

async fn serve_tls(listener: &TcpListener, tls: &TlsAcceptor, app: &Router) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (tls, app) = (tls.clone(), app.clone());
        tokio::spawn(async move {
            // A client that does not trust the certificate hangs up.
            if let Ok(stream) = tls.accept(stream).await {
                let service = TowerToHyperService::new(app);
                let connection = auto::Builder::new(TokioExecutor::new());
                _ = connection
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            }
        });
    }
}

impl Drop for FakeRegistry {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// A gzipped tar of these files.
pub(crate) fn layer(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, content) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0);
        archive
            .append_data(&mut header, name, content.as_bytes())
            .unwrap();
    }
    let mut encoder = archive.into_inner().unwrap();
    encoder.flush().unwrap();
    encoder.finish().unwrap()
}

async fn answer(State(state): State<Shared>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let header = |name| {
        parts
            .headers
            .get(name)
            .and_then(|value: &http::HeaderValue| value.to_str().ok())
    };
    let range = header(RANGE).map(str::to_owned);
    let authorization = header(AUTHORIZATION).unwrap_or_default().to_owned();
    let content_type = header(CONTENT_TYPE).unwrap_or_default().to_owned();
    let body = to_bytes(body, 1 << 30).await.unwrap_or_default();
    let (fault, login, authority) = {
        let mut content = state.lock().unwrap();
        let mut line = format!(
            "{} {}",
            parts.method,
            path.strip_prefix("/v2/").unwrap_or(&path)
        );
        if let Some(range) = &range {
            line = format!("{line} {range}");
        }
        content.log.push(line);
        let at = content
            .faults
            .iter()
            .position(|(text, _)| path.contains(text.as_str()));
        let fault = at
            .and_then(|at| content.faults.remove(at))
            .map(|(_, fault)| fault);
        (fault, content.login, content.authority.clone())
    };
    let mut range = range;
    let mut cut = None;
    match fault {
        None => {}
        Some(Fault::Status(status, retry_after)) => {
            let mut response = Response::builder().status(status);
            if let Some(seconds) = retry_after {
                response = response.header(RETRY_AFTER, seconds);
            }
            return response.body(Body::empty()).unwrap();
        }
        Some(Fault::Content(bytes)) => return Response::new(Body::from(bytes)),
        Some(Fault::Redirect(target)) => {
            let target = target.replace("{here}", &format!("http://{authority}"));
            return Response::builder()
                .status(307)
                .header(LOCATION, target)
                .body(Body::empty())
                .unwrap();
        }
        Some(Fault::IgnoreRange) => range = None,
        Some(Fault::CutAfter(bytes)) => cut = Some(bytes),
        Some(Fault::Silence) => std::future::pending().await,
    }
    let basic = format!("Basic {}", STANDARD.encode("user:secret"));
    if path == "/token" {
        let token = json!({"token": "the-token", "expires_in": 300}).to_string();
        return if authorization == basic {
            Response::new(Body::from(token))
        } else {
            error(401, "UNAUTHORIZED")
        };
    }
    let (expected, challenge) = match login {
        None => (String::new(), String::new()),
        Some(Login::Basic) => (basic, "Basic realm=\"fake\"".to_owned()),
        Some(Login::Token) => (
            "Bearer the-token".to_owned(),
            format!("Bearer realm=\"http://{authority}/token\",service=\"fake\""),
        ),
    };
    if login.is_some() && authorization != expected {
        let mut response = error(401, "UNAUTHORIZED");
        response
            .headers_mut()
            .insert(WWW_AUTHENTICATE, challenge.parse().unwrap());
        return response;
    }
    route(
        &state,
        &parts.method,
        &path,
        &query,
        &content_type,
        range.as_deref(),
        cut,
        body,
    )
}

#[expect(clippy::too_many_arguments, reason = "the parts of one request")]
fn route(
    state: &Shared,
    method: &Method,
    path: &str,
    query: &str,
    content_type: &str,
    range: Option<&str>,
    cut: Option<usize>,
    body: Bytes,
) -> Response {
    let mut content = state.lock().unwrap();
    let Some(path) = path.strip_prefix("/v2/") else {
        return error(404, "NOT_FOUND");
    };
    if let Some((repository, name)) = path.split_once("/manifests/") {
        let key = format!("{repository}/{name}");
        if method == Method::PUT {
            let digest = Digest::of(&body);
            for name in [name, digest.as_str()] {
                let found = (content_type.to_owned(), body.clone());
                content
                    .manifests
                    .insert(format!("{repository}/{name}"), found);
            }
            return Response::builder().status(201).body(Body::empty()).unwrap();
        }
        return match content.manifests.get(&key) {
            Some((content_type, bytes)) => serve(bytes, content_type, None, cut),
            None => error(404, "MANIFEST_UNKNOWN"),
        };
    }
    if let Some((repository, rest)) = path.split_once("/blobs/uploads/") {
        return match (method.as_str(), query.split_once("digest=")) {
            ("POST", _) => {
                let location = format!("/v2/{repository}/blobs/uploads/1?state=x");
                Response::builder()
                    .status(202)
                    .header(LOCATION, location)
                    .body(Body::empty())
                    .unwrap()
            }
            ("PUT", Some((_, digest))) if rest == "1" && query.contains("state=x") => {
                let digest = digest.replace("%3A", ":");
                if Digest::of(&body).as_str() != digest {
                    return error(400, "DIGEST_INVALID");
                }
                content.blobs.insert(digest, body);
                Response::builder().status(201).body(Body::empty()).unwrap()
            }
            _ => error(404, "BLOB_UPLOAD_UNKNOWN"),
        };
    }
    if let Some((_, digest)) = path.split_once("/blobs/") {
        return match content.blobs.get(digest) {
            Some(bytes) => serve(bytes, "application/octet-stream", range, cut),
            None => error(404, "BLOB_UNKNOWN"),
        };
    }
    error(404, "NOT_FOUND")
}

fn serve(bytes: &Bytes, content_type: &str, range: Option<&str>, cut: Option<usize>) -> Response {
    let from = range.and_then(|range| {
        range
            .strip_prefix("bytes=")?
            .strip_suffix('-')?
            .parse()
            .ok()
    });
    let from: usize = from.unwrap_or_default();
    let part = bytes.slice(from..);
    let mut response = Response::builder()
        .header(CONTENT_TYPE, content_type)
        .header(CONTENT_LENGTH, part.len());
    if range.is_some() {
        let total = bytes.len();
        let described = format!("bytes {from}-{}/{total}", total - 1);
        response = response
            .status(StatusCode::PARTIAL_CONTENT)
            .header(CONTENT_RANGE, described);
    }
    let body = match cut {
        // Not in one piece: the end is then told after the last one.
        None => Body::from_stream(stream::iter([Ok::<_, std::io::Error>(part)])),
        Some(count) => {
            let first: Result<_, std::io::Error> = Ok(part.slice(..count.min(part.len())));
            // What was written leaves while the body has nothing to say.
            let cut = async {
                tokio::task::yield_now().await;
                Err(std::io::Error::other("cut"))
            };
            Body::from_stream(stream::iter([first]).chain(stream::once(cut)))
        }
    };
    response.body(body).unwrap()
}

fn error(status: u16, code: &str) -> Response {
    let body = json!({"errors": [{"code": code, "message": "request 4711 failed"}]}).to_string();
    Response::builder()
        .status(status)
        .body(Body::from(body))
        .unwrap()
}

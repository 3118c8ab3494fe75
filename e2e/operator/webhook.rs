//! The operator's webhook: HTTPS with the certificate that its installer mounts, read anew for each connection, so that a
//! rotation needs no restart.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use axum::routing::post;
use axum::{Json, Router};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

const ADDRESS: &str = "0.0.0.0:9443";
/// Where OLM mounts the certificate.
const FOLDER: &str = "/tmp/k8s-webhook-server/serving-certs";

/// Listens; the future that is returned serves.
pub(crate) async fn start() -> anyhow::Result<impl Future<Output = anyhow::Result<()>>> {
    // A first look: without a certificate this Pod must not become ready.
    config()?;
    let listener = TcpListener::bind(ADDRESS).await?;
    let router = Router::new()
        .route("/validate", post(validate))
        .route("/convert", post(convert));
    Ok(async move {
        loop {
            let (stream, _) = listener.accept().await?;
            match config() {
                Ok(config) => _ = tokio::spawn(serve(stream, config, router.clone())),
                Err(error) => println!("certificate: {error:#}"),
            }
        }
    })
}

fn config() -> anyhow::Result<Arc<ServerConfig>> {
    let folder = Path::new(FOLDER);
    let certificate = fs::read(folder.join("tls.crt")).context("tls.crt")?;
    let key = fs::read(folder.join("tls.key")).context("tls.key")?;
    let chain = CertificateDer::pem_slice_iter(&certificate).collect::<Result<_, _>>()?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_slice(&key)?)?;
    Ok(Arc::new(config))
}

async fn serve(stream: TcpStream, config: Arc<ServerConfig>, router: Router) {
    let Ok(stream) = TlsAcceptor::from(config).accept(stream).await else {
        return;
    };
    let service = TowerToHyperService::new(router);
    let served = auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        println!("webhook: {error}");
    }
}

/// An `AdmissionReview`: nobody is not greeted.
async fn validate(Json(review): Json<Value>) -> Json<Value> {
    let request = &review["request"];
    let spec = &request["object"]["spec"];
    let is_nobody = [&spec["name"], &spec["person"]].contains(&&json!("nobody"));
    let mut response = json!({"uid": request["uid"], "allowed": !is_nobody});
    if is_nobody {
        response["status"] = json!({"message": "nobody is not greeted"});
    }
    Json(json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}))
}

/// A `ConversionReview`: `v1` says `name`, `v2` says `person`.
async fn convert(Json(review): Json<Value>) -> Json<Value> {
    let request = &review["request"];
    let wanted = &request["desiredAPIVersion"];
    let to_second = wanted
        .as_str()
        .is_some_and(|version| version.ends_with("/v2"));
    let (from, to) = if to_second {
        ("name", "person")
    } else {
        ("person", "name")
    };
    let objects = request["objects"].as_array().cloned().unwrap_or_default();
    let converted: Vec<Value> = objects
        .into_iter()
        .map(|mut object| {
            object["apiVersion"] = wanted.clone();
            if let Some(spec) = object["spec"].as_object_mut()
                && let Some(value) = spec.remove(from)
            {
                spec.insert(to.to_owned(), value);
            }
            object
        })
        .collect();
    let response = json!({"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted});
    Json(json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}))
}

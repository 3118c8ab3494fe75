//! A webhook server as an operator has it: a process in the cluster's network, behind every Service of its port, with
//! the certificate from a folder that is kept as the kubelet keeps the volume of a Secret.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::routing::post;
use axum::{Json, Router};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::harness::controller::entrance;

/// How long a new content of the Secret takes to the Pod. The kubelet takes longer.
const KUBELET: Duration = Duration::from_secs(4);
/// How long the first call may take to be answered.
const FIRST_CALL: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Where the volume is, in the folder.
const VOLUME: &str = "volume";
/// The file with one line for each call: the certificate that it was answered with.
const CALLS: &str = "calls";

/// The running server and its kubelet.
pub(super) struct Server {
    folder: tempfile::TempDir,
    child: Child,
    kubelet: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kubelet.abort();
        // It ended by itself, then.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Server {
    /// Serves with the certificate in a Secret.
    pub(super) async fn start(
        client: &Client,
        namespace: &str,
        secret: &str,
        port: u16,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let content = secrets.get(secret).await?;
        bring(folder.path(), &content)?;
        fs::write(folder.path().join(CALLS), "")?;
        let mut command = match entrance()? {
            Some(enter) => {
                let mut command = Command::new(enter);
                command.arg(std::env::current_exe()?);
                command
            }
            None => Command::new(std::env::current_exe()?),
        };
        let child = command
            .args(["webhook", &format!("0.0.0.0:{port}")])
            .arg(folder.path())
            .stdin(Stdio::null())
            .spawn()
            .context("cannot start the webhook server")?;
        let kubelet = tokio::spawn(kubelet(
            secrets,
            secret.to_owned(),
            folder.path().to_owned(),
            content,
        ));
        Ok(Self {
            folder,
            child,
            kubelet,
        })
    }

    /// Calls until the server answers; the certificate that it answered with.
    pub(super) async fn until_called<F>(&self, call: impl Fn() -> F) -> anyhow::Result<String>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        let called = async {
            while call().await.is_err() {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        if tokio::time::timeout(FIRST_CALL, called).await.is_err() {
            call().await.context("the webhook is not answered")?;
        }
        self.last_called()
    }

    /// The certificate that the last call was answered with.
    pub(super) fn last_called(&self) -> anyhow::Result<String> {
        let calls = fs::read_to_string(self.folder.path().join(CALLS))?;
        let last = calls.lines().last().map(str::to_owned);
        last.context("the webhook was never called")
    }
}

/// Brings what the Secret holds into the folder whenever it changes, some time later.
async fn kubelet(secrets: Api<Secret>, name: String, folder: PathBuf, brought: Secret) {
    let mut brought = brought;
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        let Ok(Some(content)) = secrets.get_opt(&name).await else {
            continue;
        };
        if content.data != brought.data {
            tokio::time::sleep(KUBELET).await;
            if bring(&folder, &content).is_ok() {
                brought = content;
            }
        }
    }
}

/// Puts all files of a Secret in place at once, as the kubelet does.
fn bring(folder: &Path, secret: &Secret) -> anyhow::Result<()> {
    let version = secret.metadata.resource_version.clone().unwrap_or_default();
    let files = folder.join(format!("version-{version}"));
    fs::create_dir_all(&files)?;
    for (name, content) in secret.data.iter().flatten() {
        fs::write(files.join(name), &content.0)?;
    }
    let link = folder.join(format!("link-{version}"));
    symlink(&files, &link)?;
    fs::rename(link, folder.join(VOLUME))?;
    Ok(())
}

/// The process behind `webhook ADDRESS FOLDER`.
pub(crate) async fn run(arguments: &[String]) -> ExitCode {
    match serve(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("webhook server: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(arguments: &[String]) -> anyhow::Result<()> {
    let [address, folder] = arguments else {
        bail!("webhook ADDRESS FOLDER");
    };
    _ = rustls::crypto::ring::default_provider().install_default();
    let folder = PathBuf::from(folder);
    let listener = TcpListener::bind(address.parse::<SocketAddr>()?).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let folder = folder.clone();
        tokio::spawn(async move {
            if let Err(error) = answer(stream, &folder).await {
                println!("webhook server: {error:#}");
            }
        });
    }
}

/// Answers one call, and closes the connection, so that the next one looks at the certificate again.
async fn answer(stream: tokio::net::TcpStream, folder: &Path) -> anyhow::Result<()> {
    let volume = fs::canonicalize(folder.join(VOLUME))?;
    let chain =
        CertificateDer::pem_file_iter(volume.join("tls.crt"))?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(volume.join("tls.key"))?;
    let fingerprint = hex::encode(Sha256::digest(chain.first().context("a certificate")?));
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    let stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await?;
    let calls = folder.join(CALLS);
    let allow = move |Json(review): Json<Value>| async move {
        // One write of one line: calls do not mix.
        let file = fs::File::options().append(true).open(calls);
        if let Ok(mut file) = file {
            _ = file.write_all(format!("{fingerprint}\n").as_bytes());
        }
        Json(json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": {"uid": review["request"]["uid"], "allowed": true},
        }))
    };
    let service = TowerToHyperService::new(Router::new().route("/validate", post(allow)));
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().keep_alive(false);
    let served = server.serve_connection(TokioIo::new(stream), service).await;
    served.map_err(|error| anyhow::anyhow!(error))
}

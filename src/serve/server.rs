#![expect(clippy::disallowed_methods, reason = "shell: starts the server's task")]
//! The accept loop: TLS, bounds, and an orderly end.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::connection::talk;
use super::guard::Guarded;
use super::tls::Tls;

/// How many connections are open at once; further ones wait to be accepted. Each costs some 20 KiB.
const MAX_CONNECTIONS: usize = 2048;

/// How long a client may take for its handshake, and for the head of a request, as in the reference. It is
/// also how long a connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// How long answers may go on after the end was ordered: a Pod has 30 s in all, and some have passed by then.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// How long to wait after the system refused a connection (too many open files).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The content server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is taken or not ours.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A certificate or key cannot be used.
    #[error("cannot use {}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A certificate that was handed in cannot be used.
    #[error("cannot use the certificate")]
    Taken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A certificate of our own cannot be made.
    #[error("cannot make a serving certificate")]
    SelfMade(#[source] rcgen::Error),
    /// TLS cannot be set up.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
}

/// Where and how to serve.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address to listen on; port 0 lets the system choose.
    pub address: SocketAddr,
    /// What is spoken; plain HTTP if there is none.
    pub tls: Option<Tls>,
    /// How many connections are open at once; further ones wait to be accepted.
    pub connections: usize,
}

impl Options {
    /// As the content server is to be.
    pub fn of_content(address: SocketAddr, tls: Tls) -> Self {
        Self {
            address,
            tls: Some(tls),
            connections: MAX_CONNECTIONS,
        }
    }
}

/// Serves from a task of its own until `stop`; returns the address that it is bound to, and the task, which ends when open
/// answers have.
///
/// # Errors
/// As [`Server::bind`].
pub async fn start(
    options: Options,
    router: Router,
    stop: CancellationToken,
) -> Result<(SocketAddr, JoinHandle<()>), ServeError> {
    let server = Server::bind(options, router).await?;
    let address = server.address();
    Ok((address, tokio::spawn(server.run(stop))))
}

/// A server, bound to its address. Connections wait until it runs.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
    connections: usize,
    router: Router,
}

impl Server {
    /// Binds to the address.
    ///
    /// # Errors
    /// When it is taken or not ours.
    pub async fn bind(options: Options, router: Router) -> Result<Self, ServeError> {
        let address = options.address;
        let listen = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        Ok(Self {
            address: listener.local_addr().map_err(listen)?,
            listener,
            tls: options.tls,
            connections: options.connections,
            router,
        })
    }

    /// The address that it is bound to, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`, then lets open answers end.
    pub async fn run(self, stop: CancellationToken) {
        let places = Arc::new(Semaphore::new(self.connections));
        let mut connections = JoinSet::new();
        loop {
            let place = tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => continue,
                place = accept(&self.listener, &places) => place,
            };
            let Some((stream, place)) = place else {
                sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let acceptor = (self.tls.as_ref()).map(|tls| TlsAcceptor::from(tls.config.clone()));
            let router = self.router.clone();
            let stop = stop.clone();
            connections.spawn(async move {
                serve(stream, acceptor, router, stop).await;
                drop(place);
            });
        }
        drop(self.listener);
        let drained = timeout(DRAIN_TIMEOUT, async {
            while connections.join_next().await.is_some() {}
        });
        if drained.await.is_err() {
            warn!(open = connections.len(), "cut off answers that did not end");
        }
    }
}

/// The next connection, once there is a place for it; `None` when the system refuses.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(error) => {
            warn!(%error, "cannot accept a connection");
            None
        }
    }
}

async fn serve(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    router: Router,
    stop: CancellationToken,
) {
    // Answers are written in large pieces; waiting to fill packets only delays their ends.
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "cannot set TCP_NODELAY");
    }
    let stream = Guarded::new(stream);
    let Some(acceptor) = acceptor else {
        return talk(stream, router, HEAD_TIMEOUT, stop).await;
    };
    // Boxed, so that a connection does not keep the room of its handshake.
    let accepted = Box::pin(timeout(HEAD_TIMEOUT, acceptor.accept(stream))).await;
    match accepted {
        Ok(Ok(stream)) => talk(stream, router, HEAD_TIMEOUT, stop).await,
        Ok(Err(error)) => debug!(%error, "TLS handshake failed"),
        Err(_elapsed) => debug!("TLS handshake took too long"),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::serve::{Certificate, Metrics, Profile, Served, router};

    #[tokio::test]
    async fn a_new_certificate_leaves_open_connections_alone() {
        use rustls::pki_types::ServerName;
        use tokio::io::AsyncReadExt as _;
        let directory = tempfile::tempdir().unwrap();
        let (certificate, key) = (
            directory.path().join("tls.crt"),
            directory.path().join("tls.key"),
        );
        let write = || {
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            #[expect(clippy::disallowed_methods, reason = "as a Secret is mounted")]
            std::fs::write(&certificate, made.cert.pem()).unwrap();
            #[expect(clippy::disallowed_methods, reason = "as a Secret is mounted")]
            std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
            made.cert.der().clone()
        };
        let first = write();
        let files = Certificate::Files {
            certificate: certificate.clone(),
            key: key.clone(),
        };
        let tls = Tls::load(files, Profile::default()).unwrap();
        let options = Options::of_content("127.0.0.1:0".parse().unwrap(), tls.clone());
        let server = Server::bind(options, router(Served::default(), Metrics::default()))
            .await
            .unwrap();
        let address = server.address();
        let stop = CancellationToken::new();
        tokio::spawn(server.run(stop.clone()));
        // Trusts exactly one certificate.
        let connect = async |trusted: &rustls::pki_types::CertificateDer<'static>| {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(trusted.clone()).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = rustls::ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
            let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
            let stream = TcpStream::connect(address).await.unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            connector.connect(name, stream).await
        };
        let request = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
        let mut open = connect(&first).await.unwrap();
        let mut answer = [0; 12];
        open.write_all(request).await.unwrap();
        open.read_exact(&mut answer).await.unwrap();

        let second = write();
        tls.reload(&certificate, &key);
        assert!(connect(&first).await.is_err());
        connect(&second).await.unwrap();
        open.write_all(request).await.unwrap();
        let mut rest = Vec::new();
        while !String::from_utf8_lossy(&rest).contains("HTTP/1.1 404") {
            assert_ne!(open.read_buf(&mut rest).await.unwrap(), 0);
        }
        stop.cancel();
    }
}

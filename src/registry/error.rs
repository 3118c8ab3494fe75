//! What can go wrong between oxolm and a registry.
//!
//! These texts become conditions, so they are the same for the same fault: no addresses, ports of our own, request ids or
//! times, and of a registry's error document only the code. They name where a credential came from, never the credential.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::io;
use std::time::Duration;

use http::StatusCode;

use crate::error::{Classify, Disposition, chain};
use crate::oci::digest::Digest;
use crate::oci::manifest::ManifestError;

/// A failed conversation with a registry or its mirrors.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Every endpoint that may serve the image failed.
    #[error("cannot {operation} {reference}: {}", join(attempts))]
    Failed {
        /// What was attempted.
        operation: Operation,
        /// On which image.
        reference: String,
        /// One per endpoint, in the order tried.
        attempts: Vec<Attempt>,
    },
    /// The image's documents arrived, but cannot be used.
    #[error("cannot use image {reference}")]
    Unusable {
        /// The image.
        reference: String,
        /// Why.
        source: ManifestError,
    },
    /// The image exceeds a bound before anything was transferred.
    #[error("cannot use image {reference}: {what} exceeds the limit of {limit}")]
    TooLarge {
        /// The image.
        reference: String,
        /// What is too large.
        what: &'static str,
        /// The bound.
        limit: u64,
    },
    /// Configuration of the administrator forbids the image, or is broken.
    #[error("cannot pull {reference}")]
    Refused {
        /// The image.
        reference: String,
        /// The rule or the broken file.
        source: super::config::ConfigError,
    },
    /// No HTTP client could be made.
    #[error("cannot set up the registry client")]
    Setup(#[source] super::config::ConfigError),
}

/// What is attempted on an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Its manifest is read.
    ReadManifest,
    /// Its configuration is read.
    ReadConfig,
    /// A layer is read.
    ReadLayer,
    /// A blob is uploaded.
    WriteBlob,
    /// Its manifest is uploaded.
    WriteManifest,
}

/// One endpoint's answer.
#[derive(Debug)]
pub struct Attempt {
    /// The base address, as configured.
    pub endpoint: String,
    /// Where the credential came from that was used, if any.
    pub credential: Option<String>,
    /// Why pull secrets cannot be used; told where one is missing.
    pub unusable_secrets: Vec<String>,
    /// What went wrong.
    pub fault: Fault,
}

/// What went wrong with one endpoint.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    /// No connection, or it broke.
    #[error("pinging container registry: {0}")]
    Connect(Connection),
    /// The connection broke while the answer was read.
    #[error("connection broke: {0}")]
    Broken(Connection),
    /// The registry says no.
    #[error("{}", status_text(*status, code.as_deref(), *retry_after))]
    Status {
        /// The HTTP status.
        status: StatusCode,
        /// The code of the registry's error document.
        code: Option<String>,
        /// What the registry asks to wait.
        retry_after: Option<Duration>,
    },
    /// The registry redirects too often, or from HTTPS to HTTP.
    #[error("redirect refused: {0}")]
    Redirect(&'static str),
    /// The registry asks for a way to authenticate that oxolm has not.
    #[error("authentication required, but the registry's challenge cannot be met: {0}")]
    Challenge(String),
    /// The token service does not give a token.
    #[error("cannot get a token from {realm}: {fault}")]
    Token {
        /// The token service.
        realm: String,
        /// What went wrong there.
        fault: Box<Self>,
    },
    /// An answer that is not of the protocol.
    #[error("unexpected answer: {0}")]
    Protocol(String),
    /// More bytes than allowed.
    #[error("{what} exceeds the limit of {limit} bytes")]
    TooLarge {
        /// Manifest, token, …
        what: &'static str,
        /// The bound, in bytes.
        limit: u64,
    },
    /// Fewer or more bytes than the descriptor says.
    #[error("content of {digest} does not have the {expected} bytes that its descriptor says")]
    WrongSize {
        /// The blob.
        digest: Digest,
        /// The size of the descriptor.
        expected: u64,
    },
    /// The bytes are not those that were asked for.
    #[error("content does not match digest {expected}: it has {actual}")]
    WrongDigest {
        /// What was asked for.
        expected: Digest,
        /// What came.
        actual: Digest,
    },
    /// The whole transfer took too long.
    #[error("did not finish within {0} seconds")]
    Deadline(u64),
}

/// Why there is no connection, in words that do not vary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Connection {
    /// The name has no address.
    #[error("the host name cannot be resolved")]
    Unresolvable,
    /// Nothing listens.
    #[error("connection refused")]
    Refused,
    /// No way there.
    #[error("host unreachable")]
    Unreachable,
    /// No answer in time.
    #[error("timed out")]
    TimedOut,
    /// The other side hung up.
    #[error("closed by the other side")]
    Closed,
    /// The proxy answers, but with a refusal.
    #[error("the proxy does not connect to the registry")]
    Proxy,
    /// The proxy wants a user name and password.
    #[error("the proxy wants other credentials than those in its address")]
    ProxyCredentials,
    /// The certificate or the handshake is not acceptable.
    #[error("tls: {0}")]
    Tls(String),
    /// The other side does not speak TLS.
    #[error("tls: the server does not speak TLS")]
    NotTls,
    /// Anything else.
    #[error("request failed")]
    Other,
}

impl Fault {
    /// Whether the same request may succeed in a moment.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Connect(connection) | Self::Broken(connection) => {
                !matches!(connection, Connection::Tls(_) | Connection::NotTls)
            }
            Self::Status { status, .. } => {
                *status == StatusCode::TOO_MANY_REQUESTS
                    || *status == StatusCode::REQUEST_TIMEOUT
                    || status.is_server_error()
            }
            Self::Token { fault, .. } => fault.is_transient(),
            Self::Redirect(_)
            | Self::Challenge(_)
            | Self::Protocol(_)
            | Self::TooLarge { .. }
            | Self::WrongSize { .. }
            | Self::WrongDigest { .. }
            | Self::Deadline(_) => false,
        }
    }

    /// Whether a credential would have helped.
    fn is_about_credentials(&self) -> bool {
        match self {
            Self::Status { status, .. } => {
                matches!(*status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
            }
            Self::Challenge(_) | Self::Token { .. } => true,
            Self::Connect(_)
            | Self::Broken(_)
            | Self::Redirect(_)
            | Self::Protocol(_)
            | Self::TooLarge { .. }
            | Self::WrongSize { .. }
            | Self::WrongDigest { .. }
            | Self::Deadline(_) => false,
        }
    }

    /// Whether the registry asks to slow down.
    pub(super) fn is_throttled(&self) -> bool {
        match self {
            Self::Token { fault, .. } => fault.is_throttled(),
            fault => fault.is_status(StatusCode::TOO_MANY_REQUESTS),
        }
    }

    /// How long the registry, or its token service, asks to wait before the same request.
    pub(super) fn asks_to_wait(&self) -> Option<Duration> {
        match self {
            Self::Token { fault, .. } => fault.asks_to_wait(),
            Self::Status { retry_after, .. } if self.is_transient() => *retry_after,
            _ => None,
        }
    }

    /// Whether this is HTTP status `wanted`.
    pub(super) fn is_status(&self, wanted: StatusCode) -> bool {
        matches!(self, Self::Status { status, .. } if *status == wanted)
    }

    /// Classifies what the HTTP client says.
    pub(super) fn of(error: &reqwest::Error) -> Self {
        if let Some(refusal) = cause_of::<RedirectRefused>(error) {
            return Self::Redirect(refusal.0);
        }
        if error.is_redirect() {
            return Self::Redirect("too many redirects");
        }
        let connection = Connection::of(error);
        if error.is_connect() || matches!(connection, Connection::Tls(_) | Connection::NotTls) {
            Self::Connect(connection)
        } else {
            Self::Broken(connection)
        }
    }
}

impl Connection {
    fn of(error: &reqwest::Error) -> Self {
        if let Some(tls) = cause_of::<rustls::Error>(error) {
            return match tls {
                rustls::Error::InvalidMessage(_) => Self::NotTls,
                other => Self::Tls(other.to_string()),
            };
        }
        if error.is_timeout() {
            return Self::TimedOut;
        }
        if let Some(io) = cause_of::<io::Error>(error) {
            match io.kind() {
                io::ErrorKind::ConnectionRefused => return Self::Refused,
                io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                    return Self::Unreachable;
                }
                io::ErrorKind::TimedOut => return Self::TimedOut,
                io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof => return Self::Closed,
                _ => {}
            }
        }
        let text = chain(error);
        if text.contains("proxy authorization required") {
            Self::ProxyCredentials
        } else if text.contains("tunnel error") {
            Self::Proxy
        } else if text.contains("dns error") {
            Self::Unresolvable
        } else if error.is_body() || error.is_decode() || text.contains("closed") {
            Self::Closed
        } else {
            Self::Other
        }
    }
}

/// A redirect that the client's policy refuses.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct RedirectRefused(pub(super) &'static str);

/// The first cause of type `E`, also inside I/O errors.
fn cause_of<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut cause = Some(error);
    while let Some(current) = cause {
        if let Some(found) = current.downcast_ref::<E>() {
            return Some(found);
        }
        // An I/O error's source() skips the error that it wraps.
        cause = match current
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => current.source(),
        };
    }
    None
}

impl Classify for RegistryError {
    fn disposition(&self) -> Disposition {
        // Time or an administrator can heal each: a tag may be pushed, a registry come back, a secret be corrected.
        Disposition::Retry
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadManifest => "read manifest of",
            Self::ReadConfig => "read configuration of",
            Self::ReadLayer => "read layer of",
            Self::WriteBlob => "upload blob of",
            Self::WriteManifest => "upload manifest of",
        })
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.credential {
            write!(f, "{} (credentials from {origin})", self.endpoint)?;
        } else {
            write!(f, "{} (no credentials", self.endpoint)?;
            if self.fault.is_about_credentials() {
                for problem in &self.unusable_secrets {
                    write!(f, "; {problem}")?;
                }
            }
            f.write_str(")")?;
        }
        write!(f, ": {}", self.fault)
    }
}

fn join(attempts: &[Attempt]) -> String {
    let texts: Vec<_> = attempts.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

fn status_text(status: StatusCode, code: Option<&str>, retry_after: Option<Duration>) -> String {
    let reason = status.canonical_reason().unwrap_or_default();
    let mut text = format!("status {} {reason}", status.as_u16())
        .trim_end()
        .to_owned();
    if let Some(code) = code {
        text.push_str(": ");
        text.push_str(code);
    }
    // Not in seconds: those differ from answer to answer, and a message must not.
    match retry_after.unwrap_or_default().as_secs().div_ceil(60) {
        0 => {}
        1 => text.push_str(" (it asks to wait up to a minute)"),
        minutes => _ = write!(text, " (it asks to wait up to {minutes} minutes)"),
    }
    text
}

//! Requests and their answers.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::response::IntoResponse as _;
use axum::routing::get;
use futures::stream;
use http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use prometheus_client::registry::Registry;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::Reviews;
use super::access::{Access, Refusal};
use super::exposition::{self, Format};
use crate::error::chain;
use crate::runtime::telemetry::LogLevel;

/// Where metrics are.
const METRICS: &str = "/metrics";
/// Where the level of the logs is.
const LOG_LEVEL: &str = "/log-level";
/// How many scrapes are answered at the same time.
const MOST_SCRAPES: usize = 4;
/// How long another one waits for its turn.
const TURN: Duration = Duration::from_secs(5);
/// How many pieces of an answer wait for who reads it.
const PIECES_AHEAD: usize = 1;
/// The longest list of directives, in bytes.
const LONGEST_LEVEL: usize = 4 << 10;

#[derive(Debug, Clone)]
struct Shared {
    registry: Arc<Registry>,
    log_level: LogLevel,
    /// None: everybody may read.
    access: Option<Access>,
    turns: Arc<Semaphore>,
}

/// Both paths. Without `reviews` nobody is asked for a right.
pub(super) fn router(registry: Registry, log_level: LogLevel, reviews: Option<Reviews>) -> Router {
    let shared = Shared {
        registry: Arc::new(registry),
        log_level,
        access: reviews.map(Access::new),
        turns: Arc::new(Semaphore::new(MOST_SCRAPES)),
    };
    let level = get(tell_level).put(change_level).delete(reset_level);
    Router::new()
        .route(METRICS, get(metrics))
        .route(LOG_LEVEL, level)
        .with_state(shared)
}

fn text(status: StatusCode, text: impl Into<String>) -> Response<Body> {
    (status, text.into()).into_response()
}

fn refused(Refusal { status, text: why }: Refusal) -> Response<Body> {
    let mut response = text(status, why);
    if status == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    }
    response
}

async fn metrics(
    State(shared): State<Shared>,
    method: Method,
    headers: HeaderMap,
) -> Response<Body> {
    if let Some(access) = &shared.access
        && let Err(refusal) = access.check(&headers, "get", METRICS).await
    {
        return refused(refusal);
    }
    let format = Format::of(&headers);
    let content_type = [(CONTENT_TYPE, format.content_type())];
    if method == Method::HEAD {
        return content_type.into_response();
    }
    let Ok(Ok(turn)) = timeout(TURN, shared.turns.acquire_owned()).await else {
        let why = format!("Service Unavailable: {MOST_SCRAPES} others are reading metrics\n");
        return text(StatusCode::SERVICE_UNAVAILABLE, why);
    };
    let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
    let registry = shared.registry;
    spawn_blocking(move || {
        exposition::send(&registry, format, &sender);
        drop(turn);
    });
    let pieces = stream::unfold(receiver, |mut receiver| async {
        let piece = receiver.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), receiver))
    });
    (content_type, Body::from_stream(pieces)).into_response()
}

async fn tell_level(State(shared): State<Shared>, headers: HeaderMap) -> Response<Body> {
    if let Some(access) = &shared.access
        && let Err(refusal) = access.check(&headers, "get", LOG_LEVEL).await
    {
        return refused(refusal);
    }
    text(StatusCode::OK, shared.log_level.current() + "\n")
}

/// Who may change the level: never everybody.
async fn may_change(
    shared: &Shared,
    headers: &HeaderMap,
    verb: &'static str,
) -> Result<(), Refusal> {
    match &shared.access {
        Some(access) => access.check(headers, verb, LOG_LEVEL).await,
        None => Err(Refusal {
            status: StatusCode::FORBIDDEN,
            text: "Forbidden: the log level can be changed over HTTPS only: run oxolm with --metrics-secure=true\n"
                .to_owned(),
        }),
    }
}

async fn change_level(State(shared): State<Shared>, request: Request<Body>) -> Response<Body> {
    if let Err(refusal) = may_change(&shared, request.headers(), "put").await {
        return refused(refusal);
    }
    let Ok(body) = to_bytes(request.into_body(), LONGEST_LEVEL).await else {
        let why = format!("Payload Too Large: a log level has at most {LONGEST_LEVEL} bytes\n");
        return text(StatusCode::PAYLOAD_TOO_LARGE, why);
    };
    let wanted = String::from_utf8_lossy(&body);
    let wanted = wanted.trim();
    if wanted.is_empty() {
        let why = "Bad Request: send a level such as debug, or oxolm=debug,kube=warn\n";
        return text(StatusCode::BAD_REQUEST, why);
    }
    match shared.log_level.set(wanted) {
        Ok(()) => text(StatusCode::OK, shared.log_level.current() + "\n"),
        Err(error) => text(
            StatusCode::BAD_REQUEST,
            format!("Bad Request: {}\n", chain(&error)),
        ),
    }
}

async fn reset_level(State(shared): State<Shared>, headers: HeaderMap) -> Response<Body> {
    if let Err(refusal) = may_change(&shared, &headers, "delete").await {
        return refused(refusal);
    }
    shared.log_level.reset();
    text(StatusCode::OK, shared.log_level.current() + "\n")
}

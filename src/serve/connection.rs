//! The requests of one connection, one after the other.
//!
//! ```text
//! waits for a byte ──byte──▶ hyper answers ──answered, sent, nothing more to read──▶ waits for a byte
//! ```
//!
//! hyper keeps its state and a buffer of 8 KiB for each connection for as long as it is open, also while nothing is asked. Most
//! connections are idle nearly all the time, so hyper gets one only once there is something to read, and gives it back after
//! the answer.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::lasting::Lasting;

/// How much of an answer waits beside the piece that is being sent, and how large the head of a request may be, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// Answers the requests of one connection until one side ends it; the next request is waited for as long as `patience`, and its
/// head once more.
pub(super) async fn talk<S>(
    mut stream: S,
    router: Router,
    patience: Duration,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut ahead = Bytes::new();
    loop {
        if ahead.is_empty() {
            let Some(byte) = first_byte(&mut stream, patience, &stop).await else {
                break;
            };
            ahead = byte;
        }
        // Boxed, so that a connection that waits is small.
        let Some(rest) = Box::pin(answer(stream, ahead, router.clone(), patience, &stop)).await
        else {
            return;
        };
        (stream, ahead) = rest;
    }
    if let Err(error) = stream.shutdown().await {
        debug!(%error, "cannot tell the client that the connection ends");
    }
}

/// The first byte of the next request, or none when there will be no further one.
async fn first_byte(
    stream: &mut (impl AsyncRead + Unpin),
    patience: Duration,
    stop: &CancellationToken,
) -> Option<Bytes> {
    let mut byte = [0; 1];
    let read = tokio::select! {
        read = timeout(patience, stream.read(&mut byte)) => read,
        () = stop.cancelled() => return None,
    };
    match read {
        Ok(Ok(0)) | Err(_) => None,
        Ok(Ok(_)) => Some(Bytes::copy_from_slice(&byte)),
        Ok(Err(error)) => {
            debug!(%error, "connection ended early");
            None
        }
    }
}

/// Answers what comes until everything is answered; returns the stream, and what was read of a next request. `None` when the
/// connection is over.
async fn answer<S>(
    stream: S,
    ahead: Bytes,
    router: Router,
    patience: Duration,
    stop: &CancellationToken,
) -> Option<(S, Bytes)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let progress = Arc::new(Progress::default());
    let line = Line {
        stream,
        ahead,
        progress: progress.clone(),
    };
    let service = Asked {
        router: TowerToHyperService::new(router),
        progress: progress.clone(),
    };
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .max_buf_size(BUFFER_BYTES)
        .header_read_timeout(patience);
    let mut connection = builder.serve_connection(TokioIo::new(line), service);
    let until_idle = poll_fn(|cx| match Pin::new(&mut connection).poll(cx) {
        Poll::Ready(ended) => Poll::Ready(Some(ended)),
        Poll::Pending if progress.is_idle() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    });
    let ended = tokio::select! {
        ended = until_idle => ended,
        () = stop.cancelled() => {
            Pin::new(&mut connection).graceful_shutdown();
            Some((&mut connection).await)
        }
    };
    match ended {
        None => {
            let parts = connection.into_parts();
            Some((parts.io.into_inner().stream, parts.read_buf))
        }
        Some(Ok(())) => None,
        Some(Err(error)) => {
            debug!(%error, "connection ended early");
            None
        }
    }
}

/// How far hyper is, as seen from both its ends.
#[derive(Debug, Default)]
struct Progress {
    /// The last request has its answer, and nothing of either is left to come.
    answered: AtomicBool,
    /// All that was written is sent.
    sent: AtomicBool,
    /// The client has sent nothing that was not read.
    drained: AtomicBool,
}

impl Progress {
    fn is_idle(&self) -> bool {
        [&self.answered, &self.sent, &self.drained]
            .iter()
            .all(|flag| flag.load(Ordering::Acquire))
    }

    fn set(flag: &AtomicBool, value: bool) {
        flag.store(value, Ordering::Release);
    }
}

/// The stream as hyper sees it: with what was read of it before.
struct Line<S> {
    stream: S,
    ahead: Bytes,
    progress: Arc<Progress>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Line<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length = self.ahead.len().min(buffer.remaining());
        buffer.put_slice(&self.ahead.split_to(length));
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        Progress::set(&self.progress.drained, read.is_pending());
        if length > 0 && read.is_pending() {
            return Poll::Ready(Ok(()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Line<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Progress::set(&self.progress.sent, false);
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Progress::set(&self.progress.sent, false);
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        Progress::set(&self.progress.sent, flushed.is_ready());
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The router, which notes what it is asked.
struct Asked {
    router: TowerToHyperService<Router>,
    progress: Arc<Progress>,
}

impl Service<Request<Incoming>> for Asked {
    type Response = Response<Lasting<Option<Over>>>;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        Progress::set(&self.progress.answered, false);
        // How hyper passes over the rest of a request with a body is its own affair: it keeps the connection.
        let over = request
            .body()
            .is_end_stream()
            .then(|| Over(self.progress.clone()));
        let asked = self.router.call(request);
        Box::pin(async {
            let response = asked.await?;
            Ok(response.map(|body| Lasting {
                body,
                _until_sent: over,
            }))
        })
    }
}

/// Says when it goes that a request is answered.
struct Over(Arc<Progress>);

impl Drop for Over {
    fn drop(&mut self) {
        Progress::set(&self.0.answered, true);
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::{any, get};
    use futures::stream;
    use tokio::io::{DuplexStream, duplex};
    use tokio::sync::Notify;
    use tokio::task::JoinHandle;

    use super::*;

    /// Longer than any test takes.
    const PATIENCE: Duration = Duration::from_mins(1);

    /// A client of a server with one connection.
    struct Client {
        line: DuplexStream,
        stop: CancellationToken,
        /// Lets `/slow` come to its end.
        go: Arc<Notify>,
        server: JoinHandle<()>,
    }

    impl Client {
        fn new() -> Self {
            Self::with_patience(PATIENCE)
        }

        fn with_patience(patience: Duration) -> Self {
            let (line, theirs) = duplex(1 << 20);
            let (stop, go) = (CancellationToken::new(), Arc::new(Notify::new()));
            #[expect(clippy::disallowed_methods, reason = "as the server does")]
            let server = tokio::spawn(talk(theirs, router(&go), patience, stop.clone()));
            Self {
                line,
                stop,
                go,
                server,
            }
        }

        async fn send(&mut self, text: &str) {
            self.line.write_all(text.as_bytes()).await.unwrap();
        }

        /// What comes until so many answers have come to their ends.
        async fn answers(&mut self, count: usize) -> String {
            let mut text = Vec::new();
            while String::from_utf8_lossy(&text).matches("the end").count() < count {
                let read = self.line.read_buf(&mut text).await.unwrap();
                assert_ne!(read, 0, "{}", String::from_utf8_lossy(&text));
            }
            String::from_utf8(text).unwrap()
        }

        /// What comes until the server ends the connection.
        async fn rest(mut self) -> String {
            let mut text = String::new();
            self.line.read_to_string(&mut text).await.unwrap();
            self.server.await.unwrap();
            text
        }
    }

    /// `/slow` sends its end only when it may; everything else names its path, with or without the request's body.
    fn router(go: &Arc<Notify>) -> Router {
        let go = go.clone();
        let slow = move || async move {
            let pieces = stream::unfold(0, move |piece| {
                let go = go.clone();
                async move {
                    if piece == 1 {
                        go.notified().await;
                    }
                    let text = *["slow ", "the end"].get(piece)?;
                    Some((io::Result::Ok(text), piece + 1))
                }
            });
            Body::from_stream(pieces)
        };
        let name = |request: Request<Body>| async move { format!("{} the end", request.uri()) };
        Router::new().route("/slow", get(slow)).fallback(any(name))
    }

    fn request(path: &str) -> String {
        format!("GET /{path} HTTP/1.1\r\nhost: h\r\n\r\n")
    }

    #[tokio::test]
    async fn requests_are_answered_one_after_the_other() {
        let mut client = Client::new();
        for path in ["a", "b", "c"] {
            client.send(&request(path)).await;
            let answer = client.answers(1).await;
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.ends_with(&format!("/{path} the end")), "{answer}");
            assert!(!answer.contains("connection: close"), "{answer}");
        }
    }

    #[tokio::test]
    async fn requests_may_come_all_at_once_or_byte_by_byte() {
        let all = ["a", "slow", "b", "slow", "c"].map(request).concat();
        for piece in [all.len(), 1, 7, 40] {
            let mut client = Client::new();
            client.go.notify_one();
            for part in all.as_bytes().chunks(piece) {
                client.line.write_all(part).await.unwrap();
                tokio::task::yield_now().await;
            }
            let first = client.answers(3).await;
            client.go.notify_one();
            let second = client.answers(2).await;
            let text = first + &second;
            let at = ["/a the", "slow", "/b the", "the end", "/c the"].map(|part| {
                let at = text.rfind(part);
                at.unwrap_or_else(|| panic!("no {part} in {text}"))
            });
            assert!(at[0] < at[2] && at[2] < at[4], "{text}");
            assert_eq!(text.matches("HTTP/1.1 200").count(), 5, "{text}");
        }
    }

    #[tokio::test]
    async fn a_body_that_nobody_reads_is_no_request() {
        let hidden = request("hidden");
        let length = hidden.len();
        let post = format!("POST /post HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n");
        let body = hidden + &request("next");
        for (first, second) in [(post.clone() + &body, ""), (post, &body)] {
            let mut client = Client::new();
            client.send(&first).await;
            let answer = client.answers(1).await;
            assert!(answer.contains("/post the end"), "{answer}");
            // Whether the connection goes on is hyper's affair: it may be closed by now.
            _ = client.line.write_all(second.as_bytes()).await;
            _ = client.line.shutdown().await;
            let rest = answer + &client.rest().await;
            assert!(!rest.contains("/hidden"), "{rest}");
        }
    }

    #[tokio::test]
    async fn hyper_is_given_up_when_nothing_is_left_to_answer() {
        let (go, stop) = (Arc::new(Notify::new()), CancellationToken::new());
        let (mut client, ours) = duplex(1 << 10);
        client.write_all(request("a").as_bytes()).await.unwrap();
        let (stream, rest) = answer(ours, Bytes::new(), router(&go), PATIENCE, &stop)
            .await
            .unwrap();
        assert!(rest.is_empty());

        // What came of the next request is not lost, and is waited for by hyper.
        let all = request("b") + "GET /c HTT";
        client.write_all(all.as_bytes()).await.unwrap();
        let (stream, rest) = answer(stream, Bytes::new(), router(&go), PATIENCE, &stop)
            .await
            .unwrap();
        assert_eq!(rest, "GET /c HTT");
        client.write_all(b"P/1.1\r\n\r\n").await.unwrap();
        let (_, rest) = answer(stream, rest, router(&go), PATIENCE, &stop)
            .await
            .unwrap();
        assert!(rest.is_empty());
    }

    #[tokio::test]
    async fn an_answer_under_way_keeps_hyper() {
        let (go, stop) = (Arc::new(Notify::new()), CancellationToken::new());
        let (mut client, ours) = duplex(16);
        client.write_all(b"GET /slow HTTP/1").await.unwrap();
        let router = router(&go);
        let mut answered = Box::pin(answer(ours, Bytes::new(), router, PATIENCE, &stop));
        let mut text = Vec::new();
        let sent = async {
            client.write_all(b".1\r\n\r\n").await.unwrap();
            while !text.ends_with(b"slow \r\n") {
                assert_ne!(client.read_buf(&mut text).await.unwrap(), 0);
            }
            go.notify_one();
            // Full until somebody reads.
            tokio::task::yield_now().await;
        };
        tokio::select! {
            _ = &mut answered => panic!("it is not answered"),
            () = sent => {}
        }
        let (stream, rest) = tokio::select! {
            answered = &mut answered => answered.unwrap(),
            _ = client.read_to_end(&mut text) => panic!("it goes on"),
        };
        assert!(rest.is_empty());
        drop(stream);
        client.read_to_end(&mut text).await.unwrap();
        assert!(text.ends_with(b"the end\r\n0\r\n\r\n"), "{text:?}");
    }

    #[tokio::test]
    async fn who_wants_no_more_gets_no_more() {
        for version in ["1.0", "1.1"] {
            let mut client = Client::new();
            let head = format!("GET /a HTTP/{version}\r\nconnection: close\r\n\r\n");
            client.send(&head).await;
            assert!(client.rest().await.ends_with("/a the end"));
        }
    }

    #[tokio::test]
    async fn who_asks_nothing_keeps_no_place() {
        for sent in ["", "GET / HT", &request("a"), &(request("a") + "GET /")] {
            let mut client = Client::with_patience(Duration::from_millis(50));
            client.send(sent).await;
            let text = client.rest().await;
            assert_eq!(text.contains("/a the end"), sent.contains("/a"), "{text}");
        }
    }

    #[tokio::test]
    async fn the_end_waits_for_an_answer_and_for_nothing_else() {
        let mut idle = Client::new();
        idle.send(&request("a")).await;
        idle.answers(1).await;
        let new = Client::new();
        let mut busy = Client::new();
        busy.send(&request("slow")).await;
        let mut text = Vec::new();
        while !text.ends_with(b"slow \r\n") {
            assert_ne!(busy.line.read_buf(&mut text).await.unwrap(), 0);
        }
        for client in [&idle, &new, &busy] {
            client.stop.cancel();
        }
        assert_eq!(idle.rest().await, "");
        assert_eq!(new.rest().await, "");
        assert!(!busy.server.is_finished());
        busy.go.notify_one();
        assert!(busy.rest().await.contains("the end"));
    }
}

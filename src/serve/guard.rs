//! The other side of a slow client: it may keep an answer waiting, but not for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// How long a client may take no bytes of an answer. The reference cuts an answer off after five minutes in
/// all, which breaks slow but steady readers of large catalogs.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a client must take per second of waiting, in the long run, to keep its place among the connections: the slowest
/// modem takes as much, and who trickles to hold a place does not get it for nothing.
const LEAST_BYTES_PER_SECOND: u32 = 4 << 10;

/// How long a client may still keep us waiting.
///
/// Only the time that a write has to wait counts against the client, and every byte that it takes earns it time
/// again, up to [`PATIENCE`]. So a connection without an answer under way is not looked at, and whoever is slower than
/// [`LEAST_BYTES_PER_SECOND`] in the long run is found out.
#[derive(Debug, Clone, Copy)]
struct Patience {
    left: Duration,
    waiting_since: Option<Instant>,
}

impl Patience {
    fn new(left: Duration) -> Self {
        Self {
            left,
            waiting_since: None,
        }
    }

    /// A write has to wait at `now`; it may until the returned time.
    fn wait(&mut self, now: Instant) -> Instant {
        *self.waiting_since.get_or_insert(now) + self.left
    }

    /// The client took `bytes` at `now`.
    fn take(&mut self, now: Instant, bytes: usize) {
        if let Some(since) = self.waiting_since.take() {
            self.left = self
                .left
                .saturating_sub(now.saturating_duration_since(since));
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let earned = Duration::from_secs(1) * bytes / LEAST_BYTES_PER_SECOND;
        self.left = self.left.saturating_add(earned).min(PATIENCE);
    }
}

/// A stream whose writes fail when the other side has used up our patience.
#[derive(Debug)]
pub(super) struct Guarded<S> {
    stream: S,
    patience: Patience,
    /// Of the write that waits.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Guarded<S> {
    pub(super) fn new(stream: S) -> Self {
        Self::with_patience(stream, PATIENCE)
    }

    fn with_patience(stream: S, patience: Duration) -> Self {
        Self {
            stream,
            patience: Patience::new(patience),
            deadline: None,
        }
    }

    /// Passes on what a write came to, or says that the client is too slow. `taken` tells the bytes of a success.
    fn guard<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        taken: impl FnOnce(&T) -> usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(result) = written {
            self.deadline = None;
            let bytes = result.as_ref().map_or(0, taken);
            self.patience.take(Instant::now(), bytes);
            return Poll::Ready(result);
        }
        let patience = &mut self.patience;
        let deadline = self
            .deadline
            .get_or_insert_with(|| Box::pin(sleep_until(patience.wait(Instant::now()))));
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client takes too few bytes",
        )))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.guard(written, |count| *count, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.guard(flushed, |()| 0, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.guard(shut, |()| 0, cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt as _, duplex};

    use super::*;

    /// For how many seconds a client that takes `bytes` every `pause` seconds is served, up to an hour.
    fn served(bytes: usize, pause: u64) -> u64 {
        let start = Instant::now();
        let mut patience = Patience::new(PATIENCE);
        let mut now = start;
        while now < start + Duration::from_hours(1) {
            let deadline = patience.wait(now);
            now += Duration::from_secs(pause);
            if deadline < now {
                return (deadline - start).as_secs();
            }
            patience.take(now, bytes);
        }
        3600
    }

    #[test]
    fn a_client_that_trickles_keeps_no_place() {
        assert_eq!(served(0, 7), 30);
        for (bytes, pause, at_most) in [
            (1, 29, 31),
            (1, 1, 31),
            (1000, 5, 33),
            (2 << 10, 1, 61),
            (1 << 20, 31, 31),
        ] {
            let seconds = served(bytes, pause);
            assert!(
                seconds <= at_most,
                "{bytes} bytes every {pause} s: {seconds} s"
            );
        }
    }

    #[test]
    fn a_slow_but_steady_reader_is_served_however_long_it_takes() {
        for (bytes, pause) in [(4 << 10, 1), (100 << 10, 20), (120 << 10, 29), (1 << 20, 1)] {
            assert_eq!(served(bytes, pause), 3600, "{bytes} bytes every {pause} s");
        }
    }

    #[test]
    fn time_between_answers_counts_against_nobody() {
        let start = Instant::now();
        let mut patience = Patience::new(PATIENCE);
        patience.wait(start);
        patience.take(start + Duration::from_secs(20), 0);
        let later = start + Duration::from_hours(1);
        assert_eq!(patience.wait(later), later + Duration::from_secs(10));
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_is_cut_off() {
        let (ours, _theirs) = duplex(16);
        let mut guarded = Guarded::with_patience(ours, Duration::from_millis(20));
        guarded.write_all(&[0; 16]).await.unwrap();
        let error = guarded.write_all(&[0; 16]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}

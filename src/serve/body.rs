//! Bytes of a catalog on their way to a client: read piece by piece, never as a whole.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream::{self, Stream};
use tokio::task::spawn_blocking;

use crate::store::catalog::{Encoding, StoredCatalog};

/// How much is read at once for one of few clients. TLS records are 16 KiB; this keeps the way to the disk short.
const PIECE_BYTES: u64 = 256 << 10;

/// How much is read at once for one of very many.
const LEAST_PIECE_BYTES: u64 = 16 << 10;

/// How much all answers under way may have in memory: clients that read slowly hold their pieces for long.
const PIECES_BYTES: u64 = 16 << 20;

/// How many answers are under way in this process, whose memory they share.
static UNDER_WAY: AtomicU64 = AtomicU64::new(0);

/// How hard gzip tries for answers that are made while they are sent.
const GZIP_LEVEL: u32 = 2;

/// How hard zstd tries for them.
const ZSTD_LEVEL: i32 = 1;

/// A part of a body.
#[derive(Debug, Clone)]
pub(super) enum Part {
    /// These bytes.
    Text(Bytes),
    /// Bytes of the catalog.
    Blobs(Range<u64>),
}

/// What is sent.
#[derive(Debug)]
pub(super) struct Source {
    catalog: Arc<StoredCatalog>,
    encoding: Encoding,
    parts: VecDeque<Part>,
    _under_way: UnderWay,
}

/// An answer under way. Only its life counts.
#[derive(Debug)]
struct UnderWay;

impl UnderWay {
    fn begin() -> Self {
        UNDER_WAY.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How much is read at once while so many answers are under way.
fn piece_bytes(answers: u64) -> u64 {
    (PIECES_BYTES / answers.max(1)).clamp(LEAST_PIECE_BYTES, PIECE_BYTES)
}

impl Source {
    pub(super) fn new(
        catalog: Arc<StoredCatalog>,
        encoding: Encoding,
        parts: impl IntoIterator<Item = Part>,
    ) -> Self {
        Self {
            catalog,
            encoding,
            parts: parts.into_iter().collect(),
            _under_way: UnderWay::begin(),
        }
    }

    /// How many bytes all parts have.
    pub(super) fn size_bytes(&self) -> u64 {
        self.parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.len() as u64,
                Part::Blobs(range) => range.end - range.start,
            })
            .sum()
    }

    /// The parts as they are.
    pub(super) fn into_body(self) -> Body {
        Body::from_stream(pieces(self))
    }

    /// The parts, compressed on the way.
    pub(super) fn into_compressed_body(self, coding: Encoding) -> Body {
        if coding == Encoding::Zstd {
            return Body::from_stream(frames(self));
        }
        let encoder = GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL));
        Body::from_stream(stream::try_unfold(Some((self, encoder)), compress))
    }

    /// The next piece. Small ranges are read together.
    fn read(&mut self) -> io::Result<Option<Bytes>> {
        let wanted = piece_bytes(UNDER_WAY.load(Ordering::Relaxed));
        let mut piece = Vec::new();
        while let Some(part) = self.parts.pop_front() {
            match part {
                Part::Text(text) => piece.extend_from_slice(&text),
                Part::Blobs(range) => {
                    let room = wanted.saturating_sub(piece.len() as u64);
                    let end = range.end.min(range.start + room);
                    if end < range.end {
                        self.parts.push_front(Part::Blobs(end..range.end));
                    }
                    let before = piece.len();
                    let length = usize::try_from(end - range.start).map_err(io::Error::other)?;
                    piece.resize(before + length, 0);
                    let target = piece.get_mut(before..).unwrap_or_default();
                    self.catalog.read_at(self.encoding, target, range.start)?;
                }
            }
            if piece.len() as u64 >= wanted {
                break;
            }
        }
        Ok(Some(piece)
            .filter(|piece| !piece.is_empty())
            .map(Bytes::from))
    }
}

fn pieces(source: Source) -> impl Stream<Item = io::Result<Bytes>> {
    stream::try_unfold(source, |mut source| async move {
        let read = spawn_blocking(move || source.read().map(|piece| (piece, source)));
        let (piece, source) = read.await.map_err(io::Error::other)??;
        Ok(piece.map(|piece| (piece, source)))
    })
}

/// Each piece as a zstd frame of its own; one after the other they are the whole.
fn frames(source: Source) -> impl Stream<Item = io::Result<Bytes>> {
    stream::try_unfold(source, |mut source| async move {
        let step = spawn_blocking(move || {
            let frame = match source.read()? {
                Some(piece) => Some(Bytes::from(zstd::bulk::compress(&piece, ZSTD_LEVEL)?)),
                None => None,
            };
            io::Result::Ok((frame, source))
        });
        let (frame, source) = step.await.map_err(io::Error::other)??;
        Ok(frame.map(|frame| (frame, source)))
    })
}

/// What is left to compress, and the compressor; `None` after the last byte.
type Compressing = Option<(Source, GzEncoder<Vec<u8>>)>;

async fn compress(state: Compressing) -> io::Result<Option<(Bytes, Compressing)>> {
    let Some((mut source, mut encoder)) = state else {
        return Ok(None);
    };
    let step = spawn_blocking(move || {
        loop {
            let Some(piece) = source.read()? else {
                return Ok((Bytes::from(encoder.finish()?), None));
            };
            encoder.write_all(&piece)?;
            let compressed = std::mem::take(encoder.get_mut());
            if !compressed.is_empty() {
                return Ok((Bytes::from(compressed), Some((source, encoder))));
            }
        }
    });
    step.await.map_err(io::Error::other)?.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_answers_are_under_way_the_less_each_holds() {
        for (answers, kibibytes) in [
            (0, 256),
            (1, 256),
            (64, 256),
            (128, 128),
            (2048, 16),
            (1 << 40, 16),
        ] {
            assert_eq!(piece_bytes(answers), kibibytes << 10, "{answers} answers");
        }
    }
}

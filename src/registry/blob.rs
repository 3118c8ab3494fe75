//! Blobs as verified streams: size and digest are checked while the bytes flow, and a broken connection is resumed.

use bytes::Bytes;
use http::{StatusCode, header::CONTENT_RANGE};
use reqwest::Response;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::endpoint::Endpoint;
use super::error::Fault;
use super::transport::{Call, Transport};
use crate::oci::digest::Digest;
use crate::oci::manifest::Descriptor;

/// The most empty frames that are read after the last byte: servers send one or none.
const EMPTY_FRAMES: usize = 8;

/// A part of a blob on its way to whoever unpacks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// The next bytes. Not verified yet: they may be worked on, but not published.
    Bytes(Bytes),
    /// All bytes have come, and their size and digest are right. Nothing follows.
    Verified,
}

/// How a transfer ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The receiver got [`Piece::Verified`].
    Complete,
    /// The receiver hung up; it knows why.
    Declined,
}

/// What has come of a blob so far.
pub(super) struct Progress {
    received: u64,
    hash: Sha256,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            received: 0,
            hash: Sha256::new(),
        }
    }
}

impl Transport {
    /// Sends the blob to `pieces`, starting after what `progress` says has come from another endpoint.
    pub(super) async fn copy_blob(
        &self,
        endpoint: &Endpoint,
        blob: &Descriptor,
        progress: &mut Progress,
        pieces: &mpsc::Sender<Piece>,
    ) -> Result<Delivery, Fault> {
        let path = format!("blobs/{}", blob.digest);
        let mut tried = 0;
        loop {
            let before = progress.received;
            let mut call = Call::get(&path);
            call.from_byte = before;
            let fault = match self.send(endpoint, &call).await {
                Ok(response) => match copy_body(response, blob, progress, pieces).await {
                    Ok(delivery) => return Ok(delivery),
                    Err(fault) => fault,
                },
                Err(fault) => return Err(fault),
            };
            // A server that gives at least something each time is worth asking again.
            tried = if progress.received > before {
                1
            } else {
                tried + 1
            };
            if self.wait_to_retry(tried, &fault).await.is_err() {
                return Err(fault);
            }
        }
    }
}

async fn copy_body(
    mut response: Response,
    blob: &Descriptor,
    progress: &mut Progress,
    pieces: &mpsc::Sender<Piece>,
) -> Result<Delivery, Fault> {
    let wrong_size = || Fault::WrongSize {
        digest: blob.digest.clone(),
        expected: blob.size,
    };
    let mut skip = bytes_to_skip(&response, progress.received)?;
    while progress.received < blob.size || skip > 0 {
        let Some(mut chunk) = response.chunk().await.map_err(|error| Fault::of(&error))? else {
            return Err(wrong_size());
        };
        let skipped = skip.min(chunk.len() as u64);
        skip -= skipped;
        chunk = chunk.split_off(usize::try_from(skipped).unwrap_or(chunk.len()));
        if chunk.is_empty() {
            continue;
        }
        progress.received = progress.received.saturating_add(chunk.len() as u64);
        if progress.received > blob.size {
            return Err(wrong_size());
        }
        progress.hash.update(&chunk);
        if pieces.send(Piece::Bytes(chunk)).await.is_err() {
            return Ok(Delivery::Declined);
        }
    }
    if has_more(&mut response).await {
        return Err(wrong_size());
    }
    let actual = Digest::from_sha256(progress.hash.clone().finalize().as_slice());
    if actual != blob.digest {
        return Err(Fault::WrongDigest {
            expected: blob.digest.clone(),
            actual,
        });
    }
    match pieces.send(Piece::Verified).await {
        Ok(()) => Ok(Delivery::Complete),
        Err(_) => Ok(Delivery::Declined),
    }
}

/// Whether bytes follow the last one. HTTP/2 servers may end a body with an empty frame, which is none.
async fn has_more(response: &mut Response) -> bool {
    for _ in 0..EMPTY_FRAMES {
        match response.chunk().await {
            Ok(Some(rest)) if rest.is_empty() => {}
            Ok(Some(_)) => return true,
            Ok(None) | Err(_) => return false,
        }
    }
    true
}

/// How many bytes of this answer have come before: a server need not honour `Range`.
fn bytes_to_skip(response: &Response, received: u64) -> Result<u64, Fault> {
    if response.status() != StatusCode::PARTIAL_CONTENT {
        return Ok(received);
    }
    let starts_right = response
        .headers()
        .get(CONTENT_RANGE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.starts_with(&format!("bytes {received}-")));
    if starts_right {
        Ok(0)
    } else {
        Err(Fault::Protocol("a range that was not asked for".to_owned()))
    }
}

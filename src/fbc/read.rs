//! The blobs of one file, in bounded memory.

use std::io::Read;

use super::meta::Meta;
use super::stream::{Documents, LIMIT_BYTES};

pub use super::stream::StreamError;

/// The blobs of one file, in its order. Ends after the first error.
///
/// Only one document is in memory at a time.
#[derive(Debug)]
pub struct Metas<R> {
    documents: Documents<R>,
}

/// A blob and where it stands in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The blob.
    pub meta: Meta,
    /// The line on which its content begins, from 1.
    pub line: usize,
}

impl<R: Read> Metas<R> {
    /// The blobs of `input`; no document may be larger than 16 MiB.
    pub fn new(input: R) -> Self {
        Self::with_limit(input, LIMIT_BYTES)
    }

    /// The blobs of `input`; no document may be larger than `limit_bytes`.
    pub fn with_limit(input: R, limit_bytes: usize) -> Self {
        Self {
            documents: Documents::new(input, limit_bytes),
        }
    }
}

impl<R: Read> Metas<R> {
    /// The next document and its line, also one without content, which is no blob.
    pub fn next_document(&mut self) -> Option<Result<(Option<Meta>, usize), StreamError>> {
        self.documents
            .next(|normalizer, line| Ok((Meta::of(normalizer)?, line)))
            .transpose()
    }
}

impl<R: Read> Iterator for Metas<R> {
    type Item = Result<Located, StreamError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_document()? {
                Ok((Some(meta), line)) => return Some(Ok(Located { meta, line })),
                Ok((None, _)) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! The documents of a YAML text, as Go's `YAMLReader` tells them apart: at lines that begin with `---`.

/// One document of a YAML text.
#[derive(Debug, Clone)]
pub(crate) struct Chunk<'a> {
    /// The document's text, a leading separator line included.
    pub(crate) bytes: &'a [u8],
    /// How many bytes it takes, the separator line after it included.
    pub(crate) consumed: usize,
}

/// The first document of `bytes`, absent when nothing follows. `is_whole` says that no bytes follow `bytes`;
/// otherwise a document that might go on beyond them is [`ChunkError::Incomplete`].
pub(crate) fn first_chunk(bytes: &[u8], is_whole: bool) -> Result<Option<Chunk<'_>>, ChunkError> {
    let mut at = 0;
    while at < bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        let length = match memchr::memchr(b'\n', rest) {
            Some(newline) => newline + 1,
            None if is_whole => rest.len(),
            None => return Err(ChunkError::Incomplete),
        };
        if let Some(after) = rest
            .get(..length)
            .and_then(|line| line.strip_prefix(b"---"))
        {
            let comment = after.trim_ascii().first();
            if comment.is_some_and(|first| *first != b'#') {
                return Err(ChunkError::Separator { offset: at });
            }
            if at > 0 {
                return Ok(Some(Chunk {
                    bytes: bytes.get(..at).unwrap_or_default(),
                    consumed: at + length,
                }));
            }
        }
        at += length;
    }
    if !is_whole {
        return Err(ChunkError::Incomplete);
    }
    let chunk = Chunk {
        bytes,
        consumed: bytes.len(),
    };
    Ok(Some(chunk).filter(|chunk| !chunk.bytes.is_empty()))
}

/// Why there is no first document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkError {
    /// More bytes are needed.
    Incomplete,
    /// Something other than a comment stands behind `---`.
    Separator { offset: usize },
}

/// The problem with a separator line.
pub(crate) const SEPARATOR_PROBLEM: &str =
    "only a comment may follow the document separator `---` on its line";

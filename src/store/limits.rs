//! How much may be unpacked.

/// What there is too much of when [`Limits::kept_bytes`] is exceeded.
pub(super) const KEPT_BYTES: &str = "bytes of files";

/// How much may be unpacked of one image.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Entries of all layers together. The largest base images have some 100,000.
    pub entries: u64,
    /// Bytes of files that are kept. The largest catalog known has some 300 MB.
    pub kept_bytes: u64,
    /// Uncompressed bytes of all layers together.
    pub uncompressed_bytes: u64,
    /// Uncompressed bytes per compressed byte; repetitive YAML reaches 100.
    pub expansion_ratio: u64,
    /// Uncompressed bytes that are free of the ratio, so that small archives may be as repetitive as they like.
    pub expansion_grace_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries: 500_000,
            kept_bytes: 4 << 30,
            uncompressed_bytes: 16 << 30,
            expansion_ratio: 600,
            expansion_grace_bytes: 256 << 20,
        }
    }
}

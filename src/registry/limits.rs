//! The bounds of a pull. Each says why it is what it is.

use std::time::Duration;

/// The largest manifest or index, in bytes: the limit of the reference; registries themselves refuse more.
pub const MAX_MANIFEST_BYTES: u64 = 4 << 20;

/// The largest image configuration, in bytes: the limit of the reference.
pub const MAX_CONFIG_BYTES: u64 = 4 << 20;

/// The largest answer of a token service, in bytes: the limit of the reference.
pub const MAX_TOKEN_BYTES: u64 = 1 << 20;

/// The largest error document that is read, in bytes: only its code is used.
pub const MAX_ERROR_BYTES: u64 = 64 << 10;

/// The largest layer as it is transferred, in bytes: some four times the largest operator catalog layer known.
pub const MAX_LAYER_BYTES: u64 = 4 << 30;

/// The most layers of one image: the limit of overlay file systems is 500, of Docker 127.
pub const MAX_LAYERS: usize = 500;

/// How long a connection may take to stand.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a registry may keep silent in the middle of an answer.
pub const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a manifest, a configuration or a token may take altogether, retries not counted.
pub const DOCUMENT_TIMEOUT: Duration = Duration::from_mins(1);

/// How long one layer may take altogether: the largest one at 2 MB/s.
pub const LAYER_TIMEOUT: Duration = Duration::from_mins(35);

/// How many redirects are followed: registries redirect once, to their storage.
pub const MAX_REDIRECTS: usize = 5;

/// The longest wait that a registry's `Retry-After` can impose: as long as between two attempts of any failing object.
pub const MAX_RETRY_AFTER: Duration = Duration::from_mins(5);

/// How long a token is used when its service does not say: what the token specification prescribes.
pub const DEFAULT_TOKEN_LIFETIME: Duration = Duration::from_mins(1);

/// Taken off a token's life, so that none expires on its way.
pub const TOKEN_MARGIN: Duration = Duration::from_secs(10);

/// How often a request is tried again.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// Attempts in all, after connection failures and 5xx.
    pub attempts: u32,
    /// Attempts in all, after 429: waiting is what the registry asks for.
    pub attempts_when_throttled: u32,
    /// The first wait; each further one is twice as long.
    pub first_delay: Duration,
    /// The longest wait. A registry that asks for a longer one is not waited for: the pull fails, and says so.
    pub max_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 3,
            attempts_when_throttled: 6,
            first_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(30),
        }
    }
}

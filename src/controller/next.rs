//! What a pass says of the next one.

use std::time::Duration;

/// When an object is to be looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    OnChange,
    /// After this time, or when something changes.
    After(Duration),
    /// The pass failed: after a growing delay, or when something changes.
    Retry,
    /// The pass failed, and another attempt would not mend it: when something changes, or after this time if there is one.
    Blocked(Option<Duration>),
}

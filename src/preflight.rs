//! Checks before the first write.

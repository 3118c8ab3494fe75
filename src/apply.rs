//! Phase-by-phase server-side apply.

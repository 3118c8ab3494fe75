//! The catalog content server.

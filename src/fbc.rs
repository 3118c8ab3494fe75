//! File-based catalogs: one blob at a time, packages, and the index over them.

pub mod document;
pub(crate) mod normal;
pub mod package;
pub(crate) mod scalar;
pub mod yaml;

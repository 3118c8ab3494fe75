//! File-based catalogs: one blob at a time, packages, and the index over them.

pub mod diff;
pub mod document;
pub mod edges;
pub mod ignore;
pub mod index;
pub(crate) mod json;
pub mod meta;
pub(crate) mod normal;
pub mod package;
pub(crate) mod parts;
pub mod prune;
pub mod read;
pub(crate) mod scalar;
pub mod stream;
pub(crate) mod typed;
pub mod validate;
pub mod yaml;

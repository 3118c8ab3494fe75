//! File-based catalogs: one blob at a time, packages, and the index over them.

pub mod package;

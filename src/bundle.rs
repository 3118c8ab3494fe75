//! Reading a registry+v1 bundle: a map of files becomes a typed [`RegistryV1`], or one error.
//!
//! The rules are those of the reference, whose decoders are Go's: YAML as Go reads it ([`crate::fbc::yaml`]), types as
//! Go decodes and prints them ([`typed`]), the same texts for the same defects. Which images are pulled and how
//! they become files is the shell's business; what is rendered from a bundle is [`crate::render`]'s.

mod compact;
pub mod config;
pub mod csv;
pub mod dependency;
mod manifest;
mod property;
mod registry_v1;
pub mod requirement;
pub mod typed;
pub mod unknown;

pub use compact::go_text;
pub use registry_v1::{Files, LoadError, RegistryV1};

#[cfg(test)]
mod tests;

//! Fakes on the wire, builders that read as sentences, conformance data, and the test of the walls.

pub(crate) mod api_server;
pub(crate) mod bundle;
pub(crate) mod conformance;
mod coverage;
mod errors;
mod generated;
pub(crate) mod mutation;
pub(crate) mod registry;
mod rules;
mod values;
mod walls;

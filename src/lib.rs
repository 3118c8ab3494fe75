//! oxolm: a package manager for Kubernetes operators.
//!
//! It implements the OLM v1 API: a `ClusterCatalog` is pulled, unpacked and served; a `ClusterExtension` is
//! resolved to a bundle, rendered, and applied as a `ClusterObjectSet` with the rights of the extension's own
//! service account.
//!
//! # The data's way
//!
//! ```text
//! catalog image ─canonicalize→ digest ─pull, unpack→ directory ─read→ metas ─publish→ catalog.jsonl + index → HTTP
//! spec, installed, package ─resolve→ bundle ─pull, unpack→ registry+v1 ─render→ manifests
//! manifests ─plan→ ClusterObjectSet ─apply, as the account→ cluster ─→ outcome ─→ status, events, log
//! ```
//!
//! One direction: a later stage never calls an earlier one.
//!
//! # The rooms
//!
//! *Core* is pure: no I/O, no clock, no environment, no async. *Shell* touches the world and holds no rules.
//!
//! ```text
//! main → cli → runtime → controller → { fetch serve apply } → { registry store identity } → core
//! core:  status → revision → { render preflight upgradeable } → { resolve bundle } → fbc → { api version oci error metrics }
//! ```
//!
//! A test (`testing::walls`) reads the sources and fails when a module names one above it.

// core
pub mod api;
pub mod bundle;
pub mod error;
pub mod fbc;
pub mod metrics;
pub mod oci;
pub mod preflight;
pub mod render;
pub mod resolve;
pub mod revision;
pub mod status;
pub mod upgradeable;
pub mod version;

// shell
pub mod apply;
pub mod cli;
pub mod controller;
pub mod fetch;
pub mod identity;
pub mod registry;
pub mod runtime;
pub mod serve;
pub mod store;

#[cfg(test)]
mod testing;

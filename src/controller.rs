//! The reconcilers: observe, decide (core), act, report.
//!
//! Each kind is watched once ([`informer`]); what is watched is the cache from which all reconcilers read, so a pass
//! that changes nothing sends no request. Whatever can change an answer wakes the objects whose answer it is
//! ([`queue`]). A reconciler is four lines: a step that cannot fail, a pure status, a report, the next time.

pub mod cluster_catalog;
pub mod cluster_extension;
pub mod cluster_object_set;
pub mod cluster_operator;
pub mod garbage;
pub mod informer;
pub mod metrics;
pub mod next;
pub mod pull_secrets;
pub mod queue;
pub mod report;
pub mod wiring;
pub mod written;

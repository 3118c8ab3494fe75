//! Revisions on the cluster: applied phase by phase as the account, watched for drift, taken back in order.
//!
//! Rules live in [`crate::revision`]; this room reads, writes and remembers. Everything that touches the objects of
//! a revision is done as its account, by a client of [`crate::identity`].

pub mod discovery;
pub mod objects;
pub mod permissions;
pub mod phases;
pub mod revisions;
pub mod secrets;
pub mod teardown;
pub mod watch;

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

use futures::{StreamExt as _, stream};

/// How many objects of one revision are read or written at the same time. More does not make the API server faster,
/// and other revisions want their turn.
const SIDE_BY_SIDE: usize = 8;

/// Awaits all of `work`, at most [`SIDE_BY_SIDE`] at a time. The answers are in the order of the questions.
async fn side_by_side<F: Future>(work: Vec<F>) -> Vec<F::Output> {
    stream::iter(work).buffered(SIDE_BY_SIDE).collect().await
}

//! Revisions on the cluster: applied phase by phase as the account, watched for drift, taken back in order.
//!
//! Rules live in [`crate::revision`]; this room reads, writes and remembers. Everything that touches the objects of
//! a revision is done as its account, by a client of [`crate::identity`].

pub mod certificates;
pub mod content;
pub mod crd_upgrade;
pub mod discovery;
pub mod endpoints;
pub mod kinds;
pub mod objects;
pub mod permissions;
pub mod phases;
pub mod revisions;
pub mod secrets;
pub mod survey;
pub mod teardown;
pub mod watch;

use futures::future::BoxFuture;
use futures::{StreamExt as _, stream};

/// How many objects of one revision are read, written or deleted at the same time. More does not make the API server
/// faster, and other revisions want their turn.
const SIDE_BY_SIDE: usize = 8;

/// The results of `futures`, in their order, a few at a time.
///
/// They are boxed because the compiler cannot show that a stream of futures that borrow from its items may be sent to
/// another thread (rust-lang/rust#102211).
async fn side_by_side<T>(futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    stream::iter(futures).buffered(SIDE_BY_SIDE).collect().await
}

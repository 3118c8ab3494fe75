//! The catalog content server: what the published catalogs hold, for people and consoles.
//!
//! ```text
//! GET, HEAD  /catalogs/{catalog}/api/v1/all                               every blob, one per line
//! GET, HEAD  /catalogs/{catalog}/api/v1/metas?schema=…&package=…&name=…   the blobs that have all of these
//! ```
//!
//! Statuses, bodies and headers are those of the reference, except that `metas` knows ranges, too, and that
//! there is a strong `ETag` (decision D30). oxolm itself never asks over HTTP: the resolver reads the same
//! [`StoredCatalog`]s.

mod answer;
mod body;
mod condition;
mod connection;
mod guard;
mod lasting;
mod metrics;
mod server;
mod tls;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::oci::digest::Digest;
use crate::store::catalog::StoredCatalog;

pub use self::answer::router;
pub use self::metrics::Metrics;
pub use self::server::{Options, ServeError, Server, start};
pub use self::tls::{Certificate, Profile, ServingCertificate, Tls};

/// The catalogs being served, by name. Clones are one table; readers never wait.
///
/// Whoever holds a [`StoredCatalog`] keeps its content, also after another took its place.
#[derive(Debug, Clone, Default)]
pub struct Served(Arc<ArcSwap<BTreeMap<String, Arc<StoredCatalog>>>>);

impl Served {
    /// The catalog of this name.
    pub fn get(&self, name: &str) -> Option<Arc<StoredCatalog>> {
        self.0.load().get(name).cloned()
    }

    /// Serves `catalog` under this name from now on.
    #[expect(clippy::needless_pass_by_value, reason = "the table takes it")]
    pub fn set(&self, name: &str, catalog: Arc<StoredCatalog>) {
        self.0.rcu(|table| {
            let mut table = BTreeMap::clone(table);
            table.insert(name.to_owned(), catalog.clone());
            table
        });
    }

    /// Stops serving the catalog of this name.
    pub fn remove(&self, name: &str) {
        self.0.rcu(|table| {
            let mut table = BTreeMap::clone(table);
            table.remove(name);
            table
        });
    }

    /// The digests of all catalogs being served.
    pub fn digests(&self) -> BTreeSet<Digest> {
        let table = self.0.load();
        table
            .values()
            .map(|catalog| catalog.digest().clone())
            .collect()
    }

    /// The names of all catalogs being served, sorted.
    pub fn names(&self) -> Vec<String> {
        self.0.load().keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests;

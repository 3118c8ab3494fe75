//! What is on disk and needed no more goes.
//!
//! Needed is: what is served here, what the leader says is served, and the bundles of revisions. Everything else has
//! a grace after its last use; when something did not fit, it goes without.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::error::chain;
use crate::oci::digest::Digest;
use crate::store::ContentStore;
use crate::store::catalog::CatalogStore;

/// The time between two looks.
const PERIOD: Duration = Duration::from_mins(10);
/// How long a published catalog stays that nobody serves: a tag that is set back needs no pull.
const CATALOG_GRACE: Duration = Duration::from_mins(10);
/// How long an unpacked image stays that nobody asks for: that of a bundle whose rollout is being decided, say.
const IMAGE_GRACE: Duration = Duration::from_hours(1);

/// What must stay.
#[derive(Debug, Default)]
pub struct Needed {
    /// Published catalogs.
    pub catalogs: BTreeSet<Digest>,
    /// Unpacked images.
    pub images: BTreeSet<Digest>,
}

/// How much grace there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grace {
    /// As much as the contents' kinds have.
    Usual,
    /// None: there is no room for something that is wanted.
    None,
}

/// Tells what must stay.
type Tell = Box<dyn Fn() -> Needed + Send + Sync>;

/// Collects garbage.
pub struct Garbage {
    content: ContentStore,
    catalogs: CatalogStore,
    needed: Tell,
}

impl fmt::Debug for Garbage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Garbage")
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}

impl Garbage {
    /// Of these stores; `needed` is asked each time.
    pub fn new(
        content: ContentStore,
        catalogs: CatalogStore,
        needed: impl Fn() -> Needed + Send + Sync + 'static,
    ) -> Self {
        Self {
            content,
            catalogs,
            needed: Box::new(needed),
        }
    }

    /// Collects now and then, and when something did not fit, until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(PERIOD);
        loop {
            let grace = tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => Grace::Usual,
                () = self.content.shortage() => Grace::None,
            };
            self.collect(grace).await;
        }
    }

    /// Removes what is not needed.
    pub async fn collect(&self, grace: Grace) {
        let needed = (self.needed)();
        let (content, catalogs) = (self.content.clone(), self.catalogs.clone());
        let (catalog_grace, image_grace) = match grace {
            Grace::Usual => (CATALOG_GRACE, IMAGE_GRACE),
            Grace::None => (Duration::ZERO, Duration::ZERO),
        };
        let collected = spawn_blocking(move || {
            let catalogs = catalogs.collect_garbage(&needed.catalogs, catalog_grace);
            // One that cannot be removed does not keep the others.
            let images = content.collect_garbage(&needed.images, image_grace);
            (catalogs, images)
        });
        let Ok((catalogs, images)) = collected.await else {
            return;
        };
        match &catalogs {
            Ok(removed) if removed.is_empty() => {}
            Ok(removed) => info!(
                catalogs = removed.len(),
                "removed catalogs that nobody serves"
            ),
            Err(error) => warn!(error = chain(error), "cannot remove old catalogs"),
        }
        match &images {
            Ok(removed) if removed.is_empty() => {}
            Ok(removed) => info!(images = removed.len(), "removed images that nobody needs"),
            Err(error) => warn!(error = chain(error), "cannot remove old images"),
        }
    }
}

//! What every replica does, whether it leads or not: serve what the leader says, at once after a restart.

use std::sync::Arc;

use kube::ResourceExt;
use tokio::task::spawn_blocking;
use tracing::{debug, info, warn};

use super::memory::ServedCatalog;
use super::{Context, publish, resolved};
use crate::api::ClusterCatalog;
use crate::api::cluster_catalog::AvailabilityMode;
use crate::api::condition::{ConditionType, is_true};
use crate::controller::next::Next;
use crate::error::chain;
use crate::oci::reference::CanonicalReference;

/// A follower serves what the leader says, and writes nothing.
pub(super) async fn follow(catalog: &ClusterCatalog, ctx: &Context) -> Next {
    let name = catalog.name_any();
    let is_wanted = catalog.metadata.deletion_timestamp.is_none()
        && catalog.spec.availability_mode == AvailabilityMode::Available;
    let reference = catalog
        .status
        .as_ref()
        .and_then(resolved)
        .filter(|_| is_wanted);
    let Some(reference) = reference else {
        if ctx.withdraw(&name) {
            info!(
                catalog = name,
                "stopped serving catalog: the leader does not serve it"
            );
        }
        return Next::OnChange;
    };
    if ctx
        .memory
        .served(&name)
        .is_some_and(|served| served.reference.to_string() == reference)
    {
        return Next::OnChange;
    }
    let canonical = match CanonicalReference::parse(&reference) {
        Ok(canonical) => canonical,
        Err(error) => {
            warn!(
                catalog = name,
                error = chain(&error),
                "cannot follow the catalog's status"
            );
            return Next::OnChange;
        }
    };
    match publish(catalog, &canonical, true, ctx).await {
        Ok(_) => Next::OnChange,
        Err(error) => {
            warn!(
                catalog = name,
                error = chain(&error),
                "cannot serve what the leader serves"
            );
            Next::Retry
        }
    }
}

/// Serves at once what is on disk for `catalog`, without a registry. False when it is not there.
pub async fn restore(catalog: &ClusterCatalog, ctx: &Context) -> bool {
    let name = catalog.name_any();
    let wanted = catalog.spec.availability_mode == AvailabilityMode::Available;
    let reference = catalog
        .status
        .as_ref()
        .and_then(resolved)
        .filter(|_| wanted);
    let Some(canonical) =
        reference.and_then(|reference| CanonicalReference::parse(&reference).ok())
    else {
        return false;
    };
    let (store, digest) = (ctx.store.clone(), canonical.digest.clone());
    match spawn_blocking(move || store.open(&digest)).await {
        Ok(Ok(Some(stored))) => {
            let served = ServedCatalog::of(catalog, canonical, stored);
            ctx.serve(&name, &Arc::new(served));
            debug!(catalog = name, "serving from disk");
            true
        }
        Ok(Ok(None)) | Err(_) => false,
        Ok(Err(error)) => {
            warn!(
                catalog = name,
                error = chain(&error),
                "content on disk is not usable; it will be unpacked again"
            );
            false
        }
    }
}

/// The names of the catalogs that are served by the leader and not here.
pub fn not_on_disk(catalogs: &[Arc<ClusterCatalog>], ctx: &Context) -> Vec<String> {
    let is_serving = |catalog: &&Arc<ClusterCatalog>| {
        catalog
            .status
            .as_ref()
            .is_some_and(|status| is_true(&status.conditions, ConditionType::Serving))
    };
    let names = catalogs
        .iter()
        .filter(is_serving)
        .map(|catalog| catalog.name_any());
    names
        .filter(|name| ctx.memory.served(name).is_none())
        .collect()
}

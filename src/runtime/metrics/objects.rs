//! Extensions and catalogs as metrics, read from the watch caches when somebody asks.
//!
//! Every replica tells all of them, from its own caches, so nothing goes silent when another one begins to lead; who asks
//! several replicas takes the maximum by name. Nothing is kept between scrapes: an object that is gone is not told. What
//! blocks the cluster's upgrade is known to the leader alone.

use std::fmt;
use std::sync::{Arc, OnceLock};

use kube::ResourceExt as _;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};

use crate::api::condition::{Condition, ConditionStatus, ConditionType, Reason};
use crate::api::{ClusterCatalog, ClusterExtension};
use crate::controller::cluster_operator::Known;
use crate::controller::informer::Informer;
use crate::metrics::{
    CATALOG_CONDITION, CATALOG_INFO, CATALOG_SERVED, EXTENSION_BLOCKS, EXTENSION_CONDITION,
    EXTENSION_DELETION, EXTENSION_INFO, EXTENSION_UPDATE,
};
use crate::serve::Served;

/// What a condition's type or reason is called that is not one of ours: somebody else wrote it.
const OTHER: &str = "Other";

/// The watch caches.
#[derive(Debug)]
pub struct Objects {
    /// All extensions.
    pub extensions: Informer<ClusterExtension>,
    /// All catalogs.
    pub catalogs: Informer<ClusterCatalog>,
    /// What this replica serves.
    pub served: Served,
    /// What blocks the cluster's upgrade, once this replica leads.
    pub openshift: Arc<OnceLock<Arc<Known>>>,
}

impl Collector for Objects {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let extensions = self.extensions.all();
        tell_extensions(encoder, &extensions)?;
        self.tell_blocks(encoder, &extensions)?;
        drop(extensions);
        self.tell_catalogs(encoder)
    }
}

fn tell_extensions(
    encoder: &mut DescriptorEncoder<'_>,
    extensions: &[Arc<ClusterExtension>],
) -> fmt::Result {
    let mut info = EXTENSION_INFO.begin(encoder)?;
    for extension in extensions {
        let install = (extension.status.as_ref()).and_then(|status| status.install.as_ref());
        let package = (extension.spec.source.catalog.as_ref()).map(|one| one.package_name.as_str());
        let labels = [
            ("bundle", install.map_or("", |install| &install.bundle.name)),
            (
                "catalog",
                install
                    .and_then(|install| install.catalog.as_deref())
                    .unwrap_or_default(),
            ),
            ("install_namespace", &extension.spec.namespace),
            ("name", name(extension.as_ref())),
            ("package", package.unwrap_or_default()),
            (
                "version",
                install.map_or("", |install| &install.bundle.version),
            ),
        ];
        info.encode_family(&labels)?.encode_gauge(&1_i64)?;
    }
    let mut conditions = EXTENSION_CONDITION.begin(encoder)?;
    for extension in extensions {
        let status = extension.status.as_ref();
        let all = status.map(|status| status.conditions.as_slice());
        tell_conditions(&mut conditions, name(extension.as_ref()), all)?;
    }
    let mut updates = EXTENSION_UPDATE.begin(encoder)?;
    for extension in extensions {
        let status = extension.status.as_ref();
        let Some(update) = status.and_then(|status| status.available_update.as_ref()) else {
            continue;
        };
        let labels = [
            ("bundle", update.bundle.as_str()),
            ("name", name(extension.as_ref())),
            ("version", &update.version),
        ];
        updates.encode_family(&labels)?.encode_gauge(&1_i64)?;
    }
    let mut deletions = EXTENSION_DELETION.begin(encoder)?;
    for extension in extensions {
        if let Some(at) = &extension.metadata.deletion_timestamp {
            let labels = [("name", name(extension.as_ref()))];
            let seconds = at.0.as_second();
            deletions.encode_family(&labels)?.encode_gauge(&seconds)?;
        }
    }
    Ok(())
}

impl Objects {
    fn tell_blocks(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        extensions: &[Arc<ClusterExtension>],
    ) -> fmt::Result {
        let mut blocks = EXTENSION_BLOCKS.begin(encoder)?;
        let Some(blocking) = self.openshift.get().and_then(|known| known.blocking()) else {
            return Ok(());
        };
        for extension in extensions {
            let name = name(extension.as_ref());
            let does = i64::from(blocking.contains(name));
            blocks
                .encode_family(&[("name", name)])?
                .encode_gauge(&does)?;
        }
        Ok(())
    }

    fn tell_catalogs(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let catalogs = self.catalogs.all();
        let mut info = CATALOG_INFO.begin(encoder)?;
        for catalog in &catalogs {
            let labels = [
                ("availability", catalog.spec.availability_mode.as_str()),
                ("name", name(catalog.as_ref())),
            ];
            info.encode_family(&labels)?.encode_gauge(&1_i64)?;
        }
        let mut conditions = CATALOG_CONDITION.begin(encoder)?;
        for catalog in &catalogs {
            let status = catalog.status.as_ref();
            let all = status.map(|status| status.conditions.as_slice());
            tell_conditions(&mut conditions, name(catalog.as_ref()), all)?;
        }
        let mut served = CATALOG_SERVED.begin(encoder)?;
        for catalog in &catalogs {
            let is_served = self.served.get(&catalog.name_any()).is_some();
            served
                .encode_family(&[("name", name(catalog.as_ref()))])?
                .encode_gauge(&i64::from(is_served))?;
        }
        Ok(())
    }
}

fn name<K: kube::Resource>(object: &K) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

/// Words that are not ours are not told: who may write a status must not be able to make up labels without end.
fn tell_conditions(
    family: &mut MetricEncoder<'_>,
    name: &str,
    conditions: Option<&[Condition]>,
) -> fmt::Result {
    for condition in conditions.unwrap_or_default() {
        let Some(kind) = ConditionType::parse(&condition.type_) else {
            continue;
        };
        let labels = [
            ("name", name),
            (
                "reason",
                Reason::parse(&condition.reason).map_or(OTHER, Reason::as_str),
            ),
            ("type", kind.as_str()),
        ];
        family
            .encode_family(&labels)?
            .encode_gauge(&value(condition))?;
    }
    Ok(())
}

fn value(condition: &Condition) -> i64 {
    match condition.status.as_str() {
        status if status == ConditionStatus::True.as_str() => 1,
        status if status == ConditionStatus::False.as_str() => 0,
        _ => -1,
    }
}

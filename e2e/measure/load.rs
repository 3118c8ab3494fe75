//! Many packages of fifty shapes, each with objects of its own names, in one catalog.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use oxolm::api::condition::{self, ConditionType};
use oxolm::api::{ClusterCatalog, ClusterExtension};
use serde_json::json;

use crate::harness::package::{Bundle, Package, entry};
use crate::harness::{Cluster, objects};

/// The namespace that all are installed in, and the name of the catalog.
pub(super) const NAME: &str = "scale";
/// How many requests are under way at once.
pub(super) const AT_ONCE: usize = 16;
/// A bundle of shape N has N/10 further `ConfigMaps`; one that is alone has a CRD.
const SHAPES: usize = 50;
/// Deployment, three accounts' objects, `ConfigMap` and Service of every bundle.
const OBJECTS_OF_EVERY_BUNDLE: usize = 8;
/// How long all may take.
const DEADLINE: Duration = Duration::from_mins(30);

pub(super) struct Load {
    cluster: Arc<Cluster>,
    packages: Vec<Package>,
}

/// A further object of a bundle.
const FURTHER: [(&str, &str); 5] = [
    (
        "a.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: PACKAGE-a}, data: {a: VERSION}}",
    ),
    (
        "b.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: PACKAGE-b}, data: {b: VERSION}}",
    ),
    (
        "c.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: PACKAGE-c}, data: {c: VERSION}}",
    ),
    (
        "d.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: PACKAGE-d}, data: {d: VERSION}}",
    ),
    (
        "e.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: PACKAGE-e}, data: {e: VERSION}}",
    ),
];

fn further(number: usize) -> usize {
    number % SHAPES / 10
}

/// The figures of one install were set for a bundle of nine objects, as most operators have them.
fn has_crd(count: usize) -> bool {
    count == 1
}

impl Load {
    /// Pushes `count` bundles and their catalog, and makes the namespace with its account.
    pub(super) async fn prepare(cluster: Arc<Cluster>, count: usize) -> anyhow::Result<Self> {
        let packages: Vec<Package> = (0..count)
            .map(|number| Package::new(&format!("{NAME}-{number}")))
            .collect::<anyhow::Result<_>>()?;
        stream::iter(packages.iter().enumerate())
            .map(|(number, package)| async move {
                let bundle = Bundle {
                    has_crd: has_crd(count),
                    manifests: FURTHER[..further(number)]
                        .iter()
                        .map(|(name, text)| (*name, (*text).to_owned()))
                        .collect(),
                    ..Bundle::new("1.0.0")
                };
                package.push_bundle(&bundle).await
            })
            .buffer_unordered(4)
            .try_collect::<Vec<_>>()
            .await?;
        let yaml = format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAME}}}\n---\n\
             apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: installer, namespace: {NAME}}}\n---\n\
             apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: {NAME}}}\n\
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}\n\
             subjects: [{{kind: ServiceAccount, name: installer, namespace: {NAME}}}]\n"
        );
        objects::apply(&cluster.client, &yaml).await?;
        Ok(Self { cluster, packages })
    }

    pub(super) async fn add_catalog(&self) -> anyhow::Result<()> {
        let mut text = String::new();
        for package in &self.packages {
            _ = writeln!(text, "{}---", package.catalog_text(&[entry("1.0.0", "")]));
        }
        let first = self.packages.first().context("there is a package")?;
        let reference = first.push_catalog_text("all", &text).await?;
        let yaml = format!(
            "apiVersion: olm.operatorframework.io/v1\nkind: ClusterCatalog\nmetadata: {{name: {NAME}}}\n\
             spec: {{source: {{type: Image, image: {{ref: '{reference}'}}}}}}\n"
        );
        objects::apply(&self.cluster.client, &yaml).await?;
        let api: Api<ClusterCatalog> = Api::all(self.cluster.client.clone());
        for _ in 0..600 {
            let catalog = api.get(NAME).await?;
            if catalog.status.is_some_and(|status| {
                condition::is_true(&status.conditions, ConditionType::Serving)
            }) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!(
            "the catalog is not served: {}",
            self.cluster.controller.last_lines(10)
        )
    }

    fn extensions(&self) -> Api<ClusterExtension> {
        Api::all(self.cluster.client.clone())
    }

    pub(super) async fn add_extensions(&self) -> anyhow::Result<()> {
        let api = self.extensions();
        stream::iter(&self.packages)
            .map(|package| {
                let api = api.clone();
                async move {
                    let object = json!({
                        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
                        "metadata": {"name": package.name},
                        "spec": {
                            "namespace": NAME, "serviceAccount": {"name": "installer"},
                            "source": {"sourceType": "Catalog", "catalog": {"packageName": package.name}},
                        },
                    });
                    let object = serde_json::from_value(object)?;
                    api.create(&PostParams::default(), &object).await?;
                    anyhow::Ok(())
                }
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    pub(super) async fn until_installed(&self) -> anyhow::Result<()> {
        self.until("installed", |list| {
            let installed = list.iter().filter(|extension| {
                extension.status.as_ref().is_some_and(|status| {
                    condition::is_true(&status.conditions, ConditionType::Installed)
                })
            });
            installed.count() == self.packages.len()
        })
        .await
    }

    /// Deletes all, and waits until they are gone.
    pub(super) async fn uninstall(&self) -> anyhow::Result<()> {
        let api = self.extensions();
        stream::iter(&self.packages)
            .map(|package| {
                let api = api.clone();
                async move {
                    let parameters = DeleteParams::background();
                    api.delete(&package.name, &parameters).await?;
                    anyhow::Ok(())
                }
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        self.until("uninstalled", <[ClusterExtension]>::is_empty)
            .await
    }

    async fn until(
        &self,
        what: &str,
        holds: impl Fn(&[ClusterExtension]) -> bool,
    ) -> anyhow::Result<()> {
        let api = self.extensions();
        let looked = async {
            loop {
                // From the watch cache: looking must not cost the API server what is measured.
                let parameters = ListParams::default().match_any();
                if holds(&api.list(&parameters).await?.items) {
                    return anyhow::Ok(());
                }
                let pause = if self.packages.len() > 100 { 500 } else { 50 };
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
        };
        match tokio::time::timeout(DEADLINE, looked).await {
            Ok(result) => result,
            Err(_) => bail!(
                "not all are {what}: {}",
                self.cluster.controller.last_lines(20)
            ),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.packages.len()
    }

    /// The objects of all bundles.
    pub(super) fn count_objects(&self) -> usize {
        let further: usize = (0..self.count()).map(further).sum();
        self.count() * OBJECTS_OF_EVERY_BUNDLE + further + usize::from(has_crd(self.count()))
    }
}
